"""Everything at once: workers killed, stopped and cut off, masters killed, ZooKeeper servers killed, the disk full. With TLS.

Two masters and three ZooKeeper servers are on host 0, and four workers on three hosts. Faults come at random, by a seed, for so
many seconds; then the run is left alone to its end.
"""

from __future__ import annotations

import os
import random
import secrets
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from ..case import WORK, BenchError
from .crew import Crew, Player, Told, kind
from .ensemble import Ensemble, Place, Server
from .outcome import Outcome
from .routed import Routed
from .stage import GLOBAL_BATCH, JOB, SILENCE_LIMIT_SECONDS, START_LIMIT_SECONDS, Stage

HOSTS_OF_WORKERS = (0, 1, 1, 2)
SEVERITY = (4.0, 9.0)  # seconds between two faults
DISK = "96m"
DISK_FULL_SECONDS = 5.0
CHECKPOINT_STEPS = 500
AFTERMATH_SECONDS = SILENCE_LIMIT_SECONDS + 3.0  # so long after a fault somebody may still be lost for it
END_LIMIT_SECONDS = 1200.0
WHOLE = 0.95  # a storm that the run has outlived for less is none


@dataclass
class Fault:
    """What was done, when, and to which workers."""

    at: float
    what: str
    until: float
    workers: set[Player] = field(default_factory=set)


@contextmanager
def small_disk(name: str) -> Iterator[Path]:
    """A folder on a disk of its own, which can be filled."""
    folder = WORK / "output" / f"storm-{name}"
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", folder], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=False)
        shutil.rmtree(folder, ignore_errors=True)


