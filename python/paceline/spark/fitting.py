"""One fit: the master is a thread of the driver, the tasks of one Spark job are its workers."""

from __future__ import annotations

import json
import secrets
import shutil
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from paceline._native import Error
from paceline.cluster import Master
from paceline.data import Data
from paceline.events import Callback, Event, Kept
from paceline.model import Model, Scores
from paceline.progress import Progress, watcher
from paceline.spark import addresses, scoring, sessions, stores
from paceline.spark.columns import Columns
from paceline.spark.direct import Bringing, Partitioned, partitioned
from paceline.spark.exporting import SHARED_FOLDER, Exported, export, remove
from paceline.spark.task import Lead, Plan, Work
from paceline.training import Trainer
from paceline.watching import SLICE_SECONDS

# So long a worker looks for a master that it has never reached.
REACH_SECONDS = 3.0
# So long the first step waits for tasks that Spark has not started yet, once one is there.
GATHER_SECONDS = 10.0
# When all tasks have ended and the run has not, they are started again so often.
MOST_SUBMISSIONS = 5
# So long an epoch may take to be counted when all tasks that bring its partitions have ended.
COUNT_SECONDS = 30.0
# Spark decides how long a fit waits for its first task: other jobs may hold all slots for hours.
FOREVER_SECONDS = 1e7


@dataclass(frozen=True)
class Placement:
    """Where things are put, and how they reach each other."""

    workers: int
    port: int = 0
    address: str | None = None
    network_mask: str | None = None
    silence_limit: float = 5.0


@dataclass
class Fitted:
    """What a fit came to."""

    model: Model
    scores: Scores | None
    events: list[Event] = field(repr=False)
    """What the master told, and what Spark's tasks did: `task_begun`, `task_ended`, `task_failed`, `tasks_again`."""


class _Job(threading.Thread):
    """The Spark job that holds the tasks of a fit."""

    def __init__(self, spark: Any, frame: Callable[[], Any], tag: str, properties: dict[str, str]) -> None:
        super().__init__(name="paceline-spark-job", daemon=True)
        self.spark, self.frame, self.tag = spark, frame, tag
        self.properties = properties
        self.rows: list[Any] = []
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            sessions.take_properties(self.spark, self.properties)
            sessions.tag(self.spark, self.tag)
            self.rows = self.frame().collect()
        except BaseException as error:
            self.error = error


def fit_frame(
    spark: Any,
    frame: Any,
    columns: Columns,
    trainer: Trainer,
    placement: Placement,
    *,
    is_classes: bool,
    directory: str | None,
    seed: int,
    callbacks: Sequence[Callback] = (),
    progress: Progress = False,
) -> tuple[Fitted, Exported]:
    """Writes a DataFrame once, trains on what was written, and deletes it."""
    # What is wrong with an address is said before anything is written.
    addresses.listening(spark, placement.port, placement.address, placement.network_mask)
    exported = export(
        spark,
        frame,
        columns,
        shape=scoring.shape_of(trainer.network),
        is_classes=is_classes,
        directory=directory,
        partitions=max(placement.workers, sessions.slots(spark)),
        seed=seed,
    )
    try:
        return fit(spark, trainer, exported, placement, callbacks=callbacks, progress=progress), exported
    finally:
        remove(spark, exported.folder)


