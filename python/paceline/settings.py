"""Settings as JSON, and their types."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from typing import Any, Literal, TypeAlias, TypedDict

import numpy as np

from paceline.errors import SettingError


class AveragingOptions(TypedDict, total=False):
    """What `{"averaging": …}` has."""

    frequency: int
    average_updater: bool | None
    overlap: bool
    outer: Any
    balance: bool
    report_score: bool


class SharedOptions(TypedDict, total=False):
    """What `{"shared": …}` has."""

    threshold: Any
    combine: Any
    sum_beyond: int
    max_ahead: int
    clipping: Any
    shake: Any
    dump: str | PathLike[str] | None


class AveragingMode(TypedDict):
    """The mode `averaging` with options."""

    averaging: AveragingOptions


class SharedMode(TypedDict):
    """The mode `shared` with options."""

    shared: SharedOptions


Mode: TypeAlias = Literal["sync", "averaging", "shared", "solo"] | AveragingMode | SharedMode
Metric: TypeAlias = Literal["score", "accuracy", "precision", "recall", "f1", "mcc", "auc", "mse", "mae", "rmse", "r2"]


class EarlyStopping(TypedDict, total=False):
    """When a run ends before its last epoch: each of these that is set can end it."""

    metric: Metric
    patience: int | None
    improvement: float
    target: float | None
    worst: float | None
    minutes: float | None
    invalid_score: bool
    save_best: bool


class Plateau(TypedDict, total=False):
    """When learning rates fall because the model does not get better."""

    metric: Metric
    factor: float
    patience: int
    improvement: float
    cooldown: int
    least: float


class Checkpoint(TypedDict, total=False):
    """How often a run is saved, and how much is kept."""

    steps: int | None
    minutes: float | None
    epochs: int
    keep: int
    best: bool


ActivationName: TypeAlias = Literal[
    "cube",
    "elu",
    "gelu",
    "hard_sigmoid",
    "hard_tanh",
    "identity",
    "leaky_relu",
    "mish",
    "random_relu",
    "rational_tanh",
    "rectified_tanh",
    "relu",
    "relu6",
    "selu",
    "sigmoid",
    "softmax",
    "softplus",
    "softsign",
    "swish",
    "tanh",
    "thresholded_relu",
]
UpdaterName: TypeAlias = Literal[
    "sgd",
    "nesterovs",
    "adam",
    "adamax",
    "amsgrad",
    "adabelief",
    "adadelta",
    "adagrad",
    "nadam",
    "rmsprop",
    "adamw",
    "lamb",
    "noop",
]
Activation: TypeAlias = ActivationName | Mapping[str, Any]
Updater: TypeAlias = UpdaterName | Mapping[str, Any]
NormaliserName: TypeAlias = Literal["none", "standardise", "min_max", "image", "vgg16"]
TargetNormaliserName: TypeAlias = Literal["none", "standardise", "min_max"]
ClassWeights: TypeAlias = Mapping[Any, float] | Sequence[float] | Literal["balanced"]


def to_json(settings: Any) -> str:
    """Settings as JSON; numbers and arrays of NumPy are numbers and lists."""
    return json.dumps(settings, default=_plain)


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, PathLike):
        return fspath(value)
    raise SettingError(f"expected settings that are numbers, texts, lists or dicts, found {type(value).__name__}: {value!r}")
