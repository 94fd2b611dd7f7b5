import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import paceline
from paceline.sklearn import PacelineClassifier, PacelineRegressor

# Examples of weight 0 are drawn into minibatches as others are, so that the rest is trained in another order than without them.
EXPECTED = {
    "check_sample_weight_equivalence_on_dense_data": "the order of minibatches depends on all examples",
    "check_sample_weight_equivalence_on_sparse_data": "the order of minibatches depends on all examples",
}


@parametrize_with_checks(
    [PacelineClassifier(epochs=60), PacelineRegressor(epochs=60)], expected_failed_checks=lambda _: EXPECTED
)
def test_what_scikit_learn_expects_of_estimators(estimator, check) -> None:
    check(estimator)


def test_iris_in_a_pipeline_and_a_search() -> None:
    features, labels = load_iris(return_X_y=True)
    pipeline = make_pipeline(StandardScaler(), PacelineClassifier((20,), batch=16))
    assert cross_val_score(pipeline, features, labels, cv=3).mean() > 0.93
    search = GridSearchCV(PacelineClassifier(batch=8), {"hidden_layers": [(8,), (32,)]}, cv=2, n_jobs=2)
    search.fit(features, labels)
    assert search.best_score_ > 0.9


def test_a_fitted_estimator_travels() -> None:
    features, labels = load_breast_cancer(return_X_y=True)
    names = np.asarray(["malignant", "benign"])[labels]
    fitted = PacelineClassifier(epochs=20).fit(features, names)
    other = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(fitted.predict(features), other.predict(features))
    np.testing.assert_array_equal(fitted.predict_proba(features), other.predict_proba(features))
    assert fitted.score(features, names) > 0.97


def test_numbers() -> None:
    features, targets = load_diabetes(return_X_y=True)
    fitted = PacelineRegressor((32,), epochs=100).fit(features[:350], targets[:350])
    assert fitted.score(features[350:], targets[350:]) > 0.35
    both = PacelineRegressor((32,), epochs=20).fit(features, np.stack([targets, -targets], axis=1))
    assert both.predict(features).shape == (len(features), 2)


def test_a_weight_of_zero_is_as_good_as_no_example() -> None:
    features, labels = load_iris(return_X_y=True)
    wrong = np.where(np.arange(150) % 3 == 0, (labels + 1) % 3, labels)
    weights = np.where(np.arange(150) % 3 == 0, 0.0, 1.0)
    fitted = PacelineClassifier(epochs=60).fit(features, wrong, sample_weight=weights)
    assert fitted.score(features, labels) > 0.93
    with pytest.raises(ValueError, match="2 classes"):
        PacelineClassifier().fit(features, np.zeros(150))


def test_a_few_calls_of_partial_fit_are_one_fit() -> None:
    features, labels = load_iris(return_X_y=True)
    names = np.asarray(["setosa", "versicolor", "virginica"])[labels]
    whole = PacelineClassifier((16,), epochs=4, batch=16).fit(features, names)
    parts = PacelineClassifier((16,), epochs=999, batch=16)
    for _ in range(4):
        parts.partial_fit(features, names, classes=np.unique(names))
    np.testing.assert_array_equal(parts.predict_proba(features), whole.predict_proba(features))
    assert (parts.n_iter_, whole.n_iter_) == (4, 4)
    targets = features @ [1.0, -2.0, 0.5, 3.0]
    whole, parts = PacelineRegressor((16,), epochs=3), PacelineRegressor((16,))
    whole.fit(features, targets)
    for _ in range(3):
        parts.partial_fit(features, targets)
    np.testing.assert_array_equal(parts.predict(features), whole.predict(features))


def test_rows_may_come_in_parts_that_lack_classes() -> None:
    features, labels = load_iris(return_X_y=True)
    estimator = PacelineClassifier((16,), batch=8, updater={"adam": {"learning_rate": 0.01}})
    with pytest.raises(ValueError, match="first call"):
        estimator.partial_fit(features, labels)
    # The first rows say how features are normalised.
    order = np.random.default_rng(1).permutation(len(labels))
    for _ in range(20):
        for number, part in enumerate(np.split(order, 5)):
            part = part[labels[part] != 2] if number == 0 else part
            estimator.partial_fit(features[part], labels[part], classes=[0, 1, 2])
    assert estimator.score(features, labels) > 0.93
    again = pickle.loads(pickle.dumps(estimator)).partial_fit(features[order], labels[order])
    assert again.n_iter_ == 101
    with pytest.raises(ValueError, match="not among the classes"):
        estimator.partial_fit(features, labels + 1)
    with pytest.raises(ValueError, match="first call"):
        estimator.partial_fit(features, labels, classes=[0, 1])


