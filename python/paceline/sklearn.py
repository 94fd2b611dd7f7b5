"""Estimators for scikit-learn: a network as a step of a `Pipeline`, in `GridSearchCV` and wherever estimators go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from paceline import layers
from paceline.data import Data
from paceline.layers import Layer, Named
from paceline.model import Model
from paceline.network import Network, feed_forward
from paceline.settings import Mode, NormaliserName
from paceline.training import Trainer


class _Estimator(BaseEstimator):  # type: ignore[misc]
    """What both have in common: a network for rows of numbers.

    `hidden_layers` has the units of dense layers, or whole layers of `paceline.layers`. All other arguments are those of
    `paceline.Network` and `paceline.Trainer`; features get mean 0 and deviation 1 unless `normaliser` says otherwise.

    With `early_stopping` a tenth of the examples, or `validation_fraction`, is judged on after every epoch instead of being learned
    from; training ends after `n_iter_no_change` epochs without a loss less by `tol`, and the best model is kept. A mapping has the keys of
    `early_stopping` in a job file. With `warm_start` another `fit` begins with the last model, and trains for `epochs` more.

    An example of weight 2 is not the same as two examples: weights scale losses, while the minibatches that an example is drawn into
    depend on how many examples there are. The check `check_sample_weight_equivalence` of scikit-learn therefore fails, as for its own
    estimators that draw minibatches.
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
        mode: Mode | None = None,
        normaliser: NormaliserName = "standardise",
        random_state: int | np.random.RandomState | None = 0,
        early_stopping: bool | Mapping[str, Any] | None = False,
        validation_fraction: float | None = None,
        n_iter_no_change: int = 10,
        tol: float = 1e-4,
        warm_start: bool = False,
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
        self.n_iter_no_change = n_iter_no_change
        self.tol = tol
        self.warm_start = warm_start
        self.verbose = verbose

    def _seed(self) -> int:
        if isinstance(self.random_state, (int, np.integer)):
            return int(self.random_state)
        state = self.random_state or np.random.mtrand._rand
        return int(state.randint(2**31))

    def _stops(self) -> tuple[Mapping[str, Any] | None, float | None]:
        """The rule of early stopping, and the share of examples that it is judged on."""
        if not self.early_stopping:
            return None, self.validation_fraction
        fraction = 0.1 if self.validation_fraction is None else self.validation_fraction
        if not 0.0 < fraction < 1.0:
            raise ValueError(f"expected `validation_fraction` between 0 and 1, found {fraction}")
        if isinstance(self.early_stopping, Mapping):
            return self.early_stopping, fraction
        return {"patience": int(self.n_iter_no_change), "improvement": float(self.tol)}, fraction

    def _train(self, data: Data, outputs: int, *, goes_on: bool = False, class_weights: list[float] | None = None) -> None:
        """Trains for all epochs; or for one, from where the last call ended."""
        start = self.model_ if (goes_on or self.warm_start) and hasattr(self, "model_") else None
        if start is None:
            self._network_seed = self._seed()
            self.loss_curve_: list[float] = []
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
        rule, fraction = (None, None) if goes_on else self._stops()
        trainer = Trainer(
            network,
            epochs=1 if goes_on else self.epochs,
            batch=self.batch,
            workers=self.workers,
            mode=self.mode,
            seed=seed,
            normaliser=self.normaliser,
            early_stopping=rule,
            class_weights=class_weights,
            progress=self.verbose,
            start=start,
            take="everything",
        )
        test = None
        if fraction is not None:
            data, test = data.split(1.0 - fraction, seed)
        outcome = trainer.fit(data, test)
        self.model_: Model = outcome.model
        self.loss_curve_ = [*self.loss_curve_, *(float(event["loss"]) for event in outcome.events if event.kind == "epoch")]
        self.n_iter_ = len(self.loss_curve_)
        self.loss_ = self.loss_curve_[-1]
        if rule is not None:
            self.validation_losses_ = [float(event["score"]) for event in outcome.events if event.kind == "evaluation"]
            self.best_validation_loss_ = min(self.validation_losses_)

    def _rows(self, *given: Any, **options: Any) -> Any:
        """Checked rows: 64 bits stay, so that offsets are subtracted before numbers are rounded."""
        return validate_data(self, *given, dtype="numeric", **options)

    def _outputs(self, features: Any) -> NDArray[np.floating[Any]]:
        check_is_fitted(self, "model_")
        rows = self._rows(features, reset=False)
        return self.model_.outputs(rows)


