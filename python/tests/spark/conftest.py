"""A real Spark cluster on this machine: a standalone master and two workers with one core each."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyspark
import pytest
from pyspark.sql import SparkSession

import paceline as pl

os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


@dataclass
class Cluster:
    """Processes of a standalone cluster."""

    url: str
    folder: str

    def executors(self, spark: Any) -> list[int]:
        """Process numbers of all executors of a session."""
        application = spark.sparkContext.applicationId
        return [pid for pid, line in _processes() if "CoarseGrainedExecutorBackend" in line and application in line]

    def python_workers(self, spark: Any) -> list[int]:
        """Process numbers of what runs tasks in Python: forked by the daemon that an executor has started."""
        daemons = [pid for pid, line in _processes() if "pyspark.daemon" in line and _parent(pid) in self.executors(spark)]
        return [pid for pid, line in _processes() if "pyspark.daemon" in line and _parent(pid) in daemons]


def _processes() -> Iterator[tuple[int, str]]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                yield int(entry.name), (entry / "cmdline").read_bytes().decode(errors="replace")
            except OSError:
                continue


def _parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
    except OSError:
        return 0


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    home = str(Path(pyspark.__file__).parent)
    port = free_port()
    folder = tempfile.mkdtemp(prefix="paceline-spark-")
    environment = {**os.environ, "SPARK_HOME": home, "SPARK_WORKER_DIR": folder, "SPARK_LOG_DIR": folder}
    started: list[subprocess.Popen[bytes]] = []

    def start(*arguments: str) -> None:
        with open(Path(folder, f"{len(started)}.log"), "wb") as log:
            command = [f"{home}/bin/spark-class", *arguments]
            started.append(subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True))

    try:
        url = f"spark://127.0.0.1:{port}"
        start("org.apache.spark.deploy.master.Master", "-h", "127.0.0.1", "-p", str(port), "--webui-port", "0")
        for _ in range(2):
            arguments = ("-c", "1", "-m", "1g", "-h", "127.0.0.1", "--webui-port", "0", url)
            start("org.apache.spark.deploy.worker.Worker", *arguments)
        until = time.monotonic() + 60
        while Path(folder, "0.log").read_text().count("Registering worker") < 2:
            assert time.monotonic() < until, Path(folder, "0.log").read_text()
            assert all(process.poll() is None for process in started), Path(folder, "1.log").read_text()
            time.sleep(0.2)
        yield Cluster(url, folder)
    finally:
        for process in reversed(started):
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def session(master: str, **more: str) -> Any:
    builder = SparkSession.builder.master(master).appName("paceline tests")
    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.executor.memory": "700m",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        **more,
    }
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


@pytest.fixture(scope="module")
def spark(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[Any]:
    """A session of its own for every file of tests, with the settings that it has under `SETTINGS`."""
    made = session(cluster.url, **getattr(request.module, "SETTINGS", {}))
    made.sparkContext.setLogLevel("ERROR")
    yield made
    made.stop()


@pytest.fixture(scope="session")
def digits() -> pl.Data:
    return pl.Data.open("digits:train")


@pytest.fixture(scope="module")
def digits_frame(spark: Any, digits: pl.Data) -> Any:
    """The digits as a DataFrame: 64 numbers from 0 to 1 and a label."""
    features, labels = digits.features().reshape(len(digits), -1) / 16, digits.targets()
    assert labels is not None
    rows = [(row.tolist(), int(label)) for row, label in zip(features.astype(np.float32), labels, strict=True)]
    return spark.createDataFrame(rows, "features array<float>, label int").repartition(3).cache()


@pytest.fixture
def network() -> pl.Network:
    return pl.Network(
        [pl.layers.dense(50, activation="relu"), pl.layers.output(10)],
        input=pl.feed_forward(64),
        updater=pl.adam(0.005),
        seed=7,
    )
