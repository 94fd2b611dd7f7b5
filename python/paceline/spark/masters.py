"""Training masters in the words of Deeplearning4j: how a network is trained on a cluster."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from paceline.errors import SettingError
from paceline.settings import Mode, SharedOptions

Approach = Literal["export", "direct"]

# Options that others have and this has no use for, with what takes their place.
_REPLACED = {
    "rdd_data_set_num_examples": "every row of the data is one example: leave it out",
    "aggregation_depth": "averages travel between the workers, a tree of them beyond 16: leave it out",
    "worker_prefetch_num_batches": "batches are always read ahead, as many as are needed: leave it out",
    "storage_level": "rows are written once to `export_directory` and read from there: leave it out, or `df.persist()` before `fit`",
    "repartition_data": "the ledger hands out examples evenly, however rows are partitioned: leave it out",
    "repartition_strategy": "the ledger hands out examples evenly, however rows are partitioned: leave it out",
    "repartitioner": "the ledger hands out examples evenly, however rows are partitioned: leave it out",
    "mesh_build_mode": "workers are all linked up to 16 of them, and form a tree beyond: leave it out",
    "retransmit_timeout": "links are TCP, nothing is sent again by us: leave it out",
    "max_chunk_size": "links are TCP, nothing is cut into chunks by us: leave it out",
    "chunks_buffer_size": "links are TCP, nothing is cut into chunks by us: leave it out",
    "port_supplier": "give the port as `port`, or 0 for a free one",
    "unicast_port": "give the port as `port`, or 0 for a free one",
    "encoding_debug_mode": "what a worker sends is in the events `step` and `thresholds`: leave it out",
    "debug_longer_iterations": "stop a worker with SIGSTOP to see what slow ones do: leave it out",
    "workers_per_node": "Spark's `spark.task.cpus` says how many cores a task has: leave it out",
}


class TrainingMaster:
    """What both have in common."""

    kind: ClassVar[str] = ""
    defaults: ClassVar[Mapping[str, Any]] = {
        "num_workers": 0,
        "batch_size_per_worker": 16,
        "rdd_training_approach": "export",
        "export_directory": None,
        "rng_seed": 0,
        "collect_training_stats": False,
        "network_mask": None,
        "controller_address": None,
        "port": 0,
    }

    num_workers: int
    """Tasks that train; 0 takes all slots."""
    batch_size_per_worker: int
    rdd_training_approach: Approach
    export_directory: str | None
    """A folder that every host reaches, for the rows while they are learned from."""
    rng_seed: int
    collect_training_stats: bool
    network_mask: str | None
    """The network whose address reaches the driver, as `10.1.0.0/16`."""
    controller_address: str | None
    port: int

    def __init__(self, **options: Any) -> None:
        for name in options:
            if name in self.defaults:
                continue
            if name in _REPLACED:
                raise SettingError(f"`{name}` means nothing here: {_REPLACED[name]}")
            near = difflib.get_close_matches(name, self.defaults, 1)
            hint = f"did you mean `{near[0]}`?" if near else f"it has {', '.join(sorted(self.defaults))}"
            raise SettingError(f"unknown option `{name}` of {type(self).__name__}: {hint}")
        self.options: dict[str, Any] = {**self.defaults, **options}
        for name, value in self.options.items():
            setattr(self, name, value)
        if self.rdd_training_approach not in ("export", "direct"):
            raise SettingError(f"expected `rdd_training_approach` export or direct, found {self.rdd_training_approach!r}")
        if self.num_workers < 0 or self.batch_size_per_worker < 1:
            raise SettingError("expected `num_workers` of 0 or more, and `batch_size_per_worker` of 1 or more")

    def mode(self) -> Mode:
        """The mode as a job file has it."""
        raise NotImplementedError

    def to_json(self) -> str:
        return json.dumps({self.kind: self.options})

    @staticmethod
    def from_json(text: str) -> TrainingMaster:
        """Reads what `to_json` wrote."""
        kinds = {kind.kind: kind for kind in (ParameterAveragingTrainingMaster, SharedTrainingMaster)}
        tree = json.loads(text)
        if not isinstance(tree, dict) or len(tree) != 1 or next(iter(tree)) not in kinds:
            raise SettingError(f"expected a training master as JSON, one of {', '.join(kinds)}, found {text[:80]!r}")
        kind, options = next(iter(tree.items()))
        return kinds[kind](**options)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TrainingMaster) and (self.kind, self.options) == (other.kind, other.options)

    def __hash__(self) -> int:
        return hash(self.to_json())

    def __repr__(self) -> str:
        given = {name: value for name, value in self.options.items() if value != self.defaults[name]}
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in given.items())})"


class ParameterAveragingTrainingMaster(TrainingMaster):
    """Workers train on their own, and average their parameters every `averaging_frequency` steps.

    With `save_updater` what the updaters remember is averaged, too.
    """

    kind = "parameter_averaging"
    defaults = {**TrainingMaster.defaults, "averaging_frequency": 5, "save_updater": True}

    averaging_frequency: int
    save_updater: bool

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        if self.averaging_frequency < 1:
            raise SettingError(f"expected `averaging_frequency` of 1 or more, found {self.averaging_frequency}")

    def mode(self) -> Mode:
        return {"averaging": {"frequency": self.averaging_frequency, "average_updater": self.save_updater}}


class SharedTrainingMaster(TrainingMaster):
    """Workers send what has grown beyond a threshold, and apply what the others send.

    `threshold_algorithm` is written as in a job file: `{"adaptive": {…}}`, `{"target_sparsity": {…}}` or
    `{"fixed": {"threshold": 1e-3}}`. `residual_post_processor` as `{"every": 5, "thresholds": 5.0}` cuts residuals off every five steps;
    `shake` as `{"every": 100, "by": 10.0}` sends every hundredth message with a threshold ten times as small.
    """

    kind = "shared"
    defaults = {**TrainingMaster.defaults, "threshold_algorithm": None, "residual_post_processor": None, "shake": None}

    threshold_algorithm: Mapping[str, Any] | None
    residual_post_processor: Mapping[str, Any] | None
    shake: Mapping[str, Any] | None

    def mode(self) -> Mode:
        options: SharedOptions = {}
        if self.threshold_algorithm is not None:
            options["threshold"] = dict(self.threshold_algorithm)
        if self.residual_post_processor is not None:
            options["clipping"] = dict(self.residual_post_processor)
        if self.shake is not None:
            options["shake"] = dict(self.shake)
        return {"shared": options}
