"""A worker dies and its connections with it: SIGKILL."""

from __future__ import annotations

import signal

from .crew import kind, largest_gap
from .outcome import Outcome
from .stage import Stage

WATCHED_SECONDS = 8.0


def run(stage: Stage, mode: str) -> Outcome:
    outcome = Outcome("reset", mode)
    with stage.run("reset", mode, seconds=WATCHED_SECONDS + 2) as run:
        run.start_all()
        run.settle()
        victim = run.workers[1]
        number = run.number_of(victim)
        killed = victim.send(signal.SIGKILL)
        run.pass_time(killed + WATCHED_SECONDS)
        lost = run.master.find(kind("worker_lost", worker=number), killed)
        run.finish(outcome, gone={victim})
        steps = [told.at for told in run.master.all(kind("step"))]
        next_step = min((at for at in steps if lost and at > lost.at), default=None)
        outcome.figures = {
            "named after, s": lost.at - killed if lost else None,
            "next step after the kill, s": next_step - killed if next_step else None,
            "largest gap, s": largest_gap(steps, killed, killed + WATCHED_SECONDS),
            **outcome.figures,
        }
        outcome.details["lost_reason"] = lost["reason"] if lost else None
        run.note_losses(outcome, killed)
        outcome.check("the worker is named within 2 s", lost is not None and lost.at - killed <= 2)
    return outcome
