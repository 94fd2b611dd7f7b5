"""What two workers together reach of what two lone runs reach beside each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from .case import Case, Job
from .child import Finished
from .contest import shown_rate
from .tables import markdown, verdict
from .teams import WORKERS, SideBySide, Team
from .toolchain import say

BARS = {"sync": 0.95, "averaging": 0.95, "shared": 0.9}
HEADER = ("network", "mode", "examples/s", "side by side, examples/s", "share", "bar", "")


@dataclass(frozen=True)
class Rate:
    """Examples a second by the difference of a long and a short run; with several processes, the sum of theirs."""

    short_seconds: list[float]
    long_seconds: list[float]
    examples_per_second: float | None  # none where noise swallowed a difference


@dataclass(frozen=True)
class Scaling:
    """Everything measured of one network."""

    case: Case
    batch: int
    modes: list[str]
    alone: list[Rate] = field(default_factory=list)
    together: dict[str, list[Rate]] = field(default_factory=dict)

    def share(self, mode: str) -> float | None:
        ours, alone = middle(self.together[mode]), middle(self.alone)
        return ours / alone if ours and alone else None


def middle(rates: Sequence[Rate]) -> float | None:
    known = [rate.examples_per_second for rate in rates if rate.examples_per_second is not None]
    return median(known) if len(known) == len(rates) else None


def measure(case: Case, job: Job, binary: Path, modes: Sequence[str], repeats: int) -> Scaling:
    scaling = Scaling(case, job.batch, list(modes), together={mode: [] for mode in modes})
    alone = SideBySide(binary)
    teams = {mode: Team(binary, mode) for mode in modes}

    def take_alone() -> None:
        scaling.alone.append(_rate(case, job.batch // WORKERS, lambda steps: alone.train(case, job, steps)))

    def take_team(mode: str) -> None:
        rate = _rate(case, job.batch, lambda steps: [teams[mode].train(case, job, steps)])
        scaling.together[mode].append(rate)

    alone.train(case, job, case.short_steps)  # not counted: the files are read from disk once
    for repeat in range(repeats):
        # Who goes first changes, so that a slow drift of the machine favours nobody.
        turns: list[str | None] = [None, *modes]
        for mode in turns if repeat % 2 == 0 else turns[::-1]:
            take_team(mode) if mode else take_alone()
        told = ", ".join(f"{mode} {shown_rate(rates[-1].examples_per_second)}" for mode, rates in scaling.together.items())
        beside = shown_rate(scaling.alone[-1].examples_per_second)
        say(f"{case.name}: repeat {repeat + 1} of {repeats}, examples/s: side by side {beside}, {told}")
    return scaling


def _rate(case: Case, batch: int, train: Callable[[int], list[Finished]]) -> Rate:
    short = [finished.seconds for finished in train(case.short_steps)]
    long = [finished.seconds for finished in train(case.long_steps)]
    differences = [after - before for before, after in zip(short, long)]
    examples = batch * (case.long_steps - case.short_steps)
    rate = sum(examples / seconds for seconds in differences) if min(differences) > 0 else None
    return Rate(short, long, rate)


def table(rows: list[Scaling]) -> str:
    cells = [_cells(row, mode) for row in rows for mode in row.modes]
    lines = [markdown(HEADER, cells), "", "Repeats, examples/s:", ""]
    for row in rows:
        for name, rates in {"side by side": row.alone, **row.together}.items():
            lines.append(f"- {row.case.name}, {name}: {' '.join(shown_rate(rate.examples_per_second) for rate in rates)}")
    return "\n".join(lines)


def _cells(row: Scaling, mode: str) -> tuple[str, ...]:
    share = row.share(mode)
    return (
        row.case.name,
        mode,
        shown_rate(middle(row.together[mode])),
        shown_rate(middle(row.alone)),
        "–" if share is None else f"{share:.3f}",
        f"{BARS[mode]:.2f}",
        verdict(share, BARS[mode], len(row.alone)),
    )


def as_json(row: Scaling) -> dict[str, object]:
    return {
        "network": row.case.name,
        "global_batch": row.batch,
        "batch_of_each": row.batch // WORKERS,
        "short_steps": row.case.short_steps,
        "long_steps": row.case.long_steps,
        "side_by_side": {"examples_per_second": middle(row.alone), "repeats": [vars(rate) for rate in row.alone]},
        "modes": [
            {
                "mode": mode,
                "examples_per_second": middle(row.together[mode]),
                "share": row.share(mode),
                "bar": BARS[mode],
                "verdict": verdict(row.share(mode), BARS[mode], len(row.alone)),
                "repeats": [vars(rate) for rate in row.together[mode]],
            }
            for mode in row.modes
        ],
    }