def test_training_ends_early_and_says_how_it_went() -> None:
    features, labels = load_breast_cancer(return_X_y=True)
    fitted = PacelineClassifier((16,), epochs=300, early_stopping=True, n_iter_no_change=3, random_state=1).fit(features, labels)
    assert 4 <= fitted.n_iter_ < 300 and len(fitted.loss_curve_) == fitted.n_iter_
    assert fitted.loss_curve_[-1] < fitted.loss_curve_[0] and fitted.loss_ == fitted.loss_curve_[-1]
    assert fitted.best_validation_loss_ == min(fitted.validation_losses_)
    assert fitted.score(features, labels) > 0.95
    with pytest.raises(ValueError, match="`validation_fraction` between 0 and 1, found 1.5"):
        PacelineClassifier(early_stopping=True, validation_fraction=1.5).fit(features, labels)


def test_classes_weigh_as_they_are_told() -> None:
    features, labels = load_iris(return_X_y=True)
    names = np.asarray(["setosa", "versicolor", "virginica"])[labels]
    plain, heavy = (
        PacelineClassifier((8,), epochs=20, class_weight=given).fit(features, names) for given in (None, {"virginica": 50.0})
    )
    assert (heavy.predict(features) == "virginica").sum() > (plain.predict(features) == "virginica").sum()
    # 50 of the first and 25 of the second class: 75 / (2 × 50) and 75 / (2 × 25).
    balanced, told = (
        PacelineClassifier((8,), epochs=2, class_weight=given).fit(features[:75], names[:75])
        for given in ("balanced", {"setosa": 0.75, "versicolor": 1.5})
    )
    np.testing.assert_array_equal(balanced.predict_proba(features), told.predict_proba(features))
    with pytest.raises(ValueError, match="'balanced' needs all examples"):
        PacelineClassifier(class_weight="balanced").partial_fit(features, names, classes=np.unique(names))


def test_a_warm_start_goes_on_where_the_last_fit_ended() -> None:
    features, labels = load_iris(return_X_y=True)
    whole = PacelineClassifier((16,), epochs=6).fit(features, labels)
    parts = PacelineClassifier((16,), epochs=3, warm_start=True).fit(features, labels).fit(features, labels)
    np.testing.assert_array_equal(parts.predict_proba(features), whole.predict_proba(features))
    assert parts.loss_curve_ == whole.loss_curve_ and parts.n_iter_ == 6
    with pytest.raises(ValueError, match="with `warm_start` y must have the classes of the last fit"):
        parts.fit(features[:100], labels[:100])


def test_a_fit_that_fails_leaves_the_estimator_as_it_was() -> None:
    features, labels = load_iris(return_X_y=True, as_frame=True)
    fitted = PacelineClassifier((16,), epochs=20, warm_start=True).fit(features, labels)
    before, known = fitted.predict(features), list(fitted.feature_names_in_)
    with pytest.raises(ValueError, match="the classes of the last fit"):
        fitted.fit(features, labels + 1)
    with pytest.raises(ValueError, match="at least 2 classes"):
        fitted.set_params(warm_start=False).fit(features[features.columns[::-1]], labels * 0)
    with pytest.raises(ValueError, match="one label for each row"):
        fitted.partial_fit(features, np.eye(3)[labels].astype(int))
    np.testing.assert_array_equal(fitted.predict(features), before)
    assert list(fitted.feature_names_in_) == known and list(fitted.classes_) == [0, 1, 2]
    regressor = PacelineRegressor((), epochs=2).fit(features, labels)
    with pytest.raises(ValueError):
        regressor.fit(features[features.columns[:2]], labels * np.nan)
    assert regressor.predict(features).shape == (150,)


def test_timestamps_are_told_apart_by_estimators() -> None:
    seconds = 1_700_000_000 + np.random.default_rng(0).permutation(400)
    labels = seconds >= 1_700_000_200
    fitted = PacelineClassifier((), epochs=60, l2=0.0, updater={"adam": {"learning_rate": 0.05}}).fit(seconds.reshape(-1, 1), labels)
    assert fitted.score(seconds.reshape(-1, 1), labels) > 0.98


