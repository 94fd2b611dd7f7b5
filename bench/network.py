#!/usr/bin/env python3
"""Paceline and PyTorch DDP on two hosts, over a cable of several bandwidths. `bench/README.md` says how to read it."""

from __future__ import annotations

import argparse
import json
import signal
import sys
from dataclasses import replace
from pathlib import Path

if sys.version_info < (3, 11):
    sys.exit(f"error: expected Python 3.11 or later, found {sys.version.split()[0]}")

from harness.cable import BATCH, Ddp, Ours, Side
from harness.case import BENCH, ROOT, BenchError, Case, Job, read_job
from harness.child import two_cores
from harness.cluster import Cluster, Window
from harness.curves import draw
from harness.dataset import ensure_dataset
from harness.hosts import HOSTS, Bandwidth, Hosts, bandwidth
from harness.machine import describe, warn_if_busy
from harness.mnist import export_mnist, first_examples
from harness.network import as_json, measure, table
from harness.options import at_least_one
from harness.tables import folder_for, keep
from harness.toolchain import build_binary, existing_binary, existing_venv, prepare_venv, say, shown

REPEATS = 3
PICTURE = ROOT / "docs" / "network.svg"
BANDWIDTHS = ("unshaped", "1gbit", "100mbit")
CURVE = ("unshaped", "10gbit", "1gbit", "300mbit", "100mbit", "30mbit", "10mbit")

# Our modes, and for averaging how seldom, and whether workers go on meanwhile.
SIDES = (
    ("shared", None, False),
    ("averaging", 400, False),
    ("averaging", 100, True),
    ("averaging", 3, False),
    ("sync", None, False),
)
MODES = ("sync", "averaging", "shared")

# An epoch ends with a round, so it has as many steps as lie between two of the seldom averages.
EXAMPLES = 400 * HOSTS * BATCH
MNIST = Case("mlp-mnist-b128", "mlp", short_steps=0, long_steps=0)
RANDOM = Case("mlp-b128", "mlp", short_steps=0, long_steps=0)


def main() -> None:
    options = parse_options()
    if options.picture:
        options.output.write_text(draw(json.loads((options.picture / "results.json").read_text())))
        print(shown(options.output))
        return
    two_cores()  # fail before anything is built
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # end as after Ctrl-C, with nothing left behind
    with Hosts() as hosts:
        python = existing_venv(options.venv) if options.venv else prepare_venv(BENCH / ".venv")
        binary = existing_binary(options.binary) if options.binary else build_binary()
        compare(options, hosts, binary, python)


def compare(options: argparse.Namespace, hosts: Hosts, binary: Path, python: Path) -> None:
    machine = describe(binary, python)
    warn_if_busy()
    case, job = prepare(binary)
    seconds = 2.0 if options.quick else options.seconds
    repeats = 1 if options.quick else options.repeats
    ddp = Ddp(python, hosts, case, job, seconds).warm()
    cluster = Cluster(binary, hosts, case, job.images, job.labels, BATCH)
    chosen = [side for side in SIDES if not options.mode or side[0] in options.mode]
    ours = [Ours(cluster, Window(seconds), ddp.parameters, *side) for side in chosen]
    sides: list[Side] = [*ours, ddp]

    folder = folder_for("network", options.quick)
    results = {"kind": "network", "machine": machine, "repeats": repeats, "network": case.name}
    results |= {"parameters": ddp.parameters, "batch_of_each": BATCH, "seconds": seconds}
    for reaches in measure(bandwidths(options), hosts, sides, repeats):
        keep(folder, results | {"bandwidths": as_json(reaches)}, table(reaches))  # a later failure must not cost these
    print(table(reaches), flush=True)
    say(f"kept in `{shown(folder)}`")


def prepare(binary: Path) -> tuple[Case, Job]:
    """MNIST, or random bytes where it cannot be had; as many examples of it as an epoch has."""
    try:
        files = export_mnist(binary, quick=False)
        case, images, labels = MNIST, files.train_images, files.train_labels
    except BenchError as error:
        say(f"without MNIST this takes random bytes: {error}")
        case, job = RANDOM, read_job(RANDOM.job_file)
        ensure_dataset(job)
        images, labels = job.images, job.labels
    job = read_job(case.job_file)
    return case, replace(job, images=first_examples(images, EXAMPLES), labels=first_examples(labels, EXAMPLES))


def bandwidths(options: argparse.Namespace) -> list[Bandwidth]:
    return list(dict.fromkeys(options.rate or map(bandwidth, CURVE if options.curve else BANDWIDTHS)))


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="smoke run: two seconds each, one repeat, not kept")
    parser.add_argument("--curve", action="store_true", help=f"more bandwidths, for the picture: {', '.join(CURVE)}")
    which = f"only this bandwidth (repeatable; default {', '.join(BANDWIDTHS)})"
    parser.add_argument("--rate", action="append", type=bandwidth, help=which)
    parser.add_argument("--mode", action="append", choices=MODES, help="only this mode of ours (repeatable)")
    parser.add_argument("--repeats", type=at_least_one, default=REPEATS)
    parser.add_argument("--seconds", type=float, default=12.0, help="that each side is looked at in a repeat")
    parser.add_argument("--binary", type=Path, help="use this `paceline` instead of building one")
    parser.add_argument("--venv", type=Path, help="use this venv with torch and numpy instead of making one")
    parser.add_argument("--picture", type=Path, metavar="FOLDER", help="only draw what was kept there")
    parser.add_argument("--output", type=Path, default=PICTURE, help="the SVG file that `--picture` writes")
    return parser.parse_args()


if __name__ == "__main__":
    try:
        main()
    except BenchError as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
