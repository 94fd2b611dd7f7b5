"""A master and its workers against one process and PyTorch DDP, all on the same two cores."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from .case import BENCH, WORK, Case, Job
from .child import Launch, trained, two_cores
from .contest import shown_rate
from .peers import Ddp, ddp_launches, pytorch_options
from .slices import run_in_slices
from .tables import markdown, verdict
from .teams import MODES, Team
from .toolchain import say

RUN_CLUSTER = BENCH / "harness" / "run_cluster.py"
ALONE, PEER = "one process", "DDP"
HEADER = ("network", "side", "examples/s", "of one process", "bar", "", "against DDP", "bar", "")


@dataclass(frozen=True)
class Cluster:
    """A master and workers of so many slots each."""

    workers: int
    slots: int
    mode: str

    @property
    def name(self) -> str:
        return f"{self.workers} × {self.slots}, {self.mode}"

    def launch(self, binary: Path, case: Case, job: Job, steps: int) -> Launch:
        name = f"{case.name}-{self.workers}x{self.slots}-{self.mode}"
        output = WORK / "output" / name
        shutil.rmtree(output, ignore_errors=True)  # a master goes on from what it finds there
        command: list[str | Path] = [sys.executable, RUN_CLUSTER, "--workers", str(self.workers), "--slots", str(self.slots)]
        command += [binary, case.job_file, "--mode", self.mode, "--output", output]
        command += ["--set", f"train.steps={steps}", "--set", f"data.global_batch={job.batch}"]
        return Launch(command, f"{name}-{steps}", cores=frozenset(two_cores()), is_group=True)


CLUSTERS = tuple(Cluster(workers, slots, mode) for workers, slots in ((1, 2), (2, 1)) for mode in MODES)

# What a side must reach of one process, and how many times as fast as DDP it must be, by network.
OF_ALONE = {
    "1 × 2, sync": {"lenet": 0.9, "mlp": 0.9},
    "1 × 2, averaging": {"lenet": 0.9, "mlp": 0.9},
    "1 × 2, shared": {"lenet": 0.8, "mlp": 0.8},
    "2 × 1, sync": {"lenet": 0.6},
    "2 × 1, averaging": {"lenet": 0.7, "mlp": 0.45},
    "2 × 1, shared": {"lenet": 0.8, "mlp": 0.8},
}
AGAINST_PEER = {"2 × 1, sync": {"lenet": 2.0, "mlp": 1.3}}


@dataclass(frozen=True)
class Contest:
    """Everything measured of one network: examples a second of each side, by repeat; none where noise swallowed it."""

    case: Case
    batch: int
    sides: list[str]
    rates: dict[str, list[float | None]] = field(default_factory=dict)
    seconds: dict[str, list[tuple[float, float]]] = field(default_factory=dict)  # of short and long runs

    def middle(self, name: str) -> float | None:
        return _middle(self.rates.get(name, [None]))

    def ratio(self, name: str, below: str) -> float | None:
        """The median of the repeats' ratios: in a repeat all sides take turns, so they belong together."""
        pairs = zip(self.rates[name], self.rates.get(below, []))
        return _middle([own / other if own and other else None for own, other in pairs])


def _middle(figures: Sequence[float | None]) -> float | None:
    return None if not figures or None in figures else median(figures)


def measure(case: Case, job: Job, binary: Path, python: Path | None, clusters: Sequence[Cluster], repeats: int) -> Contest:
    names = [ALONE, *(cluster.name for cluster in clusters), *([PEER] if python else [])]
    contest = Contest(case, job.batch, names, {name: [] for name in names}, {name: [] for name in names})

    def run(steps: int) -> dict[str, float]:
        sides = {ALONE: [Team(binary, "sync").launch(case, job, steps)]}
        sides |= {cluster.name: [cluster.launch(binary, case, job, steps)] for cluster in clusters}
        if python:
            variant = "channels-last" if case.has_images else "eager"
            options = pytorch_options(case, job, variant, job.batch // 2)
            options += ["--steps", str(steps), "--warm-steps", str(case.short_steps)]
            sides[PEER] = ddp_launches(python, options, f"{case.name}-cluster-{Ddp.name}-{steps}")
        finished = run_in_slices(sides)
        for name, children in finished.items():
            trained(name, children[0], steps * job.batch)
        return {name: max(child.seconds for child in children) for name, children in finished.items()}

    run(case.short_steps)  # not counted: the files are read from disk once
    for repeat in range(repeats):
        short, long = run(case.short_steps), run(case.long_steps)
        examples = job.batch * (case.long_steps - case.short_steps)
        for name in names:
            difference = long[name] - short[name]
            contest.rates[name].append(examples / difference if difference > 0 else None)
            contest.seconds[name].append((short[name], long[name]))
        told = ", ".join(f"{name} {shown_rate(rates[-1])}" for name, rates in contest.rates.items())
        say(f"{case.name}: repeat {repeat + 1} of {repeats}, examples/s: {told}")
    return contest


def table(contests: list[Contest]) -> str:
    cells = [_cells(contest, name) for contest in contests for name in contest.sides]
    lines = [markdown(HEADER, cells), "", "Repeats, examples/s:", ""]
    for contest in contests:
        for name, rates in contest.rates.items():
            lines.append(f"- {contest.case.name}, {name}: {' '.join(shown_rate(rate) for rate in rates)}")
    return "\n".join(lines)


def _cells(contest: Contest, name: str) -> tuple[str, ...]:
    cells = [contest.case.name, name, shown_rate(contest.middle(name))]
    for below, bars in ((ALONE, OF_ALONE), (PEER, AGAINST_PEER)):
        ratio, bar = _held(contest, name, below, bars)
        is_compared = below in contest.sides and name not in (ALONE, PEER)
        cells.append(f"{ratio:.2f}" if is_compared and ratio else "–")
        cells.append(f"{bar:.2f}" if bar else "–")
        cells.append(verdict(ratio, bar, len(contest.rates[name])) if bar and is_compared else "")
    return tuple(cells)


def _held(contest: Contest, name: str, below: str, bars: dict[str, dict[str, float]]) -> tuple[float | None, float | None]:
    return contest.ratio(name, below), bars.get(name, {}).get(contest.case.network)


def as_json(contest: Contest) -> dict[str, object]:
    return {
        "network": contest.case.name,
        "global_batch": contest.batch,
        "short_steps": contest.case.short_steps,
        "long_steps": contest.case.long_steps,
        "sides": [
            {
                "side": name,
                "examples_per_second": contest.middle(name),
                "of_one_process": contest.ratio(name, ALONE),
                "bar_of_one_process": OF_ALONE.get(name, {}).get(contest.case.network),
                "against_ddp": contest.ratio(name, PEER) if PEER in contest.sides else None,
                "bar_against_ddp": AGAINST_PEER.get(name, {}).get(contest.case.network),
                "repeats": contest.rates[name],
                "seconds": contest.seconds[name],
            }
            for name in contest.sides
        ],
    }
