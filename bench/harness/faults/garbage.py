"""Strangers crowd the master's port and say nothing, or nonsense, while a run trains."""

from __future__ import annotations

import time

from .crew import kind
from .outcome import Outcome
from .stage import GLOBAL_BATCH, Run, Stage
from .strangers import Strangers, open_files, peak_mib

MOST_MIB = 512.0
CALM_SECONDS = 6.0
NEWCOMER_SECONDS = 5.0  # of the crowded time are left when another worker wants to join


def run(stage: Stage, mode: str) -> Outcome:
    outcome = Outcome("garbage", mode)
    lasts = 10.0 if stage.is_quick else 20.0
    with stage.run("garbage", mode, seconds=lasts + 2 * CALM_SECONDS, workers=2) as run:
        run.start_all()
        run.settle(CALM_SECONDS)
        address = str(run.master.all(kind("listening"))[-1]["address"])
        pid = run.master.process.pid
        began, calm_mib = time.monotonic(), peak_mib(pid)
        strangers = Strangers(int(address.rpartition(":")[2]))
        strangers.start()
        files: list[int] = []
        try:
            while time.monotonic() < began + lasts - NEWCOMER_SECONDS:
                run.pass_time(time.monotonic() + 1)
                files.append(open_files(pid) or 0)
            measured = time.monotonic()
            newcomer = run.start_worker(address)
            run.pass_time(measured + NEWCOMER_SECONDS)
        finally:
            strangers.end()
        ended = time.monotonic()
        run.pass_time(ended + CALM_SECONDS / 2)
        peak = peak_mib(pid)
        came = newcomer.find(kind("joined"))
        run.finish(outcome, gone=set() if came else {newcomer})
        before, during = rate(run, 0, began), rate(run, began, measured)
        outcome.figures = {
            "examples/s before": before,
            "during": during,
            "kept": f"{during / before:.0%}" if before and during else None,
            "connections": strangers.connected,
            "idle ones it leaves open": strangers.most_open,
            "master's peak MiB": peak,
            "newcomer joins after, s": came.at - measured if came else None,
            **outcome.figures,
        }
        if came is None:
            outcome.notes.append(f"the newcomer ended with {newcomer.process.poll()}: {newcomer.errors()}")
        outcome.details |= {
            "newcomer_while_crowded": came is not None and came.at < ended,
            "refused": strangers.refused,
            "idle_closed_by_the_master": strangers.closed,
            "peak_mib_before": calm_mib,
            "open_files_of_the_master": files,
        }
        outcome.check(f"the master stays under {MOST_MIB:.0f} MiB", peak is not None and peak < MOST_MIB, peak)
        outcome.check("no worker is lost", not run.losses(), run.losses())
    return outcome


def rate(run: Run, after: float, before: float) -> float | None:
    """Examples a second between the first and the last step that were told in this time."""
    steps = run.master.all(kind("step"), after, before)
    if len(steps) < 2:
        return None
    return (steps[-1]["iteration"] - steps[0]["iteration"]) * GLOBAL_BATCH / (steps[-1].at - steps[0].at)
