"""The estimator of Spark's own words, on a real cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import paceline as pl
from paceline.spark import PacelineClassifier, PacelineModel


def accuracy(model: PacelineModel, frame: Any) -> float:
    told = model.transform(frame)
    return told.where(told.prediction == told.label).count() / told.count()


@pytest.mark.parametrize("mode", ["sync", "averaging", "shared"])
def test_every_mode_learns_with_two_tasks(digits_frame: Any, network: pl.Network, mode: str) -> None:
    classifier = PacelineClassifier(network=network, numWorkers=2, epochs=15, mode=mode)
    model = classifier.fit(digits_frame)
    assert model.fitted is not None
    joined = [event for event in model.fitted.events if event.kind == "worker_joined"]
    assert len(joined) == 2
    # `shared` depends on how the two take turns: less where the machine is busy.
    assert accuracy(model, digits_frame) > 0.94


def test_nothing_is_left_behind(digits_frame: Any, network: pl.Network, tmp_path: Path) -> None:
    PacelineClassifier(network=network, numWorkers=1, exportDirectory=str(tmp_path)).fit(digits_frame)
    assert list(tmp_path.iterdir()) == []


def test_what_is_missing_is_said_at_once(digits_frame: Any, network: pl.Network) -> None:
    with pytest.raises(pl.SettingError, match="no column `pixels`.*`features`, `label`"):
        PacelineClassifier(network=network, featuresCol="pixels").fit(digits_frame)
    with pytest.raises(pl.SettingError, match="expected a `network`"):
        PacelineClassifier().fit(digits_frame)
