#!/usr/bin/env python3
"""Paceline against PyTorch, one thread each, on this machine. `bench/README.md` says how to read it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

if sys.version_info < (3, 11):
    sys.exit(f"error: expected Python 3.11 or later, found {sys.version.split()[0]}")

from harness.case import BENCH, CASES, BenchError, Case, read_job
from harness.dataset import ensure_dataset
from harness.kernels import run_kernels
from harness.machine import describe, warn_if_busy
from harness.measure import Row, measure
from harness.mnist import export_whole_batches
from harness.report import keep, table
from harness.sides import ALL_VARIANTS, Ours
from harness.tables import folder_for
from harness.toolchain import build_binary, existing_binary, existing_venv, prepare_venv, say, shown

REPEATS = 5


def main() -> None:
    options = parse_options()
    python = existing_venv(options.venv) if options.venv else prepare_venv(BENCH / ".venv")
    binary = existing_binary(options.binary) if options.binary else build_binary()
    warn_if_busy()
    machine = describe(binary, python)
    repeats = 1 if options.quick else REPEATS

    # A smoke run proves nothing, so it does not go among the kept results.
    folder = folder_for("", options.quick)
    rows: list[Row] = []
    for case in chosen_cases(options):
        job = read_job(case.job_file)
        if case.is_mnist:
            export_whole_batches(binary)
        elif ensure_dataset(job):
            say(f"wrote `{shown(job.images)}`")
        rows.append(measure(case, job, Ours(binary), python, repeats, set(options.skip_variant)))
        keep(folder, machine, rows, repeats)  # after every network: a later failure must not cost the earlier ones

    print(table(rows), flush=True)
    if not options.quick:
        run_kernels(folder)
    say(f"kept in `{shown(folder)}`")


def chosen_cases(options: argparse.Namespace) -> list[Case]:
    cases = [case for case in CASES if not options.only or case.name in options.only]
    return [case.quick() for case in cases] if options.quick else cases


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="smoke run: few steps, one repeat, not kept")
    parser.add_argument(
        "--only", action="append", choices=[case.name for case in CASES], help="only this network (repeatable)"
    )
    parser.add_argument(
        "--skip-variant", action="append", default=[], choices=ALL_VARIANTS, help="leave out a variant of PyTorch"
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
