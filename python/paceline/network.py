"""What is trained."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Mapping
from html import escape
from os import PathLike
from pathlib import Path
from typing import Any, Literal, TypeAlias, Unpack

from paceline import _native
from paceline.data import Data
from paceline.layers import Common, Layer, Named, NamedNetwork
from paceline.settings import to_json

Schedule: TypeAlias = float | Mapping[str, Any]


class NetworkSettings(Common, total=False):
    """Settings that hold for all layers, and those of the network itself."""

    moving_average: float | None
    optimiser: Named | None


class Network:
    """A list of layers with settings that hold for all of them, as the table `network` of a job file.

    What goes in is `input`, which may be data that has its shape, or several `inputs` by name, whose numbers lie one after the other in a
    row of features. `layers.dbn` and its kin stand in the place of the list. `settings` are the keys of that table: `updater`,
    `learning_rate`, `activation`, `weight_init`, `l1`, `l2`, `dropout`, `weight_noise` and so on. What is wrong is raised here, with the
    layer and the key.
    """

    def __init__(
        self,
        layers: Iterable[Layer] | NamedNetwork,
        *,
        input: Mapping[str, Any] | Data | None = None,
        inputs: Mapping[str, Mapping[str, Any]] | None = None,
        seed: int = 0,
        **settings: Unpack[NetworkSettings],
    ) -> None:
        given: dict[str, Any] = {name: value for name, value in settings.items() if value is not None}
        if input is not None:
            given["input"] = input.input if isinstance(input, Data) else dict(input)
        if inputs is not None:
            given["inputs"] = [{"name": name, **kind} for name, kind in inputs.items()]
        self._described({"seed": seed, **given, "layers": dict(layers) if isinstance(layers, Mapping) else list(layers)})

    def _described(self, description: Mapping[str, Any]) -> None:
        self._native = _native.Network(to_json(description))

    @classmethod
    def from_dict(cls, description: Mapping[str, Any]) -> Network:
        """The table `network` of a job file."""
        network = cls.__new__(cls)
        network._described(description)
        return network

    @classmethod
    def from_json(cls, text: str) -> Network:
        return cls.from_dict(json.loads(text))

    @classmethod
    def from_toml(cls, source: str | PathLike[str]) -> Network:
        """The network of a job file, or of text in its form; a table `network` may stand around it or not."""
        is_text = isinstance(source, str) and ("\n" in source or "=" in source)
        tree = tomllib.loads(str(source) if is_text else Path(source).read_text(encoding="utf-8"))
        return cls.from_dict(tree.get("network", tree))

    def to_json(self) -> str:
        """All of it, with what was left out."""
        return self._native.to_json()

    def to_dict(self) -> dict[str, Any]:
        description: dict[str, Any] = json.loads(self.to_json())
        return description

    @property
    def parameter_count(self) -> int:
        return self._native.parameter_count

    @property
    def inputs(self) -> int:
        """Numbers that come in for an example."""
        return self._native.inputs

    @property
    def input(self) -> dict[str, Any]:
        """What an example is, as in `{"image": [28, 28, 1]}`; empty where there are several inputs by name."""
        found: dict[str, Any] = self.to_dict().get("input") or {}
        return found

    @property
    def outputs(self) -> int:
        """Numbers that come out."""
        return self._native.outputs

    @property
    def wants_targets(self) -> bool:
        """Whether it learns from targets; what only gives back what goes in has none."""
        return self._native.wants_targets

    @property
    def steps(self) -> int | None:
        """Steps of the sequences that come out; none if a single row does."""
        return self._native.steps

    def summary(self) -> str:
        """Names and shapes of all parameters."""
        rows = [(name, " × ".join(map(str, shape))) for name, shape in self._native.parameters()]
        width = max((len(name) for name, _ in rows), default=0)
        lines = [f"{name:<{width}}  {shape}" for name, shape in rows]
        return "\n".join([*lines, f"{self.parameter_count:,} parameters"])

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{escape(name)}</td><td>{' × '.join(map(str, shape))}</td></tr>" for name, shape in self._native.parameters()
        )
        head = "<tr><th>parameter</th><th>shape</th></tr>"
        return f"<p>{escape(repr(self)[1:-1])}</p><table>{head}{rows}</table>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Network) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash(self.to_json())

    def __repr__(self) -> str:
        kinds = [next(iter(layer)) for layer in self.to_dict()["layers"]]
        return f"<Network of {', '.join(kinds)}: {self.parameter_count:,} parameters>"

    def __reduce__(self) -> tuple[Any, ...]:
        return (Network.from_json, (self.to_json(),))


def feed_forward(inputs: int) -> dict[str, Any]:
    """Examples are rows of so many numbers."""
    return {"feed_forward": inputs}


def image(height: int, width: int, channels: int = 1) -> dict[str, Any]:
    """Examples are images."""
    return {"image": [height, width, channels]}


def volume(depth: int, height: int, width: int, channels: int = 1) -> dict[str, Any]:
    """Examples are volumes: images one behind the other."""
    return {"volume": [depth, height, width, channels]}


def sequence(steps: int, features: int = 1) -> dict[str, Any]:
    """Examples are sequences of at most so many steps; steps that are not there are NaN."""
    return {"sequence": [steps, features]}


def sgd(learning_rate: Schedule) -> Mapping[str, Any]:
    """Steps against the gradient."""
    return {"sgd": {"learning_rate": learning_rate}}


def nesterovs(learning_rate: Schedule, momentum: Schedule = 0.9) -> Mapping[str, Any]:
    """Steps with momentum that looks ahead."""
    return {"nesterovs": {"learning_rate": learning_rate, "momentum": momentum}}


def adam(learning_rate: Schedule = 1e-3, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-8) -> Mapping[str, Any]:
    """Steps of about the same size for every parameter. Other updaters are written as in a job file, such as `{"rmsprop": {}}`."""
    return {"adam": {"learning_rate": learning_rate, "beta1": beta1, "beta2": beta2, "epsilon": epsilon}}


def ramp(value: Schedule, steps: int, per: Literal["iteration", "epoch"] = "iteration") -> Schedule:
    """A rate that rises in a line to `value`, a number or another schedule. Others are written as in a job file, as `{"step": …}`."""
    return {"ramp": {"value": value, "steps": steps, "per": per}}
