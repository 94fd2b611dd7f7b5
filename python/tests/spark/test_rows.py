"""Rows of a DataFrame: what is wrong with them is told by column and row, and what was exported of them is private."""

from __future__ import annotations

import os
import signal
import socket
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
from paceline.spark import (
    PacelineClassificationModel,
    PacelineClassifier,
    PacelineModel,
    PacelineRegressionModel,
    PacelineRegressor,
    SharedTrainingMaster,
    SparkNetwork,
)
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


def test_sequences_are_shifted_by_their_features_and_predicted_without_spark(spark: Any, tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    seconds = 1_700_000_000.0 + generator.permutation(200)
    whole = np.stack([np.stack([seconds] * 4, axis=1), generator.normal(size=(200, 4))], axis=2)
    y = (seconds >= 1_700_000_100).astype(int)
    sequences = pl.Network(
        [pl.layers.lstm(8), pl.layers.last_time_step(), pl.layers.output(2)], input=pl.sequence(4, 2), updater=pl.adam(0.05), seed=1
    )
    nested = [(rows.tolist(), int(label), at % 5 == 0) for at, (rows, label) in enumerate(zip(whole, y, strict=True))]
    made = spark.createDataFrame(nested, "features array<array<double>>, label int, held boolean")
    usual: dict[str, Any] = {"network": sequences, "numWorkers": 1, "epochs": 20, "batchSize": 16, "normaliser": "standardise"}
    model = PacelineClassifier(**usual).fit(made)
    right = model.transform(made).where("prediction = label").count()
    assert right > 190
    model.write().save(str(tmp_path / "model"))
    plain = PacelineModel.load(str(tmp_path / "model")).model
    plain.save(tmp_path / "model.safetensors")
    for other in (plain, pl.Model.load(tmp_path / "model.safetensors")):
        assert other.schema.shifts is not None and len(other.schema.shifts) == 2
        assert (other.predict(whole) == y).sum() == right
        assert other.evaluate((whole, y)).accuracy == pytest.approx(right / 200)
    assert model.evaluate(made).accuracy == pytest.approx(right / 200)
    padded = whole.copy()
    for at, rows in enumerate(padded):
        rows[2 + at % 3 :] = np.nan
    shorter = spark.createDataFrame([(at, rows.tolist()) for at, rows in enumerate(padded)], "id int, features array<array<double>>")
    assert [row["prediction"] for row in model.transform(shorter).orderBy("id").collect()] == plain.predict(padded).tolist()
    # Rows that are judged on have no say in offsets.
    far = F.transform("features", lambda step: F.transform(step, lambda number: number + 1e6))
    moved = made.withColumn("features", F.when(F.col("held"), far).otherwise(F.col("features")))
    one, two = (
        PacelineClassifier(**{**usual, "epochs": 1}, validationIndicatorCol="held").fit(frame).model.schema for frame in (made, moved)
    )
    assert one.text == two.text


def test_nested_arrays_of_another_layout_are_refused(spark: Any) -> None:
    images = pl.Network([pl.layers.output(2)], input=pl.image(3, 4, 2), seed=1)
    pixels = np.random.default_rng(0).normal(size=(20, 3, 4, 2)).astype(np.float32)
    kind = "features array<array<array<float>>>, label int"

    def made(rows: Any) -> Any:
        return spark.createDataFrame([(row.tolist(), at % 2) for at, row in enumerate(rows)], kind)

    right, wrong = made(pixels), made(pixels.transpose(0, 3, 1, 2))
    model = PacelineClassifier(network=images, numWorkers=1).fit(right)
    expected = model.model.predict(pixels)
    assert [row["prediction"] for row in model.transform(right).collect()] == expected.tolist()
    with pytest.raises(pl.SettingError, match="`features` has arrays of 2 × 3 × 4, .* takes height × width × channels of 3 × 4 × 2"):
        PacelineClassifier(network=images, numWorkers=1).fit(wrong)
    with pytest.raises(Exception, match="another layout"):
        model.transform(wrong).collect()
    with pytest.raises(pl.SettingError, match="another layout"):
        model.evaluate(wrong)
    # Inner arrays may hold the numbers of several axes.
    rows = right.withColumn("features", F.transform("features", lambda row: F.flatten(row)))
    assert [row["prediction"] for row in model.transform(rows).collect()] == expected.tolist()


def test_columns_that_a_model_does_not_know_are_refused(spark: Any, frame: Any) -> None:
    model = classifier().fit(frame)
    usual = SharedTrainingMaster(num_workers=1)
    swapped = SparkNetwork(spark, model.model, usual, features=["b", "a"], label="y")
    straight = SparkNetwork(spark, model.model, usual, features=["a", "b"], label="y")
    assert swapped.evaluate(frame) == straight.evaluate(frame)
    other = SparkNetwork(spark, model.model, usual, features=["c", "b"], label="y")
    for call in (other.evaluate, other.transform, other.fit):
        with pytest.raises(pl.SettingError, match="trained on the column `a`.*withColumnRenamed"):
            call(frame.withColumnRenamed("a", "c"))


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("a", "null", "`a`, `b` has null in .*7.*df.dropna"),
        ("b", "double('nan')", "`a`, `b` has NaN or an infinite number in .*7"),
        ("y", "null", "`y` has null in .*7"),
        ("y", "9L", "`y` has the class 9, which was not there in training .it had 0, 1.*7"),
    ],
)
def test_rows_that_cannot_be_evaluated_are_told_with_column_and_row(frame: Any, column: str, value: str, said: str) -> None:
    model = classifier().fit(frame)
    bad = frame.withColumn(column, F.when(F.col("id") == 7, F.expr(value)).otherwise(F.col(column)))
    face = SparkNetwork(frame.sparkSession, model.model, SharedTrainingMaster(num_workers=1), features=["a", "b"], label="y")
    with pytest.raises(pl.SettingError, match=said):
        face.evaluate(bad)
    with pytest.raises(Exception, match=said):
        face.score_examples(bad).collect()
    if column != "y":
        assert face.transform(bad, handle_invalid="skip").count() == 99
        assert face.transform(bad, handle_invalid="keep").where("prediction is null").count() == 1
        with pytest.raises(Exception, match="`handle_invalid='skip'`"):
            face.transform(bad).collect()
    with pytest.raises(pl.SettingError, match="found 'drop'"):
        face.transform(bad, handle_invalid="drop")  # type: ignore[arg-type]


