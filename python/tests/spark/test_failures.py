"""What goes wrong on a cluster: processes that die, slots that are missing, fits that come together."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from conftest import Cluster

import paceline as pl
from paceline.spark.columns import Columns
from paceline.spark.exporting import Exported, export, remove
from paceline.spark.fitting import Fitted, Placement, fit

# A second attempt at whatever takes longer than the others; several fits at once take turns.
SETTINGS = {
    "spark.scheduler.mode": "FAIR",
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.1",
    "spark.speculation.minTaskRuntime": "100ms",
}


@pytest.fixture(scope="module")
def exported(spark: Any, digits_frame: Any) -> Iterator[Exported]:
    made = export(spark, digits_frame, Columns.of("features", "label"), shape=[64], is_classes=True, partitions=3, seed=1)
    yield made
    remove(spark, made.folder)


class At:
    """Does something once, when an epoch is reached."""

    def __init__(self, *when: tuple[int, Callable[[], object]]) -> None:
        self.when = list(when)

    def __call__(self, event: pl.Event) -> None:
        if event.kind == "epoch" and self.when and event["epoch"] >= self.when[0][0]:
            self.when.pop(0)[1]()


def kill(found: Callable[[Any], list[int]], spark: Any) -> Callable[[], None]:
    return lambda: os.kill(found(spark)[0], signal.SIGKILL)


def ended_well(fitted: Fitted, exported: Exported, epochs: int) -> None:
    finished = [event for event in fitted.events if event.kind == "finished"]
    assert len(finished) == 1 and finished[0]["examples"] == epochs * exported.rows, "each example of each epoch once"
    last = 0
    for event in fitted.events:
        if event.kind == "rolled_back":
            # The only copy of what was counted last was on the executor that is gone: it is told, and done again.
            last = 0
        if event.kind == "step":
            assert event["iteration"] > last, "steps are never counted twice"
            last = event["iteration"]


def trainer(network: pl.Network, epochs: int, mode: str = "sync") -> pl.Trainer:
    return pl.Trainer(network, epochs=epochs, batch=16, mode=mode, seed=5)


@pytest.mark.parametrize("mode", ["sync", "averaging", "shared"])
def test_an_executor_that_is_killed_is_replaced_and_nothing_is_lost(
    spark: Any, cluster: Cluster, exported: Exported, network: pl.Network, mode: str
) -> None:
    epochs = 400
    told = At((5, kill(cluster.executors, spark)))
    fitted = fit(spark, trainer(network, epochs, mode), exported, Placement(2), callbacks=[told])
    ended_well(fitted, exported, epochs)
    kinds = [event.kind for event in fitted.events]
    assert kinds.count("worker_lost") >= 1, "its loss is told"
    assert "tasks_again" not in kinds, "Spark runs the lost task again by itself"
    after = kinds[kinds.index("worker_lost") :]
    assert "epoch" in after, "the other one goes on"


def test_a_task_that_fails_twice_is_run_again(
    spark: Any, cluster: Cluster, exported: Exported, network: pl.Network
) -> None:
    epochs = 400
    again = kill(cluster.python_workers, spark)
    fitted = fit(spark, trainer(network, epochs), exported, Placement(2), callbacks=[At((3, again), (40, again))])
    ended_well(fitted, exported, epochs)
    lost = [event for event in fitted.events if event.kind == "worker_lost"]
    assert len(lost) >= 2 and all(event["reason"] for event in lost)


def test_with_fewer_slots_than_tasks_it_begins_with_those_that_run(
    spark: Any, exported: Exported, network: pl.Network
) -> None:
    fitted = fit(spark, trainer(network, 20), exported, Placement(5))
    ended_well(fitted, exported, 20)
    joined = [event for event in fitted.events if event.kind == "worker_joined"]
    assert len(joined) == 2
    late = [event for event in fitted.events if event.kind == "task_ended" and event["late"]]
    assert len(late) == 3, "those that begin after its end find nothing to do"


@pytest.mark.parametrize("pools", [(None, None), ("one", "two")])
def test_two_fits_at_once_on_two_slots_both_end(
    spark: Any, exported: Exported, network: pl.Network, pools: tuple[str | None, str | None]
) -> None:
    came: dict[int, Fitted | BaseException] = {}

    def run(number: int) -> None:
        try:
            spark.sparkContext.setLocalProperty("spark.scheduler.pool", pools[number])
            came[number] = fit(spark, trainer(network, 60), exported, Placement(2))
        except BaseException as error:
            came[number] = error

    threads = [threading.Thread(target=run, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    for number in range(2):
        fitted = came.get(number)
        assert isinstance(fitted, Fitted), fitted
        ended_well(fitted, exported, 60)


def test_a_fit_that_is_stopped_leaves_nothing_running(spark: Any, exported: Exported, network: pl.Network) -> None:
    def give_up() -> None:
        raise RuntimeError("that is enough")

    with pytest.raises(RuntimeError, match="that is enough"):
        fit(spark, trainer(network, 100_000), exported, Placement(2), callbacks=[At((3, give_up))])
    tracker = spark.sparkContext.statusTracker()
    for _ in range(100):
        if not tracker.getActiveJobsIds():
            return
        threading.Event().wait(0.1)
    raise AssertionError("its job still runs")
