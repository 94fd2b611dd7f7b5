"""What the figures were taken on."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Sequence
from pathlib import Path

from .case import ROOT
from .child import pinned_core
from .toolchain import say

BUSY_LOAD = 0.5
SIMD = ("sse4_2", "avx", "avx2", "fma", "f16c", "avx512", "avx_vnni", "amx", "asimd", "sve")


def warn_if_busy() -> None:
    load = os.getloadavg()[0]
    if load > BUSY_LOAD:
        say(f"warning: the load is {load:.1f}; other work on this machine makes the figures worthless")


def describe(binary: Path, python: Path | None) -> dict[str, object]:
    """The machine and our side; PyTorch's where its `python` is given."""
    return _ours(binary) | (_pytorch(python) if python else {})


def _ours(binary: Path) -> dict[str, object]:
    return {
        "cpu": _cpu_field("model name") or platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "pinned_to_core": pinned_core(),
        "simd": simd_flags(),
        "memory_mib": _memory_mib(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "load_before": [round(load, 2) for load in os.getloadavg()],
        "paceline": _first_line([binary, "--version"]),
        "commit": _commit(),
        "rustc": _first_line(["rustc", "--version"]),
    }


def _pytorch(python: Path) -> dict[str, object]:
    return {
        "torch": _first_line([python, "-c", "import torch; print(torch.__version__)"]),
        "numpy": _first_line([python, "-c", "import numpy; print(numpy.__version__)"]),
        "python": _first_line([python, "-c", "import platform; print(platform.python_version())"]),
    }


def java_version() -> str:
    """`java --version` speaks on standard output, unlike `-version`."""
    return _first_line(["java", "--version"])


def simd_flags() -> list[str]:
    flags = (_cpu_field("flags") or _cpu_field("Features") or "").split()
    return sorted(flag for flag in flags if flag.startswith(SIMD))


def _cpu_field(name: str) -> str | None:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip()
    return None


def _memory_mib() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // (1 << 20)


def is_committed() -> bool:
    """Whether a commit says what is here."""
    return _commit() not in ("unknown", f"{_head()}, changed")


def _commit() -> str:
    changed = _first_line(["git", "status", "--porcelain", "--untracked-files=no", "--", ".", ":!bench/runs"])
    return f"{_head()}, changed" if _head() != "unknown" and changed != "unknown" else _head()


def _head() -> str:
    return _first_line(["git", "rev-parse", "--short=12", "HEAD"])


def _first_line(command: Sequence[str | Path]) -> str:
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    lines = done.stdout.splitlines()
    return lines[0].strip() if done.returncode == 0 and lines else "unknown"
