"""The PyTorch peer: trains one network for a number of steps, as fast as PyTorch can fairly go.

The data stays as bytes in memory; a batch is picked by shuffled indices and scaled to 0..1 when it
is needed, and the loss is read once, at the end. The last line on standard output is a JSON
`finished` event in the shape of ours.

The networks here and the job files in `bench/jobs/` describe the same amount of arithmetic; `bench/run.py`
stops when their parameter counts differ.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

VARIANTS = ("eager", "channels-last", "compile", "compile-channels-last")

Loss = Callable[[Tensor, Tensor], Tensor]


def lenet() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(1, 20, 5),
        nn.MaxPool2d(2, 2),
        nn.Conv2d(20, 50, 5),
        nn.MaxPool2d(2, 2),
        nn.Flatten(),
        nn.Linear(800, 500),
        nn.ReLU(inplace=True),
        nn.Linear(500, 10),
    )


def mlp() -> nn.Sequential:
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(784, 1000),
        nn.ReLU(inplace=True),
        nn.Linear(1000, 500),
        nn.ReLU(inplace=True),
        nn.Linear(500, 250),
        nn.ReLU(inplace=True),
        nn.Linear(250, 10),
    )


def untuned() -> nn.Sequential:
    def block(inputs: int, filters: int, stride: int) -> list[nn.Module]:
        # "same" at stride 2 pads only right and below, which PyTorch does by a copy; padding 1 gives
        # the same output size without that copy, so the peer gets the cheaper one.
        return [
            nn.Conv2d(inputs, filters, 3, stride, padding=1),
            nn.BatchNorm2d(filters),
            nn.ReLU(inplace=True),
        ]

    return nn.Sequential(
        *block(3, 17, 1),
        *block(17, 35, 2),
        *block(35, 51, 2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(51, 77),
        nn.ReLU(inplace=True),
        nn.Linear(77, 10),
    )


NETWORKS: dict[str, Callable[[], nn.Sequential]] = {"lenet": lenet, "mlp": mlp, "untuned": untuned}


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


def shuffled_batches(images: Tensor, labels: Tensor, batch: int, steps: int) -> Iterator[tuple[Tensor, Tensor]]:
    """`steps` full batches, reshuffled every epoch; a batch is still bytes."""
    per_epoch = len(labels) // batch
    for step in range(steps):
        start = step % per_epoch * batch
        if start == 0:
            order = torch.randperm(len(labels))
        chosen = order[start : start + batch]
        yield images.index_select(0, chosen), labels.index_select(0, chosen)


def build_model(network: str, channels_last: bool) -> nn.Module:
    model = NETWORKS[network]()
    for module in model.modules():
        if isinstance(module, (nn.Conv2d, nn.Linear)):
            nn.init.xavier_normal_(module.weight)
            nn.init.zeros_(module.bias)
    return model.to(memory_format=torch.channels_last) if channels_last else model


def build_loss(model: nn.Module, channels_last: bool, compiled: bool) -> Loss:
    def loss(pixels: Tensor, labels: Tensor) -> Tensor:
        if channels_last:
            pixels = pixels.permute(0, 3, 1, 2)  # a view: n×c×h×w in name, channels last in memory
        return functional.cross_entropy(model(pixels.float().mul_(1 / 255)), labels)

    return torch.compile(loss) if compiled else loss


def train(options: argparse.Namespace) -> dict[str, object]:
    channels_last = options.variant.endswith("channels-last")
    torch.manual_seed(123)
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)

    images = read_images(options.images, channels_last)
    labels = read_idx(options.labels).long()
    model = build_model(options.network, channels_last)
    loss_of = build_loss(model, channels_last, compiled=options.variant.startswith("compile"))
    # `fused` is the fastest of PyTorch's three SGD loops on a CPU.
    optimiser = torch.optim.SGD(
        model.parameters(), lr=options.learning_rate, momentum=options.momentum, nesterov=True, fused=True
    )

    warm_at = time.perf_counter()
    for step, (pixels, wanted) in enumerate(shuffled_batches(images, labels, options.batch, options.steps)):
        if step == options.warm_steps:
            warm_at = time.perf_counter()
        loss = loss_of(pixels, wanted)
        loss.backward()
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
    warm_seconds = time.perf_counter() - warm_at

    score = loss.item()
    if not math.isfinite(score):
        sys.exit(f"error: the loss is {score} after {options.steps} steps; the figures would mean nothing")
    return {
        "event": "finished",
        "examples": options.steps * options.batch,
        "score": score,
        "parameters": sum(p.numel() for p in model.parameters()),
        "own_clock_ms": 1000 * warm_seconds / max(1, options.steps - options.warm_steps),
    }


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--network", choices=NETWORKS, required=True)
    parser.add_argument("--variant", choices=VARIANTS, required=True)
    parser.add_argument("--images", type=Path, required=True, help="IDX file, n×h×w or n×h×w×c bytes")
    parser.add_argument("--labels", type=Path, required=True, help="IDX file, n bytes")
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--learning-rate", type=float, required=True)
    parser.add_argument("--momentum", type=float, required=True)
    parser.add_argument("--warm-steps", type=int, default=10, help="steps before its own clock starts (probe only)")
    return parser.parse_args()


if __name__ == "__main__":
    print(json.dumps(train(parse_options())))
