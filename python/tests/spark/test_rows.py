"""Rows of a DataFrame: what is wrong with them is told by column and row, and what was exported of them is private."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.ml.linalg import Vectors
from pyspark.sql import functions as F

import paceline as pl
from paceline.spark import PacelineClassifier, PacelineModel, PacelineRegressor, SharedTrainingMaster, SparkNetwork
from paceline.spark.exporting import PREFIX, _owner


def network(inputs: int, outputs: int = 2) -> pl.Network:
    return pl.Network([pl.layers.output(outputs)], input=pl.feed_forward(inputs), updater=pl.adam(0.05), seed=1)


@pytest.fixture(scope="module")
def frame(spark: Any) -> Any:
    rows = [(at, at / 100, -at / 50, int(at >= 50), 1.0, at % 4 == 0) for at in range(100)]
    return spark.createDataFrame(rows, "id long, a double, b double, y long, w double, held boolean").cache()


def classifier(**more: Any) -> PacelineClassifier:
    settings: dict[str, Any] = {"featuresCol": ["a", "b"], "labelCol": "y", "weightCol": "w", "numWorkers": 1, "epochs": 2}
    return PacelineClassifier(network=network(2), **{**settings, **more})


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("a", "null", "1 of 100 rows have null among the numbers of `a` or `b`.*first is .id=7, a=None"),
        ("b", "double('nan')", "1 of 100 rows have NaN or an infinite number in `a` or `b`.*first is .id=7, a=0.07, b=nan"),
        ("w", "-1.0D", "1 of 100 rows have a weight in `w` that is NaN, infinite or negative.*first is .id=7"),
        ("y", "null", "1 of 100 rows have null in `y`.*first is .id=7"),
    ],
)
def test_what_is_wrong_is_told_with_column_and_row(frame: Any, column: str, value: str, said: str) -> None:
    bad = frame.withColumn(column, F.when(F.col("id") == 7, F.expr(value)).otherwise(F.col(column)))
    with pytest.raises(pl.SettingError, match=said) as raised:
        classifier().fit(bad)
    assert "parquet" not in str(raised.value)


def test_what_cannot_be_learned_from_is_refused(frame: Any) -> None:
    with pytest.raises(pl.SettingError, match="all weights in `w` are 0"):
        classifier().fit(frame.withColumn("w", F.lit(0.0)))
    late = frame.withColumn("y", F.when(F.col("id") == 4, 9).otherwise(F.col("y")))
    with pytest.raises(pl.SettingError, match="the class 9 of `y` is in rows of `held` only.*id=4"):
        classifier(validationIndicatorCol="held").fit(late)
    with pytest.raises(pl.SettingError, match=r"`a` holds timestamp: `F.unix_timestamp"):
        classifier().fit(frame.withColumn("a", F.timestamp_seconds("id")))
    with pytest.raises(pl.SettingError, match="`w` holds date|`w` holds timestamp"):
        classifier().fit(frame.withColumn("w", F.timestamp_seconds("id")))
    with pytest.raises(pl.SettingError, match="`numWorkers`.*found -1"):
        classifier(numWorkers=-1)
    with pytest.raises(pl.SettingError, match="`earlyStopping` needs rows to judge on"):
        classifier(earlyStopping={"patience": 2}).fit(frame)
    with pytest.raises(pl.SettingError, match="no parameter `epoch`: did you mean `epochs`"):
        classifier(epoch=3)
    with pytest.raises(pl.SettingError, match="pass the|expected the `SparkSession` as first argument, found SparkContext"):
        SparkNetwork(frame.sparkSession.sparkContext, network(2), SharedTrainingMaster())


def test_invalid_rows_end_the_job_are_skipped_or_are_kept(spark: Any, frame: Any) -> None:
    arrays = frame.select("id", "y", "w", F.array("a", "b").alias("features"))
    model = classifier(featuresCol="features").fit(arrays)
    bad = arrays.withColumn(
        "features",
        F.when(F.col("id") == 1, F.lit(None))
        .when(F.col("id") == 2, F.array(F.lit(1.0)))
        .when(F.col("id") == 3, F.array(F.lit(1.0), F.lit(float("nan"))))
        .when(F.col("id") == 4, F.array(F.lit(1.0), F.lit(None).cast("double")))
        .otherwise(F.col("features")),
    )
    with pytest.raises(Exception, match=r"`features` has .*handleInvalid='skip'"):
        model.transform(bad).collect()
    skipped = model.copy({model.handleInvalid: "skip"}).transform(bad).collect()
    assert sorted(row["id"] for row in skipped) == [0, *range(5, 100)]
    kept = {row["id"]: row for row in model.setHandleInvalid("keep").transform(bad).collect()}
    assert len(kept) == 100 and model.getHandleInvalid() == "keep"
    for at, row in kept.items():
        assert (row["prediction"] is None and row["probability"] is None) == (at in (1, 2, 3, 4)), at
    expected = {row["id"]: row["prediction"] for row in skipped}
    assert all(kept[at]["prediction"] == value for at, value in expected.items())
    with pytest.raises(pl.SettingError, match="'error', 'skip' or 'keep', found 'drop'"):
        model.setHandleInvalid("drop")


@pytest.mark.parametrize("kind", ["long", "double", "string"])
def test_labels_keep_their_type_without_spark(frame: Any, tmp_path: Path, kind: str) -> None:
    typed = frame.withColumn("y", (F.col("y") * 5).cast(kind))
    model = classifier(epochs=30).fit(typed)
    model.write().save(str(tmp_path / "model"))
    rows = typed.orderBy("id").collect()
    x, y = np.asarray([(row["a"], row["b"]) for row in rows]), np.asarray([row["y"] for row in rows])
    if kind == "double":
        y = y.astype(float)
    for other in (model, PacelineModel.load(str(tmp_path / "model"))):
        assert (other.model.predict(x) == y).mean() > 0.9
        assert other.model.columns == ["a", "b"]
        assert other.predict(Vectors.dense([0.99, -1.98])) == y[-1]


@pytest.mark.parametrize("form", ["columns", "vector", "array"])
def test_an_offset_is_subtracted_before_rows_are_narrowed(spark: Any, form: str) -> None:
    from pyspark.ml.functions import array_to_vector

    rows = [(1_700_000_000 + at, int(at >= 200), 1e12 + 3.0 * at) for at in np.random.default_rng(0).permutation(400).tolist()]
    made = spark.createDataFrame(rows, "at long, y long, much double")
    features: Any = ["at"]
    if form != "columns":
        array = F.array(F.col("at").cast("double"))
        made = made.withColumn("features", array_to_vector(array) if form == "vector" else array)
        features = "features"
    usual: dict[str, Any] = {"featuresCol": features, "numWorkers": 1, "normaliser": "standardise", "batchSize": 16}
    model = PacelineClassifier(network=network(1), labelCol="y", epochs=60, **usual).fit(made)
    told = model.transform(made)
    assert told.where(told.prediction == told.y).count() >= 0.98 * 400
    seconds, y = np.asarray([row[:1] for row in rows]), np.asarray([row[1] for row in rows])
    assert (model.model.predict(seconds) == y).mean() >= 0.98
    face = SparkNetwork(spark, model.model, SharedTrainingMaster(num_workers=1), features=features, label="y")
    assert face.evaluate(made).accuracy >= 0.98
    if form == "vector":
        face = SparkNetwork(spark, network(1), SharedTrainingMaster(num_workers=1), features=features, label="y", normaliser="min_max")
        face.fit(made, epochs=20)
        before = face.evaluate(made).score
        face.fit(made, epochs=5)
        assert face.evaluate(made).score < 1.2 * before, "it goes on with the offsets that it began with"
    if form == "columns":
        regressor = PacelineRegressor(network=network(1, 1), labelCol="much", epochs=200, targetNormaliser="standardise", **usual)
        numbers = regressor.fit(made).transform(made).select("much", "prediction").collect()
        assert max(abs(row["much"] - row["prediction"]) for row in numbers) < 100


def test_weights_of_classes_early_stopping_and_statistics_are_parameters(frame: Any, tmp_path: Path) -> None:
    estimator = classifier(classWeights={0: 1.0, 1: 30.0}, collectTrainingStats=True).setEpochs(3)
    estimator.write().save(str(tmp_path / "estimator"))
    heavy = PacelineClassifier.load(str(tmp_path / "estimator")).fit(frame)
    plain = classifier(epochs=3).fit(frame)
    ones = [model.transform(frame).where("prediction = 1").count() for model in (heavy, plain)]
    assert ones[0] > ones[1]
    assert heavy.fitted is not None and heavy.fitted.statistics is not None
    with pytest.raises(pl.SettingError, match="no weight for 1: the classes of the data are 0, 1"):
        classifier(classWeights={0: 1.0}).fit(frame)
    ended = classifier(epochs=500, validationIndicatorCol="held", earlyStopping={"metric": "accuracy", "target": 0.9}).fit(frame)
    assert ended.model.epoch < 500 and ended.numFeatures == 2


def test_exported_rows_are_private_and_stale_ones_are_removed(frame: Any, tmp_path: Path) -> None:
    living, dead = tmp_path / f"{PREFIX}0-{_owner()}", tmp_path / f"{PREFIX}0-{_owner().rsplit('-', 2)[0]}-999999-1"
    others = [tmp_path / f"{PREFIX}notes", tmp_path / f"{PREFIX}0-elsewhere-999999-1"]
    for folder in (living, dead, *others):
        folder.mkdir()
    modes: list[int] = []
    network_of = SparkNetwork(
        frame.sparkSession, network(2), SharedTrainingMaster(num_workers=1, export_directory=str(tmp_path)), features=["a", "b"], label="y"
    )

    def look(event: pl.Event) -> None:
        if event.kind == "epoch":
            modes.extend(path.stat().st_mode & 0o777 for path in tmp_path.iterdir() if path not in (living, *others))

    network_of.set_listeners(look)
    network_of.fit(frame, epochs=1)
    assert modes == [0o700]
    assert sorted(tmp_path.iterdir()) == sorted([living, *others])


KILLED = """
import sys
import paceline as pl
from paceline.spark import SharedTrainingMaster, SparkNetwork
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").config("spark.driver.host", "127.0.0.1").getOrCreate()
frame = spark.createDataFrame([(float(at), at % 2) for at in range(50)], "a double, y long")
network = pl.Network([pl.layers.output(2)], input=pl.feed_forward(1))
face = SparkNetwork(spark, network, SharedTrainingMaster(num_workers=1, export_directory=sys.argv[1]), features="a", label="y")
face.set_listeners(lambda event: print(event.kind, flush=True))
face.fit(frame, epochs=1_000_000)
"""


def test_a_driver_that_is_asked_to_end_leaves_no_rows(tmp_path: Path) -> None:
    driver = subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert driver.stdout is not None
    for line in driver.stdout:
        if line.strip() in ("step", "epoch"):
            break
    assert len(list(tmp_path.iterdir())) == 1
    os.kill(driver.pid, signal.SIGTERM)
    driver.stdout.close()
    driver.wait()
    until = time.monotonic() + 30
    while list(tmp_path.iterdir()) and time.monotonic() < until:
        # The virtual machine ends after the driver.
        time.sleep(0.1)
    assert list(tmp_path.iterdir()) == []
