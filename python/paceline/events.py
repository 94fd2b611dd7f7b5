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
