"""What all cases share: how a run is started, how long it must last, and how its end is judged."""

from __future__ import annotations

import math
import shutil
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from ..case import ROOT, WORK, BenchError
from . import ends
from .crew import Crew, Player, Told, kind
from .outcome import Outcome
from .routed import Routed

JOB = ROOT / "examples" / "mlp-mnist.toml"
GLOBAL_BATCH = 128
SILENCE_LIMIT_SECONDS = 5.0  # what `paceline master` takes when it is told nothing
SHARED_MAY_DIFFER = 1e-5

START_LIMIT_SECONDS = 60.0
END_LIMIT_SECONDS = 300.0
LEAVE_LIMIT_SECONDS = 30.0
SPARE = 1.3  # a machine that is less busy than in the calm run must not end a run before its fault is over


class TooShort(Exception):
    """The run ended before its fault was over: it must be done again with more epochs."""


@dataclass(frozen=True)
class Back:
    """When a worker had joined again, and when it was part of a view."""

    joined_at: float | None
    member_at: float | None


@dataclass
class Stage:
    """Where all cases run."""

    binary: Path
    cache: Path | None
    is_quick: bool
    rates: dict[str, float] = field(default_factory=dict)  # examples a second by mode
    examples: int = 60_000  # of an epoch
    longer: float = 1.0  # for a case that is done again

    def epochs(self, mode: str, seconds: float) -> int:
        return math.ceil(self.longer * SPARE * seconds * self.rates[mode] / self.examples)

    @contextmanager
    def run(self, name: str, mode: str, *, seconds: float = 0, epochs: int = 0, **options: object) -> Iterator[Run]:
        """A run that lasts at least so many seconds, or so many epochs; it is over at the end of the block."""
        with Crew(f"{name}-{mode}") as crew:
            yield Run(self, crew, mode, epochs or self.epochs(mode, seconds), **options)


