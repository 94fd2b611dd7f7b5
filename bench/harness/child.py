"""One child process on one core: its wall time, its peak memory, its last event."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from .case import ROOT, WORK, BenchError

TIME_LIMIT_SECONDS = 1800
LAST_LINES = 20
PEAK_UNITS_PER_MIB = 1 << 20 if sys.platform == "darwin" else 1 << 10  # macOS counts bytes, Linux KiB

# Whatever library a side brings along, it gets one thread.
ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "RAYON_NUM_THREADS": "1",
}


@dataclass(frozen=True)
class Finished:
    """What was seen of a child from outside, and the `finished` event it printed last."""

    seconds: float
    peak_mib: float
    event: dict[str, object]


def pinned_core() -> int | None:
    """Core 1 where we may use it (core 0 takes most interrupts), else the last that is allowed."""
    if not hasattr(os, "sched_getaffinity"):
        return None
    allowed = os.sched_getaffinity(0)
    return 1 if 1 in allowed else max(allowed)


def pin_to_core() -> None:
    core = pinned_core()
    if core is not None:
        os.sched_setaffinity(0, {core})


def run_pinned(command: Sequence[str | Path], environment: Mapping[str, str], log_name: str) -> Finished:
    """Run to the end and measure from outside; a failure ends the bench with the child's last lines."""
    command = [str(part) for part in command]
    logs = WORK / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    out_path, err_path = logs / f"{log_name}.out", logs / f"{log_name}.err"
    with out_path.open("wb") as out, err_path.open("wb") as err:
        start = time.perf_counter()
        process = _spawn(command, {**os.environ, **ONE_THREAD, **environment}, out, err)
        watchdog = threading.Timer(TIME_LIMIT_SECONDS, process.kill)
        watchdog.daemon = True
        watchdog.start()
        try:
            _, status, usage = os.wait4(process.pid, 0)
        except BaseException:
            process.kill()
            process.wait()
            raise
        finally:
            watchdog.cancel()
        seconds = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise BenchError(_failure(command, process.returncode, seconds, out_path, err_path))
    return Finished(seconds, usage.ru_maxrss / PEAK_UNITS_PER_MIB, _last_event(command, out_path))


def _spawn(command: list[str], environment: dict[str, str], out: object, err: object) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=err, preexec_fn=pin_to_core
        )
    except OSError as error:
        raise BenchError(f"cannot start `{command[0]}`: {error.strerror}") from error


def _last_event(command: list[str], out_path: Path) -> dict[str, object]:
    lines = out_path.read_text(errors="replace").splitlines()
    try:
        event = json.loads(lines[-1])
        if event["event"] == "finished":
            return event
    except (IndexError, KeyError, TypeError, ValueError):
        pass
    found = lines[-1] if lines else "nothing"
    raise BenchError(f"expected a `finished` event as the last line of\n  {' '.join(command)}\nfound: {found}")


def _failure(command: list[str], code: int, seconds: float, out_path: Path, err_path: Path) -> str:
    how = f"exit status {code}" if code > 0 else f"signal {-code}"
    if seconds >= TIME_LIMIT_SECONDS:
        how += f", after the limit of {TIME_LIMIT_SECONDS} s"
    lines = (out_path.read_text(errors="replace") + err_path.read_text(errors="replace")).splitlines()
    said = "\n".join(f"  | {line}" for line in lines[-LAST_LINES:])
    return f"a child failed ({how}):\n  {' '.join(command)}\n{said}"
