"""What two workers together reach of what two lone runs reach beside each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from .case import Case, Job
from .child import trained
from .contest import shown_rate
from .slices import run_in_slices
from .tables import markdown, verdict
from .teams import WORKERS, SideBySide, Team
from .toolchain import say

BARS = {"sync": 0.95, "averaging": 0.95, "shared": 0.9}
ALONE = "side by side"
HEADER = ("network", "mode", "examples/s", "side by side, examples/s", "share", "bar", "")


@dataclass(frozen=True)
class Rate:
    """Examples a second by the difference of a long and a short run; with several processes, the sum of theirs."""

    short_seconds: list[float]
    long_seconds: list[float]
    examples_per_second: float | None  # none where noise swallowed a difference

    def slower_over_faster(self) -> float | None:
        """How unequal the cores were: who waits for the other at every step goes at the pace of the slower."""
        seconds = _differences(self.short_seconds, self.long_seconds)
        return max(seconds) / min(seconds) if min(seconds) > 0 else None


@dataclass(frozen=True)
class Scaling:
    """Everything measured of one network."""

    case: Case
    batch: int
    modes: list[str]
    alone: list[Rate] = field(default_factory=list)
    together: dict[str, list[Rate]] = field(default_factory=dict)

    def shares(self, mode: str) -> list[float | None]:
        """By repeat: in a repeat all sides take turns, so they belong together."""
        pairs = ((ours.examples_per_second, alone.examples_per_second) for ours, alone in zip(self.together[mode], self.alone))
        return [ours / alone if ours and alone else None for ours, alone in pairs]

    def share(self, mode: str) -> float | None:
        return _middle(self.shares(mode))


def middle(rates: Sequence[Rate]) -> float | None:
    return _middle([rate.examples_per_second for rate in rates])


def _middle(figures: Sequence[float | None]) -> float | None:
    known = [figure for figure in figures if figure is not None]
    return median(known) if len(known) == len(figures) else None


def measure(case: Case, job: Job, binary: Path, modes: Sequence[str], repeats: int) -> Scaling:
    scaling = Scaling(case, job.batch, list(modes), together={mode: [] for mode in modes})
    alone = SideBySide(binary)
    teams = {mode: Team(binary, mode) for mode in modes}

    def contest(steps: int) -> dict[str, list[float]]:
        sides = {mode: [team.launch(case, job, steps)] for mode, team in teams.items()}
        finished = run_in_slices({ALONE: alone.launches(case, job, steps), **sides})
        examples = {name: steps * job.batch // len(children) for name, children in finished.items()}
        return {
            name: [trained(name, child, examples[name]).seconds for child in children]
            for name, children in finished.items()
        }

    contest(case.short_steps)  # not counted: the files are read from disk once
    for repeat in range(repeats):
        short, long = contest(case.short_steps), contest(case.long_steps)
        rates = {name: _rate(case, job.batch // len(long[name]), short[name], long[name]) for name in long}
        scaling.alone.append(rates[ALONE])
        for mode in modes:
            scaling.together[mode].append(rates[mode])
        told = ", ".join(f"{name} {shown_rate(rate.examples_per_second)}" for name, rate in rates.items())
        say(f"{case.name}: repeat {repeat + 1} of {repeats}, examples/s: {told}")
    return scaling


def _differences(short: list[float], long: list[float]) -> list[float]:
    return [after - before for before, after in zip(short, long)]


def _rate(case: Case, batch: int, short: list[float], long: list[float]) -> Rate:
    differences = _differences(short, long)
    examples = batch * (case.long_steps - case.short_steps)
    rate = sum(examples / seconds for seconds in differences) if min(differences) > 0 else None
    return Rate(short, long, rate)


def table(rows: list[Scaling]) -> str:
    cells = [_cells(row, mode) for row in rows for mode in row.modes]
    lines = [markdown(HEADER, cells), "", "Repeats, examples/s:", ""]
    for row in rows:
        for name, rates in {ALONE: row.alone, **row.together}.items():
            lines.append(f"- {row.case.name}, {name}: {' '.join(shown_rate(rate.examples_per_second) for rate in rates)}")
    lines += ["", "Repeats, shares:", ""]
    for row in rows:
        for mode in row.modes:
            lines.append(f"- {row.case.name}, {mode}: {' '.join(_shown_share(share) for share in row.shares(mode))}")
    lines += ["", "Repeats, seconds of the slower lone run over those of the faster:", ""]
    for row in rows:
        lines.append(f"- {row.case.name}: {' '.join(_shown_share(rate.slower_over_faster()) for rate in row.alone)}")
    return "\n".join(lines)


def _cells(row: Scaling, mode: str) -> tuple[str, ...]:
    share = row.share(mode)
    return (
        row.case.name,
        mode,
        shown_rate(middle(row.together[mode])),
        shown_rate(middle(row.alone)),
        _shown_share(share),
        f"{BARS[mode]:.2f}",
        verdict(share, BARS[mode], len(row.alone)),
    )


def _shown_share(share: float | None) -> str:
    return "–" if share is None else f"{share:.3f}"


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
                "shares": row.shares(mode),
                "bar": BARS[mode],
                "verdict": verdict(row.share(mode), BARS[mode], len(row.alone)),
                "repeats": [vars(rate) for rate in row.together[mode]],
            }
            for mode in row.modes
        ],
    }
