"""The micro-benchmarks of our kernels, which print their own lines."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from .case import ROOT, BenchError
from .child import ONE_THREAD, pin_to_core
from .toolchain import say

SOURCE = ROOT / "crates" / "nn" / "benches" / "kernels.rs"
COMMAND = ["cargo", "bench", "-p", "paceline-nn", "--bench", "kernels"]


def run_kernels(folder: Path) -> None:
    """Run them on the pinned core and keep what they print; nothing happens where there are none yet."""
    if not SOURCE.exists():
        say("no kernel benchmarks yet")
        return
    say("kernel benchmarks: building")
    if subprocess.run([*COMMAND, "--no-run"], cwd=ROOT, stdout=sys.stderr).returncode != 0:
        raise BenchError("the kernel benchmarks do not build; see above")
    say("kernel benchmarks: running")
    environment = {**os.environ, **ONE_THREAD}
    # Only standard output is kept: cargo's own lines, with this machine's paths, go to standard error.
    with (
        (folder / "kernels.txt").open("w") as kept,
        subprocess.Popen(
            COMMAND, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, preexec_fn=pin_to_core
        ) as process,
    ):
        for line in process.stdout or ():
            print(line, end="", flush=True)
            kept.write(line)
    if process.returncode != 0:
        raise BenchError(f"the kernel benchmarks failed with exit status {process.returncode}; see above")
