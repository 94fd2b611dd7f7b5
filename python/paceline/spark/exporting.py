"""Writes a DataFrame once, as shards that every task reads."""

from __future__ import annotations

import functools
import os
import socket
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

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
    columns: Columns
    """The columns with the offsets that were subtracted."""

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
    has_gaps: bool = False,
) -> Exported:
    """Shuffles rows and writes them; looks at what was written, and raises what cannot be learned from.

    The folder is readable by its owner only. It is removed after the fit, and by the driver if it ends before; folders of drivers of this
    host that were killed are removed here.
    """
    from pyspark.sql import functions as F

    columns.check(frame)
    home = (directory or "/tmp").rstrip("/")
    remove_stale(spark, home)
    folder = f"{home}/{PREFIX}{uuid.uuid4().hex}-{_owner()}"
    make_private(spark, folder)
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
            look_in = spark.read.parquet(f"{folder}/{part}")
            is_test = part == "test"
            found = look(
                look_in, columns, shape, is_classes and not is_test, source=frame, has_gaps=has_gaps, is_validation=is_test
            )
            if part == "test" and labels is not None:
                refuse_unseen(look_in, columns, labels, frame)
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
    return Exported(home, options, rows["train"], validation, known, shards["train"], shards.get("test", {}), columns)


def _list(folders: Sequence[str]) -> list[dict[str, int]]:
    return [stores.files(folder) for folder in folders]


PREFIX = "paceline-"


def _owner() -> str:
    """This process, so that another one on this host can see whether it lives."""
    return f"{socket.gethostname()}-{_system()}-{os.getpid()}-{_started(os.getpid())}"


