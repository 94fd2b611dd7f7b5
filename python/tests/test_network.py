import pickle

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
