"""The master and the leading ZooKeeper server die in the same moment, and a standby master takes over."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

from .crew import Player, kind
from .ensemble import Ensemble
from .outcome import Outcome
from .restart import CHECKPOINT_STEPS, STEPS_AFTER_CHECKPOINT_SECONDS
from .stage import START_LIMIT_SECONDS, Run, Stage

STEP_WITHIN_SECONDS = 15.0
WORKERS = 2


@contextmanager
def two_masters(stage: Stage, name: str, mode: str, seconds: float) -> Iterator[tuple[Ensemble, Run, Player]]:
    """A run with a checkpoint and steps behind it, and a master that stands by."""
    settings = [f"train.checkpoint.steps={CHECKPOINT_STEPS}"]
    with Ensemble() as ensemble:
        url = ensemble.url()
        with stage.run(name, mode, seconds=seconds, workers=WORKERS, coordinator=url, settings=settings) as run:
            run.start_all()
            standby = run.start_master("standby")
            standby.need(kind("standby"), START_LIMIT_SECONDS, "`standby`")
            run.settle(0)
            checkpoint = run.master.need(kind("checkpoint"), START_LIMIT_SECONDS, "a checkpoint")
            later = checkpoint.at + STEPS_AFTER_CHECKPOINT_SECONDS
            run.master.need(kind("step"), START_LIMIT_SECONDS, "a step", later)
            run.must_run_on()
            yield ensemble, run, standby


def run(stage: Stage, mode: str) -> Outcome:
    outcome = Outcome("standby", mode)
    with two_masters(stage, "standby", mode, seconds=20) as (ensemble, run, standby):
        server = ensemble.leader()
        killed = run.master.send(signal.SIGKILL)
        server.kill()
        run.master.ended(10)
        before, run.master = run.master, standby
        saved = before.all(kind("checkpoint"))[-1]
        step = standby.wait_for(kind("step"), START_LIMIT_SECONDS)
        listening, started = standby.find(kind("listening")), standby.find(kind("started"))
        run.finish(outcome, before=run.examples_until(saved))
        outcome.figures = {
            "ZooKeeper server": "the leader",
            "leads after, s": listening.at - killed if listening else None,
            "first step after, s": step.at - killed if step else None,
            "last checkpoint": saved["iteration"],
            "resumed at step": started["resumed_at"] if started else None,
            **outcome.figures,
        }
        outcome.details |= {
            "term": listening["term"] if listening else None,
            "said_by_workers": run.said_since(killed),
        }
        in_time = step is not None and step.at - killed <= STEP_WITHIN_SECONDS
        outcome.check(f"the standby tells a step within {STEP_WITHIN_SECONDS:.0f} s", in_time)
        is_last = started is not None and started["resumed_at"] == saved["iteration"]
        outcome.check("it goes on from the last checkpoint", is_last, started.event if started else "nothing")
    return outcome
