"""Two executors of a real Spark cluster against two plain workers, on the same shards: seconds of an epoch, first step to last.

Needs the environment that `make test-spark` makes, and MNIST in the cache: target/spark-4.3.0/bin/python bench/spark.py
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "python" / "tests" / "spark"))


def lenet(learning_rate: float = 0.01) -> Any:
    import paceline as pl

    return pl.Network(
        [
            pl.layers.conv2d(20, [5, 5]),
            pl.layers.subsampling("max", [2, 2]),
            pl.layers.conv2d(50, [5, 5]),
            pl.layers.subsampling("max", [2, 2]),
            pl.layers.dense(500, activation="relu"),
            pl.layers.output(10, activation="softmax", loss="negative_log_likelihood"),
        ],
        input=pl.image(28, 28),
        seed=123,
        weight_init="xavier",
        updater=pl.nesterovs(learning_rate, 0.9),
    )


def trainer(mode: str, epochs: int) -> Any:
    import paceline as pl

    return pl.Trainer(lenet(), epochs=epochs, batch=64, mode=mode, seed=5, normaliser="image")


def epochs_of(events: list[Any]) -> list[float]:
    """Seconds of every epoch but the first, which waits for workers."""
    return [event["seconds"] for event in events if event["event"] == "epoch"][1:]


def on_spark(spark: Any, exported: Any, mode: str, epochs: int) -> tuple[list[float], float]:
    from paceline.spark.fitting import Placement, fit

    fitted = fit(spark, trainer(mode, epochs), exported, Placement(2))
    return epochs_of(fitted.events), fitted.scores.accuracy if fitted.scores else 0.0


WORKER = """
import sys, paceline as pl
data = {{part: pl.Data.open(spec) for part, spec in {specs!r}.items()}}
pl.Worker(sys.argv[1], **data, slots=1).wait()
"""


def plain(specs: dict[str, str], mode: str, epochs: int) -> tuple[list[float], float]:
    import paceline as pl

    data = [pl.Data.open(spec) for spec in specs.values()]
    with tempfile.TemporaryDirectory() as folder:
        with pl.Master(trainer(mode, epochs), *data, output=f"{folder}/run", expected_workers=2, expected_within=60) as master:
            script = WORKER.format(specs=specs)
            started = [subprocess.Popen([sys.executable, "-c", script, master.join]) for _ in range(2)]
            _, scores = master.wait()
            for process in started:
                process.wait()
        return epochs_of(master.events), scores.accuracy if scores else 0.0


@contextmanager
def mnist_on_a_cluster() -> Iterator[tuple[Any, Any]]:
    """A session of a real cluster with two workers of one core, and MNIST as a DataFrame: `held` are the rows to judge on."""
    import conftest
    import numpy as np
    import pyarrow
    import pyarrow.parquet

    import paceline as pl

    with tempfile.TemporaryDirectory() as folder:
        for part in ("train", "test"):
            data = pl.Data.open(f"mnist:{part}")
            rows = data.features().reshape(len(data), -1).astype(np.float32)
            features = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(rows.reshape(-1)), rows.shape[1])
            held = pyarrow.array(np.full(len(rows), part == "test"))
            labels = pyarrow.array(data.targets().astype(np.int32))
            columns = {"features": features.cast(pyarrow.list_(pyarrow.float32())), "label": labels, "held": held}
            pyarrow.parquet.write_table(pyarrow.table(columns), f"{folder}/{part}.parquet")
        made = conftest.cluster.__wrapped__()
        spark = conftest.session(next(made).url, **{"spark.executor.memory": "900m"})
        spark.sparkContext.setLogLevel("ERROR")
        try:
            yield spark, spark.read.parquet(folder)
        finally:
            spark.stop()
            made.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--mode", default="sync")
    parser.add_argument("--output", type=Path)
    asked = parser.parse_args()

    from paceline.spark.columns import Columns
    from paceline.spark.exporting import export, remove

    with mnist_on_a_cluster() as (spark, frame):
        columns = Columns.of("features", "label", validation="held")
        began = time.monotonic()
        exported = export(spark, frame, columns, shape=[28, 28, 1], is_classes=True, partitions=2, seed=1)
        wrote = time.monotonic() - began
        at = exported.folder.removeprefix("file:").replace("///", "/")
        specs = {part: f"shards:{at}/{part}?{exported.query}" for part in ("train", "test")}
        results: dict[str, Any] = {"mode": asked.mode, "export_seconds": round(wrote, 2), "spark": [], "plain": []}
        for _ in range(asked.runs):
            for name, run in (("spark", on_spark), ("plain", plain)):
                seconds, accuracy = run(*((spark, exported) if name == "spark" else (specs,)), asked.mode, asked.epochs)
                results[name].append({"epoch_seconds": seconds, "accuracy": accuracy})
                print(name, seconds, accuracy, flush=True)
        remove(spark, exported.folder)
    medians = {
        name: statistics.median(second for run in results[name] for second in run["epoch_seconds"]) for name in ("spark", "plain")
    }
    results["speed_of_spark"] = round(medians["plain"] / medians["spark"], 3)
    results["cores"] = os.cpu_count()
    print(json.dumps(results, indent=2))
    if asked.output:
        asked.output.parent.mkdir(parents=True, exist_ok=True)
        asked.output.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
