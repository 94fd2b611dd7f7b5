"""The twenty-line LeNet of the Python package against the command line, on MNIST with the same settings: pairs one after the other.

Needs the wheel (`make wheel`), `cargo build --release` and MNIST in the cache: target/python/bin/python bench/python_speed.py
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import paceline as pl
from spark import lenet

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = ROOT / "target" / "release" / "paceline"
JOB = ROOT / "examples" / "lenet-mnist.toml"


def by_command(folder: str) -> tuple[float, dict[str, Any]]:
    command = [PROGRAM, "train", JOB, "--output", folder, "--events", "json"]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    speed = next(event["examples_per_second"] for event in map(json.loads, lines) if event["event"] == "finished")
    return speed, pl.Model.load(f"{folder}/model.safetensors").parameters()


def by_python(arrays: dict[str, Any]) -> tuple[float, dict[str, Any]]:
    outcome = pl.Trainer(lenet(0.03), epochs=2, global_batch=128, progress=False).fit(arrays["train"], arrays["test"])
    return next(event["examples_per_second"] for event in outcome.events if event.kind == "finished"), outcome.model.parameters()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--output", type=Path)
    asked = parser.parse_args()
    arrays: dict[str, Any] = {}
    for part in ("train", "test"):
        data = pl.Data.open(f"mnist:{part}")
        arrays[part] = (data.features().reshape(-1, 28, 28, 1).astype(np.uint8), data.targets())
    speeds: dict[str, list[float]] = {"command": [], "python": []}
    is_same = True
    for _ in range(asked.pairs):
        with tempfile.TemporaryDirectory() as folder:
            speed, theirs = by_command(folder)
        speeds["command"].append(speed)
        speed, ours = by_python(arrays)
        speeds["python"].append(speed)
        is_same &= all(ours[name].tobytes() == numbers.tobytes() for name, numbers in theirs.items())
        print({name: round(values[-1]) for name, values in speeds.items()}, "the same bits" if is_same else "OTHER BITS", flush=True)
    ratio = statistics.median(p / c for p, c in zip(speeds["python"], speeds["command"], strict=True))
    results = {"examples_per_second": speeds, "speed_of_python": round(ratio, 3), "same_bits": is_same}
    print(json.dumps(results))
    if asked.output is not None:
        asked.output.mkdir(parents=True, exist_ok=True)
        (asked.output / "results.json").write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