def fit_partitions(
    spark: Any,
    frame: Any,
    columns: Columns,
    trainer: Trainer,
    placement: Placement,
    *,
    is_classes: bool,
    callbacks: Sequence[Callback] = (),
    progress: Progress = False,
) -> tuple[Fitted, tuple[Any, ...] | None]:
    """Trains on the partitions of a DataFrame as they are, with a Spark job for each epoch; gives the labels, too."""
    listen, advertise = addresses.listening(spark, placement.port, placement.address, placement.network_mask)
    told, tell = _listeners(callbacks, progress)
    tag, output = f"paceline-{uuid.uuid4().hex}", tempfile.mkdtemp(prefix="paceline-run-")
    plan = Plan(run=tag, folder="", query="", train_files={}, test_files={}, patience=REACH_SECONDS)
    shape = scoring.shape_of(trainer.network)
    try:
        with partitioned(spark, frame, columns, shape=shape, is_classes=is_classes, plan=plan) as parts:
            data = [Data.of_partitions(parts.notes), *([] if parts.validation is None else [parts.validation])]
            with Master(
                trainer,
                *data,
                output=output,
                listen=listen,
                advertise=advertise,
                expected_workers=min(placement.workers, len(parts.notes)),
                expected_within=GATHER_SECONDS,
                waiting_limit=FOREVER_SECONDS,
                silence_limit=placement.silence_limit,
            ) as master:
                plan = replace(plan, join=master.join)
                for event in master.events:
                    tell(event)
                model, scores, stopped = _EpochByEpoch(spark, plan, placement.workers, tell, master, parts).run()
            if model is None or stopped:
                raise Error("the run was stopped")
            return Fitted(Model(model), None if scores is None else Scores.parse(scores), told), parts.labels
    finally:
        sessions.cancel(spark, tag)
        shutil.rmtree(output, ignore_errors=True)


def fit_job(
    spark: Any, job: Path, output: Path, placement: Placement, *, settings: Sequence[str] = (), callbacks: Sequence[Callback] = ()
) -> Scores | None:
    """Trains the job of a file, whose data the driver and every executor see under the same names; the model goes to `output`."""
    listen, advertise = addresses.listening(spark, placement.port, placement.address, placement.network_mask)
    _, tell = _listeners(callbacks, "auto")
    tag = f"paceline-{uuid.uuid4().hex}"
    root = str(Path.cwd())
    try:
        with Master.of_job(
            job,
            settings=settings,
            output=output,
            listen=listen,
            advertise=advertise,
            expected_workers=placement.workers,
            expected_within=GATHER_SECONDS,
            waiting_limit=FOREVER_SECONDS,
            silence_limit=placement.silence_limit,
        ) as master:
            plan = Plan(
                run=tag, folder="", query="", train_files={}, test_files={}, patience=REACH_SECONDS, join=master.join, root=root
            )
            for event in master.events:
                tell(event)
            _, scores, _ = _DriverLeads(spark, plan, placement.workers, tell, master).run()
            return None if scores is None else Scores.parse(scores)
    finally:
        sessions.cancel(spark, tag)


def _listeners(callbacks: Sequence[Callback], progress: Progress) -> tuple[Kept, Callback]:
    """What is kept of the events of a fit, and who is told of them."""
    told = Kept()
    listeners: list[Callback] = [told.keep, *callbacks]
    if (watching := watcher(progress)) is not None:
        listeners.append(watching)

    def tell(event: Event) -> None:
        for listener in listeners:
            listener(event)

    return told, tell


def fit(
    spark: Any,
    trainer: Trainer,
    exported: Exported,
    placement: Placement,
    *,
    callbacks: Sequence[Callback] = (),
    progress: Progress = False,
) -> Fitted:
    """Trains on what was exported, with the tasks of one Spark job."""
    told, tell = _listeners(callbacks, progress)
    tag = f"paceline-{uuid.uuid4().hex}"
    way = _led_by_task_0 if sessions.is_connect(spark) else _led_by_the_driver
    try:
        model, scores = way(spark, trainer, exported, placement, tag, tell)
        return Fitted(model, None if scores is None else Scores.parse(scores), told)
    finally:
        sessions.cancel(spark, tag)


Told = tuple[str, str]
"""Scores as JSON and in words."""


def _led_by_the_driver(
    spark: Any, trainer: Trainer, exported: Exported, placement: Placement, tag: str, tell: Callback
) -> tuple[Model, Told | None]:
    output = tempfile.mkdtemp(prefix="paceline-run-")
    listen, advertise = addresses.listening(spark, placement.port, placement.address, placement.network_mask)
    try:
        with ExitStack() as stack:
            folders = [stack.enter_context(stores.local(folder)) for folder in (exported.train, exported.test) if folder]
            data = [Data.open(f"shards:{folder}?{exported.query}") for folder in folders]
            master = Master(
                trainer,
                *data,
                output=output,
                listen=listen,
                advertise=advertise,
                expected_workers=placement.workers,
                expected_within=GATHER_SECONDS,
                waiting_limit=FOREVER_SECONDS,
                silence_limit=placement.silence_limit,
            )
            stack.enter_context(master)
            plan = _plan(exported, tag, join=master.join)
            for event in master.events:
                tell(event)
            model, scores, stopped = _DriverLeads(spark, plan, placement.workers, tell, master).run()
        if model is None or stopped:
            raise Error("the run was stopped")
        return Model(model), scores
    finally:
        shutil.rmtree(output, ignore_errors=True)


