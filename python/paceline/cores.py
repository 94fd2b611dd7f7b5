"""How many cores this process may use, where something else than the system says so."""

from __future__ import annotations

import os
import sys


def cores() -> int | None:
    """The cores of a Spark task, or what `OMP_NUM_THREADS` says; none if the system and control groups decide."""
    task = getattr(sys.modules.get("pyspark"), "TaskContext", None)
    context = task.get() if task is not None else None
    if context is not None:
        return max(1, int(context.cpus()))
    text = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    return max(1, int(text)) if text.isdigit() else None
