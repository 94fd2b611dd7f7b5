"""What runs on an executor: a worker that lends its cores to the master until the run is over.

Where the driver cannot lead, task 0 leads beside its computing. What another attempt of it must find lies in the folder of the run: the
checkpoints, where the master listens, and at the end the model.
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from urllib.parse import parse_qs, urlencode, urlsplit

from paceline.errors import Error
from paceline.cluster import Master, Worker
from paceline.cores import cores
from paceline.data import Data
from paceline.events import Event
from paceline.model import Model
from paceline.network import Network
from paceline.spark import stores
from paceline.spark.sessions import ROW
from paceline.training import Trainer
from paceline.watching import SLICE_SECONDS

# Silent tasks are taken for dead ones by clusters with a limit for idle workers.
TELLS_EVERY_SECONDS = 10.0
# A model comes back, and is written, in rows of so many bytes.
PIECE = 4 << 20
# So long a task looks for a master that has gone: Spark runs task 0 again within seconds.
MASTER_BACK_SECONDS = 120.0


@dataclass(frozen=True)
class Lead:
    """What task 0 needs to lead."""

    network: Network
    data: dict[str, Any]
    train: dict[str, Any]
    workers: int
    gather: float
    silence_limit: float
    statistics: bool
    start: Model | None
    take: Literal["learned", "everything"]
    token: str
    driver: str | None
    """An address of the driver: whatever reaches it is reached by the others, too."""

    def trainer(self) -> Trainer:
        trainer = Trainer(self.network, start=self.start, take=self.take)
        trainer._data, trainer._train = dict(self.data), dict(self.train)
        return trainer

    def listening(self) -> tuple[str, str | None]:
        own = _own_address(self.driver)
        return ("127.0.0.1:0", None) if own.startswith("127.") else ("0.0.0.0:0", own)


@dataclass(frozen=True)
class Plan:
    """What a task is told. It travels as Spark sends its tasks, so that tokens are as safe as they are."""

    run: str
    """The name of this fit among those that read the same shards."""
    folder: str
    query: str
    train_files: dict[str, int]
    test_files: dict[str, int]
    patience: float
    join: str | None = None
    """Where the driver leads; none where task 0 does."""
    lead: Lead | None = None
    root: str | None = None
    """Where the relative paths of a job begin, of which a task opens the data itself."""

    @property
    def over(self) -> str:
        """A file that says that the run is over, for tasks that start late; it holds the scores."""
        return f"{self.folder}/{self.run}.over"

    @property
    def where(self) -> str:
        """A file that says where task 0 listens."""
        return f"{self.folder}/{self.run}.where"

    @property
    def progress(self) -> str:
        """A file with the newest event."""
        return f"{self.folder}/{self.run}.progress"

    @property
    def output(self) -> str:
        return f"{stores.opened(self.folder)[1]}/{self.run}"


class Work:
    """The function that Spark runs in every task."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        from pyspark import TaskContext

        for _ in batches:
            pass
        context = TaskContext.get()
        self.number = context.partitionId() if context is not None else 0
        attempt = context.attemptNumber() if context is not None else 0
        yield self._row("begun", json.dumps({"attempt": attempt, "pid": os.getpid()}))
        # Raised, it would count as a failure of the task, and a few of them end the whole job.
        try:
            if self._is_over():
                yield self._row("late")
            else:
                yield from self._take_part()
            if self.plan.lead is not None and self.number == 0 and self._is_over():
                yield from self._model()
        except Error as error:
            yield self._row("failed", str(error))
        except FileNotFoundError as error:
            yield self._row("unseen", str(error))

    def _is_over(self) -> bool:
        """Whether the run is known to be over; where tasks share no folder, it is not."""
        return bool(self.plan.folder) and stores.read(self.plan.over) is not None

    def _row(self, kind: str, text: str = "", part: int = 0, content: bytes = b"") -> Any:
        import pyarrow

        kinds = {"int": pyarrow.int32(), "string": pyarrow.string(), "binary": pyarrow.binary()}
        schema = pyarrow.schema([(name, kinds[of]) for name, of in (column.split() for column in ROW.split(", "))])
        values = {"task": [self.number], "kind": [kind], "text": [text], "part": [part], "content": [content]}
        return pyarrow.RecordBatch.from_pydict(values, schema=schema)

    def _take_part(self) -> Iterator[Any]:
        with ExitStack() as stack:
            given: dict[str, Data] = {}
            for part, expected in (("train", self.plan.train_files), ("test", self.plan.test_files)):
                if not expected:
                    continue
                folder = f"{self.plan.folder}/{part}"
                seen = stores.files(folder)
                if seen != expected:
                    there = sum(1 for name, size in expected.items() if seen.get(name) == size)
                    yield self._row("unseen", f"{len(expected)} files in `{folder}`, {there} of them as they were written")
                    return
                path = stack.enter_context(stores.local(folder))
                given[part] = Data.open(f"shards:{path}?{self.plan.query}")
            if self.plan.lead is None or self.number > 0:
                yield from self._lend(given)
                return
            master = self._begin_to_lead(self.plan.lead, given)
            if master is None:
                # Another attempt of this task leads.
                yield from self._lend(given)
                return
            with master:
                yield from self._lend(given, master)

    def _begin_to_lead(self, lead: Lead, given: dict[str, Data]) -> Master | None:
        listen, advertise = lead.listening()
        Path(self.plan.output).mkdir(parents=True, exist_ok=True)
        master = Master(
            lead.trainer(),
            given["train"],
            given.get("test"),
            output=self.plan.output,
            listen=listen,
            advertise=advertise,
            token=lead.token,
            expected_workers=lead.workers,
            expected_within=lead.gather,
            waiting_limit=MASTER_BACK_SECONDS,
            silence_limit=lead.silence_limit,
            statistics=lead.statistics,
        )
        try:
            where = _without_token(master.join)
        except Error as error:
            if "is in use" in str(error):
                return None
            raise
        stores.write(self.plan.where, where.encode())
        return master

    def _lend(self, given: dict[str, Data], master: Master | None = None) -> Iterator[Any]:
        """Works for the master until the run is over, wherever it listens by then."""
        parent, told, last = os.getppid(), time.monotonic(), time.monotonic()
        seen = 0
        while True:
            join = self.plan.join or self._where()
            if join is not None:
                with self._worker(join, given) as worker:
                    run = worker._run
                    while not run.is_over:
                        line = run.next(SLICE_SECONDS)
                        if line is not None:
                            event = Event.parse(line)
                            if event.kind in ("joined", "left"):
                                yield self._row("event", json.dumps({**event, "of_task": self.number}))
                            if event.kind == "joined":
                                last = time.monotonic()
                        if master is not None:
                            for event in self._listen(master):
                                seen += 1
                                yield self._row("master", json.dumps(event), seen)
                        if time.monotonic() - told > TELLS_EVERY_SECONDS:
                            told = time.monotonic()
                            yield self._row("alive")
                        if os.getppid() != parent:
                            # The executor is gone, and nobody reads what this says.
                            os._exit(1)
                    try:
                        run.result()
                        is_over = True
                    except Error as error:
                        is_over = False
                        if self.plan.lead is None or "refuses" in str(error):
                            raise
                if is_over and master is None:
                    break
            if master is not None:
                yield from self._end_of(master, seen)
                break
            if self.plan.lead is not None and self._is_over():
                break
            if time.monotonic() - last > MASTER_BACK_SECONDS:
                raise Error(f"no master was found for {MASTER_BACK_SECONDS:.0f} s")
            if os.getppid() != parent:
                os._exit(1)
            time.sleep(SLICE_SECONDS)
        yield self._row("ended")

    def _worker(self, join: str, given: dict[str, Data]) -> Worker:
        return Worker(
            join,
            train=given.get("train"),
            test=given.get("test"),
            slots=cores() or 1,
            token=self._token(join),
            patience=self.plan.patience,
            root=self.plan.root,
        )

    def _listen(self, master: Master) -> Iterator[Event]:
        """What the master has told by now, without its steps, which are many; the newest is shown to whoever looks."""
        newest = None
        while not master._run.is_over and (line := master._run.next(0.0)) is not None:
            newest = event = Event.parse(line)
            if event.kind != "step":
                yield event
        if newest is not None and newest.kind in ("step", "epoch", "evaluation"):
            stores.write(self.plan.progress, json.dumps(newest).encode())

    def _end_of(self, master: Master, seen: int) -> Iterator[Any]:
        for event in master.follow():
            if event.kind != "step":
                seen += 1
                yield self._row("master", json.dumps(event), seen)
        _, scores, _ = master._run.result()
        stores.write(self.plan.over, json.dumps(scores).encode())

    def _where(self) -> str | None:
        found = stores.read(self.plan.where)
        if found is None or self.plan.lead is None:
            return None
        return _with_token(found.decode(), self.plan.lead.token)

    def _token(self, join: str) -> str | None:
        """A join string has its token; an address on this machine needs one beside it, where there is one."""
        is_address = not join.startswith("paceline://")
        return self.plan.lead.token if self.plan.lead is not None and is_address else None

    def _model(self) -> Iterator[Any]:
        """The model and its scores, from where every attempt of this task finds them."""
        scores = stores.read(self.plan.over)
        yield self._row("scores", (scores or b"null").decode())
        content = Path(self.plan.output, "model.safetensors").read_bytes()
        for part, at in enumerate(range(0, len(content), PIECE)):
            yield self._row("model", part=part, content=content[at : at + PIECE])


def _without_token(join: str) -> str:
    """A join string that may be written down: the token stays with those who know it."""
    if not join.startswith("paceline://"):
        return join
    parts = urlsplit(join)
    kept = {name: values[0] for name, values in parse_qs(parts.query).items() if name != "token"}
    return f"paceline://{parts.netloc}?{urlencode(kept)}"


def _with_token(where: str, token: str) -> str:
    if not where.startswith("paceline://"):
        return where
    parts = urlsplit(where)
    return f"paceline://{parts.netloc}?token={token}&{parts.query}"


def _own_address(other: str | None) -> str:
    """The address of this machine that another one sees."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
            # Nothing is sent: the system only chooses a route.
            asked.connect((other or "192.0.2.1", 9))
            return str(asked.getsockname()[0])
    except OSError:
        return socket.gethostbyname(socket.gethostname())
