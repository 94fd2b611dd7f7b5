#!/usr/bin/env python3
"""The same kills for us and for torchft: what is lost, what is done again, and how soon the next step comes.

`bench/README.md` says how to read it.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from statistics import mean

import chaos
from harness.case import WORK, BenchError
from harness.faults.stage import free_ports
from harness.machine import describe, warn_if_busy
from harness.tables import folder_for, keep
from harness.toolchain import existing_binary, say, shown

WORKERS = chaos.WORKERS
BATCH = 32
LEARNING_RATE = 0.03  # that of `examples/lenet-mnist.toml`
PEER = Path(__file__).resolve().parent / "peers" / "pytorch" / "torchft_replica.py"
PYTHON = Path(__file__).resolve().parent / ".venv" / "bin" / "python"
EXAMPLES = 60_000


class Rival:
    """One run of torchft under kills."""

    def __init__(self, options: argparse.Namespace, seed: int) -> None:
        self.options, self.seed = options, seed
        self.steps: list[dict] = []
        self.accuracies: list[float] = []
        self.readers: list[threading.Thread] = []
        lighthouse = PYTHON.with_name("torchft_lighthouse")
        if not lighthouse.exists():
            raise BenchError("torchft is missing: `bench/.venv/bin/pip install -r bench/peers/pytorch/requirements.txt`")
        (port,) = free_ports(1)
        self.address = f"http://localhost:{port}"
        command = [lighthouse, "--min_replicas", "1", "--join_timeout_ms", "1000", "--bind", f"[::]:{port}"]
        self.lighthouse = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def start(self, place: int) -> subprocess.Popen:
        data = lambda part, file: WORK / f"mnist-{part}" / f"{file}.idx"
        command = [PYTHON, PEER, "--batch", BATCH, "--epochs", self.options.epochs, "--learning-rate", LEARNING_RATE]
        command += ["--images", data("train", "features"), "--labels", data("train", "labels")]
        command += ["--test-images", data("test", "features"), "--test-labels", data("test", "labels")]
        command += ["--seed", self.seed, "--replica", place, "--replicas", WORKERS, "--lighthouse", self.address]
        replica = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.readers.append(threading.Thread(target=self.read, args=(replica,)))
        self.readers[-1].start()
        return replica

    def read(self, replica: subprocess.Popen) -> None:
        for line in replica.stdout:
            event = json.loads(line)
            if event["event"] == "step":
                self.steps.append(event)
            else:
                self.accuracies.append(event["accuracy"])

    def go(self) -> dict:
        replicas = [self.start(place) for place in range(WORKERS)]
        try:
            self.until(lambda: len({step["first"] % (WORKERS * BATCH) for step in self.steps}) == WORKERS, "a step of all")
            chance, began, kills = random.Random(self.seed), time.monotonic(), []
            while time.monotonic() - began < self.options.seconds and not self.accuracies:
                time.sleep(self.options.every)
                place = chance.randrange(WORKERS)
                replicas[place].kill()
                kills.append(time.monotonic())
                replicas[place].wait()
                replicas[place] = self.start(place)
            self.until(lambda: self.accuracies, "the end")
            over = time.monotonic()
        finally:
            for process in [*replicas, self.lighthouse]:
                process.kill()
                process.wait()
            for reader in self.readers:
                reader.join()
        return self.result(kills, began, over)

    def until(self, happens: object, what: str, seconds: float = 1200) -> None:
        limit = time.monotonic() + seconds
        while not happens():
            if time.monotonic() > limit:
                raise BenchError(f"torchft: expected {what} within {seconds:.0f} s")
            time.sleep(0.05)

    def result(self, kills: list[float], began: float, over: float) -> dict:
        taken = [(step["epoch"], step["first"]) for step in self.steps]
        batches = self.options.epochs * (EXAMPLES // (BATCH * WORKERS)) * WORKERS
        lost, again = batches - len(set(taken)), len(taken) - len(set(taken))
        times = sorted(step["at"] for step in self.steps)
        after = [min((at - kill for at in times if at > kill), default=None) for kill in kills]
        pauses = [longest_pause(times, kill, kill + self.options.every) for kill in kills]
        return {
            "system": "torchft",
            "seed": self.seed,
            "kills": len(kills),
            "accuracy": self.accuracies[0],
            "examples lost": lost * BATCH,
            "examples again": again * BATCH,
            "next step, mean s": mean(at for at in after if at is not None),
            "next step, worst s": max(at for at in after if at is not None),
            "longest pause, s": max(pauses),
            "seconds": over - began,
        }


def longest_pause(times: list[float], start: float, end: float) -> float:
    """The longest time without a step between two moments."""
    marks = [start, *(at for at in times if start < at < end), end]
    return max(later - earlier for earlier, later in zip(marks, marks[1:]))


def ours(options: argparse.Namespace, seed: int) -> dict:
    with tempfile.TemporaryDirectory() as folder:
        run = chaos.Run(options, "sync", seed, Path(folder) / "run")
        run.go()
        at = lambda name: [event["at"] for event in run.events if event["event"] == name]
        finished, kills, times = run.events[-1], run.kills, at("step")
        after = [min((time - kill for time in times if time > kill), default=None) for kill in kills]
        again = sum(event.get("examples") or 0 for event in run.events if event["event"] == "lease_repeated")
        aside = sum(event["examples"] for event in run.events if event["event"] == "set_aside")
        return {
            "system": "paceline, `sync`",
            "seed": seed,
            "kills": len(kills),
            "accuracy": finished["accuracy"],
            "examples lost": options.epochs * EXAMPLES - finished["examples"] + aside,
            "examples again": again,
            "next step, mean s": mean(at for at in after if at is not None),
            "next step, worst s": max(at for at in after if at is not None),
            "longest pause, s": max(longest_pause(times, kill, min(kill + options.every, times[-1])) for kill in kills),
            "seconds": finished["seconds"],
        }


def table(results: list[dict]) -> str:
    figure = lambda value: f"{value:,.4g}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else value
    lines = ["| " + " | ".join(results[0]) + " |", "|" + "---|" * len(results[0])]
    return "\n".join(lines + ["| " + " | ".join(figure(value) for value in result.values()) + " |" for result in results]) + "\n"


def main() -> None:
    options = parse_options()
    binary = options.binary = existing_binary(options.binary)
    warn_if_busy()
    results: list[dict] = []
    folder = folder_for("rivals", options.quick)
    for seed in range(1, options.seeds + 1):
        for run in (lambda: ours(options, seed), lambda: Rival(options, seed).go()):
            results.append(run())
            say(", ".join(f"{key}: {value}" for key, value in results[-1].items()))
            keep(folder, {"kind": "rivals", "machine": describe(binary, None), "runs": results}, table(results))
    print(table(results), flush=True)
    say(f"kept in `{shown(folder)}`")


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=Path, default=chaos.ROOT / "target/release/paceline")
    parser.add_argument("--quick", action="store_true", help="smoke run, not kept")
    parser.add_argument("--seconds", type=float, default=60, help="how long workers are killed")
    parser.add_argument("--every", type=float, default=5, help="seconds between two kills")
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--cache", type=Path, help="where MNIST is, for a machine without a network")
    return parser.parse_args()


if __name__ == "__main__":
    try:
        main()
    except BenchError as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
