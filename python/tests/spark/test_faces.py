"""Both faces: predictions, figures, saving and loading, pipelines."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.ml import Pipeline, PipelineModel
from pyspark.ml.evaluation import MulticlassClassificationEvaluator
from pyspark.ml.feature import StandardScaler, StringIndexer, VectorAssembler
from pyspark.ml.tuning import CrossValidator, ParamGridBuilder
from pyspark.sql import functions as F

import paceline as pl
from paceline.spark import (
    PacelineClassifier,
    PacelineModel,
    PacelineRegressor,
    ParameterAveragingTrainingMaster,
    SharedTrainingMaster,
    SparkNetwork,
    TrainingMaster,
)


@pytest.fixture(scope="module")
def trained(spark: Any, digits_frame: Any) -> Iterator[SparkNetwork]:
    network = pl.Network(
        [pl.layers.dense(30, activation="relu"), pl.layers.output(10)],
        input=pl.feed_forward(64),
        updater=pl.adam(0.005),
        seed=7,
    )
    made = SparkNetwork(spark, network, ParameterAveragingTrainingMaster(num_workers=2, rng_seed=3))
    made.fit(digits_frame, epochs=6)
    yield made


def local(frame: Any) -> tuple[Any, Any]:
    """The rows of a DataFrame, as arrays."""
    rows = frame.collect()
    return np.asarray([row["features"] for row in rows], dtype=np.float32), np.asarray([row["label"] for row in rows])


def test_figures_are_those_of_one_process(trained: SparkNetwork, digits_frame: Any) -> None:
    features, labels = local(digits_frame)
    alone = trained.model.evaluate((features, labels.astype(str)))
    there = trained.evaluate(digits_frame)
    assert set(there) == set(alone)
    for name in ("accuracy", "precision", "recall", "f1", "mcc", "auc"):
        assert there[name] == alone[name], name
    assert there.score == pytest.approx(alone.score, rel=1e-12)
    confusion = np.asarray(there.details["classes"]["confusion"])
    predicted = trained.model.predict(features).astype(int)
    expected = np.zeros((10, 10))
    np.add.at(expected, (labels, predicted), 1)
    assert np.array_equal(confusion, expected)
    areas = [one["auc"] for one in trained.evaluate_roc_multi_class(digits_frame)["classes"]]
    assert len(areas) == 10 and np.mean(areas) == pytest.approx(alone["auc"], rel=1e-15)
    assert trained.calculate_score(digits_frame) == there.score
    assert trained.calculate_score(digits_frame, average=False) == pytest.approx(there.score * len(labels))


def test_every_row_has_its_own_score_and_output(trained: SparkNetwork, digits_frame: Any) -> None:
    keyed = digits_frame.withColumn("key", F.monotonically_increasing_id())
    scored = trained.score_examples(keyed).select("key", "score", "features", "label").collect()
    mean = np.mean([row["score"] for row in scored])
    assert mean == pytest.approx(trained.calculate_score(digits_frame), rel=1e-6)
    outputs = {row["key"]: row["output"] for row in trained.feed_forward_with_key(keyed, "key").collect()}
    features = np.asarray([row["features"] for row in scored], dtype=np.float32)
    expected = trained.model.outputs(features)
    for row, output in zip(scored, expected, strict=True):
        assert np.array_equal(np.asarray(outputs[row["key"]], dtype=np.float32), output)


def test_predictions_are_labels_as_they_were_given(spark: Any, digits_frame: Any, network: pl.Network) -> None:
    words = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
    names = F.array(*[F.lit(word) for word in words])
    frame = digits_frame.withColumn("label", F.element_at(names, F.col("label") + 1))
    model = PacelineClassifier(network=network, numWorkers=2, epochs=10, seed=2).fit(frame)
    told = model.transform(frame)
    assert told.columns == ["features", "label", "prediction", "rawPrediction", "probability"]
    right = told.where(told.prediction == told.label).count()
    assert right / told.count() > 0.97
    first = told.first()
    assert first["prediction"] in words and first["probability"].toArray().sum() == pytest.approx(1, abs=1e-5)


def test_a_pipeline_is_saved_and_loaded(spark: Any, digits_frame: Any, network: pl.Network, tmp_path: Path) -> None:
    frame = digits_frame.select("label", *[F.col("features")[place].alias(f"p{place}") for place in range(64)])
    assembler = VectorAssembler(inputCols=[f"p{place}" for place in range(64)], outputCol="raw")
    scaler = StandardScaler(inputCol="raw", outputCol="scaled", withMean=True)
    indexer = StringIndexer(inputCol="label", outputCol="index", stringOrderType="alphabetAsc")
    classifier = PacelineClassifier(network=network, featuresCol="scaled", labelCol="index", numWorkers=2, epochs=8)
    pipeline = Pipeline(stages=[indexer, assembler, scaler, classifier])
    pipeline.write().save(str(tmp_path / "pipeline"))
    model = Pipeline.load(str(tmp_path / "pipeline")).fit(frame)
    model.write().save(str(tmp_path / "model"))
    loaded = PipelineModel.load(str(tmp_path / "model"))
    assert isinstance(loaded.stages[-1], PacelineModel)
    one, two = (each.transform(frame).select("index", "prediction").collect() for each in (model, loaded))
    assert one == two
    evaluator = MulticlassClassificationEvaluator(labelCol="index", metricName="accuracy")
    assert evaluator.evaluate(loaded.transform(frame)) > 0.95


def test_cross_validation_chooses_what_learns(digits_frame: Any, network: pl.Network) -> None:
    classifier = PacelineClassifier(network=network, numWorkers=2, normaliser="standardise")
    grid = ParamGridBuilder().addGrid(classifier.epochs, [1, 6]).build()
    evaluator = MulticlassClassificationEvaluator(metricName="accuracy")
    validator = CrossValidator(estimator=classifier, estimatorParamMaps=grid, evaluator=evaluator, numFolds=2)
    found = validator.fit(digits_frame)
    assert found.avgMetrics[1] > max(0.9, found.avgMetrics[0])


def test_rows_to_judge_on_weights_and_numbers_to_predict(spark: Any) -> None:
    random = np.random.default_rng(3)
    x = random.normal(size=(600, 3)).astype(np.float32)
    y = 50_000 + 1000 * (x @ np.asarray([1.0, -2.0, 0.5]))
    rows = [(*map(float, row), float(value), 1.0 + (at % 3), at % 5 == 0) for at, (row, value) in enumerate(zip(x, y, strict=True))]
    frame = spark.createDataFrame(rows, "a double, b double, c double, y double, w double, held boolean")
    network = pl.Network(
        [pl.layers.output(1, loss="mse", activation="identity")], input=pl.feed_forward(3), updater=pl.adam(0.05), seed=1
    )
    regressor = PacelineRegressor(
        network=network,
        featuresCol=["a", "b", "c"],
        labelCol="y",
        weightCol="w",
        validationIndicatorCol="held",
        numWorkers=2,
        epochs=30,
        targetNormaliser="standardise",
    )
    model = regressor.fit(frame)
    assert model.scores is not None and model.scores["r2"] > 0.999
    told = model.transform(frame).select("y", "prediction").collect()
    assert max(abs(row["y"] - row["prediction"]) for row in told) < 100
    finished = [event for event in model.fitted.events if event.kind == "finished"]
    assert finished[0]["examples"] == 30 * 480
    face = SparkNetwork(
        spark,
        model.model,
        SharedTrainingMaster(),
        features=["a", "b", "c"],
        label="y",
        weight="w",
        task="regression",
    )
    there = face.evaluate_regression(frame)
    alone = model.model.evaluate((x, y.astype(np.float32), np.asarray([row[4] for row in rows], dtype=np.float32)))
    for name in ("mse", "mae", "rmse", "r2"):
        assert there[name] == pytest.approx(alone[name], rel=1e-9), name


def test_data_comes_as_an_rdd_or_as_paths(spark: Any, digits_frame: Any, network: pl.Network, tmp_path: Path) -> None:
    from pyspark.ml.linalg import Vectors

    steps: list[int] = []
    face = SparkNetwork(spark, network, SharedTrainingMaster(num_workers=2, batch_size_per_worker=32))
    face.add_hook(lambda event: steps.append(event["iteration"]))
    pairs = digits_frame.rdd.map(lambda row: (Vectors.dense(row["features"]), row["label"]))
    face.fit(pairs, epochs=8)
    assert steps and face.evaluate(digits_frame).accuracy > 0.9
    digits_frame.write.parquet(str(tmp_path / "digits"))
    face.fit(str(tmp_path / "digits"), epochs=8)
    assert face.evaluate([str(tmp_path / "digits")]).accuracy > 0.9


def test_training_masters_are_written_as_json_and_read_again() -> None:
    for made in (
        ParameterAveragingTrainingMaster(averaging_frequency=7, batch_size_per_worker=64, network_mask="10.0.0.0/8"),
        SharedTrainingMaster(threshold_algorithm={"fixed": {"threshold": 1e-3}}, residual_post_processor={"every": 5, "thresholds": 5.0}),
    ):
        assert TrainingMaster.from_json(made.to_json()) == made
    with pytest.raises(pl.SettingError, match="`aggregation_depth` means nothing here"):
        ParameterAveragingTrainingMaster(aggregation_depth=2)
    with pytest.raises(pl.SettingError, match="unknown option `averaging_frequncy`"):
        ParameterAveragingTrainingMaster(averaging_frequncy=2)


def test_a_fit_tells_where_its_time_went_and_a_second_one_goes_on(
    spark: Any, digits_frame: Any, network: pl.Network, tmp_path: Path
) -> None:
    master = SharedTrainingMaster(num_workers=2, collect_training_stats=True)
    face = SparkNetwork(spark, network, master)
    with pytest.raises(pl.Error, match="collect_training_stats=True"):
        face.training_stats()
    face.fit(digits_frame, epochs=40)
    statistics = face.training_stats()
    assert len(statistics.workers) == 2 and sum(statistics.steps().values()) > 100
    assert all(phases["compute"] > 0 and phases["apply"] > 0 for phases in statistics.seconds().values())
    assert len(str(statistics).splitlines()) == 4
    statistics.save(tmp_path / "statistics.html")
    assert (tmp_path / "statistics.html").read_text().startswith("<!doctype html>")
    before = face.evaluate(digits_frame).score
    face.fit(digits_frame, epochs=5)
    assert face.model.epoch == 45 and face.evaluate(digits_frame).score < 1.5 * before


def test_a_fit_ends_early_when_it_does_not_get_better(spark: Any, digits_frame: Any, network: pl.Network) -> None:
    frame = digits_frame.withColumn("judged", F.rand(seed=1) < 0.25)
    face = SparkNetwork(spark, network, ParameterAveragingTrainingMaster(num_workers=2))
    face.fit(frame, epochs=500, validation="judged", early_stopping={"metric": "accuracy", "target": 0.9})
    assert face.fitted is not None
    finished = next(event for event in face.fitted.events if event.kind == "finished")
    assert "0.9" in finished["ended_early"] and face.model.epoch < 500
    assert face.fitted.scores is not None and face.fitted.scores.accuracy >= 0.9