def _led_by_task_0(
    spark: Any, trainer: Trainer, exported: Exported, placement: Placement, tag: str, tell: Callback
) -> tuple[Model, Told | None]:
    lead = Lead(
        network=trainer.network,
        data=trainer._data,
        train=trainer._train,
        workers=placement.workers,
        gather=GATHER_SECONDS,
        silence_limit=placement.silence_limit,
        token=secrets.token_hex(16),
        driver=placement.address or spark.conf.get("spark.driver.host", None),
    )
    return _TaskLeads(spark, _plan(exported, tag, lead=lead), placement.workers, tell).run()


def _plan(exported: Exported, tag: str, join: str | None = None, lead: Lead | None = None) -> Plan:
    return Plan(
        run=tag,
        folder=exported.folder,
        query=exported.query,
        train_files=exported.train_files,
        test_files=exported.test_files,
        patience=REACH_SECONDS,
        join=join,
        lead=lead,
    )


class _Following:
    """Follows the job of a fit; starts it again when all its tasks have ended and the run has not."""

    def __init__(self, spark: Any, plan: Plan, workers: int, tell: Callback) -> None:
        self.spark, self.plan, self.workers, self.tell = spark, plan, workers, tell
        self.properties = sessions.properties(spark)
        self.submissions = 0
        self.job = self._submit()

    def _frame(self) -> Any:
        return sessions.tasks(self.spark, self.workers, Work(self.plan))

    def _submit(self) -> _Job:
        if self.submissions:
            self.tell(Event({"event": "tasks_again", "submission": self.submissions + 1}))
        self.submissions += 1
        job = _Job(self.spark, self._frame, self.plan.run, self.properties)
        job.start()
        return job

    def _look_at(self, job: _Job) -> list[tuple[str, str]]:
        """Tells what the tasks of a job did; gives what went wrong."""
        wrong: list[tuple[str, str]] = []
        for row in job.rows:
            match row["kind"]:
                case "begun":
                    self.tell(Event({"event": "task_begun", "task": row["task"], **json.loads(row["text"])}))
                case "failed" | "unseen" as kind:
                    wrong.append((kind, row["text"]))
                    self.tell(Event({"event": "task_failed", "task": row["task"], "reason": row["text"]}))
                case "ended" | "late" as kind:
                    self.tell(Event({"event": "task_ended", "task": row["task"], "late": kind == "late"}))
                case "master":
                    self.tell(Event.parse(row["text"]))
        if job.error is not None:
            wrong.append(("spark", str(sessions.explain(job.error))))
            self.tell(Event({"event": "task_failed", "task": None, "reason": wrong[-1][1]}))
        return wrong


class _DriverLeads(_Following):
    """The master is a thread of this process."""

    def __init__(self, spark: Any, plan: Plan, workers: int, tell: Callback, master: Master) -> None:
        super().__init__(spark, plan, workers, tell)
        self.master = master

    def run(self) -> tuple[Any, Told | None, bool]:
        run = self.master._run
        joined = joined_before = 0
        try:
            while not run.is_over:
                line = run.next(SLICE_SECONDS)
                if line is not None:
                    event = Event.parse(line)
                    joined += event.kind == "worker_joined"
                    self.tell(event)
                elif not self.job.is_alive() and not run.is_over:
                    wrong = self._look_at(self.job)
                    if self.submissions == MOST_SUBMISSIONS or (wrong and joined == joined_before):
                        raise _why(wrong)
                    joined_before = joined
                    self.job = self._submit()
            result = run.result()
        except BaseException:
            sessions.cancel(self.spark, self.plan.run)
            raise
        self._end()
        return result

    def _end(self) -> None:
        """Workers leave by themselves; tasks that have not begun find that there is nothing left to do."""
        if self.plan.folder:
            stores.write(self.plan.over, b"null")
        self.job.join(30)
        if self.job.is_alive():
            sessions.cancel(self.spark, self.plan.run)
            self.job.join(10)
        self._look_at(self.job)


