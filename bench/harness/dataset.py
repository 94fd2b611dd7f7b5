"""Seeded random bytes in IDX files: no pixel is like another, so that nobody gains by what they show."""

from __future__ import annotations

import math
import random
import struct
from collections.abc import Iterator
from pathlib import Path

from .case import Job

# By channels: about as many gray images as MNIST has and colour images as CIFAR-10 has, so that peak
# memory means something; whole batches, so that a number of steps is a number of examples.
EXAMPLES = {1: 468 * 128, 3: 781 * 64}
MOST_BYTES = 1 << 28
CLASSES = 10
CHUNK = 1 << 20


def ensure_dataset(job: Job) -> bool:
    """Make the files the job names; true when something had to be written."""
    height, width, channels = job.image_shape
    # Large images are fewer.
    most = MOST_BYTES // (height * width * channels)
    examples = min(EXAMPLES[channels], most // job.batch * job.batch)
    image_sizes = (examples, height, width) if channels == 1 else (examples, height, width, channels)
    pixels = random.Random(1)
    labels = random.Random(2)
    wrote_images = _ensure_idx(job.images, image_sizes, _random_chunks(pixels, math.prod(image_sizes)))
    wrote_labels = _ensure_idx(
        job.labels,
        (examples,),
        (bytes(value % CLASSES for value in chunk) for chunk in _random_chunks(labels, examples)),
    )
    return wrote_images or wrote_labels


def _random_chunks(generator: random.Random, count: int) -> Iterator[bytes]:
    # In chunks: a child's peak memory as the kernel reports it is never below that of this process.
    for start in range(0, count, CHUNK):
        yield generator.randbytes(min(CHUNK, count - start))


def _ensure_idx(path: Path, sizes: tuple[int, ...], chunks: Iterator[bytes]) -> bool:
    """Write an IDX file of bytes: two zeros, type 8, the rank, sizes (big-endian u32), bytes."""
    header = struct.pack(f">HBB{len(sizes)}I", 0, 8, len(sizes), *sizes)
    if path.exists() and path.stat().st_size == len(header) + math.prod(sizes):
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    with partial.open("wb") as file:
        file.write(header)
        file.writelines(chunks)
    partial.replace(path)
    return True
