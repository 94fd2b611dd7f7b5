"""What a killed executor costs on a real Spark cluster: with `paceline.spark`, with Spark's `TorchDistributor` and DDP, and with a barrier
stage that has an all-reduce of its own.

Each way trains the same LeNet on the same part of MNIST with two tasks, once undisturbed and once with an executor killed (SIGKILL) in
the middle of an epoch, about a third into the run. A call that fails after that is made again at once, as its caller would. The ways of
PyTorch write no checkpoints: Spark has none for them.

Spark gives up a barrier stage that is the last of its job, as that of `TorchDistributor` is, and runs one before a shuffle again as a
whole; so there are two ways with a barrier.

Needs the environment that `make test-spark` makes with `torch` beside it, and MNIST in the cache: python bench/spark_loss.py
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

BENCH = Path(__file__).resolve().parent
sys.path.insert(0, str(BENCH.parent / "python" / "tests" / "spark"))

from harness.tables import markdown
from harness.toolchain import say

TASKS = 2
BATCH = 64  # of one task
RATE, MOMENTUM = 0.01, 0.9  # those of `spark.lenet`
SEED = 5
MOST_CALLS = 3
MARK = "PACELINE_BENCH"  # a variable that all processes of a run have, and no others

Progress = list[tuple[float, int]]
"""When, and which step was done then."""


@dataclass(frozen=True)
class Plan:
    """What a way of training is told."""

    folder: str
    """With the data, and for logs of steps."""
    examples: int
    epochs: int

    @property
    def steps_of_epoch(self) -> int:
        return self.examples // (TASKS * BATCH)

    @property
    def kill_at(self) -> int:
        """A step in the middle of the epoch that is a third into the run."""
        return self.epochs // 3 * self.steps_of_epoch + self.steps_of_epoch // 2


# Paceline


class Ours:
    name = "paceline.spark, sync"

    def __init__(self, exported: Any) -> None:
        self.exported = exported
        self.told: list[tuple[float, Any]] = []

    def run(self, spark: Any, plan: Plan) -> Any:
        import paceline as pl
        from paceline.spark.fitting import Placement, fit
        from spark import lenet

        self.told = []
        trainer = pl.Trainer(lenet(), epochs=plan.epochs, batch=BATCH, mode="sync", seed=SEED, normaliser="image")
        return fit(spark, trainer, self.exported, Placement(TASKS), callbacks=[lambda event: self.told.append((time.time(), event))])

    def accuracy(self, fitted: Any) -> float:
        import paceline as pl

        return float(fitted.model.evaluate(pl.Data.open("mnist:test")).accuracy)

    def progress(self, plan: Plan) -> Progress:
        return [(at, event["iteration"]) for at, event in list(self.told) if event.kind == "step"]

    def victim(self, plan: Plan, rank: int) -> int | None:
        """None in particular: the driver leads, so that both tasks are alike."""
        return None

    def work(self, plan: Plan) -> dict[str, Any]:
        """A round that is taken again keeps what the others had done; at most what the lost one held in it is computed again."""
        of = lambda kind: [event for _, event in self.told if event.kind == kind]
        again = len(of("lease_repeated"))
        counted = sum(event["examples"] for event in of("finished")) - sum(event["examples"] for event in of("set_aside"))
        return {
            "examples_counted": counted,
            "steps_again": again,
            "examples_again": again * BATCH,
            "is_bound": again > 0,
        }


# PyTorch


def train(plan: Plan, rank: int, is_ddp: bool) -> dict[str, Any]:
    """The same loop for both: what differs is who takes the mean of gradients. A line for each step says that it was done."""
    sys.path.insert(0, f"{plan.folder}/peers")
    import numpy as np
    import torch
    import torch.distributed as dist
    from networks import build_model
    from torch.nn import functional
    from torch.nn.parallel import DistributedDataParallel

    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    data = np.load(f"{plan.folder}/train.npz")
    images, labels = torch.from_numpy(data["images"]), torch.from_numpy(data["labels"])
    model = build_model("lenet", channels_last=True)  # its fastest layout for this network
    wrapped = DistributedDataParallel(model) if is_ddp else model
    optimiser = torch.optim.SGD(model.parameters(), lr=RATE, momentum=MOMENTUM, nesterov=True, fused=True)
    log = os.open(f"{plan.folder}/rank{rank}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for step in range(plan.epochs * plan.steps_of_epoch):
        epoch, place = divmod(step, plan.steps_of_epoch)
        if place == 0:
            order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(SEED + epoch))
        first = (place * TASKS + rank) * BATCH
        chosen = order[first : first + BATCH]
        optimiser.zero_grad()
        scores = wrapped(images.index_select(0, chosen).permute(0, 3, 1, 2).float().mul_(1 / 255))
        functional.cross_entropy(scores, labels.index_select(0, chosen)).backward()
        if not is_ddp:
            flat = torch.cat([parameter.grad.reshape(-1) for parameter in model.parameters()])
            dist.all_reduce(flat)
            sizes = [parameter.numel() for parameter in model.parameters()]
            for parameter, mean in zip(model.parameters(), (flat / TASKS).split(sizes), strict=True):
                parameter.grad.copy_(mean.reshape(parameter.shape))
        optimiser.step()
        os.write(log, f"{step + 1} {os.getpid()} {time.time():.3f}\n".encode())
    os.close(log)
    return {name: numbers.numpy().copy() for name, numbers in model.state_dict().items()}


def with_ddp(plan: Plan) -> dict[str, Any]:
    """Runs in a process that `torchrun` starts."""
    import torch.distributed as dist

    dist.init_process_group("gloo")
    try:
        return train(plan, dist.get_rank(), is_ddp=True)
    finally:
        dist.destroy_process_group()


def with_barrier(plan: Plan) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Runs in the task itself; task 0 says where they meet."""

    def task(rows: Iterator[Any]) -> Iterator[Any]:
        import socket

        import torch.distributed as dist
        from pyspark import BarrierTaskContext

        context = BarrierTaskContext.get()
        rank = context.partitionId()
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            port = context.allGather(str(taken.getsockname()[1]))[0]
        dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=TASKS)
        try:
            learned = train(plan, rank, is_ddp=False)
        finally:
            dist.destroy_process_group()
        if rank == 0:
            yield learned

    return task


