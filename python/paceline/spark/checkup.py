"""What `paceline doctor --spark` runs: imports the package on every executor, and says what is missing where.

It is the program that Spark starts, so what runs in tasks travels with it, and works where the package is not installed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

SEVERAL = 4
"""Tasks for each slot: so that every executor has some."""


def look(_: Iterator[Any]) -> Iterator[tuple[str, str, str, str]]:
    """Host, Python, what is there, and what is not."""
    import importlib
    import platform
    import socket
    import time

    there, missing = [], []
    for name in ("paceline", "pyarrow", "pandas", "numpy"):
        try:
            module = importlib.import_module(name)
            there.append(f"{name} {getattr(module, '__version__', '')}".strip())
        except Exception as error:
            missing.append(f"{name} ({type(error).__name__}: {error})")
    # Long enough that no executor takes the tasks of another.
    time.sleep(0.2)
    yield socket.gethostname(), platform.python_version(), ", ".join(there), ", ".join(missing)


def main() -> int:
    """Prints a line for every kind of executor; 1 if something is missing on one."""
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    try:
        tasks = max(2, SEVERAL * int(spark.sparkContext.defaultParallelism))
        found = sorted(set(spark.sparkContext.parallelize(range(tasks), tasks).mapPartitions(look).collect()))
    finally:
        spark.stop()
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    problems = 0
    for host, version, there, missing in found:
        same = version.startswith(f"{own}.")
        problems += bool(missing) or not same
        mark = "problem" if missing or not same else "ok"
        print(f"{mark:<8} {host:<13} Python {version}: {there or 'nothing of what is needed'}")
        if missing:
            print(f"{'':<22} missing: {missing}")
        if not same:
            print(f"{'':<22} the driver has Python {own}: set `spark.pyspark.python` to the same")
    if problems:
        print(
            "install `paceline[spark]` in the environment of every host, or ship one: `--environment env.tar.gz` "
            "(`spark.archives`; over Connect `spark.addArtifacts(…, archive=True)`)"
        )
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
