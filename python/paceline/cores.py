"""How many cores this process may use, where something else than the system says so, and how much memory."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def cores() -> int | None:
    """The cores of a Spark task, or what `OMP_NUM_THREADS` says; none if the system and control groups decide."""
    task = getattr(sys.modules.get("pyspark"), "TaskContext", None)
    context = task.get() if task is not None else None
    if context is not None:
        return max(1, int(context.cpus()))
    text = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    return max(1, int(text)) if text.isdigit() else None


def available_memory() -> int | None:
    """Bytes that this process can still have: those of the machine, or of its control group if these are fewer."""
    found: list[int] = []
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        found.extend(1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable:"))
        group = Path("/sys/fs/cgroup")
        found.append(int((group / "memory.max").read_text()) - int((group / "memory.current").read_text()))
    except (OSError, ValueError):
        # No such file, or a group without a limit.
        pass
    return min(found, default=None)
