"""What came out of a run, or out of a file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paceline import _native
from paceline._native import SettingError
from paceline.data import Data, as_data
from paceline.network import Network


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

    def __reduce__(self) -> tuple[Any, ...]:
        return (Scores, (dict(self), self._text))


class Model:
    """A network with all that it has learned, and how its data is read and normalised."""

    def __init__(self, native: _native.Model, classes: NDArray[Any] | None = None) -> None:
        self._native = native
        self._classes = classes

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
        """The classes that it tells apart, in their order; none if it predicts numbers."""
        if self._classes is not None:
            return self._classes
        names = self._native.classes
        return None if names is None else np.asarray(names)

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

    def outputs(self, data: Any, *, batch: int = 256, workers: int | None = None) -> NDArray[np.float32]:
        """What the last layer says of each example: a row for each."""
        source = self._read(data, targets=False)
        rows = self._native.outputs(source._source, batch=batch, workers=workers)
        return rows.reshape(len(source), -1)

    def predict_proba(self, data: Any, *, batch: int = 256, workers: int | None = None) -> NDArray[np.float32]:
        """The probability of every class, a row for each example."""
        if self.classes is None or not self._native.gives_probabilities:
            raise SettingError("this model gives no probabilities: its outputs are what `outputs` and `predict` say")
        outputs = self.outputs(data, batch=batch, workers=workers)
        return np.concatenate([1 - outputs, outputs], axis=1) if outputs.shape[1] == 1 else outputs

    def predict(self, data: Any, *, batch: int = 256, workers: int | None = None) -> NDArray[Any]:
        """The class of every example, or the numbers that are predicted for it."""
        outputs = self.outputs(data, batch=batch, workers=workers)
        if self.classes is None:
            return outputs[:, 0] if outputs.shape[1] == 1 else outputs
        places = (outputs[:, 0] > 0.5).astype(int) if outputs.shape[1] == 1 else outputs.argmax(axis=1)
        labels: NDArray[Any] = self.classes[places]
        return labels

    def evaluate(self, data: Any, *, batch: int = 256, workers: int | None = None) -> Scores:
        """How good it is on data with targets."""
        return Scores.parse(self._native.evaluate(self._read(data)._source, batch=batch, workers=workers))

    def parameters(self) -> dict[str, NDArray[np.float32]]:
        """A copy of all that was learned, by name."""
        return {name: numbers.reshape(shape) for name, shape, numbers in self._native.parameters()}

    def _read(self, data: Any, *, targets: bool = True) -> Data:
        if isinstance(data, tuple) and len(data) > 1:
            features, labels, *weights = data
            classes = None if self.classes is None else list(self.classes)
            task: Any = "regression" if classes is None else "classes"
            weight = weights[0] if weights else None
            return Data.from_arrays(features, labels, weights=weight, classes=classes, task=task)
        return as_data(data, targets=targets)

    def __repr__(self) -> str:
        return f"<Model after {self.iteration} steps: {self.network!r}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return (_restored, (self.to_bytes(), self._classes))


def _restored(content: bytes, classes: NDArray[Any] | None) -> Model:
    return Model(_native.Model.from_bytes(content), classes)
