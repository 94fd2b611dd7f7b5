"""Writes a DataFrame once, as shards that every task reads."""

from __future__ import annotations

import functools
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from paceline.errors import Error, SettingError
from paceline.spark import sessions, stores
from paceline.spark.columns import Columns, query

# Rows that one file has at most: a task never waits long for one.
ROWS_PER_FILE = 100_000

SHARED_FOLDER = "give an `exportDirectory` that every host reaches (HDFS, S3, or a disk that all have mounted)"


@dataclass(frozen=True)
class Exported:
    """What was written: where, and what must be found there."""

    folder: str
    """As others reach it: with the name of its file system."""
    query: str
    """How `shards:` reads it."""
    rows: int
    validation_rows: int
    labels: tuple[Any, ...] | None
    """The classes in their order, as the DataFrame has them; none if numbers are to be predicted."""
    train_files: dict[str, int]
    test_files: dict[str, int]

    @property
    def train(self) -> str:
        return f"{self.folder}/train"

    @property
    def test(self) -> str | None:
        return f"{self.folder}/test" if self.validation_rows else None


def export(
    spark: Any,
    frame: Any,
    columns: Columns,
    *,
    shape: Sequence[int],
    is_classes: bool,
    directory: str | None = None,
    partitions: int,
    seed: int,
) -> Exported:
    """Shuffles rows and writes them; looks at what was written, and raises what cannot be learned from."""
    from pyspark.sql import functions as F

    columns.check(frame)
    folder = f"{(directory or '/tmp').rstrip('/')}/paceline-{uuid.uuid4().hex}"
    chosen = columns.select(frame)
    parts = {"train": chosen if columns.validation is None else chosen.where(~F.col("validation")).drop("validation")}
    if columns.validation is not None:
        parts["test"] = chosen.where(F.col("validation")).drop("validation")
    try:
        rows: dict[str, int] = {}
        labels: list[Any] | None = None
        for part, of in parts.items():
            # By chance, not in turn: who comes after whom in the table must not decide who is learned from together.
            shuffled = of.repartition(partitions, F.rand(seed))
            writer = shuffled.write.option("maxRecordsPerFile", ROWS_PER_FILE)
            writer.option("compression", "snappy").mode("error").parquet(f"{folder}/{part}")
            found = look(spark.read.parquet(f"{folder}/{part}"), columns, shape, is_classes and part == "train")
            if part == "train":
                labels = found.labels
                if found.rows == 0:
                    raise Error("the DataFrame has no rows to learn from")
            rows[part] = found.rows
        written = spark.read.parquet(f"{folder}/train").inputFiles()
        home = written[0].rsplit("/train/", 1)[0]
        folders = [f"{home}/{part}" for part in parts]
        if sessions.is_connect(spark):
            # The client may see nothing of what executors see.
            seen = sessions.on_one_executor(spark, functools.partial(_list, folders))
        else:
            seen = _list(folders)
        shards = dict(zip(parts, seen, strict=True))
        if len(shards["train"]) < len(written):
            who = "an executor" if sessions.is_connect(spark) else "the driver"
            there = len(shards["train"])
            raise Error(f"Spark wrote {len(written)} files to `{home}`, but {who} sees {there} of them: {SHARED_FOLDER}")
    except BaseException:
        remove(spark, folder)
        raise
    options = query(
        shape=shape,
        has_label=bool(columns.label),
        has_weight=columns.weight is not None,
        classes=None if not is_classes else [name_of(label) for label in labels or ()],
    )
    known = tuple(labels or ()) if is_classes else None
    validation = rows.get("test", 0)
    return Exported(home, options, rows["train"], validation, known, shards["train"], shards.get("test", {}))


def _list(folders: Sequence[str]) -> list[dict[str, int]]:
    return [stores.files(folder) for folder in folders]


def remove(spark: Any, folder: str) -> None:
    """Deletes what was written; what cannot be deleted is left: its name says whose it is."""
    try:
        if not sessions.is_connect(spark):
            java = spark.sparkContext._jvm
            path = java.org.apache.hadoop.fs.Path(folder)
            path.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration()).delete(path, True)
            return
        sessions.on_one_executor(spark, functools.partial(stores.delete, folder))
    except Exception:
        return


def name_of(label: Any) -> str:
    """A class as a text: whole numbers without a fraction."""
    if isinstance(label, bool):
        return str(int(label))
    if isinstance(label, float) and label.is_integer():
        return str(int(label))
    return str(label)


@dataclass(frozen=True)
class Found:
    rows: int
    labels: list[Any] | None


# More distinct labels than this are none of classes.
MOST_CLASSES = 10_000


def look(frame: Any, columns: Columns, shape: Sequence[int], wants_labels: bool) -> Found:
    """Counts rows, nulls and widths."""
    from pyspark.sql import functions as F

    width = 1
    for size in shape:
        width *= size
    here = set(frame.columns)
    if not here:
        return Found(0, None)
    counts = [F.count(F.lit(1)).alias("rows")]
    for name in ("features", "label", "weight"):
        if name in here:
            counts.append(F.count(F.when(F.col(name).isNull(), 1)).alias(f"null_{name}"))
    counts.append(F.min(F.size("features")).alias("least"))
    counts.append(F.max(F.size("features")).alias("most"))
    found = frame.agg(*counts).first().asDict()
    for role, names in (("features", columns.features), ("label", columns.label), ("weight", (columns.weight,))):
        if found.get(f"null_{role}"):
            which = " or ".join(f"`{name}`" for name in names if name is not None)
            raise SettingError(
                f"{found[f'null_{role}']} of {found['rows']} rows have null in {which}: drop them with `df.dropna()`, or fill them "
                "with `df.fillna(…)` or an `Imputer`"
            )
    if found["rows"] and not found["least"] == found["most"] == width:
        sizes = str(found["least"]) if found["least"] == found["most"] else f"from {found['least']} to {found['most']}"
        which = ", ".join(f"`{name}`" for name in columns.features)
        raise SettingError(f"the network takes {width} numbers, but {which} has {sizes} in each row")
    if not wants_labels or "label" not in here:
        return Found(found["rows"], None)
    labels = [row[0] for row in frame.select("label").distinct().limit(MOST_CLASSES + 1).collect()]
    if len(labels) > MOST_CLASSES:
        raise SettingError(
            f"`{columns.label[0]}` has more than {MOST_CLASSES} distinct values: numbers to predict are for a regressor"
        )
    broken = [label for label in labels if isinstance(label, float) and not label.is_integer()]
    if broken:
        raise SettingError(f"`{columns.label[0]}` has {broken[0]}, which is no class: classes are whole numbers or texts")
    return Found(found["rows"], sorted(labels))
