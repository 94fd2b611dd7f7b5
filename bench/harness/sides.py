"""The two sides on one core: how each is told to train a case for a number of steps."""

from __future__ import annotations

import math
import shutil
from dataclasses import dataclass
from pathlib import Path

from .case import BENCH, WORK, Case, Job
from .child import Finished, run_pinned, trained
from .dataset import EXAMPLES

ALL_VARIANTS = ("eager", "channels-last", "compile", "compile-channels-last")
PEER = BENCH / "peers" / "pytorch" / "train.py"

# Both runs of a pair find their compiled kernels here, so compiling falls out of the difference.
# One compile thread: a pool of compiler processes would share the one core.
PEER_ENVIRONMENT = {
    "TORCHINDUCTOR_CACHE_DIR": str(WORK / "inductor"),
    "TORCHINDUCTOR_FX_GRAPH_CACHE": "1",
    "TORCHINDUCTOR_COMPILE_THREADS": "1",
}


@dataclass(frozen=True)
class Ours:
    """`paceline train`, one worker."""

    binary: Path
    name = "paceline"
    pace = 1.0

    def train(self, case: Case, job: Job, steps: int) -> Finished:
        epochs = math.ceil(steps * job.batch / EXAMPLES[job.image_shape[2]])
        output = WORK / "output" / case.name
        shutil.rmtree(output, ignore_errors=True)  # what an earlier run left must not matter to this one
        command: list[str | Path] = [self.binary, "train", case.job_file, "--mode", "solo"]
        command += ["--set", f"train.epochs={epochs}", "--set", f"train.steps={steps}"]
        command += ["--output", output, "--events", "json"]
        return trained(self.name, run_pinned(command, {}, f"{case.name}-ours-{steps}"), steps * job.batch)


@dataclass(frozen=True)
class PyTorch:
    """`peers/pytorch/train.py` in one of its variants."""

    python: Path
    variant: str
    name = "PyTorch"
    pace = 1.0

    def train(self, case: Case, job: Job, steps: int) -> Finished:
        command: list[str | Path] = [self.python, PEER, "--network", case.network, "--variant", self.variant]
        command += ["--images", job.images, "--labels", job.labels]
        command += ["--batch", str(job.batch), "--steps", str(steps)]
        command += ["--learning-rate", str(job.learning_rate), "--momentum", str(job.momentum)]
        command += ["--warm-steps", str(case.short_steps)]
        log_name = f"{case.name}-pytorch-{self.variant}-{steps}"
        return trained(self.name, run_pinned(command, PEER_ENVIRONMENT, log_name), steps * job.batch)


Side = Ours | PyTorch


def variants(case: Case) -> tuple[str, ...]:
    """The peer's variants that can differ for this network."""
    return ALL_VARIANTS if case.has_images else ("eager", "compile")
