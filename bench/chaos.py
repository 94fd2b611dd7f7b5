#!/usr/bin/env python3
"""Four worker processes, one of which is killed every few seconds and replaced: how the run ends, and what it took.

Beside it one lone process trains as many epochs with the same seed. `bench/README.md` says how to read it.
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

ROOT = Path(__file__).resolve().parents[1]
JOB = ROOT / "examples" / "lenet-mnist.toml"
WORKERS = 4


class Run:
    """One run under kills."""

    def __init__(self, options: argparse.Namespace, mode: str, seed: int, output: Path) -> None:
        self.options, self.mode, self.seed = options, mode, seed
        self.events: list[dict] = []
        self.listening = threading.Event()
        command = [*self.command("master"), JOB, "--mode", mode, *settings(options, seed), "--output", output]
        self.master = subprocess.Popen(
            list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=ROOT
        )
        self.reader = threading.Thread(target=self.read)
        self.reader.start()
        self.listening.wait(30)

    def command(self, name: str) -> list[str]:
        cache = ["--cache", str(self.options.cache), "--offline"] if self.options.cache else []
        return [str(self.options.binary), name, "--events", "json", *cache]

    def read(self) -> None:
        for line in self.master.stdout:
            event = json.loads(line)
            self.events.append({"at": time.monotonic(), **event})
            if event["event"] == "listening":
                self.address = event["address"]
                self.listening.set()

    def worker(self) -> subprocess.Popen:
        command = [*self.command("worker"), "--join", self.address, "--slots", "1"]
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=ROOT)

    def go(self) -> dict:
        workers = [self.worker() for _ in range(WORKERS)]
        chance, began, kills = random.Random(self.seed), time.monotonic(), []
        self.kills = kills
        while time.monotonic() - began < self.options.seconds:
            try:
                self.master.wait(self.options.every)
                break
            except subprocess.TimeoutExpired:
                place = chance.randrange(WORKERS)
                workers[place].kill()
                kills.append(time.monotonic())
                workers[place].wait()
                workers[place] = self.worker()
        status = self.master.wait()
        self.reader.join()
        for worker in workers:
            worker.wait(30)
        return self.result(status, kills)

    def result(self, status: int, kills: list[float]) -> dict:
        times = lambda name: [event["at"] for event in self.events if event["event"] == name]
        after = lambda name: [min((t - kill for t in times(name) if t > kill), default=None) for kill in kills]
        finished = self.events[-1]
        again = [event.get("examples") or 0 for event in self.events if event["event"] == "lease_repeated"]
        return {
            "mode": self.mode,
            "seed": self.seed,
            "status": status,
            "accuracy": finished.get("accuracy"),
            "examples": finished.get("examples"),
            "seconds": finished.get("seconds"),
            "kills": len(kills),
            "lost": len(times("worker_lost")),
            "rounds_again": len(times("lease_repeated")),
            "set_aside": len(times("set_aside")),
            "rolled_back": len(times("rolled_back")),
            "examples_again": sum(again),
            "most_examples_again": max(again, default=0),
            "named_within_s": max((t for t in after("worker_lost") if t is not None), default=None),
            "next_step_within_s": max((t for t in after("step") if t is not None), default=None),
        }


def settings(options: argparse.Namespace, seed: int) -> list[str]:
    values = {"train.epochs": options.epochs, "network.seed": seed, "data.seed": seed, "data.global_batch": 128}
    return [word for key, value in values.items() for word in ("--set", f"{key}={value}")]


def alone(options: argparse.Namespace, seed: int, output: Path) -> dict:
    cache = ["--cache", options.cache, "--offline"] if options.cache else []
    command = [options.binary, "train", JOB, "--mode", "solo", "--events", "json", "--output", output, *cache]
    command += settings(options, seed)
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=True, cwd=ROOT)
    finished = json.loads(done.stdout.splitlines()[-1])
    return {"mode": "solo", "seed": seed, "accuracy": finished["accuracy"], "seconds": finished["seconds"]}


def main() -> None:
    options = parse_options()
    results: list[dict] = []
    with tempfile.TemporaryDirectory() as folder:
        tasks = [(mode, seed) for mode in options.mode for seed in range(1, options.seeds + 1)]
        lone = [threading.Thread(target=lambda seed=seed: results.append(alone(options, seed, Path(folder) / f"solo-{seed}"))) for seed in range(1, options.seeds + 1)]
        lone = [] if options.without_alone else lone
        for thread in lone if options.side_by_side else []:
            thread.start()
        together = options.seeds if options.side_by_side else 1
        for start in range(0, len(tasks), together):
            batch = []
            for mode, seed in tasks[start : start + together]:
                run = Run(options, mode, seed, Path(folder) / f"{mode}-{seed}")
                batch.append(threading.Thread(target=lambda run=run: results.append(run.go())))
                batch[-1].start()
            for thread in batch:
                thread.join()
        for thread in lone:
            if not options.side_by_side:
                thread.start()
            thread.join()
    results.sort(key=lambda result: (result["mode"], result["seed"]))
    for result in results:
        print(json.dumps(result))
    for mode in [*options.mode, *([] if options.without_alone else ["solo"])]:
        found = [result["accuracy"] for result in results if result["mode"] == mode]
        told = f"{mean(found):.4f}" if None not in found else f"unknown, a run failed: {found}"
        print(f"{mode}: mean accuracy {told}", file=sys.stderr)
    if options.keep:
        options.keep.write_text("".join(json.dumps(result) + "\n" for result in results))


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", type=Path, default=ROOT / "target/release/paceline")
    parser.add_argument("--mode", action="append", help="a mode (repeatable) [default: all three]")
    parser.add_argument("--seconds", type=float, default=180, help="how long workers are killed")
    parser.add_argument("--every", type=float, default=5, help="seconds between two kills")
    parser.add_argument("--epochs", type=int, default=24)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--cache", type=Path, help="where MNIST is, for a machine without a network")
    parser.add_argument("--side-by-side", action="store_true", help="all seeds of a mode at once, for a machine with many cores")
    parser.add_argument("--without-alone", action="store_true", help="no lone processes beside it")
    parser.add_argument("--keep", type=Path, help="a file for the results")
    options = parser.parse_args()
    options.mode = options.mode or ["sync", "averaging", "shared"]
    return options


if __name__ == "__main__":
    main()