def test_partitions_are_trained_on_with_checked_validation_rows(spark: Any, frame: Any) -> None:
    master = SharedTrainingMaster(num_workers=1, rdd_training_approach="direct")
    face = SparkNetwork(spark, network(2), master, features=["a", "b"], label="y", weight="w")
    assert face.fit(frame, validation="held").epoch == 1
    fresh = SparkNetwork(spark, network(2), master, features=["a", "b"], label="y", weight="w")
    late = frame.withColumn("y", F.when(F.col("id") == 4, 9).otherwise(F.col("y")))
    with pytest.raises(pl.SettingError, match="the class 9 of `y` is in rows of `held` only.*id=4"):
        fresh.fit(late, validation="held")
    bad = frame.withColumn("a", F.when(F.col("id") == 4, F.lit(None)).otherwise(F.col("a")))
    with pytest.raises(pl.SettingError, match="null among the numbers of `a` or `b`.*id=4"):
        fresh.fit(bad, validation="held")
    weightless = frame.withColumn("w", F.when(F.col("held"), 0.0).otherwise(F.col("w")))
    with pytest.raises(pl.SettingError, match="nothing to evaluate on where `held` is true"):
        fresh.fit(weightless, validation="held")


def test_targets_are_standardised_unless_the_parameter_says_otherwise(spark: Any) -> None:
    made = spark.createDataFrame([(at / 100, 5000.0 + 40 * at) for at in range(100)], "a double, much double")
    usual: dict[str, Any] = {"featuresCol": "a", "labelCol": "much", "network": network(1, 1), "numWorkers": 1, "epochs": 100}
    estimator = PacelineRegressor(**usual)
    assert not estimator.isDefined(estimator.targetNormaliser)
    model = estimator.fit(made)
    assert isinstance(model, PacelineRegressionModel) and model.evaluate(made)["r2"] > 0.99
    face = SparkNetwork(spark, network(1, 1), SharedTrainingMaster(num_workers=1), features="a", label="much", task="regression")
    face.fit(made, epochs=60)
    assert face.evaluate(made)["r2"] > 0.9


@pytest.mark.parametrize("kind", ["double", "boolean"])
def test_weights_of_classes_are_named_by_labels_of_every_type(frame: Any, tmp_path: Path, kind: str) -> None:
    typed = frame.withColumn("y", F.col("y").cast(kind))
    weights: dict[Any, float] = {0.0: 1.0, 1.0: 30.0} if kind == "double" else {False: 1.0, True: 30.0}
    estimator = classifier(classWeights=weights, epochs=3)
    estimator.write().save(str(tmp_path / "estimator"))
    ones = [
        each.fit(typed).transform(typed).where(F.col("prediction").cast("int") == 1).count()
        for each in (estimator, PacelineClassifier.load(str(tmp_path / "estimator")), classifier(epochs=3))
    ]
    assert ones[0] == ones[1] > ones[2]
    # Labels are of their type without Spark, too.
    model = classifier(epochs=30).fit(typed)
    rows = typed.orderBy("id").collect()
    x, y = np.asarray([(row["a"], row["b"]) for row in rows]), np.asarray([row["y"] for row in rows])
    assert model.model.evaluate((x, y)).accuracy == model.evaluate(typed).accuracy == (model.model.predict(x) == y).mean()


