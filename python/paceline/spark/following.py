"""Follows the Spark job of a fit: what its tasks tell, and when it is started again."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from typing import Any

from paceline.errors import Error
from paceline.cluster import Master
from paceline.events import Callback, Event
from paceline.model import Model
from paceline.spark import sessions, stores
from paceline.spark.direct import Bringing, Partitioned
from paceline.spark.exporting import SHARED_FOLDER
from paceline.spark.task import Plan, Work
from paceline.watching import SLICE_SECONDS

# When all tasks have ended and the run has not, they are started again so often.
MOST_SUBMISSIONS = 5
# So long an epoch may take to be counted when all tasks that bring its partitions have ended.
COUNT_SECONDS = 30.0

Told = tuple[str, str]
"""Scores as JSON and in words."""


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


class DriverLeads(_Following):
    """The master is a thread of this process."""

    def __init__(self, spark: Any, plan: Plan, workers: int, tell: Callback, master: Master) -> None:
        super().__init__(spark, plan, workers, tell)
        self.master = master

    def run(self) -> tuple[Any, Told | None, bool]:
        run = self.master._run
        try:
            self._follow(run)
            result = run.result()
        except BaseException:
            sessions.cancel(self.spark, self.plan.run)
            raise
        self._end()
        return result

    def _follow(self, run: Any) -> None:
        """Tells what the master tells, to its end."""
        joined = joined_before = 0
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

    def _end(self) -> None:
        """Workers leave by themselves; tasks that have not begun find that there is nothing left to do."""
        if self.plan.folder:
            stores.write(self.plan.over, b"null")
        self.job.join(30)
        if self.job.is_alive():
            sessions.cancel(self.spark, self.plan.run)
            self.job.join(10)
        self._look_at(self.job)


class EpochByEpoch(DriverLeads):
    """The master is a thread of this process; every epoch has a job of its own, whose tasks bring their partitions."""

    def __init__(
        self, spark: Any, plan: Plan, workers: int, tell: Callback, master: Master, parts: Partitioned, epoch: int
    ) -> None:
        self.parts, self.epoch = parts, epoch
        super().__init__(spark, plan, workers, tell, master)

    def _frame(self) -> Any:
        return sessions.over(self.parts.frame, Bringing(self.plan, self.parts.query, self.parts.numbers, self.epoch))

    def _follow(self, run: Any) -> None:
        counted, ended = 0, None
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


class TaskLeads(_Following):
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
