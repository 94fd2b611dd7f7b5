"""Time a step from outside: a long run less a short one, over the difference in steps; all sides take turns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from .case import Case, Job
from .child import Finished


class Side(Protocol):
    """Whoever trains a case. `pace` shortens the long runs of a slow side, so that all take about as long."""

    @property
    def name(self) -> str: ...

    @property
    def pace(self) -> float: ...

    def train(self, case: Case, job: Job, steps: int) -> Finished: ...


@dataclass(frozen=True)
class Pair:
    """One short and one long run of one side."""

    short_seconds: float
    long_seconds: float
    peak_mib: float
    step_ms: float
    own_clock_ms: float | None  # what the side itself says, where it does: a check on `step_ms`


def long_steps(case: Case, side: Side) -> int:
    return case.short_steps + max(1, round(side.pace * (case.long_steps - case.short_steps)))


def take_turns(case: Case, job: Job, sides: Sequence[Side]) -> dict[str, Pair]:
    short = {side.name: side.train(case, job, case.short_steps) for side in sides}
    pairs = {}
    for side in sides:
        steps = long_steps(case, side)
        long = side.train(case, job, steps)
        seconds = long.seconds - short[side.name].seconds
        pairs[side.name] = Pair(
            short_seconds=short[side.name].seconds,
            long_seconds=long.seconds,
            peak_mib=max(short[side.name].peak_mib, long.peak_mib),
            step_ms=1000 * seconds / (steps - case.short_steps),
            own_clock_ms=long.event.get("own_clock_ms"),
        )
    return pairs
