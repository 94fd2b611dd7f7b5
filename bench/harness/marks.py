"""Time to a test accuracy, from the start of the process, by the moments at which the lines with the judgements come."""

from __future__ import annotations

import math
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from .case import ROOT, WORK
from .child import Launch, run_together, two_cores
from .mnist import Mnist, Rates
from .peers import PROCESSES, ddp_launches
from .sides import PEER, PEER_ENVIRONMENT
from .tables import markdown, verdict
from .teams import MODES, WORKERS
from .toolchain import Dl4jBuild, say

MARKS = (0.985, 0.99)
BAR = 2.0  # to the last mark in less than half the time of the best peer
OURS = tuple(f"paceline-{mode}" for mode in (*MODES, "solo"))
LENET_JOB = ROOT / "examples" / "lenet-mnist.toml"


@dataclass(frozen=True)
class Track:
    """What the sides run on."""

    binary: Path
    python: Path | None
    dl4j: Dl4jBuild | None
    mnist: Mnist
    rates: Rates
    epochs: int
    variant: str  # of PyTorch


@dataclass
class Lap:
    """One run of one side with one seed."""

    seed: int
    judgements: list[dict[str, float]] = field(default_factory=list)  # seconds, epoch, accuracy
    first_step_seconds: float | None = None  # only ours tells
    peak_mib: float = 0.0
    examples_per_second: float = 0.0  # of the whole run: start and judgements are in it

    def seconds_to(self, mark: float) -> float:
        """Infinite if the mark was never reached."""
        return next((one["seconds"] for one in self.judgements if one["accuracy"] >= mark), math.inf)

    @property
    def best(self) -> float:
        return max((one["accuracy"] for one in self.judgements), default=0.0)


def race(track: Track, sides: Sequence[str], seeds: Sequence[int]) -> dict[str, list[Lap]]:
    """All sides with one seed, then all with the next; each starts first in turn."""
    laps: dict[str, list[Lap]] = {side: [] for side in sides}
    for number, seed in enumerate(seeds):
        turn = number % len(sides)
        for side in [*sides[turn:], *sides[:turn]]:
            lap = run_lap(track, side, seed)
            laps[side].append(lap)
            marks = ", ".join(f"{mark:.1%} after {shown_seconds(lap.seconds_to(mark))}" for mark in MARKS)
            say(f"seed {seed}, {side}: {marks}; {len(lap.judgements)} epochs, best {lap.best:.2%}")
    return laps


def run_lap(track: Track, side: str, seed: int) -> Lap:
    """Run until the last mark is reached or the epochs are over; all sides are ended in the same way."""
    lap = Lap(seed)

    def enough(seconds: float, event: dict[str, object]) -> bool:
        if event["event"] == "step" and lap.first_step_seconds is None:
            lap.first_step_seconds = seconds
        if event["event"] == "evaluation":
            accuracy = float(event["accuracy"])
            lap.judgements.append({"seconds": seconds, "epoch": event["epoch"], "accuracy": accuracy})
            return accuracy >= MARKS[-1]
        return False

    finished = run_together(launches(track, side, seed), enough)
    lap.peak_mib = sum(one.peak_mib for one in finished)
    if lap.judgements:
        lap.examples_per_second = track.mnist.train_examples * len(lap.judgements) / lap.judgements[-1]["seconds"]
    return lap


