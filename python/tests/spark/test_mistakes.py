"""What users get wrong: each is answered with what to change, and soon."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as F

import paceline as pl
from paceline.spark import PacelineClassifier, PacelineRegressor


def classifier(network: pl.Network, **more: Any) -> PacelineClassifier:
    return PacelineClassifier(network=network, numWorkers=2, **more)


def test_columns_that_cannot_be_learned_from(digits_frame: Any, network: pl.Network) -> None:
    with pytest.raises(pl.SettingError, match="no column `pixels` for the features: its columns are `features`, `label`"):
        classifier(network, featuresCol="pixels").fit(digits_frame)
    with pytest.raises(pl.SettingError, match="no column `weight` for the weight"):
        classifier(network, weightCol="weight").fit(digits_frame)
    nulls = digits_frame.withColumn("label", F.when(F.col("label") < 9, F.col("label")))
    with pytest.raises(pl.SettingError, match="rows have null in `label`: drop them with `df.dropna"):
        classifier(network).fit(nulls)
    nulls = digits_frame.withColumn("features", F.when(F.col("label") < 9, F.col("features")))
    with pytest.raises(pl.SettingError, match="rows have null in `features`"):
        classifier(network).fit(nulls)
    with pytest.raises(pl.SettingError, match="`features` holds string: features are numbers"):
        classifier(network).fit(digits_frame.withColumn("features", F.lit("a")))
    narrow = digits_frame.withColumn("features", F.slice("features", 1, 10))
    with pytest.raises(pl.SettingError, match="takes 64 numbers, but `features` has 10 in each row"):
        classifier(network).fit(narrow)
    with pytest.raises(pl.SettingError, match="which is no class"):
        classifier(network).fit(digits_frame.withColumn("label", F.col("label") / 3))
    with pytest.raises(pl.Error, match="no rows to learn from"):
        classifier(network).fit(digits_frame.where("label > 100"))


def test_more_classes_than_the_network_has_outputs(digits_frame: Any, network: pl.Network) -> None:
    more = digits_frame.withColumn("label", F.col("label") + F.when(F.rand(1) < 0.5, 10).otherwise(0))
    with pytest.raises(pl.Error, match="20"):
        classifier(network).fit(more)


def test_numbers_are_for_a_regressor(digits_frame: Any) -> None:
    network = pl.Network([pl.layers.output(1, loss="mse", activation="identity")], input=pl.feed_forward(64))
    words = digits_frame.withColumn("label", F.lit("a"))
    with pytest.raises(pl.Error, match="texts"):
        PacelineRegressor(network=network, numWorkers=1).fit(words)


def test_a_port_that_is_taken(digits_frame: Any, network: pl.Network) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(pl.Error, match=f"{port}"):
            classifier(network, port=port).fit(digits_frame)


def test_a_driver_that_cannot_be_reached(digits_frame: Any, network: pl.Network) -> None:
    # An address for documentation: nobody has it, and nobody answers there.
    with pytest.raises(pl.Error, match="the executors do not reach the driver.*networkMask"):
        classifier(network, controllerAddress="192.0.2.1").fit(digits_frame)


def test_a_network_that_the_driver_is_not_in(digits_frame: Any, network: pl.Network) -> None:
    with pytest.raises(pl.SettingError, match="no address in `198.51.100.0/24`: it has .*127.0.0.1"):
        classifier(network, networkMask="198.51.100.0/24").fit(digits_frame)
    with pytest.raises(pl.SettingError, match="expected `networkMask` as `10.1.0.0/16`"):
        classifier(network, networkMask="all").fit(digits_frame)
    assert classifier(network, networkMask="127.0.0.0/8").fit(digits_frame).numClasses == 10


def test_a_folder_that_not_all_see(spark: Any, digits_frame: Any, network: pl.Network, tmp_path: Path) -> None:
    """What an executor does not see is told: here a file is gone before the tasks begin."""
    from paceline.spark.columns import Columns
    from paceline.spark.exporting import export, remove
    from paceline.spark.fitting import Placement, fit

    made = export(
        spark, digits_frame, Columns.of("features", "label"), shape=[64], is_classes=True, directory=str(tmp_path), partitions=3, seed=1
    )
    wrong = {**made.train_files, "part-99999.parquet": 10}
    object.__setattr__(made, "train_files", wrong)
    with pytest.raises(pl.Error, match="an executor does not see what Spark wrote.*`exportDirectory`"):
        fit(spark, pl.Trainer(network), made, Placement(2))
    remove(spark, made.folder)
    assert os.listdir(tmp_path) == []
