"""What is learned from: arrays, tables of pandas, or a source by its specification."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from os import PathLike
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from paceline import _native
from paceline._native import SettingError

Task: TypeAlias = Literal["classes", "regression"]


class Data:
    """Examples with random access. Made by `Data.open` or `Data.from_arrays`; whatever takes data takes their arguments, too."""

    def __init__(self, source: _native.Source, labels: NDArray[Any] | None = None) -> None:
        self._source = source
        self._labels = labels

    @classmethod
    def open(
        cls,
        spec: str,
        *,
        cache: str | PathLike[str] | None = None,
        offline: bool = False,
        root: str | PathLike[str] | None = None,
        targets: bool = True,
        like: Data | None = None,
    ) -> Data:
        """Opens `mnist:train`, `csv:flowers.csv?label=species` and the like; `like` is data whose columns and classes hold for it."""
        source = like._source if like is not None else None
        return cls(_native.Source.open(spec, cache=cache, offline=offline, root=root, targets=targets, like=source))

    @classmethod
    def from_arrays(
        cls,
        features: Any,
        targets: Any = None,
        *,
        weights: Any = None,
        classes: Sequence[Any] | None = None,
        task: Task | None = None,
    ) -> Data:
        """Copies arrays, or whatever NumPy makes arrays of.

        `features` has a row for each example: numbers, or images as rows and columns, with or without channels, or volumes as images,
        rows, columns and channels. Bytes are taken for pixels. `targets` are classes if they are texts, truth values or whole
        numbers, and numbers to predict if they have fractions or several columns; `task` says otherwise. `classes` are all classes
        there are, in their order.
        """
        rows, shape, images = _features(features)
        made: dict[str, Any] = {"images": images}
        if weights is not None:
            made["weights"] = _flat(weights, "weights", len(rows))
        labels = None
        if targets is not None:
            array = np.asarray(targets)
            if array.ndim == 2 and array.shape[1] == 1:
                array = array[:, 0]
            if len(array) != len(rows):
                raise SettingError(f"expected a target for each of the {len(rows)} examples, found {len(array)}")
            if _is_classes(array, task):
                labels, made["labels"] = _labels(array, classes)
                made["classes"] = [_name(label) for label in labels]
            else:
                names = _columns(targets, array)
                made["targets"], made["values"] = _flat(array, "targets", None), names
        source = _native.Source.arrays(_flat(rows, "features", None), list(shape), **made)
        return cls(source, labels)

    @classmethod
    def from_sequences(
        cls,
        sequences: Any,
        targets: Any = None,
        *,
        steps: int | None = None,
        weights: Any = None,
        classes: Sequence[Any] | None = None,
        task: Task | None = None,
    ) -> Data:
        """Copies sequences: an array of examples, steps and features, or a list with an array of steps and features for each.

        What shorter sequences lack becomes NaN, as steps that are not there are in an array. `targets` are one for each sequence, as in
        `from_arrays`, or an array or list of arrays with one for every step: the number of a class, or a number to predict.
        """
        rows = [np.asarray(sequence, dtype=np.float32) for sequence in sequences]
        rows = [row[:, np.newaxis] if row.ndim == 1 else row for row in rows]
        if not rows or any(row.ndim != 2 or row.shape[1] != rows[0].shape[1] for row in rows):
            raise SettingError("expected sequences of steps of as many features each: an array with 3 dimensions, or a list of arrays with 2")
        longest = max(len(row) for row in rows)
        if steps is not None and steps < longest:
            raise SettingError(f"expected `steps` of at least {longest}, as the longest sequence has, found {steps}")
        steps = steps or longest
        features = np.full((len(rows), steps, rows[0].shape[1]), np.nan, dtype=np.float32)
        for at, row in enumerate(rows):
            features[at, : len(row)] = row
        made: dict[str, Any] = {}
        if weights is not None:
            made["weights"] = _flat(weights, "weights", len(rows))
        labels = None
        if targets is not None and np.ndim(targets[0]) == 0:
            array = np.asarray(targets)
            if _is_classes(array, task):
                labels, made["labels"] = _labels(array, classes)
                made["classes"] = [_name(label) for label in labels]
            else:
                made["targets"], made["values"] = _flat(array, "targets", len(rows)), ["0"]
        elif targets is not None:
            each = [np.asarray(target, dtype=np.float32).reshape(len(target), -1) for target in targets]
            if len(each) != len(rows) or any(len(one) != len(row) for one, row in zip(each, rows, strict=True)):
                raise SettingError("expected a target for every step of every sequence")
            wanted = np.full((len(rows), steps, each[0].shape[1]), np.nan, dtype=np.float32)
            for at, one in enumerate(each):
                wanted[at, : len(one)] = one
            made["targets"] = wanted.reshape(-1)
            made["values"] = [str(at) for at in range(1, 1 + steps * each[0].shape[1])]
        return cls(_native.Source.arrays(features.reshape(-1), [steps, rows[0].shape[1]], **made), labels)

    @classmethod
    def from_arrow(
        cls,
        table: Any,
        *,
        label: str | Sequence[str] | None = None,
        features: Sequence[str] | None = None,
        weight: str | None = None,
        shape: Sequence[int] | None = None,
        classes: Sequence[Any] | None = None,
        task: Task | None = None,
    ) -> Data:
        """Reads a table of Arrow where it lies: pyarrow's, polars', DuckDB's, whatever has `__arrow_c_stream__`.

        `features` are columns of numbers, or of lists of as many numbers in every row; left out, all columns but `label` and `weight`.
        Several labels are numbers to predict. `shape` makes images of the features, as in `(28, 28, 1)`.
        """
        if not hasattr(table, "__arrow_c_stream__"):
            raise SettingError(f"expected a table with `__arrow_c_stream__`, found {type(table).__name__}")
        labels = [] if label is None else [label] if isinstance(label, str) else list(label)
        others = [*labels, *([] if weight is None else [weight])]
        columns = {column.name: column for column in _native.read_arrow(table)} if features is None else {}
        chosen = [name for name in columns if name not in others] if features is None else list(features)
        missing = [name for name in [*chosen, *others] if name not in columns]
        if missing:
            columns |= {column.name: column for column in _native.read_arrow(table, missing)}
        if not chosen:
            raise SettingError("expected at least one column of features")
        for name in chosen:
            if columns[name].width is None:
                raise SettingError(f"column `{name}` holds texts: features are numbers, or lists of numbers")
        parts = [columns[name].narrow().reshape(-1, columns[name].width or 1) for name in chosen]
        rows = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)
        if all(columns[name].is_bytes for name in chosen):
            rows = rows.astype(np.uint8)
        if shape is not None:
            rows = rows.reshape(len(rows), *shape)
        targets = None
        if labels:
            found = [columns[name] for name in labels]
            if len(found) == 1 and found[0].width is None:
                targets = np.asarray(found[0].texts(), dtype=object)
            elif len(found) == 1 and found[0].width == 1 and (found[0].is_whole or task == "classes"):
                targets = found[0].numbers().astype(np.int64)
            else:
                targets = np.concatenate([each.numbers().reshape(len(rows), -1) for each in found], axis=1)
        weights = None if weight is None else columns[weight].numbers()
        return cls.from_arrays(rows, targets, weights=weights, classes=classes, task=task)

    @classmethod
    def of_partitions(cls, notes: Iterable[str]) -> Data:
        """Data that lives with workers, from the notes of all its partitions: what a master leads on that has none of it."""
        return cls(_native.Source.partitions(list(notes)))

    def describe(self, partition: int) -> str:
        """The note of the partition that this is, as JSON: count, fingerprint, columns, and what normalisers need."""
        return self._source.describe(partition)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one example."""
        return tuple(self._source.shape)

    @property
    def input(self) -> dict[str, Any]:
        """What goes into a network for it: `Network([…, output(data.outputs)], input=data)`."""
        kinds = {1: "feed_forward", 2: "sequence", 3: "image", 4: "volume"}
        if (kind := kinds.get(len(self.shape))) is None:
            raise SettingError(f"expected rows, sequences, images or volumes, found examples of shape {self.shape}")
        return {kind: self.shape[0] if len(self.shape) == 1 else list(self.shape)}

    @property
    def outputs(self) -> int:
        """As many as a network has for it: one for each class, or for each number that is to be predicted."""
        return len(self._source.classes or self._source.values or ())

    @property
    def classes(self) -> NDArray[Any] | None:
        """The classes in their order, as they were given; none if numbers are to be predicted."""
        if self._labels is not None:
            return self._labels
        names = self._source.classes
        return None if names is None else np.asarray(names)

    @property
    def remarks(self) -> list[str]:
        """What in the data was perhaps not meant so."""
        return self._source.remarks

    def split(self, share: float, seed: int = 0) -> tuple[Data, Data]:
        """Two parts, drawn by the seed; the first has this share of the examples."""
        one, two = self._source.split(share, seed)
        return Data(one, self._labels), Data(two, self._labels)

    def features(self) -> NDArray[np.float32]:
        """All features, as an array."""
        rows = self._source.read(list(range(len(self))))[0]
        return rows.reshape(len(self), *self.shape)

    def targets(self) -> NDArray[Any] | None:
        """All labels, or all numbers that are to be predicted."""
        _, labels, values, _ = self._source.read(list(range(len(self))))
        if labels is not None and self.classes is not None:
            return self.classes[labels]
        return None if values is None else values.reshape(len(self), -1)

    def __len__(self) -> int:
        return len(self._source)

    def __repr__(self) -> str:
        return f"<Data of {len(self)} examples of {' × '.join(map(str, self.shape))}>"

    def __str__(self) -> str:
        return self._source.inspect()


