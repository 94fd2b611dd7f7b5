"""A worker stands still, longer than the silence limit, and goes on: SIGSTOP, SIGCONT."""

from __future__ import annotations

import signal

from .crew import kind, largest_gap
from .outcome import Outcome
from .stage import SILENCE_LIMIT_SECONDS, Stage

# The master looks once in a while, and the machine may be busy.
NAMED_WITHIN_SECONDS = SILENCE_LIMIT_SECONDS + 3


def run(stage: Stage, mode: str) -> Outcome:
    outcome = Outcome("stopped", mode)
    hold = 8.0 if stage.is_quick else 20.0
    with stage.run("stopped", mode, seconds=hold + 12) as run:
        run.start_all()
        run.settle()
        victim = run.workers[1]
        number = run.number_of(victim)
        stopped = victim.send(signal.SIGSTOP)
        run.pass_time(stopped + hold)
        went_on = victim.send(signal.SIGCONT)
        lost = run.master.find(kind("worker_lost", worker=number), stopped)
        back = run.wait_until_back(victim, went_on, limit=30)
        run.finish(outcome)

        steps = [told.at for told in run.master.all(kind("step"))]
        next_step = min((at for at in steps if lost and at > lost.at), default=None)
        left = victim.find(kind("left"), went_on)
        outcome.figures = {
            "named after, s": lost.at - stopped if lost else None,
            "next step after that, s": next_step - lost.at if lost and next_step else None,
            "largest gap while it stood, s": largest_gap(steps, stopped, went_on),
            "member again after, s": back.member_at - went_on if back.member_at else None,
            **outcome.figures,
        }
        outcome.details |= {
            "lost_reason": lost["reason"] if lost else None,
            "left_reason": left["reason"] if left else None,
            "left_after_s": left.at - went_on if left else None,
            "joined_after_s": back.joined_at - went_on if back.joined_at else None,
        }
        run.note_losses(outcome, stopped)
        if left:
            outcome.notes.append(f"{victim.name} says {left.at - went_on:.2f} s after it went on: {left['reason']}")
        named = lost is not None and lost.at - stopped <= NAMED_WITHIN_SECONDS
        outcome.check(f"the worker is named within {NAMED_WITHIN_SECONDS:.0f} s", named)
        outcome.check("it is a member again", back.member_at is not None, run.why_not_back(victim))
    return outcome
