"""The example jobs: what accuracy they end with, alone and in teams, and how soon the first step is taken."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean

from .case import ROOT, BenchError
from .child import Launch, run_together, two_cores
from .marks import Lap, train_job
from .mnist import Mnist
from .tables import markdown, verdict
from .teams import MODES
from .toolchain import say

EPOCHS = 3
SEEDS = (123, 124, 125)
WORKERS = (1, 2, 4)
ACCURACY_BARS = {"lenet-mnist": 0.985, "mlp-mnist": 0.975}
FIRST_STEP_BAR = 1.0  # seconds
BELOW_SOLO_BAR = 0.003  # of the mean accuracy


def run_example(
    binary: Path, name: str, mode: str, workers: int, seed: int, settings: Sequence[str], epochs: int = EPOCHS
) -> Lap:
    """The whole job on two cores, with the moments of its lines."""
    lap = Lap(seed)

    def watch(seconds: float, event: dict[str, object]) -> bool:
        if event["event"] == "step" and lap.first_step_seconds is None:
            lap.first_step_seconds = seconds
        if event["event"] == "evaluation":
            lap.judgements.append({"seconds": seconds, "epoch": event["epoch"], "accuracy": float(event["accuracy"])})
        return False

    command = train_job(binary, ROOT / "examples" / f"{name}.toml", mode, workers, seed, settings)
    command += ["--set", f"train.epochs={epochs}"]
    launch = Launch(command, f"{name}-{mode}-{workers}-{seed}", cores=frozenset(two_cores()))
    finished = run_together([launch], watch)[0]
    if len(lap.judgements) != epochs or lap.first_step_seconds is None:
        raise BenchError(f"expected a first step and {epochs} judgements of `{name}`, found {len(lap.judgements)}")
    lap.peak_mib = finished.peak_mib
    lap.examples_per_second = float(finished.event["examples_per_second"])  # by its own clock, judgements left out
    return lap


def solo_examples(binary: Path, quick: list[str]) -> dict[str, Lap]:
    """Each job as it stands, one worker; a smoke run lays small files over it."""
    laps = {}
    for name in ACCURACY_BARS:
        laps[name] = run_example(binary, name, "solo", 1, SEEDS[0], quick)
        say(f"{name}: {laps[name].judgements[-1]['accuracy']:.2%}, first step after {laps[name].first_step_seconds:.2f} s")
    return laps


def examples_table(laps: dict[str, Lap], repeats: int) -> str:
    header = (f"job, solo, {EPOCHS} epochs", "accuracy", "bar", "", "first step", "bar", "", "examples/s", "peak MiB")
    rows = []
    for name, lap in laps.items():
        accuracy, first = lap.judgements[-1]["accuracy"], lap.first_step_seconds
        rows.append((
            name,
            f"{accuracy:.4f}",
            f"{ACCURACY_BARS[name]:.3f}",
            verdict(accuracy, ACCURACY_BARS[name], repeats),
            f"{first:.2f} s",
            f"{FIRST_STEP_BAR:.0f} s",
            verdict(-first, -FIRST_STEP_BAR, repeats),
            f"{lap.examples_per_second:,.0f}",
            f"{lap.peak_mib:.0f}",
        ))
    return markdown(header, rows)


@dataclass(frozen=True)
class Cell:
    """One mode with a number of workers: the accuracy of every seed."""

    network: str
    mode: str
    workers: int
    accuracies: list[float] = field(default_factory=list)

    @property
    def mean(self) -> float:
        return mean(self.accuracies)


def run_matrix(binary: Path, mnist: Mnist, seeds: Sequence[int]) -> list[Cell]:
    """Solo first, then every mode with every number of workers, for every network."""
    cells = []
    for network in ACCURACY_BARS:
        for mode, workers in [("solo", 1), *((mode, workers) for mode in MODES for workers in WORKERS)]:
            cell = Cell(network, mode, workers)
            for seed in seeds:
                settings = [*mnist.settings(), "--set", "data.global_batch=128"]
                lap = run_example(binary, network, mode, workers, seed, settings)
                cell.accuracies.append(lap.judgements[-1]["accuracy"])
            cells.append(cell)
            say(f"{network}, {mode}, {workers} workers: mean {cell.mean:.4f}")
    return cells


def solo_of(cells: Sequence[Cell], network: str) -> Cell:
    return next(cell for cell in cells if cell.network == network and cell.mode == "solo")


def below_solo(cells: Sequence[Cell], cell: Cell) -> float:
    return solo_of(cells, cell.network).mean - cell.mean


def matrix_table(cells: Sequence[Cell], repeats: int) -> str:
    header = (f"{EPOCHS} epochs, global batch 128", "mode", "workers", "mean accuracy", "below solo, points", "bar", "", "seeds")
    rows = []
    for cell in cells:
        below = below_solo(cells, cell)
        solo = cell.mode == "solo"
        rows.append((
            cell.network,
            cell.mode,
            str(cell.workers),
            f"{cell.mean:.4f}",
            "–" if solo else f"{100 * below:.2f}",
            "–" if solo else f"{100 * BELOW_SOLO_BAR:.1f}",
            "" if solo else verdict(-below, -BELOW_SOLO_BAR, repeats),
            " ".join(f"{accuracy:.4f}" for accuracy in cell.accuracies),
        ))
    return markdown(header, rows)


def matrix_json(cells: Sequence[Cell]) -> list[dict[str, object]]:
    return [{**vars(cell), "mean": cell.mean, "below_solo": below_solo(cells, cell)} for cell in cells]
