"""Two hosts and a cable of several bandwidths: all sides in turns, and what is held against them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from statistics import median

from .cable import PEER, Rate, Side
from .contest import shown_rate
from .hosts import UNSHAPED, Bandwidth, Hosts
from .tables import markdown, verdict
from .toolchain import say

# How many times as fast as DDP a side must be, by bits a second.
BARS = {("shared", None): 2.5, ("shared", 10**9): 8.0, ("shared", 10**8): 50.0}
# What a side must keep of its own speed without a limit.
KEPT_BARS = {("averaging-400", 10**8): 0.85, ("averaging-100-overlapped", 10**8): 0.85}

HEADER = ("bandwidth", "side", "examples/s", "against DDP", "of unshaped", "KB an example", "bar", "")


@dataclass(frozen=True)
class Reach:
    """Everything measured at one bandwidth."""

    at: Bandwidth
    sides: list[Side]
    rates: dict[str, list[Rate]] = field(default_factory=dict)

    def middle(self, name: str) -> float | None:
        found = [rate.examples_per_second for rate in self.rates[name]]
        return median(found) if found and None not in found else None

    def middle_bytes(self, name: str) -> float | None:
        known = [rate.bytes_per_example for rate in self.rates[name] if rate.bytes_per_example is not None]
        return median(known) if known else None

    def against_peer(self, name: str) -> float | None:
        return _over(self.middle(name), self.middle(PEER))


def measure(
    bandwidths: Sequence[Bandwidth], hosts: Hosts, sides: list[Side], repeats: int
) -> Iterator[list[Reach]]:
    """What is there after each turn of all sides at one bandwidth.

    A repeat goes through all bandwidths: what a side keeps of its speed without a limit is a ratio too, and a drift of
    the machine must not make it.
    """
    reaches = [Reach(at, sides, {side.name: [] for side in sides}) for at in bandwidths]
    for repeat in range(repeats):
        # Who and what goes first changes, so that a slow drift of the machine favours nobody.
        turn = slice(None, None, 1 if repeat % 2 == 0 else -1)
        for reach in reaches[turn]:
            hosts.shape(reach.at)
            for side in sides[turn]:
                reach.rates[side.name].append(side.turn(reach.at))
            told = ", ".join(f"{name} {_shown(rates[-1:])}" for name, rates in reach.rates.items())
            say(f"repeat {repeat + 1} of {repeats}, {reach.at.title}, examples/s: {told}")
            yield [reach for reach in reaches if any(reach.rates.values())]


@dataclass(frozen=True)
class Line:
    """One side at one bandwidth, and what is held against it."""

    reach: Reach
    side: Side
    against_peer: float | None
    kept: float | None  # of its own speed without a limit
    bar: float | None
    kept_bar: float | None

    @property
    def verdict(self) -> str:
        rates = self.reach.rates[self.side.name]
        repeats = len(rates)
        if any(rate.trouble for rate in rates):
            return "failed"
        if self.kept_bar is not None:
            return verdict(self.kept, self.kept_bar, repeats)
        if self.side.name == PEER:
            return ""
        return verdict(self.against_peer, self.bar, repeats)


def lines(reaches: Sequence[Reach]) -> list[Line]:
    free = next((reach for reach in reaches if reach.at == UNSHAPED), None)
    found = []
    for reach in reaches:
        for side in reach.sides:
            place = (side.name, reach.at.bits)
            kept = _over(reach.middle(side.name), free.middle(side.name)) if free else None
            # Without the run to compare with there is nothing to hold it to.
            kept_bar = KEPT_BARS.get(place) if free else None
            found.append(Line(reach, side, reach.against_peer(side.name), kept, BARS.get(place), kept_bar))
    return found


def table(reaches: Sequence[Reach]) -> str:
    """One line for each side at each bandwidth, then the repeats."""
    told = [markdown(HEADER, [_cells(line) for line in lines(reaches)]), "", "Repeats, examples/s:", ""]
    for reach in reaches:
        for name, rates in reach.rates.items():
            told.append(f"- {reach.at.title}, {name}: {_shown(rates)}")
            told += [f"  - failed: {trouble}" for trouble in dict.fromkeys(rate.trouble for rate in rates) if trouble]
    return "\n".join(told)


def _cells(line: Line) -> tuple[str, ...]:
    name, sent = line.side.name, line.reach.middle_bytes(line.side.name)
    if line.kept_bar is not None:
        bar = f"{line.kept_bar:.0%} of unshaped"
    else:
        bar = "–" if line.bar is None else f"{line.bar:.1f} × DDP"
    return (
        line.reach.at.title,
        line.side.title,
        shown_rate(line.reach.middle(name)),
        "–" if line.against_peer is None or name == PEER else f"{line.against_peer:.2f} ×",
        "–" if line.kept is None else f"{line.kept:.0%}",
        "–" if sent is None else f"{sent / 1000:,.2f}",
        bar,
        line.verdict,
    )


def as_json(reaches: Sequence[Reach]) -> list[dict[str, object]]:
    found = lines(reaches)
    return [
        {
            "bandwidth": reach.at.name,
            "bits_per_second": reach.at.bits,
            "sides": [
                {
                    "name": line.side.name,
                    "title": line.side.title,
                    "examples_per_second": reach.middle(line.side.name),
                    "bytes_per_example": reach.middle_bytes(line.side.name),
                    "against_ddp": line.against_peer,
                    "of_unshaped": line.kept,
                    "bar": line.bar,
                    "bar_of_unshaped": line.kept_bar,
                    "verdict": line.verdict,
                    "repeats": [asdict(rate) for rate in reach.rates[line.side.name]],
                }
                for line in found
                if line.reach is reach
            ],
        }
        for reach in reaches
    ]


def _shown(rates: Sequence[Rate]) -> str:
    return " ".join(shown_rate(rate.examples_per_second) for rate in rates)


def _over(above: float | None, below: float | None) -> float | None:
    return above / below if above and below else None
