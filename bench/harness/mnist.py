"""Real MNIST as IDX files that all sides read, and what the example jobs say of the training."""

from __future__ import annotations

import struct
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

from .case import ROOT, WORK, BenchError
from .toolchain import say

QUICK_TRAIN, QUICK_TEST = 1280, 1000
WHOLE_BATCHES = 468 * 128


@dataclass(frozen=True)
class Mnist:
    """The four files."""

    train_images: Path
    train_labels: Path
    test_images: Path
    test_labels: Path
    train_examples: int

    def settings(self) -> list[str]:
        """What lays these files over the source of a job."""
        return [
            "--set",
            f"data.train=idx:{self.train_images},{self.train_labels}",
            "--set",
            f"data.test=idx:{self.test_images},{self.test_labels}",
            "--set",
            "data.normaliser=image",
        ]


@dataclass(frozen=True)
class Rates:
    """What the peers take over from an example job, so that it is written once."""

    batch: int
    learning_rate: float
    momentum: float


def export_mnist(binary: Path, quick: bool) -> Mnist:
    """All of MNIST; for a smoke run, the first thousand or so."""
    files = []
    for part, count in (("train", QUICK_TRAIN), ("test", QUICK_TEST)):
        folder = WORK / f"mnist-{part}"
        images, labels = folder / "features.idx", folder / "labels.idx"
        if not (images.exists() and labels.exists()):
            say(f"exporting MNIST to `{folder.relative_to(ROOT)}`")
            done = subprocess.run([binary, "data", "export", f"mnist:{part}", folder], cwd=ROOT, stdout=sys.stderr)
            if done.returncode != 0:
                raise BenchError(f"`paceline data export mnist:{part}` failed with exit status {done.returncode}")
        files += [first_examples(path, count) if quick else path for path in (images, labels)]
    return Mnist(*files, train_examples=_count(files[1]))


def export_whole_batches(binary: Path) -> None:
    """The training examples less the last few, so that a number of steps is a number of examples."""
    whole = export_mnist(binary, quick=False)
    for path in (whole.train_images, whole.train_labels):
        first_examples(path, WHOLE_BATCHES)


def read_rates(job_file: Path) -> Rates:
    try:
        job = tomllib.loads(job_file.read_text())
        nesterovs = job["network"]["updater"]["nesterovs"]
        return Rates(job["data"]["global_batch"], nesterovs["learning_rate"], nesterovs["momentum"])
    except KeyError as error:
        raise BenchError(f"`{job_file.relative_to(ROOT)}` lacks the key {error}, which the peers need") from error


def _count(path: Path) -> int:
    with path.open("rb") as file:
        return struct.unpack(">4xI", file.read(8))[0]


def first_examples(path: Path, count: int) -> Path:
    """The first examples of an IDX file: the count in the header, and fewer bytes."""
    whole = path.read_bytes()
    header = 4 + 4 * whole[3]
    size = (len(whole) - header) // struct.unpack_from(">I", whole, 4)[0]
    cut = path.with_stem(f"{path.stem}-{count}")
    cut.write_bytes(whole[:4] + struct.pack(">I", count) + whole[8:header] + whole[header : header + count * size])
    return cut
