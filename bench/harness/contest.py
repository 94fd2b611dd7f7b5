"""Two cores: our modes and the peers, each peer at its best, all in turns."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from statistics import median

from .case import BenchError, Case, Job
from .interleave import Pair, long_steps, take_turns
from .peers import Peer, at_variant
from .tables import markdown, verdict
from .teams import Team
from .toolchain import say

PROBE_ROUNDS = 2

# How many times as fast as the peer each of our modes must be; who is not here is recorded only.
BARS = {
    ("pytorch", "lenet"): 2.0,
    ("pytorch", "mlp"): 1.4,
    ("ddp", "lenet"): 2.5,
    ("ddp", "mlp"): 2.5,
    ("dl4j", "lenet"): 3.0,
}

HEADER = ("network", "mode", "examples/s", "against", "variant", "examples/s", "ratio", "bar", "", "peak MiB", "peer's")


@dataclass(frozen=True)
class Contest:
    """Everything measured of one network."""

    case: Case
    batch: int
    teams: list[Team]
    peers: list[Peer]
    probe_ms: dict[str, dict[str, float]]
    pairs: dict[str, list[Pair]] = field(default_factory=dict)

    def step_ms(self, side: Team | Peer) -> float:
        return median(pair.step_ms for pair in self.pairs[side.name])

    def examples_per_second(self, side: Team | Peer) -> float | None:
        """None where noise swallowed the difference of long and short."""
        step_ms = self.step_ms(side)
        return 1000 * self.batch / step_ms if step_ms > 0 else None

    def ratio(self, team: Team, peer: Peer) -> float | None:
        ours, theirs = self.step_ms(team), self.step_ms(peer)
        return theirs / ours if min(ours, theirs) > 0 else None

    def peak_mib(self, side: Team | Peer) -> float:
        return max(pair.peak_mib for pair in self.pairs[side.name])

    def bar(self, peer: Peer) -> float | None:
        return BARS.get((peer.name, self.case.network))


def compete(
    case: Case, job: Job, teams: list[Team], peers: list[Peer], repeats: int, skipped: set[str]
) -> Contest:
    probe_ms, best = {}, []
    for peer in peers:
        probe_ms[peer.name] = _probe(case, job, peer, min(PROBE_ROUNDS, repeats), skipped)
        best.append(at_variant(peer, min(probe_ms[peer.name], key=probe_ms[peer.name].__getitem__)))
        say(f"{case.name}: the best of {peer.title} is `{best[-1].variant}`")
    contest = Contest(case, job.batch, teams, best, probe_ms)
    sides = [*teams, *best]
    _warm_and_compare(case, job, sides)
    for repeat in range(repeats):
        # Who goes first changes, so that a slow drift of the machine favours nobody.
        pairs = take_turns(case, job, sides if repeat % 2 == 0 else sides[::-1])
        for side in sides:
            contest.pairs.setdefault(side.name, []).append(pairs[side.name])
        told = ", ".join(f"{side.name} {pairs[side.name].step_ms:.2f}" for side in sides)
        say(f"{case.name}: repeat {repeat + 1} of {repeats}, ms a step: {told}")
    return contest


def _probe(case: Case, job: Job, peer: Peer, rounds: int, skipped: set[str]) -> dict[str, float]:
    """The best time of a step of each variant by the peer's own clock; also fills caches of compiled kernels."""
    candidates = [variant for variant in peer.variants(case) if variant not in skipped]
    if not candidates:
        raise BenchError(f"no variant of {peer.title} is left for `{case.name}`")
    steps = case.short_steps + (long_steps(case, peer) - case.short_steps) // 3
    times = dict.fromkeys(candidates, float("inf"))
    for _ in range(rounds):
        for variant in candidates:
            event = at_variant(peer, variant).train(case, job, steps).event
            times[variant] = min(times[variant], float(event["own_clock_ms"]))
            say(f"{case.name}: probe of {peer.title} `{variant}`: {event['own_clock_ms']:.2f} ms a step")
    return times


def _warm_and_compare(case: Case, job: Job, sides: list[Team | Peer]) -> None:
    """One run of each that is not counted, and the check that all train the same network."""
    counts = {side.title: side.train(case, job, case.short_steps).event.get("parameters") for side in sides}
    if len(set(counts.values())) > 1:
        raise BenchError(f"the parameters of `{case.name}` differ: {counts}")


def table(contests: list[Contest]) -> str:
    """One line for each pair of a mode and a peer, then the repeats."""
    rows = [_cells(contest, team, peer) for contest in contests for peer in contest.peers for team in contest.teams]
    lines = [markdown(HEADER, rows), "", "Repeats, ms a step:", ""]
    for contest in contests:
        for name, pairs in contest.pairs.items():
            lines.append(f"- {contest.case.name}, {name}: {' '.join(f'{pair.step_ms:.2f}' for pair in pairs)}")
        for peer in contest.peers:
            left_out = [name for name in peer.variants(contest.case) if name not in contest.probe_ms[peer.name]]
            lines += [f"  - left out by hand: {peer.title} `{name}`" for name in left_out]
    return "\n".join(lines)


def _cells(contest: Contest, team: Team, peer: Peer) -> tuple[str, ...]:
    ratio, bar = contest.ratio(team, peer), contest.bar(peer)
    return (
        contest.case.name,
        team.mode,
        shown_rate(contest.examples_per_second(team)),
        peer.title,
        peer.variant,
        shown_rate(contest.examples_per_second(peer)),
        "–" if ratio is None else f"{ratio:.2f} ×",
        "–" if bar is None else f"{bar:.1f} ×",
        verdict(ratio, bar, len(contest.pairs[team.name])),
        f"{contest.peak_mib(team):.0f}",
        f"{contest.peak_mib(peer):.0f}",
    )


def shown_rate(rate: float | None) -> str:
    return "–" if rate is None else f"{rate:,.0f}"


def as_json(contest: Contest) -> dict[str, object]:
    return {
        "network": contest.case.name,
        "batch": contest.batch,
        "short_steps": contest.case.short_steps,
        "long_steps": {side.name: long_steps(contest.case, side) for side in [*contest.teams, *contest.peers]},
        "probe_ms": contest.probe_ms,
        "sides": [
            {
                "name": side.name,
                "title": side.title,
                "variant": getattr(side, "variant", None),
                "step_ms": contest.step_ms(side),
                "examples_per_second": contest.examples_per_second(side),
                "peak_mib": contest.peak_mib(side),
                "repeats": [asdict(pair) for pair in contest.pairs[side.name]],
            }
            for side in [*contest.teams, *contest.peers]
        ],
        "comparisons": [
            {
                "mode": team.mode,
                "peer": peer.name,
                "ratio": contest.ratio(team, peer),
                "bar": contest.bar(peer),
                "verdict": verdict(contest.ratio(team, peer), contest.bar(peer), len(contest.pairs[team.name])),
            }
            for peer in contest.peers
            for team in contest.teams
        ],
    }
