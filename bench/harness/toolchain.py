"""What must stand before anything is measured: the peer's venv and our release binary."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
import venv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .case import BENCH, ROOT, BenchError

REQUIREMENTS = BENCH / "peers" / "pytorch" / "requirements.txt"
BURN = BENCH / "peers" / "burn"
DL4J = BENCH / "peers" / "dl4j"

# One build of ND4J's native library: the version, then what it was built for.
_NATIVE_ND4J = re.compile(r"nd4j-native-(?P<version>.+)-linux-x86_64(-(?P<native>.+))?\.jar")


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


@dataclass(frozen=True)
class Dl4jBuild:
    """The compiled Maven project and its libraries; one of several builds of the native library goes on the class path."""

    target: Path
    version: str
    natives: tuple[str, ...]  # those that this machine can run

    def command(self, native: str) -> list[str | Path]:
        class_path = [self.target / "classes"]
        for jar in sorted((self.target / "lib").glob("*.jar")):
            build = _NATIVE_ND4J.fullmatch(jar.name)
            if build is None or build["native"] == native:
                class_path.append(jar)
        # `extension` says which build of the native library to load.
        extension = f"-Dorg.bytedeco.javacpp.platform.extension=-{native}"
        return ["java", "-Xmx4g", extension, "-cp", ":".join(map(str, class_path)), "Lenet"]


def build_dl4j(simd: Sequence[str]) -> Dl4jBuild:
    for program in ("java", "mvn"):
        if shutil.which(program) is None:
            raise BenchError(f"the DL4J peer needs `{program}` on the path (Java 17 or later, Maven 3.8 or later)")
    if "avx2" not in simd:
        raise BenchError("the DL4J peer is set up for 64-bit Linux with AVX2, which this machine lacks")
    say("building the DL4J peer (half a gigabyte of libraries; only the first time)")
    _call(["mvn", "-q", "-B", "-f", DL4J / "pom.xml", "process-classes"])
    pom = re.search(r"<dl4j.version>(.+)</dl4j.version>", (DL4J / "pom.xml").read_text())
    width = "avx512" if "avx512f" in simd else "avx2"
    return Dl4jBuild(DL4J / "target", pom[1] if pom else "unknown", (width, f"onednn-{width}"))


def build_burn() -> Path:
    say("building the Burn peer")
    manifest, target = BURN / "Cargo.toml", BURN / "target"
    _call(["cargo", "build", "--release", "--locked", "--manifest-path", manifest, "--target-dir", target])
    return target / "release" / "burn-peer"


def burn_version() -> str:
    packages = tomllib.loads((BURN / "Cargo.lock").read_text())["package"]
    return next(package["version"] for package in packages if package["name"] == "burn")
