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
        (lambda: small(weight_noise={"drop_connect": {"rate": 1.0}}), "less than 1, found 1"),
        (lambda: pl.Network(pl.layers.cdbn([4, 4], [[3, 3]], 10), input=pl.image(8, 8)), "a kernel for each of its 2 `filters`, found 1"),
    ],
)
def test_what_is_wrong_with_a_network_is_said_when_it_is_made(make, told) -> None:
    with pytest.raises(pl.SettingError) as raised:
        make()
    assert told in str(raised.value)


def test_data_says_what_goes_into_a_network() -> None:
    shapes = {(5,): {"feed_forward": 5}, (4, 6): {"image": [4, 6, 1]}, (4, 6, 3): {"image": [4, 6, 3]}, (2, 4, 6, 3): {"volume": [2, 4, 6, 3]}}
    for shape, expected in shapes.items():
        data = pl.Data.from_arrays(np.zeros((3, *shape), np.float32), [0, 1, 2])
        assert data.input == expected and data.outputs == 3
        network = pl.Network([pl.layers.output(data.outputs)], input=data)
        assert (network.inputs, network.outputs) == (int(np.prod(shape)), 3)


def test_every_kind_of_layer_has_a_builder() -> None:
    missing = [kind for kind in pl._native.LAYER_KINDS if kind != "custom" and not hasattr(pl.layers, kind)]
    assert missing == []


@pytest.mark.parametrize(
    ("layers", "input", "count"),
    [
        ([pl.layers.conv3d(3, [2, 3, 2])], pl.volume(4, 5, 4, 2), 72 + 3 + 81 * 2 + 2),
        ([pl.layers.subsampling3d()], pl.volume(4, 5, 4, 2), 16 * 2 + 2),
        ([pl.layers.subsampling3d("average", [2, 3, 2], stride=[1, 1, 1], padding="same")], pl.volume(4, 5, 4, 2), 160 * 2 + 2),
        ([pl.layers.zero_padding3d([1, 0, 2, 1, 0, 2])], pl.volume(4, 5, 4, 2), 480 * 2 + 2),
        ([pl.layers.cropping3d([1, 0, 1, 1, 0, 1])], pl.volume(4, 5, 4, 2), 54 * 2 + 2),
        ([pl.layers.upsampling3d([2, 1, 3])], pl.volume(4, 5, 4, 2), 960 * 2 + 2),
        ([pl.layers.locally_connected2d(3, [2, 3], stride=[2, 1])], pl.image(5, 6, 2), 8 * 12 * 3 + 3 + 24 * 2 + 2),
        ([pl.layers.locally_connected1d(3, 2), pl.layers.last_time_step()], pl.sequence(5, 2), 4 * 4 * 3 + 3 + 3 * 2 + 2),
        (
            [pl.layers.space_to_batch(), pl.layers.conv2d(2, [2, 2]), pl.layers.batch_to_space()],
            pl.image(6, 4, 3),
            24 + 2 + 16 * 2 + 2,
        ),
        ([pl.layers.convolutional_rbm(4, [3, 3], sparsity={"target": 0.05})], pl.image(8, 8), 36 + 4 + 1 + 36 * 2 + 2),
        ([pl.layers.rbm(6, sparsity={"target": 0.1, "cost": 0.5})], pl.feed_forward(5), 30 + 6 + 5 + 6 * 2 + 2),
    ],
)
def test_layers_are_built_with_their_shapes(layers, input, count) -> None:
    network = pl.Network([*layers, pl.layers.output(2)], input=input)
    assert network.parameter_count == count
    assert pl.Network.from_json(network.to_json()) == network


