"""One fit: the master is a thread of the driver, the tasks of one Spark job are its workers."""

from __future__ import annotations

import copy
import secrets
import shutil
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from paceline.errors import Error, SettingError
from paceline.cluster import Master
from paceline.data import Data
from paceline.events import Callback, Event, Kept
from paceline.labels import class_weights_of
from paceline.model import Model, Scores
from paceline.progress import Progress, watcher
from paceline.spark import addresses, scoring, sessions, stores
from paceline.spark.columns import Columns
from paceline.spark.direct import partitioned
from paceline.schema import label_type_of
from paceline.spark.exporting import Exported, export, name_of, remove
from paceline.spark.following import DriverLeads, EpochByEpoch, TaskLeads, Told
from paceline.spark.task import Lead, Plan
from paceline.statistics import TrainingStatistics
from paceline.training import Trainer

# So long a worker looks for a master that it has never reached.
REACH_SECONDS = 3.0
# So long the first step waits for tasks that Spark has not started yet, once one is there.
GATHER_SECONDS = 10.0
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
    statistics: bool = False

    def __post_init__(self) -> None:
        if self.workers < 1:
            raise SettingError(f"expected `numWorkers` as the number of tasks that train, or 0 for one on each slot, found {self.workers}")


@dataclass
class Fitted:
    """What a fit came to."""

    model: Model
    scores: Scores | None
    events: list[Event] = field(repr=False)
    """What the master told, and what Spark's tasks did: `task_begun`, `task_ended`, `task_failed`, `tasks_again`."""

    @property
    def statistics(self) -> TrainingStatistics | None:
        """Where the time of the workers went, if that was asked for (`collect_training_stats`)."""
        return TrainingStatistics.of(self.events)

    def _repr_html_(self) -> str:
        return self.model._repr_html_() + ("" if self.scores is None else self.scores._repr_html_())


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
    columns = _checked(frame, columns, trainer, is_classes)
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
        has_gaps=_has_gaps(trainer),
    )
    try:
        begins = _begins(trainer, columns)
        _weigh(begins, exported.labels)
        fitted = fit(spark, begins, exported, placement, callbacks=callbacks, progress=progress)
        fitted.model = described(fitted.model, exported.columns, exported.labels)
        return fitted, exported
    finally:
        remove(spark, exported.folder)


def _checked(frame: Any, columns: Columns, trainer: Trainer, is_classes: bool) -> Columns:
    """The columns of a DataFrame with offsets: its own, or those of the model that a fit begins with."""
    columns.check(frame)
    network = trainer.network
    columns.check_layout(frame, network.input)
    if trainer.start is not None:
        return columns.like(trainer.start.schema)
    columns = columns.with_offsets(frame, is_classes, network.input)
    if columns.label_offsets is not None and len(columns.label_offsets) != network.outputs:
        # The outputs are not what is predicted, but say how it is spread: no offset can be added to them.
        columns = replace(columns, label_offsets=None)
    return columns


def described(model: Model, columns: Columns, labels: Sequence[Any] | None) -> Model:
    """A model that knows the columns, the offsets and the type of labels of the DataFrame, which its shards did not."""
    network = model.network
    label_type = "text" if labels is None else label_type_of(np.asarray(labels))
    width = network.inputs if network.input.keys() & {"feed_forward"} else 0
    offsets = None if columns.offsets is None else np.asarray(columns.offsets)
    names = columns.names(width) if width else []
    if offsets is not None and len(offsets) != len(names):
        names = [str(place) for place in range(len(offsets))]
    of_label = None if columns.label_offsets is None else np.asarray(columns.label_offsets)
    return model.with_schema(model.schema.with_columns(names, offsets, of_label, label_type))


def _has_gaps(trainer: Trainer) -> bool:
    return "sequence" in trainer.network.input


def _begins(trainer: Trainer, columns: Columns) -> Trainer:
    """A trainer for exported rows, whose offsets are subtracted already."""
    begins = copy.copy(trainer)
    if trainer.start is not None:
        begins.start = trainer.start.with_schema(trainer.start.schema.without_shifts())
    return begins


