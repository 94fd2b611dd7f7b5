"""Layers, as the list `network.layers` of a job file has them.

Each takes the settings of its kind and those that every layer has (`activation`, `updater`, `learning_rate`, `weight_init`, `l1`,
`l2`, `dropout`, `weight_noise`, `name`, …). A name that a layer does not know is refused when the network is made, with the nearest one.

A layer follows the one before it in the list. `after` names what it follows instead, one layer or input or several: then a network is
a graph, and layers that take one value take several side by side.

`dbn`, `cdbn`, `sda` and `semantic_hashing` are no layers: each stands for a whole list of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias, TypedDict, Unpack

import numpy as np

from paceline.settings import Activation, Updater

Layer: TypeAlias = dict[str, Any]
NamedNetwork: TypeAlias = dict[str, Any]
Named: TypeAlias = str | Mapping[str, Any]
Sizes: TypeAlias = int | Sequence[int]
"""One size for all dimensions, or one for each."""
Padding: TypeAlias = Literal["valid", "same", "causal"] | int | Sequence[int]
Pool: TypeAlias = Literal["max", "average", "sum"] | Mapping[str, Any]
Loss: TypeAlias = (
    Literal[
        "cross_entropy",
        "mcxent",
        "negative_log_likelihood",
        "sparse_cross_entropy",
        "binary_cross_entropy",
        "xent",
        "reconstruction_cross_entropy",
        "mse",
        "l2",
        "squared_loss",
        "mae",
        "l1",
        "mape",
        "msle",
        "cosine_proximity",
        "hinge",
        "squared_hinge",
        "kl_divergence",
        "poisson",
        "wasserstein",
        "multi_label",
    ]
    | Mapping[str, Any]
)


class Common(TypedDict, total=False):
    """Settings that every layer has, and a network for all of its layers."""

    activation: Activation | None
    weight_init: Named | None
    bias_init: float | None
    updater: Updater | None
    bias_updater: Updater | None
    learning_rate: float | Mapping[str, Any] | None
    l1: float | None
    l2: float | None
    weight_decay: float | None
    dropout: float | None
    weight_noise: Mapping[str, Any] | None
    gradient_normalisation: Named | None
    constraints: Sequence[Named] | None
    frozen: bool | None


class OfLayer(Common, total=False):
    """Settings of a layer."""

    name: str | None


class Settings(OfLayer, total=False):
    """Settings of a layer that follows the one before it unless `after` says otherwise."""

    after: str | Sequence[str] | None


class WithBias(Settings, total=False):
    bias: bool | None


class Convolution(WithBias, total=False):
    stride: Sizes | None
    dilation: Sizes | None
    padding: Padding | None
    groups: int | None
    strict: bool | None


class Separable(Convolution, total=False):
    multiplier: int | None


class Pooling(Settings, total=False):
    stride: Sizes | None
    dilation: Sizes | None
    padding: Padding | None
    strict: bool | None


class Norm(Settings, total=False):
    epsilon: float | None
    decay: float | None
    learned: bool | None


class LocalResponse(Settings, total=False):
    k: float | None
    n: int | None
    alpha: float | None
    beta: float | None


class Machine(Settings, total=False):
    visible: str | None
    hidden: str | None
    k: int | None
    pool: Sizes | None
    sparsity: Mapping[str, float] | None


class Coder(Settings, total=False):
    corruption: float | None
    encoder: Sequence[int] | None
    decoder: Sequence[int] | None
    loss: Loss | None
    visible_activation: Activation | None


class End(WithBias, total=False):
    loss: Loss | None
    loss_weight: float | None
    label_smoothing: float | None
    centre_loss: Mapping[str, float] | None


class Reconstruction(OfLayer, total=False):
    loss: Loss | None
    loss_weight: float | None


class Boxes(Settings, total=False):
    coordinates: float | None
    no_object: float | None
    loss_weight: float | None


class Recurrent(Settings, total=False):
    truncate: int | None
    bidirectional: Named | bool | None
    peepholes: bool | None
    gate_activation: Activation | None
    forget_bias: float | None


class Attending(Settings, total=False):
    head_size: int | None
    causal: bool | None


class AttendingAfter(OfLayer, total=False):
    head_size: int | None
    causal: bool | None
    project: bool | None


class PrimaryCapsules(WithBias, total=False):
    kernel: Sizes | None
    stride: Sizes | None
    padding: Padding | None


class Capsules(WithBias, total=False):
    routings: int | None


def dense(units: int, **settings: Unpack[WithBias]) -> Layer:
    """Every unit sees every number."""
    return _layer("dense", settings, units=units)


def conv2d(filters: int, kernel: Sizes, **settings: Unpack[Convolution]) -> Layer:
    """Filters that move over an image; also `stride`, `dilation`, `padding`, `groups`, `bias`."""
    return _layer("conv2d", settings, filters=filters, kernel=_sizes(kernel))


def depthwise_conv2d(kernel: Sizes, multiplier: int = 1, **settings: Unpack[Convolution]) -> Layer:
    """Filters of each channel by itself; also `stride`, `dilation`, `padding`, `bias`."""
    return _layer("depthwise_conv2d", settings, kernel=_sizes(kernel), multiplier=multiplier)


def separable_conv2d(filters: int, kernel: Sizes, **settings: Unpack[Separable]) -> Layer:
    """The same, then filters over the channels of single pixels; also `multiplier`."""
    return _layer("separable_conv2d", settings, filters=filters, kernel=_sizes(kernel))


def conv2d_transposed(filters: int, kernel: Sizes, **settings: Unpack[Convolution]) -> Layer:
    """Every pixel spread over a window; also `stride`, `dilation`, `padding`, `bias`."""
    return _layer("conv2d_transposed", settings, filters=filters, kernel=_sizes(kernel))


def locally_connected2d(filters: int, kernel: Sizes, **settings: Unpack[Convolution]) -> Layer:
    """As `conv2d`, with filters of their own at every place; also `stride`, `dilation`, `padding`, `bias`."""
    return _layer("locally_connected2d", settings, filters=filters, kernel=_sizes(kernel))


def subsampling(pool: Pool = "max", kernel: Sizes = (2, 2), **settings: Unpack[Pooling]) -> Layer:
    """The largest, the mean or another figure of every window; also `stride`, `padding`, `dilation`."""
    return _layer("subsampling", settings, pool=pool, kernel=_sizes(kernel))


def global_pooling(pool: Pool = "max", **settings: Unpack[Settings]) -> Layer:
    """One figure of each channel of an image."""
    return _layer("global_pooling", settings, pool=pool)


def batch_norm(**settings: Unpack[Norm]) -> Layer:
    """Brings every channel to mean 0 and deviation 1 within a batch; `epsilon`, `decay`, `learned`."""
    return _layer("batch_norm", settings)


def dropout(rate: float, **settings: Unpack[Settings]) -> Layer:
    """Sets numbers to 0 at random while it is trained."""
    return _layer("dropout", settings, rate=rate)


def spatial_dropout(rate: float, **settings: Unpack[Settings]) -> Layer:
    """Sets whole channels to 0 at random while it is trained."""
    return _layer("spatial_dropout", settings, rate=rate)


def augment(
    *,
    flip: Literal["horizontal", "vertical", "both"] | None = None,
    rotate: float = 0.0,
    shift: Sequence[int] = (0, 0),
    crop: Sequence[int] | None = None,
    outside: Literal["zero", "edge"] = "zero",
    **settings: Any,
) -> Layer:
    """Changes images by chance while it is trained: flips them (`"horizontal"`, `"vertical"`, `"both"`), turns them by so many degrees,
    shifts them by so many pixels, cuts a part out. `outside` (`"zero"`, `"edge"`) is what lies beside an image."""
    cut = {} if crop is None else {"crop": list(crop)}
    ways = {} if flip is None else {"flip": flip}
    return _layer("augment", settings, rotate=rotate, shift=list(shift), outside=outside, **ways, **cut)


def gaussian_dropout(rate: float, **settings: Unpack[Settings]) -> Layer:
    """Multiplies by normal numbers of mean 1 while it is trained."""
    return _layer("gaussian_dropout", settings, rate=rate)


def gaussian_noise(deviation: float, **settings: Unpack[Settings]) -> Layer:
    """Adds normal numbers while it is trained."""
    return _layer("gaussian_noise", settings, deviation=deviation)


def alpha_dropout(rate: float, **settings: Unpack[Settings]) -> Layer:
    """Dropout that keeps mean and variance of what `selu` gives."""
    return _layer("alpha_dropout", settings, rate=rate)


def prelu(alpha: float = 0.25, **settings: Unpack[Settings]) -> Layer:
    """A rectifier whose slope below 0 is learned for every channel."""
    return _layer("prelu", settings, alpha=alpha)


def element_wise_multiplication(**settings: Unpack[WithBias]) -> Layer:
    """A weight for every number, and a `bias`."""
    return _layer("element_wise_multiplication", settings)


def activation(function: Activation, **settings: Unpack[Settings]) -> Layer:
    """A function of every number."""
    return _layer("activation", settings, function=function)


def local_response_normalisation(**settings: Unpack[LocalResponse]) -> Layer:
    """Divides by what the neighbouring channels have; `k`, `n`, `alpha`, `beta`."""
    return _layer("local_response_normalisation", settings)


def zero_padding(padding: Sequence[int], **settings: Unpack[Settings]) -> Layer:
    """Zeros around an image: top, bottom, left, right."""
    return _layer("zero_padding", settings, padding=list(padding))


def cropping2d(cropping: Sequence[int], **settings: Unpack[Settings]) -> Layer:
    """Rows and columns cut off an image: top, bottom, left, right."""
    return _layer("cropping2d", settings, cropping=list(cropping))


def upsampling2d(size: Sizes = (2, 2), **settings: Unpack[Settings]) -> Layer:
    """Every pixel again and again."""
    return _layer("upsampling2d", settings, size=_sizes(size))


def space_to_depth(block: int = 2, **settings: Unpack[Settings]) -> Layer:
    """The pixels of blocks as channels."""
    return _layer("space_to_depth", settings, block=block)


def space_to_batch(block: Sizes = (2, 2), **settings: Unpack[Settings]) -> Layer:
    """Takes blocks of pixels apart: the first pixels of all blocks are an image, and so on, below each other as from `stack`."""
    return _layer("space_to_batch", settings, block=_sizes(block))


def batch_to_space(block: Sizes = (2, 2), **settings: Unpack[Settings]) -> Layer:
    """Puts together what `space_to_batch` took apart."""
    return _layer("batch_to_space", settings, block=_sizes(block))


def conv3d(filters: int, kernel: Sizes, **settings: Unpack[Convolution]) -> Layer:
    """Filters that move over a volume; also `stride`, `dilation`, `padding`, `bias`. Sizes are depth, height, width."""
    return _layer("conv3d", settings, filters=filters, kernel=_sizes(kernel))


def subsampling3d(pool: Pool = "max", kernel: Sizes = (2, 2, 2), **settings: Unpack[Pooling]) -> Layer:
    """One figure of every window of a volume; also `stride`, `padding`."""
    return _layer("subsampling3d", settings, pool=pool, kernel=_sizes(kernel))


def zero_padding3d(padding: Sequence[int], **settings: Unpack[Settings]) -> Layer:
    """Zeros around a volume: before, behind, top, bottom, left, right."""
    return _layer("zero_padding3d", settings, padding=list(padding))


def cropping3d(cropping: Sequence[int], **settings: Unpack[Settings]) -> Layer:
    """Images, rows and columns cut off a volume: before, behind, top, bottom, left, right."""
    return _layer("cropping3d", settings, cropping=list(cropping))


def upsampling3d(size: Sizes = (2, 2, 2), **settings: Unpack[Settings]) -> Layer:
    """Every pixel of a volume again and again."""
    return _layer("upsampling3d", settings, size=_sizes(size))


def merge(after: Sequence[str], **settings: Unpack[OfLayer]) -> Layer:
    """Values side by side: rows one after the other, the channels of images at every pixel."""
    return _layer("merge", settings, after=list(after))


def element_wise(op: Literal["add", "subtract", "product", "average", "max"], after: Sequence[str], **settings: Unpack[OfLayer]) -> Layer:
    """Values of one shape number by number: `add`, `subtract`, `product`, `average`, `max`."""
    return _layer("element_wise", settings, op=op, after=list(after))


def subset(first: int, count: int, **settings: Unpack[Settings]) -> Layer:
    """Some of the numbers of a row, or of the channels of an image."""
    return _layer("subset", settings, first=first, count=count)


def stack(after: Sequence[str], **settings: Unpack[OfLayer]) -> Layer:
    """Values of one shape below each other: what follows does the same to each of them, with the same weights."""
    return _layer("stack", settings, after=list(after))


def unstack(index: int, of: int, **settings: Unpack[Settings]) -> Layer:
    """One of several values that were stacked."""
    return _layer("unstack", settings, index=index, of=of)


def scale(factor: float, **settings: Unpack[Settings]) -> Layer:
    """Every number times another."""
    return _layer("scale", settings, factor=factor)


def shift(value: float, **settings: Unpack[Settings]) -> Layer:
    """Every number plus another."""
    return _layer("shift", settings, value=value)


def l2_normalise(**settings: Unpack[Norm]) -> Layer:
    """Every example divided by its length; `epsilon`."""
    return _layer("l2_normalise", settings)


def l2_distance(after: Sequence[str], **settings: Any) -> Layer:
    """The distance of two values, one number for every example; `epsilon`."""
    return _layer("l2_distance", settings, after=list(after))


def reshape(to: Mapping[str, Any], **settings: Unpack[Settings]) -> Layer:
    """The same numbers in another shape, as `{"image": [4, 4, 3]}` or `{"feed_forward": 48}`."""
    return _layer("reshape", settings, to=dict(to))


def rbm(units: int, **settings: Unpack[Machine]) -> Layer:
    """A restricted Boltzmann machine; also `visible`, `hidden`, `k`, `sparsity`. Pretrained where a `Trainer` is told to.

    `sparsity={"target": 0.05, "cost": 1.0}` says how often units shall be on.
    """
    return _layer("rbm", settings, units=units)


def convolutional_rbm(filters: int, kernel: Sizes, **settings: Unpack[Machine]) -> Layer:
    """A restricted Boltzmann machine over images; also `pool`, `visible`, `k`, `sparsity`. Pretrained likewise."""
    return _layer("convolutional_rbm", settings, filters=filters, kernel=_sizes(kernel))


def autoencoder(units: int, **settings: Unpack[Coder]) -> Layer:
    """An autoencoder with tied weights; also `corruption`, `loss`, `visible_activation`. Pretrained likewise."""
    return _layer("autoencoder", settings, units=units)


def vae(units: int, **settings: Unpack[Coder]) -> Layer:
    """A variational autoencoder; also `encoder`, `decoder`, `loss`, `visible_activation`. Pretrained likewise."""
    return _layer("vae", settings, units=units)


def decoder(of: str, **settings: Unpack[Settings]) -> Layer:
    """What is hidden in the `rbm` or `autoencoder` of this name told back through its own weights."""
    return _layer("decoder", settings, of=of)


def reconstruction(after: Sequence[str], **settings: Unpack[Reconstruction]) -> Layer:
    """An end that needs no targets: the first of two values is held against the second; `loss`, `activation`."""
    return _layer("reconstruction", settings, after=list(after))


def simple_rnn(units: int, **settings: Unpack[Recurrent]) -> Layer:
    """A recurrence over the steps of a sequence; also `truncate`, `bidirectional`."""
    return _layer("simple_rnn", settings, units=units)


def lstm(units: int, **settings: Unpack[Recurrent]) -> Layer:
    """Long short-term memory; also `peepholes`, `gate_activation`, `forget_bias`, `truncate`, `bidirectional`."""
    return _layer("lstm", settings, units=units)


def gru(units: int, **settings: Unpack[Recurrent]) -> Layer:
    """A gated recurrent unit; also `gate_activation`, `truncate`, `bidirectional`."""
    return _layer("gru", settings, units=units)


def last_time_step(**settings: Unpack[Settings]) -> Layer:
    """What comes in at the last step that is there."""
    return _layer("last_time_step", settings)


def reverse_time(**settings: Unpack[Settings]) -> Layer:
    """The steps from the last that is there to the first."""
    return _layer("reverse_time", settings)


def repeat_vector(steps: int | None = None, **settings: Unpack[Settings]) -> Layer:
    """The same row at every step; without `steps` as many as the second of two values that come in."""
    return _layer("repeat_vector", settings, **({} if steps is None else {"steps": steps}))


def mask(value: float = 0.0, **settings: Unpack[Settings]) -> Layer:
    """Takes steps whose numbers all have one value for steps that are not there."""
    return _layer("mask", settings, value=value)


def embedding(count: int, units: int, **settings: Unpack[WithBias]) -> Layer:
    """A learned row for the number of each thing that comes in; also `bias`."""
    return _layer("embedding", settings, count=count, units=units)


def one_hot(count: int, **settings: Unpack[Settings]) -> Layer:
    """A 1 at the place of the thing whose number comes in."""
    return _layer("one_hot", settings, count=count)


def layer_norm(**settings: Unpack[Norm]) -> Layer:
    """Brings every row, step or pixel to mean 0 and variance 1; `epsilon`."""
    return _layer("layer_norm", settings)


def self_attention(units: int, heads: int = 1, **settings: Unpack[Attending]) -> Layer:
    """Steps that look at each other; also `head_size`, `causal`."""
    return _layer("self_attention", settings, units=units, heads=heads)


def learned_self_attention(units: int, queries: int, heads: int = 1, **settings: Unpack[Attending]) -> Layer:
    """Learned questions that look at all steps; also `head_size`."""
    return _layer("learned_self_attention", settings, units=units, queries=queries, heads=heads)


def attention(units: int, after: Sequence[str], heads: int = 1, **settings: Unpack[AttendingAfter]) -> Layer:
    """The steps of a first value look at those of a second, and take from a third or the second; also `head_size`, `project`."""
    return _layer("attention", settings, units=units, heads=heads, after=list(after))


def recurrent_attention(units: int, heads: int = 1, **settings: Unpack[Attending]) -> Layer:
    """A recurrence that looks at the whole sequence at every step; also `head_size`."""
    return _layer("recurrent_attention", settings, units=units, heads=heads)


def conv1d(filters: int, kernel: int, **settings: Unpack[Convolution]) -> Layer:
    """Filters that move over steps; also `stride`, `dilation`, `padding`, `bias`."""
    return _layer("conv1d", settings, filters=filters, kernel=kernel)


def locally_connected1d(filters: int, kernel: int, **settings: Unpack[Convolution]) -> Layer:
    """As `conv1d`, with filters of their own at every step; also `stride`, `dilation`, `padding`, `bias`."""
    return _layer("locally_connected1d", settings, filters=filters, kernel=kernel)


def subsampling1d(pool: Pool = "max", kernel: int = 2, **settings: Unpack[Pooling]) -> Layer:
    """One figure for a few steps; also `stride`, `padding`."""
    return _layer("subsampling1d", settings, pool=pool, kernel=kernel)


def zero_padding1d(padding: Sequence[int], **settings: Unpack[Settings]) -> Layer:
    """Steps of zeros before the first and behind the last."""
    return _layer("zero_padding1d", settings, padding=list(padding))


def cropping1d(cropping: Sequence[int], **settings: Unpack[Settings]) -> Layer:
    """Cuts the first and the last steps off."""
    return _layer("cropping1d", settings, cropping=list(cropping))


def upsampling1d(size: int = 2, **settings: Unpack[Settings]) -> Layer:
    """Every step again and again."""
    return _layer("upsampling1d", settings, size=size)


def output(units: int, **settings: Unpack[End]) -> Layer:
    """A dense layer with a loss; without `activation` and `loss` it has those that suit the task.

    Also `label_smoothing`, the share of a target that is spread over all classes, and `centre_loss`.
    """
    return _layer("output", settings, units=units)


def yolo2_output(boxes: Sequence[Sequence[float]], **settings: Unpack[Boxes]) -> Layer:
    """Finds things in images: a grid of cells, each with boxes of these widths and heights; also `coordinates`, `no_object`."""
    return _layer("yolo2_output", settings, boxes=[list(box) for box in boxes])


def primary_capsules(capsules: int, size: int, **settings: Unpack[PrimaryCapsules]) -> Layer:
    """The capsules of an image, so many of so many numbers at every place; also `kernel`, `stride`, `padding`."""
    return _layer("primary_capsules", settings, capsules=capsules, size=size)


def capsules(capsules: int, size: int, **settings: Unpack[Capsules]) -> Layer:
    """Capsules that those before them agree on; also `routings`, `bias`."""
    return _layer("capsules", settings, capsules=capsules, size=size)


def capsule_strength(**settings: Unpack[Settings]) -> Layer:
    """The length of every capsule."""
    return _layer("capsule_strength", settings)


def loss(**settings: Unpack[End]) -> Layer:
    """Judges what comes in as it is; `loss`, `activation`, `label_smoothing`."""
    return _layer("loss", settings)


def dbn(hidden: Sequence[int], outputs: int, **settings: Any) -> NamedNetwork:
    """A deep belief net: an `rbm` for each number of units in `hidden`, and an `output`; also `visible`, `units`, `k`."""
    return _layer("dbn", settings, hidden=list(hidden), outputs=outputs)


def cdbn(filters: Sequence[int], kernels: Sequence[Sequence[int]], outputs: int, **settings: Any) -> NamedNetwork:
    """A convolutional deep belief net: a `convolutional_rbm` for each of `filters` and `kernels`, and an `output`.

    Also `hidden` for an `rbm` each above them, `pool`, `visible`, `k`, `sparsity`.
    """
    return _layer("cdbn", settings, filters=list(filters), kernels=[list(kernel) for kernel in kernels], outputs=outputs)


def sda(hidden: Sequence[int], outputs: int, **settings: Any) -> NamedNetwork:
    """Stacked denoising autoencoders: an `autoencoder` for each number of units in `hidden`, and an `output`; also `corruption`."""
    return _layer("sda", settings, hidden=list(hidden), outputs=outputs)


def semantic_hashing(hidden: Sequence[int], code: int, **settings: Any) -> NamedNetwork:
    """An `rbm` for each number of units in `hidden`, one of `code` units, and the way back through them; also `noise`, `k`."""
    return _layer("semantic_hashing", settings, hidden=list(hidden), code=code)


def _sizes(given: Sizes) -> int | list[int]:
    """One number for all dimensions, or a list with one for each."""
    return int(given) if isinstance(given, (int, np.integer)) else [int(size) for size in given]


def _layer(kind: str, settings: Mapping[str, Any], **own: Any) -> Layer:
    return {kind: {**own, **{name: value for name, value in settings.items() if value is not None}}}
