"""The master dies in the middle of an epoch and is started again with the same command; its workers look for it."""

from __future__ import annotations

import signal
import time

from .crew import kind
from .outcome import Outcome
from .stage import START_LIMIT_SECONDS, Stage, free_ports

CHECKPOINT_STEPS = 200  # an epoch has more than twice as many, so the last checkpoint lies within one
STEPS_AFTER_CHECKPOINT_SECONDS = 1.0


def run(stage: Stage, mode: str) -> Outcome:
    outcome = Outcome("master", mode)
    listen = f"127.0.0.1:{free_ports(1)[0]}"
    settings = [f"train.checkpoint.steps={CHECKPOINT_STEPS}"]
    with stage.run("master", mode, seconds=20, listen=listen, settings=settings) as run:
        run.start_all()
        run.settle(0)
        first = run.master
        checkpoint = first.need(kind("checkpoint"), START_LIMIT_SECONDS, "a checkpoint")
        first.need(kind("step"), START_LIMIT_SECONDS, "a step", checkpoint.at + STEPS_AFTER_CHECKPOINT_SECONDS)
        run.must_run_on()
        killed = first.send(signal.SIGKILL)
        first.ended(10)
        saved = first.all(kind("checkpoint"))[-1]
        last_step = first.all(kind("step"))[-1]

        again = time.monotonic()
        run.master = run.start_master("master-again")
        started = run.master.need(kind("started"), START_LIMIT_SECONDS, "`started`")
        step = run.master.wait_for(kind("step"), START_LIMIT_SECONDS)
        everybody = lambda told: told.kind == "view" and len(told["workers"]) == run.wanted
        whole = run.master.wait_for(everybody, 15)
        run.finish(outcome, before=run.examples_until(saved))

        outcome.figures = {
            "last step before": last_step["iteration"],
            "last checkpoint": saved["iteration"],
            "resumed at step": started["resumed_at"],
            "first step after the restart, s": step.at - again if step else None,
            "all workers again, s": whole.at - again if whole else None,
            **outcome.figures,
        }
        outcome.details |= {
            "started_after_s": started.at - again,
            "restart_after_kill_s": again - killed,
            "first_step_after": step.event if step else None,
            "said_by_workers": run.said_since(killed),
        }
        is_last = started["resumed_at"] == saved["iteration"]
        outcome.check("it goes on from the last checkpoint", is_last, started.event)
        outcome.check("all workers find it again", whole is not None)
    return outcome
