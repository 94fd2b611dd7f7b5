"""Which columns of a DataFrame are learned from, and how they become arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from paceline.errors import SettingError
from paceline.schema import Schema

# Rows that say where the numbers of a column lie.
SAMPLED_ROWS = 1000
# An error of rounding beyond this share of a column's range counts, as for files.
BLURRED = 1e-5


@dataclass(frozen=True)
class Columns:
    """The names that features, targets and weights have in a DataFrame."""

    features: tuple[str, ...]
    label: tuple[str, ...] = ()
    weight: str | None = None
    validation: str | None = None
    """A column of truth values: rows where it is true are judged on, not learned from."""
    offsets: tuple[float, ...] | None = None
    """What is subtracted from each feature in 64 bits before it is rounded to 32; none where that is nothing. Of a sequence they hold for
    each of its steps."""
    label_offsets: tuple[float, ...] | None = None
    """The same of labels that are numbers to predict."""

    @classmethod
    def of(
        cls,
        features: str | Sequence[str],
        label: str | Sequence[str] | None = None,
        weight: str | None = None,
        validation: str | None = None,
    ) -> Columns:
        return cls(_several(features), _several(label), weight or None, validation or None)

    def without_targets(self) -> Columns:
        return replace(self, label=(), weight=None, validation=None)

    def check(self, frame: Any) -> None:
        """Raises what is wrong with the columns of a DataFrame; looks at its schema only."""
        fields = {field.name: field.dataType.simpleString() for field in frame.schema.fields}
        for role, names in (
            ("features", self.features),
            ("label", self.label),
            ("weight", (self.weight,)),
            ("validation indicator", (self.validation,)),
        ):
            for name in names:
                if name is not None and name not in fields:
                    there = ", ".join(f"`{field}`" for field in fields)
                    raise SettingError(f"the DataFrame has no column `{name}` for the {role}: its columns are {there}")
        if not self.features:
            raise SettingError("expected at least one column of features")
        for name in self.features:
            kind = fields[name]
            _refuse_times(name, kind)
            if not (_is_number(kind) or kind == "vector" or _is_array(kind)):
                raise SettingError(
                    f"the column `{name}` holds {kind}: features are numbers, arrays of numbers or vectors; "
                    "a `StringIndexer` and a `OneHotEncoder` make numbers of texts"
                )
        for name in self.label:
            kind = fields[name]
            _refuse_times(name, kind)
            if not (_is_number(kind) or kind in ("string", "vector") or _is_array(kind)):
                raise SettingError(f"the column `{name}` holds {kind}: labels are numbers, texts, or arrays of numbers")
        if self.weight is not None and not _is_number(fields[self.weight]):
            raise SettingError(f"the column `{self.weight}` holds {fields[self.weight]}: weights are numbers, not negative")
        if self.validation is not None and not _is_number(fields[self.validation]):
            kind = fields[self.validation]
            raise SettingError(f"the column `{self.validation}` holds {kind}: the validation indicator is true or false, as `F.rand() < 0.2`")

    def learned_from(self, frame: Any) -> Any:
        """The training rows of a DataFrame, without validation rows."""
        from pyspark.sql import functions as F

        if self.validation is None:
            return frame
        return frame.where(~F.coalesce(F.col(f"`{self.validation}`").cast("boolean"), F.lit(False)))

    def with_offsets(self, frame: Any, is_classes: bool, input: Mapping[str, Any] | None = None) -> Columns:
        """The same columns with offsets where 32 bits would blur them, from the training rows.

        The first rows say which columns need an offset, all rows what it is. It lies in the middle of a column: what is left has no more
        digits than the range. `input` is what the network takes: a feature of a sequence has one offset for all steps.
        """
        from pyspark.sql import functions as F

        kinds = {field.name: field.dataType.simpleString() for field in frame.schema.fields}
        numbers = () if is_classes else self.label
        for name in numbers:
            if kinds[name] == "string":
                raise SettingError(f"the column `{name}` holds texts: a regressor predicts numbers, a classifier tells texts apart")
        if all(_is_narrow(kinds[name]) for name in (*self.features, *numbers)):
            return self
        label = F.concat(*[_array(name, kinds[name], "double") for name in numbers]) if numbers else F.array()
        chosen = self.learned_from(frame).select(self.features_of(frame, "double").alias("features"), label.alias("label"))
        sample = chosen.limit(SAMPLED_ROWS).collect()
        features = None if input is None or "sequence" not in input else int(input["sequence"][1])
        return replace(
            self,
            offsets=_offsets(chosen, "features", [row["features"] for row in sample], features),
            label_offsets=_offsets(chosen, "label", [row["label"] for row in sample], None) if numbers else None,
        )

    def check_layout(self, frame: Any, input: Mapping[str, Any]) -> None:
        """Refuses nested arrays whose sizes are in another order than those of the examples that a network takes."""
        from pyspark.sql import functions as F

        kinds = {field.name: field.dataType.simpleString() for field in frame.schema.fields}
        expected = self.nested_sizes(kinds, input)
        if expected is None:
            return
        column = F.col(f"`{self.features[0]}`")
        sizes = []
        inner = column
        for _ in expected:
            sizes.append(F.size(inner))
            inner = F.get(inner, F.lit(0))
        rows = frame.where(column.isNotNull()).limit(SAMPLED_ROWS).select(F.array(*sizes).alias("sizes")).distinct().collect()
        for row in rows:
            if tuple(row["sizes"]) != expected:
                raise SettingError(self.told_layout(expected, input, " × ".join(map(str, row["sizes"]))))

    def nested_sizes(self, kinds: Mapping[str, str], input: Mapping[str, Any]) -> tuple[int, ...] | None:
        """The sizes that nested arrays of features must have; none where they are not nested, or have no layout."""
        kind, sizes = next(iter(input.items()), ("", ()))
        if kind not in ("image", "volume", "sequence") or len(self.features) != 1:
            return None
        depth = kinds[self.features[0]].count("array<")
        if depth < 2 or depth > len(sizes):
            return None
        # Inner arrays may hold the numbers of several axes, as a row of pixels those of all channels.
        return (*(int(size) for size in sizes[: depth - 1]), int(np.prod(sizes[depth - 1 :])))

    def told_layout(self, expected: Sequence[int], input: Mapping[str, Any], found: str) -> str:
        kind, sizes = next(iter(input.items()))
        image = "height × width × channels"
        axes = {"image": image, "volume": f"depth × {image}", "sequence": "steps × features"}[kind]
        whole = " × ".join(map(str, sizes))
        return (
            f"`{self.features[0]}` has arrays of {found}, but the network takes {axes} of {whole}: "
            f"arrays of {' × '.join(map(str, expected))}; "
            "`numpy.transpose` in a `pandas_udf` puts them in this order"
        )

    def like(self, schema: Schema) -> Columns:
        """The same columns in the order of a model, where it knows them by their names, and with its offsets."""
        features, label = schema.shifts, schema.target_shifts
        names = schema.names
        are_named = names is not None and len(self.features) > 1
        if are_named and names is not None and set(self.features) != set(names) and len(self.features) == len(names):
            missing = ", ".join(f"`{name}`" for name in names if name not in self.features)
            raise SettingError(
                f"the model was trained on the column {missing}, which is not among {', '.join(f'`{name}`' for name in self.features)}: "
                "`df.withColumnRenamed(…)` gives columns the names that the model knows"
            )
        return replace(
            self,
            features=tuple(names) if are_named and names is not None and set(self.features) == set(names) else self.features,
            offsets=None if features is None else tuple(features.tolist()),
            label_offsets=None if label is None else tuple(label.tolist()),
        )

    def names(self, width: int) -> list[str]:
        """Names for the features of a row: those of columns of numbers, or places."""
        return list(self.features) if len(self.features) == width else [str(place) for place in range(width)]

    def features_of(self, frame: Any, kind: str = "float") -> Any:
        """All features of a row as one array of numbers, less their offsets."""
        from pyspark.sql import functions as F

        kinds = {field.name: field.dataType.simpleString() for field in frame.schema.fields}
        wide = "double" if self.offsets is not None else kind
        if self.offsets is None and all(_is_number(kinds[name]) for name in self.features):
            return F.array(*[F.col(f"`{name}`").cast(kind) for name in self.features])
        parts = [_array(name, kinds[name], wide) for name in self.features]
        whole = parts[0] if len(parts) == 1 else F.concat(*parts)
        return whole if self.offsets is None else _less(whole, self.offsets, kind)

    def judged(self, frame: Any, features: str, has_wide_targets: bool, *more: Any) -> Any:
        """The columns of `select` for a model that subtracts its offsets itself: `features` is the type of theirs."""
        kind = features.removeprefix("array<").removesuffix(">")
        return self.select(frame, *more, kind=kind, label_kind="double" if has_wide_targets else "float")

    def select(self, frame: Any, *more: Any, kind: str = "float", label_kind: str = "float") -> Any:
        """The columns that examples are made of, under the names that shards have for them."""
        from pyspark.sql import functions as F

        kinds = {field.name: field.dataType.simpleString() for field in frame.schema.fields}
        chosen = [self.features_of(frame, kind).alias("features")]
        if len(self.label) == 1:
            name = self.label[0]
            is_list = kinds[name] == "vector" or kinds[name].startswith("array<")
            label = _array(name, kinds[name], label_kind if self.label_offsets is None else "double") if is_list else F.col(f"`{name}`")
            label = label.cast("double") if kinds[name].startswith("decimal") else label
            if self.label_offsets is not None:
                less = _less(label if is_list else F.array(label.cast("double")), self.label_offsets, "float")
                label = less if is_list else less[0]
            chosen.append(label.alias("label"))
        elif self.label:
            wide = label_kind if self.label_offsets is None else "double"
            several = F.array(*[F.col(f"`{name}`").cast(wide) for name in self.label])
            chosen.append((several if self.label_offsets is None else _less(several, self.label_offsets, "float")).alias("label"))
        if self.weight is not None:
            chosen.append(F.col(f"`{self.weight}`").cast("float").alias("weight"))
        if self.validation is not None:
            chosen.append(F.coalesce(F.col(f"`{self.validation}`").cast("boolean"), F.lit(False)).alias("validation"))
        return frame.select(*chosen, *more)


def query(
    *, shape: Sequence[int], has_label: bool, has_weight: bool, classes: Sequence[str] | None
) -> str:
    """The options of `shards:` for what `Columns.select` has chosen."""
    parts = ["columns=features", f"shape={'x'.join(map(str, shape))}"]
    if has_label:
        parts.append("label=label")
        if classes is None:
            parts.append("task=regression")
        else:
            names = ",".join(quote(quote(name, safe=""), safe="") for name in classes)
            parts.append(f"task=classes&classes={names}")
    if has_weight:
        parts.append("weight=weight")
    return "&".join(parts)


def _several(names: str | Sequence[str] | None) -> tuple[str, ...]:
    if names is None:
        return ()
    return (names,) if isinstance(names, str) else tuple(names)


def _is_number(kind: str) -> bool:
    return kind in ("tinyint", "smallint", "int", "bigint", "float", "double", "boolean") or kind.startswith("decimal")


def _is_array(kind: str) -> bool:
    """Whether a column holds arrays of numbers, nested or not."""
    return kind.startswith("array<") and _is_number(kind.replace("array<", "").rstrip(">"))


def _is_narrow(kind: str) -> bool:
    """Whether 32 bits hold every number of a column."""
    return kind.replace("array<", "").rstrip(">") in ("tinyint", "smallint", "float", "boolean")


def _refuse_times(name: str, kind: str) -> None:
    if any(each in kind for each in ("timestamp", "date", "interval")):
        raise SettingError(
            f"the column `{name}` holds {kind}: `F.unix_timestamp(…)`, or the hour and the day of the week, are numbers"
        )


def _offsets(frame: Any, column: str, sample: list[Any], several: int | None) -> tuple[float, ...] | None:
    """The middle of each column that 32 bits would blur; none if there is no such column. Rows repeat `several` columns, as steps do."""
    from pyspark.sql import functions as F

    rows = [row for row in sample if row is not None]
    widths = {len(row) for row in rows}
    width = several or next(iter(widths), 0)
    if width == 0 or (len(widths) != 1 if several is None else any(size % several for size in widths)):
        return None
    found: NDArray[np.float64] = np.concatenate([np.asarray(row, dtype=np.float64) for row in rows]).reshape(-1, width)
    found = found[np.isfinite(found).all(axis=1)]
    if not len(found):
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        blur = np.abs(found - found.astype(np.float32)).max(axis=0)
    is_blurred = blur > BLURRED * (found.max(axis=0) - found.min(axis=0))
    if not is_blurred.any():
        return None
    # Of all rows, so that the offset does not depend on which rows came first.
    number, place = F.col("number"), F.col("place") % width
    ranges = (
        frame.select(F.posexplode(column).alias("place", "number"))
        .where(place.isin([int(at) for at in np.flatnonzero(is_blurred)]))
        .where(number.isNotNull() & ~F.isnan(number) & ~number.isin(float("inf"), float("-inf")))
        .groupBy(place.alias("place"))
        .agg(F.min("number").alias("least"), F.max("number").alias("most"))
        .collect()
    )
    offsets = np.zeros(width)
    for each in ranges:
        offsets[each["place"]] = each["least"] + (each["most"] - each["least"]) / 2
    return tuple(offsets.tolist())


def _less(array: Any, offsets: tuple[float, ...], kind: str) -> Any:
    """The numbers of an array less their offsets, which repeat; of another width as they are, which is refused later."""
    from pyspark.sql import functions as F

    known = F.array(*[F.lit(offset) for offset in offsets])
    less = F.transform(array, lambda number, place: (number - F.get(known, place % len(offsets))).cast(kind))
    return F.when(F.size(array) % len(offsets) == 0, less).otherwise(array.cast(f"array<{kind}>"))


def _array(name: str, kind: str, of: str = "float") -> Any:
    from pyspark.sql import functions as F

    column = F.col(f"`{name}`")
    if _is_number(kind):
        return F.array(column.cast(of))
    if kind == "vector":
        from pyspark.ml.functions import vector_to_array

        return vector_to_array(column, dtype="float32" if of == "float" else "float64")
    depth = kind.count("array<")
    for _ in range(depth - 1):
        column = F.flatten(column)
    return column.cast(f"array<{of}>")
