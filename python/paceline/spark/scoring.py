"""Predictions and figures, computed where the rows are."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from paceline import _native
from paceline.errors import SettingError
from paceline.data import Data
from paceline.model import Model, Scores
from paceline.network import Network
from paceline.spark.columns import Columns
from paceline.spark.exporting import name_of


def shape_of(network: Network) -> list[int]:
    """The shape of one example."""
    kind, sizes = next(iter(network.to_dict()["input"].items()))
    return list(sizes) if kind == "image" else [network.inputs]


class _Predict:
    """Outputs of a model for arrays of features; made anew from its bytes in every task."""

    def __init__(self, content: bytes, shape: Sequence[int]) -> None:
        self.content, self.shape = content, tuple(shape)

    def __call__(self, series: Iterator[Any]) -> Iterator[Any]:
        import pandas

        model = Model.from_bytes(self.content)
        for features in series:
            if len(features) == 0:
                yield pandas.Series([], dtype=object)
                continue
            rows = np.stack([np.asarray(row, dtype=np.float32) for row in features])
            outputs = model.outputs(rows.reshape(len(rows), *self.shape), workers=1)
            yield pandas.Series(list(outputs.astype(np.float32)))


def outputs_of(frame: Any, columns: Columns, content: bytes) -> Any:
    """A column with all outputs of a model for each row."""
    from pyspark.sql.functions import pandas_udf

    columns.without_targets().check(frame)
    shape = shape_of(Model.from_bytes(content).network)

    def predict(series: Iterator[Any]) -> Iterator[Any]:
        return _Predict(content, shape)(series)

    import pandas

    predict.__annotations__ = {"series": Iterator[pandas.Series], "return": Iterator[pandas.Series]}
    return pandas_udf(predict, "array<float>")(columns.features_of(frame))


def transform(
    frame: Any,
    columns: Columns,
    content: bytes,
    labels: Sequence[Any] | None,
    *,
    prediction: str,
    probability: str,
    raw: str,
) -> Any:
    """Adds predictions, and for classes what the network says of each."""
    from pyspark.ml.functions import array_to_vector
    from pyspark.sql import functions as F

    kept = frame.columns
    told = frame.withColumn("__outputs", outputs_of(frame, columns, content))
    outputs = F.col("__outputs")
    model = Model.from_bytes(content)
    if labels is None:
        is_one = len(model.output_names) == 1
        told = told.withColumn(prediction, outputs[0].cast("double") if is_one else outputs)
        return told.select(*_unless(kept, prediction), prediction)
    one = model.network.outputs == 1
    # A single output is the probability of the second class.
    every = F.array(1 - outputs[0], outputs[0]) if one else outputs
    place = F.when(outputs[0] > 0.5, 2).otherwise(1) if one else F.call_function("array_position", outputs, F.array_max(outputs))
    is_number = all(isinstance(label, (int, float)) for label in labels)
    names = F.array(*[F.lit(float(label)) if is_number else F.lit(label) for label in labels])
    told = told.withColumn("__every", every).withColumn(prediction, F.element_at(names, place.cast("int")))
    added = [prediction]
    for name, wanted in ((raw, True), (probability, model._native.gives_probabilities)):
        if name and wanted:
            told = told.withColumn(name, array_to_vector(F.col("__every").cast("array<double>")))
            added.append(name)
    return told.select(*_unless(kept, *added), *added)


PART = "error string, outputs binary, labels binary, targets binary, weights binary, loss double, weight double"
"""What a task says of some rows: numbers as bytes, one after the other."""


class _Judge:
    """What a model says of rows, and what it should have said."""

    def __init__(self, content: bytes, shape: Sequence[int], names: Sequence[Any] | None, batch: int) -> None:
        self.content, self.shape, self.names, self.batch = content, tuple(shape), names, batch

    def data(self, features: Any, label: Any, weights: Any) -> Data:
        if any(row is None for row in features):
            raise SettingError("a row has null in its features")
        rows = np.stack([np.asarray(row, dtype=np.float32) for row in features])
        if rows.shape[1] != int(np.prod(self.shape)):
            raise SettingError(f"the network takes {int(np.prod(self.shape))} numbers, but a row has {rows.shape[1]}")
        targets = np.asarray(list(label)) if self.names is None else np.asarray([name_of(one) for one in label], dtype=object)
        classes = None if self.names is None else [name_of(name) for name in self.names]
        task: Any = "regression" if self.names is None else "classes"
        return Data.from_arrays(
            rows.reshape(len(rows), *self.shape), targets, weights=weights, classes=classes, task=task
        )

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow

        names = [name.split()[0] for name in PART.split(", ")]
        kinds = [pyarrow.string(), *[pyarrow.binary()] * 4, pyarrow.float64(), pyarrow.float64()]
        schema = pyarrow.schema(list(zip(names, kinds, strict=True)))

        def part(*values: Any) -> Any:
            return pyarrow.RecordBatch.from_pydict({name: [value] for name, value in zip(names, values, strict=True)}, schema=schema)

        model = Model.from_bytes(self.content)
        for rows in batches:
            if rows.num_rows == 0:
                continue
            columns = rows.to_pydict()
            try:
                data = self.data(columns["features"], columns["label"], columns.get("weight"))
                outputs, losses, weights = model._native.judge_part(data._source, batch=self.batch, workers=1)
            except (SettingError, _native.Error) as error:
                yield part(str(error), b"", b"", b"", b"", 0.0, 0.0)
                return
            _, labels, targets, weight = data._source.read(list(range(len(data))))
            sent = [b"" if array is None else array.tobytes() for array in (outputs, labels, targets, weight)]
            yield part("", *sent, float(losses.sum()), float(weights.sum()))


def evaluate(
    frame: Any,
    columns: Columns,
    model: Model,
    names: Sequence[Any] | None,
    *,
    batch: int = 256,
    auc_thresholds: int | None = None,
) -> Scores:
    """Judges a model where the rows are; what it said of all of them is put together here, once."""
    if not columns.label:
        raise SettingError("expected a label column to judge by")
    columns.check(frame)
    judge = _Judge(model.to_bytes(), shape_of(model.network), names, batch)
    parts = columns.select(frame).mapInArrow(judge, PART).collect()
    for part in parts:
        if part["error"]:
            raise SettingError(part["error"])
    if not parts:
        raise SettingError("the DataFrame has no rows to judge by")

    def joined(name: str, kind: Any) -> Any:
        whole = np.frombuffer(b"".join(bytes(part[name]) for part in parts), dtype=kind)
        return whole if len(whole) else None

    loss, weight = sum(part["loss"] for part in parts), sum(part["weight"] for part in parts)
    told = model._native.judge(
        joined("outputs", np.float32),
        (loss, weight),
        labels=joined("labels", np.uint32),
        targets=joined("targets", np.float32),
        weights=joined("weights", np.float32),
        auc_thresholds=auc_thresholds,
    )
    scores = Scores(json.loads(told[0]), told[1])
    scores.details, scores.weight = json.loads(told[2]), weight
    return scores


def score_examples(frame: Any, columns: Columns, model: Model, names: Sequence[Any] | None, column: str) -> Any:
    """The loss of every row, in a column."""
    import pandas
    from pyspark.sql import functions as F

    columns.check(frame)
    judge = _Judge(model.to_bytes(), shape_of(model.network), names, 1)

    def losses(series: Iterator[Any]) -> Iterator[Any]:
        own = Model.from_bytes(judge.content)
        for features, label in series:
            if len(features):
                data = judge.data(features, label, None)
                _, sums, weights = own._native.judge_part(data._source, batch=1, workers=1)
                yield pandas.Series(sums / np.where(weights == 0, 1, weights))
            else:
                yield pandas.Series([], dtype=float)

    pair = tuple[pandas.Series, pandas.Series]
    losses.__annotations__ = {"series": Iterator[pair], "return": Iterator[pandas.Series]}
    chosen = columns.select(frame).columns
    assert chosen[:2] == ["features", "label"], "features and label come first"
    label = F.col(f"`{columns.label[0]}`") if len(columns.label) == 1 else F.array(*[F.col(f"`{n}`") for n in columns.label])
    return frame.withColumn(column, F.pandas_udf(losses, "double")(columns.features_of(frame), label))


def _unless(names: Sequence[str], *replaced: str) -> list[str]:
    return [f"`{name}`" for name in names if name not in replaced]