class Storm:
    """One run and what happens to it."""

    def __init__(
        self,
        stage: Stage,
        mode: str,
        seed: int,
        seconds: float,
        epochs: int,
        crew: Crew,
        hosts: Routed,
        ensemble: Ensemble,
        disk: Path,
    ) -> None:
        self.stage, self.mode, self.seconds, self.crew, self.hosts = stage, mode, seconds, crew, hosts
        self.ensemble, self.disk, self.chance = ensemble, disk, random.Random(seed)
        self.token = disk / "token"
        self.token.write_text(secrets.token_hex(16) + "\n")
        self.epochs = epochs
        self.masters: list[Player] = []
        self.workers: list[Player | None] = [None] * len(HOSTS_OF_WORKERS)
        self.names: dict[int, Player] = {}
        self.faults: list[Fault] = []
        self.undo: list[tuple[float, object]] = []  # what is put right again, and when
        self.started = 0

    def start_master(self) -> Player:
        command = [*self.hosts.enter(0), self.stage.binary, "master", JOB, "--mode", self.mode]
        settings = [f"train.epochs={self.epochs}", f"data.global_batch={GLOBAL_BATCH}", f"train.checkpoint.steps={CHECKPOINT_STEPS}"]
        command += [word for setting in settings for word in ("--set", setting)]
        command += ["--listen", f"{self.hosts.address(0)}:0", "--status", "none", "--output", self.disk / "run"]
        command += ["--coordinator", self.ensemble.url(), "--token-file", self.token, *self._common()]
        self.started += 1
        master = self.crew.start(f"master{self.started}", command)
        self.masters.append(master)
        return master

    def start_worker(self, place: int) -> None:
        host = HOSTS_OF_WORKERS[place]
        command = [*self.hosts.enter(host), self.stage.binary, "worker", "--slots", "1"]
        command += ["--coordinator", self.ensemble.url(), "--token-file", self.token]
        command += ["--listen", f"{self.hosts.address(host)}:0", *self._common()]
        self.started += 1
        self.workers[place] = self.crew.start(f"worker{place}-{self.started}", command)

    def go(self) -> None:
        self.start_master().need(kind("listening"), START_LIMIT_SECONDS, "`listening`")
        self.start_master().need(kind("standby"), START_LIMIT_SECONDS, "`standby`")
        for place in range(len(HOSTS_OF_WORKERS)):
            self.start_worker(place)
        everybody = lambda told: told.kind == "view" and len(told["workers"]) == len(HOSTS_OF_WORKERS)
        self.masters[0].need(everybody, START_LIMIT_SECONDS, "a view of all workers")
        began = time.monotonic()
        following = began
        while time.monotonic() - began < self.seconds and not self.is_finished():
            self.put_right()
            if time.monotonic() >= following:
                self.make_trouble()
                following = time.monotonic() + self.chance.uniform(*SEVERITY)
            time.sleep(0.05)
        self.put_right(everything=True)
        self.storm_seconds = time.monotonic() - began
        until = time.monotonic() + END_LIMIT_SECONDS
        while not self.is_finished():
            if time.monotonic() > until or all(master.process.poll() is not None for master in self.masters):
                raise BenchError(f"the run did not end:\n{self.masters[-1].last_lines()}")
            time.sleep(0.1)
        for player in [*self.masters, *self.workers]:
            player.ended(30)

    def is_finished(self) -> bool:
        return any(master.find(kind("finished")) for master in self.masters)

    def put_right(self, everything: bool = False) -> None:
        due = [entry for entry in self.undo if everything or time.monotonic() >= entry[0]]
        self.undo = [entry for entry in self.undo if entry not in due]
        for _, put_right in due:
            put_right()

    def is_busy(self, what: str) -> bool:
        """Whether such a fault is still there."""
        return any(fault.what == what and fault.until > time.monotonic() for fault in self.faults)

    def later(self, what: str, seconds: float, put_right: object, workers: set[Player] = frozenset()) -> None:
        now = time.monotonic()
        self.faults.append(Fault(now, what, now + seconds, set(workers)))
        self.undo.append((now + seconds, put_right))

    def make_trouble(self) -> None:
        kinds = ("kill", "kill", "stop", "cut off", "cut between", "master", "zookeeper", "disk")
        what = self.chance.choice(kinds)
        if self.is_busy(what) or (what.startswith("cut") and (self.is_busy("cut off") or self.is_busy("cut between"))):
            what = "kill"
        place = self.chance.randrange(len(self.workers))
        worker, now = self.workers[place], time.monotonic()
        on = lambda host: {self.workers[at] for at, of in enumerate(HOSTS_OF_WORKERS) if of == host}
        match what:
            case "kill":
                worker.send(signal.SIGKILL)
                self.faults.append(Fault(now, what, now, {worker}))
                self.start_worker(place)
            case "stop":
                worker.send(signal.SIGSTOP)
                self.later(what, self.chance.uniform(1, 9), lambda: worker.send(signal.SIGCONT), {worker})
            case "cut off":
                host = self.chance.choice((1, 2))
                self.hosts.cut_off(host)
                self.later(what, self.chance.uniform(1, 8), self.hosts.heal, on(host))
            case "cut between":
                self.hosts.cut_between(1, 2)
                self.later(what, self.chance.uniform(3, 12), self.hosts.heal, on(1) | on(2))
            case "master":
                leading = [master for master in self.masters if master.process.poll() is None and master.find(kind("listening"))]
                if leading:
                    leading[-1].send(signal.SIGKILL)
                    # Whoever is a member goes to the next master.
                    self.faults.append(Fault(now, what, now + 10, set(filter(None, self.workers))))
                    self.start_master()
            case "zookeeper":
                server: Server = self.chance.choice(self.ensemble.servers)
                server.kill()
                server.process.wait()
                self.later(what, 6.0, server.start)
            case "disk":
                filler = self.disk / "filler"
                free = os.statvfs(self.disk)
                with filler.open("wb") as file:
                    try:
                        file.write(b"\0" * (free.f_bavail * free.f_frsize + (1 << 20)))
                    except OSError:
                        pass  # it is full, as it should be
                self.later(what, DISK_FULL_SECONDS, lambda: filler.unlink(missing_ok=True))

    def judge(self, outcome: Outcome, alone: float) -> None:
        last = next(master for master in self.masters if master.find(kind("finished")))
        finished, started = last.find(kind("finished")), last.find(kind("started"))
        told = lambda name: [one for master in self.masters for one in master.all(kind(name))]
        aside = sum(int(one["examples"]) for one in told("set_aside"))
        lead = [master for master in self.masters if master.find(kind("started"))]
        rolled = len(told("rolled_back"))
        unexplained = [one for master in lead for one in master.all(kind("worker_lost")) if not self.is_explained(one)]
        again = sum(int(one.event.get("examples") or 0) for one in told("lease_repeated"))
        counts: dict[str, int] = {}
        for fault in self.faults:
            counts[fault.what] = counts.get(fault.what, 0) + 1
        outcome.figures |= {
            "faults": sum(counts.values()),
            "storm, s": round(self.storm_seconds),
            "masters that led": len(lead),
            "workers lost": len(told("worker_lost")),
            "not saved": len(told("not_saved")),
            "rolled back": rolled,
            "examples again": again,
            "set aside": aside,
            "accuracy": finished["accuracy"],
            "one process": alone,
        }
        outcome.details |= {
            "counts": counts,
            "epochs": self.epochs,
            "resumed_at": started["resumed_at"],
            "examples_of_the_last_master": finished["examples"],
            "faults": [{"after_s": fault.at - self.faults[0].at, "what": fault.what, "for_s": fault.until - fault.at} for fault in self.faults],
            "lost": [one.event for one in told("worker_lost")],
        }
        outcome.check("the run outlasts the storm", self.storm_seconds >= WHOLE * self.seconds, f"{self.storm_seconds:.0f} s of {self.seconds:.0f}")
        outcome.check("accuracy at most 0.3 points below one process", finished["accuracy"] >= alone - 0.003, finished["accuracy"])
        outcome.check("nobody is lost without a cause", not unexplained, [one.event for one in unexplained])
        expected = int(started["examples_left"]) - sum(int(one["examples"]) for one in last.all(kind("set_aside")))
        outcome.check("every example that was left is counted once", finished["examples"] == expected, f"{finished['examples']} of {expected}")
        chain = [(one.find(kind("started"))["resumed_at"], one) for one in lead]
        outcome.check("no master goes back behind the one before it", [at for at, _ in chain] == sorted(at for at, _ in chain), [at for at, _ in chain])

    def is_explained(self, lost: Told) -> bool:
        numbers = {one["worker"]: worker for worker in self.crew.players for one in worker.all(kind("joined"))}
        worker = numbers.get(lost["worker"])
        near = lambda fault: fault.at <= lost.at <= fault.until + AFTERMATH_SECONDS
        return worker is None or any(worker in fault.workers and near(fault) for fault in self.faults)

    def _common(self) -> Sequence[str]:
        cache = ["--cache", str(self.stage.cache), "--offline"] if self.stage.cache else []
        return ["--events", "json", *cache]


def run(stage: Stage, mode: str, seed: int, seconds: float, epochs: int, alone: float) -> Outcome:
    outcome = Outcome("storm", mode, f"seed {seed}")
    name = f"storm-{mode}-{seed}"
    with Routed() as hosts, small_disk(name) as disk:
        place = Place(tuple(hosts.enter(0)), hosts.address(0))
        with Ensemble(place) as ensemble, Crew(name) as crew:
            storm = Storm(stage, mode, seed, seconds, epochs, crew, hosts, ensemble, disk)
            storm.go()
            storm.judge(outcome, alone)
    return outcome
