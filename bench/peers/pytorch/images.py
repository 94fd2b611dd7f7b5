"""Images as bytes in memory, and batches of them."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor


def read_idx(path: Path) -> Tensor:
    """Read an IDX file of unsigned bytes: two zeros, type 8, the rank, sizes (big-endian u32), bytes."""
    with path.open("rb") as file:
        magic = file.read(4)
        if len(magic) != 4 or magic[:3] != b"\0\0\x08":
            sys.exit(f"error: `{path}` is no IDX file of bytes: expected magic 00 00 08, found {magic.hex(' ')}")
        shape = np.frombuffer(file.read(4 * magic[3]), dtype=">u4").astype(int).tolist()
        values = np.fromfile(file, dtype=np.uint8)
    if values.size != math.prod(shape):
        sys.exit(f"error: `{path}` promises {math.prod(shape)} bytes, found {values.size}")
    return torch.from_numpy(values.reshape(shape))


def read_images(path: Path, channels_last: bool) -> Tensor:
    """Images as bytes, in the order in which the variant wants them in memory: n×h×w×c or n×c×h×w."""
    images = read_idx(path)
    if images.dim() == 3:
        images = images.unsqueeze(-1)
    return images if channels_last else images.permute(0, 3, 1, 2).contiguous()


def batches_of(images: Tensor, labels: Tensor, order: Tensor, batch: int) -> Iterator[tuple[Tensor, Tensor]]:
    """The examples in this order; the last batch may be short. A batch is still bytes."""
    for chosen in order.split(batch):
        yield images.index_select(0, chosen), labels.index_select(0, chosen)


def endless_batches(images: Tensor, labels: Tensor, batch: int, part: slice) -> Iterator[tuple[Tensor, Tensor]]:
    """Full batches, reshuffled every epoch; `part` is what one of several processes takes of the common order."""
    while True:
        order = torch.randperm(len(labels))[part]
        yield from batches_of(images, labels, order[: len(order) // batch * batch], batch)
