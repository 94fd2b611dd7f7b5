#!/usr/bin/env python3
"""A master and its workers on two cores, against one process and PyTorch DDP. `bench/README.md` says how to read it."""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path

if sys.version_info < (3, 11):
    sys.exit(f"error: expected Python 3.11 or later, found {sys.version.split()[0]}")

from harness.case import BENCH, BenchError, Case, read_job
from harness.child import two_cores
from harness.machine import describe, warn_if_busy
from harness.machines import CLUSTERS, as_json, measure, table
from harness.mnist import export_whole_batches
from harness.options import at_least_one
from harness.tables import folder_for, keep
from harness.toolchain import build_binary, existing_binary, existing_venv, prepare_venv, say, shown

REPEATS = 5
# Less than an epoch: nobody judges or saves in between.
CASES = (
    Case("lenet-mnist-b128", "lenet", short_steps=40, long_steps=460),
    Case("mlp-mnist-b128", "mlp", short_steps=40, long_steps=460),
)


def main() -> None:
    options = parse_options()
    two_cores()  # fail before anything is built
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # end as after Ctrl-C, with nothing left behind
    python = None
    if not options.no_peer:
        python = existing_venv(options.venv) if options.venv else prepare_venv(BENCH / ".venv")
    binary = existing_binary(options.binary) if options.binary else build_binary()
    folder = folder_for("cluster", options.quick)
    machine = describe(binary, python)
    warn_if_busy()
    repeats = 1 if options.quick else options.repeats
    export_whole_batches(binary)

    clusters = [cluster for cluster in CLUSTERS if not options.side or cluster.name in options.side]
    rows = []
    for case in [case for case in CASES if not options.only or case.name in options.only]:
        job = read_job(case.job_file)
        rows.append(measure(case.quick() if options.quick else case, job, binary, python, clusters, repeats))
        results = {"kind": "cluster", "machine": machine, "repeats": repeats, "networks": list(map(as_json, rows))}
        keep(folder, results, table(rows))  # after every network: a later failure must not cost the earlier ones

    print(table(rows), flush=True)
    say(f"kept in `{shown(folder)}`")


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="smoke run: few steps, one repeat, not kept")
    names = [cluster.name for cluster in CLUSTERS]
    parser.add_argument("--side", action="append", choices=names, help="only this cluster (repeatable)")
    parser.add_argument("--only", action="append", choices=[c.name for c in CASES], help="only this network (repeatable)")
    parser.add_argument("--no-peer", action="store_true", help="without PyTorch DDP")
    parser.add_argument("--repeats", type=at_least_one, default=REPEATS, help="runs of each side (default: %(default)s)")
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
