"""What is learned from: arrays, tables of pandas, or a source by its specification."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from html import escape
from itertools import permutations
from os import PathLike
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from paceline import _native
from paceline.errors import SettingError
from paceline.labels import Task as Task, is_classes, labels_for, refuse_missing
from paceline.schema import Schema


class Data:
    """Examples with random access. Made by `Data.open` or `Data.from_arrays`; whatever takes data takes their arguments, too."""

    def __init__(self, source: _native.Source, lengths: Sequence[int] | None = None) -> None:
        self._source = source
        self._lengths = lengths
        """The steps of each sequence, where they were given as a list of arrays."""
        self._wide: _WideExamples | None = None
        """The numbers before offsets were subtracted, where there are some: each part of a split has offsets of its own."""

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
        schema = None if like is None else like.schema.text
        return cls(_native.Source.open(spec, cache=cache, offline=offline, root=root, targets=targets, like=schema))

    @classmethod
    def from_arrays(
        cls,
        features: Any,
        targets: Any = None,
        *,
        weights: Any = None,
        classes: Sequence[Any] | None = None,
        task: Task | None = None,
        like: Data | None = None,
    ) -> Data:
        """Narrows arrays to 32 bits, or tables of pandas, polars and Arrow, or whatever NumPy makes arrays of.

        `features` has a row for each example: numbers, or images as rows and columns, with or without channels, or volumes as images,
        rows, columns and channels. Bytes are taken for pixels. Columns of a table keep their names: other tables are matched by them.
        Lists of arrays of unequal length are sequences. `targets` are classes if they are texts, truth values or whole numbers, and
        numbers to predict if they have fractions or several columns; `task` says otherwise. `classes` are all classes there are, in
        their order. `like` is data whose columns, offsets and classes hold for these arrays.
        """
        return _from_arrays(
            features, targets, weights=weights, classes=classes, task=task, like=None if like is None else like.schema
        )

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
        like: Data | None = None,
    ) -> Data:
        """Copies sequences: an array of examples, steps and features, or a list with an array of steps and features for each.

        What shorter sequences lack becomes NaN, as steps that are not there are in an array. `targets` are one for each sequence, as in
        `from_arrays`, or an array or list of arrays with one for every step: the number of a class, or a number to predict.
        """
        return _from_sequences(
            sequences,
            targets,
            steps=steps,
            weights=weights,
            classes=classes,
            task=task,
            like=None if like is None else like.schema,
        )

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
        like: Data | None = None,
    ) -> Data:
        """Reads a table of Arrow where it lies: pyarrow's, polars', DuckDB's, whatever has `__arrow_c_stream__`. The rows of 32-bit numbers
        that are trained on are the only copy.

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
        like_schema = None if like is None else like.schema
        if like_schema is not None and shape is None:
            order = like_schema.order_of(chosen)
            if order is not None:
                wanted = list(dict.fromkeys(name if name in chosen else name.rpartition(".")[0] for name in order))
                if not set(wanted) <= set(chosen):
                    _refuse_without([name for name in wanted if name not in chosen], chosen)
                chosen = wanted
        rows = _arrow_rows([columns[name] for name in chosen], shape, like_schema)
        targets: Any = None
        if labels:
            found = [columns[name] for name in labels]
            if len(found) == 1 and found[0].width is None:
                targets = np.asarray(found[0].texts(), dtype=object)
            elif len(found) == 1 and found[0].width == 1 and (found[0].is_whole or task == "classes"):
                kind = bool if found[0].is_bool else np.int64 if found[0].is_whole else np.float64
                targets = found[0].numbers().astype(kind)
            else:
                targets = np.concatenate([each.numbers().reshape(rows.count, -1) for each in found], axis=1)
        weights = None if weight is None else columns[weight].numbers()
        names = [labels[0]] if len(labels) == 1 and targets.ndim == 1 else labels
        return _from_rows(rows, targets, names or None, weights=weights, classes=classes, task=task, like=like_schema)

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

    @cached_property
    def schema(self) -> Schema:
        """Columns, classes and offsets, which other data is matched to."""
        return Schema(self._source.schema)

    @property
    def columns(self) -> list[str] | None:
        """The names of the columns of features; none for arrays without names."""
        return self.schema.names

    @property
    def classes(self) -> NDArray[Any] | None:
        """The classes in their order, as they were given; none if numbers are to be predicted."""
        return self.schema.classes

    @property
    def remarks(self) -> list[str]:
        """What in the data was perhaps not meant so."""
        return self._source.remarks

    def matched(self, schema: Schema) -> Data:
        """This data with the columns, offsets and classes of other data, or of a model."""
        return self if schema.text is None else Data(self._source.matched(schema.text), self._lengths)

    def split(self, share: float, seed: int = 0) -> tuple[Data, Data]:
        """Two parts, drawn by the seed; the first has this share of the examples.

        Offsets, where 32 bits would blur a column, are those of the first part: the second has no say in what is learned.
        """
        one, two = self._source.split(share, seed)
        if self._wide is None and self._lengths is None:
            return Data(one), Data(two)
        places = [_places_of(part) for part in _numbered(len(self)).split(share, seed)]
        if self._wide is None:
            parts = [Data(one), Data(two)]
        else:
            first = self._wide.part(places[0], None)
            parts = [first, self._wide.part(places[1], first.schema)]
        if self._lengths is not None:
            for part, chosen in zip(parts, places, strict=True):
                part._lengths = [self._lengths[place] for place in chosen]
        return parts[0], parts[1]

    def features(self) -> NDArray[np.floating[Any]]:
        """All features, as an array; of 64 bits where 32 do not tell the numbers of a column apart."""
        rows = self._source.read(list(range(len(self))))[0].reshape(len(self), *self.shape)
        shifts = self.schema.shifts
        return rows if shifts is None or len(shifts) != self.shape[-1] else rows.astype(np.float64) + shifts

    def targets(self) -> NDArray[Any] | None:
        """All labels, or all numbers that are to be predicted."""
        _, labels, values, _ = self._source.read(list(range(len(self))))
        if labels is not None and self.classes is not None:
            found: NDArray[Any] = self.classes[labels]
            return found
        if values is None:
            return None
        shifts = self.schema.target_shifts
        rows = values.reshape(len(self), -1)
        return rows if shifts is None else rows.astype(np.float64) + shifts

    def __len__(self) -> int:
        return len(self._source)

    def __repr__(self) -> str:
        return f"<Data of {len(self)} examples of {' × '.join(map(str, self.shape))}>"

    def __str__(self) -> str:
        return self._source.inspect()

    def __reduce__(self) -> tuple[Any, ...]:
        shape, schema, normaliser, *more = self._source.state()
        features, labels, targets, weights = self._source.read(list(range(len(self))))
        return (_restored, (features, shape, labels, targets, weights, schema, normaliser, self.remarks, *more, self._lengths))


    def _repr_html_(self) -> str:
        rows = [("examples", f"{len(self):,}"), ("shape", _times(self.shape))]
        if self.columns is not None:
            rows.append(("columns", _first_names(self.columns)))
        if self.classes is not None:
            rows.append(("classes", _first_names(self.classes.tolist())))
        elif self.outputs:
            rows.append(("numbers to predict", str(self.outputs)))
        rows.extend(("remark", remark) for remark in self.remarks)
        return "<table>" + "".join(f"<tr><th>{escape(name)}</th><td>{escape(told)}</td></tr>" for name, told in rows) + "</table>"


