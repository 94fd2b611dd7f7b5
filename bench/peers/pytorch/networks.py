"""The networks, as in the job files of `bench/jobs/`."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn


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


def build_model(network: str, channels_last: bool) -> nn.Module:
    model = NETWORKS[network]()
    for module in model.modules():
        if isinstance(module, (nn.Conv2d, nn.Linear)):
            nn.init.xavier_normal_(module.weight)
            nn.init.zeros_(module.bias)
    return model.to(memory_format=torch.channels_last) if channels_last else model
