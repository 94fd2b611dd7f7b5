#!/usr/bin/env python3
"""How soon a test accuracy is reached on MNIST, and what accuracy is. `bench/README.md` says how to read it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

if sys.version_info < (3, 11):
    sys.exit(f"error: expected Python 3.11 or later, found {sys.version.split()[0]}")

from harness import classes, examples, marks
from harness.case import BENCH, BenchError
from harness.child import two_cores
from harness.machine import describe, java_version, simd_flags, warn_if_busy
from harness.mnist import export_mnist, read_rates
from harness.tables import folder_for, keep
from harness.toolchain import build_binary, build_dl4j, existing_binary, existing_venv, prepare_venv, say, shown

SEEDS = (123, 124, 125, 126, 127)
CLASSES_EPOCHS = 5
EPOCHS = 10  # the race of a side ends at the last mark; this is for those that never reach it
PEERS = ("pytorch", "ddp", "dl4j")
DEFAULT_SIDES = ("paceline-sync", "paceline-averaging", "paceline-shared", "pytorch", "ddp")


def main() -> None:
    options = parse_options()
    two_cores()  # fail before anything is built
    binary = existing_binary(options.binary) if options.binary else build_binary()
    warn_if_busy()
    if options.matrix:
        take_matrix(options, binary)
    elif options.classes:
        take_classes(options, binary)
    else:
        take_marks(options, binary)


def take_matrix(options: argparse.Namespace, binary: Path) -> None:
    mnist = export_mnist(binary, options.quick)
    seeds = examples.SEEDS[:1] if options.quick else examples.SEEDS
    cells = examples.run_matrix(binary, mnist, seeds)
    text = examples.matrix_table(cells, len(seeds))
    folder = folder_for("matrix", options.quick)
    results = {"kind": "matrix", "machine": describe(binary, None), "seeds": list(seeds)}
    keep(folder, results | {"cells": examples.matrix_json(cells)}, text)
    print(text, flush=True)
    say(f"kept in `{shown(folder)}`")


def take_classes(options: argparse.Namespace, binary: Path) -> None:
    dealt = classes.deal(export_mnist(binary, options.quick))
    seeds = examples.SEEDS[:1] if options.quick else examples.SEEDS
    rows = classes.measure(binary, dealt, CLASSES_EPOCHS, seeds)
    text = classes.table(rows, CLASSES_EPOCHS)
    folder = folder_for("classes", options.quick)
    results = {"kind": "classes", "machine": describe(binary, None), "seeds": list(seeds), "epochs": CLASSES_EPOCHS}
    keep(folder, results | {"rows": rows}, text)
    print(text, flush=True)
    say(f"kept in `{shown(folder)}`")


def take_marks(options: argparse.Namespace, binary: Path) -> None:
    sides = tuple(dict.fromkeys(options.side or DEFAULT_SIDES))
    python = None
    if {"pytorch", "ddp"} & set(sides):
        python = existing_venv(options.venv) if options.venv else prepare_venv(BENCH / ".venv")
    dl4j = build_dl4j(simd_flags()) if "dl4j" in sides else None
    machine = describe(binary, python) | ({"dl4j": dl4j.version, "java": java_version()} if dl4j else {})
    mnist = export_mnist(binary, options.quick)
    rates = read_rates(marks.LENET_JOB)
    seeds = SEEDS[:1] if options.quick else SEEDS
    epochs = 2 if options.quick else EPOCHS

    track = marks.Track(binary, python, dl4j, mnist, rates, epochs, options.variant)
    folder = folder_for("accuracy", options.quick)
    jobs = examples.solo_examples(binary, mnist.settings() if options.quick else [])
    laps = marks.race(track, sides, seeds)
    text = f"{marks.table(laps)}\n\n{examples.examples_table(jobs, len(seeds))}"
    results = {"kind": "accuracy", "machine": machine, "seeds": list(seeds), "epochs": epochs, "variant": options.variant}
    solo = {name: vars(lap) for name, lap in jobs.items()}
    keep(folder, results | {"race": marks.as_json(laps), "examples": solo}, text)
    print(text, flush=True)
    say(f"kept in `{shown(folder)}`")


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="smoke run: a thousand images, one seed, not kept")
    parser.add_argument("--matrix", action="store_true", help="instead: accuracy of every mode with 1, 2 and 4 workers")
    parser.add_argument("--classes", action="store_true", help="instead: two workers of which each sees half of the classes")
    parser.add_argument(
        "--side", action="append", choices=[*marks.OURS, *PEERS], help="only this side (repeatable; `dl4j` only on demand)"
    )
    parser.add_argument(
        "--variant", choices=("eager", "channels-last"), default="channels-last", help="of PyTorch; see bench/README.md"
    )
    parser.add_argument("--binary", type=Path, help="use this `paceline` instead of building one")
    parser.add_argument("--venv", type=Path, help="use this venv with torch and numpy instead of making one")
    return parser.parse_args()


if __name__ == "__main__":
    try:
        main()
    except BenchError as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
