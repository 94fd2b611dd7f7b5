"""One core: the table, and the files that are kept."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from .interleave import Pair
from .measure import Row
from .tables import markdown
from .sides import variants

HEADER = (
    "network",
    "paceline, ms a step",
    "PyTorch, ms a step",
    "variant",
    "ratio",
    "bar",
    "",
    "peak MiB, paceline",
    "peak MiB, PyTorch",
)


def table(rows: list[Row]) -> str:
    """One Markdown table, then the repeats it came from."""
    lines = [markdown(HEADER, [_cells(row) for row in rows]), "", "Repeats, ms a step:", ""]
    for row in rows:
        lines.append(f"- {row.case.name}: paceline {_repeats(row.ours)}; PyTorch {_repeats(row.peer)}")
        lines += [f"  - left out by hand: PyTorch `{name}`" for name in variants(row.case) if name not in row.probe_ms]
    return "\n".join(lines)


def keep(folder: Path, machine: dict[str, object], rows: list[Row], repeats: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    results = {"machine": machine, "repeats": repeats, "networks": [_as_json(row) for row in rows]}
    (folder / "results.json").write_text(json.dumps(results, indent=2) + "\n")
    (folder / "table.md").write_text(f"{table(rows)}\n\n{_machine_lines(machine)}\n")


def _cells(row: Row) -> tuple[str, ...]:
    return (
        row.case.name,
        f"{row.ours_ms:.2f}",
        f"{row.peer_ms:.2f}",
        row.variant,
        "–" if row.ratio is None else f"{row.ratio:.2f} ×",
        f"{row.case.bar:.1f} ×",
        _verdict(row),
        f"{row.ours_peak_mib:.0f}",
        f"{row.peer_peak_mib:.0f}",
    )


def _verdict(row: Row) -> str:
    if row.ratio is None:
        return "noise"
    if len(row.ours) == 1:
        return "smoke"
    return "met" if row.ratio >= row.case.bar else "missed"


def _repeats(pairs: list[Pair]) -> str:
    return " ".join(f"{pair.step_ms:.2f}" for pair in pairs)


def _as_json(row: Row) -> dict[str, object]:
    return {
        "network": row.case.name,
        "batch": row.batch,
        "short_steps": row.case.short_steps,
        "long_steps": row.case.long_steps,
        "bar": row.case.bar,
        "ratio": row.ratio,
        "verdict": _verdict(row),
        "paceline_ms": row.ours_ms,
        "pytorch_ms": row.peer_ms,
        "pytorch_variant": row.variant,
        "pytorch_probe_ms": row.probe_ms,
        "paceline_peak_mib": row.ours_peak_mib,
        "pytorch_peak_mib": row.peer_peak_mib,
        "paceline_repeats": [asdict(pair) for pair in row.ours],
        "pytorch_repeats": [asdict(pair) for pair in row.peer],
    }


def _machine_lines(machine: dict[str, object]) -> str:
    simd = ", ".join(machine["simd"]) or "none known"
    return (
        f"{machine['cpu']}, {machine['cores']} cores, one thread each side, pinned to core {machine['pinned_to_core']}; "
        f"SIMD: {simd}. {machine['paceline']} (commit {machine['commit']}, {machine['rustc']}); "
        f"PyTorch {machine['torch']}, Python {machine['python']}."
    )
