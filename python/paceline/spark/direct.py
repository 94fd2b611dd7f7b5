"""Trains from the partitions of a DataFrame as they are: nothing is written for others to read.

One Spark job describes the partitions, then there is one for each epoch. A task brings its partition, and ends when nothing of it is left in
the epoch; whoever brings it again, the master counts it once.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from paceline.errors import Error, SettingError
from paceline.cluster import Worker
from paceline.cores import cores
from paceline.data import Data
from paceline.spark import sessions
from paceline.spark.columns import Columns, query
from paceline.spark.exporting import look, name_of, refuse_unseen
from paceline.spark.task import Plan, Work

OVER_CONNECT = (
    "the approach `direct` needs a driver that leads from epoch to epoch, and over Connect there is none of ours: train with `export`"
)


@dataclass(frozen=True)
class Partitioned:
    """The partitions of a DataFrame, as they were found."""

    frame: Any
    query: str
    numbers: dict[int, int]
    """The numbers of those that have rows, by Spark's."""
    notes: list[str]
    labels: tuple[Any, ...] | None
    validation: Data | None


class _OfPartition(Work):
    """Holds the rows of one partition."""

    def __init__(self, plan: Plan, query: str) -> None:
        super().__init__(plan)
        self.query = query

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        # All of it is read when it is opened: a task that is killed later leaves no file behind.
        with tempfile.TemporaryDirectory(prefix="paceline-partition-") as folder:
            self.data = _spooled(batches, Path(folder), self.query)
        yield from super().__call__(iter(()))


class Describing(_OfPartition):
    """Tells what a partition holds."""

    def _take_part(self) -> Iterator[Any]:
        if self.data is not None:
            yield self._row("note", self.data.describe(self.number))


class Bringing(_OfPartition):
    """Works for the master with a partition, until nothing of it is left in an epoch."""

    def __init__(self, plan: Plan, query: str, numbers: dict[int, int], epoch: int) -> None:
        super().__init__(plan, query)
        self.numbers, self.epoch = numbers, epoch

    def _take_part(self) -> Iterator[Any]:
        if self.data is None:
            # Nobody waits for a partition without rows.
            yield self._row("ended")
            return
        yield from self._lend({})

    def _worker(self, join: str, given: dict[str, Data]) -> Worker:
        partitions = {self.numbers.get(self.number, self.number): self.data}
        return Worker(
            join, partitions=partitions, epoch=self.epoch, slots=cores() or 1, patience=self.plan.patience, token=self._token(join)
        )


def _spooled(batches: Iterator[Any], folder: Path, query: str) -> Data | None:
    """Writes rows to a file of their own, and opens it as shards are opened; none if there are no rows."""
    import pyarrow
    import pyarrow.parquet

    found = [batch for batch in batches if batch.num_rows]
    if not found:
        return None
    pyarrow.parquet.write_table(in_order(pyarrow.Table.from_batches(found)), folder / "rows.parquet", compression="none")
    return Data.open(f"shards:{folder}?{query}")


def in_order(table: Any) -> Any:
    """Rows in an order that depends on nothing but what they hold: what Spark computes again comes as the network brings it."""
    order = np.arange(table.num_rows)
    for name in ("weight", "label", "features"):
        if name not in table.column_names:
            continue
        column = table.column(name).combine_chunks()
        if hasattr(column, "flatten"):
            rows = np.ascontiguousarray(column.flatten().to_numpy(zero_copy_only=False)).reshape(table.num_rows, -1)
            keys = rows.view(np.dtype((np.void, rows.itemsize * rows.shape[1])))[:, 0]
        else:
            keys = column.to_numpy(zero_copy_only=False)
        order = order[np.argsort(keys[order], kind="stable")]
    return table.take(order)


@contextmanager
def partitioned(
    spark: Any, frame: Any, columns: Columns, *, shape: Sequence[int], is_classes: bool, plan: Plan, has_gaps: bool = False
) -> Iterator[Partitioned]:
    """Looks at a DataFrame and at each of its partitions, which Spark keeps as they are until the end."""
    from pyspark.sql import functions as F

    if sessions.is_connect(spark):
        raise SettingError(OVER_CONNECT)
    columns.check(frame)
    # What is computed again may come in another order.
    chosen = columns.select(frame).persist()
    try:
        train, validation = chosen, None
        if columns.validation is not None:
            train = chosen.where(~F.col("validation")).drop("validation")
            validation = chosen.where(F.col("validation")).drop("validation")
        found = look(train, columns, shape, is_classes, source=frame, has_gaps=has_gaps)
        if found.rows == 0:
            raise Error("the DataFrame has no rows to learn from")
        labels = tuple(found.labels or ()) if is_classes else None
        options = query(
            shape=shape,
            has_label=bool(columns.label),
            has_weight=columns.weight is not None,
            classes=None if labels is None else [name_of(label) for label in labels],
        )
        if validation is not None:
            held = look(validation, columns, shape, False, source=frame, has_gaps=has_gaps, is_validation=True)
            if held.rows and labels is not None:
                refuse_unseen(validation, columns, list(labels), frame)
        told = _described(train, Describing(plan, options))
        notes = [json.loads(row["text"]) for row in sorted(told, key=lambda row: row["task"]) if row["kind"] == "note"]
        numbers = {note["partition"]: number for number, note in enumerate(notes)}
        for note in notes:
            note["partition"] = numbers[note["partition"]]
        with tempfile.TemporaryDirectory(prefix="paceline-validation-") as folder:
            judged = None if validation is None else _collected(validation, Path(folder), options)
        yield Partitioned(train, options, numbers, [json.dumps(note) for note in notes], labels, judged)
    finally:
        chosen.unpersist()


def _collected(frame: Any, folder: Path, query: str) -> Data | None:
    """Rows that the driver judges on."""
    import pyarrow

    rows = frame._collect_as_arrow() if hasattr(frame, "_collect_as_arrow") else frame.toArrow().to_batches()
    return _spooled((batch for batch in rows if isinstance(batch, pyarrow.RecordBatch)), folder, query)


def _described(frame: Any, work: Describing) -> list[Any]:
    """What tasks tell of their partitions; raises what went wrong in one."""
    try:
        rows: list[Any] = sessions.over(frame, work).collect()
    except Exception as error:
        raise sessions.explain(error) from error
    for row in rows:
        if row["kind"] in ("failed", "unseen"):
            raise Error(row["text"])
    return rows
