"""Layers, as the list `network.layers` of a job file has them.

Each takes the settings of its kind and those that every layer has (`activation`, `updater`, `learning_rate`, `weight_init`, `l1`,
`l2`, `dropout`, `name`, …). A name that a layer does not know is refused when the network is made, with the nearest one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

Layer: TypeAlias = dict[str, Any]
Named: TypeAlias = str | Mapping[str, Any]


def dense(units: int, **settings: Any) -> Layer:
    """Every unit sees every number."""
    return _layer("dense", settings, units=units)


def conv2d(filters: int, kernel: Sequence[int], **settings: Any) -> Layer:
    """Filters that move over an image; also `stride`, `dilation`, `padding`, `groups`, `bias`."""
    return _layer("conv2d", settings, filters=filters, kernel=list(kernel))


def subsampling(pool: Named = "max", kernel: Sequence[int] = (2, 2), **settings: Any) -> Layer:
    """The largest, the mean or another figure of every window; also `stride`, `padding`, `dilation`."""
    return _layer("subsampling", settings, pool=pool, kernel=list(kernel))


def global_pooling(pool: Named = "max", **settings: Any) -> Layer:
    """One figure of each channel of an image."""
    return _layer("global_pooling", settings, pool=pool)


def batch_norm(**settings: Any) -> Layer:
    """Brings every channel to mean 0 and deviation 1 within a batch; `epsilon`, `decay`, `learned`."""
    return _layer("batch_norm", settings)


def dropout(rate: float, **settings: Any) -> Layer:
    """Sets numbers to 0 at random while it is trained."""
    return _layer("dropout", settings, rate=rate)


def activation(function: Named, **settings: Any) -> Layer:
    """A function of every number."""
    return _layer("activation", settings, function=function)


def local_response_normalisation(**settings: Any) -> Layer:
    """Divides by what the neighbouring channels have; `k`, `n`, `alpha`, `beta`."""
    return _layer("local_response_normalisation", settings)


def zero_padding(padding: Sequence[int], **settings: Any) -> Layer:
    """Zeros around an image: top, bottom, left, right."""
    return _layer("zero_padding", settings, padding=list(padding))


def output(units: int, **settings: Any) -> Layer:
    """A dense layer with a loss; without `activation` and `loss` it has those that suit the task."""
    return _layer("output", settings, units=units)


def loss(**settings: Any) -> Layer:
    """Judges what comes in as it is; `loss`, `activation`."""
    return _layer("loss", settings)


def _layer(kind: str, settings: Mapping[str, Any], **own: Any) -> Layer:
    return {kind: {**own, **{name: value for name, value in settings.items() if value is not None}}}
