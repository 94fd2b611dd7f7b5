"""Estimators in Spark's own words: they go into a `Pipeline`, into a `CrossValidator`, and onto disk by Spark's writers."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from pyspark import keyword_only
from pyspark.ml.classification import ProbabilisticClassificationModel
from pyspark.ml.linalg import Vectors
from pyspark.ml.regression import RegressionModel
from pyspark.ml.base import Estimator, Model as SparkModel
from pyspark.ml.param import Param, Params, TypeConverters
from pyspark.ml.param.shared import (
    HasLabelCol,
    HasPredictionCol,
    HasProbabilityCol,
    HasRawPredictionCol,
    HasSeed,
    HasThresholds,
    HasValidationIndicatorCol,
    HasWeightCol,
)
from pyspark.ml.util import DefaultParamsReadable, DefaultParamsReader, DefaultParamsWritable, DefaultParamsWriter
from pyspark.ml.util import MLReadable, MLReader, MLWritable, MLWriter
from pyspark.sql import SparkSession

from paceline.errors import SettingError
from paceline.events import Callback, EventKind
from paceline.labels import class_weights_of
from paceline.model import Model, Scores
from paceline.network import Network
from paceline.spark import scoring, sessions
from paceline.spark.columns import Columns
from paceline.spark.exporting import name_of
from paceline.spark.fitting import Fitted, Placement, fit_frame
from paceline.spark.task import PIECE
from paceline.training import Trainer


def _network(value: Any) -> str:
    if isinstance(value, Network):
        return value.to_json()
    if isinstance(value, str):
        return Network.from_json(value).to_json()
    raise TypeError(f"expected a `paceline.Network`, found {type(value).__name__}")


def _names(value: Any) -> Any:
    return value if isinstance(value, str) else [str(name) for name in value]


def _mode(value: Any) -> Any:
    if isinstance(value, (str, dict)):
        return value
    raise TypeError(f"expected a mode such as 'sync' or {{'averaging': {{'frequency': 10}}}}, found {value!r}")


def _workers(value: Any) -> int:
    number = int(TypeConverters.toInt(value))
    if number < 0:
        raise SettingError(f"expected `numWorkers` as the number of tasks that train, or 0 for one on each slot, found {number}")
    return number


def _invalid(value: Any) -> str:
    if value not in ("error", "skip", "keep"):
        raise SettingError(f"expected `handleInvalid` as 'error', 'skip' or 'keep', found {value!r}")
    return str(value)


def _rule(value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise SettingError(f"expected `earlyStopping` as a dict, such as {{'patience': 3}}, found {value!r}")
    return dict(value)


def _class_weights(value: Any) -> Any:
    class_weights_of(None if isinstance(value, Mapping) else value, None)
    return {name_of(label): float(weight) for label, weight in value.items()} if isinstance(value, Mapping) else value


def _plainly(kind: type[Any]) -> type[Any]:
    """Gives a class `setX` and `getX` for each of its parameters `x`, and its constructor their names, for completion."""
    names = sorted(name for name in dir(kind) if isinstance(getattr(kind, name, None), Param))
    for name in names:
        whole = name[0].upper() + name[1:]

        def setter(self: Any, value: Any, of: str = name) -> Any:
            return self._set(**{of: value})

        def getter(self: Any, of: str = name) -> Any:
            return self.getOrDefault(getattr(self, of))

        for method, does in ((f"set{whole}", setter), (f"get{whole}", getter)):
            if method not in vars(kind):
                does.__name__ = method
                does.__doc__ = getattr(kind, name).doc
                setattr(kind, method, does)
    if issubclass(kind, _Estimator):
        keyword = inspect.Parameter.KEYWORD_ONLY
        own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        every = sorted([*names, *_NOT_SAVED])
        signature = inspect.Signature([own, *(inspect.Parameter(name, keyword, default=None) for name in every)])
        for function in ("__init__", "setParams"):
            setattr(vars(kind)[function], "__signature__", signature)
    return kind


# Arguments of estimators that no file can hold.
_NOT_SAVED = ("callbacks", "initialModel")


class _Settings(
    HasLabelCol,
    HasPredictionCol,
    HasWeightCol,
    HasValidationIndicatorCol,
    HasSeed,
):
    """What estimators and models have in common."""

    featuresCol: Param[Any] = Param(
        Params._dummy(), "featuresCol", "a column of vectors or arrays, or a list of columns of numbers", typeConverter=_names
    )
    network: Param[Any] = Param(Params._dummy(), "network", "what is trained, as a `paceline.Network`", typeConverter=_network)
    numWorkers: Param[Any] = Param(
        Params._dummy(), "numWorkers", "tasks that train; 0 takes all slots", typeConverter=_workers
    )
    handleInvalid: Param[Any] = Param(
        Params._dummy(),
        "handleInvalid",
        "what `transform` does with rows that have null, NaN or another width: error, skip, or keep with null as prediction",
        typeConverter=_invalid,
    )
    earlyStopping: Param[Any] = Param(
        Params._dummy(),
        "earlyStopping",
        "when a fit ends before its last epoch, as in a job file: {'patience': 3}; needs `validationIndicatorCol`",
        typeConverter=_rule,
    )
    classWeights: Param[Any] = Param(
        Params._dummy(), "classWeights", "balanced, or a weight for each label, as a dict", typeConverter=_class_weights
    )
    collectTrainingStats: Param[Any] = Param(
        Params._dummy(),
        "collectTrainingStats",
        "whether `model.fitted.statistics` says where the time of the workers went",
        typeConverter=TypeConverters.toBoolean,
    )
    mode: Param[Any] = Param(Params._dummy(), "mode", "sync, averaging or shared, or one of them with options", typeConverter=_mode)
    epochs: Param[Any] = Param(Params._dummy(), "epochs", "times that all rows are learned from", typeConverter=TypeConverters.toInt)
    batchSize: Param[Any] = Param(Params._dummy(), "batchSize", "examples of a worker's step", typeConverter=TypeConverters.toInt)
    normaliser: Param[Any] = Param(
        Params._dummy(), "normaliser", "none, min_max, standardise or image", typeConverter=TypeConverters.toString
    )
    targetNormaliser: Param[Any] = Param(
        Params._dummy(),
        "targetNormaliser",
        "none, min_max or standardise: what is done to labels that are numbers, and undone in predictions; unset, what suits the network",
        typeConverter=TypeConverters.toString,
    )
    exportDirectory: Param[Any] = Param(
        Params._dummy(),
        "exportDirectory",
        "a folder that every host reaches, for the rows while they are learned from",
        typeConverter=TypeConverters.toString,
    )
    port: Param[Any] = Param(Params._dummy(), "port", "where the driver listens; 0 takes a free one", typeConverter=TypeConverters.toInt)
    controllerAddress: Param[Any] = Param(
        Params._dummy(), "controllerAddress", "the address that reaches the driver", typeConverter=TypeConverters.toString
    )
    networkMask: Param[Any] = Param(
        Params._dummy(), "networkMask", "the network whose address reaches the driver", typeConverter=TypeConverters.toString
    )
    verbose: Param[Any] = Param(Params._dummy(), "verbose", "whether progress is shown", typeConverter=TypeConverters.toBoolean)

    def _columns(self) -> Columns:
        weight = self.getOrDefault(self.weightCol) if self.isDefined(self.weightCol) else None
        indicator = self.validationIndicatorCol
        validation = self.getOrDefault(indicator) if self.isDefined(indicator) else None
        return Columns.of(self.getOrDefault(self.featuresCol), self.getOrDefault(self.labelCol), weight, validation)

    def _set(self, **settings: Any) -> Any:
        known = [param.name for param in self.params]
        for name in settings:
            if name not in known:
                near = difflib.get_close_matches(name, known, 1)
                hint = f"did you mean `{near[0]}`?" if near else f"its parameters are {', '.join(f'`{each}`' for each in known)}"
                raise SettingError(f"`{type(self).__name__}` has no parameter `{name}`: {hint}")
        return super()._set(**settings)

    def _optional(self, param: Param[Any]) -> Any:
        return self.getOrDefault(param) if self.isDefined(param) else None


class _Estimator(Estimator, _Settings, DefaultParamsWritable, DefaultParamsReadable):
    """Trains a network on a DataFrame with the tasks of a Spark cluster."""

    _is_classifier = True
    _callbacks: tuple[Callback, ...] = ()
    _initial: Model | None = None

    def setCallbacks(self, value: Iterable[Callback]) -> Any:
        """Functions that are handed every event of a fit; not kept on disk."""
        self._callbacks = tuple(value)
        return self

    def getCallbacks(self) -> list[Callback]:
        return list(self._callbacks)

    def setInitialModel(self, value: Model | PacelineModel | None) -> Any:
        """The model that a fit goes on from: its updater remembers, and epochs are counted on; not kept on disk."""
        if value is not None and not isinstance(value, (Model, PacelineModel)):
            raise SettingError(f"expected `initialModel` as a model of a fit or a `paceline.Model`, found {type(value).__name__}")
        self._initial = value.model if isinstance(value, PacelineModel) else value
        return self

    def getInitialModel(self) -> Model | None:
        return self._initial

    def _set(self, **settings: Any) -> Any:
        for name in _NOT_SAVED:
            if name in settings:
                getattr(self, f"set{name[0].upper()}{name[1:]}")(settings.pop(name))
        return super()._set(**settings)

    def copy(self, extra: Any = None) -> Any:
        copied = super().copy(extra)
        copied._callbacks, copied._initial = self._callbacks, self._initial
        return copied

    def _defaults(self) -> None:
        self._setDefault(
            featuresCol="features",
            labelCol="label",
            predictionCol="prediction",
            numWorkers=0,
            mode="sync",
            epochs=1,
            batchSize=32,
            normaliser="none",
            seed=0,
            port=0,
            handleInvalid="error",
            collectTrainingStats=False,
            verbose=False,
        )

    def _fit(self, dataset: Any) -> PacelineModel:
        spark = dataset.sparkSession
        if self.isDefined(self.network):
            network = Network.from_json(self.getOrDefault(self.network))
        elif self._initial is not None:
            network = self._initial.network
        else:
            raise SettingError("expected a `network`: `PacelineClassifier(network=paceline.Network(…))`")
        workers = self.getOrDefault(self.numWorkers) or sessions.slots(spark)
        trainer = Trainer(
            network,
            epochs=self.getOrDefault(self.epochs),
            batch=self.getOrDefault(self.batchSize),
            mode=self.getOrDefault(self.mode),
            seed=self.getOrDefault(self.seed),
            normaliser=self.getOrDefault(self.normaliser),
            target_normaliser=self._optional(self.targetNormaliser),
            early_stopping=self._optional(self.earlyStopping),
            class_weights=self._optional(self.classWeights) if self._is_classifier else None,
            start=self._initial,
            take="everything",
        )
        placement = Placement(
            workers,
            port=self.getOrDefault(self.port),
            address=self._optional(self.controllerAddress),
            network_mask=self._optional(self.networkMask),
            statistics=self.getOrDefault(self.collectTrainingStats),
        )
        if trainer._train.get("early_stopping") and not self.isDefined(self.validationIndicatorCol):
            raise SettingError("`earlyStopping` needs rows to judge on: set `validationIndicatorCol` to a column of truth values")
        fitted, exported = fit_frame(
            spark,
            dataset,
            self._columns(),
            trainer,
            placement,
            is_classes=self._is_classifier,
            directory=self._optional(self.exportDirectory),
            seed=self.getOrDefault(self.seed),
            callbacks=self._callbacks,
            progress="auto" if self.getOrDefault(self.verbose) else False,
        )
        model = _model_of(fitted.model.to_bytes(), exported.labels)
        model.fitted = fitted
        self._copyValues(model)
        model._resetUid(self.uid)
        return model


@_plainly
class PacelineClassifier(_Estimator, HasProbabilityCol, HasRawPredictionCol, HasThresholds):
    """Tells classes apart. The label column holds whole numbers or texts; predictions are labels as they were given."""

    @keyword_only
    def __init__(self, **settings: Any) -> None:
        super().__init__()
        self._defaults()
        self._setDefault(probabilityCol="probability", rawPredictionCol="rawPrediction")
        self._set(**settings)

    @keyword_only
    def setParams(self, **settings: Any) -> PacelineClassifier:
        self._set(**settings)
        return self


@_plainly
class PacelineRegressor(_Estimator):
    """Predicts numbers: one, or several where the label column holds arrays."""

    _is_classifier = False

    @keyword_only
    def __init__(self, **settings: Any) -> None:
        super().__init__()
        self._defaults()
        self._set(**settings)

    @keyword_only
    def setParams(self, **settings: Any) -> PacelineRegressor:
        self._set(**settings)
        return self


@dataclass(frozen=True)
class TrainingSummary:
    """How a fit went."""

    objectiveHistory: list[float]
    """The mean loss of each epoch; NaN where the master heard of none."""
    validationHistory: list[float]
    """The loss on the rows of the validation indicator, after each epoch that the master had time to evaluate."""
    totalIterations: int
    """Steps that were taken."""
    scores: Scores | None
    """All figures on the rows of the validation indicator, at the end."""

    @classmethod
    def of(cls, fitted: Fitted) -> TrainingSummary:
        def each(kind: EventKind, name: str) -> list[float]:
            found = [event.get(name) for event in fitted.events if event.kind == kind]
            return [float("nan") if number is None else float(number) for number in found]

        return cls(each("epoch", "loss"), each("evaluation", "score"), fitted.model.iteration, fitted.scores)


class PacelineModel(SparkModel, _Settings, MLWritable, MLReadable):
    """What was learned: predicts by `transform`. `PacelineModel.load` gives the class that was saved."""

    fitted: Fitted | None = None
    """How the fit went, with its events; not kept on disk."""

    def __init__(self, content: bytes = b"", labels: tuple[Any, ...] | None = None) -> None:
        super().__init__()
        self._setDefault(handleInvalid="error")
        self._content, self._labels = content, labels

    @property
    def model(self) -> Model:
        """The model as an object of this package: `save`, `evaluate`, `predict` without Spark."""
        return Model.from_bytes(self._content)

    @property
    def scores(self) -> Scores | None:
        """How good it was on the rows of the validation indicator, at the end of the fit."""
        return None if self.fitted is None else self.fitted.scores

    @property
    def hasSummary(self) -> bool:
        """True of a model that comes from a fit, not from a file."""
        return self.fitted is not None

    @property
    def summary(self) -> TrainingSummary:
        """How the fit went; raises for a model from a file."""
        if self.fitted is None:
            raise RuntimeError(f"there is no summary of the fit for this {type(self).__name__}: it was loaded, and only the model is saved")
        return TrainingSummary.of(self.fitted)

    def evaluate(self, dataset: Any) -> Scores:
        """All figures on rows with labels, computed where the rows are."""
        columns = self._columns()
        return scoring.evaluate(dataset, replace(columns, validation=None), self.model, self._labels)

    @property
    def numFeatures(self) -> int:
        """Numbers of a row of features."""
        return self.model.network.inputs

    def _row(self, value: Any) -> Any:
        row = np.asarray(value.toArray() if hasattr(value, "toArray") else value)
        return row.reshape(1, *scoring.shape_of(self.model.network))

    def predict(self, value: Any) -> Any:
        """The label, or the numbers, of one vector of features."""
        found = self.model.predict(self._row(value))[0]
        return found.item() if isinstance(found, np.generic) else found

    def _transform(self, dataset: Any) -> Any:
        def of(name: str) -> Any:
            return self._optional(getattr(self, name)) if self.hasParam(name) else None

        return scoring.transform(
            dataset,
            self._columns(),
            self._content,
            self._labels,
            prediction=self.getOrDefault(self.predictionCol),
            probability=of("probabilityCol") or "",
            raw=of("rawPredictionCol") or "",
            invalid=self.getOrDefault(self.handleInvalid),
            thresholds=of("thresholds"),
        )

    def copy(self, extra: Any = None) -> Any:
        copied: PacelineModel = super().copy(extra)
        copied._content, copied._labels, copied.fitted = self._content, self._labels, self.fitted
        return copied

    def write(self) -> MLWriter:
        return _Writer(self)

    @classmethod
    def read(cls) -> MLReader[PacelineModel]:
        return _Reader()

    def _repr_html_(self) -> str:
        return self.model._repr_html_()


@_plainly
class PacelineClassificationModel(PacelineModel, ProbabilisticClassificationModel):
    """Tells classes apart. With `thresholds` the class is predicted whose probability divided by its threshold is the largest."""

    def __init__(self, content: bytes = b"", labels: tuple[Any, ...] | None = None) -> None:
        super().__init__(content, labels)
        self._setDefault(probabilityCol="probability", rawPredictionCol="rawPrediction")

    @property
    def numClasses(self) -> int:
        return len(self._labels or ())

    def predictRaw(self, value: Any) -> Any:
        """What the network says of each class, for one vector of features."""
        outputs = self.model.outputs(self._row(value))[0]
        return Vectors.dense([1 - outputs[0], outputs[0]] if len(outputs) == 1 else outputs)

    def predictProbability(self, value: Any) -> Any:
        """The probability of each class, for one vector of features."""
        return Vectors.dense(self.model.predict_proba(self._row(value))[0])

    def predict(self, value: Any) -> Any:
        """The label of one vector of features."""
        thresholds = self._optional(self.thresholds)
        if thresholds is None:
            return super().predict(value)
        scoring.check_thresholds(thresholds, self.model, self.numClasses)
        shares = [np.inf if limit == 0 else share / limit for share, limit in zip(self.predictProbability(value), thresholds, strict=True)]
        return (self._labels or ())[int(np.argmax(shares))]


@_plainly
class PacelineRegressionModel(PacelineModel, RegressionModel):
    """Predicts numbers."""


def _model_of(content: bytes, labels: tuple[Any, ...] | None) -> PacelineModel:
    kind = PacelineRegressionModel if labels is None else PacelineClassificationModel
    return kind(content, labels)


class _Writer(MLWriter):
    def __init__(self, model: PacelineModel) -> None:
        super().__init__()
        self.model = model

    def saveImpl(self, path: str) -> None:
        spark = SparkSession.getActiveSession() or self.sparkSession
        labels = None if self.model._labels is None else list(self.model._labels)
        DefaultParamsWriter.saveMetadata(self.model, path, _context(spark), extraMetadata={"labels": labels})
        content = self.model._content
        rows = [(at, bytearray(content[at : at + PIECE])) for at in range(0, len(content), PIECE)]
        frame = spark.createDataFrame(rows, "place long, content binary")
        frame.coalesce(1).write.parquet(f"{path}/model")


class _Reader(MLReader):
    def load(self, path: str) -> PacelineModel:
        spark = SparkSession.getActiveSession() or self.sparkSession
        metadata = DefaultParamsReader.loadMetadata(path, _context(spark))
        rows = sorted(spark.read.parquet(f"{path}/model").collect(), key=lambda row: row["place"])
        labels = metadata.get("labels")
        model = _model_of(b"".join(bytes(row["content"]) for row in rows), None if labels is None else tuple(labels))
        model._resetUid(metadata["uid"])
        DefaultParamsReader.getAndSetParams(model, metadata)
        return model


def _context(spark: Any) -> Any:
    """What Spark's writers of metadata take: until 3.5 its context."""
    return spark if int(spark.version.split(".")[0]) >= 4 else spark.sparkContext
