"""Training from the partitions of a DataFrame as they are."""

from __future__ import annotations

import os
import signal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from conftest import Cluster

import paceline as pl
from paceline.spark import ParameterAveragingTrainingMaster, SharedTrainingMaster, SparkNetwork
from paceline.spark.columns import Columns
from paceline.spark.direct import in_order
from paceline.spark.fitting import Fitted, Placement, fit_partitions

COLUMNS = Columns.of("features", "label")


def direct(spark: Any, frame: Any, trainer: pl.Trainer, **more: Any) -> Fitted:
    return fit_partitions(spark, frame, COLUMNS, trainer, Placement(2), is_classes=True, **more)[0]


def counted(fitted: Fitted) -> int:
    return int(next(event for event in fitted.events if event.kind == "finished")["examples"])


@pytest.mark.parametrize("master", [SharedTrainingMaster, ParameterAveragingTrainingMaster])
def test_both_masters_train_more_partitions_than_there_are_slots(
    spark: Any, digits_frame: Any, network: pl.Network, master: Any
) -> None:
    from pyspark.sql import functions as F

    # Three with rows and one without.
    frame = digits_frame.repartition(3).union(digits_frame.where(F.col("label") < 0).coalesce(1))
    trained = SparkNetwork(spark, network, master(rdd_training_approach="direct", batch_size_per_worker=16))
    trained.fit(frame, epochs=6)
    assert trained.fitted is not None and counted(trained.fitted) == 6 * 1438, "each example of each epoch once"
    assert trained.evaluate(digits_frame).accuracy > 0.9


def test_one_partition_has_the_bits_of_one_process(spark: Any, digits_frame: Any, network: pl.Network) -> None:
    frame = digits_frame.coalesce(1)
    settings: dict[str, Any] = {"epochs": 3, "batch": 16, "mode": "sync", "seed": 5, "normaliser": "min_max"}
    fitted = direct(spark, frame, pl.Trainer(network, **settings))
    rows = in_order(pa.Table.from_pandas(COLUMNS.select(frame).toPandas())).to_pandas()
    features = np.stack(rows["features"].to_numpy()).astype(np.float32)
    alone = pl.Trainer(network, **settings, workers=1, progress=False).fit((features, rows["label"].to_numpy()))
    ours, theirs = fitted.model.parameters(), alone.model.parameters()
    assert {name: numbers.tobytes() for name, numbers in ours.items()} == {
        name: numbers.tobytes() for name, numbers in theirs.items()
    }


def test_a_second_fit_goes_on_where_the_first_ended(spark: Any, digits_frame: Any, network: pl.Network) -> None:
    frame = digits_frame.coalesce(1)

    def new() -> SparkNetwork:
        master = ParameterAveragingTrainingMaster(num_workers=1, batch_size_per_worker=16, rdd_training_approach="direct")
        return SparkNetwork(spark, network, master)

    parts, whole = new(), new()
    parts.fit(frame, epochs=2)
    parts.fit(frame, epochs=3)
    whole.fit(frame, epochs=5)
    assert (parts.model.epoch, parts.model.iteration) == (5, whole.model.iteration)
    ours, theirs = parts.model.parameters(), whole.model.parameters()
    assert all(ours[name].tobytes() == numbers.tobytes() for name, numbers in theirs.items())


def test_an_executor_that_is_killed_costs_no_example(
    spark: Any, cluster: Cluster, digits_frame: Any, network: pl.Network
) -> None:
    killed: list[int] = []

    def kill(event: pl.Event) -> None:
        if event.kind == "step" and event["epoch"] == 2 and not killed:
            killed.append(cluster.executors(spark)[0])
            os.kill(killed[0], signal.SIGKILL)

    trainer = pl.Trainer(network, epochs=4, batch=4, mode="sync", seed=5)
    fitted = direct(spark, digits_frame.repartition(4), trainer, callbacks=[kill])
    assert killed and counted(fitted) == 4 * 1438
    assert any(event.kind == "worker_lost" for event in fitted.events)


def test_rows_to_judge_on_stay_with_the_driver(spark: Any, digits_frame: Any, network: pl.Network) -> None:
    from pyspark.sql import functions as F

    frame = digits_frame.withColumn("judged", F.rand(3) < 0.3).repartition(2).persist()
    trained = SparkNetwork(spark, network, SharedTrainingMaster(rdd_training_approach="direct", batch_size_per_worker=16))
    trained.fit(frame, epochs=3, validation="judged")
    assert trained.fitted is not None and trained.fitted.scores is not None
    judged = trained.evaluate(frame.where("judged"))
    assert trained.fitted.scores.accuracy == judged.accuracy > 0.8
    assert counted(trained.fitted) == 3 * frame.where("not judged").count()
