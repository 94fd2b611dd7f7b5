"""Class labels: their type outlives every way to save, and weights of classes belong to labels."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import paceline as pl

X = np.random.default_rng(3).normal(size=(300, 4)).astype(np.float32)
IS_HIGH = X[:, 0] + X[:, 1] > 0

LABELS: dict[str, Any] = {
    "integers": np.where(IS_HIGH, 7, -3),
    "bytes": IS_HIGH.astype(np.uint8),
    "truth values": IS_HIGH,
    "floats": np.where(IS_HIGH, 2.0, 1.0),
    "texts": np.where(IS_HIGH, "high", "low"),
    "texts that are numbers": np.where(IS_HIGH, "1", "0"),
    "objects": np.where(IS_HIGH, 7, -3).astype(object),
}


def network() -> pl.Network:
    return pl.Network([pl.layers.output(2)], input=pl.feed_forward(4), updater=pl.adam(0.05), seed=1)


@pytest.mark.parametrize("kind", LABELS)
def test_labels_keep_their_type_through_every_way_to_save(elsewhere: Path, kind: str) -> None:
    y = LABELS[kind]
    outcome = pl.Trainer(network(), epochs=5, output="run").fit(pl.Data.from_arrays(X, y, task="classes"))
    model = outcome.model
    model.save("model.safetensors")
    saved = {
        "in memory": model,
        "save and load": pl.Model.load("model.safetensors"),
        "to_bytes": pl.Model.from_bytes(model.to_bytes()),
        "pickle": pickle.loads(pickle.dumps(model)),
        "checkpoint": pl.Model.load("run/checkpoint.safetensors"),
    }
    for way, other in saved.items():
        assert (other.predict(X) == y).mean() > 0.9, way
        assert other.classes is not None and list(other.classes) == list(np.unique(y)), way
        assert other.evaluate((X, y)).accuracy == pytest.approx((other.predict(X) == y).mean()), way


def test_labels_that_a_file_cannot_hold_are_refused() -> None:
    with pytest.raises(pl.SettingError, match="found date: .*makes texts of them"):
        import datetime

        pl.Data.from_arrays(X[:2], [datetime.date(2026, 1, 1), datetime.date(2026, 1, 2)])
    with pytest.raises(pl.SettingError, match=r"label of row 1 is missing \(None\)"):
        pl.Data.from_arrays(X[:2], np.asarray(["a", None], dtype=object))
    with pytest.raises(pl.SettingError, match="label of row 1 is NaN"):
        pl.Data.from_arrays(X[:2], [1.0, np.nan], task="classes")


def test_test_data_with_fewer_classes_is_judged_by_its_labels() -> None:
    y = np.digitize(X[:, 0], [-0.5, 0.5]) * 10
    wide = pl.Network([pl.layers.output(3)], input=pl.feed_forward(4), updater=pl.adam(0.05), seed=1)
    kept = y != 10
    model = pl.Trainer(wide, epochs=40).fit((X, y)).model
    # Made without a word of the model: its classes are 0 and 20, which the model knows as its first and last.
    few = pl.Data.from_arrays(X[kept], y[kept])
    expected = (model.predict(X[kept]) == y[kept]).mean()
    assert expected > 0.9
    assert model.evaluate(few).accuracy == pytest.approx(expected)
    assert model.evaluate((X[kept], y[kept])).accuracy == pytest.approx(expected)
    with pytest.raises(pl.SettingError, match="`5`, which was not there in training; the classes are `0`, `10`, `20`"):
        model.evaluate(pl.Data.from_arrays(X[:2], [0, 5]))


def test_class_weights_belong_to_labels() -> None:
    y = LABELS["texts"]
    by_label, by_order = (
        pl.Trainer(network(), epochs=3, class_weights=given).fit((X, y)).model.parameters()
        for given in ({"low": 5.0, "high": 1.0}, [1.0, 5.0])
    )
    for name, numbers in by_order.items():
        np.testing.assert_array_equal(by_label[name], numbers, err_msg=name)
    numbered = pl.Trainer(network(), epochs=5, class_weights={0: 1.0, 1: 1.0}).fit((X, IS_HIGH.astype(int))).model
    assert (numbered.predict(X) == IS_HIGH).mean() > 0.9, "class 0 is predicted, too"
    for key in (np.int64(0), 0.0, False):
        assert pl.Trainer(network(), class_weights={key: 1.0, 1: 2.0}).fit((X, IS_HIGH.astype(int))).model.iteration > 0


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"low": 1.0}, "no weight for 'high': the classes of the data are 'high', 'low'"),
        ({"low": 1.0, "high": 1.0, "middle": 1.0}, "weight for 'middle', which is no class of the data: its classes are 'high', 'low'"),
        ({"low": "much", "high": 1.0}, "expected a number as weight of a class, found 'much'"),
        ("balance", "'balanced', a dict by label, or a list in the order of classes, found 'balance'"),
        ({1.0, 2.0}, "'balanced', found set"),
        ((weight for weight in (1.0, 2.0)), "'balanced', found generator"),
    ],
)
def test_class_weights_without_a_certain_meaning_are_refused(given: Any, said: str) -> None:
    with pytest.raises(pl.SettingError, match=said):
        pl.Trainer(network(), class_weights=given).fit((X, LABELS["texts"]))


def test_labels_that_are_missing_are_told_whatever_type_the_column_has() -> None:
    import pandas

    frame = pandas.DataFrame(X[:3], columns=list("abcd"))
    for values, kind in ((["a", None, "b"], "string"), ([1, None, 2], "Int64"), ([True, None, False], "boolean"), ([0.5, None, 1.5], "float64")):
        with pytest.raises(ValueError, match="label of row 1 is missing"):
            pl.Data.from_arrays(frame, pandas.Series(values, dtype=kind))
    with pytest.raises(ValueError, match="label of row 1 is missing"):
        pl.Data.from_arrays(X[:2], np.asarray(["a", pandas.NA], dtype=object))


def test_a_label_that_training_lacked_does_not_matter_to_a_prediction() -> None:
    model = pl.Trainer(network(), epochs=5).fit((X, LABELS["texts"])).model
    other = pl.Data.from_arrays(X[:3], ["high", "low", "middle"])
    np.testing.assert_array_equal(model.predict(other), model.predict(X[:3]))
    assert model.predict_proba(other).shape == (3, 2)
    with pytest.raises(pl.SettingError, match="`middle`, which was not there in training"):
        model.evaluate(other)


def test_equal_labels_of_another_type_are_one_class() -> None:
    model = pl.Trainer(network(), epochs=5).fit((X, IS_HIGH.astype(int))).model
    expected = model.evaluate((X, IS_HIGH.astype(int)))
    for kind in (float, bool, np.uint8):
        data = pl.Data.from_arrays(X, IS_HIGH.astype(kind), task="classes")
        assert model.evaluate(data) == expected
        assert model.evaluate((X, IS_HIGH.astype(kind))) == expected


def test_a_remark_is_made_where_many_whole_numbers_are_taken_for_classes() -> None:
    y = np.arange(300) % 50
    (remark,) = pl.Data.from_arrays(X, y).remarks
    assert remark.startswith("the whole numbers of the targets are taken for 50 classes") and "`task='regression'`" in remark
    assert pl.Data.from_arrays(X, y, task="classes").remarks == []
    assert pl.Data.from_arrays(X, y % 3).remarks == []


def test_a_task_that_cannot_act_is_refused(elsewhere: Path) -> None:
    data = pl.Data.from_arrays(X, IS_HIGH.astype(int))
    with pytest.raises(pl.SettingError, match="`task='regression'` does not change this `Data`"):
        pl.Trainer(network()).fit(data, task="regression")
    with pytest.raises(pl.SettingError, match="does not change `digits:train`"):
        pl.Trainer(network()).fit("digits:train", task="regression")
    assert pl.Trainer(network()).fit(data, task="classes").model.iteration > 0
