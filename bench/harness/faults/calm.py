"""Nothing happens: the rates that the length of other runs comes from, and what there is to compare with."""

from __future__ import annotations

from .crew import kind, largest_gap
from .outcome import Outcome
from .stage import Stage


def run(stage: Stage, mode: str) -> Outcome:
    outcome = Outcome("calm", mode)
    with stage.run("calm", mode, epochs=1) as run:
        run.start_all()
        run.settle(0)
        run.finish(outcome)
        epoch = run.master.need(kind("epoch"), 1, "an epoch")
        steps = [told.at for told in run.master.all(kind("step"))]
        outcome.figures = {
            "examples/s": epoch["examples_per_second"],
            "largest gap between steps, s": largest_gap(steps, steps[0], steps[-1]),
            **outcome.figures,
        }
    return outcome
