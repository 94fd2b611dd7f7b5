"""Estimators for scikit-learn: a network as a step of a `Pipeline`, in `GridSearchCV` and wherever estimators go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from paceline import layers
from paceline.data import Data
from paceline.layers import Layer, Named
from paceline.model import Model
from paceline.network import Network, feed_forward
from paceline.training import Trainer


class _Estimator(BaseEstimator):  # type: ignore[misc]
    """What both have in common: a network for rows of numbers.

    `hidden_layers` has the units of dense layers, or whole layers of `paceline.layers`. All other arguments are those of
    `paceline.Network` and `paceline.Trainer`; features get mean 0 and deviation 1 unless `normaliser` says otherwise.
    """

    def __init__(
        self,
        hidden_layers: Sequence[int | Layer] = (100,),
        *,
        activation: Named = "relu",
        updater: Named | None = None,
        weight_init: Named = "xavier",
        l2: float = 1e-4,
        epochs: int = 200,
        batch: int = 32,
        workers: int | None = None,
        mode: str | Mapping[str, Any] | None = None,
        normaliser: str = "standardise",
        random_state: int | np.random.RandomState | None = 0,
        early_stopping: Mapping[str, Any] | None = None,
        validation_fraction: float | None = None,
        verbose: bool = False,
    ) -> None:
        self.hidden_layers = hidden_layers
        self.activation = activation
        self.updater = updater
        self.weight_init = weight_init
        self.l2 = l2
        self.epochs = epochs
        self.batch = batch
        self.workers = workers
        self.mode = mode
        self.normaliser = normaliser
        self.random_state = random_state
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.verbose = verbose

    def _seed(self) -> int:
        if isinstance(self.random_state, (int, np.integer)):
            return int(self.random_state)
        state = self.random_state or np.random.mtrand._rand
        return int(state.randint(2**31))

    def _train(self, data: Data, outputs: int, *, goes_on: bool = False) -> None:
        """Trains for all epochs; or for one, from where the last call ended."""
        start = self.model_ if goes_on and hasattr(self, "model_") else None
        if start is None:
            self._network_seed = self._seed()
        seed = self._network_seed
        hidden = [dict(each) if isinstance(each, Mapping) else layers.dense(int(each)) for each in self.hidden_layers]
        network = Network(
            [*hidden, layers.output(outputs)],
            input=feed_forward(self.n_features_in_),
            seed=seed,
            activation=self.activation,
            weight_init=self.weight_init,
            l2=self.l2,
            updater=self.updater if self.updater is not None else {"adam": {"learning_rate": 1e-3}},
        )
        trainer = Trainer(
            network,
            epochs=1 if goes_on else self.epochs,
            batch=self.batch,
            workers=self.workers,
            mode=self.mode,
            seed=seed,
            normaliser=self.normaliser,
            early_stopping=None if goes_on else self.early_stopping,
            progress=self.verbose,
            start=start,
            take="everything",
        )
        test = None
        if self.validation_fraction is not None and not goes_on:
            data, test = data.split(1.0 - self.validation_fraction, seed)
        outcome = trainer.fit(data, test)
        self.model_: Model = outcome.model
        self.n_iter_ = self.model_.epoch
        self.loss_ = float(next(event["loss"] for event in reversed(outcome.events) if event.kind == "epoch"))

    def _outputs(self, features: Any) -> NDArray[np.float32]:
        check_is_fitted(self, "model_")
        rows = validate_data(self, features, dtype=np.float32, reset=False)
        return self.model_.outputs(rows)


class PacelineClassifier(ClassifierMixin, _Estimator):  # type: ignore[misc]
    """Tells classes apart."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        rows, labels = validate_data(self, X, y, dtype=np.float32)
        check_classification_targets(labels)
        self.classes_, places = np.unique(labels, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"expected examples of at least 2 classes, found 1 class: {self.classes_[0]!r}")
        weights = None if sample_weight is None else _check_sample_weight(sample_weight, rows, dtype=np.float32)
        names = list(range(len(self.classes_)))
        data = Data.from_arrays(rows, places, weights=weights, classes=names, task="classes")
        self._train(data, len(self.classes_))
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Trains for one epoch on these rows, from where the last call ended. The first call names all `classes`, and its rows decide how
        features are normalised."""
        is_first = not hasattr(self, "model_")
        if is_first and classes is None:
            raise ValueError("classes must be passed on the first call to partial_fit: all that will ever come")
        rows, labels = validate_data(self, X, y, dtype=np.float32, reset=is_first)
        check_classification_targets(labels)
        if is_first:
            self.classes_ = np.unique(classes)
            if len(self.classes_) < 2:
                raise ValueError(f"expected at least 2 classes, found 1 class: {self.classes_[0]!r}")
        elif classes is not None and not np.array_equal(np.unique(classes), self.classes_):
            raise ValueError(f"classes={classes!r} are not those of the first call: {self.classes_!r}")
        unknown = np.setdiff1d(labels, self.classes_)
        if len(unknown) > 0:
            raise ValueError(f"y has labels that are not among the classes of the first call: {unknown!r}")
        places = np.searchsorted(self.classes_, labels)
        weights = None if sample_weight is None else _check_sample_weight(sample_weight, rows, dtype=np.float32)
        names = list(range(len(self.classes_)))
        data = Data.from_arrays(rows, places, weights=weights, classes=names, task="classes")
        self._train(data, len(self.classes_), goes_on=True)
        return self

    def predict_proba(self, X: Any) -> NDArray[np.float32]:
        return self._outputs(X)

    def predict(self, X: Any) -> NDArray[Any]:
        places = self._outputs(X).argmax(axis=1)
        labels: NDArray[Any] = self.classes_[places]
        return labels


class PacelineRegressor(RegressorMixin, _Estimator):  # type: ignore[misc]
    """Predicts numbers."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        return self._learn(X, y, sample_weight, goes_on=False)

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Trains for one epoch on these rows, from where the last call ended. The rows of the first call decide how features and targets
        are normalised."""
        return self._learn(X, y, sample_weight, goes_on=True)

    def _learn(self, X: Any, y: Any, sample_weight: Any, *, goes_on: bool) -> Self:
        is_first = not (goes_on and hasattr(self, "model_"))
        rows, targets = validate_data(self, X, y, dtype=np.float32, multi_output=True, y_numeric=True, reset=is_first)
        targets = np.asarray(targets, dtype=np.float64)
        columns = targets.reshape(len(rows), -1)
        weights = None if sample_weight is None else _check_sample_weight(sample_weight, rows, dtype=np.float32)
        if is_first:
            self._is_flat = targets.ndim == 1
            # A network learns numbers around 0 and 1 best; predictions are brought back.
            self._middle, spread = columns.mean(axis=0), columns.std(axis=0)
            self._spread = np.where(spread > 0, spread, 1.0)
        elif columns.shape[1] != len(self._middle):
            raise ValueError(f"y has {columns.shape[1]} columns, but the first call had {len(self._middle)}")
        data = Data.from_arrays(rows, (columns - self._middle) / self._spread, weights=weights, task="regression")
        self._train(data, columns.shape[1], goes_on=goes_on)
        return self

    def predict(self, X: Any) -> NDArray[np.float64]:
        outputs = self._outputs(X)
        numbers: NDArray[np.float64] = outputs * self._spread + self._middle
        return numbers[:, 0] if self._is_flat else numbers
