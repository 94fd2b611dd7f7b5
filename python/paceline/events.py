"""What runs tell while they go on."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeAlias


class Event(dict[str, Any]):
    """One event, as `--events json` has it on one line: `event["loss"]`, or `event.loss`; `event.kind` is its name."""

    @classmethod
    def parse(cls, line: str) -> Event:
        return cls(json.loads(line))

    @property
    def kind(self) -> str:
        return str(self["event"])

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"the event {self.kind!r} has no {name!r}") from None


Callback: TypeAlias = Callable[[Event], object]


class Kept(list[Event]):
    """Events of a run, without its first steps where they are so many that keeping them would fill the memory."""

    MOST_STEPS = 10_000

    def __init__(self) -> None:
        super().__init__()
        self._steps = 0

    def keep(self, event: Event) -> None:
        self.append(event)
        self._steps += event.kind == "step"
        if self._steps > self.MOST_STEPS:
            surplus = self._steps // 2
            kept: list[Event] = []
            for each in self:
                if each.kind == "step" and surplus > 0:
                    surplus -= 1
                else:
                    kept.append(each)
            self[:] = kept
            self._steps -= self._steps // 2
