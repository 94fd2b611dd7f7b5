"""Settings as JSON, and their types."""

from __future__ import annotations

import json
from collections.abc import Mapping
from os import PathLike, fspath
from typing import Any, Literal, TypeAlias

import numpy as np

from paceline.errors import SettingError

Mode: TypeAlias = Literal["sync", "averaging", "shared", "solo"] | Mapping[str, Any]
NormaliserName: TypeAlias = Literal["none", "standardise", "min_max", "image", "vgg16"]
TargetNormaliserName: TypeAlias = Literal["none", "standardise", "min_max"]


def to_json(settings: Any) -> str:
    """Settings as JSON; numbers and arrays of NumPy are numbers and lists."""
    return json.dumps(settings, default=_plain)


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, PathLike):
        return fspath(value)
    raise SettingError(f"expected settings that are numbers, texts, lists or dicts, found {type(value).__name__}: {value!r}")
