"""Predictions and figures, computed where the rows are."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Literal, TypeAlias

import numpy as np

from paceline import _native
from paceline.data import Data, as_data
from paceline.errors import SettingError
from paceline.model import Model, Scores
from paceline.network import Network
from paceline.spark.columns import Columns
from paceline.spark.exporting import name_of


HandleInvalid: TypeAlias = Literal["error", "skip", "keep"]


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
            # Of rows that are kept though they are invalid there are no features.
            valid = [place for place, row in enumerate(features) if row is not None]
            told: list[Any] = [None] * len(features)
            if valid:
                rows = np.stack([np.asarray(features.iloc[place]) for place in valid])
                outputs = model.outputs(rows.reshape(len(rows), *self.shape), workers=1)
                for place, row in zip(valid, outputs, strict=True):
                    told[place] = row
            yield pandas.Series(told, dtype=object)


def outputs_of(
    frame: Any, columns: Columns, content: bytes, invalid: HandleInvalid = "error", option: str = "handleInvalid"
) -> Any:
    """A column with all outputs of a model for each row; null for invalid rows that are kept."""
    from pyspark.sql import functions as F
    from pyspark.sql.functions import pandas_udf

    model = Model.from_bytes(content)
    columns = _of_model(columns.without_targets(), model)
    columns.check(frame)
    shape = shape_of(model.network)

    def predict(series: Iterator[Any]) -> Iterator[Any]:
        return _Predict(content, shape)(series)

    import pandas

    predict.__annotations__ = {"series": Iterator[pandas.Series], "return": Iterator[pandas.Series]}
    # Numbers far from zero are predicted in 64 bits.
    kind = "array<float>" if model.schema.target_shifts is None else "array<double>"
    features, refusal = _features_of(frame, columns, model), _refusal_of(frame, columns, model, HANDLE_INVALID.format(option))
    refused = F.lit(None) if invalid == "keep" else F.raise_error(refusal)
    return pandas_udf(predict, kind)(F.when(refusal.isNull(), features).otherwise(refused.cast(features_kind(model))))


def _of_model(columns: Columns, model: Model) -> Columns:
    """Columns in the order that a model has for them; it subtracts its offsets itself."""
    return replace(columns.like(model.schema), offsets=None, label_offsets=None)


def features_kind(model: Model) -> str:
    """The type of an array of features: of 64 bits where the model subtracts offsets."""
    return "array<float>" if model.schema.shifts is None else "array<double>"


def _features_of(frame: Any, columns: Columns, model: Model) -> Any:
    return columns.features_of(frame, "float" if model.schema.shifts is None else "double")


def _refusal_of(
    frame: Any,
    columns: Columns,
    model: Model,
    remedy: str,
    names: Sequence[Any] | None = None,
) -> Any:
    """Why a row cannot be predicted, or with a label evaluated, as a column of texts; null for rows that can be."""
    from pyspark.sql import functions as F

    features, width = _features_of(frame, columns, model), model.network.inputs
    kinds = {field.name: field.dataType.simpleString() for field in frame.schema.fields}
    infinite = (float("inf"), float("-inf"))
    # NaN is the padding of sequences.
    has_gaps = "sequence" in model.network.input
    is_no_number = F.exists(features, lambda number: number.isin(*infinite) if has_gaps else F.isnan(number) | number.isin(*infinite))
    row = F.substring(F.to_json(F.struct("*")), 1, 300) if _is_json(frame) else F.lit("a row")

    def told(what: Any, of: Sequence[str] = columns.features) -> Any:
        listed = ", ".join(f"`{name}`" for name in of)
        return F.concat(F.lit(f"{listed} has "), what, F.lit(" in "), row, F.lit(remedy))

    refusal = F.when(features.isNull() | F.exists(features, lambda number: number.isNull()), told(F.lit("null")))
    expected = columns.nested_sizes(kinds, model.network.input)
    if expected is not None:
        is_other = ~_has_sizes(F.col(f"`{columns.features[0]}`"), expected)
        refusal = refusal.when(is_other, F.lit(columns.told_layout(expected, model.network.input, "another layout")))
    refusal = refusal.when(
        F.size(features) != width, told(F.concat(F.size(features), F.lit(f" numbers where the network takes {width}")))
    ).when(is_no_number, told(F.lit("NaN or an infinite number")))
    for name in columns.label:
        label = F.col(f"`{name}`")
        refusal = refusal.when(label.isNull(), told(F.lit("null"), [name]))
        if kinds[name] in ("float", "double"):
            refusal = refusal.when(F.isnan(label) | label.isin(*infinite), told(F.lit("NaN or an infinite number"), [name]))
        if names is not None:
            known = [name_of(each) for each in names]
            text = label.cast("int") if kinds[name] == "boolean" else label
            # Whole numbers have the same name, whatever the type of the column.
            is_whole = kinds[name] in ("float", "double") or kinds[name].startswith("decimal")
            text = F.when(label == F.floor(label), F.floor(label).cast("string")).otherwise(label.cast("string")) if is_whole else text
            seen = ", ".join(known[:10]) + (", …" if len(known) > 10 else "")
            unseen = F.concat(F.lit("the class "), label.cast("string"), F.lit(f", which was not there in training (it had {seen}),"))
            refusal = refusal.when(~text.cast("string").isin(known), told(unseen, [name]))
    if columns.weight is not None:
        weight = F.col(f"`{columns.weight}`").cast("double")
        is_wrong = weight.isNull() | F.isnan(weight) | weight.isin(*infinite) | (weight < 0)
        refusal = refusal.when(is_wrong, told(F.lit("a weight that is null, NaN, infinite or negative"), [columns.weight]))
    return refusal


HANDLE_INVALID = "; `{0}='skip'` leaves such rows out, `{0}='keep'` predicts null"
DROP = "; drop such rows, as `df.dropna()` does, or fill them"


def _has_sizes(column: Any, sizes: Sequence[int]) -> Any:
    """True where nested arrays have these sizes, from the outermost on."""
    from pyspark.sql import functions as F

    is_right = F.size(column) == sizes[0]
    if len(sizes) == 1:
        return is_right
    return is_right & F.forall(column, lambda inner: _has_sizes(inner, sizes[1:]))


def _is_json(frame: Any) -> bool:
    """Whether rows can be told as JSON: vectors cannot in every version of Spark."""
    return all(field.dataType.simpleString() != "vector" for field in frame.schema.fields)


def transform(
    frame: Any,
    columns: Columns,
    content: bytes,
    labels: Sequence[Any] | None,
    *,
    prediction: str,
    probability: str,
    raw: str,
    invalid: HandleInvalid = "error",
    option: str = "handleInvalid",
    thresholds: Sequence[float] | None = None,
) -> Any:
    """Adds predictions, and for classes what the network says of each.

    Rows with null, with NaN or of another width end the job, are skipped, or are kept with null as prediction.
    """
    from pyspark.ml.functions import array_to_vector
    from pyspark.sql import functions as F

    kept = frame.columns
    model = Model.from_bytes(content)
    if invalid == "skip":
        own = _of_model(columns.without_targets(), model)
        own.check(frame)
        frame = frame.where(_refusal_of(frame, own, model, "").isNull())
    told = frame.withColumn("__outputs", outputs_of(frame, columns, content, invalid, option))
    outputs = F.col("__outputs")
    if labels is None:
        is_one = len(model.output_names) == 1
        told = told.withColumn(prediction, F.when(outputs.isNotNull(), outputs[0].cast("double") if is_one else outputs))
        return told.select(*_unless(kept, prediction), prediction)
    one = model.network.outputs == 1
    # A single output is the probability of the second class.
    every = F.array(1 - outputs[0], outputs[0]) if one else outputs
    place = F.when(outputs[0] > 0.5, 2).otherwise(1) if one else F.call_function("array_position", outputs, F.array_max(outputs))
    if thresholds is not None:
        check_thresholds(thresholds, model, len(labels))
        limits = F.array(*[F.lit(float(limit)) for limit in thresholds])

        def share(number: Any, at: Any) -> Any:
            return F.when(F.get(limits, at) == 0, float("inf")).otherwise(number.cast("double") / F.get(limits, at))

        shares = F.transform(every, share)
        place = F.call_function("array_position", shares, F.array_max(shares))
    is_number = all(isinstance(label, (int, float)) for label in labels)
    names = F.array(*[F.lit(float(label)) if is_number else F.lit(label) for label in labels])
    # Spark finds the place of null in null: rows without outputs have no prediction.
    predicted = F.when(outputs.isNotNull(), F.element_at(names, place.cast("int")))
    told = told.withColumn("__every", every).withColumn(prediction, predicted)
    added = [prediction]
    for name, wanted in ((raw, True), (probability, model._native.gives_probabilities)):
        if name and wanted:
            told = told.withColumn(name, F.when(outputs.isNotNull(), array_to_vector(F.col("__every").cast("array<double>"))))
            added.append(name)
    return told.select(*_unless(kept, *added), *added)


PART = "error string, outputs binary, labels binary, targets binary, weights binary, loss double, weight double"
"""What a task says of some rows: numbers as bytes, one after the other."""


class _Judge:
    """What a model says of rows, and what it should have said."""

    def __init__(self, content: bytes, shape: Sequence[int], is_classes: bool, batch: int) -> None:
        self.content, self.shape, self.is_classes, self.batch = content, tuple(shape), is_classes, batch

    def data(self, features: Any, label: Any, weights: Any, model: Model) -> Data:
        rows = np.stack([np.asarray(row) for row in features]).reshape(len(features), *self.shape)
        pair = (rows, np.asarray(list(label)))
        given = pair if weights is None else (*pair, weights)
        return as_data(given, like=model.schema, task="classes" if self.is_classes else "regression", input=model.network.input)

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
            if (refusal := next((each for each in columns["refusal"] if each is not None), None)) is not None:
                yield part(refusal, b"", b"", b"", b"", 0.0, 0.0)
                return
            try:
                data = self.data(columns["features"], columns["label"], columns.get("weight"), model)
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
    columns = _of_model(columns, model)
    judge = _Judge(model.to_bytes(), shape_of(model.network), names is not None, batch)
    refusal = _refusal_of(frame, columns, model, DROP, names).alias("refusal")
    chosen = columns.judged(frame, features_kind(model), model.schema.target_shifts is not None, refusal)
    parts = chosen.mapInArrow(judge, PART).collect()
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
    columns = _of_model(columns, model)
    judge = _Judge(model.to_bytes(), shape_of(model.network), names is not None, 1)

    def losses(series: Iterator[Any]) -> Iterator[Any]:
        own = Model.from_bytes(judge.content)
        for features, label in series:
            if len(features):
                data = judge.data(features, label, None, own)
                _, sums, weights = own._native.judge_part(data._source, batch=1, workers=1)
                yield pandas.Series(sums / np.where(weights == 0, 1, weights))
            else:
                yield pandas.Series([], dtype=float)

    pair = tuple[pandas.Series, pandas.Series]
    losses.__annotations__ = {"series": Iterator[pair], "return": Iterator[pandas.Series]}
    chosen = columns.select(frame).columns
    assert chosen[:2] == ["features", "label"], "features and label come first"
    label = F.col(f"`{columns.label[0]}`") if len(columns.label) == 1 else F.array(*[F.col(f"`{n}`") for n in columns.label])
    refusal = _refusal_of(frame, columns, model, DROP, names)
    refused = F.raise_error(refusal).cast(features_kind(model))
    features = F.when(refusal.isNull(), _features_of(frame, columns, model)).otherwise(refused)
    return frame.withColumn(column, F.pandas_udf(losses, "double")(features, label))


def check_thresholds(thresholds: Sequence[float], model: Model, classes: int) -> None:
    """Refuses thresholds that probabilities cannot be divided by."""
    if not model._native.gives_probabilities:
        raise SettingError("`thresholds` need probabilities, and this network has none: end it with a softmax or a sigmoid")
    is_right = all(limit >= 0 for limit in thresholds) and sum(limit == 0 for limit in thresholds) <= 1
    if len(thresholds) != classes or not is_right:
        raise SettingError(f"expected `thresholds` as {classes} numbers above 0, of which one may be 0, found {list(thresholds)}")


def _unless(names: Sequence[str], *replaced: str) -> list[str]:
    return [f"`{name}`" for name in names if name not in replaced]
