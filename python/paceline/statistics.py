"""Where the time of the workers of a run on many machines went."""

from __future__ import annotations

import json
from collections.abc import Iterable
from os import PathLike
from pathlib import Path
from typing import Any

from paceline import _native
from paceline.events import Event

PHASES = ("split", "compute", "encode", "wait", "network", "apply")
"""What a worker's time goes into: waiting for examples, computing, making what is sent, waiting for others, waiting for the network, and
taking in what others have sent."""


class TrainingStatistics:
    """Seconds by worker and phase, as a table (`print`), as JSON, and as a page with a timeline."""

    def __init__(self, workers: list[dict[str, Any]]) -> None:
        self.workers = workers
        """For each worker its name, and its time in stretches: `from`, `to`, `steps`, and seconds by phase."""

    @classmethod
    def of(cls, events: Iterable[Event]) -> TrainingStatistics | None:
        """What a master has told last; nothing if it was not asked for."""
        found = [event for event in events if event.kind == "statistics"]
        return cls(found[-1]["workers"]) if found else None

    def seconds(self) -> dict[str, dict[str, float]]:
        """The sum of every phase, by worker."""
        return {
            worker["worker"]: {phase: sum(stretch[phase] for stretch in worker["stretches"]) for phase in PHASES}
            for worker in self.workers
        }

    def steps(self) -> dict[str, int]:
        """Steps by worker."""
        return {worker["worker"]: sum(stretch["steps"] for stretch in worker["stretches"]) for worker in self.workers}

    def to_json(self) -> str:
        return json.dumps({"workers": self.workers})

    def to_html(self, title: str = "Where the time went") -> str:
        """A page of its own: a row for each worker, its time from left to right, coloured by phase."""
        return _native.statistics_page(self.to_json(), title)

    def save(self, path: str | PathLike[str]) -> None:
        """Writes it, as a page if the name ends in `.html`, and as JSON otherwise."""
        file = Path(path)
        file.write_text(self.to_html() if file.suffix == ".html" else self.to_json(), encoding="utf-8")

    def __str__(self) -> str:
        return _native.statistics_table(self.to_json())

    def _repr_html_(self) -> str:
        page = self.to_html()
        return page[page.index("<style>") : page.rindex("</html>")]

    def __repr__(self) -> str:
        return f"TrainingStatistics({len(self.workers)} workers, {sum(self.steps().values())} steps)"
