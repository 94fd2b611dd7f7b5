"""One core: ours and PyTorch, the best of its variants, in turns."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from .case import BenchError, Case, Job
from .interleave import Pair, take_turns
from .sides import Ours, PyTorch, Side, variants
from .toolchain import say

PROBE_ROUNDS = 2


@dataclass(frozen=True)
class Row:
    """Everything measured of one case."""

    case: Case
    batch: int
    variant: str
    probe_ms: dict[str, float]
    ours: list[Pair] = field(default_factory=list)
    peer: list[Pair] = field(default_factory=list)

    @property
    def ours_ms(self) -> float:
        return median(pair.step_ms for pair in self.ours)

    @property
    def peer_ms(self) -> float:
        return median(pair.step_ms for pair in self.peer)

    @property
    def ratio(self) -> float | None:
        """How many times as fast as the peer we are; none where noise swallowed the difference."""
        return self.peer_ms / self.ours_ms if min(self.ours_ms, self.peer_ms) > 0 else None

    @property
    def ours_peak_mib(self) -> float:
        return max(pair.peak_mib for pair in self.ours)

    @property
    def peer_peak_mib(self) -> float:
        return max(pair.peak_mib for pair in self.peer)


def measure(case: Case, job: Job, ours: Ours, python: Path, repeats: int, skipped: set[str]) -> Row:
    probe_ms = _probe(case, job, python, rounds=min(PROBE_ROUNDS, repeats), skipped=skipped)
    best = min(probe_ms, key=probe_ms.__getitem__)
    say(f"{case.name}: the best of PyTorch is `{best}`")
    row = Row(case, job.batch, best, probe_ms)
    peer = PyTorch(python, best)
    _warm_and_compare(case, job, ours, peer)
    for repeat in range(repeats):
        # The side that goes first changes, so that a slow drift of the machine favours nobody.
        sides: list[Side] = [ours, peer] if repeat % 2 == 0 else [peer, ours]
        pairs = take_turns(case, job, sides)
        row.ours.append(pairs[ours.name])
        row.peer.append(pairs[peer.name])
        say(
            f"{case.name}: repeat {repeat + 1} of {repeats}: paceline {row.ours[-1].step_ms:.2f} ms a step, "
            f"PyTorch {row.peer[-1].step_ms:.2f}"
        )
    return row


def _probe(case: Case, job: Job, python: Path, rounds: int, skipped: set[str]) -> dict[str, float]:
    """The best time of a step of each variant by the peer's own clock; also fills the compile cache."""
    steps = case.short_steps + (case.long_steps - case.short_steps) // 3
    candidates = [variant for variant in variants(case) if variant not in skipped]
    if not candidates:
        raise BenchError(f"no variant of PyTorch is left for `{case.name}`")
    times = dict.fromkeys(candidates, float("inf"))
    for _ in range(rounds):
        for variant in candidates:
            own_clock_ms = float(PyTorch(python, variant).train(case, job, steps).event["own_clock_ms"])
            times[variant] = min(times[variant], own_clock_ms)
            say(f"{case.name}: probe of PyTorch `{variant}`: {own_clock_ms:.2f} ms a step")
    return times


def _warm_and_compare(case: Case, job: Job, ours: Ours, peer: PyTorch) -> None:
    """One run of each that is not counted, and the check that both train the same network."""
    counts = [side.train(case, job, case.short_steps).event.get("parameters") for side in (ours, peer)]
    if counts[0] is not None and counts[0] != counts[1]:
        raise BenchError(f"`{case.name}` has {counts[0]} parameters with us and {counts[1]} with PyTorch")