def _weigh(trainer: Trainer, labels: Sequence[Any] | None) -> None:
    """Puts weights by label in the order of classes, as the DataFrame has them."""
    given = trainer.class_weights
    if isinstance(given, Mapping) and labels is not None:
        # Settings that were saved have the names of labels as keys.
        by_name = {name_of(label): label for label in labels}
        given = {label if label in labels else by_name.get(name_of(label), label): weight for label, weight in given.items()}
    if labels is not None or given is not None:
        trainer.class_weights = class_weights_of(given, None if labels is None else np.asarray(labels))


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
    leading = _leading(spark, placement)
    told, tell = _listeners(callbacks, progress)
    tag, output = f"paceline-{uuid.uuid4().hex}", tempfile.mkdtemp(prefix="paceline-run-")
    plan = Plan(run=tag, folder="", query="", train_files={}, test_files={}, patience=REACH_SECONDS)
    shape = scoring.shape_of(trainer.network)
    try:
        columns = _checked(frame, columns, trainer, is_classes)
        with partitioned(
            spark, frame, columns, shape=shape, is_classes=is_classes, plan=plan, has_gaps=_has_gaps(trainer)
        ) as parts:
            trainer = _begins(trainer, columns)
            _weigh(trainer, parts.labels)
            data = [Data.of_partitions(parts.notes), *([] if parts.validation is None else [parts.validation])]
            with Master(
                trainer,
                *data,
                output=output,
                **leading,
                expected_workers=min(placement.workers, len(parts.notes)),
            ) as master:
                plan = replace(plan, join=master.join)
                for event in master.events:
                    tell(event)
                model, scores, stopped = EpochByEpoch(spark, plan, placement.workers, tell, master, parts, _first_epoch(trainer)).run()
            if model is None or stopped:
                raise Error("the run was stopped")
            whole = described(Model(model), columns, parts.labels)
            return Fitted(whole, None if scores is None else Scores.parse(scores), told), parts.labels
    finally:
        sessions.cancel(spark, tag)
        shutil.rmtree(output, ignore_errors=True)


def fit_job(
    spark: Any, job: Path, output: Path, placement: Placement, *, settings: Sequence[str] = (), callbacks: Sequence[Callback] = ()
) -> Scores | None:
    """Trains the job of a file, whose data the driver and every executor see under the same names; the model goes to `output`."""
    leading = _leading(spark, placement)
    _, tell = _listeners(callbacks, "auto")
    tag = f"paceline-{uuid.uuid4().hex}"
    root = str(Path.cwd())
    try:
        with Master.of_job(
            job,
            settings=settings,
            output=output,
            **leading,
            expected_workers=placement.workers,
        ) as master:
            plan = Plan(
                run=tag, folder="", query="", train_files={}, test_files={}, patience=REACH_SECONDS, join=master.join, root=root
            )
            for event in master.events:
                tell(event)
            _, scores, _ = DriverLeads(spark, plan, placement.workers, tell, master).run()
            return None if scores is None else Scores.parse(scores)
    finally:
        sessions.cancel(spark, tag)


def _first_epoch(trainer: Trainer) -> int:
    return trainer.start.epoch if trainer.start is not None and trainer.take == "everything" else 0


def _leading(spark: Any, placement: Placement) -> dict[str, Any]:
    """How a master in the driver listens and waits, whatever it leads."""
    listen, advertise = addresses.listening(spark, placement.port, placement.address, placement.network_mask)
    return {
        "listen": listen,
        "advertise": advertise,
        "expected_within": GATHER_SECONDS,
        "waiting_limit": FOREVER_SECONDS,
        "silence_limit": placement.silence_limit,
        "statistics": placement.statistics,
    }


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


def _led_by_the_driver(
    spark: Any, trainer: Trainer, exported: Exported, placement: Placement, tag: str, tell: Callback
) -> tuple[Model, Told | None]:
    output = tempfile.mkdtemp(prefix="paceline-run-")
    leading = _leading(spark, placement)
    try:
        with ExitStack() as stack:
            folders = [stack.enter_context(stores.local(folder)) for folder in (exported.train, exported.test) if folder]
            data = [Data.open(f"shards:{folder}?{exported.query}") for folder in folders]
            master = Master(
                trainer,
                *data,
                output=output,
                **leading,
                expected_workers=placement.workers,
            )
            stack.enter_context(master)
            plan = _plan(exported, tag, join=master.join)
            for event in master.events:
                tell(event)
            model, scores, stopped = DriverLeads(spark, plan, placement.workers, tell, master).run()
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
        data=trainer._tree(None)["data"],
        train=trainer._train,
        workers=placement.workers,
        gather=GATHER_SECONDS,
        silence_limit=placement.silence_limit,
        statistics=placement.statistics,
        start=trainer.start,
        take=trainer.take,
        token=secrets.token_hex(16),
        driver=placement.address or spark.conf.get("spark.driver.host", None),
    )
    return TaskLeads(spark, _plan(exported, tag, lead=lead), placement.workers, tell).run()


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
