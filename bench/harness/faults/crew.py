"""A master and its workers as processes, the events that they tell, and when each of them came."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from ..case import ROOT, WORK, BenchError
from ..child import LAST_LINES, ONE_THREAD


@dataclass(frozen=True)
class Told:
    """An event, and when its line came, by the clock of this process."""

    at: float
    event: dict[str, object]

    @property
    def kind(self) -> str:
        return str(self.event["event"])

    def __getitem__(self, key: str) -> object:
        return self.event[key]


Wanted = Callable[[Told], bool]


def kind(name: str, **fields: object) -> Wanted:
    """An event of this name with these fields."""
    return lambda told: told.kind == name and all(told.event.get(key) == value for key, value in fields.items())


class Player:
    """One process of ours; a thread reads what it tells."""

    def __init__(self, name: str, command: Sequence[str | Path], logs: Path) -> None:
        self.name = name
        self.told: list[Told] = []
        self.news = threading.Condition()
        self.is_silent = False  # it has closed its standard output: it will tell nothing more
        self.out_path, self.err_path = logs.with_suffix(".out"), logs.with_suffix(".err")
        with self.err_path.open("wb") as err:
            self.process = subprocess.Popen(
                list(map(str, command)),
                cwd=ROOT,
                env={**os.environ, **ONE_THREAD},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=err,
            )
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self) -> None:
        with self.out_path.open("wb") as log:
            for line in self.process.stdout or ():
                at = time.monotonic()
                log.write(line)
                try:
                    event = json.loads(line)
                except ValueError:
                    continue
                with self.news:
                    self.told.append(Told(at, event))
                    self.news.notify_all()
        with self.news:
            self.is_silent = True
            self.news.notify_all()

    def all(self, wanted: Wanted, after: float = 0.0, before: float = float("inf")) -> list[Told]:
        with self.news:
            return [told for told in self.told if after < told.at < before and wanted(told)]

    def find(self, wanted: Wanted, after: float = 0.0) -> Told | None:
        return next(iter(self.all(wanted, after)), None)

    def wait_for(self, wanted: Wanted, limit: float, after: float = 0.0) -> Told | None:
        """The first such event after that moment; none if it has not come when the limit is over, or never will."""
        until = time.monotonic() + limit
        with self.news:
            seen = 0
            while True:
                for told in self.told[seen:]:
                    if told.at > after and wanted(told):
                        return told
                seen = len(self.told)
                left = until - time.monotonic()
                if self.is_silent or left <= 0:
                    return None
                self.news.wait(left)

    def need(self, wanted: Wanted, limit: float, what: str, after: float = 0.0) -> Told:
        found = self.wait_for(wanted, limit, after)
        if found is None:
            raise BenchError(f"expected {what} of {self.name} within {limit:.0f} s:\n{self.last_lines()}")
        return found

    def send(self, number: signal.Signals) -> float:
        """When the signal was sent."""
        at = time.monotonic()
        if self.process.poll() is None:
            os.kill(self.process.pid, number)
        return at

    def ended(self, limit: float) -> int | None:
        """Its exit status; none if it runs on."""
        try:
            status = self.process.wait(limit)
        except subprocess.TimeoutExpired:
            return None
        self.reader.join(5)
        return status

    def errors(self) -> str:
        return self.err_path.read_text(errors="replace").strip()

    def last_lines(self) -> str:
        lines = self.out_path.read_text(errors="replace").splitlines() + self.errors().splitlines()
        return "\n".join(f"  | {line}" for line in lines[-LAST_LINES:])


class Crew:
    """All processes of one run; none of them outlives it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.players: list[Player] = []
        self.logs = WORK / "logs"

    def __enter__(self) -> Crew:
        self.logs.mkdir(parents=True, exist_ok=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # An impatient second Ctrl-C must not leave them behind.
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        for player in self.players:
            player.send(signal.SIGKILL)
        for player in self.players:
            player.process.wait()
            player.reader.join(5)
        signal.signal(signal.SIGINT, before)

    def start(self, name: str, command: Sequence[str | Path]) -> Player:
        player = Player(name, command, self.logs / f"faults-{self.name}-{name}")
        self.players.append(player)
        return player


def largest_gap(moments: Iterable[float], begin: float, end: float) -> float:
    """The longest time between `begin` and `end` without one of these moments."""
    inside = [moment for moment in moments if begin < moment < end]
    marks = [begin, *inside, end]
    return max(later - earlier for earlier, later in zip(marks, marks[1:]))
