"""What `paceline submit` runs: a job file, with the tasks of a Spark job for workers."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path


def main() -> int:
    """Trains the job; prints what it came to."""
    # As a program, its own folder is searched first, whose modules have the names of others.
    sys.path[:] = [path for path in sys.path if Path(path or ".").resolve() != Path(__file__).resolve().parent]
    from pyspark.sql import SparkSession

    from paceline.errors import Error
    from paceline.spark import sessions
    from paceline.spark.fitting import Placement, fit_job

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("job", type=Path)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--workers", type=int)
    parser.add_argument("--set", action="append", default=[])
    arguments = parser.parse_args()
    spark = SparkSession.builder.getOrCreate()
    try:
        workers = arguments.workers or sessions.slots(spark)
        scores = fit_job(spark, arguments.job, arguments.output, Placement(workers), settings=arguments.set)
        print(f"model: {arguments.output / 'model.safetensors'}")
        if scores is not None:
            print(scores)
        return 0
    except Error as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    finally:
        spark.stop()


if __name__ == "__main__":
    sys.exit(main())
