#!/usr/bin/env python3
"""A residual net on MNIST, by us and by PyTorch: from the same first weights, with the same updater, rates and batches.

PyTorch makes the first weights, and we read its file. Before anything is trained for long, three things are held against each other:
what both say of a batch at the beginning, what they say of it with weights and running statistics that are all different, and what
they say after three short epochs over the same batches in the same order, the last of an epoch a short one. Then both train on all of
MNIST, each in an order of its own.

Batch norm takes mean and variance of what a worker sees: one worker sees the whole batch, as PyTorch does. `--mode sync` adds four
workers with a quarter of it each.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn import functional

ROOT = Path(__file__).resolve().parent.parent
WIDTHS = [(16, 1), (32, 2), (32, 1), (64, 2), (64, 1)]  # of each block: filters, stride
STEM = 16
BATCH = 128
RATE, DECAY = 0.002, 0.5  # of Adam, and what it is times after every epoch
SYNC_WORKERS = 4
# Five batches of the same images in the same order, the last one short.
FEW, FEW_EPOCHS = 4 * BATCH + 60, 3
SEEN = 256  # images of which both say what they are
BAR = 0.1  # points
ADAM: dict[str, object] = {
    "adam": {
        "learning_rate": {"step": {"initial": RATE, "decay": DECAY, "every": 1, "per": "epoch"}},
        "beta1": 0.9,
        "beta2": 0.999,
        "epsilon": 1e-8,
    }
}
# Only for a few steps: Adam's first ones are as long for slopes that are nothing but rounding, Nesterov's are not.
SLOW = 0.01
NESTEROVS: dict[str, object] = {"nesterovs": {"learning_rate": SLOW, "momentum": 0.9}}


class Block(nn.Module):
    def __init__(self, inputs: int, filters: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(inputs, filters, 3, stride, padding=1, bias=False), nn.BatchNorm2d(filters)
        self.conv2, self.norm2 = nn.Conv2d(filters, filters, 3, padding=1, bias=False), nn.BatchNorm2d(filters)
        self.is_short = stride == 1 and inputs == filters
        if not self.is_short:
            self.conv3, self.norm3 = nn.Conv2d(inputs, filters, 1, stride, bias=False), nn.BatchNorm2d(filters)

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm2(self.conv2(torch.relu(self.norm1(self.conv1(x)))))
        return torch.relu(y + (x if self.is_short else self.norm3(self.conv3(x))))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem, self.norm = nn.Conv2d(1, STEM, 3, padding=1, bias=False), nn.BatchNorm2d(STEM)
        inputs, blocks = STEM, []
        for filters, stride in WIDTHS:
            blocks.append(Block(inputs, filters, stride))
            inputs = filters
        self.blocks, self.told = nn.Sequential(*blocks), nn.Linear(inputs, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.blocks(torch.relu(self.norm(self.stem(x))))
        return self.told(x.mean((2, 3)))


def network(updater: dict[str, object]) -> tuple[dict[str, object], dict[str, str]]:
    """The same for us, and what its layers are called in PyTorch."""
    layers: list[dict[str, object]] = []
    names: dict[str, str] = {}

    def conv(theirs: str, filters: int, kernel: int, stride: int, after: str) -> str:
        name = theirs.replace(".", "_")
        padding = [kernel // 2, kernel // 2]
        own = {"filters": filters, "kernel": [kernel, kernel], "stride": [stride, stride], "padding": padding, "bias": False}
        layers.append({"conv2d": own | {"name": name} | ({"after": after} if after else {})})
        names[name] = theirs
        return name

    def norm(theirs: str, activation: str, after: str) -> str:
        name = theirs.replace(".", "_")
        layers.append({"batch_norm": {"epsilon": 1e-5, "decay": 0.9, "activation": activation, "name": name, "after": after}})
        names[name] = theirs
        return name

    x, inputs = norm("norm", "relu", conv("stem", STEM, 3, 1, "")), STEM
    for at, (filters, stride) in enumerate(WIDTHS):
        of = f"blocks.{at}."
        y = norm(f"{of}norm1", "relu", conv(f"{of}conv1", filters, 3, stride, x))
        y = norm(f"{of}norm2", "identity", conv(f"{of}conv2", filters, 3, 1, y))
        if stride != 1 or inputs != filters:
            x = norm(f"{of}norm3", "identity", conv(f"{of}conv3", filters, 1, stride, x))
        layers.append({"element_wise": {"op": "add", "after": [y, x], "name": f"sum{at}"}})
        layers.append({"activation": {"function": "relu", "after": f"sum{at}", "name": f"block{at}"}})
        x, inputs = f"block{at}", filters
    layers.append({"global_pooling": {"pool": "average", "after": x}})
    layers.append({"output": {"units": 10, "activation": "softmax", "loss": "cross_entropy", "name": "told"}})
    names["told"] = "told"
    return {"input": {"image": [28, 28, 1]}, "updater": updater, "layers": layers}, names


class Bench:
    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.cache: Path = options.cache.resolve()
        self.folder: Path = options.output.resolve()
        self.folder.mkdir(parents=True, exist_ok=True)
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        parts = {"train": "train", "test": "t10k"}
        self.files = {part: [self.cache / "mnist" / f"{of}-{what}" for what in ("images-idx3-ubyte", "labels-idx1-ubyte")] for part, of in parts.items()}

    def read(self, part: str, device: torch.device) -> tuple[Tensor, Tensor]:
        images, labels = (np.fromfile(file, dtype=np.uint8) for file in self.files[part])
        pixels = torch.from_numpy(images[16:].reshape(-1, 1, 28, 28).copy())
        return pixels.to(device), torch.from_numpy(labels[8:].astype(np.int64)).to(device)

    def write_first(self, part: str, count: int) -> str:
        """The first examples of a part as files of their own."""
        images, labels = (file.read_bytes() for file in self.files[part])
        own = [self.folder / f"{part}-{count}-{what}.idx" for what in ("images", "labels")]
        own[0].write_bytes(struct.pack(">IIII", 0x803, count, 28, 28) + images[16 : 16 + count * 784])
        own[1].write_bytes(struct.pack(">II", 0x801, count) + labels[8 : 8 + count])
        return f"idx:{own[0]},{own[1]}"

    def paceline(
        self,
        name: str,
        weights: Path,
        data: dict[str, object],
        train: dict[str, object],
        updater: dict[str, object] = ADAM,
        freeze: bool = False,
    ) -> dict[str, object]:
        own, names = network(updater)
        transfer: dict[str, object] = {"from": str(weights), "layout": "pytorch", "names": names}
        if freeze:
            transfer["freeze"] = "told"
        job = self.folder / f"{name}.json"
        text = {"data": {"normaliser": "image"} | data, "network": own, "transfer": transfer, "train": train}
        job.write_text(json.dumps(text, indent=1))
        command = ["train", job, "--output", self.folder / name, "--overwrite", "--events", "json", "--offline", "--cache", self.cache]
        said = self.call(*command)
        events = [json.loads(line) for line in said.splitlines()]
        judged = [event["accuracy"] for event in events if event["event"] == "evaluation"]
        return events[-1] | {"judged": judged}

    def call(self, *command: object) -> str:
        words = [str(word) for word in (self.options.binary.resolve(), *command)]
        done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=self.folder)
        if done.returncode != 0:
            sys.exit(f"error: {' '.join(words)}: {done.stderr.strip()}")
        return done.stdout

    def says(self, name: str, data: str) -> Tensor:
        """What our model of a run says of the data."""
        told = self.folder / f"{name}.csv"
        self.call("predict", self.folder / name / "model.safetensors", "--data", data, "--output", told, "--offline", "--cache", self.cache)
        return torch.from_numpy(np.loadtxt(told, delimiter=",", skiprows=1, dtype=np.float32)[:, 1:])

    def weights(self, name: str, net: Net) -> Path:
        file = self.folder / f"{name}.safetensors"
        save_file({key: value.cpu().contiguous() for key, value in net.state_dict().items()}, file)
        return file

    def check(self) -> dict[str, float]:
        """The largest differences of probabilities, on the CPU on both sides."""
        cpu = torch.device("cpu")
        few, seen = self.write_first("train", FEW), self.write_first("test", SEEN)
        images, labels = self.read("train", cpu)
        images, labels = images[:FEW], labels[:FEW]
        looked_at = self.read("test", cpu)[0][:SEEN]
        found = {}
        one_worker = {"workers": 1, "mode": "solo", "evaluate": False}
        for name, is_shaken in (("begin", False), ("shaken", True)):
            net = first(0)
            if is_shaken:
                shake(net)
            self.paceline(name, self.weights(f"{name}-weights", net), {"train": few, "batch": BATCH}, one_worker | {"epochs": 1, "steps": 1}, freeze=True)
            found[name] = largest(self.says(name, seen), probabilities(net, looked_at))
        # What rounding alone comes to: the same in double precision.
        in_order = [torch.arange(FEW)] * FEW_EPOCHS
        data = {"train": few, "batch": BATCH, "shuffle": False}
        for name, updater, optimiser in (("nesterovs", NESTEROVS, nesterovs), ("adam", ADAM, adam)):
            self.paceline(name, self.weights(f"{name}-weights", first(0)), data, one_worker | {"epochs": FEW_EPOCHS}, updater)
            single, double = first(0), first(0).double()
            for net in (single, double):
                learn(net, images, labels, in_order, *optimiser(net), lambda: None)
            exact = probabilities(double, looked_at)
            found[f"{name}, after 15 steps"] = largest(self.says(name, seen), probabilities(single, looked_at))
            found[f"{name}, of double precision"] = largest(self.says(name, seen), exact)
            found[f"{name}, PyTorch of double precision"] = largest(probabilities(single, looked_at), exact)
        return found

    def ours(self, mode: str, seed: int) -> dict[str, object]:
        workers = 1 if mode == "solo" else SYNC_WORKERS
        data = {"train": "mnist:train", "test": "mnist:test", "batch": BATCH // workers, "seed": seed}
        train = {"epochs": self.options.epochs, "workers": workers, "mode": mode}
        weights = self.weights(f"{mode}-{seed}-weights", first(seed))
        finished = self.paceline(f"{mode}-{seed}", weights, data, train)
        own = {"side": f"paceline {mode}", "seed": seed} | {key: finished[key] for key in ("accuracy", "judged", "examples", "parameters", "seconds")}
        print(json.dumps(own), flush=True)
        return own

    def theirs(self, seed: int) -> dict[str, object]:
        began = time.monotonic()
        net = first(seed).to(self.device)
        images, labels = self.read("train", self.device)
        tests, wanted = self.read("test", self.device)
        generator = torch.Generator().manual_seed(seed)
        orders = [torch.randperm(len(labels), generator=generator).to(self.device) for _ in range(self.options.epochs)]
        judged: list[float] = []

        def judge() -> None:
            judged.append((probabilities(net, tests).argmax(1) == wanted).double().mean().item())

        examples = learn(net, images, labels, orders, *adam(net), judge)
        parameters = sum(p.numel() for p in net.parameters())
        own = {"side": "pytorch", "seed": seed, "accuracy": judged[-1], "judged": judged, "examples": examples, "parameters": parameters}
        own["seconds"] = time.monotonic() - began
        print(json.dumps(own), flush=True)
        return own


def first(seed: int) -> Net:
    torch.manual_seed(seed)
    return Net()


def shake(net: Net) -> None:
    """Weights that tell images apart, and other running statistics, gains and shifts than those at the beginning."""
    for module in net.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight)
        if isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.weight, 0.5, 1.5)
            nn.init.normal_(module.bias, std=0.2)
            nn.init.normal_(module.running_mean, std=0.2)
            nn.init.uniform_(module.running_var, 0.5, 1.5)
    nn.init.xavier_normal_(net.told.weight)


Schedule = torch.optim.lr_scheduler.LRScheduler


def adam(net: Net) -> tuple[torch.optim.Optimizer, Schedule]:
    optimiser = torch.optim.Adam(net.parameters(), lr=RATE, betas=(0.9, 0.999), eps=1e-8)
    return optimiser, torch.optim.lr_scheduler.StepLR(optimiser, step_size=1, gamma=DECAY)


def nesterovs(net: Net) -> tuple[torch.optim.Optimizer, Schedule]:
    optimiser = torch.optim.SGD(net.parameters(), lr=SLOW, momentum=0.9, nesterov=True)
    return optimiser, torch.optim.lr_scheduler.StepLR(optimiser, step_size=1, gamma=1.0)


def learn(
    net: Net,
    images: Tensor,
    labels: Tensor,
    orders: list[Tensor],
    optimiser: torch.optim.Optimizer,
    schedule: Schedule,
    after_epoch: Callable[[], None],
) -> int:
    examples = 0
    for order in orders:
        net.train()
        for chosen in order.split(BATCH):
            optimiser.zero_grad()
            functional.cross_entropy(net(scaled(net, images[chosen])), labels[chosen]).backward()
            optimiser.step()
            examples += len(chosen)
        schedule.step()
        after_epoch()
    return examples


def scaled(net: Net, pixels: Tensor) -> Tensor:
    return pixels.to(net.told.weight.dtype) / 255


@torch.inference_mode()
def probabilities(net: Net, images: Tensor) -> Tensor:
    net.eval()
    return torch.cat([functional.softmax(net(scaled(net, part)), 1) for part in images.split(1000)])


def largest(ours: Tensor, theirs: Tensor) -> float:
    return (ours - theirs).abs().max().item()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", type=Path, default=ROOT / "target" / "release" / "paceline")
    parser.add_argument("--cache", type=Path, required=True, help="where MNIST is kept")
    parser.add_argument("--output", type=Path, required=True, help="a folder for the runs and what they came to")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=2, help="runs of one worker side by side")
    parser.add_argument("--mode", action="append", choices=["solo", "sync"], help="how many workers we have (repeatable) [default: solo]")
    parser.add_argument("--sync-jobs", type=int, default=1, help="runs of four workers side by side")
    parser.add_argument("--only-check", action="store_true")
    options = parser.parse_args()
    torch.backends.cudnn.allow_tf32 = False  # as exact as ours
    bench = Bench(options)
    torch.set_num_threads(2)
    differences = bench.check()
    print(json.dumps(differences), flush=True)
    if max(differences["begin"], differences["shaken"]) > 1e-5:
        sys.exit(f"error: expected the same predictions of the same weights, found {differences}")
    if options.only_check:
        return
    seeds = range(options.seeds)
    # Each mode has its own places, so that one of them does not wait for the other.
    pools = {mode: ThreadPoolExecutor(options.jobs if mode == "solo" else options.sync_jobs) for mode in options.mode or ["solo"]}
    running = [pool.submit(bench.ours, mode, seed) for mode, pool in pools.items() for seed in seeds]
    rows = [bench.theirs(seed) for seed in seeds]
    rows += [run.result() for run in running]
    found = result(options, bench, differences, rows)
    (bench.folder / "results.json").write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps({key: found[key] for key in ("mean_accuracy", "points_from_pytorch", "bar_points")}, indent=1))


def result(options: argparse.Namespace, bench: Bench, differences: dict[str, float], rows: list[dict[str, object]]) -> dict[str, object]:
    by_side: dict[str, list[float]] = {}
    for row in rows:
        by_side.setdefault(str(row["side"]), []).append(float(row["accuracy"]))  # type: ignore[arg-type]
    means = {side: statistics.mean(found) for side, found in by_side.items()}
    spread = {side: statistics.stdev(found) if len(found) > 1 else math.nan for side, found in by_side.items()}
    theirs = torch.cuda.get_device_name() if bench.device.type == "cuda" else "CPU"
    return {
        "what": f"a residual net of {len(WIDTHS)} blocks on MNIST, {options.epochs} epochs, the same first weights, Adam, batch {BATCH}",
        "pytorch": f"{torch.__version__} on {theirs}, float32 without TF32",
        "largest difference of a probability": differences,
        "mean_accuracy": means,
        "deviation": spread,
        "points_from_pytorch": {side: 100 * (mean - means["pytorch"]) for side, mean in means.items() if side != "pytorch"},
        "bar_points": BAR,
        "runs": rows,
    }


if __name__ == "__main__":
    main()
