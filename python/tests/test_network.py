import pickle

import numpy as np
import pytest

import paceline as pl
from conftest import small


def test_a_network_is_its_description() -> None:
    network = small(seed=7)
    assert network.parameter_count == 64 * 32 + 32 + 32 * 10 + 10
    assert (network.inputs, network.outputs) == (64, 10)
    assert pl.Network.from_json(network.to_json()) == network
    assert pickle.loads(pickle.dumps(network)) == network
    assert network != small(seed=8)
    assert "0.weight  64 × 32" in network.summary()
    assert repr(network) == "<Network of dense, output: 2,410 parameters>"


def test_a_network_is_read_from_a_job_file(elsewhere) -> None:
    text = '[network]\ninput = { feed_forward = 4 }\nlayers = [{ dense = { units = 3 } }, { output = { units = 2 } }]\n'
    (elsewhere / "job.toml").write_text(text)
    network = pl.Network.from_toml("job.toml")
    assert network == pl.Network.from_toml(text)
    assert network == pl.Network([pl.layers.dense(3), pl.layers.output(2)], input=pl.feed_forward(4))


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: small(updtaer="adam"), "did you mean `updater`"),
        (lambda: pl.Network([pl.layers.dense(3, activaton="relu")], input=pl.feed_forward(2)), "did you mean `activation`"),
        (lambda: pl.Network([pl.layers.dense(0), pl.layers.output(2)], input=pl.feed_forward(2)), "layer 0 (dense)"),
        (lambda: pl.Network([pl.layers.dense(3)], input=pl.feed_forward(2)), "output"),
        (lambda: pl.Network([{"dnse": {}}], input=pl.feed_forward(2)), "did you mean `dense`"),
    ],
)
def test_what_is_wrong_with_a_network_is_said_when_it_is_made(make, told) -> None:
    with pytest.raises(pl.SettingError) as raised:
        make()
    assert told in str(raised.value)


def test_every_kind_of_layer_has_a_builder() -> None:
    missing = [kind for kind in pl._native.LAYER_KINDS if kind != "custom" and not hasattr(pl.layers, kind)]
    assert missing == []


def test_a_graph_with_two_inputs_and_two_ends_learns() -> None:
    layers = [
        pl.layers.dense(16, activation="tanh", after="left", name="l"),
        pl.layers.dense(16, activation="tanh", after="right", name="r"),
        pl.layers.element_wise("add", ["l", "r"], name="both"),
        pl.layers.output(3, after="both", name="kind"),
        pl.layers.output(1, after=["both", "r"], name="size"),
    ]
    inputs = {"left": pl.feed_forward(3), "right": pl.feed_forward(2)}
    network = pl.Network(layers, inputs=inputs, seed=1, updater=pl.adam(0.02))
    assert (network.inputs, network.outputs) == (5, 4)
    assert pl.Network.from_json(network.to_json()) == network
    draw = np.random.default_rng(1)
    x = draw.normal(size=(300, 5)).astype(np.float32)
    kind, size = x[:, :3].argmax(axis=1), x[:, 3] + 2 * x[:, 4]
    y = np.stack([kind, size], axis=1).astype(np.float32)
    model = pl.Trainer(network, epochs=40, batch=20).fit((x, y)).model
    scores = model.evaluate((x, y))
    assert scores["outputs"]["kind"]["accuracy"] > 0.95
    assert scores["outputs"]["size"]["r2"] > 0.95
    assert model.output_names == ["kind.0", "kind.1", "kind.2", "size"]
    outputs = model.outputs(x)
    assert (outputs[:, :3].argmax(axis=1) == kind).mean() > 0.95


def test_sequences_of_any_length_are_told_apart_and_judged_by_their_steps() -> None:
    draw = np.random.default_rng(2)
    lengths = draw.integers(3, 9, size=240)
    x = [draw.normal(size=(length, 2)).astype(np.float32) for length in lengths]
    # Whether the first numbers of all steps sum to more than 0: of the whole, and of what was there up to each step.
    sums = [np.cumsum(row[:, 0]) > 0 for row in x]
    updater = pl.adam(0.01)
    last = [pl.layers.lstm(8), pl.layers.last_time_step(), pl.layers.output(2)]
    network = pl.Network(last, input=pl.sequence(8, 2), seed=1, updater=updater)
    data = pl.Data.from_sequences(x, [bool(row[-1]) for row in sums])
    assert data.shape == (8, 2)
    scores = pl.Trainer(network, epochs=60, batch=20).fit(data).model.evaluate(data)
    assert scores["accuracy"] > 0.95
    each = pl.Network([pl.layers.gru(8), pl.layers.output(2)], input=pl.sequence(8, 2), seed=1, updater=updater)
    data = pl.Data.from_sequences(x, [row.astype(np.float32) for row in sums])
    model = pl.Trainer(each, epochs=60, batch=20).fit(data).model
    assert model.evaluate(data)["accuracy"] > 0.95
    with pytest.raises(pl.SettingError, match="a target for every step"):
        pl.Data.from_sequences(x, [row[1:] for row in sums])


def test_layers_are_pretrained_before_the_network_learns() -> None:
    layers = [pl.layers.rbm(24), pl.layers.autoencoder(12, corruption=0.2, activation="sigmoid"), pl.layers.output(10)]
    network = pl.Network(layers, input=pl.feed_forward(64), updater=pl.adam(0.01), seed=3)
    told = []
    trainer = pl.Trainer(network, epochs=12, batch=32, pretrain={"epochs": 2, "learning_rate": 0.01}, callbacks=[told.append])
    outcome = trainer.fit("digits:train", "digits:test")
    assert [event["layer"] for event in told if event["event"] == "phase_ended"] == ["0", "1"]
    assert outcome.scores is not None and outcome.scores["accuracy"] > 0.85
