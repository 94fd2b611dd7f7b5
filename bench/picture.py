#!/usr/bin/env python3
"""Draw `bench/picture.svg` from the newest kept results: us and every peer, as bars."""

from __future__ import annotations

import argparse
import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from harness.svg import INK, OURS, PEER, QUIET, card, text

BENCH = Path(__file__).resolve().parent
MODE = "sync"  # the mode that several workers take unless told otherwise
TITLES = {
    "lenet-b128": "LeNet, batch 128",
    "lenet-b32": "LeNet, batch 32",
    "mlp-b128": "MLP 784-1000-500-250-10, batch 128",
    "untuned": "A network nobody tuned for, batch 64",
}
SHORT_TITLES = {"lenet-b128": "LeNet, 128", "lenet-b32": "LeNet, 32", "mlp-b128": "MLP, 128", "untuned": "Untuned, 64"}
SIDES = {"pytorch": "PyTorch, 2 threads", "ddp": "PyTorch DDP, 2 processes", "dl4j": "DL4J ParallelWrapper"}

WIDTH, LEFT, RIGHT = 860, 250, 190
BAR, GAP, HEAD = 20, 8, 44


@dataclass(frozen=True)
class Bar:
    name: str
    length: float  # 1 is the longest of its panel
    label: str
    ours: bool


@dataclass(frozen=True)
class Panel:
    title: str
    bars: list[Bar]

    @property
    def height(self) -> int:
        return HEAD + len(self.bars) * (BAR + GAP)


def main() -> None:
    options = parse_options()
    results = newest_first(options.runs)
    panels = [*two_core_panels(results), *mark_panels(results), *one_core_panels(results)]
    if not panels:
        sys.exit(f"error: expected results under `{options.runs}`, found none that can be drawn")
    options.output.write_text(svg(panels))
    print(options.output)


def newest_first(runs: Path) -> list[dict]:
    """The results of all runs; a folder is called `DATE-N` or `DATE-KIND-N`, and the number may have two digits."""

    def age(path: Path) -> tuple[str, int]:
        date, number = re.match(r"(\d+-\d+-\d+).*?(\d+)$", path.parent.name).groups()
        return date, int(number)

    files = [path for path in runs.glob("*/results.json") if re.match(r"\d+-\d+-\d+.*\d$", path.parent.name)]
    results = [json.loads(path.read_text()) for path in sorted(files, key=age, reverse=True)]
    return [run for run in results if isinstance(run, dict)]  # the accuracy matrix is a list, and not drawn


def two_core_panels(results: list[dict]) -> list[Panel]:
    """For each network: us, and each peer as long as its speed against ours in the run that had both."""
    panels = []
    for network in TITLES:
        ours: dict | None = None
        peers: dict[str, tuple[float, dict]] = {}
        for run in of_kind(results, "parallel"):
            for one in (one for one in run["networks"] if one["network"] == network):
                sides = {side["name"]: side for side in one["sides"]}
                for pair in one["comparisons"]:
                    if pair["mode"] == MODE and pair["ratio"] and pair["peer"] not in peers:
                        peers[pair["peer"]] = pair["ratio"], sides[pair["peer"]]
                        ours = ours or sides[f"paceline-{MODE}"]
        if ours is None:
            continue
        rows = [(1.0, ours["title"].replace(f", {MODE}", ", 2 workers"), rate(ours["examples_per_second"]), True)]
        for ratio, side in sorted(peers.values(), key=lambda peer: peer[0]):
            rows.append((1 / ratio, side["title"], f"{rate(side['examples_per_second'])} · we {ratio:.1f} ×", False))
        panels.append(Panel(f"{TITLES[network]}: examples a second on two cores", bars(rows)))
    return panels


def mark_panels(results: list[dict]) -> list[Panel]:
    """Seconds to the last mark; shorter is better."""
    run = next(of_kind(results, "accuracy"), None)
    if run is None:
        return []
    rows = []
    for one in run["race"]:
        mark, seconds = max(one["seconds_to"].items())
        if seconds is not None:
            mode = one["side"].removeprefix("paceline-")
            ours = mode != one["side"]
            rows.append((seconds, f"Paceline, {mode}" if ours else SIDES[one["side"]], f"{seconds:.1f} s", ours))
    title = "LeNet on MNIST: seconds to 99 % on the test images, two cores (shorter is better)"
    return [Panel(title, bars(sorted(rows)))] if rows else []


def one_core_panels(results: list[dict]) -> list[Panel]:
    """Each network of the newest run that had it, one thread each side."""
    rows = []
    for network in TITLES:
        found = (one for run in of_kind(results, "solo") for one in run["networks"] if one["network"] == network)
        one = next((one for one in found if one["ratio"]), None)
        if one is None:
            continue
        short = SHORT_TITLES[network]
        ours, peer = (1000 * one["batch"] / one[f"{side}_ms"] for side in ("paceline", "pytorch"))
        longest = max(ours, peer)
        rows.append((ours / longest, f"{short}: Paceline", rate(ours), True))
        rows.append((peer / longest, "PyTorch", f"{rate(peer)} · we {one['ratio']:.1f} ×", False))
    return [Panel("One core, one thread each: examples a second (network, batch)", bars(rows))] if rows else []


def of_kind(results: list[dict], kind: str):
    return (run for run in results if run.get("kind", "solo") == kind)


def bars(rows: list[tuple[float, str, str, bool]]) -> list[Bar]:
    longest = max(length for length, *_ in rows)
    return [Bar(name, length / longest, label, ours) for length, name, label, ours in rows]


def rate(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}/s"


def svg(panels: list[Panel]) -> str:
    height = sum(panel.height for panel in panels) + 16 * len(panels) + 8
    lines = []
    top = 12
    for panel in panels:
        lines.append(text(24, top + 24, panel.title, INK, weight=600))
        y = top + HEAD
        for bar in panel.bars:
            width = max(2.0, bar.length * (WIDTH - LEFT - RIGHT))
            middle = y + BAR / 2 + 5
            weight = 600 if bar.ours else 400
            lines.append(text(LEFT - 12, middle, bar.name, INK, anchor="end", weight=weight))
            fill = OURS if bar.ours else PEER
            lines.append(f'<rect x="{LEFT}" y="{y}" width="{width:.1f}" height="{BAR}" rx="3" fill="{fill}"/>')
            lines.append(text(LEFT + width + 8, middle, bar.label, INK if bar.ours else QUIET, weight=weight))
            y += BAR + GAP
        top += panel.height + 16
    return card(WIDTH, height, "Paceline against its peers", lines)


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=Path, default=BENCH / "runs", help="where the kept results lie")
    parser.add_argument("--output", type=Path, default=BENCH / "picture.svg", help="the SVG file to write")
    return parser.parse_args()


if __name__ == "__main__":
    main()
