"""What every comparison writes: a Markdown table, and a folder of its own under `bench/runs/`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import date
from pathlib import Path

from .case import BENCH, WORK
from .machine import is_committed
from .toolchain import say


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    cells = [header, *rows]
    widths = [max(len(line[column]) for line in cells) for column in range(len(header))]
    lines = ["| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths)) + " |" for line in cells]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)


def verdict(figure: float | None, bar: float | None, repeats: int) -> str:
    """Whether `figure` is at least `bar`; one repeat proves nothing, and not everything has a bar."""
    if figure is None:
        return "noise"
    if repeats == 1:
        return "smoke"
    if bar is None:
        return "recorded"
    return "met" if figure >= bar else "missed"


def new_folder(parent: Path, kind: str = "") -> Path:
    """`DATE-N` or `DATE-KIND-N` with the first N that is free; it is made once there is something to keep."""
    stem = "-".join(filter(None, [date.today().isoformat(), kind]))
    number = 1
    while (parent / f"{stem}-{number}").exists():
        number += 1
    return parent / f"{stem}-{number}"


def folder_for(kind: str, quick: bool) -> Path:
    """Among the kept results, unless it is a smoke run, which proves nothing, or no commit says what was measured."""
    is_kept = not quick and is_committed()
    if not quick and not is_kept:
        say("the tree has changes that are not committed: these results do not go to `bench/runs`")
    return new_folder(BENCH / "runs" if is_kept else WORK / "quick-runs", kind)


def keep(folder: Path, results: dict[str, object], table: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "results.json").write_text(json.dumps(results, indent=2) + "\n")
    (folder / "table.md").write_text(f"{table}\n\n{_machine_line(results['machine'])}\n")


def _machine_line(machine: dict[str, object]) -> str:
    simd = ", ".join(machine["simd"]) or "none known"
    peers = [f"{title} {machine[key]}" for key, title in PEERS.items() if key in machine]
    return (
        f"{machine['cpu']}, {machine['cores']} cores, load before {machine['load_before'][0]}; SIMD: {simd}. "
        f"{machine['paceline']} (commit {machine['commit']}, {machine['rustc']})"
        + "".join(f"; {peer}" for peer in peers)
        + "."
    )


PEERS = {"torch": "PyTorch", "python": "Python", "dl4j": "DL4J", "java": "", "burn": "Burn"}
