"""The picture of `network.py`: examples a second over bandwidth, both logarithmic, one line for each side."""

from __future__ import annotations

import math
from dataclasses import dataclass

from .case import BenchError
from .hosts import bandwidth
from .svg import EDGE, INK, OURS, QUIET, card, text

WIDTH, HEIGHT = 860, 460
LEFT, RIGHT, TOP, BOTTOM = 84, 220, 64, 66
UNSHAPED_DECADES = 0.7  # how far right of the fastest cable the run without a limit stands
LABEL_HEIGHT = 18
NAMES = {
    "shared": "Paceline, shared",
    "averaging-400": "Paceline, averaging 400",
    "averaging-100-overlapped": "Paceline, overlapped 100",
    "averaging-3": "Paceline, averaging 3",
    "sync": "Paceline, sync",
    "ddp": "PyTorch DDP",
}
COLOURS = {"shared": OURS, "averaging-400": "#2f6fb3", "averaging-100-overlapped": "#b3246b", "averaging-3": "#8250b4", "sync": "#b3661b", "ddp": "#6e7781"}


@dataclass(frozen=True)
class Scale:
    """From figures to places on the card."""

    decades: tuple[int, int]  # of examples a second
    places: dict[str, float]  # of each bandwidth, 0 to 1

    def x(self, name: str) -> float:
        return LEFT + self.places[name] * (WIDTH - LEFT - RIGHT)

    def y(self, value: float) -> float:
        low, high = self.decades
        return HEIGHT - BOTTOM - (math.log10(value) - low) / (high - low) * (HEIGHT - TOP - BOTTOM)


def draw(results: dict) -> str:
    if results.get("kind") != "network":
        raise BenchError(f"expected results of `network.py`, found those of kind `{results.get('kind')}`")
    runs = sorted(results["bandwidths"], key=lambda run: run["bits_per_second"] or math.inf)
    curves: dict[str, list[tuple[str, float]]] = {}
    for run in runs:
        for side in run["sides"]:
            if side["examples_per_second"] and side["name"] in NAMES:
                curves.setdefault(side["name"], []).append((run["bandwidth"], side["examples_per_second"]))
    if len(runs) < 2 or not curves:
        raise BenchError("a curve needs two bandwidths")
    scale = _scale(runs, [value for points in curves.values() for _, value in points])
    data = "MNIST" if "mnist" in results["network"] else "random bytes"
    title = f"MLP on {data}, two hosts: examples a second over the bandwidth between them"
    lines = [
        text(24, 36, title, INK, weight=600),
        *_axes(scale, runs),
        *(line for name in NAMES if name in curves for line in _curve(scale, name, curves[name])),
        *_labels(scale, curves),
    ]
    return card(WIDTH, HEIGHT, "Examples a second over bandwidth, Paceline and PyTorch DDP", lines)


def _scale(runs: list[dict], values: list[float]) -> Scale:
    at = {run["bandwidth"]: math.log10(run["bits_per_second"]) for run in runs if run["bits_per_second"]}
    fastest = max(at.values())
    at |= {run["bandwidth"]: fastest + UNSHAPED_DECADES for run in runs if not run["bits_per_second"]}
    first, last = min(at.values()), max(at.values())
    decades = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return Scale(decades, {name: (place - first) / (last - first) for name, place in at.items()})


def _axes(scale: Scale, runs: list[dict]) -> list[str]:
    lines = []
    for decade in range(scale.decades[0], scale.decades[1] + 1):
        y = scale.y(10**decade)
        lines.append(f'<line x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}" stroke="{EDGE}"/>')
        lines.append(text(LEFT - 10, y + 5, f"{10**decade:,}", QUIET, anchor="end"))
    for run in runs:
        x, y = scale.x(run["bandwidth"]), HEIGHT - BOTTOM
        lines.append(f'<line x1="{x:.1f}" y1="{y}" x2="{x:.1f}" y2="{y + 6}" stroke="{QUIET}"/>')
        lines.append(text(x, y + 24, bandwidth(run["bandwidth"]).short, QUIET, anchor="middle"))
    middle = (LEFT + WIDTH - RIGHT) / 2
    return [*lines, text(middle, HEIGHT - BOTTOM + 48, "bits a second, each way", QUIET, anchor="middle")]


def _curve(scale: Scale, name: str, points: list[tuple[str, float]]) -> list[str]:
    places = [(scale.x(at), scale.y(value)) for at, value in points]
    colour = COLOURS[name]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    dots = [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}"/>' for x, y in places]
    return [f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2.5"/>', *dots]


def _labels(scale: Scale, curves: dict[str, list[tuple[str, float]]]) -> list[str]:
    """Each at the right end of its line, moved where two would lie on each other."""
    order = sorted(curves, key=lambda name: scale.y(curves[name][-1][1]))
    wanted = [scale.y(curves[name][-1][1]) + 5 for name in order]
    places: list[float] = []
    for y in wanted:
        places.append(max(y, places[-1] + LABEL_HEIGHT) if places else y)
    # What was pushed down is pulled up again by half of it, so that the labels stay around their lines.
    pushed = max(place - y for place, y in zip(places, wanted))
    places = [place - pushed / 2 for place in places]
    return [text(WIDTH - RIGHT + 14, y, NAMES[name], COLOURS[name], weight=600) for name, y in zip(order, places)]