def test_models_are_those_of_pyspark(spark: Any, frame: Any, tmp_path: Path) -> None:
    from pyspark.ml.classification import ClassificationModel, ProbabilisticClassificationModel
    from pyspark.ml.regression import RegressionModel

    seen: list[str] = []
    model = classifier(epochs=20, validationIndicatorCol="held", callbacks=[lambda event: seen.append(event.kind)]).fit(frame)
    assert isinstance(model, PacelineClassificationModel)
    assert isinstance(model, ProbabilisticClassificationModel) and isinstance(model, ClassificationModel)
    assert not isinstance(model, RegressionModel) and "step" in seen
    assert model.hasSummary and len(model.summary.objectiveHistory) == 20 and 1 <= len(model.summary.validationHistory) <= 20
    assert model.summary.totalIterations == model.model.iteration
    assert "<th>accuracy</th>" in model.fitted._repr_html_() and "<th>classes</th><td>0, 1</td>" in model._repr_html_()
    row = Vectors.dense([0.99, -1.98])
    assert model.predict(row) == 1 == int(np.argmax(model.predictProbability(row)))
    np.testing.assert_allclose(model.predictRaw(row), model.predictProbability(row))
    assert model.evaluate(frame).accuracy == model.transform(frame).where("prediction = y").count() / 100
    # A class is predicted whose probability divided by its threshold is the largest.
    never = model.copy({model.thresholds: [0.0, 1.0]})
    assert never.transform(frame).where("prediction = 1").count() == 0 and never.predict(row) == 0
    rare = model.copy({model.thresholds: [0.9, 0.1]}).transform(frame).where("prediction = 1").count()
    assert rare > model.transform(frame).where("prediction = 1").count()
    with pytest.raises(pl.SettingError, match="expected `thresholds` as 2 numbers"):
        model.copy({model.thresholds: [1.0]}).transform(frame)
    model.write().save(str(tmp_path / "model"))
    loaded = PacelineModel.load(str(tmp_path / "model"))
    assert type(loaded) is PacelineClassificationModel and not loaded.hasSummary
    assert type(PacelineClassificationModel.load(str(tmp_path / "model"))) is PacelineClassificationModel
    with pytest.raises(RuntimeError, match="no summary"):
        _ = loaded.summary


def test_a_fit_goes_on_from_a_model(frame: Any) -> None:
    whole = classifier(epochs=4).fit(frame)
    part = classifier(epochs=2).fit(frame)
    on = classifier(epochs=4, initialModel=part).fit(frame)
    assert (on.model.epoch, on.model.iteration) == (6, whole.model.iteration * 6 // 4)
    copied = classifier(epochs=1).setInitialModel(part.model).copy()
    assert copied.getInitialModel() is not None and copied.fit(frame).model.epoch == 3
    with pytest.raises(pl.SettingError, match="`initialModel` as a model"):
        classifier(initialModel="model")


@pytest.mark.parametrize("kind", [PacelineClassifier, PacelineRegressor])
def test_every_parameter_has_a_setter_a_getter_and_a_name_in_the_constructor(spark: Any, kind: Any) -> None:
    import inspect

    special: dict[str, Any] = {
        "network": network(2),
        "mode": "averaging",
        "handleInvalid": "skip",
        "earlyStopping": {"patience": 3},
        "classWeights": {"a": 1.0},
        "thresholds": [0.5, 0.5],
        "featuresCol": ["a", "b"],
    }
    estimator = kind()
    names = [param.name for param in estimator.params]
    signature = inspect.signature(kind.__init__).parameters
    assert set(names) | {"callbacks", "initialModel"} == set(signature) - {"self"}
    assert set(inspect.signature(kind.setParams).parameters) == set(signature)
    for name in names:
        param = getattr(estimator, name)
        number = 3 if param.typeConverter.__name__ in ("toInt", "_workers") else None
        value = special.get(name, True if param.typeConverter.__name__ == "toBoolean" else number if number is not None else "standardise")
        whole = name[0].upper() + name[1:]
        assert getattr(estimator, f"set{whole}")(value) is estimator, name
        told = getattr(estimator, f"get{whole}")()
        assert told == (value.to_json() if name == "network" else value), name
        assert getattr(kind(**{name: value}), f"get{whole}")() == told, name


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
    host = socket.gethostname()
    # Of other hosts, of other tables of processes on this one, and of versions that did not tell them apart.
    of_others = ("notes", "0-elsewhere-999999-1", f"0-{host}-0123456789abcdef.1-999999-1", f"0-{host}-999999-1")
    others = [tmp_path / f"{PREFIX}{name}" for name in of_others]
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
