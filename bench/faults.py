#!/usr/bin/env python3
"""What faults do to a run of real processes: workers and masters that stop or die, hosts that lose each other, strangers.

`bench/README.md` says how to read it.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Callable
from pathlib import Path

if sys.version_info < (3, 11):
    sys.exit(f"error: expected Python 3.11 or later, found {sys.version.split()[0]}")

from harness.case import BenchError
from harness.faults import calm, garbage, old_master, partition, reset, restart, standby, stopped
from harness.faults.outcome import Outcome, shown as figure, table
from harness.faults.stage import Stage, TooShort
from harness.machine import describe, warn_if_busy
from harness.tables import folder_for, keep
from harness.toolchain import build_binary, existing_binary, say, shown

MODES = ("sync", "averaging", "shared")
ATTEMPTS = 3  # a run that ended before its fault was over is done again, twice as long

# By name, in turn; a case with variants stands in several lines of its table.
CASES: dict[str, tuple[Callable[..., Outcome], tuple[str, ...]]] = {
    "stopped": (stopped.run, ()),
    "reset": (reset.run, ()),
    "master": (restart.run, ()),
    "standby": (standby.run, ()),
    "old-master": (old_master.run, ()),
    "partition": (partition.run, partition.VARIANTS),
    "garbage": (garbage.run, ()),
}


def main() -> None:
    options = parse_options()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # end as after Ctrl-C, with nothing left behind
    binary = existing_binary(options.binary) if options.binary else build_binary()
    warn_if_busy()
    stage = Stage(binary, options.cache, options.quick)
    results = {"kind": "faults", "machine": describe(binary, None)}
    folder = folder_for("faults", options.quick)
    outcomes: list[Outcome] = []

    def take(outcome: Outcome) -> None:
        name = ", ".join(filter(None, [outcome.case, outcome.variant, outcome.mode]))
        told = outcome.trouble or ", ".join(f"{key}: {figure(value)}" for key, value in outcome.figures.items())
        say(f"{name}: {outcome.verdict}; {told}")
        outcomes.append(outcome)
        ordered = sorted(outcomes, key=lambda one: place(one.case))  # stable: modes stay in their turn
        # After every case: a later failure must not cost the earlier ones.
        keep(folder, results | {"cases": [one.as_json() for one in ordered]}, table(ordered))

    for mode in dict.fromkeys(options.mode or MODES):
        take(rehearse(stage, mode))
        for name in [name for name in CASES if not options.only or name in options.only]:
            run, variants = CASES[name]
            for variant in variants or ("",):
                take(attempt(stage, run, name, mode, variant))
    print(table(sorted(outcomes, key=lambda one: place(one.case))), flush=True)
    say(f"kept in `{shown(folder)}`")


def rehearse(stage: Stage, mode: str) -> Outcome:
    """A calm run says how many examples a second there are, and so how many epochs others need."""
    outcome = calm.run(stage, mode)
    stage.rates[mode] = float(outcome.figures["examples/s"])
    return outcome


def attempt(stage: Stage, run: Callable[..., Outcome], name: str, mode: str, variant: str) -> Outcome:
    """One case; a failure of it must not cost the others."""
    stage.longer = 1.0
    for _ in range(ATTEMPTS):
        try:
            return run(stage, mode, variant) if variant else run(stage, mode)
        except TooShort:
            stage.longer *= 2
            say(f"{name}, {mode}: the run ended before the fault was over; again with more epochs")
        except BenchError as error:
            return Outcome(name, mode, variant, trouble=str(error))
    return Outcome(name, mode, variant, trouble="the run always ended before the fault was over")


def place(case: str) -> int:
    return ["calm", *CASES].index(case)


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="smoke run: shorter faults, not kept")
    parser.add_argument("--only", action="append", choices=list(CASES), help="only this case (repeatable)")
    parser.add_argument("--mode", action="append", choices=MODES, help="only this mode (repeatable)")
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