class OfTorch:
    """Either of the ways of PyTorch: what they have done is in the logs of their ranks."""

    name: str

    def run(self, spark: Any, plan: Plan) -> Any:
        raise NotImplementedError

    def accuracy(self, learned: dict[str, Any]) -> float:
        import torch
        from networks import build_model

        import paceline as pl

        test = pl.Data.open("mnist:test")
        model = build_model("lenet", channels_last=False)
        model.load_state_dict({name: torch.from_numpy(numbers) for name, numbers in learned.items()})
        images = torch.from_numpy(test.features().reshape(-1, 1, 28, 28)).float().mul_(1 / 255)
        with torch.inference_mode():
            right = model(images).argmax(1) == torch.from_numpy(test.targets().astype("int64"))
        return float(right.float().mean())

    def lines(self, plan: Plan, rank: int) -> list[tuple[int, int, float]]:
        """Steps with the process that did them, and when; the last line may be half written."""
        try:
            lines = Path(plan.folder, f"rank{rank}.log").read_text().split("\n")[:-1]
        except FileNotFoundError:
            return []
        return [(int(step), int(pid), float(at)) for step, pid, at in (line.split() for line in lines)]

    def progress(self, plan: Plan) -> Progress:
        return [(at, step) for step, _, at in self.lines(plan, 0)]

    def victim(self, plan: Plan, rank: int) -> int | None:
        return self.lines(plan, rank)[-1][1]

    def work(self, plan: Plan) -> dict[str, Any]:
        done = [(rank, step) for rank in range(TASKS) for step, _, _ in self.lines(plan, rank)]
        distinct = set(done)
        again = len(done) - len(distinct)
        return {
            "examples_counted": len(distinct) * BATCH,
            "steps_again": again // TASKS,
            "examples_again": again * BATCH,
            "is_bound": False,
        }


class Distributor(OfTorch):
    name = "TorchDistributor, DDP"

    def run(self, spark: Any, plan: Plan) -> Any:
        from pyspark.ml.torch.distributor import TorchDistributor

        return TorchDistributor(num_processes=TASKS, local_mode=False, use_gpu=False).run(with_ddp, plan)


class Barrier(OfTorch):
    name = "barrier stage, all-reduce"

    def run(self, spark: Any, plan: Plan) -> Any:
        return self.learned(spark, plan).collect()[0]

    def learned(self, spark: Any, plan: Plan) -> Any:
        return spark.sparkContext.parallelize(range(TASKS), TASKS).barrier().mapPartitions(with_barrier(plan))


