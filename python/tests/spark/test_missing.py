"""An executor whose Python does not have the package."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import time
from pathlib import Path
from typing import Any

import pytest
from conftest import Cluster

import paceline as pl
from paceline.spark import PacelineClassifier


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An interpreter with all packages of this one but `paceline`."""
    folder = tmp_path_factory.mktemp("bare")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "venv"], check=True)
    others = folder / "others"
    others.mkdir()
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        if not entry.name.startswith("paceline"):
            (others / entry.name).symlink_to(entry)
    (home,) = (folder / "venv").glob("lib/python*/site-packages")
    (home / "others.pth").write_text(f"{others}\n")
    return str(folder / "venv/bin/python")


def test_a_fit_says_what_is_missing_and_soon(spark: Any, digits_frame: Any, network: pl.Network, bare: str) -> None:
    digits_frame.count()
    spark.conf.set("spark.sql.execution.pyspark.python", bare)
    began = time.monotonic()
    try:
        with pytest.raises(pl.Error, match="`paceline` is missing on an executor: install it.*spark.archives"):
            PacelineClassifier(network=network, numWorkers=2).fit(digits_frame)
    finally:
        spark.conf.unset("spark.sql.execution.pyspark.python")
    assert time.monotonic() - began < 60, "the figure is in the notes; here only that it does not hang"


def paceline(*arguments: str, **more: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "paceline", *arguments, "--python", sys.executable]
    return subprocess.run(command, capture_output=True, text=True, timeout=250, **more)


SETTINGS = {"spark.cores.max": "1"}
"""The other slot is for what is submitted here."""

LOCAL = ["--conf", "spark.driver.host=127.0.0.1", "--conf", "spark.ui.enabled=false", "--conf", "spark.executor.memory=600m"]


def test_the_doctor_looks_at_every_executor(spark: Any, cluster: Cluster, bare: str) -> None:
    well = paceline("doctor", "--spark", cluster.url, *LOCAL)
    assert well.returncode == 0 and "paceline" in well.stdout and "ok" in well.stdout, well
    ill = paceline("doctor", "--spark", cluster.url, *LOCAL, "--conf", f"spark.pyspark.python={bare}")
    assert ill.returncode == 1 and "missing: paceline" in ill.stdout and "--environment" in ill.stdout, ill


def test_a_job_file_is_submitted(spark: Any, cluster: Cluster, tmp_path: Path) -> None:
    job = {"data": 'train = "digits:train"\ntest = "digits:test"\nbatch = 16\nseed = 7', "train": "epochs = 4"}
    text = "\n".join(f"[{name}]\n{body}" for name, body in job.items())
    network = '[network]\ninput = { feed_forward = 64 }\nlayers = [{ dense = { units = 40, activation = "relu" } }, { output = { units = 10 } }]\n'
    (tmp_path / "job.toml").write_text(f"{text}\n{network}updater = {{ adam = {{ learning_rate = 0.005 }} }}\n")
    usual = ["submit", "job.toml", "--spark-master", cluster.url, "--workers", "1", *LOCAL]
    shown = paceline(*usual, "--dry-run", cwd=tmp_path)
    assert shown.returncode == 0 and "spark-submit --master spark://" in shown.stdout, shown
    assert not (tmp_path / "runs").exists()
    done = paceline(*usual, "--output", "run", "--set", "train.epochs=6", cwd=tmp_path)
    assert done.returncode == 0 and "model.safetensors" in done.stdout, done
    assert pl.Model.load(tmp_path / "run/model.safetensors").evaluate("digits:test").accuracy > 0.9
    wrong = paceline("submit", "job.toml", "--spark-master", cluster.url, "--set", "train.epoch=6", cwd=tmp_path)
    assert wrong.returncode == 2 and "train.epoch" in wrong.stderr, wrong