class Run:
    """One run: its master, its workers, and how to start more of them."""

    def __init__(
        self,
        stage: Stage,
        crew: Crew,
        mode: str,
        epochs: int,
        *,
        workers: int = 3,
        listen: str = "127.0.0.1:0",
        coordinator: str = "",
        hosts: Routed | None = None,
        settings: Sequence[str] = (),
    ) -> None:
        self.stage, self.crew, self.mode, self.epochs = stage, crew, mode, epochs
        self.wanted, self.listen, self.coordinator, self.hosts = workers, listen, coordinator, hosts
        self.settings = (f"train.epochs={epochs}", f"data.global_batch={GLOBAL_BATCH}", *settings)
        self.workers: list[Player] = []
        self.folder = WORK / "output" / f"faults-{crew.name}"
        shutil.rmtree(self.folder, ignore_errors=True)  # a master goes on from what it finds there
        self.folder.mkdir(parents=True)
        # Events and errors name it, and results are kept: nobody needs to know where this repository lies.
        self.output = (self.folder / "run").relative_to(ROOT)

    def start_master(self, name: str = "master") -> Player:
        command = [*self._on(0), self.stage.binary, "master", JOB, "--mode", self.mode]
        command += [word for setting in self.settings for word in ("--set", setting)]
        command += ["--listen", self.listen, "--status", "none", "--output", self.output]
        command += ["--coordinator", self.coordinator] if self.coordinator else []
        return self.crew.start(name, [*command, *self._common()])

    def start_worker(self, join: str, host: int = 0) -> Player:
        name = f"worker{len(self.workers)}"
        command = [*self._on(host), self.stage.binary, "worker", "--slots", "1", "--keep-state", self.state(name)]
        command += ["--coordinator", self.coordinator] if self.coordinator else ["--join", join]
        command += ["--record", self.record(name)] if self.mode == "shared" else []
        worker = self.crew.start(name, [*command, *self._common()])
        self.workers.append(worker)
        return worker

    def start_all(self) -> None:
        """The master and its workers; with hosts, a worker on each."""
        self.master = self.start_master()
        listening = self.master.need(kind("listening"), START_LIMIT_SECONDS, "`listening`")
        for number in range(self.wanted):
            join = listening.event.get("join") or listening["address"]
            self.start_worker(str(join), number if self.hosts else 0)

    def settle(self, seconds: float = 2.0) -> None:
        """Returns when all workers are in the view and steps have been taken for so long."""
        everybody = lambda told: told.kind == "view" and len(told["workers"]) == self.wanted
        view = self.master.need(everybody, START_LIMIT_SECONDS, f"a view of {self.wanted} workers")
        first = self.master.need(kind("step"), START_LIMIT_SECONDS, "a step", view.at)
        self.master.need(kind("step"), START_LIMIT_SECONDS, "a step", first.at + seconds)

    def pass_time(self, until: float) -> None:
        """Waits; the run must not end meanwhile."""
        while (left := until - time.monotonic()) > 0:
            self.master.wait_for(kind("finished"), left)
            self.must_run_on()

    def must_run_on(self) -> None:
        if self.master.find(kind("finished")):
            raise TooShort
        if self.master.find(kind("failed")) or self.master.process.poll() is not None:
            raise BenchError(f"the master ended during the fault:\n{self.master.last_lines()}")

    def number_of(self, worker: Player) -> str:
        return str(worker.all(kind("joined"))[-1]["worker"])

    def wait_until_back(self, worker: Player, since: float, limit: float) -> Back:
        """Until a worker that was lost is in a view again."""
        joined = worker.wait_for(kind("joined"), limit, since)
        if joined is None:
            self.must_run_on()
            return Back(None, None)
        has_it = lambda told: told.kind == "view" and joined["worker"] in told["workers"]
        view = self.master.wait_for(has_it, limit, since)
        if view is None:
            self.must_run_on()
        return Back(joined.at, view.at if view else None)

    def note_losses(self, outcome: Outcome, since: float) -> None:
        for loss in self.losses():
            outcome.notes.append(f"{loss['name']} lost after {loss['at'] - since:.2f} s: {loss['reason']}")

    def why_not_back(self, worker: Player) -> str:
        told = [str(told.event) for told in worker.all(lambda told: told.kind in ("left", "finished"))]
        return "; ".join([*told, worker.errors()])

    def finish(self, outcome: Outcome, gone: set[Player] = frozenset(), before: int = 0) -> None:
        """Waits for the end and judges it: exit status, examples, what the workers hold.

        `before` are the examples of the checkpoint that this master went on from: it counts what comes behind it.
        """
        status = self.master.ended(END_LIMIT_SECONDS)
        staying = [worker for worker in self.workers if worker not in gone]
        statuses = {worker.name: worker.ended(LEAVE_LIMIT_SECONDS) for worker in staying}
        finished = self.master.find(kind("finished"))
        started = self.master.find(kind("started"))
        set_aside = sum(int(told["examples"]) for told in self.master.all(kind("set_aside")))
        counted = int(finished["examples"]) if finished else None
        expected = self.epochs * int(started["examples"]) - set_aside - before if started else None
        again = [told.event for told in self.master.all(kind("lease_repeated"))]
        outcome.figures |= {"exit": status, "examples short": expected - counted if finished else None}
        outcome.details |= {
            "epochs": self.epochs,
            "examples": counted,
            "examples_expected": expected,
            "set_aside": set_aside,
            "seconds": finished["seconds"] if finished else None,
            "accuracy": finished.event.get("accuracy") if finished else None,
            "rounds_again": len(again),
            "examples_again": sum(event.get("examples") or 0 for event in again),
            "rolled_back": len(self.master.all(kind("rolled_back"))),
            "lost": self.losses(),
            "views": [told.event for told in self.master.all(kind("view"))],
            "exit_of_workers": statuses,
        }
        outcome.check("the master exits with 0", status == 0, f"{status}: {self.master.errors()}")
        said = "; ".join(f"{worker.name} {statuses[worker.name]}: {worker.errors()}" for worker in staying)
        outcome.check("the workers exit with 0", set(statuses.values()) == {0}, said)
        outcome.check("every example of every epoch is counted once", counted == expected, f"{counted} of {expected}")
        outcome.check("no example is set aside", set_aside == 0, set_aside)
        # Who was sent away holds what there was then.
        views = self.master.all(kind("view"))
        last = views[-1]["workers"] if views else []
        there = [worker for worker in staying if worker.all(kind("joined")) and self.number_of(worker) in last]
        self._compare_ends(outcome, there, int(started["parameters"]) if started else 0)

    def examples_until(self, checkpoint: Told) -> int:
        """The examples that are in a checkpoint."""
        if self.mode == "shared":
            # The last number of its name counts examples in this mode.
            return int(Path(str(checkpoint["path"])).stem.rpartition("-")[2])
        # The last step of an epoch is smaller than the others.
        epochs, steps = divmod(int(checkpoint["iteration"]), math.ceil(self.stage.examples / GLOBAL_BATCH))
        return epochs * self.stage.examples + steps * GLOBAL_BATCH

    def losses(self) -> list[dict[str, object]]:
        """Who was lost and why, with the worker's name in this run."""
        names = {told["worker"]: worker.name for worker in self.workers for told in worker.all(kind("joined"))}
        lost = self.master.all(kind("worker_lost"))
        return [{"name": names.get(told["worker"]), "at": told.at, **told.event} for told in lost]

    def said_since(self, moment: float) -> dict[str, list[dict[str, object]]]:
        """What the workers have told since then, and how long after it."""
        everything = lambda told: True
        return {
            worker.name: [{**told.event, "after_s": told.at - moment} for told in worker.all(everything, moment)]
            for worker in self.workers
        }

    def steps(self) -> list[float]:
        return [told.at for told in self.master.all(kind("step"))]

    def state(self, name: str) -> Path:
        return self.folder / f"{name}.state"

    def record(self, name: str) -> Path:
        return self.folder / f"{name}.record"

    def _compare_ends(self, outcome: Outcome, workers: Sequence[Player], parameters: int) -> None:
        states = [self.state(worker.name) for worker in workers]
        missing = [path.name for path in states if not path.exists()]
        outcome.details["compared"] = [worker.name for worker in workers]
        outcome.check("every worker has kept its state", not missing, missing)
        if missing or not states:
            return
        if self.mode != "shared":
            same = ends.same_bits(states)
            outcome.figures["states"] = "same bits" if same else "differ"
            outcome.check("all workers hold the same bits", same)
            return
        difference = ends.largest_difference(states, parameters)
        outcome.figures["states"] = f"differ by {difference:.1e}"
        outcome.check(f"states differ by {SHARED_MAY_DIFFER:.0e} at most", difference <= SHARED_MAY_DIFFER, difference)
        vectors = {worker.name: ends.applied(self.record(worker.name)) for worker in workers}
        same = ends.agree(list(vectors.values()))
        outcome.figures["messages applied"] = "the same" if same else "differ"
        outcome.details["applied"] = {name: asdict(vector) for name, vector in vectors.items()}
        outcome.check("all workers have applied the same messages", same, vectors)

    def _on(self, host: int) -> list[str]:
        return self.hosts.enter(host) if self.hosts else []

    def _common(self) -> list[str]:
        cache = ["--cache", str(self.stage.cache), "--offline"] if self.stage.cache else []
        return ["--events", "json", *cache]


def free_ports(count: int) -> list[int]:
    """Ports of loopback that nobody uses now, all different."""
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [held_one.getsockname()[1] for held_one in held]
    for held_one in held:
        held_one.close()
    return ports
