"""What runs on an executor: a worker that lends its cores to the master until the run is over."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from paceline._native import Error
from paceline.cluster import Worker
from paceline.cores import cores
from paceline.data import Data
from paceline.events import Event
from paceline.spark import stores
from paceline.watching import SLICE_SECONDS

# Silent tasks are taken for dead ones by clusters with a limit for idle workers.
TELLS_EVERY_SECONDS = 10.0


@dataclass(frozen=True)
class Plan:
    """What a task is told. It travels as Spark sends its tasks, so that the token is as safe as they are."""

    join: str
    run: str
    """The name of this fit among those that read the same shards."""
    folder: str
    query: str
    train_files: dict[str, int]
    test_files: dict[str, int]
    patience: float

    @property
    def over(self) -> str:
        """A file that says that the run is over, for tasks that start late."""
        return f"{self.folder}/{self.run}.over"


class Work:
    """The function that Spark runs in every task."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow
        from pyspark import TaskContext

        for _ in batches:
            pass
        context = TaskContext.get()
        number = context.partitionId() if context is not None else 0

        def row(kind: str, text: str = "") -> Any:
            content = {"task": [number], "kind": [kind], "text": [text], "part": [0], "content": [b""]}
            types = [("task", pyarrow.int32()), ("kind", pyarrow.string()), ("text", pyarrow.string())]
            schema = pyarrow.schema([*types, ("part", pyarrow.int32()), ("content", pyarrow.binary())])
            return pyarrow.RecordBatch.from_pydict(content, schema=schema)

        attempt = context.attemptNumber() if context is not None else 0
        yield row("begun", json.dumps({"attempt": attempt, "pid": os.getpid()}))
        if stores.read(self.plan.over) is not None:
            yield row("late")
            return
        # Raised, it would count as a failure of the task, and a few of them end the whole job.
        try:
            yield from self._lend(row)
        except Error as error:
            yield row("failed", str(error))
        except FileNotFoundError as error:
            yield row("unseen", str(error))

    def _lend(self, row: Any) -> Iterator[Any]:
        plan, parent = self.plan, os.getppid()
        with ExitStack() as stack:
            given: dict[str, Data] = {}
            for part, expected in (("train", plan.train_files), ("test", plan.test_files)):
                if not expected:
                    continue
                folder = f"{plan.folder}/{part}"
                seen = stores.files(folder)
                if seen != expected:
                    there = sum(1 for name, size in expected.items() if seen.get(name) == size)
                    yield row("unseen", f"{len(expected)} files in `{folder}`, {there} of them as they were written")
                    return
                path = stack.enter_context(stores.local(folder))
                given[part] = Data.open(f"shards:{path}?{plan.query}")
            # Its end is told to the master also when Spark takes this task away.
            worker = stack.enter_context(
                Worker(
                    plan.join,
                    train=given.get("train"),
                    test=given.get("test"),
                    slots=cores() or 1,
                    patience=plan.patience,
                )
            )
            told = time.monotonic()
            while not worker._run.is_over:
                line = worker._run.next(SLICE_SECONDS)
                if line is not None and (event := Event.parse(line)).kind in ("joined", "left"):
                    yield row("event", json.dumps(event))
                if time.monotonic() - told > TELLS_EVERY_SECONDS:
                    told = time.monotonic()
                    yield row("alive")
                if os.getppid() != parent:
                    # The executor is gone, and nobody reads what this says.
                    os._exit(1)
            worker._run.result()
        yield row("ended")
