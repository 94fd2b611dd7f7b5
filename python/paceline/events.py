"""What runs tell while they go on."""

from __future__ import annotations

import json
from collections.abc import Callable
from html import escape
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

EventKind: TypeAlias = Literal[
    "started",
    "phase",
    "phase_ended",
    "transferred",
    "note",
    "warning",
    "statistics",
    "rates_lowered",
    "listening",
    "standby",
    "coordinator_away",
    "coordinator_back",
    "stood_still",
    "already_ended",
    "waiting",
    "waiting_for_partitions",
    "worker_refused",
    "worker_joined",
    "worker_lost",
    "view",
    "lease_repeated",
    "set_aside",
    "rolled_back",
    "on_hold",
    "not_saved",
    "step",
    "threshold",
    "epoch",
    "evaluation",
    "checkpoint",
    "paused",
    "finished",
    "failed",
    # Of a worker, and of the tasks of Spark.
    "joined",
    "other_run",
    "left",
    "task_begun",
    "task_ended",
    "task_failed",
    "tasks_again",
]


class Event(dict[str, Any]):
    """One event, as `--events json` has it on one line: `event["loss"]`, or `event.loss`; `event.kind` is its name.

    Attributes are those of its kind; another one raises `AttributeError`.
    """

    if TYPE_CHECKING:
        epoch: int
        step: int
        iteration: int
        loss: float
        score: float
        accuracy: float | None
        auc: float | None
        seconds: float
        examples_per_second: float
        epochs: int
        steps: int
        steps_per_epoch: int
        examples: int
        parameters: int
        workers: int
        worker: str
        mode: str
        message: str
        reason: str
        error: str
        path: str
        factor: float
        phase: int
        layer: str | None
        address: str
        join: str | None
        ended_early: str | None
        task: int

    @classmethod
    def parse(cls, line: str) -> Event:
        return cls(json.loads(line))

    @property
    def kind(self) -> EventKind:
        return cast(EventKind, self["event"])

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            try:
                return self[name]
            except KeyError:
                raise AttributeError(f"the event {self.get('event')!r} has no {name!r}") from None

    def __reduce__(self) -> tuple[Any, ...]:
        return (Event, (dict(self),))

    def _repr_html_(self) -> str:
        rows = "".join(f"<tr><th>{escape(str(name))}</th><td>{escape(str(value))}</td></tr>" for name, value in self.items())
        return f"<table>{rows}</table>"


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