def test_sparse_input_is_made_dense_if_it_fits() -> None:
    sparse = pytest.importorskip("scipy.sparse")
    features, labels = load_iris(return_X_y=True)
    dense = PacelineClassifier((8,), epochs=5).fit(features, labels)
    thin = PacelineClassifier((8,), epochs=5).fit(sparse.csr_matrix(features), labels)
    np.testing.assert_array_equal(thin.predict_proba(sparse.coo_matrix(features)), dense.predict_proba(features))
    # No machine has a petabyte.
    huge = sparse.csr_matrix(([1.0, 2.0], ([0, 9_999_999], [0, 9_999_999])), shape=(10_000_000, 10_000_000))
    with pytest.raises(ValueError, match="needs .* GiB as an array"):
        PacelineRegressor().fit(huge, np.zeros(10_000_000))


def test_the_model_of_an_estimator_knows_labels_and_columns(tmp_path) -> None:
    features, labels = load_iris(return_X_y=True, as_frame=True)
    names = np.asarray(["setosa", "versicolor", "virginica"])[labels]
    fitted = PacelineClassifier((8,), epochs=20).fit(features, names)
    fitted.model_.save(tmp_path / "model.safetensors")
    for model in (fitted.model_, paceline.Model.load(tmp_path / "model.safetensors")):
        assert model.columns == list(features.columns)
        np.testing.assert_array_equal(model.predict(features[features.columns[::-1]]), fitted.predict(features))
        np.testing.assert_array_equal(model.predict_proba(features), fitted.predict_proba(features))
    rows, targets = load_diabetes(return_X_y=True, as_frame=True)
    regressor = PacelineRegressor((8,), epochs=20).fit(rows, 1e9 + targets)
    np.testing.assert_array_equal(regressor.model_.predict(rows[rows.columns[::-1]]), regressor.predict(rows))
    assert regressor.score(rows, 1e9 + targets) > 0.2


def test_an_example_may_have_several_labels() -> None:
    features, labels = load_iris(return_X_y=True)
    several = np.stack([labels > 0, features[:, 0] > 6, features[:, 1] > 3], axis=1).astype(int)
    fitted = PacelineClassifier((16,), epochs=60, early_stopping=True, n_iter_no_change=60).fit(features, several)
    told = fitted.predict(features)
    assert told.shape == several.shape and set(np.unique(told)) <= {0, 1} and (told == several).mean() > 0.9
    shares = fitted.predict_proba(features)
    assert shares.shape == several.shape and ((shares > 0.5) == told).all() and not np.allclose(shares.sum(axis=1), 1)
    assert fitted.score(features, several) > 0.7
    with pytest.raises(ValueError, match="`sample_weight`"):
        PacelineClassifier(class_weight="balanced").fit(features, several)
    with pytest.raises(ValueError, match="0 and 1 in a column|[Mm]ulticlass-multioutput|Unknown label type"):
        PacelineClassifier().fit(features, several + np.arange(150).reshape(-1, 1) % 3)


def test_nothing_is_held_out_without_early_stopping() -> None:
    features, labels = load_iris(return_X_y=True)
    plain = PacelineClassifier((8,), epochs=5).fit(features, labels)
    same = PacelineClassifier((8,), epochs=5, validation_fraction=0.3).fit(features, labels)
    np.testing.assert_array_equal(same.predict_proba(features), plain.predict_proba(features))


@pytest.mark.parametrize("kind", ["classifier", "regressor"])
def test_rows_that_are_held_out_change_nothing_of_what_is_learned(kind) -> None:
    from sklearn.model_selection import train_test_split

    generator = np.random.default_rng(0)
    features = generator.normal(size=(200, 4)) + [1.7e9, 0.0, 0.0, 0.0]
    labels = (features[:, 1] > 0.8).astype(int)
    targets = labels if kind == "classifier" else 1e6 + 100 * features[:, 1]
    _, held = train_test_split(np.arange(200), test_size=0.2, random_state=3, stratify=labels if kind == "classifier" else None)
    moved, retargeted = features.copy(), targets.copy()
    moved[held] += 1e6
    if kind == "regressor":
        retargeted[held] -= 1e7
    # Nothing stops early, and the last epoch is kept: only what is fitted to rows could differ.
    rule = {"patience": 100, "save_best": False}
    usual = {"epochs": 3, "early_stopping": rule, "validation_fraction": 0.2, "random_state": 3}
    if kind == "classifier":
        estimator = PacelineClassifier((8,), class_weight="balanced", **usual)
    else:
        estimator = PacelineRegressor((8,), **usual)
    one, other = clone(estimator).fit(features, targets), clone(estimator).fit(moved, retargeted)
    assert one.model_.schema.text == other.model_.schema.text
    for name, numbers in one.model_.parameters().items():
        np.testing.assert_array_equal(other.model_.parameters()[name], numbers, err_msg=name)
    assert one.validation_losses_ != other.validation_losses_
