#!/usr/bin/env python3
"""`examples/dbn-mnist.toml` on a master with two workers, of which one is killed in every phase, against the same job alone.

The two workers have one slot each and half the batch, so that a step has as many examples as alone. At a moment of every phase that
the seed says, the worker that has been there the longest gets SIGKILL, and a new one is started. Every phase must count every example
of every epoch once.
"""

from __future__ import annotations

import argparse
import json
import queue
import random
import statistics
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
JOB = ROOT / "examples" / "dbn-mnist.toml"
LABELLED, UNLABELLED, LAYERS = 1_000, 60_000, 3
BATCHES = {"pretrain.batch": 100, "data.batch": 20}
WORKERS = 2
SILENT = 300  # seconds without an event of the master after which something is wrong
BAR = 0.3  # points


class Cluster:
    """A master, its workers, and what it has told."""

    def __init__(self, options: argparse.Namespace, seed: int) -> None:
        self.options, self.seed = options, seed
        self.events: list[dict] = []
        self.workers: list[subprocess.Popen[str]] = []
        self.killed: list[subprocess.Popen[str]] = []
        settings = of_seed(options, seed) + [f"{key}={batch // WORKERS}" for key, batch in BATCHES.items()]
        command = [*self.command("master"), JOB, "--mode", "sync", "--min-workers", WORKERS, "--expect-workers", WORKERS, "--restart"]
        command += ["--output", options.output.resolve() / f"cluster-{seed}", *sets(settings)]
        self.master = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT)
        self.said = gathered(self.master)
        self.lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self) -> None:
        for line in self.master.stdout or ():
            self.lines.put(line)
        self.lines.put("")

    def command(self, name: str) -> list[object]:
        return [self.options.binary.resolve(), name, "--events", "json", "--offline", "--cache", self.options.cache.resolve()]

    def start_worker(self, address: str) -> None:
        command = [*self.command("worker"), "--join", address, "--slots", 1]
        worker = subprocess.Popen(list(map(str, command)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, text=True, cwd=ROOT)
        self.workers.append(worker)

    def go(self) -> dict[str, object]:
        try:
            return self.follow()
        finally:
            for process in [self.master, *self.workers]:
                if process.poll() is None:
                    process.kill()

    def follow(self) -> dict[str, object]:
        address, phase, members, kills = "", 0, 0, []
        moment = (0, 0)
        while line := self.lines.get(timeout=SILENT):
            event = json.loads(line)
            self.events.append(event | {"at": time.monotonic(), "in_phase": phase})
            match event["event"]:
                case "listening":
                    if not self.workers:
                        for _ in range(WORKERS):
                            self.start_worker(event["address"])
                    address = event["address"]
                case "phase":
                    phase, members = event["phase"], 0
                    moment = self.moment(phase)
                case "view":
                    members = len(event["workers"])
                case "step" if self.is_due(event, moment) and members == WORKERS and phase not in [kill["phase"] for kill in kills]:
                    victim = self.workers.pop(0)
                    victim.kill()
                    self.killed.append(victim)
                    kills.append({"phase": phase, "epoch": event["epoch"], "step": event["step"], "at": time.monotonic()})
                    self.start_worker(address)
        status = self.master.wait()
        for worker in self.workers:
            worker.wait(60)
        for victim in self.killed:
            victim.wait()
        return self.result(status, kills)

    def moment(self, phase: int) -> tuple[int, int]:
        """An epoch and a step of it, in the first two thirds of a phase."""
        epochs, examples, batch = self.options.epochs, UNLABELLED, BATCHES["pretrain.batch"]
        if phase > LAYERS:
            epochs, examples, batch = self.options.tuning, LABELLED, BATCHES["data.batch"]
        chance = random.Random(f"{self.seed}-{phase}")
        return chance.randint(1, max(1, epochs * 2 // 3)), int(chance.uniform(0.1, 0.8) * examples / batch)

    @staticmethod
    def is_due(event: dict, moment: tuple[int, int]) -> bool:
        return (event["epoch"], event["step"]) >= moment

    def result(self, status: int, kills: list[dict]) -> dict[str, object]:
        named = lambda name: [event for event in self.events if event["event"] == name]
        ended = self.events[-1]
        if status != 0 or ended["event"] != "finished":
            sys.exit(f"error: seed {self.seed}: the master ended with {status}, {ended}\n{self.said()}")
        counted = [event["examples"] for event in named("phase_ended")] + [ended["examples"]]
        expected = [self.options.epochs * UNLABELLED] * LAYERS + [self.options.tuning * LABELLED]
        for kill in kills:
            later = [event["at"] for event in named("step") if event["at"] > kill["at"]]
            kill["next_step_s"] = round(min(later) - kill.pop("at"), 3) if later else None
        return {
            "side": "cluster",
            "seed": self.seed,
            "accuracy": ended["accuracy"],
            "seconds": self.events[-1]["at"] - self.events[0]["at"],
            "kills": kills,
            "workers_lost": [{"phase": event["in_phase"], "reason": event["reason"]} for event in named("worker_lost")],
            "workers_joined": len(named("worker_joined")),
            "examples_counted": counted,
            "examples_expected": expected,
            "set_aside": len(named("set_aside")),
            "rounds_again": len(named("lease_repeated")),
            "rolled_back": len(named("rolled_back")),
            "exit_statuses_of_workers": [worker.returncode for worker in self.workers],
        }


def gathered(process: subprocess.Popen[str]) -> object:
    """What a process says on standard error, once it has ended."""
    lines: list[str] = []
    thread = threading.Thread(target=lambda: lines.extend(process.stderr or ()), daemon=True)
    thread.start()

    def said() -> str:
        thread.join(5)
        return "".join(lines)

    return said


def of_seed(options: argparse.Namespace, seed: int) -> list[str]:
    return [
        f"network.seed={seed}",
        f"data.train=mnist:train?examples={LABELLED}&seed={seed}",
        f"pretrain.epochs={options.epochs}",
        f"train.epochs={options.tuning}",
        "train.evaluate_every=10",
    ]


def sets(settings: list[str]) -> list[str]:
    return [word for setting in settings for word in ("--set", setting)]


def alone(options: argparse.Namespace, seed: int) -> dict[str, object]:
    settings = of_seed(options, seed) + [f"{key}={batch}" for key, batch in BATCHES.items()]
    command = [options.binary.resolve(), "train", JOB, "--events", "json", "--offline", "--cache", options.cache.resolve(), "--workers", 1]
    command += ["--mode", "solo", "--overwrite", "--output", options.output.resolve() / f"alone-{seed}", *sets(settings)]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, cwd=ROOT)
    if done.returncode != 0:
        sys.exit(f"error: {done.stderr.strip()}")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    counted = [event["examples"] for event in events if event["event"] == "phase_ended"] + [events[-1]["examples"]]
    seconds = sum(event["seconds"] for event in events if event["event"] in ("phase_ended", "finished"))
    return {"side": "alone", "seed": seed, "accuracy": events[-1]["accuracy"], "seconds": seconds, "examples_counted": counted}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", type=Path, default=ROOT / "target" / "release" / "paceline")
    parser.add_argument("--cache", type=Path, required=True, help="where MNIST is kept")
    parser.add_argument("--output", type=Path, required=True, help="a folder for the runs and what they came to")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=10, help="of pretraining, for each layer")
    parser.add_argument("--tuning", type=int, default=50, help="epochs of fine-tuning")
    parser.add_argument("--jobs", type=int, default=1, help="seeds side by side; each takes three cores")
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    seeds = range(1, options.seeds + 1)
    rows: list[dict[str, object]] = []

    def take(find: object, seed: int) -> None:
        rows.append(find(seed))  # type: ignore[operator]
        print(json.dumps(rows[-1]), flush=True)

    pools = [ThreadPoolExecutor(options.jobs), ThreadPoolExecutor(options.jobs)]
    sides = [lambda seed: Cluster(options, seed).go(), lambda seed: alone(options, seed)]
    running = [pool.submit(take, side, seed) for pool, side in zip(pools, sides, strict=True) for seed in seeds]
    for run in running:
        run.result()
    rows.sort(key=lambda row: (row["side"], row["seed"]))
    found = result(options, rows)
    (options.output / "results.json").write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps({key: value for key, value in found.items() if key != "runs"}, indent=1))


def result(options: argparse.Namespace, rows: list[dict[str, object]]) -> dict[str, object]:
    of = {side: [row for row in rows if row["side"] == side] for side in ("cluster", "alone")}
    means = {side: statistics.mean(float(row["accuracy"]) for row in own) for side, own in of.items()}  # type: ignore[arg-type]
    away = 100 * (means["cluster"] - means["alone"])
    once = [row["examples_counted"] == row["examples_expected"] and row["set_aside"] == 0 for row in of["cluster"]]
    return {
        "what": f"{JOB.name}, {options.epochs} epochs of pretraining a layer, {options.tuning} of fine-tuning: two workers with kills, and alone",
        "mean_accuracy": means,
        "points_from_alone": away,
        "bar_points": BAR,
        "is_within": abs(away) <= BAR,
        "kills": sum(len(row["kills"]) for row in of["cluster"]),  # type: ignore[arg-type]
        "workers_lost": sum(len(row["workers_lost"]) for row in of["cluster"]),  # type: ignore[arg-type]
        "every_example_once": all(once),
        "runs": rows,
    }


if __name__ == "__main__":
    main()
