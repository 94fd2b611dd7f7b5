"""Training, for one process and for each of several: for a number of steps, or epoch by epoch with a judgement after each.

The data stays as bytes in memory; a batch is picked by shuffled indices and scaled to 0..1 when it is needed, and the loss is
read once, at the end.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import torch
from images import batches_of, endless_batches, read_idx, read_images
from networks import NETWORKS, build_model
from torch import Tensor, nn
from torch.nn import functional

VARIANTS = ("eager", "channels-last", "compile", "compile-channels-last")
TEST_BATCH = 1000

Loss = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Place:
    """Which of several processes this is, and how it wraps the model so that they stay one."""

    rank: int = 0
    processes: int = 1
    wrap: Callable[[nn.Module], nn.Module] = staticmethod(lambda model: model)

    @property
    def part(self) -> slice:
        return slice(self.rank, None, self.processes)


class Training:
    """A model, its data and its optimiser."""

    def __init__(self, options: argparse.Namespace, place: Place) -> None:
        torch.manual_seed(options.seed)  # the same everywhere: all processes draw the same order
        torch.set_num_threads(options.threads)
        torch.set_flush_denormal(True)
        self.options = options
        self.place = place
        self.channels_last = options.variant.endswith("channels-last")
        self.images = read_images(options.images, self.channels_last)
        self.labels = read_idx(options.labels).long()
        self.model = build_model(options.network, self.channels_last)
        self.wrapped = place.wrap(self.model)
        self.loss_of = self._loss(compiled=options.variant.startswith("compile"))
        # `fused` is the fastest of PyTorch's three SGD loops on a CPU.
        self.optimiser = torch.optim.SGD(
            self.model.parameters(), lr=options.learning_rate, momentum=options.momentum, nesterov=True, fused=True
        )

    def run(self) -> None:
        """Print JSON events; the last one is `finished`, in the shape of ours."""
        if self.options.epochs is None:
            loss, examples, own_clock_ms = self._steps()
        else:
            loss, examples = self._epochs()
            own_clock_ms = None
        score = loss.item()
        if not math.isfinite(score):
            sys.exit(f"error: the loss is {score} after {examples} examples; the figures would mean nothing")
        parameters = sum(p.numel() for p in self.model.parameters() if p.requires_grad)
        self._print(event="finished", examples=examples, score=score, parameters=parameters, own_clock_ms=own_clock_ms)

    def _steps(self) -> tuple[Tensor, int, float]:
        steps, warm_steps = self.options.steps, self.options.warm_steps
        batches = endless_batches(self.images, self.labels, self.options.batch, self.place.part)
        warm_at = time.perf_counter()
        for step, (pixels, wanted) in enumerate(islice(batches, steps)):
            if step == warm_steps:
                self._print(event="warm", step=step)
                warm_at = time.perf_counter()
            loss = self._step(pixels, wanted)
        own_clock_ms = 1000 * (time.perf_counter() - warm_at) / max(1, steps - warm_steps)
        return loss, steps * self.options.batch * self.place.processes, own_clock_ms

    def _epochs(self) -> tuple[Tensor, int]:
        test_images = read_images(self.options.test_images, self.channels_last)
        test_labels = read_idx(self.options.test_labels).long()
        for epoch in range(self.options.epochs):
            order = torch.randperm(len(self.labels))[self.place.part]
            for pixels, wanted in batches_of(self.images, self.labels, order, self.options.batch):
                loss = self._step(pixels, wanted)
            if self.place.rank == 0:
                accuracy = self._accuracy(test_images, test_labels)
                self._print(event="evaluation", epoch=epoch, accuracy=accuracy, loss=loss.item())
        return loss, self.options.epochs * len(self.labels)

    def _step(self, pixels: Tensor, wanted: Tensor) -> Tensor:
        loss = self.loss_of(pixels, wanted)
        loss.backward()
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
        return loss

    def _loss(self, compiled: bool) -> Loss:
        def loss(pixels: Tensor, labels: Tensor) -> Tensor:
            return functional.cross_entropy(self._scores(self.wrapped, pixels), labels)

        return torch.compile(loss) if compiled else loss

    def _scores(self, model: nn.Module, pixels: Tensor) -> Tensor:
        if self.channels_last:
            pixels = pixels.permute(0, 3, 1, 2)  # a view: n×c×h×w in name, channels last in memory
        return model(pixels.float().mul_(1 / 255))

    @torch.inference_mode()
    def _accuracy(self, images: Tensor, labels: Tensor) -> float:
        self.model.eval()
        right = 0
        for pixels, wanted in batches_of(images, labels, torch.arange(len(labels)), TEST_BATCH):
            right += (self._scores(self.model, pixels).argmax(1) == wanted).sum().item()
        self.model.train()
        return right / len(labels)

    def _print(self, **event: object) -> None:
        if self.place.rank == 0:
            print(json.dumps(event), flush=True)


def parser(description: str) -> argparse.ArgumentParser:
    """What both programs are told."""
    options = argparse.ArgumentParser(description=description)
    options.add_argument("--network", choices=NETWORKS, required=True)
    options.add_argument("--variant", choices=VARIANTS, required=True)
    options.add_argument("--images", type=Path, required=True, help="IDX file, n×h×w or n×h×w×c bytes")
    options.add_argument("--labels", type=Path, required=True, help="IDX file, n bytes")
    options.add_argument("--batch", type=int, required=True, help="of one process")
    options.add_argument("--learning-rate", type=float, required=True)
    options.add_argument("--momentum", type=float, required=True)
    options.add_argument("--threads", type=int, default=1)
    options.add_argument("--seed", type=int, default=123)
    options.add_argument("--warm-steps", type=int, default=10, help="steps before its own clock starts (probe only)")
    length = options.add_mutually_exclusive_group(required=True)
    length.add_argument("--steps", type=int)
    length.add_argument("--epochs", type=int, help="with a judgement on the test data after each")
    options.add_argument("--test-images", type=Path)
    options.add_argument("--test-labels", type=Path)
    return options
