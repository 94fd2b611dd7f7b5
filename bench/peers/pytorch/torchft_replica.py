"""The torchft peer: one of several replicas that train one network together and go on when one of them is killed.

It prints a line for every step that was committed with its part in it: when that was, the step, and the places of its examples in
the data. What a replica takes follows from the number of the step, so that one that comes back goes on where the others are.
"""

from __future__ import annotations

import argparse
import json
import time
from datetime import timedelta
from pathlib import Path

import torch
from images import batches_of, read_idx, read_images
from networks import build_model
from torch.distributed import TCPStore
from torch.nn import functional
from torchft import DistributedDataParallel, Manager, Optimizer, ProcessGroupGloo

LIMIT = timedelta(seconds=5)  # as long as `paceline master` waits for one that is silent
PATIENCE = timedelta(seconds=60)
TEST_BATCH = 1000


def main() -> None:
    options = parse_options()
    torch.manual_seed(options.seed)
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    images, labels = read_images(options.images, channels_last=False), read_idx(options.labels).long()
    model = build_model("lenet", channels_last=False)
    store = TCPStore("localhost", 0, is_master=True, wait_for_workers=False)
    inner = torch.optim.SGD(model.parameters(), lr=options.learning_rate, momentum=0.9, nesterov=True)

    def load(state: dict) -> None:
        model.load_state_dict(state["model"])
        inner.load_state_dict(state["optimiser"])

    manager = Manager(
        pg=ProcessGroupGloo(timeout=LIMIT),
        load_state_dict=load,
        state_dict=lambda: {"model": model.state_dict(), "optimiser": inner.state_dict()},
        min_replica_size=1,
        timeout=LIMIT,
        quorum_timeout=PATIENCE,
        rank=0,
        world_size=1,
        store_addr="localhost",
        store_port=store.port,
        lighthouse_addr=options.lighthouse,
        replica_id=f"replica{options.replica}",
        hostname="localhost",
    )
    wrapped, optimiser = DistributedDataParallel(manager, model), Optimizer(manager, inner)
    steps_of_epoch = len(labels) // (options.batch * options.replicas)
    while (step := manager.current_step()) < options.epochs * steps_of_epoch:
        epoch, place = divmod(step, steps_of_epoch)
        order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(options.seed + epoch))
        first = (place * options.replicas + options.replica) * options.batch
        chosen = order[first : first + options.batch]
        optimiser.zero_grad()
        scores = wrapped(images.index_select(0, chosen).float().mul_(1 / 255))
        functional.cross_entropy(scores, labels.index_select(0, chosen)).backward()
        optimiser.step()
        # A replica that was given the state in this step took no part in it.
        if manager.current_step() == step + 1 and manager.is_participating():
            print(json.dumps({"event": "step", "at": time.monotonic(), "epoch": epoch, "step": step, "first": first}), flush=True)
    tests, wanted = read_images(options.test_images, channels_last=False), read_idx(options.test_labels).long()
    with torch.inference_mode():
        right = sum(
            (model(pixels.float().mul_(1 / 255)).argmax(1) == of).sum().item()
            for pixels, of in batches_of(tests, wanted, torch.arange(len(wanted)), TEST_BATCH)
        )
    print(json.dumps({"event": "finished", "accuracy": right / len(wanted)}), flush=True)
    manager.shutdown(wait=False)


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("images", "labels", "test-images", "test-labels"):
        parser.add_argument(f"--{name}", type=Path, required=True, help="an IDX file of bytes")
    parser.add_argument("--batch", type=int, required=True, help="of one replica")
    parser.add_argument("--epochs", type=int, required=True)
    parser.add_argument("--learning-rate", type=float, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--replica", type=int, required=True, help="which one this is, from 0")
    parser.add_argument("--replicas", type=int, required=True)
    parser.add_argument("--lighthouse", required=True, help="its address, http://…")
    return parser.parse_args()


if __name__ == "__main__":
    main()