class _EpochByEpoch(_DriverLeads):
    """The master is a thread of this process; every epoch has a job of its own, whose tasks bring their partitions."""

    def __init__(
        self, spark: Any, plan: Plan, workers: int, tell: Callback, master: Master, parts: Partitioned
    ) -> None:
        self.parts, self.epoch = parts, 0
        super().__init__(spark, plan, workers, tell, master)

    def _frame(self) -> Any:
        return sessions.over(self.parts.frame, Bringing(self.plan, self.parts.query, self.parts.numbers, self.epoch))

    def run(self) -> tuple[Any, Told | None, bool]:
        run = self.master._run
        counted, ended = 0, None
        try:
            while not run.is_over:
                line = run.next(SLICE_SECONDS)
                if line is not None:
                    event = Event.parse(line)
                    counted = event["epoch"] if event.kind == "epoch" else counted
                    self.tell(event)
                    continue
                if self.job.is_alive() or run.is_over:
                    continue
                wrong = self._look_at(self.job) if ended is None else []
                ended = ended or time.monotonic()
                if counted > self.epoch:
                    self.epoch, self.submissions, ended = counted, 0, None
                    self.job = self._submit()
                elif wrong or time.monotonic() - ended > COUNT_SECONDS:
                    if self.submissions == MOST_SUBMISSIONS:
                        raise _why(wrong)
                    ended = None
                    self.job = self._submit()
            result = run.result()
        except BaseException:
            sessions.cancel(self.spark, self.plan.run)
            raise
        self._end()
        return result


class _TaskLeads(_Following):
    """The master is a thread of task 0; what it has come to is in the rows that the job gives."""

    def run(self) -> tuple[Model, Told | None]:
        shown = b""
        while True:
            try:
                while self.job.is_alive():
                    self.job.join(SLICE_SECONDS)
                    shown = self._show(shown)
            except BaseException:
                sessions.cancel(self.spark, self.plan.run)
                raise
            wrong = self._look_at(self.job)
            parts = sorted((row["part"], bytes(row["content"])) for row in self.job.rows if row["kind"] == "model")
            if parts:
                scores = [json.loads(row["text"]) for row in self.job.rows if row["kind"] == "scores"]
                told = (scores[0][0], scores[0][1]) if scores and scores[0] else None
                return Model.from_bytes(b"".join(content for _, content in parts)), told
            joined = any(row["kind"] == "event" for row in self.job.rows)
            if self.submissions == MOST_SUBMISSIONS or (wrong and not joined):
                raise _why(wrong)
            self.job = self._submit()

    def _show(self, shown: bytes) -> bytes:
        """The newest step, where this process sees the folder of the run."""
        try:
            newest = stores.read(self.plan.progress)
        except Exception:
            return shown
        if newest and newest != shown:
            self.tell(Event.parse(newest.decode()))
            return newest
        return shown


def _why(wrong: list[tuple[str, str]]) -> Error:
    if not wrong:
        return Error(f"all tasks have ended {MOST_SUBMISSIONS} times before the run was over, and none of them said why")
    kind, text = wrong[0]
    if kind == "unseen":
        return Error(f"an executor does not see what Spark wrote: it expected {text}; {SHARED_FOLDER}")
    if kind == "failed" and "cannot connect" in text:
        return Error(
            f"the executors do not reach the driver: {text}. Set `spark.driver.host`, `controllerAddress` or `networkMask` to an "
            "address that they reach, and open the port that `port` names"
        )
    if "as it was described" in text:
        return Error(f"{text}. Spark has computed it again, and it came out otherwise: train with `export`, or write the rows down before")
    return Error(text)
