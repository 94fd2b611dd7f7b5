#!/usr/bin/env python3
"""Many worker processes of one slot on one machine: how soon all are members, and how soon the run goes on without half of them.

`bench/README.md` says how to read it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
EPOCHS = {"sync": 300, "averaging": 300, "shared": 60}


class Run:
    """A master and its workers, of which half are killed after some seconds."""

    def __init__(self, options: argparse.Namespace, mode: str, mesh_limit: int) -> None:
        self.options, self.mode, self.mesh_limit = options, mode, mesh_limit
        self.events: list[dict] = []
        self.began = time.monotonic()

    def read(self, master: subprocess.Popen) -> None:
        for line in master.stdout:
            self.events.append({"at": time.monotonic() - self.began, **json.loads(line)})

    def named(self, *names: str) -> list[dict]:
        return [event for event in list(self.events) if event["event"] in names]

    def wait_for(self, is_there, limit: float) -> None:
        ends = time.monotonic() + limit
        while not is_there():
            if time.monotonic() > ends:
                raise SystemExit(f"{self.mode}: gave up after {limit} s; the last event: {self.events[-1:]}")
            time.sleep(0.01)

    def go(self, folder: Path) -> dict:
        options, count = self.options, self.options.workers
        command = [options.binary, "master", "--events", "json", "--output", folder, "--mode", self.mode]
        command += ["--min-workers", count // 2, "--mesh-limit", self.mesh_limit]
        command += ["--set", f"train.epochs={EPOCHS[self.mode] // (10 if options.quick else 1)}"]
        master = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, text=True, cwd=ROOT)
        reader = threading.Thread(target=self.read, args=(master,))
        reader.start()
        self.wait_for(lambda: self.named("listening"), 30)
        address, started = self.named("listening")[0]["address"], time.monotonic() - self.began
        worker = [str(options.binary), "worker", "--join", address, "--slots", "1", "--events", "none"]
        workers = [subprocess.Popen(worker, cwd=ROOT) for _ in range(count)]
        views = lambda size: [view for view in self.named("view") if len(view["workers"]) == size]
        self.wait_for(lambda: views(count), 60)
        steps = lambda since: [event for event in self.named("step", "epoch") if event["at"] > since]
        killed = None
        time.sleep(1 if options.quick else 5)
        if master.poll() is None:
            for process in workers[: count // 2]:
                process.kill()
            killed = time.monotonic() - self.began
            self.wait_for(lambda: views(count - count // 2) or master.poll() is not None, 60)
        peak = next(int(line.split()[1]) for line in Path(f"/proc/{master.pid}/status").open() if "VmHWM" in line)
        status = master.wait(600)
        reader.join()
        for process in workers:
            process.wait(30)
        again = views(count - count // 2)
        finished = self.named("finished")[-1]
        return {
            "mode": self.mode,
            "workers": count,
            "mesh_limit": self.mesh_limit,
            "status": status,
            "all_members_s": round(views(count)[0]["at"] - started, 2),
            "view_after_kill_s": round(again[0]["at"] - killed, 2) if killed and again else None,
            "step_after_kill_s": round(steps(again[0]["at"])[0]["at"] - killed, 2) if killed and again else None,
            "lost": len(self.named("worker_lost")),
            "master_peak_mib": round(peak / 1024, 1),
            "examples_per_second": round(finished["examples_per_second"]),
            "accuracy": round(finished["accuracy"], 4),
            "examples": finished["examples"],
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=Path, default=ROOT / "target/release/paceline")
    parser.add_argument("--workers", type=int, default=64)
    parser.add_argument("--mode", action="append", choices=EPOCHS)
    parser.add_argument("--mesh-limit", type=int, action="append", help="16 if none is given")
    parser.add_argument("--output", type=Path, help="a file for the results")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    results = []
    for mode in options.mode or EPOCHS:
        for mesh_limit in options.mesh_limit or [16]:
            with tempfile.TemporaryDirectory() as folder:
                results.append(Run(options, mode, mesh_limit).go(Path(folder)))
            print(json.dumps(results[-1]), flush=True)
    if options.output:
        options.output.write_text("".join(json.dumps(result) + "\n" for result in results))


if __name__ == "__main__":
    main()
