"""Estimators for scikit-learn: a network as a step of a `Pipeline`, in `GridSearchCV` and wherever estimators go."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal, Self
from warnings import warn

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.exceptions import DataConversionWarning
from sklearn.model_selection import train_test_split
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from paceline import layers
from paceline.cores import available_memory
from paceline.data import Data, of_rows
from paceline.errors import SettingError
from paceline.layers import Layer, Named
from paceline.model import Model
from paceline.network import Network, feed_forward
from paceline.schema import label_type_of
from paceline.settings import Activation, EarlyStopping, Mode, NormaliserName, Updater
from paceline.training import Trainer


class _Estimator(BaseEstimator):  # type: ignore[misc]
    """What both have in common: a network for rows of numbers.

    `hidden_layers` has the units of dense layers, or whole layers of `paceline.layers`. All other arguments are those of
    `paceline.Network` and `paceline.Trainer`; features get mean 0 and deviation 1 unless `normaliser` says otherwise.

    With `early_stopping` a tenth of the examples, or `validation_fraction`, is judged on after every epoch instead of being learned
    from; training ends after `n_iter_no_change` epochs without a loss less by `tol`, and the best model is kept. A mapping has the keys of
    `early_stopping` in a job file. With `warm_start` another `fit` begins with the last model, and trains for `epochs` more.

    Sparse input is made dense, if that fits the memory. `model_` is the trained `paceline.Model`, with the labels and the names of columns
    that were given.

    An example of weight 2 is not the same as two examples: weights scale losses, while the minibatches that an example is drawn into
    depend on how many examples there are. The check `check_sample_weight_equivalence` of scikit-learn therefore fails, as for its own
    estimators that draw minibatches.
    """

    def __init__(
        self,
        hidden_layers: Sequence[int | Layer] = (100,),
        *,
        activation: Activation = "relu",
        updater: Updater | None = None,
        weight_init: Named = "xavier",
        l2: float = 1e-4,
        epochs: int = 200,
        batch: int = 32,
        workers: int | None = None,
        mode: Mode | None = None,
        normaliser: NormaliserName = "standardise",
        random_state: int | np.random.RandomState | None = 0,
        early_stopping: bool | EarlyStopping | None = False,
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

    def _stops(self) -> tuple[EarlyStopping | None, float | None]:
        """The rule of early stopping, and the share of examples that it is judged on; nothing is held out without a rule."""
        if not self.early_stopping:
            return None, None
        fraction = 0.1 if self.validation_fraction is None else self.validation_fraction
        if not 0.0 < fraction < 1.0:
            raise ValueError(f"expected `validation_fraction` between 0 and 1, found {fraction}")
        if isinstance(self.early_stopping, Mapping):
            return self.early_stopping, fraction
        return {"patience": int(self.n_iter_no_change), "improvement": float(self.tol)}, fraction

    @contextmanager
    def _as_before_if_it_fails(self) -> Iterator[None]:
        """A fit that fails or is interrupted leaves classes, names of columns and model as they were: they belong together."""
        before = dict(self.__dict__)
        try:
            yield
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    def _seed_of_fit(self, *, goes_on: bool) -> Model | None:
        """The model that a fit begins with; a fresh fit draws its seed."""
        start = self.model_ if (goes_on or self.warm_start) and hasattr(self, "model_") else None
        if start is None:
            self._network_seed = self._seed()
            self.loss_curve_: list[float] = []
        return start

    def _train(
        self,
        rows: NDArray[Any],
        targets: NDArray[Any],
        weights: NDArray[Any] | None,
        end: Layer,
        *,
        goes_on: bool = False,
        strata: NDArray[Any] | None = None,
        class_weight: Any = None,
        **given: Any,
    ) -> None:
        """Trains for all epochs; or for one, from where the last call ended. Whatever is fitted is fitted to the training rows alone."""
        start = self._seed_of_fit(goes_on=goes_on)
        rule, fraction = (None, None) if goes_on else self._stops()
        seed = self._network_seed
        names = getattr(self, "feature_names_in_", None)
        held: NDArray[Any] | None = None
        learned = np.arange(len(rows))
        if fraction is not None:
            learned, held = train_test_split(learned, test_size=fraction, random_state=seed, stratify=strata)

        def data_of(places: NDArray[Any], like: Data | None) -> Data:
            part = None if weights is None else weights[places]
            # All rows are not copied to be learned from.
            everything = held is None
            return of_rows(
                rows if everything else rows[places],
                targets if everything else targets[places],
                None if names is None else [str(name) for name in names],
                weights=part,
                like=like,
                **given,
            )

        data = data_of(learned, None)
        test = None if held is None else data_of(held, data)
        hidden = [dict(each) if isinstance(each, Mapping) else layers.dense(int(each)) for each in self.hidden_layers]
        network = Network(
            [*hidden, end],
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
            target_normaliser="standardise" if self._is_regressor else None,
            early_stopping=rule,
            class_weights=None if class_weight is None else class_weight(targets[learned]),
            progress=self.verbose,
            start=start,
            take="everything",
        )
        outcome = trainer.fit(data, test)
        self.model_: Model = outcome.model
        self.loss_curve_ = [*self.loss_curve_, *(float(event["loss"]) for event in outcome.events if event.kind == "epoch")]
        self.n_iter_ = len(self.loss_curve_)
        self.loss_ = self.loss_curve_[-1]
        if rule is not None:
            self.validation_losses_ = [float(event["score"]) for event in outcome.events if event.kind == "evaluation"]
            self.best_validation_loss_ = min(self.validation_losses_)

    _is_regressor = False

    def _rows(self, *given: Any, **options: Any) -> Any:
        """Checked rows: 64 bits stay, so that offsets are subtracted before numbers are rounded."""
        checked = validate_data(self, *given, dtype="numeric", accept_sparse="csr", **options)
        return (_dense(checked[0]), *checked[1:]) if isinstance(checked, tuple) else _dense(checked)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _outputs(self, features: Any) -> NDArray[np.floating[Any]]:
        check_is_fitted(self, "model_")
        rows = self._rows(features, reset=False)
        return self.model_.outputs(rows)


def _dense(rows: Any) -> Any:
    """Sparse rows as an array, if it fits the memory."""
    if not hasattr(rows, "toarray"):
        return rows
    needed, there = rows.shape[0] * rows.shape[1] * rows.dtype.itemsize, available_memory()
    if there is not None and needed > there:
        raise ValueError(
            f"this sparse matrix of {rows.shape[0]} × {rows.shape[1]} needs {needed / 2**30:.1f} GiB as an array, and {there / 2**30:.1f} GiB "
            "are available: keep fewer columns, as `TruncatedSVD` or `SelectKBest` do, or train on parts with `partial_fit`"
        )
    return rows.toarray()


class PacelineClassifier(ClassifierMixin, _Estimator):  # type: ignore[misc]
    """Tells classes apart. `class_weight` is `"balanced"`, or has a weight for labels that do not weigh 1.

    Where `y` has a column of 0 and 1 for each label, an example may have several: each is told by itself.
    """

    def __init__(
        self,
        hidden_layers: Sequence[int | Layer] = (100,),
        *,
        activation: Activation = "relu",
        updater: Updater | None = None,
        weight_init: Named = "xavier",
        l2: float = 1e-4,
        epochs: int = 200,
        batch: int = 32,
        workers: int | None = None,
        mode: Mode | None = None,
        normaliser: NormaliserName = "standardise",
        random_state: int | np.random.RandomState | None = 0,
        early_stopping: bool | EarlyStopping | None = False,
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

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags

    def _class_weights(self, labels: NDArray[Any]) -> list[float] | None:
        if self.class_weight is None:
            return None
        given = self.class_weight if isinstance(self.class_weight, str) else dict(self.class_weight)
        weights = compute_class_weight(given, classes=self.classes_, y=labels)
        return [float(weight) for weight in weights]

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        with self._as_before_if_it_fails():
            return self._fit(X, y, sample_weight)

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> Self:
        rows, labels = self._rows(X, y, multi_output=True)
        labels = _checked_labels(labels)
        before: NDArray[Any] | None = getattr(self, "classes_", None) if self.warm_start else None
        self.classes_ = np.unique(labels) if labels.ndim == 1 else np.arange(labels.shape[1])
        if before is not None and not np.array_equal(before, self.classes_):
            raise ValueError(f"with `warm_start` y must have the classes of the last fit, {before!r}, found {self.classes_!r}")
        if len(self.classes_) < 2:
            raise ValueError(f"expected examples of at least 2 classes, found 1 class: {self.classes_[0]!r}")
        self._learn(rows, labels, sample_weight, goes_on=False)
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Trains for one epoch on these rows, from where the last call ended. The first call names all `classes`, and its rows decide how
        features are normalised."""
        with self._as_before_if_it_fails():
            return self._partial_fit(X, y, classes, sample_weight)

    def _partial_fit(self, X: Any, y: Any, classes: Any, sample_weight: Any) -> Self:
        is_first = not hasattr(self, "model_")
        if is_first and classes is None:
            raise ValueError("classes must be passed on the first call to partial_fit: all that will ever come")
        rows, labels = self._rows(X, y, multi_output=True, reset=is_first)
        labels = _checked_labels(labels)
        if is_first:
            self.classes_ = np.unique(classes)
            if len(self.classes_) < 2:
                raise ValueError(f"expected at least 2 classes, found 1 class: {self.classes_[0]!r}")
        elif classes is not None and not np.array_equal(np.unique(classes), self.classes_):
            raise ValueError(f"classes={classes!r} are not those of the first call: {self.classes_!r}")
        if not is_first and (labels.ndim == 2) != self.multilabel_:
            known = "several labels for each row" if self.multilabel_ else "one label for each row"
            raise ValueError(f"y must have {known}, as in the first call, found {labels.ndim} dimensions")
        unknown = np.setdiff1d(labels, self.classes_) if labels.ndim == 1 else np.arange(len(self.classes_), labels.shape[1])
        if len(unknown) > 0:
            raise ValueError(f"y has labels that are not among the classes of the first call: {unknown!r}")
        if self.class_weight == "balanced":
            raise ValueError("class_weight='balanced' needs all examples: give `partial_fit` a weight for each label, as a dict")
        self._learn(rows, labels, sample_weight, goes_on=True)
        return self

    def _learn(self, rows: NDArray[Any], labels: NDArray[Any], sample_weight: Any, *, goes_on: bool) -> None:
        weights = None if sample_weight is None else _check_sample_weight(sample_weight, rows, dtype=np.float32)
        count = len(self.classes_)
        self.multilabel_ = labels.ndim == 2
        if self.multilabel_:
            if self.class_weight is not None:
                raise ValueError("class_weight is for one label each: with several labels give `sample_weight`")
            end = layers.output(count, activation="sigmoid", loss="binary_cross_entropy")
            self._train(rows, labels.astype(np.float32), weights, end, goes_on=goes_on, task="regression")
            return
        self._train(
            rows,
            labels,
            weights,
            layers.output(count),
            goes_on=goes_on,
            strata=labels,
            class_weight=self._class_weights,
            classes=_kept(self.classes_),
            task="classes",
        )

    def predict_proba(self, X: Any) -> NDArray[np.floating[Any]]:
        """The probability of each class; of several labels, each by itself."""
        return self._outputs(X)

    def predict(self, X: Any) -> NDArray[Any]:
        outputs = self._outputs(X)
        if self.multilabel_:
            several: NDArray[Any] = (outputs > 0.5).astype(np.int64)
            return several
        labels: NDArray[Any] = self.classes_[outputs.argmax(axis=1)]
        return labels


