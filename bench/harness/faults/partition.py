"""Hosts lose each other for a while: one all the others, or two of them each other while both reach the master."""

from __future__ import annotations

import time

from .crew import kind, largest_gap
from .outcome import Outcome
from .routed import Routed
from .stage import Stage

VARIANTS = ("host 2, 2 s", "host 2, 10 s", "hosts 1 and 2, 10 s", "hosts 1 and 2, 30 s")
WATCHED_AFTER_SECONDS = 15.0


def run(stage: Stage, mode: str, variant: str) -> Outcome:
    outcome = Outcome("partition", mode, variant)
    who, _, length = variant.rpartition(", ")
    hold = float(length.removesuffix(" s"))
    # An own name for logs and folders.
    name = f"partition-{'pair' if 'and' in who else 'host'}-{hold:.0f}s"
    with Routed() as hosts, stage.run(
        name, mode, seconds=hold + WATCHED_AFTER_SECONDS, hosts=hosts, listen=f"{hosts.address(0)}:0"
    ) as run:
        run.start_all()
        run.settle()
        cut = hosts.cut_between(1, 2) if "and" in who else hosts.cut_off(2)
        run.pass_time(cut + hold)
        healed = hosts.heal()
        # A loss may be seen late, so whether everybody is there is looked at after that.
        run.pass_time(healed + WATCHED_AFTER_SECONDS)
        seen = time.monotonic()
        run.finish(outcome)

        losses = [loss for loss in run.losses() if cut < loss["at"] < seen]
        before, views = run.master.all(kind("view"), before=cut), run.master.all(kind("view"), after=cut)
        whole = [view for view in views if len(view["workers"]) == run.wanted and view.at > healed]
        there = len([*before, *views][-1]["workers"])
        steps = run.steps()
        outcome.figures = {
            "lost": ", ".join(str(loss["name"]) for loss in losses) or "nobody",
            "named after, s": losses[0]["at"] - cut if losses else None,
            "largest gap, s": largest_gap(steps, cut, seen),
            "all together again after, s": whole[-1].at - healed if losses and whole else None,
            **outcome.figures,
        }
        outcome.details |= {
            "losses": [{**loss, "after_s": loss["at"] - cut} for loss in losses],
            "largest_gap_while_cut_s": largest_gap(steps, cut, healed),
            "largest_gap_after_s": largest_gap(steps, healed, seen),
            "said_by_workers": run.said_since(cut),
        }
        run.note_losses(outcome, cut)
        for view in views:
            members = len(view["workers"])
            outcome.notes.append(f"a view of {members} workers after {view.at - cut:.2f} s: {view['reason']}")
        for worker in run.workers:
            end = worker.find(kind("finished"), cut)
            if end and end.at < seen:
                status = worker.process.poll()
                note = f"{worker.name} ends for good after {end.at - cut:.2f} s, with exit status {status}: {end['reason']}"
                outcome.notes.append(note)
        outcome.check("all three work together again", there == run.wanted, f"{there} workers")
        outcome.check("the worker beside the master is not lost", all(loss["name"] != "worker0" for loss in losses), losses)
    return outcome
