"""A session that trains all day: nothing grows."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import paceline as pl
from paceline.spark import PacelineClassifier


def held() -> dict[str, int]:
    """Memory in KiB, threads and descriptors of this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    memory = next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))
    return {"memory": memory, "threads": len(os.listdir("/proc/self/task")), "files": len(os.listdir("/proc/self/fd"))}


def test_ten_fits_with_two_networks_hold_no_more_than_two(digits_frame: Any) -> None:
    networks = [
        pl.Network(
            [pl.layers.dense(width, activation="relu"), pl.layers.output(10)],
            input=pl.feed_forward(64),
            updater=pl.adam(0.005),
            seed=7,
        )
        for width in (50, 300)
    ]
    seen = []
    for number in range(10):
        PacelineClassifier(network=networks[number % 2], numWorkers=2, epochs=5).fit(digits_frame)
        seen.append(held())
    assert seen[9]["memory"] <= seen[1]["memory"] + 20 * 1024, seen
    for what in ("threads", "files"):
        assert seen[9][what] <= seen[1][what], (what, seen)
