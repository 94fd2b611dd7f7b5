"""The networks of the bench, and what the two sides must agree on."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BENCH = ROOT / "bench"
WORK = BENCH / ".work"


class BenchError(Exception):
    """Ends the bench with a sentence that says what was expected and what was found."""


@dataclass(frozen=True)
class Case:
    """One network. On one core ours must be `bar` times as fast as the peer."""

    name: str
    network: str  # the name in peers/pytorch/networks.py
    short_steps: int
    long_steps: int
    bar: float | None = None

    @property
    def job_file(self) -> Path:
        return BENCH / "jobs" / f"{self.name}.toml"

    @property
    def is_mnist(self) -> bool:
        """Whether it trains on MNIST rather than on random bytes."""
        return "mnist" in self.name

    @property
    def has_images(self) -> bool:
        """Whether the layout of channels in memory can matter."""
        return self.network not in ("mlp", "lstm")

    def quick(self) -> Case:
        return replace(self, short_steps=4, long_steps=24)


# Importing torch wobbles by tenths of a second, so a long run takes the peer about ten seconds more than a short one.
CASES = (
    Case("lenet-b128", "lenet", short_steps=20, long_steps=260, bar=2.0),
    Case("lenet-b32", "lenet", short_steps=50, long_steps=1050, bar=2.0),
    Case("mlp-b128", "mlp", short_steps=40, long_steps=1240, bar=1.3),
    Case("mlp-mnist-b128", "mlp", short_steps=40, long_steps=1240, bar=1.3),
    Case("untuned", "untuned", short_steps=30, long_steps=430, bar=1.2),
    Case("lstm", "lstm", short_steps=4, long_steps=44, bar=1.0),
    Case("residual", "residual", short_steps=3, long_steps=23, bar=1.3),
)


@dataclass(frozen=True)
class Job:
    """What the peer takes over from our job file, so that it is written once."""

    images: Path
    labels: Path
    image_shape: tuple[int, int, int]  # height, width, channels
    batch: int
    learning_rate: float
    momentum: float


def read_job(path: Path) -> Job:
    try:
        with path.open("rb") as file:
            job = tomllib.load(file)
        kind, _, spec = job["data"]["train"].partition(":")
        images, labels = spec.split(",")
        nesterovs = job["network"]["updater"]["nesterovs"]
        height, width, channels = job["network"]["input"]["image"]
        if kind != "idx" or job["data"]["normaliser"] != "image":
            raise ValueError("expected `idx:` data and the normaliser `image`")
        return Job(
            images=ROOT / images,
            labels=ROOT / labels,
            image_shape=(height, width, channels),
            batch=job["data"]["batch"],
            learning_rate=nesterovs["learning_rate"],
            momentum=nesterovs["momentum"],
        )
    except KeyError as error:
        raise BenchError(f"`{path.relative_to(ROOT)}` lacks the key {error}, which the peer needs") from error
    except (OSError, ValueError) as error:
        raise BenchError(f"`{path.relative_to(ROOT)}` is not a job of the bench: {error}") from error