def as_data(what: Any, *, like: Data | None = None, targets: bool = True) -> Data:
    """Data from whatever stands for it: itself, a specification, features alone, or a pair or triple with targets and weights."""
    if isinstance(what, Data):
        return what
    if isinstance(what, str):
        return Data.open(what, like=like, targets=targets)
    classes = None if like is None else like.classes
    if isinstance(what, tuple):
        if not 2 <= len(what) <= 3:
            raise SettingError(f"expected features and targets, or features, targets and weights, found {len(what)} things")
        features, labels, *weights = what
        task: Task | None = None if like is None else ("regression" if classes is None else "classes")
        given = None if classes is None else list(classes)
        return Data.from_arrays(features, labels, weights=weights[0] if weights else None, classes=given, task=task)
    return Data.from_arrays(what)


def _features(features: Any) -> tuple[NDArray[Any], tuple[int, ...], bool]:
    array = np.asarray(features)
    if array.ndim == 3:
        array = array[..., np.newaxis]
    if array.ndim not in (2, 4, 5):
        found = " × ".join(map(str, array.shape)) or "a single number"
        raise SettingError(
            "expected features as rows of numbers (2 dimensions), images (3, or 4 with channels) or volumes (5, with channels), "
            f"found {found}; a single column is `x.reshape(-1, 1)`"
        )
    return array, array.shape[1:], array.dtype == np.uint8


