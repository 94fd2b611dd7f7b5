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
    told = steps.predict(unequal)
    assert [rows.shape for rows in told] == [(len(row), 3) for row in unequal]
    padded = np.full((20, 5, 2), np.nan, np.float32)
    for row, known in zip(padded, unequal, strict=True):
        row[: len(known)] = known
    np.testing.assert_array_equal(told[1], steps.predict(padded)[1, :3])
