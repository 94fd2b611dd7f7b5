"""What came out of a run, or out of a file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cached_property
from html import escape
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paceline import _native
from paceline.data import Data, as_data
from paceline.errors import Error, SettingError
from paceline.network import Network
from paceline.schema import Schema


class Scores(dict[str, Any]):
    """How good a model is: every figure by its name, as `paceline evaluate --json` prints them; printed, as a table."""

    def __init__(self, figures: Mapping[str, Any], text: str = "") -> None:
        super().__init__(figures)
        self._text = text
        self.details: dict[str, Any] = {}
        """Classes, curves and columns one by one, where they were asked for."""
        self.weight = 0.0
        """The sum of all weights, where it is known."""

    @classmethod
    def parse(cls, told: tuple[str, str]) -> Scores:
        return cls(json.loads(told[0]), told[1])

    @property
    def score(self) -> float:
        """The mean loss."""
        return float(self["score"])

    @property
    def accuracy(self) -> float | None:
        """The share of right answers, if there are classes."""
        return self.get("accuracy")

    @property
    def auc(self) -> float | None:
        """The area under the ROC curve, the mean over classes if there are several."""
        return self.get("auc")

    def __str__(self) -> str:
        return self._text

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th>{escape(name)}</th><td>{value:.4g}</td></tr>"
            for name, value in self.items()
            if isinstance(value, (int, float)) and not isinstance(value, bool)
        )
        return f"<table>{rows}</table>"

    def __reduce__(self) -> tuple[Any, ...]:
        return (Scores, (dict(self), self._text), {"details": self.details, "weight": self.weight})


class Model:
    """A network with all that it has learned, and how its data is read and normalised."""

    def __init__(self, native: _native.Model) -> None:
        self._native = native

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Model:
        """Reads a model file or a checkpoint."""
        return cls(_native.Model.load(path))

    def save(self, path: str | PathLike[str]) -> None:
        """Writes a model file beside and renames it, so that it is always whole."""
        self._native.save(path)

    def to_bytes(self) -> bytes:
        """What `save` would write."""
        return self._native.to_bytes()

    @classmethod
    def from_bytes(cls, content: bytes) -> Model:
        return cls(_native.Model.from_bytes(content))

    @property
    def network(self) -> Network:
        return Network.from_json(self._native.network())

    @property
    def classes(self) -> NDArray[Any] | None:
        """The classes that it tells apart, in their order, with the type that they were trained with; none if it predicts numbers."""
        names = self._native.classes
        if names is None:
            return None
        classes = self.schema.classes
        return classes if classes is not None and len(classes) == len(names) else np.asarray(names)

    @cached_property
    def schema(self) -> Schema:
        """Columns, classes and offsets of the data that it was trained on."""
        return Schema(self._native.schema)

    def with_schema(self, schema: Schema) -> Model:
        """The same model with the columns, offsets and labels of another schema."""
        return Model(self._native.with_schema(schema.text or "{}"))

    @property
    def columns(self) -> list[str] | None:
        """The names of the columns that it was trained on; none for arrays without names."""
        return self.schema.names

    @property
    def output_names(self) -> list[str]:
        """A name for every number that `outputs` has."""
        return self._native.output_names

    @property
    def iteration(self) -> int:
        """Steps that were taken."""
        return self._native.iteration

    @property
    def epoch(self) -> int:
        """Epochs that it was trained for."""
        return self._native.epoch

    def outputs(self, data: Any, *, batch: int = 256, workers: int | None = None) -> NDArray[np.floating[Any]]:
        """What the last layer says of each example: a row for each."""
        return self._outputs(self._read(data, targets=False), batch, workers)

    def predict_proba(self, data: Any, *, batch: int = 256, workers: int | None = None) -> Any:
        """The probability of every class, a row for each example; of a network that gives a row for every step, for each step, as
        `predict` has them."""
        if not self._native.gives_probabilities or self.classes is None and self.network.steps is None:
            raise SettingError("this model gives no probabilities: its outputs are what `outputs` and `predict` say")
        source = self._read(data, targets=False)
        outputs = self._outputs(source, batch, workers)
        if (steps := self.network.steps) is not None:
            each = outputs.reshape(len(source), steps, -1)
            return _as_long(np.concatenate([1 - each, each], axis=2) if each.shape[2] == 1 else each, source)
        return np.concatenate([1 - outputs, outputs], axis=1) if outputs.shape[1] == 1 else outputs

    def predict(self, data: Any, *, batch: int = 256, workers: int | None = None) -> Any:
        """The class of every example, or the numbers that are predicted for it.

        Of a network that gives a row for every step it is an array of examples and steps with the number of a class, -1 where the step is
        not there; or an array of examples, steps and numbers. For a list of sequences of unequal length it is a list with an array for
        each, as long as the sequence.
        """
        source = self._read(data, targets=False)
        outputs = self._outputs(source, batch, workers)
        if (steps := self.network.steps) is not None:
            each = outputs.reshape(len(source), steps, -1)
            if not self._tells_steps_apart(steps):
                return _as_long(each[..., 0] if each.shape[2] == 1 else each, source)
            places = (each[..., 0] > 0.5).astype(np.int64) if each.shape[2] == 1 else each.argmax(axis=2)
            if source._lengths is None and source.shape[0] == steps and len(source.shape) == 2:
                places[np.isnan(source.features()[:, :, 0])] = -1
            return _as_long(places, source)
        if self.classes is None:
            return outputs[:, 0] if outputs.shape[1] == 1 else outputs
        places = (outputs[:, 0] > 0.5).astype(int) if outputs.shape[1] == 1 else outputs.argmax(axis=1)
        labels: NDArray[Any] = self.classes[places]
        return labels

    def evaluate(self, data: Any, *, batch: int = 256, workers: int | None = None) -> Scores:
        """How good it is on data with targets."""
        source = self._read(data)
        if len(source) == 0:
            raise Error("the data has no examples to evaluate")
        return Scores.parse(self._native.evaluate(source._source, batch=batch, workers=workers))

    def parameters(self) -> dict[str, NDArray[np.float32]]:
        """A copy of all that was learned, by name."""
        return {name: numbers.reshape(shape) for name, shape, numbers in self._native.parameters()}

    def _read(self, data: Any, *, targets: bool = True) -> Data:
        """Data with the columns, offsets and classes that this model was trained with."""
        return as_data(data, like=self.schema, targets=targets, input=self.network.input)

    def _tells_steps_apart(self, steps: int) -> bool:
        """True if the target of every step is the number of a class: one number for several outputs, or for one that is a probability."""
        target = self.schema.tree.get("target")
        columns = target["values"]["columns"] if isinstance(target, dict) and "values" in target else ()
        if not self._native.gives_probabilities or len(columns) != steps:
            return False
        end = next(iter(self.network.to_dict()["layers"][-1].values()))
        return self.network.outputs > steps or end.get("loss") in (None, "binary_cross_entropy", "xent")

    def _outputs(self, source: Data, batch: int, workers: int | None) -> NDArray[np.floating[Any]]:
        width = self.network.outputs
        if len(source) == 0:
            return np.zeros((0, width), np.float32)
        rows = self._native.outputs(source._source, batch=batch, workers=workers).reshape(len(source), width)
        shifts = self.schema.target_shifts
        # Numbers that 32 bits do not tell apart are predicted as what is added to the offset of their column.
        return rows if shifts is None or len(shifts) != width else rows.astype(np.float64) + shifts

    def __repr__(self) -> str:
        return f"<Model after {self.iteration} steps: {self.network!r}>"

    def _repr_html_(self) -> str:
        rows = [("trained for", f"{self.iteration:,} steps, {self.epoch:,} epochs")]
        for name, told in (("columns", self.columns), ("classes", self.classes)):
            if told is not None:
                rows.append((name, ", ".join(map(str, list(told)[:20])) + (", …" if len(told) > 20 else "")))
        table = "".join(f"<tr><th>{escape(name)}</th><td>{escape(told)}</td></tr>" for name, told in rows)
        return f"<table>{table}</table>{self.network._repr_html_()}"

    def __reduce__(self) -> tuple[Any, ...]:
        return (_restored, (self.to_bytes(),))


def _as_long(each: NDArray[Any], source: Data) -> Any:
    """Rows of all steps, or a list with those of each sequence, as long as it is."""
    return each if source._lengths is None else [rows[:length] for rows, length in zip(each, source._lengths, strict=True)]


def _restored(content: bytes) -> Model:
    return Model(_native.Model.from_bytes(content))
