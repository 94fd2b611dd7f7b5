"""The same over Spark Connect, where this process is not the driver: task 0 leads."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyspark
import pytest
from conftest import Cluster, _parent, _processes, free_port
from pyspark.sql import functions as F

import paceline as pl
from paceline.spark import PacelineClassifier, PacelineModel
from paceline.spark.columns import Columns
from paceline.spark.exporting import Exported, export, remove
from paceline.spark.fitting import Fitted, Placement, fit


@pytest.fixture(scope="module")
def remote(cluster: Cluster) -> Iterator[Any]:
    """A session over Connect, with a server of its own."""
    from pyspark.sql import SparkSession

    home, port = str(Path(pyspark.__file__).parent), free_port()
    settings = {
        "spark.connect.grpc.binding.port": str(port),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.executor.memory": "700m",
        "spark.sql.shuffle.partitions": "2",
    }
    command = [f"{home}/bin/spark-submit", "--master", cluster.url]
    command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
    for key, value in settings.items():
        command += ["--conf", f"{key}={value}"]
    log = Path(cluster.folder, "connect.log")
    with open(log, "wb") as output:
        server = subprocess.Popen([*command, "spark-internal"], stdout=output, stderr=output, start_new_session=True)
    try:
        until = time.monotonic() + 90
        while "Spark Connect server started" not in log.read_text():
            assert time.monotonic() < until and server.poll() is None, log.read_text()[-3000:]
            time.sleep(0.2)
        made = SparkSession.builder.remote(f"sc://127.0.0.1:{port}").getOrCreate()
        yield made
        made.stop()
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()


@pytest.fixture(scope="module")
def frame(remote: Any, digits: pl.Data) -> Any:
    features, labels = digits.features().reshape(len(digits), -1) / 16, digits.targets()
    assert labels is not None
    rows = [(row.tolist(), int(label)) for row, label in zip(features.astype(np.float32), labels, strict=True)]
    return remote.createDataFrame(rows, "features array<float>, label int").repartition(3)


@pytest.fixture(scope="module")
def exported(remote: Any, frame: Any) -> Iterator[Exported]:
    made = export(remote, frame, Columns.of("features", "label"), shape=[64], is_classes=True, partitions=3, seed=1)
    yield made
    remove(remote, made.folder)


CLASSIC = """
from pyspark.sql import SparkSession
from paceline.spark import PacelineModel

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
PacelineModel.load("{source}").write().save("{target}")
"""


def trainer(network: pl.Network, epochs: int) -> pl.Trainer:
    return pl.Trainer(network, epochs=epochs, batch=16, mode="sync", seed=5)


def examples(fitted: Fitted) -> int:
    return int([event for event in fitted.events if event.kind == "finished"][-1]["examples"])


def test_a_fit_over_connect_has_the_bits_of_two_workers(
    remote: Any, exported: Exported, network: pl.Network, tmp_path: Path
) -> None:
    fitted = fit(remote, trainer(network, 3), exported, Placement(2))
    assert examples(fitted) == 3 * exported.rows
    data = pl.Data.open(f"shards:{exported.train.removeprefix('file:').replace('///', '/')}?{exported.query}")
    with pl.Master(trainer(network, 3), data, output=tmp_path / "run", expected_workers=2) as master:
        workers = [pl.Worker(master.join, train=data) for _ in range(2)]
        model, _ = master.wait()
        for worker in workers:
            worker.wait()
    assert model is not None
    ours, theirs = fitted.model.parameters(), model.parameters()
    assert all(ours[name].tobytes() == numbers.tobytes() for name, numbers in theirs.items())


def test_task_0_that_is_killed_leads_again(remote: Any, exported: Exported, network: pl.Network) -> None:
    done = threading.Event()
    folder = Path(exported.folder.removeprefix("file:").replace("///", "/"))
    # Other fits on the same data have left theirs.
    before = set(folder.glob("*.progress"))

    def kill_the_leader() -> None:
        """Whoever listens for workers leads: kills it once."""
        until = time.monotonic() + 30
        while time.monotonic() < until and not done.is_set():
            found = set(folder.glob("*.progress")) - before
            if found:
                where = found.pop().with_suffix(".where").read_text()
                os.kill(_listener(int(where.rsplit(":", 1)[1].split("?")[0])), signal.SIGKILL)
                done.set()
            time.sleep(0.05)

    killer = threading.Thread(target=kill_the_leader)
    killer.start()
    fitted = fit(remote, trainer(network, 600), exported, Placement(2))
    killer.join()
    assert done.is_set(), "it was killed while it led"
    # All steps of all epochs, those before the kill among them.
    assert fitted.model.iteration == 600 * 45
    terms = [event for event in fitted.events if event.kind == "started"]
    assert terms and terms[-1]["resumed_at"] > 0, "it went on from a checkpoint"
    features = pl.Data.open("digits:test").features().reshape(-1, 64) / 16
    assert fitted.model.predict(features).shape == (359,)


def _listener(port: int) -> int:
    """The process that listens at a port."""
    inode = ""
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        words = line.split()
        if words[3] == "0A" and int(words[1].split(":")[1], 16) == port:
            inode = words[9]
    for pid, _ in _processes():
        try:
            links = [os.readlink(link) for link in Path(f"/proc/{pid}/fd").iterdir()]
        except OSError:
            continue
        if f"socket:[{inode}]" in links:
            assert _parent(pid) > 0
            return pid
    raise AssertionError(f"nobody listens at {port}")


def test_two_fits_at_once_over_connect_both_end(remote: Any, exported: Exported, network: pl.Network) -> None:
    came: dict[int, Any] = {}

    def run(number: int) -> None:
        try:
            came[number] = fit(remote, trainer(network, 30), exported, Placement(2))
        except BaseException as error:
            came[number] = error

    threads = [threading.Thread(target=run, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    for number in range(2):
        assert isinstance(came.get(number), Fitted), came.get(number)
        assert examples(came[number]) == 30 * exported.rows


def test_the_estimator_learns_and_is_saved_here_and_loaded_there(
    remote: Any, frame: Any, network: pl.Network, tmp_path: Path
) -> None:
    exports = tmp_path / "exports"
    exports.mkdir()
    model = PacelineClassifier(network=network, numWorkers=2, epochs=10, exportDirectory=str(exports)).fit(frame)
    told = model.transform(frame)
    right = told.where(told.prediction == told.label).count()
    assert right / told.count() > 0.97
    model.write().save(str(tmp_path / "from connect"))
    # By a driver of its own: loaded there, and saved again.
    script = CLASSIC.format(source=tmp_path / "from connect", target=tmp_path / "from classic")
    environment = {key: value for key, value in os.environ.items() if key not in ("SPARK_CONNECT_MODE_ENABLED", "SPARK_REMOTE")}
    ran = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr
    again = PacelineModel.load(str(tmp_path / "from classic"))
    assert again.transform(frame).where(F.col("prediction") == F.col("label")).count() == right
    assert again.model.to_bytes() == model.model.to_bytes()
    assert list(exports.iterdir()) == [], "nothing of the fit is left"
