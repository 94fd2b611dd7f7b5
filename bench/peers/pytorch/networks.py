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


class Lstm(nn.Module):
    """The last step of an LSTM over the rows of an image."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(256, 256, batch_first=True)
        self.output = nn.Linear(256, 10)
        # A second bias says nothing that the first does not.
        nn.init.zeros_(self.lstm.bias_hh_l0)
        self.lstm.bias_hh_l0.requires_grad_(False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.output(self.lstm(x.flatten(1).reshape(-1, 128, 256))[0][:, -1])


class Block(nn.Module):
    """Two convolutions with a way around them."""

    def __init__(self, inputs: int, filters: int, stride: int) -> None:
        super().__init__()
        self.long = nn.Sequential(
            nn.Conv2d(inputs, filters, 3, stride, padding=1, bias=False),
            nn.BatchNorm2d(filters),
            nn.ReLU(inplace=True),
            nn.Conv2d(filters, filters, 3, 1, padding=1, bias=False),
            nn.BatchNorm2d(filters),
        )
        self.short = nn.Identity()
        if stride != 1:
            self.short = nn.Sequential(nn.Conv2d(inputs, filters, 1, stride, bias=False), nn.BatchNorm2d(filters))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu_(self.long(x) + self.short(x))


def residual() -> nn.Sequential:
    layers: list[nn.Module] = [nn.Conv2d(3, 32, 3, padding=1, bias=False), nn.BatchNorm2d(32), nn.ReLU(inplace=True)]
    inputs = 32
    for filters, blocks in [(32, 7), (64, 7), (128, 6)]:
        for at in range(blocks):
            layers.append(Block(inputs, filters, 2 if at == 0 and filters != 32 else 1))
            inputs = filters
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10))


NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "lenet": lenet,
    "mlp": mlp,
    "untuned": untuned,
    "lstm": Lstm,
    "residual": residual,
}


def build_model(network: str, channels_last: bool) -> nn.Module:
    model = NETWORKS[network]()
    for module in model.modules():
        if isinstance(module, (nn.Conv2d, nn.Linear)):
            nn.init.xavier_normal_(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
    return model.to(memory_format=torch.channels_last) if channels_last else model