class BarrierBeforeShuffle(Barrier):
    name = "barrier stage before a shuffle, all-reduce"

    def run(self, spark: Any, plan: Plan) -> Any:
        return self.learned(spark, plan).repartition(1).collect()[0]


Way = Ours | OfTorch


# Running and killing


@dataclass
class Outcome:
    """What one run came to."""

    way: str
    is_killed: bool
    ended_by_itself: bool = True
    """Whether the last call came back within the limit."""
    has_result: bool = False
    failures: list[dict[str, Any]] = field(default_factory=list)
    """What calls raised, and how many seconds after the kill."""
    accuracy: float | None = None
    seconds: float = 0.0
    killed_at_step: int | None = None
    longest_pause: float | None = None
    """Seconds without a step that had not been done before; after the kill, where there was one."""
    work: dict[str, Any] = field(default_factory=dict)
    jobs: int = 0
    stage_attempts: int = 0
    """Of the stage that trains; that of another call counts, too."""
    tasks_again: int = 0
    executors_again: int = 0
    processes_left: int = 0
    """Processes that were still there ten seconds after the session was stopped."""


class Watch(threading.Thread):
    """Kills an executor when its step has come, and ends a run that takes too long."""

    def __init__(self, way: Way, plan: Plan, spark: Any, cluster: Any, rank: int | None, limit: float) -> None:
        super().__init__(daemon=True)
        self.way, self.plan, self.spark, self.cluster, self.rank, self.limit = way, plan, spark, cluster, rank, limit
        self.killed: tuple[float, int] | None = None
        self.is_too_long = False
        self.over = threading.Event()

    def run(self) -> None:
        until = time.monotonic() + self.limit
        while not self.over.wait(0.05):
            if self.rank is not None and self.killed is None:
                progress = self.way.progress(self.plan)
                if progress and progress[-1][1] >= self.plan.kill_at:
                    os.kill(self.executor(self.rank), signal.SIGKILL)
                    self.killed = (time.time(), progress[-1][1])
                    say(f"{self.way.name}: killed an executor at step {progress[-1][1]}")
            if time.monotonic() > until:
                # First politely; if the driver still waits after that, without its session.
                end = self.spark.stop if self.is_too_long else self.spark.sparkContext.cancelAllJobs
                self.is_too_long, until = True, time.monotonic() + 30
                end()

    def executor(self, rank: int) -> int:
        """The executor that a rank runs in: its process is somewhere above."""
        import conftest

        executors = self.cluster.executors(self.spark)
        pid = self.way.victim(self.plan, rank)
        while pid and pid not in executors:
            pid = conftest._parent(pid)
        return pid or executors[0]


def one_run(way: Way, plan: Plan, cluster: Any, rank: int | None, limit: float) -> Outcome:
    for old in Path(plan.folder).glob("rank*.log"):
        old.unlink()
    mark = uuid.uuid4().hex
    spark = start_session(cluster, plan, mark)
    log = Path(plan.folder, "events", spark.sparkContext.applicationId)
    outcome = Outcome(way.name, rank is not None)
    watch = Watch(way, plan, spark, cluster, rank, limit)
    began, clock = time.time(), time.monotonic()
    watch.start()
    result = None
    while result is None and len(outcome.failures) < MOST_CALLS and not watch.is_too_long:
        try:
            result = way.run(spark, plan)
        except Exception as error:
            after = round(time.time() - watch.killed[0], 1) if watch.killed else None
            outcome.failures.append({"seconds_after_kill": after, "error": in_a_line(error)})
            say(f"{way.name}: {outcome.failures[-1]}")
    outcome.seconds = round(time.monotonic() - clock, 1)
    outcome.has_result = result is not None
    watch.over.set()
    watch.join()
    outcome.ended_by_itself = not watch.is_too_long
    if rank is not None and watch.killed is None:
        raise SystemExit(f"error: {way.name}: the run ended before an executor was killed; give it more epochs")
    spark.stop()
    outcome.processes_left = end_processes(mark)
    if result is not None:
        outcome.accuracy = round(way.accuracy(result), 4)
    if watch.killed is not None:
        outcome.killed_at_step = watch.killed[1]
    outcome.longest_pause = longest_pause(way.progress(plan), watch.killed[0] if watch.killed else began)
    outcome.work = way.work(plan)
    read_event_log(log, began, outcome)
    return outcome