def _flat(values: Any, what: str, expected: int | None) -> NDArray[np.float32]:
    array = np.asarray(values)
    if expected is not None and array.shape != (expected,):
        raise SettingError(f"expected {expected} {what}, one for each example, found {' × '.join(map(str, array.shape))}")
    if array.dtype.kind == "c":
        raise SettingError(f"expected {what} that are real numbers, found complex ones")
    if array.dtype.kind not in "fiub":
        try:
            array = array.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise SettingError(f"expected {what} that are numbers: {error}") from None
    return np.ascontiguousarray(array, dtype=np.float32).reshape(-1)


def _is_classes(array: NDArray[Any], task: Task | None) -> bool:
    if task not in (None, "classes", "regression"):
        raise SettingError(f"expected `task` to be 'classes' or 'regression', found {task!r}")
    if task is not None:
        return task == "classes"
    return array.ndim == 1 and (array.dtype.kind in "biuUSO")


def _labels(array: NDArray[Any], classes: Sequence[Any] | None) -> tuple[NDArray[Any], NDArray[np.uint32]]:
    if array.ndim != 1:
        raise SettingError(f"expected one class for each example, found {' × '.join(map(str, array.shape))}")
    found, places = np.unique(array, return_inverse=True)
    if classes is None:
        return found, places.astype(np.uint32)
    known = np.asarray(classes)
    place = {_name(label): at for at, label in enumerate(known)}
    unknown = [label for label in found if _name(label) not in place]
    if unknown:
        raise SettingError(f"{_name(unknown[0])} is none of the {len(known)} classes that are known")
    own = np.asarray([place[_name(label)] for label in found], dtype=np.uint32)
    return known, own[places.reshape(-1)]


def _name(label: Any) -> str:
    return str(label.item() if isinstance(label, np.generic) else label)


def _columns(targets: Any, array: NDArray[Any]) -> list[str]:
    """Names for the numbers that are to be predicted: those of a table, or their places."""
    width = 1 if array.ndim == 1 else array.shape[1]
    columns = getattr(targets, "columns", None)
    if columns is not None and len(columns) == width:
        return [str(name) for name in columns]
    name = getattr(targets, "name", None)
    return [str(name)] if width == 1 and name is not None else [str(at) for at in range(width)]