def _checked_labels(labels: NDArray[Any]) -> NDArray[Any]:
    """Labels of one column; or 0 and 1 in several."""
    labels = labels.toarray() if hasattr(labels, "toarray") else labels
    check_classification_targets(labels)
    if labels.ndim == 2 and labels.shape[1] == 1:
        warn("A column-vector y was passed when a 1d array was expected.", DataConversionWarning, stacklevel=3)
        return labels[:, 0]
    if labels.ndim == 2 and type_of_target(labels) != "multilabel-indicator":
        raise ValueError(f"expected one label for each example, or 0 and 1 in a column for each label, found {type_of_target(labels)!r}")
    return labels


def _kept(classes: NDArray[Any]) -> list[Any]:
    """The classes as a model keeps them; their places where it has no type for them."""
    try:
        label_type_of(classes)
    except SettingError:
        return list(range(len(classes)))
    return list(classes.tolist())


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

    _is_regressor = True

    def _learn(self, X: Any, y: Any, sample_weight: Any, *, goes_on: bool) -> Self:
        with self._as_before_if_it_fails():
            return self._learn_rows(X, y, sample_weight, goes_on=goes_on)

    def _learn_rows(self, X: Any, y: Any, sample_weight: Any, *, goes_on: bool) -> Self:
        is_first = not ((goes_on or self.warm_start) and hasattr(self, "model_"))
        rows, targets = self._rows(X, y, multi_output=True, y_numeric=True, reset=is_first)
        targets = np.asarray(targets, dtype=np.float64)
        weights = None if sample_weight is None else _check_sample_weight(sample_weight, rows, dtype=np.float32)
        columns = 1 if targets.ndim == 1 else targets.shape[1]
        if is_first:
            self._is_flat = targets.ndim == 1
        elif columns != self.model_.network.outputs:
            raise ValueError(f"y has {columns} columns, but the first call had {self.model_.network.outputs}")
        self._train(rows, targets, weights, layers.output(columns), goes_on=goes_on, task="regression")
        return self

    def predict(self, X: Any) -> NDArray[np.float64]:
        numbers = self._outputs(X).astype(np.float64)
        return numbers[:, 0] if self._is_flat else numbers
