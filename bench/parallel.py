#!/usr/bin/env python3
"""Paceline with two workers against a peer on the same two cores. `bench/README.md` says how to read it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

if sys.version_info < (3, 11):
    sys.exit(f"error: expected Python 3.11 or later, found {sys.version.split()[0]}")

from harness.case import BENCH, BenchError, Case, read_job
from harness.child import two_cores
from harness.contest import as_json, compete, table
from harness.dataset import ensure_dataset
from harness.machine import describe, java_version, simd_flags, warn_if_busy
from harness.peers import Burn, Ddp, Dl4j, Peer, PyTorchThreads
from harness.tables import folder_for, keep
from harness.teams import MODES, Team
from harness.toolchain import (
    build_binary,
    build_burn,
    build_dl4j,
    burn_version,
    existing_binary,
    existing_venv,
    prepare_venv,
    say,
    shown,
)

REPEATS = 5
PEERS = ("pytorch", "ddp", "dl4j", "burn")
DEFAULT_PEERS = ("pytorch", "ddp")

# Importing torch wobbles by tenths of a second, so a long run takes each side about five seconds more than a short one.
CASES = (
    Case("lenet-b128", "lenet", short_steps=20, long_steps=360),
    Case("mlp-b128", "mlp", short_steps=40, long_steps=1040),
)

# The machine code of the Java side is ready only after its first steps; they belong to the short run.
DL4J_CASES = (Case("lenet-b128", "lenet", short_steps=60, long_steps=460),)


def main() -> None:
    options = parse_options()
    two_cores()  # fail before anything is built
    names = tuple(dict.fromkeys(options.peer or DEFAULT_PEERS))
    binary = existing_binary(options.binary) if options.binary else build_binary()
    peers, machine = prepare(names, binary, options.venv)
    warn_if_busy()
    repeats = 1 if options.quick else REPEATS
    teams = [Team(binary, mode) for mode in options.mode or MODES]

    folder = folder_for("-".join(["parallel", *names]), options.quick)
    contests = []
    for case in chosen_cases(options, names):
        job = read_job(case.job_file)
        if ensure_dataset(job):
            say(f"wrote `{shown(job.images)}`")
        contests.append(compete(case, job, teams, peers, repeats, set(options.skip_variant)))
        results = {"kind": "parallel", "machine": machine, "repeats": repeats, "networks": list(map(as_json, contests))}
        keep(folder, results, table(contests))  # after every network: a later failure must not cost the earlier ones

    print(table(contests), flush=True)
    say(f"kept in `{shown(folder)}`")


def prepare(names: tuple[str, ...], binary: Path, venv: Path | None) -> tuple[list[Peer], dict[str, object]]:
    """Build what the peers need, and say what the figures are taken on."""
    python = None
    if {"pytorch", "ddp"} & set(names):
        python = existing_venv(venv) if venv else prepare_venv(BENCH / ".venv")
    machine = describe(binary, python)
    peers: list[Peer] = []
    for name in names:
        if name == "pytorch":
            peers.append(PyTorchThreads(python))
        elif name == "ddp":
            peers.append(Ddp(python))
        elif name == "dl4j":
            build = build_dl4j(simd_flags())
            machine |= {"dl4j": build.version, "java": java_version()}
            peers.append(Dl4j(build))
        else:
            peers.append(Burn(build_burn()))
            machine |= {"burn": burn_version()}
    return peers, machine


def chosen_cases(options: argparse.Namespace, names: tuple[str, ...]) -> list[Case]:
    cases = DL4J_CASES if "dl4j" in names else CASES
    chosen = [case for case in cases if not options.only or case.name in options.only]
    if not chosen:
        raise BenchError(f"no network is left; with {', '.join(names)} there are {', '.join(c.name for c in cases)}")
    return [case.quick() for case in chosen] if options.quick else chosen


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="smoke run: few steps, one repeat, not kept")
    parser.add_argument(
        "--peer", action="append", choices=PEERS, help=f"against whom (repeatable; default {' and '.join(DEFAULT_PEERS)})"
    )
    parser.add_argument("--mode", action="append", choices=MODES, help="only this mode of ours (repeatable)")
    parser.add_argument("--only", action="append", choices=[c.name for c in CASES], help="only this network (repeatable)")
    parser.add_argument(
        "--skip-variant", action="append", default=[], help="leave out a variant of a peer, as the probe names it (repeatable)"
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