@functools.cache
def _system() -> str:
    """The start of this host and its table of processes: numbers of processes mean something within both only."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip().replace("-", "")
        return f"{boot}.{os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:
        return "unknown"


def _started(process: int) -> str | None:
    """When a process of this host began, in the ticks of its system; none if it has ended."""
    try:
        # Field 22, counted behind the name, which may hold spaces.
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[19]
    except (OSError, IndexError):
        return None


def is_stale(name: str) -> bool:
    """Whether a folder was exported by a process of this host that has ended; false where the system does not tell."""
    if not name.startswith(PREFIX) or _system() == "unknown":
        return False
    parts = name.removeprefix(PREFIX).split("-", 1)
    host, _, of_process = (parts[1] if len(parts) == 2 else "").rpartition(f"{socket.gethostname()}-{_system()}-")
    process, _, started = of_process.partition("-")
    return host == "" and process.isdigit() and _started(int(process)) != started


def remove_stale(spark: Any, home: str) -> None:
    """Removes the folders of drivers of this host that were killed."""
    try:
        if sessions.is_connect(spark):
            names = sessions.on_one_executor(spark, functools.partial(stores.folders, home))
        else:
            path, system = _in_java(spark, home)
            names = [status.getPath().getName() for status in system.listStatus(path)] if system.exists(path) else []
    except Exception:
        # A folder that cannot be listed is not tidied; writing into it tells what is wrong.
        return
    for name in names:
        if is_stale(name):
            remove(spark, f"{home}/{name}")


def _in_java(spark: Any, folder: str) -> tuple[Any, Any]:
    """A folder as Hadoop has it, and its file system."""
    path = spark.sparkContext._jvm.org.apache.hadoop.fs.Path(folder)
    return path, path.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())


def make_private(spark: Any, folder: str) -> None:
    """Makes a folder that only its owner reads, and that the driver removes when it ends."""
    if sessions.is_connect(spark):
        sessions.on_one_executor(spark, functools.partial(stores.make_private, folder))
        return
    path, system = _in_java(spark, folder)
    owner_only = spark.sparkContext._jvm.org.apache.hadoop.fs.permission.FsPermission("700")
    system.mkdirs(path, owner_only)
    system.setPermission(path, owner_only)
    # A driver that is asked to end, as by SIGTERM, ends its virtual machine, which removes the folder.
    system.deleteOnExit(path)


def remove(spark: Any, folder: str) -> None:
    """Deletes what was written; the next start on this host deletes what cannot be deleted now."""
    try:
        if not sessions.is_connect(spark):
            path, system = _in_java(spark, folder)
            system.delete(path, True)
            return
        sessions.on_one_executor(spark, functools.partial(stores.delete, folder))
    except Exception:
        return


def name_of(label: Any) -> str:
    """A class as a text: whole numbers without a fraction."""
    label = label.item() if isinstance(label, np.generic) else label
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


def look(
    frame: Any,
    columns: Columns,
    shape: Sequence[int],
    wants_labels: bool,
    *,
    source: Any = None,
    has_gaps: bool = False,
    is_validation: bool = False,
) -> Found:
    """Counts rows, and raises what cannot be learned from, with the column and a row of the DataFrame `source`.

    `has_gaps` says that NaN among features is the padding of sequences; `is_validation`, that the model is evaluated on these rows.
    """
    from pyspark.sql import functions as F

    width = 1
    for size in shape:
        width *= size
    here = set(frame.columns)
    if not here:
        return Found(0, None)
    wrong = {name: condition for name, (condition, _) in _mistakes(frame, has_gaps).items()}
    counts = [F.count(F.lit(1)).alias("rows")]
    counts.extend(F.count(F.when(condition, 1)).alias(name) for name, condition in wrong.items())
    counts.append(F.min(F.size("features")).alias("least"))
    counts.append(F.max(F.size("features")).alias("most"))
    if "weight" in here:
        counts.append(F.sum("weight").alias("weights"))
    found = frame.agg(*counts).first().asDict()
    for name, (_, sentence) in _mistakes(frame, has_gaps).items():
        if found.get(name):
            role = name.split()[1]
            of_role = {"features": columns.features, "label": columns.label, "weight": (columns.weight,)}[role]
            names = " or ".join(f"`{column}`" for column in of_role if column is not None)
            first = "" if source is None else _first(source, columns, name, has_gaps)
            raise SettingError(f"{found[name]} of {found['rows']} rows have {sentence.format(names)}{first}")
    if found["rows"] and not found["least"] == found["most"] == width:
        sizes = str(found["least"]) if found["least"] == found["most"] else f"from {found['least']} to {found['most']}"
        which = ", ".join(f"`{name}`" for name in columns.features)
        raise SettingError(f"the network takes {width} numbers, but {which} has {sizes} in each row")
    if found["rows"] and found.get("weights") == 0:
        purpose = f"evaluate on where `{columns.validation}` is true" if is_validation else "learn from"
        raise SettingError(f"all weights in `{columns.weight}` are 0: there is nothing to {purpose}, give some rows a weight above 0")
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


def _mistakes(frame: Any, has_gaps: bool) -> dict[str, tuple[Any, str]]:
    """What may be wrong with rows, by names that end in the column: its condition, and a sentence for a column."""
    from pyspark.sql import functions as F

    def is_no_number(number: Any) -> Any:
        infinite = number.isin(float("inf"), float("-inf"))
        return infinite if has_gaps else F.isnan(number) | infinite

    kinds = {field.name: field.dataType.simpleString() for field in frame.schema.fields}
    fill = "drop them with `df.dropna()`, or fill them with `df.fillna(…)` or an `Imputer`"
    found: dict[str, tuple[Any, str]] = {}
    for name in ("features", "label", "weight"):
        if name in kinds:
            found[f"null {name}"] = (F.col(name).isNull(), "null in {}: " + fill)
    found["hole features"] = (F.exists("features", lambda number: number.isNull()), "null among the numbers of {}: " + fill)
    found["nan features"] = (F.exists("features", is_no_number), "NaN or an infinite number in {}: " + fill)
    if (kind := kinds.get("label")) is not None:
        if kind in ("float", "double"):
            label = F.col("label").cast("double")
            found["nan label"] = (F.isnan(label) | label.isin(float("inf"), float("-inf")), "NaN or an infinite number in {}: " + fill)
        elif kind.startswith("array<") and not has_gaps:
            found["nan label"] = (F.exists("label", is_no_number), "NaN or an infinite number in {}: " + fill)
    if "weight" in kinds:
        weight = F.col("weight")
        is_wrong = F.isnan(weight) | weight.isin(float("inf"), float("-inf")) | (weight < 0)
        found["bad weight"] = (is_wrong, "a weight in {} that is NaN, infinite or negative: weights are finite and at least 0")
    return found


def _first(source: Any, columns: Columns, mistake: str, has_gaps: bool) -> str:
    """The first row of a DataFrame with a mistake, in words."""
    from pyspark.sql import functions as F

    whole = columns.select(source, F.struct("*").alias("row"))
    row = whole.where(_mistakes(whole, has_gaps)[mistake][0]).select("row").first()
    return "" if row is None else f"; the first is {_in_words(row['row'])}"


def _in_words(row: Any) -> str:
    cells = list(row.asDict().items())
    told = ", ".join(f"{name}={_short(value)}" for name, value in cells[:8])
    return f"({told}{', …' if len(cells) > 8 else ''})"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


def refuse_unseen(frame: Any, columns: Columns, labels: list[Any], source: Any) -> None:
    """Raises if rows to judge on have a class that no row to learn from has."""
    from pyspark.sql import functions as F

    if "label" not in frame.columns:
        return
    found = frame.where(~F.col("label").isin(labels)).select("label").distinct().limit(1).collect()
    if found:
        name = columns.label[0]
        row = source.where(F.col(f"`{name}`") == F.lit(found[0][0])).first()
        first = "" if row is None else f"; one of its rows is {_in_words(row)}"
        raise SettingError(
            f"the class {found[0][0]!r} of `{name}` is in rows of `{columns.validation}` only: give each class rows to learn from{first}"
        )
