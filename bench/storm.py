#!/usr/bin/env python3
"""Everything at once, for ten minutes: what `bench/harness/faults/storm.py` does to a run, in every mode, three times.

`bench/README.md` says how to read it. It needs root.
"""

from __future__ import annotations

import argparse
import json
import math
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

if sys.version_info < (3, 11):
    sys.exit(f"error: expected Python 3.11 or later, found {sys.version.split()[0]}")

from harness.case import ROOT, BenchError
from harness.faults import calm, storm
from harness.faults.outcome import Outcome, shown as figure, table
from harness.faults.stage import GLOBAL_BATCH, JOB, Stage
from harness.machine import describe, warn_if_busy
from harness.tables import folder_for, keep
from harness.toolchain import build_binary, existing_binary, say, shown

MODES = ("sync", "averaging", "shared")
SLOWER = 0.5  # a run with so many faults takes about twice as long as a calm one


def main() -> None:
    options = parse_options()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # end as after Ctrl-C, with nothing left behind
    binary = existing_binary(options.binary) if options.binary else build_binary()
    warn_if_busy()
    stage = Stage(binary, options.cache, options.quick)
    results = {"kind": "storm", "machine": describe(binary, None)}
    folder = folder_for("storm", options.quick)
    outcomes: list[Outcome] = []
    for mode in dict.fromkeys(options.mode or MODES):
        stage.rates[mode] = float(calm.run(stage, mode).figures["examples/s"])
        epochs = stage.epochs(mode, SLOWER * options.seconds)
        alone = one_process(binary, options.cache, epochs)
        for seed in range(options.first_seed, options.first_seed + options.runs):
            try:
                outcome = storm.run(stage, mode, seed, options.seconds, epochs, alone)
                lasted = float(outcome.figures["storm, s"])
                if lasted < storm.WHOLE * options.seconds:
                    say(f"{mode}, seed {seed}: {epochs} epochs were over after {lasted:.0f} s; once more with more of them")
                    epochs = math.ceil(1.3 * epochs * options.seconds / lasted)
                    alone = one_process(binary, options.cache, epochs)
                    outcome = storm.run(stage, mode, seed, options.seconds, epochs, alone)
            except BenchError as error:
                outcome = Outcome("storm", mode, f"seed {seed}", trouble=str(error))
            told = outcome.trouble or ", ".join(f"{key}: {figure(value)}" for key, value in outcome.figures.items())
            say(f"{mode}, seed {seed}: {outcome.verdict}; {told}")
            for check in outcome.checks:
                if not check.holds:
                    say(f"  not so: {check.what}: {check.found}")
            outcomes.append(outcome)
            keep(folder, results | {"cases": [one.as_json() for one in outcomes]}, table(outcomes))
    print(table(outcomes), flush=True)
    say(f"kept in `{shown(folder)}`")


def one_process(binary: Path, cache: Path | None, epochs: int) -> float:
    """The accuracy of as many epochs in one process."""
    with tempfile.TemporaryDirectory() as output:
        command = [binary, "train", JOB, "--events", "json", "--output", output]
        command += ["--set", f"train.epochs={epochs}", "--set", f"data.global_batch={GLOBAL_BATCH}"]
        command += ["--cache", cache, "--offline"] if cache else []
        done = subprocess.run(list(map(str, command)), cwd=ROOT, capture_output=True, text=True)
    if done.returncode != 0:
        raise BenchError(f"one process failed: {done.stderr.strip()}")
    return float(json.loads(done.stdout.splitlines()[-1])["accuracy"])


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="smoke run, not kept")
    parser.add_argument("--mode", action="append", choices=MODES, help="only this mode (repeatable)")
    parser.add_argument("--seconds", type=float, default=600.0, help="how long the storm lasts")
    parser.add_argument("--runs", type=int, default=3, help="runs of each mode")
    parser.add_argument("--first-seed", type=int, default=1, help="the seed of the first run, the next has the next")
    parser.add_argument("--cache", type=Path, help="where MNIST is, for a machine without a network")
    parser.add_argument("--binary", type=Path, help="use this `paceline` instead of building one")
    return parser.parse_args()


if __name__ == "__main__":
    try:
        main()
    except BenchError as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
