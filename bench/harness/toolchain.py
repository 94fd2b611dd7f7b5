"""What must stand before anything is measured: the peer's venv and our release binary."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path

from .case import BENCH, ROOT, BenchError

REQUIREMENTS = BENCH / "peers" / "pytorch" / "requirements.txt"


def say(message: str) -> None:
    """Progress goes to standard error; only the table goes to standard output."""
    print(f"bench: {message}", file=sys.stderr, flush=True)


def prepare_venv(folder: Path) -> Path:
    """The venv's Python, with the pinned requirements installed."""
    python = folder / "bin" / "python"
    stamp = folder / "requirements.installed"
    wanted = REQUIREMENTS.read_text()
    if python.exists() and stamp.exists() and stamp.read_text() == wanted:
        say("the PyTorch venv is ready")
        return python
    say(f"making a venv with PyTorch in `{shown(folder)}` (gigabytes; only the first time)")
    try:
        venv.create(folder, with_pip=True, clear=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise BenchError(f"cannot make a venv in `{shown(folder)}` (is `python3-venv` installed?): {error}") from error
    _call([python, "-m", "pip", "install", "--disable-pip-version-check", "-r", REQUIREMENTS])
    stamp.write_text(wanted)
    return python


def existing_venv(folder: Path) -> Path:
    """A venv somebody else made; what it holds is named in the results."""
    python = folder / "bin" / "python"
    if not python.exists():
        raise BenchError(f"expected a venv in `{folder}`, found no `bin/python` there")
    return python


def existing_binary(path: Path) -> Path:
    if not os.access(path, os.X_OK):
        raise BenchError(f"expected a program, found none at `{path}`")
    return path.resolve()


def build_binary() -> Path:
    """Our release binary, built as anybody would build it."""
    if shutil.which("cargo") is None:
        raise BenchError("`cargo` is not on the path; install a Rust toolchain, or name a binary with `--binary`")
    say("building the release binary")
    _call(["cargo", "build", "--release", "--bin", "paceline"])
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    binary = ROOT / target / "release" / "paceline"
    if not binary.exists():
        raise BenchError(f"`cargo build --release` succeeded, but `{shown(binary)}` is not there")
    return binary


def shown(path: Path) -> str:
    """A path as it is written in messages and results: relative to the repository where it can be."""
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else path.name


def _call(command: Sequence[str | Path]) -> None:
    """Run with its own output going to standard error, where it shows progress."""
    code = subprocess.run(command, cwd=ROOT, stdout=sys.stderr).returncode
    if code != 0:
        raise BenchError(f"`{' '.join(map(str, command))}` failed with exit status {code}; its last lines are above")
