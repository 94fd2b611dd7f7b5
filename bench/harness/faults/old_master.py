"""A master stands still until a standby has taken over, and goes on: nobody may work for it, and it may not write."""

from __future__ import annotations

import re
import signal
import time
from pathlib import Path

from ..case import ROOT
from .crew import kind
from .outcome import Outcome
from .stage import START_LIMIT_SECONDS, Stage
from .standby import two_masters

STEPS_OF_THE_NEW_SECONDS = 2.0
GOES_WITHIN_SECONDS = 20.0


def run(stage: Stage, mode: str) -> Outcome:
    outcome = Outcome("old-master", mode)
    with two_masters(stage, "old-master", mode, seconds=30) as (_, run, standby):
        old = run.master
        address, term = old.all(kind("listening"))[-1]["address"], old.all(kind("listening"))[-1]["term"]
        stopped = old.send(signal.SIGSTOP)
        step = standby.need(kind("step"), START_LIMIT_SECONDS, "a step")
        standby.need(kind("step"), START_LIMIT_SECONDS, "a step", step.at + STEPS_OF_THE_NEW_SECONDS)
        saved = old.all(kind("checkpoint"))[-1]
        run.master = standby
        run.must_run_on()
        started = standby.all(kind("started"))[-1]

        files = written(ROOT / run.output)
        went_on, by_the_calendar = old.send(signal.SIGCONT), time.time()
        status = old.ended(GOES_WITHIN_SECONDS)
        gone = time.monotonic()
        left_behind = written(ROOT / run.output)  # now: the new master removes old checkpoints when it writes its own
        run.finish(outcome, before=run.examples_until(saved))

        said = [{**told.event, "after_s": told.at - went_on} for told in old.all(lambda told: True, went_on)]
        worked = [entry for entry in said if entry["event"] in ("step", "worker_joined", "checkpoint")]
        joined = [told.event for worker in run.workers for told in worker.all(kind("joined", master=address), went_on)]
        of_old = lambda name: bool(re.match(rf"checkpoint-{term}-", name))
        late = [name for name, at in left_behind.items() if of_old(name) and at > by_the_calendar]
        outcome.figures = {
            "first step of the standby, s": step.at - stopped,
            "resumed at step": started["resumed_at"],
            "old one gone after, s": gone - went_on if status is not None else None,
            "old one's exit": status,
            **outcome.figures,
        }
        outcome.details |= {
            "old_said": said,
            "old_error": old.errors(),
            "files_before_it_went_on": sorted(files),
            "files_when_it_was_gone": sorted(left_behind),
            "files_at_the_end": sorted(written(ROOT / run.output)),
            "said_by_workers": run.said_since(stopped),
        }
        events = ", ".join(f"`{entry['event']}`" for entry in said) or "no event"
        outcome.notes.append(f"the old master tells {events}, and says: {old.errors()}")
        is_last = started["resumed_at"] == saved["iteration"]
        outcome.check("the standby goes on from the last checkpoint", is_last, started.event)
        outcome.check("the old master ends by itself, with an error", status not in (None, 0), status)
        outcome.check("it takes no step and no worker", not worked, worked)
        outcome.check("no worker joins it", not joined, joined)
        outcome.check("it writes no checkpoint", not late, late)
    return outcome


def written(folder: Path) -> dict[str, float]:
    """The files of a run, and when each was written."""
    return {path.name: path.stat().st_mtime for path in folder.iterdir() if path.is_file()}
