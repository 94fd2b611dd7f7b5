"""Our side on two hosts: a master and a worker on the first, a worker on the second, watched until enough is seen."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from dataclasses import dataclass, field
from pathlib import Path

from .case import ROOT, WORK, BenchError, Case
from .child import LAST_LINES, ONE_THREAD, Launch, run_together, two_cores
from .hosts import HOSTS, Hosts

EPOCHS = 1_000_000  # more than any run gets to: it is ended when enough was seen
WAITING_LIMIT_SECONDS = 60  # for the workers to come
LEAST_STEPS_TOLD = 3


@dataclass(frozen=True)
class Window:
    """What is looked at: not the first second of steps, then so many."""

    seconds: float
    warm_seconds: float = 1.0
    limit_seconds: float = 120.0  # of the whole run, for a mode that the cable keeps from getting anywhere


@dataclass(frozen=True)
class Told:
    """A `step` event, and when it came."""

    at: float
    steps: int  # before its round, since the run began
    examples_per_second: float  # by the master's own clock


@dataclass
class Seen:
    """One run, as the master told it."""

    parameters: int = 0
    steps_per_epoch: int = 0
    told: list[Told] = field(default_factory=list)
    sent_bytes: int = 0  # while these steps were taken
    trouble: str = ""  # why this is no measurement: the cable was too slow for it

    @property
    def seconds(self) -> float:
        return self.told[-1].at - self.told[0].at if self.told else 0.0

    @property
    def steps(self) -> int:
        return self.told[-1].steps - self.told[0].steps if self.told else 0

    def own_rate(self) -> float | None:
        """Examples a second by the master's own count: a check on ours."""
        pairs = list(zip(self.told, self.told[1:]))
        counted = sum(after.examples_per_second * (after.at - before.at) for before, after in pairs)
        return counted / self.seconds if self.seconds > 0 else None


@dataclass(frozen=True)
class Cluster:
    """How a master and its workers are started."""

    binary: Path
    hosts: Hosts
    case: Case
    images: Path
    labels: Path
    batch: int  # of each worker

    def run(self, name: str, mode: str, settings: tuple[str, ...], window: Window) -> Seen:
        output = WORK / "output" / f"network-{name}"
        shutil.rmtree(output, ignore_errors=True)  # a master goes on from what it finds there
        files = ",".join(str(path.relative_to(ROOT)) for path in (self.images, self.labels))
        settings = (f"data.train=idx:{files}", f"data.batch={self.batch}", f"train.epochs={EPOCHS}", *settings)
        command: list[str | Path] = [*self.hosts.enter(0), self.binary, "master", self.case.job_file, "--mode", mode]
        command += [word for setting in settings for word in ("--set", setting)]
        command += ["--listen", f"{self.hosts.address(0)}:0", "--min-workers", str(HOSTS)]
        command += ["--waiting-limit", str(WAITING_LIMIT_SECONDS), "--status", "none"]
        command += ["--output", output, "--events", "json"]
        watch = _Watch(self, name, window)
        try:
            run_together([Launch(command, f"network-{name}-master")], watch.take)
        finally:
            watch.end()
        return watch.seen


class _Watch:
    """Starts the workers when the master can take them, and decides when enough was seen."""

    def __init__(self, cluster: Cluster, name: str, window: Window) -> None:
        self.cluster, self.name, self.window = cluster, name, window
        self.seen = Seen()
        self.join = ""
        self.workers: list[subprocess.Popen[bytes]] = []
        self.starting = threading.Lock()
        self.is_over = False
        self.first_step: float | None = None
        self.sent_before = 0
        self.is_late = False
        self.alarm = threading.Timer(window.limit_seconds, self.sound)
        self.alarm.daemon = True
        self.alarm.start()

    def take(self, seconds: float, event: dict[str, object]) -> bool:
        """Whether the run has done enough."""
        if self.is_late:
            return True
        kind = event["event"]
        if kind == "started":
            self.seen.parameters = event["parameters"]
            self.seen.steps_per_epoch = event["examples"] // (HOSTS * self.cluster.batch)
        elif kind == "listening":
            self.join = event["join"]
            self.start_worker()
        elif kind == "worker_joined" and len(self.workers) < HOSTS:
            # One after the other: the first to come sends the checkpoints, and it is on the master's host.
            self.start_worker()
        elif kind == "worker_lost":
            self.seen.trouble = f"a worker was lost: {event['reason']}"
            return True
        elif kind == "waiting":
            self.check_workers()
        elif kind == "step":
            return self.take_step(seconds, event)
        return False

    def take_step(self, seconds: float, event: dict[str, object]) -> bool:
        if self.first_step is None:
            self.first_step = seconds
        if seconds < self.first_step + self.window.warm_seconds:
            return False
        told = self.seen.told
        steps = event["epoch"] * self.seen.steps_per_epoch + event["step"]
        told.append(Told(seconds, steps, event["examples_per_second"]))
        if len(told) == 1:
            self.sent_before = self.cluster.hosts.sent_bytes()
        if self.seen.seconds < self.window.seconds or len(told) <= LEAST_STEPS_TOLD:
            return False
        self.seen.sent_bytes = self.cluster.hosts.sent_bytes() - self.sent_before
        return True

    def start_worker(self) -> None:
        host = len(self.workers)
        pin = ["taskset", "-c", str(two_cores()[host])]
        command = [*self.cluster.hosts.enter(host), *pin, self.cluster.binary, "worker", "--join", self.join]
        command += ["--slots", "1", "--events", "json"]
        with self.starting, self.log(host).open("wb") as log:
            if self.is_over:
                return
            self.workers.append(
                subprocess.Popen(
                    list(map(str, command)),
                    cwd=ROOT,
                    env={**os.environ, **ONE_THREAD},
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                )
            )

    def check_workers(self) -> None:
        for host, worker in enumerate(self.workers):
            if worker.poll() is not None:
                lines = self.log(host).read_text(errors="replace").splitlines()[-LAST_LINES:]
                said = "\n".join(f"  | {line}" for line in lines)
                how = f"exit status {worker.returncode}"
                raise BenchError(f"{self.name}: the worker on host {host} ended with {how}:\n{said}")

    def log(self, host: int) -> Path:
        return WORK / "logs" / f"network-{self.name}-worker{host}.out"

    def sound(self) -> None:
        """Time is up: the master tells that its workers are gone, and `take` is asked."""
        self.is_late = True
        self.seen.trouble = f"it was not done after {self.window.limit_seconds:.0f} s"
        self.kill()

    def kill(self) -> None:
        for worker in self.workers:
            worker.kill()

    def end(self) -> None:
        self.alarm.cancel()
        with self.starting:
            self.is_over = True
        self.kill()
        for worker in self.workers:
            worker.wait()