def launches(track: Track, side: str, seed: int) -> list[Launch]:
    cores = frozenset(two_cores())
    mnist, rates = track.mnist, track.rates
    log_name = f"marks-{side}-{seed}"
    if side in OURS:
        mode = side.removeprefix("paceline-")
        workers = 1 if mode == "solo" else WORKERS
        settings = [*mnist.settings(), "--set", f"data.global_batch={rates.batch}", "--set", f"train.epochs={track.epochs}"]
        return [Launch(train_job(track.binary, LENET_JOB, mode, workers, seed, settings), log_name, cores=cores)]

    batch = rates.batch if side == "pytorch" else rates.batch // PROCESSES
    options: list[str | Path] = ["--images", mnist.train_images, "--labels", mnist.train_labels, "--batch", str(batch)]
    options += ["--test-images", mnist.test_images, "--test-labels", mnist.test_labels, "--epochs", str(track.epochs)]
    options += ["--learning-rate", str(rates.learning_rate), "--momentum", str(rates.momentum), "--seed", str(seed)]
    if side == "dl4j":
        command = track.dl4j.command(track.dl4j.natives[0]) + options
        command += ["--workers", "2", "--frequency", "3", "--prefetch", "24"]
        return [Launch(command, log_name, {}, cores)]
    options += ["--network", "lenet", "--variant", track.variant]
    if side == "ddp":
        return ddp_launches(track.python, options, log_name)
    command = [track.python, PEER, *options, "--threads", "2"]
    return [Launch(command, log_name, PEER_ENVIRONMENT | {"OMP_NUM_THREADS": "2", "MKL_NUM_THREADS": "2"}, cores)]


def train_job(
    binary: Path, job_file: Path, mode: str, workers: int, seed: int, settings: Sequence[str]
) -> list[str | Path]:
    """`paceline train` of an example job; the order of the examples follows the network's seed."""
    output = WORK / "output" / f"{job_file.stem}-{mode}-{workers}"
    shutil.rmtree(output, ignore_errors=True)
    command: list[str | Path] = [binary, "train", job_file, "--mode", mode, "--workers", str(workers)]
    return command + ["--set", f"network.seed={seed}", *settings, "--output", output, "--events", "json"]


def table(laps: dict[str, list[Lap]]) -> str:
    header = ("side", *(f"to {mark:.1%}" for mark in MARKS), "against the best peer", "bar", "", "epochs", "examples/s", "peak MiB")
    rows = []
    for side, runs in laps.items():
        ratio = lead(laps, side) if side in OURS else None
        rows.append((
            side,
            *(shown_seconds(median_seconds(runs, mark)) for mark in MARKS),
            "–" if ratio is None else f"{ratio:.2f} ×",
            "–" if ratio is None else f"{BAR:.1f} ×",
            "" if ratio is None else verdict(ratio, BAR, len(runs)),
            f"{median(len(lap.judgements) for lap in runs):.0f}",
            f"{median(lap.examples_per_second for lap in runs):,.0f}",
            f"{max(lap.peak_mib for lap in runs):.0f}",
        ))
    lines = [markdown(header, rows), "", f"Seconds to {MARKS[-1]:.0%} by seed:", ""]
    for side, runs in laps.items():
        lines.append(f"- {side}: {', '.join(shown_seconds(lap.seconds_to(MARKS[-1])) for lap in runs)}")
    return "\n".join(lines)


def peers_of(laps: dict[str, list[Lap]]) -> list[str]:
    return [side for side in laps if side not in OURS]


def lead(laps: dict[str, list[Lap]], side: str) -> float | None:
    """The best peer's time to the last mark over ours: 0 if we never reach it, none if no peer does."""
    best = min((median_seconds(laps[peer], MARKS[-1]) for peer in peers_of(laps)), default=math.inf)
    ours = median_seconds(laps[side], MARKS[-1])
    if math.isinf(ours):
        return 0.0
    return best / ours if math.isfinite(best) else None


def median_seconds(runs: Sequence[Lap], mark: float) -> float:
    return median(lap.seconds_to(mark) for lap in runs)


def shown_seconds(seconds: float) -> str:
    return f"{seconds:.1f} s" if math.isfinite(seconds) else "never"


def as_json(laps: dict[str, list[Lap]]) -> list[dict[str, object]]:
    """JSON knows no infinity: never is null."""

    def known(seconds: float) -> float | None:
        return seconds if math.isfinite(seconds) else None

    return [
        {
            "side": side,
            "seconds_to": {str(mark): known(median_seconds(runs, mark)) for mark in MARKS},
            "lead": lead(laps, side) if side in OURS else None,
            "examples_per_second": median(lap.examples_per_second for lap in runs),
            "peak_mib": max(lap.peak_mib for lap in runs),
            "runs": [vars(lap) for lap in runs],
        }
        for side, runs in laps.items()
    ]