def start_session(cluster: Any, plan: Plan, mark: str) -> Any:
    """A session of its own for each run, with both executors there, and a log of what Spark does."""
    import conftest

    settings = {
        "spark.executor.memory": "900m",
        "spark.ui.showConsoleProgress": "false",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": f"file://{plan.folder}/events",
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
        f"spark.executorEnv.{MARK}": mark,
        "spark.executorEnv.GLOO_SOCKET_IFNAME": "lo",
    }
    spark = conftest.session(cluster.url, **settings)
    # Spark's own words on a loss are many; the outcome has what matters.
    spark.sparkContext.setLogLevel("OFF")
    until = time.monotonic() + 60
    while len(spark.sparkContext._jsc.sc().statusTracker().getExecutorInfos()) < TASKS + 1:  # the driver is one of them
        if time.monotonic() > until:
            raise SystemExit(f"error: expected {TASKS} executors within 60 s")
        time.sleep(0.1)
    return spark


def end_processes(mark: str) -> int:
    """Waits until all processes of a run are gone; ends those that stay, and says how many they were."""
    until = time.monotonic() + 10
    while (left := marked(mark)) and time.monotonic() < until:
        time.sleep(0.1)
    for pid in left:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    return len(left)


def marked(mark: str) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and f"{MARK}={mark}".encode() in (entry / "environ").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def longest_pause(progress: Progress, since: float) -> float | None:
    """The longest time without a step that had not been done before, among those that ended after a moment."""
    new: list[float] = []
    highest = 0
    for at, step in sorted(progress):
        if step > highest:
            new, highest = [*new, at], step
    return max((round(later - earlier, 2) for earlier, later in zip(new, new[1:]) if later > since), default=None)


def read_event_log(log: Path, began: float, outcome: Outcome) -> None:
    """How often Spark started what trains, and executors; both of these were there when the run began."""
    file = log if log.exists() else Path(f"{log}.inprogress")
    trains: set[int] = set()
    tasks = executors = 0
    for event in map(json.loads, file.read_text().splitlines()):
        match event["Event"]:
            case "SparkListenerJobStart" if event["Submission Time"] >= began * 1000 - 1:
                outcome.jobs += 1
            case "SparkListenerStageSubmitted" if outcome.jobs and event["Stage Info"]["Number of Tasks"] == TASKS:
                trains.add(event["Stage Info"]["Stage ID"])
                outcome.stage_attempts += 1
            case "SparkListenerTaskStart":
                tasks += event["Stage ID"] in trains
            case "SparkListenerExecutorAdded":
                executors += 1
    outcome.tasks_again, outcome.executors_again = tasks - TASKS, executors - TASKS


def in_a_line(error: Exception) -> str:
    """What went wrong, without the names of folders."""
    text = str(error)
    told = re.search(r"(?:Job aborted due to stage failure: )([^\n]*)|(Job \d+ cancelled[^\n]*)", text)
    line = (told[1] or told[2]) if told else (text.strip().splitlines() or [""])[0]
    return f"{type(error).__name__}: {re.sub(r'(/[^/ ]+){2,}', '…', line)[:300]}"


# What is printed and kept


def table(outcomes: list[Outcome]) -> str:
    header = ["way", "ended by itself", "calls", "first call", "s undisturbed", "s killed", "longest pause, s", "steps again"]
    header += ["examples again", "stage attempts", "tasks again", "executors again", "accuracy undisturbed", "accuracy killed"]
    rows = []
    for calm, killed in zip(outcomes[::2], outcomes[1::2], strict=True):
        most = "≤ " if killed.work["is_bound"] else ""
        pause = "–" if killed.longest_pause is None else f"{killed.longest_pause:.1f}"
        rows.append([killed.way, "yes" if killed.ended_by_itself else "no", str(len(killed.failures) + killed.has_result)])
        rows[-1] += [first_call(killed), f"{calm.seconds:.1f}", f"{killed.seconds:.1f}", pause]
        rows[-1] += [f"{most}{killed.work['steps_again']:,}", f"{most}{killed.work['examples_again']:,}"]
        rows[-1] += [str(killed.stage_attempts), str(killed.tasks_again), str(killed.executors_again)]
        rows[-1] += ["–" if one.accuracy is None else f"{one.accuracy:.4f}" for one in (calm, killed)]
    return markdown(header, rows)


