import numpy as np
import pytest

import paceline as pl


def test_arrays_are_told_apart_by_what_they_hold() -> None:
    rows = np.arange(12.0).reshape(6, 2)
    classes = pl.Data.from_arrays(rows, ["b", "a", "b", "a", "c", "a"])
    assert list(classes.classes) == ["a", "b", "c"]
    assert list(classes.targets()) == ["b", "a", "b", "a", "c", "a"]
    assert classes.shape == (2,) and len(classes) == 6
    np.testing.assert_array_equal(classes.features(), rows)
    whole = pl.Data.from_arrays(rows, [3, 1, 3, 1, 1, 3])
    assert list(whole.classes) == [1, 3] and list(whole.targets()) == [3, 1, 3, 1, 1, 3]
    numbers = pl.Data.from_arrays(rows, np.linspace(0, 1, 6))
    assert numbers.classes is None and numbers.targets().shape == (6, 1)
    forced = pl.Data.from_arrays(rows, [3, 1, 3, 1, 1, 3], task="regression")
    assert forced.classes is None
    images = pl.Data.from_arrays(np.zeros((3, 4, 5), np.uint8))
    assert images.shape == (4, 5, 1) and images.targets() is None
    volumes = pl.Data.from_arrays(np.arange(120.0).reshape(3, 2, 4, 5, 1))
    assert volumes.shape == (2, 4, 5, 1) and volumes.features()[2, 1, 3, 4, 0] == 119


def test_tables_of_pandas_are_taken_as_they_are() -> None:
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"a": [1.0, 2.0, 3.0], "b": [4, 5, 6], "kind": ["x", "y", "x"]})
    data = pl.Data.from_arrays(table[["a", "b"]], table["kind"])
    assert list(data.classes) == ["x", "y"] and data.shape == (2,)
    values = pl.Data.from_arrays(table[["a"]], table[["a", "b"]], task="regression")
    assert values.targets().tolist() == [[1, 4], [2, 5], [3, 6]]


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: pl.Data.from_arrays(np.zeros(3)), "reshape(-1, 1)"),
        (lambda: pl.Data.from_arrays(np.zeros((3, 2)), [1, 2]), "each of the 3 examples, found 2"),
        (lambda: pl.Data.from_arrays(np.zeros((3, 2)), [0, 1, 5], classes=[0, 1]), "5 is none of the 2 classes"),
        (lambda: pl.Data.from_arrays(np.array([["a", "b"]])), "numbers"),
        (lambda: pl.Data.from_arrays(np.array([[1j, 2]])), "real"),
        (lambda: pl.Data.from_arrays(np.array([[1.0, np.nan]])), "finite"),
        (lambda: pl.Data.from_arrays(np.zeros((3, 2)), weights=[1, 2]), "expected 3 weights"),
        (lambda: pl.Data.from_arrays(np.zeros((2, 2)), [0, 1], weights=[1, -1]), "not negative"),
        (lambda: pl.Data.open("mnits:train"), "did you mean `mnist:train`"),
        (lambda: pl.Data.open("csv:nowhere.csv"), "nowhere.csv"),
    ],
)
def test_what_is_wrong_with_data_is_said(make, told) -> None:
    with pytest.raises(pl.Error) as raised:
        make()
    assert told in str(raised.value)


def test_data_is_split_by_the_seed(digits) -> None:
    (features, labels), _ = digits
    data = pl.Data.from_arrays(features, labels)
    one, two = data.split(0.75, seed=3)
    again, _ = data.split(0.75, seed=3)
    assert len(one) + len(two) == len(data) and abs(len(two) - len(data) / 4) <= 1
    np.testing.assert_array_equal(one.features(), again.features())
    assert list(one.classes) == list(range(10))