def test_a_network_that_is_known_by_a_name_is_the_list_that_it_stands_for() -> None:
    sparsity = {"target": 0.05, "cost": 2.0}
    cdbn = pl.layers.cdbn([4, 6], [[3, 3], [2, 2]], 10, hidden=[12], visible="gaussian", sparsity=sparsity)
    layers = [
        pl.layers.convolutional_rbm(4, [3, 3], visible="gaussian", sparsity=sparsity),
        pl.layers.convolutional_rbm(6, [2, 2], sparsity=sparsity),
        pl.layers.rbm(12),
        pl.layers.output(10),
    ]
    assert pl.Network(cdbn, input=pl.image(8, 8)) == pl.Network(layers, input=pl.image(8, 8))
    dbn = [pl.layers.rbm(24, visible="gaussian"), pl.layers.rbm(12), pl.layers.output(10)]
    rows = pl.feed_forward(64)
    assert pl.Network(pl.layers.dbn([24, 12], 10, visible="gaussian"), input=rows) == pl.Network(dbn, input=rows)
    coder = [pl.layers.rbm(24), pl.layers.rbm(6, activation="identity"), pl.layers.gaussian_noise(4), pl.layers.activation("sigmoid")]
    coder += [pl.layers.decoder("1", activation="sigmoid"), pl.layers.decoder("0", activation="sigmoid")]
    coder.append(pl.layers.reconstruction(["5", "input"], loss="binary_cross_entropy"))
    assert pl.Network(pl.layers.semantic_hashing([24], 6), input=rows) == pl.Network(coder, input=rows)
    encoder = pl.layers.autoencoder(24, corruption=0.2, loss="binary_cross_entropy", activation="sigmoid")
    assert pl.Network(pl.layers.sda([24], 10, corruption=0.2), input=rows) == pl.Network([encoder, pl.layers.output(10)], input=rows)


def test_weights_are_disturbed_and_rates_rise_to_other_schedules() -> None:
    falling = {"step": {"initial": 0.02, "decay": 0.5, "every": 100}}
    network = small(updater=pl.adam(pl.ramp(falling, 20)), weight_noise={"drop_connect": {"rate": 0.1}}, seed=1)
    told = network.to_dict()
    assert told["weight_noise"]["drop_connect"]["rate"] == pytest.approx(0.1)
    rate = told["updater"]["adam"]["learning_rate"]["ramp"]
    assert (rate["steps"], rate["value"]["step"]["every"]) == (20, 100)
    outcome = pl.Trainer(network, epochs=6, batch=32).fit("digits:train", "digits:test")
    assert outcome.scores is not None and outcome.scores["accuracy"] > 0.85
    with pytest.raises(pl.SettingError, match="weight_noise"):
        pl.Network([pl.layers.prelu(weight_noise={"added": {"deviation": 0.1}}), pl.layers.output(2)], input=pl.feed_forward(3))


def test_volumes_are_told_apart() -> None:
    draw = np.random.default_rng(4)
    x = draw.normal(size=(240, 3, 4, 4, 1)).astype(np.float32)
    # Whether there is more in the first image than in the last.
    y = x[:, 0].sum(axis=(1, 2, 3)) > x[:, 2].sum(axis=(1, 2, 3))
    layers = [pl.layers.conv3d(4, [1, 2, 2], activation="tanh"), pl.layers.output(2)]
    network = pl.Network(layers, input=pl.volume(3, 4, 4), seed=1, updater=pl.adam(0.01))
    model = pl.Trainer(network, epochs=40, batch=20).fit((x, y)).model
    assert model.evaluate((x, y))["accuracy"] > 0.95
    assert (model.outputs(x).argmax(axis=1) == y).mean() > 0.95


def test_things_in_images_are_found() -> None:
    draw = np.random.default_rng(2)
    x, y = np.zeros((400, 8, 8, 1), np.float32), np.zeros((400, 4, 4, 5), np.float32)
    for image, target in zip(x, y, strict=True):
        # A square of 2 by 2 or 4 by 4 pixels; a cell is two of them.
        side = int(draw.choice([2, 4]))
        top, left = (int(corner) for corner in draw.integers(0, 9 - side, 2))
        image[top : top + side, left : left + side] = 1
        row, column = int((top + side / 2) / 2), int((left + side / 2) / 2)
        target[row, column] = [left / 2, top / 2, (left + side) / 2, (top + side) / 2, 1]
    y = y.reshape(400, -1)
    layers = [
        pl.layers.conv2d(16, [3, 3], stride=[2, 2], padding="same", activation="relu"),
        pl.layers.conv2d(32, [3, 3], padding="same", activation="relu"),
        pl.layers.conv2d(12, [1, 1]),
        pl.layers.yolo2_output([[1, 1], [2, 2]]),
    ]
    network = pl.Network(layers, input=pl.image(8, 8), seed=1, updater=pl.adam(0.005))
    model = pl.Trainer(network, epochs=60, batch=20).fit((x[:350], y[:350])).model
    scores = model.evaluate((x[350:], y[350:]))
    # All edges are 0 but those of one cell in sixteen, where they are 2 on average.
    assert scores["mse"] < 0.05
    boxes = model.outputs(x[350:]).reshape(50, 16, 2, 6)
    sure = boxes[..., 4].max(axis=2).argmax(axis=1)
    wanted = y[350:].reshape(50, 16, 5)[..., 4].argmax(axis=1)
    assert (sure == wanted).mean() > 0.9


