"""Figures and checks of one case in one mode, and the tables made of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ..tables import markdown


@dataclass(frozen=True)
class Check:
    """Something that must hold, and what was found."""

    what: str
    holds: bool
    found: str = ""


@dataclass
class Outcome:
    """One case in one mode."""

    case: str
    mode: str
    variant: str = ""
    figures: dict[str, object] = field(default_factory=dict)  # what the table shows, in its order
    details: dict[str, object] = field(default_factory=dict)  # what only `results.json` holds
    checks: list[Check] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # what was said, under the table
    trouble: str = ""  # why there are no figures

    def check(self, what: str, holds: bool, found: object = "") -> None:
        self.checks.append(Check(what, holds, str(found)))

    @property
    def verdict(self) -> str:
        if self.trouble:
            return "failed"
        return "met" if all(check.holds for check in self.checks) else "missed"

    def as_json(self) -> dict[str, object]:
        return {
            "case": self.case,
            "mode": self.mode,
            "variant": self.variant,
            "verdict": self.verdict,
            "trouble": self.trouble,
            "figures": self.figures,
            "notes": self.notes,
            "details": self.details,
            "checks": [vars(check) for check in self.checks],
        }


def table(outcomes: Sequence[Outcome]) -> str:
    """One table for each case, and under it what was said and what did not hold."""
    told: list[str] = []
    for case in dict.fromkeys(outcome.case for outcome in outcomes):
        rows = [outcome for outcome in outcomes if outcome.case == case]
        keys = list(dict.fromkeys(key for row in rows for key in row.figures))
        has_variants = any(row.variant for row in rows)
        header = ["mode", *(["variant"] if has_variants else []), *keys, ""]
        cells = [
            [row.mode, *([row.variant] if has_variants else []), *(shown(row.figures.get(key)) for key in keys), row.verdict]
            for row in rows
        ]
        told += [f"### {case}", "", markdown(header, cells), ""]
        under = [line for row in rows for line in _under(row)]
        told += [*under, ""] if under else []
    return "\n".join(told).rstrip()


def _under(outcome: Outcome) -> list[str]:
    name = ", ".join(filter(None, [outcome.mode, outcome.variant]))
    lines = [f"- {name}: {note}" for note in outcome.notes]
    if outcome.trouble:
        return [*lines, f"- {name}: failed: {outcome.trouble}"]
    missed = [check for check in outcome.checks if not check.holds]
    return lines + [f"- {name}: missed: {check.what}{f'; found {check.found}' if check.found else ''}" for check in missed]


def shown(value: object) -> str:
    match value:
        case None:
            return "–"
        case bool():
            return "yes" if value else "no"
        case float() if value != 0 and abs(value) < 0.001:
            return f"{value:.1e}"
        case float() if abs(value) < 1000:
            return f"{value:.2f}"
        case float() | int():
            return f"{value:,.0f}"
        case _:
            return str(value)
