"""A network on a cluster, in the words of Deeplearning4j."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from numpy.typing import NDArray

from paceline.errors import Error, SettingError
from paceline.events import Callback, Event
from paceline.labels import Task
from paceline.model import Model, Scores
from paceline.network import Network
from paceline.progress import Progress
from paceline.settings import ClassWeights, EarlyStopping, NormaliserName, TargetNormaliserName
from paceline.spark import scoring, sessions
from paceline.spark.columns import Columns
from paceline.spark.fitting import Fitted, Placement, fit_frame, fit_partitions
from paceline.spark.masters import TrainingMaster
from paceline.statistics import TrainingStatistics
from paceline.training import Trainer


class SparkNetwork:
    """Trains, judges and applies a network on a Spark cluster.

    Data is a DataFrame; an RDD of `(features, label)` or of `LabeledPoint`; or the path of Parquet files, or a list of such paths. The
    columns are called `features` and `label` unless the arguments say otherwise.
    """

    def __init__(
        self,
        spark: Any,
        network: Network | Model,
        training_master: TrainingMaster,
        *,
        features: str | Sequence[str] = "features",
        label: str | Sequence[str] | None = "label",
        weight: str | None = None,
        task: Task = "classes",
        normaliser: NormaliserName = "none",
        target_normaliser: TargetNormaliserName | None = None,
    ) -> None:
        if not hasattr(spark, "createDataFrame") or not hasattr(spark, "read"):
            raise SettingError(f"expected the `SparkSession` as first argument, found {type(spark).__name__}: `SparkSession.builder.getOrCreate()`")
        if task not in ("classes", "regression"):
            raise SettingError(f"expected `task` to be 'classes' or 'regression', found {task!r}")
        self.spark, self.training_master = spark, training_master
        self.network = network.network if isinstance(network, Model) else network
        self._model = network if isinstance(network, Model) else None
        self.columns = Columns.of(features, label, weight)
        self.is_classes = task == "classes"
        self.normaliser, self.target_normaliser = normaliser, target_normaliser
        self.listeners: list[Callback] = []
        self.hooks: list[Callable[[Event], object]] = []
        self.labels: tuple[Any, ...] | None = None
        self.fitted: Fitted | None = None

    @property
    def model(self) -> Model:
        """The trained network; raises before there is one."""
        if self._model is None:
            raise Error("this network is not trained yet: call `fit` first")
        return self._model

    def set_listeners(self, *listeners: Callback) -> None:
        """Functions that are handed every event of a fit."""
        self.listeners = list(listeners)

    def add_hook(self, hook: Callable[[Event], object]) -> None:
        """A function that is called after every step that is counted, with its event."""
        self.hooks.append(hook)

    def fit(
        self,
        data: Any,
        *,
        epochs: int = 1,
        validation: str | None = None,
        early_stopping: EarlyStopping | None = None,
        class_weights: ClassWeights | None = None,
        progress: Progress = False,
    ) -> Model:
        """Trains on data; `validation` names a column of truth values: those rows are judged on after every epoch. `class_weights` are
        a dict by label, a list in the order of classes, or `"balanced"`.

        A network that is trained already goes on from there: its updater remembers, and epochs are counted on.
        """
        master = self.training_master
        frame = self._frame(data)
        workers = master.num_workers or sessions.slots(self.spark)
        columns = Columns(self.columns.features, self.columns.label, self.columns.weight, validation)
        trainer = Trainer(
            self.network,
            epochs=epochs,
            batch=master.batch_size_per_worker,
            mode=master.mode(),
            seed=master.rng_seed,
            normaliser=self.normaliser,
            target_normaliser=self.target_normaliser,
            early_stopping=early_stopping,
            class_weights=class_weights,
            start=self._model,
            take="everything",
        )
        placement = Placement(
            workers,
            port=master.port,
            address=master.controller_address,
            network_mask=master.network_mask,
            statistics=master.collect_training_stats,
        )
        hooks = [_on_steps(hook) for hook in self.hooks]
        usual: dict[str, Any] = {
            "is_classes": self.is_classes,
            "callbacks": [*self.listeners, *hooks],
            "progress": progress,
        }
        if master.rdd_training_approach == "direct":
            self.fitted, self.labels = fit_partitions(self.spark, frame, columns, trainer, placement, **usual)
        else:
            self.fitted, exported = fit_frame(
                self.spark,
                frame,
                columns,
                trainer,
                placement,
                directory=master.export_directory,
                seed=master.rng_seed,
                **usual,
            )
            self.labels = exported.labels
        self._model = self.fitted.model
        return self._model

    def training_stats(self) -> TrainingStatistics:
        """Where the time of the workers of the last fit went, with a training master that has `collect_training_stats=True`."""
        found = None if self.fitted is None else self.fitted.statistics
        if found is None:
            raise Error("there are no statistics: set `collect_training_stats=True` in the training master, and call `fit`")
        return found

    def evaluate(self, data: Any, *, batch: int = 256) -> Scores:
        """Every figure of `Model.evaluate`, computed where the rows are and put together exactly."""
        return scoring.evaluate(self._frame(data), self.columns, self.model, self._names(), batch=batch)

    def evaluate_regression(self, data: Any, *, batch: int = 256) -> Scores:
        """The same for numbers that are predicted."""
        if self.is_classes:
            raise SettingError("this network tells classes apart: `evaluate` judges it")
        return self.evaluate(data, batch=batch)

    def evaluate_roc(self, data: Any, *, auc_thresholds: int | None = None, batch: int = 256) -> dict[str, Any]:
        """The areas under the curves of class 1, for two classes; exact unless so many thresholds are asked for."""
        roc = self.evaluate_roc_multi_class(data, auc_thresholds=auc_thresholds, batch=batch)
        if len(roc["classes"]) != 2:
            raise SettingError(f"there are {len(roc['classes'])} classes: `evaluate_roc_multi_class` has a curve for each")
        one: dict[str, Any] = roc["classes"][1]
        return one

    def evaluate_roc_multi_class(
        self, data: Any, *, auc_thresholds: int | None = None, batch: int = 256
    ) -> dict[str, Any]:
        """The areas under the curves of every class against the rest."""
        scores = scoring.evaluate(
            self._frame(data), self.columns, self.model, self._names(), batch=batch, auc_thresholds=auc_thresholds
        )
        if "roc" not in scores.details:
            raise SettingError("this network predicts numbers: `evaluate_regression` judges it")
        roc: dict[str, Any] = scores.details["roc"]
        return roc

    def do_evaluation(self, data: Any, *, batch: int = 256) -> Scores:
        """All figures in one pass; `details` has classes, curves and columns one by one."""
        return self.evaluate(data, batch=batch)

    def calculate_score(self, data: Any, *, average: bool = True, batch: int = 256) -> float:
        """The loss: its mean over all rows, or its sum."""
        scores = self.evaluate(data, batch=batch)
        return scores.score if average else scores.score * scores.weight

    def score_examples(self, data: Any, *, column: str = "score") -> Any:
        """The data with the loss of each row in a column."""
        return scoring.score_examples(self._frame(data), self.columns, self.model, self._names(), column)

    def feed_forward_with_key(self, data: Any, key: str, *, column: str = "output") -> Any:
        """A DataFrame of keys, and of what the last layer says of their rows."""
        frame = self._frame(data)
        outputs = scoring.outputs_of(frame, self.columns, self.model.to_bytes())
        return frame.select(f"`{key}`", outputs.alias(column))

    def transform(self, data: Any, *, handle_invalid: scoring.HandleInvalid = "error") -> Any:
        """The data with predictions, and for classes with probabilities.

        Rows with null, NaN or another width end the job (`"error"`), are left out (`"skip"`) or have null as prediction (`"keep"`).
        """
        if handle_invalid not in ("error", "skip", "keep"):
            raise SettingError(f"expected `handle_invalid` as 'error', 'skip' or 'keep', found {handle_invalid!r}")
        return scoring.transform(
            self._frame(data),
            self.columns,
            self.model.to_bytes(),
            self._names() if self.is_classes else None,
            prediction="prediction",
            probability="probability",
            raw="rawPrediction",
            invalid=handle_invalid,
            option="handle_invalid",
        )

    predict = transform

    def _names(self) -> Sequence[Any] | None:
        if not self.is_classes:
            return None
        if self.labels is not None:
            return self.labels
        found: NDArray[Any] | None = self.model.classes
        return None if found is None else found.tolist()

    def _frame(self, data: Any) -> Any:
        if hasattr(data, "sparkSession") and hasattr(data, "schema"):
            return data
        if isinstance(data, str):
            return self.spark.read.parquet(data)
        if isinstance(data, (list, tuple)) and data and all(isinstance(path, str) for path in data):
            return self.spark.read.parquet(*data)
        if hasattr(data, "mapPartitions"):
            return self.spark.createDataFrame(data.map(_row), _schema(data, self.is_classes))
        raise SettingError(f"expected a DataFrame, an RDD or paths of Parquet files, found {type(data).__name__}")


def _row(item: Any) -> tuple[list[float], Any]:
    features, label = (item.features, item.label) if hasattr(item, "features") else item
    values = features.toArray() if hasattr(features, "toArray") else features
    return [float(value) for value in values], label


def _schema(data: Any, is_classes: bool) -> str:
    label = _row(data.first())[1]
    if isinstance(label, str):
        return "features array<float>, label string"
    if isinstance(label, int) and is_classes:
        return "features array<float>, label long"
    return "features array<float>, label double"


def _on_steps(hook: Callable[[Event], object]) -> Callback:
    def called(event: Event) -> None:
        if event.kind == "step":
            hook(event)

    return called
