"""The layout of examples: whole shapes are compared, not widths."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import paceline as pl

RANDOM = np.random.default_rng(1)
Y = np.arange(20) % 2


def network(input: Any) -> pl.Network:
    return pl.Network([pl.layers.dense(4), pl.layers.output(2)], input=input, seed=1)


@pytest.mark.parametrize(
    ("input", "shape", "order"),
    [
        (pl.image(6, 5, 3), (3, 6, 5), (0, 2, 3, 1)),
        (pl.image(6, 5, 3), (5, 6, 3), (0, 2, 1, 3)),
        (pl.image(6, 6, 3), (3, 6, 6), (0, 2, 3, 1)),
        (pl.image(6, 5), (5, 6), (0, 2, 1)),
        (pl.image(6, 5), (1, 6, 5), (0, 2, 3, 1)),
        (pl.volume(2, 6, 5, 3), (3, 2, 6, 5), (0, 2, 3, 4, 1)),
    ],
)
def test_images_of_another_layout_are_refused_with_the_transpose(input: Any, shape: tuple[int, ...], order: tuple[int, ...]) -> None:
    x = RANDOM.normal(size=(20, *shape)).astype(np.float32)
    told = f"`X.transpose\\({', '.join(map(str, order))}\\)`"
    right = x.transpose(order)
    model = pl.Trainer(network(input)).fit((right, Y), (right, Y)).model
    for call in (
        lambda: pl.Trainer(network(input)).fit((x, Y)),
        lambda: pl.Trainer(network(input)).fit(pl.Data.from_arrays(x, Y)),
        lambda: pl.Trainer(network(input)).fit((right, Y), (x, Y)),
        lambda: model.predict(x),
        lambda: model.outputs(pl.Data.from_arrays(x)),
        lambda: model.evaluate((x, Y)),
    ):
        with pytest.raises(pl.SettingError, match=told):
            call()
    assert len(model.predict(right)) == 20


def test_rows_are_images_for_a_network_of_images_and_images_are_rows_for_one_of_rows() -> None:
    x = RANDOM.normal(size=(20, 6, 5, 3)).astype(np.float32)
    model = pl.Trainer(network(pl.image(6, 5, 3))).fit((x, Y)).model
    np.testing.assert_array_equal(model.outputs(x.reshape(20, -1)), model.outputs(x))
    flat = pl.Trainer(network(pl.feed_forward(90))).fit((x, Y)).model
    np.testing.assert_array_equal(flat.outputs(x.reshape(20, -1)), flat.outputs(x))
    with pytest.raises(pl.SettingError, match="takes images .* of 6 × 5 × 3, found examples of 6 × 5 × 4"):
        model.predict(np.zeros((2, 6, 5, 4)))


def test_arrays_and_lists_are_sequences_for_a_network_of_sequences() -> None:
    layers = [pl.layers.lstm(4), pl.layers.last_time_step(), pl.layers.output(2)]
    last = pl.Network(layers, input=pl.sequence(5, 2), seed=1)
    whole = RANDOM.normal(size=(20, 5, 2)).astype(np.float32)
    unequal = [row[: 2 + at % 4] for at, row in enumerate(whole)]
    model = pl.Trainer(last).fit((whole, Y)).model
    np.testing.assert_array_equal(model.outputs(list(whole)), model.outputs(whole))
    assert pl.Trainer(last).fit((unequal, Y), (unequal, Y)).model.predict(unequal[:3]).shape == (3,)
    with pytest.raises(pl.SettingError, match="sequences of at most 5 steps, found one of 6"):
        model.predict([np.zeros((6, 2))])
    each = pl.Network([pl.layers.gru(4), pl.layers.output(3)], input=pl.sequence(5, 2), seed=1)
    steps = pl.Trainer(each).fit((unequal, [np.arange(len(row)) % 3 for row in unequal])).model
    told = steps.predict_proba(unequal)
    assert [rows.shape for rows in told] == [(len(row), 3) for row in unequal]
    padded = np.full((20, 5, 2), np.nan, np.float32)
    for row, known in zip(padded, unequal, strict=True):
        row[: len(known)] = known
    np.testing.assert_array_equal(told[1], steps.predict_proba(padded)[1, :3])


def test_sequences_of_another_layout_are_refused_with_the_transpose() -> None:
    last = pl.Network([pl.layers.lstm(4), pl.layers.last_time_step(), pl.layers.output(2)], input=pl.sequence(5, 2), seed=1)
    whole = RANDOM.normal(size=(20, 5, 2)).astype(np.float32)
    with pytest.raises(pl.SettingError, match=r"`X.transpose\(0, 2, 1\)`"):
        pl.Trainer(last).fit((whole.transpose(0, 2, 1), Y))
    model = pl.Trainer(last).fit((whole, Y)).model
    with pytest.raises(pl.SettingError, match=r"`X.transpose\(0, 2, 1\)`"):
        model.predict(whole.transpose(0, 2, 1))


def test_rows_of_a_sequence_have_the_offsets_of_its_features(elsewhere: Any) -> None:
    last = pl.Network([pl.layers.lstm(4), pl.layers.last_time_step(), pl.layers.output(2)], input=pl.sequence(5, 2), seed=1)
    whole = RANDOM.normal(size=(20, 5, 2)) + [1.7e9, 0.0]
    whole[:, 3:] = np.nan
    model = pl.Trainer(last, normaliser="standardise").fit((whole, Y)).model
    model.save("model.safetensors")
    model = pl.Model.load("model.safetensors")
    assert model.schema.shifts is not None and len(model.schema.shifts) == 2
    np.testing.assert_array_equal(model.outputs(whole.reshape(20, 10)), model.outputs(whole))
    other = pl.Trainer(last, normaliser="standardise").fit((whole.reshape(20, 10), Y)).model
    np.testing.assert_array_equal(other.outputs(whole), model.outputs(whole))


def test_targets_of_sequences_come_in_every_form_that_those_of_rows_have() -> None:
    import pandas

    unequal = [RANDOM.normal(size=(2 + at % 3, 2)) for at in range(20)]
    expected = pl.Data.from_sequences(unequal, Y).targets()
    series = pandas.Series(np.arange(40) % 4 // 2)[::2]
    assert series.index[1] == 2
    for targets in (Y.reshape(-1, 1), pandas.Series(Y, index=range(100, 120)), list(Y), pandas.DataFrame({"y": Y})):
        np.testing.assert_array_equal(pl.Data.from_sequences(unequal, targets).targets(), expected)
    assert pl.Data.from_sequences(unequal, series).targets() is not None
    with pytest.raises(pl.SettingError, match="numpy.unique"):
        pl.Data.from_sequences(unequal, [np.asarray(["a"] * len(row)) for row in unequal])


def test_classes_by_step_are_predicted_as_classes() -> None:
    unequal = [RANDOM.normal(size=(2 + at % 4, 2)).astype(np.float32) for at in range(40)]
    labels = [(row[:, 0] > 0).astype(int) for row in unequal]
    each = pl.Network([pl.layers.dense(8), pl.layers.output(2)], input=pl.sequence(5, 2), seed=1, updater=pl.adam(0.1))
    model = pl.Trainer(each, epochs=60).fit((unequal, labels)).model
    told = model.predict(unequal)
    assert [rows.shape for rows in told] == [(len(row),) for row in unequal]
    assert np.mean(np.concatenate(told) == np.concatenate(labels)) > 0.9
    shares = model.predict_proba(unequal)
    assert shares[1].shape == (3, 2) and np.allclose(shares[1].sum(axis=1), 1)
    padded = np.full((40, 5, 2), np.nan, np.float32)
    for row, known in zip(padded, unequal, strict=True):
        row[: len(known)] = known
    whole = model.predict(padded)
    assert whole.shape == (40, 5) and (whole[0, 2:] == -1).all() and (whole[1, :3] == told[1]).all()
    data = pl.Data.from_sequences(unequal, labels, steps=5)
    first, second = data.split(0.5)
    assert [len(rows) for rows in model.predict(first)] == first._lengths
    assert sorted([*(first._lengths or ()), *(second._lengths or ())]) == sorted(len(row) for row in unequal)
