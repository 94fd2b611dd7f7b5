"""Columns, classes and offsets of data: what must be the same when a model is trained, judged and applied."""

from __future__ import annotations

import json
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paceline.errors import SettingError


class Schema:
    """The schema of data or of a model, as its file has it."""

    def __init__(self, text: str | None) -> None:
        self.text = text

    @classmethod
    def of_names(cls, names: list[str]) -> Schema:
        """Columns of numbers with these names."""
        columns = [{"name": name, "kind": {"number": {"mean": 0.0}}} for name in names]
        return cls(json.dumps({"columns": columns, "target": "none", "weight": None, "missing": "error"}))

    @cached_property
    def tree(self) -> dict[str, Any]:
        tree: dict[str, Any] = {} if self.text is None else json.loads(self.text)
        return tree

    @cached_property
    def names(self) -> list[str] | None:
        """The names of columns; none where they are just places."""
        names = [str(column["name"]) for column in self.tree.get("columns", ())]
        return None if names == [str(place) for place in range(len(names))] else names

    @cached_property
    def feature_names(self) -> list[str]:
        """A name for each feature of a row: the column's, or `column=name` for each name of a category; empty without columns."""
        names: list[str] = []
        for column in self.tree.get("columns", ()):
            name, kind = str(column["name"]), column["kind"]
            if "category" in kind:
                names.extend(f"{name}={of}" for of in kind["category"]["names"])
            elif "characters" in kind:
                names.extend(f"{name}.{at}" for at in range(1, 1 + kind["characters"]["steps"]))
            else:
                names.append(name)
        return names

    def order_of(self, here: list[str]) -> list[str] | None:
        """The names of this schema, where they decide which columns of a table are taken; none where places decide.

        Names that are only places decide too if the table has all of them, or numbers for names itself.
        """
        wanted = self.feature_names
        if not wanted or here == wanted:
            return None
        are_places = wanted == [str(place) for place in range(len(wanted))]
        if are_places and not set(wanted) <= set(here) and not all(name.isdigit() for name in here):
            return None
        return wanted

    @cached_property
    def class_names(self) -> list[str] | None:
        """The names of the classes as files have them; none if numbers are to be predicted."""
        target = self.tree.get("target")
        return list(target["classes"]["names"]) if isinstance(target, dict) and "classes" in target else None

    @cached_property
    def shifts(self) -> NDArray[np.float64] | None:
        """What was subtracted from each feature, where all columns are numbers and something was."""
        kinds = [column["kind"].get("number") for column in self.tree.get("columns", ())]
        shifts = np.asarray([0.0 if kind is None else kind.get("shift", 0.0) for kind in kinds])
        return shifts if shifts.any() else None

    @cached_property
    def target_shifts(self) -> NDArray[np.float64] | None:
        """What was subtracted from each target; none if nothing was."""
        target = self.tree.get("target")
        shifts = np.asarray(target["values"].get("shifts", ()) if isinstance(target, dict) and "values" in target else ())
        return shifts if shifts.any() else None

    @property
    def label_type(self) -> str:
        return str(self.tree.get("labels", "text"))

    @cached_property
    def classes(self) -> NDArray[Any] | None:
        """The classes in their order, with the type that they were given in."""
        return None if self.class_names is None else labels_of(self.class_names, self.label_type)

    @property
    def is_regression(self) -> bool:
        target = self.tree.get("target")
        return isinstance(target, dict) and "values" in target

    def without_target(self) -> Schema:
        """The columns and their offsets alone."""
        return self if self.text is None else Schema(json.dumps({**self.tree, "target": "none", "labels": "text"}))

    def with_columns(
        self, names: list[str], shifts: NDArray[np.float64] | None, target_shifts: NDArray[np.float64] | None, label_type: str
    ) -> Schema:
        """Columns of numbers, offsets and the type of labels, for data that was exported without them."""
        offsets = np.zeros(len(names)) if shifts is None else shifts
        columns = [
            {"name": name, "kind": {"number": {"mean": float(shift), "shift": float(shift)}}}
            for name, shift in zip(names, offsets, strict=True)
        ]
        target = self.tree.get("target", "none")
        if target_shifts is not None and isinstance(target, dict) and "values" in target:
            target = {"values": {**target["values"], "shifts": [float(shift) for shift in target_shifts]}}
        whole = {"weight": None, "missing": "error", **self.tree, "columns": columns, "target": target, "labels": label_type}
        return Schema(json.dumps(whole))

    def without_shifts(self) -> Schema:
        """The same for numbers whose offsets are subtracted already."""
        tree = {**self.tree, "columns": []}
        if isinstance(tree.get("target"), dict) and "values" in tree["target"]:
            tree["target"] = {"values": {key: value for key, value in tree["target"]["values"].items() if key != "shifts"}}
        return Schema(json.dumps(tree))

    def without_target_shifts(self) -> Schema:
        values = {key: value for key, value in self.tree["target"]["values"].items() if key != "shifts"}
        return Schema(json.dumps({**self.tree, "target": {"values": values}}))


def labels_of(names: list[str], label_type: str) -> NDArray[Any]:
    """Labels of a type from the names that files have for them."""
    match label_type:
        case "integer":
            return np.asarray([int(name) for name in names])
        case "float":
            return np.asarray([float(name) for name in names])
        case "boolean":
            return np.asarray([name in ("True", "1") for name in names])
        case _:
            return np.asarray(names)


def label_type_of(labels: NDArray[Any]) -> str:
    """The type of class labels, which a model keeps."""
    kinds = {"b": "boolean", "i": "integer", "u": "integer", "f": "float", "U": "text", "T": "text"}
    if (kind := kinds.get(labels.dtype.kind)) is not None:
        return kind
    found = {type(label.item() if isinstance(label, np.generic) else label) for label in labels.tolist()}
    for types, name in (({bool}, "boolean"), ({int}, "integer"), ({int, float}, "float"), ({str}, "text")):
        if found <= types:
            return name
    other = next(iter(sorted(kind.__name__ for kind in found - {bool, int, float, str})), "several types")
    raise SettingError(
        f"expected class labels that are texts, whole numbers, numbers or truth values, found {other}: "
        "`[str(label) for label in y]` makes texts of them"
    )


def name_of(label: Any) -> str:
    """The name that files have for a class label."""
    return str(label.item() if isinstance(label, np.generic) else label)