class PacelineClassifier(ClassifierMixin, _Estimator):  # type: ignore[misc]
    """Tells classes apart. `class_weight` is `"balanced"`, or has a weight for labels that do not weigh 1."""

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
        mode: Mode | None = None,
        normaliser: NormaliserName = "standardise",
        random_state: int | np.random.RandomState | None = 0,
        early_stopping: bool | Mapping[str, Any] | None = False,
        validation_fraction: float | None = None,
        n_iter_no_change: int = 10,
        tol: float = 1e-4,
        warm_start: bool = False,
        class_weight: Mapping[Any, float] | Literal["balanced"] | None = None,
        verbose: bool = False,
    ) -> None:
        super().__init__(
            hidden_layers,
            activation=activation,
            updater=updater,
            weight_init=weight_init,
            l2=l2,
            epochs=epochs,
            batch=batch,
            workers=workers,
            mode=mode,
            normaliser=normaliser,
            random_state=random_state,
            early_stopping=early_stopping,
            validation_fraction=validation_fraction,
            n_iter_no_change=n_iter_no_change,
            tol=tol,
            warm_start=warm_start,
            verbose=verbose,
        )
        self.class_weight = class_weight

    def _class_weights(self, labels: NDArray[Any]) -> list[float] | None:
        if self.class_weight is None:
            return None
        given = self.class_weight if isinstance(self.class_weight, str) else dict(self.class_weight)
        weights = compute_class_weight(given, classes=self.classes_, y=labels)
        return [float(weight) for weight in weights]

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        rows, labels = self._rows(X, y)
        check_classification_targets(labels)
        before: NDArray[Any] | None = getattr(self, "classes_", None) if self.warm_start else None
        self.classes_, places = np.unique(labels, return_inverse=True)
        if before is not None and not np.array_equal(before, self.classes_):
            raise ValueError(f"with `warm_start` y must have the classes of the last fit, {before!r}, found {self.classes_!r}")
        if len(self.classes_) < 2:
            raise ValueError(f"expected examples of at least 2 classes, found 1 class: {self.classes_[0]!r}")
        weights = None if sample_weight is None else _check_sample_weight(sample_weight, rows, dtype=np.float32)
        names = list(range(len(self.classes_)))
        data = Data.from_arrays(rows, places, weights=weights, classes=names, task="classes")
        self._train(data, len(self.classes_), class_weights=self._class_weights(labels))
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Trains for one epoch on these rows, from where the last call ended. The first call names all `classes`, and its rows decide how
        features are normalised."""
        is_first = not hasattr(self, "model_")
        if is_first and classes is None:
            raise ValueError("classes must be passed on the first call to partial_fit: all that will ever come")
        rows, labels = self._rows(X, y, reset=is_first)
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
        if self.class_weight == "balanced":
            raise ValueError("class_weight='balanced' needs all examples: give `partial_fit` a weight for each label, as a dict")
        self._train(data, len(self.classes_), goes_on=True, class_weights=self._class_weights(labels))
        return self

    def predict_proba(self, X: Any) -> NDArray[np.floating[Any]]:
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
        is_first = not ((goes_on or self.warm_start) and hasattr(self, "model_"))
        rows, targets = self._rows(X, y, multi_output=True, y_numeric=True, reset=is_first)
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
