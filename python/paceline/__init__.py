"""Trains one neural network on many workers.

    import paceline as pl

    network = pl.Network(
        [pl.layers.dense(100, activation="relu"), pl.layers.output(10)],
        input=pl.feed_forward(64),
        updater=pl.adam(0.002),
    )
    outcome = pl.Trainer(network, epochs=20).fit("digits:train", "digits:test")
    print(outcome.scores)
    outcome.model.save("digits.safetensors")

Nothing is started and no signal is taken when this is imported. What goes wrong is raised as `paceline.Error`, or as
`paceline.SettingError` where a setting or a name cannot be understood, with the sentence that the command line prints.
"""

from paceline import layers
from paceline._native import __version__
from paceline.cluster import Master, Worker
from paceline.data import Data
from paceline.errors import Error, SettingError
from paceline.events import Event
from paceline.model import Model, Scores
from paceline.network import Network, adam, feed_forward, image, nesterovs, ramp, sequence, sgd, volume
from paceline.statistics import TrainingStatistics
from paceline.training import Outcome, Stopped, Trainer

__all__ = [
    "Data",
    "Error",
    "Event",
    "Master",
    "Model",
    "Network",
    "Outcome",
    "Scores",
    "SettingError",
    "Stopped",
    "Trainer",
    "TrainingStatistics",
    "Worker",
    "__version__",
    "adam",
    "feed_forward",
    "image",
    "layers",
    "nesterovs",
    "ramp",
    "sequence",
    "sgd",
    "volume",
]
