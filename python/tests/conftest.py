"""What several tests need: the digits that are part of the program, as arrays."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import paceline as pl


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Every test has a folder of its own, and uses as many cores as it says."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    yield tmp_path


@pytest.fixture(scope="session")
def digits() -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Images of 8 × 8 from 0 to 16, and what they show, for training and for the test."""
    parts = [pl.Data.open(f"digits:{part}") for part in ("train", "test")]
    return tuple((part.features(), part.targets().astype(int)) for part in parts)


def small(**settings: object) -> pl.Network:
    """A network for the digits that is trained in a moment."""
    settings = {"updater": pl.adam(0.005), **settings}
    return pl.Network([pl.layers.dense(32, activation="relu"), pl.layers.output(10)], input=pl.image(8, 8), **settings)
