"""One fit: the master is a thread of the driver, the tasks of one Spark job are its workers."""

from __future__ import annotations

import json
import shutil
import tempfile
import threading
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from paceline._native import Error
from paceline.cluster import Master
from paceline.data import Data
from paceline.events import Callback, Event
from paceline.model import Model, Scores
from paceline.progress import Progress, watcher
from paceline.spark import addresses, scoring, sessions, stores
from paceline.spark.columns import Columns
from paceline.spark.exporting import Exported, export, remove
from paceline.spark.task import Plan, Work
from paceline.training import Trainer
from paceline.watching import SLICE_SECONDS

# So long a worker looks for a master that it has never reached.
REACH_SECONDS = 3.0
# So long the first step waits for tasks that Spark has not started yet, once one is there.
GATHER_SECONDS = 10.0
# When all tasks have ended and the run has not, they are started again so often.
MOST_SUBMISSIONS = 5
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

    def __init__(self, spark: Any, plan: Plan, workers: int, tag: str, properties: dict[str, str]) -> None:
        super().__init__(name="paceline-spark-job", daemon=True)
        self.spark, self.plan, self.workers, self.tag = spark, plan, workers, tag
        self.properties = properties
        self.rows: list[Any] = []
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            sessions.take_properties(self.spark, self.properties)
            sessions.tag(self.spark, self.tag)
            self.rows = sessions.tasks(self.spark, self.workers, Work(self.plan)).collect()
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
    output = tempfile.mkdtemp(prefix="paceline-run-")
    tag = f"paceline-{uuid.uuid4().hex}"
    listen, advertise = addresses.listening(spark, placement.port, placement.address, placement.network_mask)
    properties = sessions.properties(spark)
    told: list[Event] = []
    listeners: list[Callback] = [told.append, *callbacks]
    if (watching := watcher(progress)) is not None:
        listeners.append(watching)

    def tell(event: Event) -> None:
        for listener in listeners:
            listener(event)

    try:
        with stores.local(exported.train) as train, stores.local(exported.test or exported.train) as test:
            data = Data.open(f"shards:{train}?{exported.query}")
            judged = None if exported.test is None else Data.open(f"shards:{test}?{exported.query}")
            with Master(
                trainer,
                data,
                judged,
                output=output,
                listen=listen,
                advertise=advertise,
                expected_workers=placement.workers,
                expected_within=GATHER_SECONDS,
                waiting_limit=FOREVER_SECONDS,
                silence_limit=placement.silence_limit,
            ) as master:
                plan = Plan(
                    join=master.join,
                    run=tag,
                    folder=exported.folder,
                    query=exported.query,
                    train_files=exported.train_files,
                    test_files=exported.test_files,
                    patience=REACH_SECONDS,
                )
                for event in master.events:
                    tell(event)
                lead = _Lead(spark, master, plan, placement.workers, tag, properties, tell)
                model, scores, stopped = lead.run()
        if model is None or stopped:
            raise Error("the run was stopped")
        return Fitted(Model(model), None if scores is None else Scores.parse(scores), told)
    finally:
        sessions.cancel(spark, tag)
        shutil.rmtree(output, ignore_errors=True)


class _Lead:
    """Follows the master and the job until both have ended."""

    def __init__(
        self,
        spark: Any,
        master: Master,
        plan: Plan,
        workers: int,
        tag: str,
        properties: dict[str, str],
        tell: Callback,
    ) -> None:
        self.spark, self.master, self.plan, self.workers, self.tag = spark, master, plan, workers, tag
        self.properties, self.tell = properties, tell
        self.submissions = 0
        self.joined = 0
        self.job = self._submit()

    def run(self) -> tuple[Any, Any, bool]:
        run = self.master._run
        joined_before = 0
        try:
            while not run.is_over:
                line = run.next(SLICE_SECONDS)
                if line is not None:
                    event = Event.parse(line)
                    self.joined += event.kind == "worker_joined"
                    self.tell(event)
                elif not self.job.is_alive() and not run.is_over:
                    reasons = self._look_at(self.job)
                    if self.submissions == MOST_SUBMISSIONS or (reasons and self.joined == joined_before):
                        raise _why(reasons)
                    joined_before = self.joined
                    self.job = self._submit()
            result = run.result()
        except BaseException:
            sessions.cancel(self.spark, self.tag)
            raise
        self._end()
        return result

    def _submit(self) -> _Job:
        if self.submissions:
            self.tell(Event({"event": "tasks_again", "submission": self.submissions + 1}))
        self.submissions += 1
        job = _Job(self.spark, self.plan, self.workers, self.tag, self.properties)
        job.start()
        return job

    def _end(self) -> None:
        """Workers leave by themselves; tasks that have not begun find that there is nothing left to do."""
        stores.write(self.plan.over, b"over")
        until = time.monotonic() + 30
        while self.job.is_alive() and time.monotonic() < until:
            self.job.join(SLICE_SECONDS)
        if self.job.is_alive():
            sessions.cancel(self.spark, self.tag)
            self.job.join(10)
        else:
            self._look_at(self.job)

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
        if job.error is not None:
            wrong.append(("spark", str(sessions.explain(job.error))))
            self.tell(Event({"event": "task_failed", "task": None, "reason": wrong[-1][1]}))
        return wrong


def _why(wrong: list[tuple[str, str]]) -> Error:
    if not wrong:
        return Error(f"all tasks have ended {MOST_SUBMISSIONS} times before the run was over, and none of them said why")
    kind, text = wrong[0]
    if kind == "unseen":
        return Error(
            f"an executor does not see what Spark wrote: it expected {text}. Give an `exportDirectory` that every host reaches (HDFS, "
            "S3, or a disk that all have mounted), or train with the approach `direct`"
        )
    if kind == "failed" and "cannot connect" in text:
        return Error(
            f"the executors do not reach the driver: {text}. Set `spark.driver.host`, `controllerAddress` or `networkMask` to an "
            "address that they reach, and open the port that `port` names"
        )
    return Error(text)
