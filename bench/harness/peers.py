"""The peers on two cores: how each is told to train a case for a number of steps, and what it may vary to be at its best."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from .case import BENCH, WORK, Case, Job
from .child import Finished, Launch, run_together, trained, two_cores
from .sides import PEER, PEER_ENVIRONMENT, variants
from .toolchain import Dl4jBuild

DDP = BENCH / "peers" / "pytorch" / "ddp.py"
PROCESSES = 2


@dataclass(frozen=True)
class PyTorchThreads:
    """`peers/pytorch/train.py`: one process, two threads, the whole batch."""

    python: Path
    variant: str = ""
    name: ClassVar[str] = "pytorch"
    title: ClassVar[str] = "PyTorch, 2 threads"
    pace: ClassVar[float] = 1.0

    def variants(self, case: Case) -> tuple[str, ...]:
        return variants(case)

    def train(self, case: Case, job: Job, steps: int) -> Finished:
        command = [self.python, PEER, *pytorch_options(case, job, self.variant, job.batch), "--threads", "2"]
        command += ["--steps", str(steps), "--warm-steps", str(case.short_steps)]
        return _run(self, case, job, steps, command, PEER_ENVIRONMENT | {"OMP_NUM_THREADS": "2", "MKL_NUM_THREADS": "2"})


@dataclass(frozen=True)
class Ddp:
    """`peers/pytorch/ddp.py`: two processes with one thread and half the batch each, gloo over loopback."""

    python: Path
    variant: str = ""
    name: ClassVar[str] = "ddp"
    title: ClassVar[str] = "PyTorch DDP, 2 processes"
    pace: ClassVar[float] = 0.6

    def variants(self, case: Case) -> tuple[str, ...]:
        return ("eager", "channels-last") if case.has_images else ("eager",)

    def train(self, case: Case, job: Job, steps: int) -> Finished:
        options = pytorch_options(case, job, self.variant, job.batch // PROCESSES)
        options += ["--steps", str(steps), "--warm-steps", str(case.short_steps)]
        ranks = run_together(ddp_launches(self.python, options, f"{case.name}-{self.name}-{self.variant}-{steps}"))
        whole = Finished(
            seconds=max(rank.seconds for rank in ranks),
            peak_mib=sum(rank.peak_mib for rank in ranks),
            event=ranks[0].event,
        )
        return trained(self.title, whole, steps * job.batch)


@dataclass(frozen=True)
class Dl4j:
    """`peers/dl4j`: `ParallelWrapper` with two workers and half the batch each, averaging every three steps."""

    build: Dl4jBuild
    variant: str = ""
    name: ClassVar[str] = "dl4j"
    title: ClassVar[str] = "DL4J ParallelWrapper"
    pace: ClassVar[float] = 0.3

    def variants(self, case: Case) -> tuple[str, ...]:
        return tuple(f"{native}-omp{threads}" for native in self.build.natives for threads in (1, 2))

    def train(self, case: Case, job: Job, steps: int) -> Finished:
        native, _, threads = self.variant.rpartition("-omp")
        command = self.build.command(native) + dl4j_options(job, seed=123)
        command += ["--steps", str(steps), "--warm-steps", str(case.short_steps)]
        return _run(self, case, job, steps, command, {"OMP_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": threads})


@dataclass(frozen=True)
class Burn:
    """`peers/burn`: one process, Burn's own CPU backend on two threads, the whole batch."""

    program: Path
    variant: str = ""
    name: ClassVar[str] = "burn"
    title: ClassVar[str] = "Burn, 2 threads"
    pace: ClassVar[float] = 0.4

    def variants(self, case: Case) -> tuple[str, ...]:
        return ("flex",)

    def train(self, case: Case, job: Job, steps: int) -> Finished:
        command: list[str | Path] = [self.program, "--network", case.network, *_data_options(job, job.batch)]
        command += ["--steps", str(steps), "--warm-steps", str(case.short_steps)]
        return _run(self, case, job, steps, command, {"RAYON_NUM_THREADS": "2"})


Peer = PyTorchThreads | Ddp | Dl4j | Burn


def at_variant(peer: Peer, variant: str) -> Peer:
    return replace(peer, variant=variant)


def pytorch_options(case: Case, job: Job, variant: str, batch: int) -> list[str | Path]:
    return ["--network", case.network, "--variant", variant, *_data_options(job, batch)]


def dl4j_options(job: Job, seed: int) -> list[str | Path]:
    options = _data_options(job, job.batch // 2)
    return options + ["--workers", "2", "--frequency", "3", "--prefetch", "24", "--seed", str(seed)]


def ddp_launches(python: Path, options: list[str | Path], log_name: str) -> list[Launch]:
    """One process for each rank; both may use both cores, as their threads of gloo want."""
    rendezvous = WORK / "output" / f"{log_name}.rendezvous"
    rendezvous.parent.mkdir(parents=True, exist_ok=True)
    rendezvous.unlink(missing_ok=True)
    launches = []
    for rank in range(PROCESSES):
        command = [python, DDP, *options, "--rank", str(rank), "--processes", str(PROCESSES)]
        command += ["--rendezvous", rendezvous]
        environment = PEER_ENVIRONMENT | {"GLOO_SOCKET_IFNAME": "lo"}
        launches.append(Launch(command, f"{log_name}-rank{rank}", environment, frozenset(two_cores())))
    return launches


def _data_options(job: Job, batch: int) -> list[str | Path]:
    options: list[str | Path] = ["--images", job.images, "--labels", job.labels, "--batch", str(batch)]
    return options + ["--learning-rate", str(job.learning_rate), "--momentum", str(job.momentum)]


def _run(
    peer: Peer, case: Case, job: Job, steps: int, command: list[str | Path], environment: Mapping[str, str]
) -> Finished:
    log_name = f"{case.name}-{peer.name}-{peer.variant}-{steps}"
    launch = Launch(command, log_name, environment, frozenset(two_cores()))
    return trained(peer.title, run_together([launch])[0], steps * job.batch)
