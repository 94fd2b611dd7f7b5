"""Our side on two cores."""

from __future__ import annotations

import math
import shutil
from dataclasses import dataclass
from pathlib import Path

from .case import WORK, Case, Job
from .child import Finished, Launch, run_together, trained, two_cores
from .dataset import EXAMPLES

WORKERS = 2
MODES = ("sync", "averaging", "shared")


@dataclass(frozen=True)
class Team:
    """`paceline train --workers 2`; the job's batch is that of both workers together."""

    binary: Path
    mode: str
    pace = 1.0

    @property
    def name(self) -> str:
        return f"paceline-{self.mode}"

    @property
    def title(self) -> str:
        return f"Paceline, {self.mode}"

    def train(self, case: Case, job: Job, steps: int) -> Finished:
        return trained(self.title, run_together([self.launch(case, job, steps)])[0], steps * job.batch)

    def launch(self, case: Case, job: Job, steps: int) -> Launch:
        command = train_command(self.binary, case, job, steps, job.batch, self.name)
        command += ["--workers", str(WORKERS), "--mode", self.mode, "--set", f"data.global_batch={job.batch}"]
        return Launch(command, f"{case.name}-{self.name}-{steps}", cores=frozenset(two_cores()))


@dataclass(frozen=True)
class SideBySide:
    """Two runs of one worker that know nothing of each other, each on a core of its own, each with half the batch."""

    binary: Path
    name = "side-by-side"

    def launches(self, case: Case, job: Job, steps: int) -> list[Launch]:
        batch = job.batch // WORKERS
        launches = []
        for core in two_cores():
            name = f"{self.name}-{core}"
            command = train_command(self.binary, case, job, steps, batch, name)
            command += ["--mode", "solo", "--set", f"data.batch={batch}"]
            launches.append(Launch(command, f"{case.name}-{name}-{steps}", cores=frozenset({core})))
        return launches


def train_command(binary: Path, case: Case, job: Job, steps: int, batch: int, name: str) -> list[str | Path]:
    """`paceline train` for a number of steps, writing where nothing is left from before."""
    epochs = math.ceil(steps * batch / EXAMPLES[job.image_shape[2]])
    output = WORK / "output" / f"{case.name}-{name}"
    shutil.rmtree(output, ignore_errors=True)
    command: list[str | Path] = [binary, "train", case.job_file, "--output", output, "--events", "json"]
    return command + ["--set", f"train.epochs={epochs}", "--set", f"train.steps={steps}"]