def first_call(outcome: Outcome) -> str:
    if not outcome.failures:
        return "result"
    failure = outcome.failures[0]
    return f"after {failure['seconds_after_kill']} s: {failure['error'].split('. ')[0].replace('|', '/')[:100]}"


def export_data(cluster: Any, plan: Plan) -> Any:
    """The first examples of MNIST as shards for us, and as one file for PyTorch."""
    import conftest
    import numpy as np
    import pyarrow
    import pyarrow.parquet

    import paceline as pl
    from paceline.spark.columns import Columns
    from paceline.spark.exporting import export

    data = pl.Data.open("mnist:train")
    rows = data.features().reshape(len(data), -1)[: plan.examples].astype(np.float32)
    labels = data.targets()[: plan.examples].astype(np.int64)
    np.savez(f"{plan.folder}/train.npz", images=rows.reshape(-1, 28, 28, 1).astype(np.uint8), labels=labels)
    features = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(rows.reshape(-1)), rows.shape[1])
    columns = {"features": features.cast(pyarrow.list_(pyarrow.float32())), "label": pyarrow.array(labels.astype(np.int32))}
    pyarrow.parquet.write_table(pyarrow.table(columns), f"{plan.folder}/train.parquet")
    spark = conftest.session(cluster.url, **{"spark.executor.memory": "900m"})
    spark.sparkContext.setLogLevel("ERROR")
    frame = spark.read.parquet(f"{plan.folder}/train.parquet")
    try:
        return export(
            spark,
            frame,
            Columns.of("features", "label"),
            shape=[28, 28, 1],
            is_classes=True,
            directory=plan.folder,
            partitions=TASKS,
            seed=1,
        )
    finally:
        spark.stop()


WAYS = ("paceline", "distributor", "barrier", "shuffle")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--examples", type=int, default=29_952, help=f"of MNIST; a multiple of {TASKS * BATCH}, so that no step is short")
    parser.add_argument("--runs", type=int, default=1, help="each way, undisturbed and killed, so often")
    parser.add_argument("--way", action="append", choices=WAYS, help="only this one (repeatable)")
    parser.add_argument("--rank", type=int, default=1, choices=range(TASKS), help="whose executor is killed, of PyTorch")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds after which a run is stopped")
    parser.add_argument("--output", type=Path, help="a file for the results, such as bench/runs/DATE-spark-loss-1/results.json")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # end as after Ctrl-C, with nothing left behind
    asked = parser.parse_args()
    if asked.examples % (TASKS * BATCH) or not 0 < asked.examples <= 60_000:
        parser.error(f"--examples: expected a multiple of {TASKS * BATCH} up to 60,000, found {asked.examples}")

    import conftest
    import pyspark
    import torch

    sys.path.insert(0, str(BENCH / "peers" / "pytorch"))
    outcomes: list[Outcome] = []
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        Path(folder, "events").mkdir()
        Path(folder, "peers").symlink_to(BENCH / "peers" / "pytorch")
        plan = Plan(folder, asked.examples, asked.epochs)
        made = conftest.cluster.__wrapped__()
        cluster = next(made)
        try:
            exported = export_data(cluster, plan)
            ways: dict[str, Way] = dict(zip(WAYS, (Ours(exported), Distributor(), Barrier(), BarrierBeforeShuffle()), strict=True))
            for _ in range(asked.runs):
                for name in asked.way or WAYS:
                    for rank in (None, asked.rank):
                        outcomes.append(one_run(ways[name], plan, cluster, rank, asked.limit))
                        say(json.dumps(asdict(outcomes[-1])))
        finally:
            made.close()
    shown = table(outcomes)
    print(shown, flush=True)
    results = {
        "examples": asked.examples * asked.epochs,
        "epochs": asked.epochs,
        "batch": BATCH,
        "tasks": TASKS,
        "rank_killed": asked.rank,
        "limit_seconds": asked.limit,
        "runs": [asdict(outcome) for outcome in outcomes],
        "cores": os.cpu_count(),
        "load_before": round(load, 2),
        "pyspark": pyspark.__version__,
        "torch": torch.__version__,
    }
    if asked.output:
        asked.output.parent.mkdir(parents=True, exist_ok=True)
        asked.output.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