def test_a_mixture_tells_how_targets_are_spread() -> None:
    draw = np.random.default_rng(3)
    x = draw.uniform(-1, 1, (600, 1)).astype(np.float32)
    # Either 1 or −1, whatever goes in, and both with a deviation of a tenth: the mean says nothing.
    y = (draw.choice([-1.0, 1.0], (600, 1)) + 0.1 * draw.normal(size=(600, 1))).astype(np.float32)
    layers = [pl.layers.dense(8, activation="tanh"), pl.layers.output(6, loss={"mixture_density": {"gaussians": 2}})]
    network = pl.Network(layers, input=pl.feed_forward(1), seed=1, updater=pl.adam(0.02))
    model = pl.Trainer(network, epochs=200, batch=50).fit((x, y)).model
    told = model.outputs(x)
    assert sorted(np.sign(told[0, 4:])) == [-1, 1]
    assert np.exp(told[:, 2:4]).mean() == pytest.approx(0.1, rel=0.5)
    assert model.evaluate((x, y))["mse"] == pytest.approx(1.0, rel=0.2)


def test_what_is_given_back_is_judged_by_nothing_but_its_loss() -> None:
    network = pl.Network(pl.layers.semantic_hashing([24], 6, noise=1.0), input=pl.feed_forward(64), seed=1, updater=pl.adam(0.01))
    outcome = pl.Trainer(network, epochs=6, batch=32).fit("digits:train", "digits:test")
    assert outcome.scores is not None and set(outcome.scores) == {"score"}
    # What is given back of everything without learning: half of every pixel.
    assert outcome.scores["score"] < 64 * np.log(2)
    rows = np.full((3, 64), 0.5, np.float32)
    assert set(outcome.model.evaluate(rows)) == {"score"}


def test_capsules_learn() -> None:
    layers = [
        pl.layers.primary_capsules(4, 4, kernel=[3, 3], stride=[2, 2]),
        pl.layers.capsules(10, 8),
        pl.layers.capsule_strength(),
        pl.layers.loss(loss="mse"),
    ]
    network = pl.Network(layers, input=pl.image(8, 8), seed=1, updater=pl.adam(0.005))
    outcome = pl.Trainer(network, epochs=4, batch=32).fit("digits:train", "digits:test")
    assert outcome.scores is not None and outcome.scores["accuracy"] > 0.8


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


def test_machines_over_images_are_pretrained_too() -> None:
    layers = pl.layers.cdbn([8], [[3, 3]], 10, sparsity={"target": 0.1})
    network = pl.Network(layers, input=pl.image(8, 8), updater=pl.adam(0.01), seed=3)
    told = []
    trainer = pl.Trainer(network, epochs=20, batch=32, pretrain={"epochs": 2, "learning_rate": 0.001}, callbacks=[told.append])
    outcome = trainer.fit("digits:train", "digits:test")
    assert [event["layer"] for event in told if event["event"] == "phase_ended"] == ["0"]
    assert outcome.scores is not None and outcome.scores["accuracy"] > 0.8


def test_one_number_stands_for_all_sizes_of_a_window() -> None:
    one = [pl.layers.conv2d(4, 3), pl.layers.subsampling("max", 2), pl.layers.upsampling2d(2), pl.layers.output(2)]
    each = [pl.layers.conv2d(4, [3, 3]), pl.layers.subsampling("max", [2, 2]), pl.layers.upsampling2d([2, 2]), pl.layers.output(2)]
    assert pl.Network(one, input=pl.image(8, 8)) == pl.Network(each, input=pl.image(8, 8))
    volume = pl.volume(6, 6, 6)
    assert pl.Network([pl.layers.conv3d(2, np.int64(3)), pl.layers.output(2)], input=volume) == pl.Network(
        [pl.layers.conv3d(2, [3, 3, 3]), pl.layers.output(2)], input=volume
    )
