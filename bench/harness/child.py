"""Child processes on chosen cores: their wall time, their peak memory, the events they print."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from .case import ROOT, WORK, BenchError

TIME_LIMIT_SECONDS = 1800
LAST_LINES = 20
PEAK_UNITS_PER_MIB = 1 << 20 if sys.platform == "darwin" else 1 << 10  # macOS counts bytes, Linux KiB

# Whatever library a side brings along, it gets one thread; who gets more says so.
ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "RAYON_NUM_THREADS": "1",
}

# Takes the seconds since the child's start and an event that it printed; true ends the child, which has then done enough.
Enough = Callable[[float, dict[str, object]], bool]


@dataclass(frozen=True)
class Launch:
    """A child that is to be started."""

    command: Sequence[str | Path]
    log_name: str
    environment: Mapping[str, str] = field(default_factory=dict)
    cores: frozenset[int] | None = None  # none: wherever this process may run
    is_group: bool = False  # whether it has children of its own, which are signalled with it


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


def two_cores() -> tuple[int, int]:
    """The first two cores that we may use."""
    allowed = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    if len(allowed) < 2:
        raise BenchError(f"this comparison needs two cores that processes can be pinned to, found {len(allowed)}")
    return allowed[0], allowed[1]


def pin_to_core() -> None:
    core = pinned_core()
    if core is not None:
        os.sched_setaffinity(0, {core})


def run_pinned(command: Sequence[str | Path], environment: Mapping[str, str], log_name: str) -> Finished:
    """Run to the end on one core and measure from outside."""
    core = pinned_core()
    cores = None if core is None else frozenset({core})
    return run_together([Launch(command, log_name, environment, cores)])[0]


def run_together(launches: Sequence[Launch], enough: Enough | None = None) -> list[Finished]:
    """Run children side by side to the end; a failure of one ends all, and the bench with its last lines.

    `enough` sees the events of the first child as they come and may end all of them early.
    """
    children: list[Child] = []
    ended: queue.Queue[Child] = queue.Queue()
    try:
        for launch in launches:
            children.append(Child(launch, None if children else enough))
        for child in children:
            threading.Thread(target=child.wait, args=(ended,), daemon=True).start()
        for _ in children:
            child = ended.get()
            if any(one.had_enough for one in children):
                break  # whoever fails now fails because its fellow was ended
            child.check()
    finally:
        for child in children:
            child.kill()
    for child in children:
        child.over.wait()
    return [child.finished() for child in children]


class Child:
    """One process, from its start to its end. Its seconds are those in which it was not paused."""

    def __init__(self, launch: Launch, enough: Enough | None) -> None:
        self.command = [str(part) for part in launch.command]
        self.enough = enough
        self.is_group = launch.is_group
        self.had_enough = False
        self.error: Exception | None = None  # of `enough`
        self.over = threading.Event()
        self.reaping = threading.Lock()  # held to signal the child, too: it is there, or known to be over
        self.paused_since: float | None = None
        self.paused_seconds = 0.0
        logs = WORK / "logs"
        logs.mkdir(parents=True, exist_ok=True)
        self.out_path, self.err_path = logs / f"{launch.log_name}.out", logs / f"{launch.log_name}.err"
        environment = {**os.environ, **ONE_THREAD, **launch.environment}
        pin = (lambda: os.sched_setaffinity(0, launch.cores)) if launch.cores else None
        with self.out_path.open("wb") as out, self.err_path.open("wb") as err:
            self.start = time.perf_counter()
            try:
                self.process = subprocess.Popen(
                    self.command,
                    cwd=ROOT,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE if enough else out,
                    stderr=err,
                    preexec_fn=pin,
                    start_new_session=launch.is_group,
                )
            except OSError as error:
                raise BenchError(f"cannot start `{self.command[0]}`: {error.strerror}") from error
        self.watchdog = threading.Timer(TIME_LIMIT_SECONDS, self.kill)
        self.watchdog.daemon = True
        self.watchdog.start()

    def wait(self, ended: queue.Queue[Child] | None = None) -> None:
        if self.enough:
            try:
                self._watch_lines(self.enough)
            except Exception as error:  # this thread has nobody above it: `check` raises it where it is seen
                self.error = error
                self.kill()
        os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOWAIT)
        end = time.perf_counter()
        with self.reaping:
            _, status, usage = os.wait4(self.process.pid, 0)
            self.seconds = end - self.start - self.paused_seconds
            self.peak_mib = usage.ru_maxrss / PEAK_UNITS_PER_MIB
            self.process.returncode = os.waitstatus_to_exitcode(status)
            self.watchdog.cancel()
            self.over.set()
        if ended is not None:
            ended.put(self)

    def _watch_lines(self, enough: Enough) -> None:
        with self.out_path.open("wb") as log:
            for line in self.process.stdout or ():
                seconds = time.perf_counter() - self.start
                log.write(line)
                event = _event(line)
                if event is not None and not self.had_enough and enough(seconds, event):
                    self.had_enough = True
                    self.kill()

    def pause(self) -> None:
        if self._signal(signal.SIGSTOP):
            self.paused_since = time.perf_counter()

    def go_on(self) -> None:
        if self.paused_since is not None:
            self.paused_seconds += time.perf_counter() - self.paused_since
            self.paused_since = None
            self._signal(signal.SIGCONT)

    def kill(self) -> None:
        self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> bool:
        """Says whether the child was there to get it."""
        with self.reaping:
            # Not `process.send_signal`, which looks whether the child has ended and would take its usage from `wait4`.
            if not self.over.is_set():
                (os.killpg if self.is_group else os.kill)(self.process.pid, number)
            return not self.over.is_set()

    def check(self) -> None:
        if self.error:
            raise self.error
        if self.process.returncode != 0:
            raise BenchError(self._failure())

    def finished(self) -> Finished:
        lines = self.out_path.read_bytes().splitlines()
        event = _event(lines[-1]) if lines else None
        return Finished(self.seconds, self.peak_mib, event or {})

    def _failure(self) -> str:
        code = self.process.returncode
        how = f"exit status {code}" if code > 0 else f"signal {-code}"
        if self.seconds >= TIME_LIMIT_SECONDS:
            how += f", after the limit of {TIME_LIMIT_SECONDS} s"
        lines = (self.out_path.read_text(errors="replace") + self.err_path.read_text(errors="replace")).splitlines()
        said = "\n".join(f"  | {line}" for line in lines[-LAST_LINES:])
        return f"a child failed ({how}):\n  {' '.join(self.command)}\n{said}"


def _event(line: bytes) -> dict[str, object] | None:
    try:
        event = json.loads(line)
    except ValueError:
        return None
    return event if isinstance(event, dict) and "event" in event else None


def trained(name: str, finished: Finished, examples: int) -> Finished:
    """A side that trained more or fewer examples than asked must not end up in a table."""
    if finished.event.get("event") != "finished":
        raise BenchError(f"expected a `finished` event as the last line of {name}, found {finished.event or 'nothing'}")
    found = finished.event.get("examples")
    if found != examples:
        raise BenchError(f"{name} was asked to train {examples} examples, its `finished` event says {found}")
    return finished