def _restored(*state: Any) -> Data:
    *examples, lengths = state
    return Data(_native.Source.of_state(*examples), lengths)


def _first_names(names: Sequence[Any]) -> str:
    return ", ".join(map(str, names[:20])) + (", …" if len(names) > 20 else "")


def _numbered(count: int) -> _native.Source:
    """Examples that hold their own places, in two halves, which 32 bits hold."""
    places = np.arange(count)
    return _native.Source.arrays(np.stack([places // 65536, places % 65536], axis=1).astype(np.float32), [2])


def _places_of(part: _native.Source) -> NDArray[np.int64]:
    halves = part.read(list(range(len(part))))[0].reshape(-1, 2).astype(np.int64)
    places: NDArray[np.int64] = halves[:, 0] * 65536 + halves[:, 1]
    return places


def as_data(
    what: Any,
    *,
    like: Schema | None = None,
    targets: bool = True,
    task: Task | None = None,
    input: Mapping[str, Any] | None = None,
) -> Data:
    """Data from whatever stands for it: itself, a specification, features alone, or a pair or triple with targets and weights.

    `like` is the schema of data or of a model that holds for it; `input` is what a network takes. Without `targets` only features count.
    """
    of_file = None if like is None or targets and like.tree.get("target", "none") == "none" else like.text
    if like is not None and not targets:
        like = like.without_target()
    if isinstance(what, Data):
        data = what
        _expect_task(data, task, "this `Data`", "`Data.from_arrays(…, task=…)`")
    elif isinstance(what, str):
        data = Data(_native.Source.open(what, targets=targets, like=of_file))
        _expect_task(data, task, f"`{what}`", "`task=` among the options of the specification")
    else:
        features, labels, weights = what, None, None
        if isinstance(what, tuple):
            if not 2 <= len(what) <= 3:
                raise SettingError(f"expected features and targets, or features, targets and weights, found {len(what)} things")
            features, labels, weights = what if len(what) == 3 else (*what, None)
        if not targets:
            labels = weights = None
        classes = None if like is None or like.classes is None else list(like.classes)
        if task is None and like is not None and like.text is not None:
            task = "regression" if like.is_regression else "classes" if classes is not None else None
        given: dict[str, Any] = {"weights": weights, "classes": classes, "task": task, "like": like}
        if input is not None and "sequence" in input:
            data = _of_a_sequence_network(features, labels, input["sequence"], given)
        else:
            data = _from_arrays(features, labels, **given, input=input)
    if like is not None:
        data = data.matched(like)
    if input is not None:
        check_shape(data.shape, input)
    return data


def _expect_task(data: Data, task: Task | None, what: str, instead: str) -> None:
    """Refuses a task other than that of data which is made already."""
    if task is None:
        return
    is_classes(np.zeros(0), task)
    found = "classes" if data._source.classes is not None else "regression" if data._source.values is not None else None
    if found is not None and found != task:
        raise SettingError(f"`task={task!r}` does not change {what}, whose targets are read as {found!r} already: give {instead}")


def _of_a_sequence_network(features: Any, labels: Any, sizes: Sequence[int], given: dict[str, Any]) -> Data:
    """Data of a network that takes sequences: rows, or an array or a list of sequences."""
    ndim = getattr(features, "ndim", None)
    if hasattr(features, "columns"):
        return _from_arrays(features, labels, **given)
    if ndim == 2:
        rows = _rows(features)
        # Rows are sequences, one step after the other: a feature has one offset, whatever the step.
        if rows.shape == (int(np.prod(sizes)),) and not isinstance(rows.numbers, list):
            rows = replace(rows, numbers=rows.numbers.reshape(rows.count, *sizes), shape=tuple(int(size) for size in sizes))
        return _from_rows(rows, labels, None, **given)
    if ndim == 3 and features.shape[2] != sizes[1]:
        check_shape(features.shape[1:], {"sequence": sizes})
    if not hasattr(features, "shape"):
        features = list(features)
    if len(features) == 0:
        features = np.zeros((0, *sizes), np.float32)
    longest = max((len(sequence) for sequence in features), default=0)
    if longest > sizes[0]:
        raise SettingError(f"the network takes sequences of at most {sizes[0]} steps, found one of {longest}")
    return _from_sequences(features, labels, steps=int(sizes[0]), **given)


def check_shape(shape: Sequence[int], input: Mapping[str, Any]) -> None:
    """Refuses examples of another layout than a network takes; rows without a layout are taken as they are."""
    kind, sizes = next(iter(input.items()), ("several inputs", ()))
    if kind not in ("image", "volume", "sequence"):
        return
    expected, found = tuple(sizes), tuple(shape)
    if found == expected or len(found) == 1:
        return
    names = {"image": "images (height × width × channels)", "volume": "volumes (depth × height × width × channels)"}
    sentence = (
        f"the network takes {names.get(kind, 'sequences (steps × features)')} of {_times(expected)}, found examples of {_times(found)}"
    )
    order = next((order for order in permutations(range(len(found))) if tuple(found[axis] for axis in order) == expected), None)
    if order is None:
        raise SettingError(sentence)
    axes = ", ".join(str(axis + 1) for axis in order)
    if found[-1] == expected[-1] == 1 and order[-1] == len(order) - 1:
        without = ", ".join(str(axis + 1) for axis in order[:-1])
        raise SettingError(f"{sentence}: `X.transpose(0, {without})`, or with channels `X.transpose(0, {axes})`, puts them in this order")
    raise SettingError(f"{sentence}: `X.transpose(0, {axes})` puts them in this order")


def _times(shape: Sequence[int]) -> str:
    return " × ".join(map(str, shape)) or "a single number"


@dataclass
class _Rows:
    """Features before they are narrowed."""

    numbers: Any
    """An array, or a list of columns that lie side by side."""
    count: int
    shape: tuple[int, ...]
    names: list[str] | None
    is_bytes: bool = False

    def part(self, places: NDArray[Any]) -> _Rows:
        """Some rows, by their places."""
        if not isinstance(self.numbers, list):
            return replace(self, numbers=self.numbers[places], count=len(places))
        columns = [column.numbers() if isinstance(column, _native.ArrowColumn) else column for column in self.numbers]
        return replace(self, numbers=[column[places] for column in columns], count=len(places))


@dataclass
class _WideExamples:
    """Examples before offsets are subtracted."""

    rows: _Rows
    made: dict[str, Any]

    def part(self, places: NDArray[Any], like: Schema | None) -> Data:
        """Some examples, by their places, with offsets of their own or those of a schema."""
        made = {name: value[places] if name in ("labels", "targets", "weights") else value for name, value in self.made.items()}
        return _made(self.rows.part(places), made, like)


def _made(rows: _Rows, made: dict[str, Any], like: Schema | None, lengths: Sequence[int] | None = None) -> Data:
    """Data from rows that nothing is wrong with."""
    data = Data(_native.Source.arrays(rows.numbers, list(rows.shape), **made, like=None if like is None else like.text), lengths)
    if like is None and (data.schema.shifts is not None or data.schema.target_shifts is not None):
        data._wide = _WideExamples(rows, made)
    return data


def _from_arrays(
    features: Any,
    targets: Any = None,
    *,
    weights: Any = None,
    classes: Sequence[Any] | None = None,
    task: Task | None = None,
    like: Schema | None = None,
    input: Mapping[str, Any] | None = None,
) -> Data:
    if _is_ragged(features):
        return _from_sequences(features, targets, weights=weights, classes=classes, task=task, like=like)
    rows = _rows(features, like)
    if input is not None:
        check_shape(rows.shape, input)
    return _from_rows(rows, targets, None, weights=weights, classes=classes, task=task, like=like)


def of_rows(
    features: NDArray[Any],
    targets: Any,
    names: list[str] | None,
    *,
    weights: Any = None,
    classes: Sequence[Any] | None = None,
    task: Task | None = None,
    like: Data | None = None,
) -> Data:
    """Data from rows of numbers whose columns have these names."""
    rows = replace(_rows(features), names=names)
    return _from_rows(rows, targets, None, weights=weights, classes=classes, task=task, like=None if like is None else like.schema)


def _from_rows(
    rows: _Rows,
    targets: Any,
    names: list[str] | None,
    *,
    weights: Any,
    classes: Sequence[Any] | None,
    task: Task | None,
    like: Schema | None,
) -> Data:
    made: dict[str, Any] = {"images": rows.is_bytes, "names": rows.names}
    if weights is not None:
        made["weights"] = _weights(weights, rows.count)
    if targets is not None:
        refuse_missing(targets)
        array = _array(targets)
        if array.ndim == 2 and array.shape[1] == 1:
            array = array[:, 0]
        if array.ndim == 0 or len(array) != rows.count:
            found = len(array) if array.ndim else "a single value"
            raise SettingError(f"expected a target for each of the {rows.count} examples, found {found}")
        if is_classes(array, task):
            made |= labels_for(array, classes, like, task)
        else:
            names = names if names is not None and len(names) == (1 if array.ndim == 1 else array.shape[1]) else _columns(targets, array)
            made["targets"], made["values"] = _numbers(array.reshape(rows.count, -1) if rows.count else array, "targets"), names
    return _made(rows, made, like)


def _from_sequences(
    sequences: Any,
    targets: Any = None,
    *,
    steps: int | None = None,
    weights: Any = None,
    classes: Sequence[Any] | None = None,
    task: Task | None = None,
    like: Schema | None = None,
) -> Data:
    names: list[str] | None = None
    if isinstance(sequences, np.ndarray) and sequences.ndim == 3 and (steps is None or steps == sequences.shape[1]):
        features, lengths = _numbers(sequences, "sequences"), None
        rows = list(features)
        steps = features.shape[1]
    else:
        rows, names = _steps_of(sequences, like)
        rows = [row[:, np.newaxis] if row.ndim == 1 else row for row in rows]
        if not rows or any(row.ndim != 2 or row.shape[1] != rows[0].shape[1] for row in rows):
            raise SettingError("expected sequences of steps of as many features each: an array with 3 dimensions, or a list of arrays with 2")
        lengths = None if isinstance(sequences, np.ndarray) and sequences.dtype != object else [len(row) for row in rows]
        longest = max(len(row) for row in rows)
        if steps is not None and steps < longest:
            raise SettingError(f"expected `steps` of at least {longest}, as the longest sequence has, found {steps}")
        steps = steps or longest
        kind = np.float32 if all(row.dtype.itemsize < 4 or row.dtype == np.float32 for row in rows) else np.float64
        features = np.full((len(rows), steps, rows[0].shape[1]), np.nan, dtype=kind)
        for at, row in enumerate(rows):
            features[at, : len(row)] = row
    made: dict[str, Any] = {"names": names}
    if weights is not None:
        made["weights"] = _weights(weights, len(rows))
    if targets is not None and (array := _one_for_each(targets)) is not None:
        if len(array) != len(rows):
            raise SettingError(f"expected a target for each of the {len(rows)} sequences, found {len(array)}")
        if is_classes(array, task):
            made |= labels_for(array, classes, like, task)
        else:
            made["targets"], made["values"] = _numbers(array.reshape(len(rows), -1), "targets"), ["0"]
    elif targets is not None:
        each = [_of_steps(target) for target in targets]
        if len(each) != len(rows) or any(len(one) != len(row) for one, row in zip(each, rows, strict=True)):
            raise SettingError("expected a target for every step of every sequence")
        wanted = np.full((len(rows), steps, each[0].shape[1]), np.nan)
        for at, one in enumerate(each):
            wanted[at, : len(one)] = one
        made["targets"] = wanted.reshape(len(rows), -1)
        made["values"] = [str(at) for at in range(1, 1 + steps * each[0].shape[1])]
        made["steps"] = steps
    return _made(_Rows(features, len(rows), (steps, features.shape[2]), names), made, like, lengths)


def _steps_of(sequences: Any, like: Schema | None) -> tuple[list[NDArray[Any]], list[str] | None]:
    """Arrays of steps and features; tables have the same columns, or those of a schema, in the same order."""
    rows: list[NDArray[Any]] = []
    names: list[str] | None = None
    for sequence in sequences:
        if not _is_table(sequence):
            rows.append(_numbers(_array(sequence), "sequences"))
            continue
        told = Schema.of_names(names) if names is not None else like
        table = _rows(sequence, told)
        names = names or table.names
        columns = [column.numbers() if isinstance(column, _native.ArrowColumn) else column for column in table.numbers]
        rows.append(np.concatenate([column.reshape(table.count, -1) for column in columns], axis=1))
    return rows, names


def _one_for_each(targets: Any) -> NDArray[Any] | None:
    """Targets as an array with one for each sequence; none where each sequence has one for every step."""
    refuse_missing(targets)
    if isinstance(targets, (list, tuple)) or isinstance(targets, np.ndarray) and targets.dtype == object:
        if any(np.ndim(target) != 0 for target in targets):
            return None
    array = _array(targets)
    array = array[:, 0] if array.ndim == 2 and array.shape[1] == 1 else array
    return array if array.ndim == 1 else None


def _of_steps(targets: Any) -> NDArray[Any]:
    """The targets of the steps of one sequence."""
    array = _array(targets)
    if array.dtype.kind in "USTO":
        raise SettingError(
            "expected targets by step that are numbers, found texts: `names, numbers = numpy.unique(labels, return_inverse=True)` "
            "numbers the classes"
        )
    return _numbers(array, "targets").reshape(len(array), -1)


def _is_table(values: Any) -> bool:
    """Whether values have columns with names: those of pandas, polars and Arrow."""
    return hasattr(values, "iloc") and hasattr(values, "columns") or (
        hasattr(values, "__arrow_c_stream__") and not isinstance(values, np.ndarray) and not hasattr(values, "iloc")
    )


def _is_ragged(features: Any) -> bool:
    """Whether features are a list of arrays of unequal length, or of tables."""
    if not isinstance(features, (list, tuple)) and not (isinstance(features, np.ndarray) and features.dtype == object):
        return False
    if isinstance(features, np.ndarray) and features.ndim != 1:
        return False
    if len(features) and all(_is_table(each) for each in features):
        return True
    shapes = {np.shape(each) for each in features if isinstance(each, np.ndarray)}
    return len(shapes) > 1 and len({shape[1:] for shape in shapes}) == 1 and all(isinstance(each, np.ndarray) for each in features)


def _rows(features: Any, like: Schema | None = None) -> _Rows:
    """Rows of features; of a table the columns that a schema has, in its order."""
    if hasattr(features, "toarray") and hasattr(features, "nnz"):
        raise SettingError("expected an array, found a sparse matrix: `X.toarray()` makes one, if it fits the memory")
    if hasattr(features, "iloc") and hasattr(features, "columns"):
        here = [str(name) for name in features.columns]
        names = _chosen(here, like) or _unique(here)
        columns = [_column(features.iloc[:, here.index(name)], name) for name in names]
        return _Rows(columns, len(features), (len(names),), names, bool(columns) and all(each.dtype == np.uint8 for each in columns))
    if hasattr(features, "__arrow_c_stream__") and not isinstance(features, np.ndarray) and not hasattr(features, "iloc"):
        return _arrow_rows(_arrow_columns(features, like), None, like)
    array = _numbers(_array(features), "features")
    if array.ndim == 3:
        array = array[..., np.newaxis]
    if array.ndim not in (2, 4, 5):
        found_shape = _times(array.shape)
        raise SettingError(
            "expected features as rows of numbers (2 dimensions), images (3, or 4 with channels) or volumes (5, with channels), "
            f"found {found_shape}; a single column is `x.reshape(-1, 1)`"
        )
    return _Rows(array, len(array), array.shape[1:], None, array.dtype == np.uint8)


def _chosen(here: list[str], like: Schema | None) -> list[str] | None:
    """The columns of a table that a schema has, in its order; none where places decide."""
    order = None if like is None else like.order_of(here)
    if order is None:
        return None
    missing = [name for name in order if name not in here]
    if missing:
        _refuse_without(missing, here)
    twice = next((name for name in order if here.count(name) > 1), None)
    if twice is not None:
        raise SettingError(f"expected columns with different names, found `{twice}` several times")
    return order


def _refuse_without(missing: list[str], here: list[str]) -> NoReturn:
    told = ", ".join(f"`{name}`" for name in missing[:10])
    raise SettingError(
        f"the table has no column {told}, which the model or the training data has: its columns are {', '.join(here[:50])}"
    )


def _arrow_columns(table: Any, like: Schema | None) -> list[_native.ArrowColumn]:
    """The columns of a table of Arrow that a schema has, in its order; all of them where places decide."""
    here = _arrow_names(table)
    order = None if like is None or here is None else like.order_of(here)
    if order is None or here is None:
        found = _native.read_arrow(table)
        _unique([column.name for column in found])
        return found
    # A column of lists has a name for each of its numbers: `column.0`, `column.1` and so on.
    wanted = [name if name in here else name.rpartition(".")[0] for name in order]
    missing = [name for name, column in zip(order, wanted, strict=True) if column not in here]
    if missing:
        _refuse_without(missing, here)
    return _native.read_arrow(table, list(dict.fromkeys(wanted)))


def _arrow_names(table: Any) -> list[str] | None:
    """The names of the columns of a table of Arrow, if it tells them without being read."""
    schema = getattr(table, "schema", None)
    for names in (getattr(table, "column_names", None), getattr(schema, "names", None), getattr(table, "columns", None)):
        if callable(names):
            names = names()
        if names is not None and all(isinstance(name, str) for name in names):
            return list(names)
    return None


def _arrow_rows(columns: list[_native.ArrowColumn], shape: Sequence[int] | None, like: Schema | None = None) -> _Rows:
    """Columns of Arrow side by side."""
    for column in columns:
        if column.width is None and len(column):
            raise SettingError(
                f"column `{column.name}` holds texts: features are numbers, or lists of numbers; a column of 0 and 1 for each text is one way"
            )
    widths = [column.width or 1 for column in columns]
    names: list[str] = []
    for column, width in zip(columns, widths, strict=True):
        names.extend([column.name] if width == 1 else [f"{column.name}.{place}" for place in range(width)])
    whole = (sum(widths),) if shape is None else tuple(int(size) for size in shape)
    if int(np.prod(whole)) != sum(widths):
        raise SettingError(f"expected a `shape` of {sum(widths)} numbers, as each row has, found {_times(whole)}")
    if like is not None and len(whole) == 1 and like.order_of(names) is not None:
        found = ", ".join(f"`{column.name}` of {width}" for column, width in zip(columns, widths, strict=True) if width > 1)
        missing = [name for name in like.feature_names if name not in names]
        if missing or not found:
            _refuse_without(missing or like.feature_names, names)
        raise SettingError(f"expected the numbers {', '.join(like.feature_names[:20])} in this order, found lists with others: {found}")
    is_bytes = all(column.is_bytes for column in columns)
    return _Rows(columns, len(columns[0]), whole, names if len(whole) == 1 else None, is_bytes)


def _unique(names: list[str]) -> list[str]:
    twice = sorted({name for name in names if names.count(name) > 1}) if len(set(names)) < len(names) else []
    if twice:
        raise SettingError(f"expected columns with different names, found `{twice[0]}` several times")
    return names


def _column(series: Any, name: str) -> NDArray[Any]:
    """A column of pandas, where it lies if NumPy can read it."""
    array = series.to_numpy()
    if array.dtype.kind in "Mm":
        raise SettingError(
            f"column `{name}` holds dates or times: `df[{name!r}].astype('int64')`, or the hour and the day of the week, are numbers"
        )
    if array.dtype == object:
        try:
            array = series.to_numpy(dtype=np.float64, na_value=np.nan)
        except (TypeError, ValueError):
            raise SettingError(
                f"column `{name}` holds something else than numbers: `pandas.get_dummies` makes columns of numbers of texts"
            ) from None
    return _numbers(array, f"values of column `{name}`")


def _array(values: Any) -> NDArray[Any]:
    """An array of whatever NumPy makes arrays of."""
    if hasattr(values, "toarray") and hasattr(values, "nnz"):
        raise SettingError("expected an array, found a sparse matrix: `.toarray()` makes one, if it fits the memory")
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise SettingError("expected an array without masked values: fill them with `.filled(…)`, or leave their rows out")
    try:
        return np.asarray(values)
    except ValueError:
        raise SettingError("expected rows of one length; sequences of unequal length are a list of arrays, one for each") from None


def _numbers(array: NDArray[Any], what: str) -> NDArray[Any]:
    """An array of a type that can be narrowed where it lies."""
    kind = array.dtype.kind
    if kind == "c":
        raise SettingError(f"expected {what} that are real numbers, found complex ones")
    if kind in "Mm":
        raise SettingError(f"expected {what} that are numbers, found dates or times: `.astype('int64')` makes numbers of them")
    if kind == "f" and array.dtype.itemsize not in (4, 8):
        return array.astype(np.float32 if array.dtype.itemsize == 2 else np.float64)
    if kind not in "fiub":
        try:
            array = array.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise SettingError(f"expected {what} that are numbers: {error}") from None
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def _weights(values: Any, expected: int) -> NDArray[np.float32]:
    array = _array(values)
    if array.shape != (expected,):
        raise SettingError(f"expected {expected} weights, one for each example, found {_times(array.shape)}")
    return np.ascontiguousarray(_numbers(array, "weights"), dtype=np.float32)


def _columns(targets: Any, array: NDArray[Any]) -> list[str]:
    """Names for the numbers that are to be predicted: those of a table, or their places."""
    width = 1 if array.ndim == 1 else array.shape[1]
    columns = getattr(targets, "columns", None)
    if columns is not None and len(columns) == width:
        return [str(name) for name in columns]
    name = getattr(targets, "name", None)
    return [str(name)] if width == 1 and name is not None else [str(at) for at in range(width)]
