"""What differs between a session of its own and one over Spark Connect."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from paceline.errors import Error

ROW = "task int, kind string, text string, part int, content binary"
"""What a task gives back: a row for each thing that it has to tell."""


def is_connect(spark: Any) -> bool:
    """Whether this process is a client of a driver elsewhere."""
    return ".connect." in type(spark).__module__


def tasks(spark: Any, count: int, work: Callable[[Iterator[Any]], Iterator[Any]]) -> Any:
    """A DataFrame whose rows come from exactly so many tasks: there is nothing that Spark could merge."""
    return over(spark.range(0, count, 1, count), work)


def over(frame: Any, work: Callable[[Iterator[Any]], Iterator[Any]]) -> Any:
    """What tasks tell that are given the rows of a DataFrame, partition by partition."""

    def each(batches: Iterator[Any]) -> Iterator[Any]:
        return work(batches)

    return frame.mapInArrow(each, ROW)


def tag(spark: Any, name: str) -> None:
    """Marks the jobs that this thread starts."""
    if is_connect(spark):
        spark.addTag(name)
    else:
        spark.sparkContext.addJobTag(name)


def cancel(spark: Any, name: str) -> None:
    """Ends all jobs with this mark; a session that has ended has none."""
    try:
        if is_connect(spark):
            spark.interruptTag(name)
        else:
            spark.sparkContext.cancelJobsWithTag(name)
    except Exception:
        return


def slots(spark: Any) -> int:
    """How many tasks run at once, as far as Spark tells."""
    if is_connect(spark):
        text = spark.conf.get("spark.default.parallelism", None)
        return max(1, int(text)) if text and text.isdigit() else 2
    return max(1, int(spark.sparkContext.defaultParallelism))


def on_one_executor(spark: Any, work: Callable[[], object]) -> Any:
    """Does something small where tasks run, and gives what came out of it, which JSON can hold."""

    def once(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow

        for _ in batches:
            pass
        content = {"task": [0], "kind": ["done"], "text": [json.dumps(work())], "part": [0], "content": [b""]}
        kinds = [pyarrow.int32(), pyarrow.string(), pyarrow.string(), pyarrow.int32(), pyarrow.binary()]
        yield pyarrow.RecordBatch.from_pydict(content, schema=pyarrow.schema(list(zip(content, kinds, strict=True))))

    return json.loads(tasks(spark, 1, once).collect()[0]["text"])


def explain(error: BaseException) -> Error:
    """What Spark says of a job that failed, in a sentence where the cause is known."""
    text = str(error)
    if "No module named 'paceline" in text or "ModuleNotFoundError: No module named 'paceline" in text:
        return Error(
            "the package `paceline` is missing on an executor: install it in the environment that `PYSPARK_PYTHON` names on every "
            "host, or ship that environment with `spark.archives` (on Connect `spark.addArtifacts(…, archive=True)`)"
        )
    if "No module named 'pyarrow'" in text or "No module named 'pandas'" in text:
        return Error("pyarrow and pandas are missing on an executor: install them in the environment that `PYSPARK_PYTHON` names")
    return Error(f"Spark ended the job: {_first_line(text)}")


def _first_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    told = [line for line in lines if "Error" in line or "Exception" in line]
    return (told or lines or ["it said nothing"])[0][:500]


def properties(spark: Any) -> dict[str, str]:
    """What this thread has set for its jobs, such as the pool that they are scheduled in."""
    if is_connect(spark):
        return {}
    names = ("spark.scheduler.pool", "spark.job.description", "spark.jobGroup.id")
    found = {name: spark.sparkContext.getLocalProperty(name) for name in names}
    return {name: value for name, value in found.items() if value is not None}


def take_properties(spark: Any, found: dict[str, str]) -> None:
    """Sets the same for another thread."""
    for name, value in found.items():
        spark.sparkContext.setLocalProperty(name, value)
