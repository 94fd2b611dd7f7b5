"""Two workers of which one sees the digits 0 to 4 only and the other 5 to 9: what they know together, they have exchanged."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import mean

from .case import BenchError
from .examples import ACCURACY_BARS, run_example
from .mnist import Mnist
from .tables import markdown, verdict
from .teams import MODES, WORKERS
from .toolchain import say

BAR = 0.97
BATCH = 128


def deal(mnist: Mnist) -> Mnist:
    """The training examples in another order: of every batch the first half is low digits, the second half is high ones."""
    labels, images = mnist.train_labels.read_bytes(), mnist.train_images.read_bytes()
    (count,) = struct.unpack_from(">I", labels, 4)
    label_header, image_header = len(labels) - count, 4 + 4 * images[3]
    size = (len(images) - image_header) // count
    halves = [[at for at in range(count) if (labels[label_header + at] < 5) == low] for low in (True, False)]
    half = BATCH // WORKERS
    batches = min(map(len, halves)) // half
    if batches == 0:
        raise BenchError(f"expected {half} examples of low and of high digits, found {min(map(len, halves))}")
    order = [at for batch in range(batches) for of in halves for at in of[batch * half : (batch + 1) * half]]

    def write(path: Path, whole: bytes, header: int, size: int) -> Path:
        dealt = path.with_stem(f"{path.stem}-by-class")
        parts = (whole[header + at * size : header + (at + 1) * size] for at in order)
        dealt.write_bytes(whole[:4] + struct.pack(">I", len(order)) + whole[8:header] + b"".join(parts))
        return dealt

    train_images = write(mnist.train_images, images, image_header, size)
    train_labels = write(mnist.train_labels, labels, label_header, 1)
    return replace(mnist, train_images=train_images, train_labels=train_labels, train_examples=len(order))


def measure(binary: Path, dealt: Mnist, epochs: int, seeds: Sequence[int]) -> list[dict[str, object]]:
    settings = [*dealt.settings(), "--set", f"data.global_batch={BATCH}", "--set", "data.shuffle=false"]
    rows = []
    for network in ACCURACY_BARS:
        for mode in MODES:
            laps = [run_example(binary, network, mode, WORKERS, seed, settings, epochs) for seed in seeds]
            accuracies = [lap.judgements[-1]["accuracy"] for lap in laps]
            rows.append({"network": network, "mode": mode, "mean": mean(accuracies), "accuracies": accuracies})
            say(f"{network}, {mode}: mean {mean(accuracies):.4f} of {len(seeds)}")
    return rows


def table(rows: Sequence[dict[str, object]], epochs: int) -> str:
    header = (f"{epochs} epochs, global batch {BATCH}", "mode", "mean accuracy", "bar", "", "seeds")
    line = lambda row: (
        row["network"],
        row["mode"],
        f"{row['mean']:.4f}",
        f"{BAR}",
        verdict(row["mean"], BAR, len(row["accuracies"])),
        " ".join(f"{accuracy:.4f}" for accuracy in row["accuracies"]),
    )
    return markdown(header, [line(row) for row in rows])
