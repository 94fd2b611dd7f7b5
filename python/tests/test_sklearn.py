import pickle

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

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
