"""What comes out on Spark has the bits of what comes out without it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import paceline as pl
from paceline.spark.columns import Columns
from paceline.spark.exporting import Exported, export, remove
from paceline.spark.fitting import Placement, fit

MODES: list[Any] = ["sync", {"averaging": {"frequency": 3}}]


@pytest.fixture(scope="module")
def exported(spark: Any, digits_frame: Any) -> Iterator[Exported]:
    columns = Columns.of("features", "label")
    made = export(spark, digits_frame, columns, shape=[64], is_classes=True, partitions=3, seed=1)
    yield made
    remove(spark, made.folder)


def shards(exported: Exported) -> str:
    return f"shards:{exported.train.removeprefix('file:').replace('///', '/')}?{exported.query}"


def bits(model: pl.Model) -> dict[str, bytes]:
    return {name: numbers.tobytes() for name, numbers in model.parameters().items()}


@pytest.mark.parametrize("mode", MODES)
def test_one_task_gives_the_bits_of_one_process(spark: Any, exported: Exported, network: pl.Network, mode: Any) -> None:
    settings: dict[str, Any] = {"epochs": 3, "batch": 16, "mode": mode, "seed": 5, "normaliser": "standardise"}
    fitted = fit(spark, pl.Trainer(network, **settings), exported, Placement(1))
    alone = pl.Trainer(network, **settings, workers=1, progress=False).fit(shards(exported))
    assert bits(fitted.model) == bits(alone.model)
    assert fitted.model.iteration == alone.model.iteration == 3 * 90


@pytest.mark.parametrize("mode", MODES)
def test_two_tasks_give_the_bits_of_two_workers(
    spark: Any, exported: Exported, network: pl.Network, tmp_path: Path, mode: Any
) -> None:
    settings: dict[str, Any] = {"epochs": 3, "batch": 16, "mode": mode, "seed": 5}
    fitted = fit(spark, pl.Trainer(network, **settings), exported, Placement(2))
    data = pl.Data.open(shards(exported))
    trainer = pl.Trainer(network, **settings)
    with pl.Master(trainer, data, output=tmp_path / "run", expected_workers=2) as master:
        workers = [pl.Worker(master.join, train=data) for _ in range(2)]
        model, _ = master.wait()
        for worker in workers:
            worker.wait()
    assert model is not None
    assert bits(fitted.model) == bits(model)
    # Every example of every epoch once.
    finished = [event for event in fitted.events if event.kind == "finished"]
    assert finished[0]["examples"] == 3 * exported.rows == 3 * 1438


@pytest.mark.parametrize("form", ["array", "vector", "rows", "columns"])
def test_whatever_holds_the_features_they_are_the_same_numbers(
    spark: Any, digits: pl.Data, digits_frame: Any, form: str
) -> None:
    from pyspark.ml.functions import array_to_vector
    from pyspark.sql import functions as F

    names: str | list[str] = "features"
    frame = digits_frame
    match form:
        case "vector":
            frame = frame.withColumn("features", array_to_vector("features"))
        case "rows":
            rows = [F.slice("features", 1 + 8 * row, 8) for row in range(8)]
            frame = frame.withColumn("features", F.array(*rows))
        case "columns":
            names = [f"pixel {place}" for place in range(64)]
            pixels = [F.col("features")[place].alias(name) for place, name in enumerate(names)]
            frame = frame.select("label", *pixels)
    columns = Columns.of(names, "label")
    made = export(spark, frame, columns, shape=[64], is_classes=True, partitions=2, seed=0)
    read = pl.Data.open(shards(made))
    remove(spark, made.folder)
    features = (digits.features().reshape(-1, 64) / 16).astype(np.float32)
    labels = digits.targets()
    found = read.targets()
    assert labels is not None and found is not None
    ours = {(row.tobytes(), str(label)) for row, label in zip(read.features(), found, strict=True)}
    theirs = {(row.tobytes(), str(label)) for row, label in zip(features, labels, strict=True)}
    assert len(read) == len(digits) and ours == theirs
