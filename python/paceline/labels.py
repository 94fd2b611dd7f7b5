"""Class labels: the numbers, names and type of labels, and the weights of classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from paceline.errors import SettingError
from paceline.schema import Schema, label_type_of, name_of

Task: TypeAlias = Literal["classes", "regression"]


def is_classes(array: NDArray[Any], task: Task | None) -> bool:
    if task not in (None, "classes", "regression"):
        raise SettingError(f"expected `task` to be 'classes' or 'regression', found {task!r}")
    if task is not None:
        return task == "classes"
    return array.ndim == 1 and (array.dtype.kind in "biuUSOT")


# Whole numbers of more distinct values are perhaps amounts, not classes.
MANY_CLASSES = 10


def refuse_missing(targets: Any) -> None:
    """Refuses targets of pandas with missing values, whatever type these have."""
    if not hasattr(targets, "isna") or getattr(targets, "ndim", 0) != 1:
        return
    missing = np.asarray(targets.isna(), dtype=bool)
    if missing.any():
        row = int(missing.argmax())
        found = targets.iloc[row] if hasattr(targets, "iloc") else targets[row]
        raise SettingError(f"the label of row {row} is missing ({found!r}): leave such rows out, or give them a class")


def _is_missing(label: Any) -> bool:
    try:
        return label is None or bool(label != label)
    except TypeError:
        # `pandas.NA` is neither equal nor unequal.
        return True


def labels_for(array: NDArray[Any], classes: Sequence[Any] | None, like: Schema | None, task: Task | None) -> dict[str, Any]:
    """The numbers of class labels, the names of all classes, and the type of the labels."""
    if array.ndim != 1:
        found_shape = " × ".join(map(str, array.shape)) or "a single number"
        raise SettingError(f"expected one class for each example, found {found_shape}")
    if array.dtype.kind == "S":
        array = np.char.decode(array)
    if array.dtype.kind == "O":
        missing = next((row for row, label in enumerate(array) if _is_missing(label)), None)
        if missing is not None:
            raise SettingError(f"the label of row {missing} is missing ({array[missing]!r}): leave such rows out, or give them a class")
    if array.dtype.kind == "f" and np.isnan(array).any():
        raise SettingError(f"the label of row {int(np.isnan(array).argmax())} is NaN: leave such rows out, or give them a class")
    try:
        found, places = np.unique(array, return_inverse=True)
    except TypeError:
        raise SettingError("expected labels of one type, found several: `[str(label) for label in y]` makes texts of them") from None
    if classes is None:
        names = [name_of(label) for label in found]
        label_type, remarks = label_type_of(found), []
        if task is None and label_type == "integer" and len(names) > MANY_CLASSES:
            remarks.append(
                f"the whole numbers of the targets are taken for {len(names)} classes; if they are amounts to predict, "
                "`task='regression'` says so"
            )
        return {"labels": places.astype(np.uint32), "classes": names, "label_type": label_type, "remarks": remarks}
    known = np.asarray(classes)
    is_known = like is not None and like.class_names is not None and len(like.class_names) == len(known)
    label_type = like.label_type if is_known and like is not None else label_type_of(known)
    names = list(like.class_names or ()) if is_known and like is not None else [name_of(label) for label in known]
    own = np.asarray([_place(label, known, names) for label in found], dtype=np.uint32)
    return {"labels": own[places.reshape(-1)], "classes": names, "label_type": label_type}


def _place(label: Any, known: NDArray[Any], names: list[str]) -> int:
    """The number of a class: of an equal label, or of one with its name."""
    label = label.item() if isinstance(label, np.generic) else label
    for place, other in enumerate(known.tolist()):
        if other == label or names[place] == str(label):
            return place
    told = ", ".join(names[:10]) + (", …" if len(names) > 10 else "")
    raise SettingError(f"{label} is none of the {len(known)} classes that are known: {told}")


def class_weights_of(given: Any, classes: NDArray[Any] | None) -> list[float] | Literal["balanced"] | None:
    """The weight of each class in their order, from a dict by label, a sequence in the order of classes, or `'balanced'`."""
    if given is None:
        return None
    if isinstance(given, str):
        if given != "balanced":
            raise SettingError(f"expected `class_weights` as 'balanced', a dict by label, or a list in the order of classes, found {given!r}")
        return "balanced"
    labels = [] if classes is None else classes.tolist()
    told = ", ".join(repr(label) for label in labels[:10]) + (", …" if len(labels) > 10 else "")
    if isinstance(given, Mapping):
        if classes is None:
            raise SettingError("`class_weights` by label need data with classes: numbers to predict have none")
        by_label = {key.item() if isinstance(key, np.generic) else key: value for key, value in given.items()}
        unknown = [key for key in by_label if key not in labels]
        if unknown:
            raise SettingError(f"`class_weights` has a weight for {unknown[0]!r}, which is no class of the data: its classes are {told}")
        missing = [label for label in labels if label not in by_label]
        if missing:
            raise SettingError(f"`class_weights` has no weight for {missing[0]!r}: the classes of the data are {told}")
        return [_weight(by_label[label]) for label in labels]
    if isinstance(given, (Sequence, np.ndarray)):
        return [_weight(weight) for weight in given]
    raise SettingError(
        f"expected `class_weights` as a dict by label, a list in the order of classes, or 'balanced', found {type(given).__name__}"
        + (f"; the classes are {told}" if labels else "")
    )


def _weight(given: Any) -> float:
    try:
        return float(given)
    except (TypeError, ValueError):
        raise SettingError(f"expected a number as weight of a class, found {given!r}") from None
