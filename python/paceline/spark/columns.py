"""Which columns of a DataFrame are learned from, and how they become arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote

from paceline.errors import SettingError


@dataclass(frozen=True)
class Columns:
    """The names that features, targets and weights have in a DataFrame."""

    features: tuple[str, ...]
    label: tuple[str, ...] = ()
    weight: str | None = None
    validation: str | None = None
    """A column of truth values: rows where it is true are judged on, not learned from."""

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
            if not (_is_number(kind) or kind == "vector" or kind.startswith("array<")):
                raise SettingError(
                    f"the column `{name}` holds {kind}: features are numbers, arrays of numbers or vectors; "
                    "a `StringIndexer` and a `OneHotEncoder` make numbers of texts"
                )
        for name in self.label:
            kind = fields[name]
            if not (_is_number(kind) or kind in ("string", "vector") or kind.startswith("array<")):
                raise SettingError(f"the column `{name}` holds {kind}: labels are numbers, texts, or arrays of numbers")

    def features_of(self, frame: Any) -> Any:
        """All features of a row as one array of 32-bit numbers."""
        from pyspark.sql import functions as F

        kinds = {field.name: field.dataType.simpleString() for field in frame.schema.fields}
        parts = [_array(name, kinds[name]) for name in self.features]
        if all(_is_number(kinds[name]) for name in self.features):
            return F.array(*[F.col(f"`{name}`").cast("float") for name in self.features])
        return parts[0] if len(parts) == 1 else F.concat(*parts)

    def select(self, frame: Any) -> Any:
        """The columns that examples are made of, under the names that shards have for them."""
        from pyspark.sql import functions as F

        kinds = {field.name: field.dataType.simpleString() for field in frame.schema.fields}
        chosen = [self.features_of(frame).alias("features")]
        if len(self.label) == 1:
            name = self.label[0]
            is_list = kinds[name] == "vector" or kinds[name].startswith("array<")
            label = _array(name, kinds[name]) if is_list else F.col(f"`{name}`")
            label = label.cast("double") if kinds[name].startswith("decimal") else label
            chosen.append(label.alias("label"))
        elif self.label:
            chosen.append(F.array(*[F.col(f"`{name}`").cast("float") for name in self.label]).alias("label"))
        if self.weight is not None:
            chosen.append(F.col(f"`{self.weight}`").cast("float").alias("weight"))
        if self.validation is not None:
            chosen.append(F.coalesce(F.col(f"`{self.validation}`").cast("boolean"), F.lit(False)).alias("validation"))
        return frame.select(*chosen)


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


def _array(name: str, kind: str) -> Any:
    from pyspark.sql import functions as F

    column = F.col(f"`{name}`")
    if _is_number(kind):
        return F.array(column.cast("float"))
    if kind == "vector":
        from pyspark.ml.functions import vector_to_array

        return vector_to_array(column, dtype="float32")
    depth = kind.count("array<")
    for _ in range(depth - 1):
        column = F.flatten(column)
    return column.cast("array<float>")
