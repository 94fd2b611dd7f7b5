"""Tables of Arrow, by its C interface: pyarrow's and polars'."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars
import pyarrow as pa
import pytest

import paceline as pl

RANDOM = np.random.default_rng(2)
X = RANDOM.normal(size=(500, 4)).astype(np.float32)
Y = (X[:, 0] > 0).astype(np.int64)


def table(**more: Any) -> pa.Table:
    columns = {f"x{place}": X[:, place] for place in range(4)}
    return pa.table({**columns, "y": Y, **more})


@pytest.mark.parametrize("made", [table(), polars.DataFrame({"x": X.tolist(), "y": Y}), pa.table({"x": list(X), "y": Y})])
def test_tables_become_the_examples_of_arrays(made: Any) -> None:
    data, arrays = pl.Data.from_arrow(made, label="y"), pl.Data.from_arrays(X, Y)
    assert np.array_equal(data.features(), arrays.features())
    assert data.targets() is not None and np.array_equal(data.targets(), arrays.targets())


def test_pieces_of_several_batches_are_read_at_their_place() -> None:
    whole = pa.concat_tables([table().slice(0, 123), table().slice(123, 7), table().slice(130)])
    lists = pa.chunked_array([pa.array(X[:9].tolist(), pa.list_(pa.float32(), 4)), pa.array(X[9:].tolist(), pa.list_(pa.float32(), 4))])
    for made in (whole.slice(11, 300), pa.table({"x": lists, "y": Y}).slice(11, 300)):
        data = pl.Data.from_arrow(made, label="y")
        assert np.array_equal(data.features(), X[11:311])
        assert data.targets() is not None and np.array_equal(data.targets(), Y[11:311])


@pytest.mark.parametrize("kind", [pa.int8(), pa.uint8(), pa.int16(), pa.uint16(), pa.int32(), pa.uint32(), pa.int64(), pa.uint64(), pa.bool_()])
def test_every_kind_of_number(kind: Any) -> None:
    made = pa.table({"x": pa.array([0, 1, 1, 0, 1] * 20).cast(kind), "y": X[:100, 0]}).slice(3, 90)
    data = pl.Data.from_arrow(made, label="y")
    assert data.features()[:, 0].tolist() == ([0, 1, 1, 0, 1] * 20)[3:93]
    assert data.targets() is not None and np.array_equal(data.targets()[:, 0], X[3:93, 0])


def test_texts_weights_and_images() -> None:
    names = pa.array([["no", "yes"][label] for label in Y], pa.large_string())
    made = pa.table({"pixels": pa.array((np.abs(X) * 10).astype(np.uint8).tolist(), pa.list_(pa.uint8())), "y": names, "w": Y + 1.0})
    data = pl.Data.from_arrow(made.slice(5), label="y", weight="w", shape=(2, 2, 1))
    assert data.shape == (2, 2, 1) and data.classes is not None and list(data.classes) == ["no", "yes"]
    assert data.targets() is not None and data.targets().tolist() == names.to_pylist()[5:]
    network = pl.Network([pl.layers.output(2)], input=pl.image(2, 2))
    assert pl.Trainer(network, progress=False).fit(data).model.iteration > 0


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"z": pa.array([None] + [1.0] * 499)}, "column `z` holds null"),
        ({"z": pa.array(["a"] * 500)}, "column `z` holds texts"),
        ({"z": pa.array([[1.0]] * 499 + [[1.0, 2.0]])}, "as many numbers in every row.*found 2, and 1 before"),
        ({"z": pa.array([[None]] * 500, pa.list_(pa.float32()))}, "column `z` holds null"),
        ({"z": pa.array([["a"]] * 500)}, "lists of something else than numbers"),
        ({"z": pa.array([0] * 500, pa.timestamp("ms"))}, "column `z` holds dates or times"),
        ({"z": pa.array(["a", "b"] * 250).dictionary_encode()}, "column `z` holds texts"),
    ],
)
def test_what_cannot_be_taken_is_said(more: dict[str, Any], said: str) -> None:
    with pytest.raises(pl.SettingError, match=said):
        pl.Data.from_arrow(table(**more), label="y")


def test_what_is_not_there_is_said() -> None:
    with pytest.raises(pl.SettingError, match="no column `z`: its columns are x0, x1, x2, x3, y"):
        pl.Data.from_arrow(table(), label="z")
    with pytest.raises(pl.SettingError, match="`__arrow_c_stream__`, found list"):
        pl.Data.from_arrow([1], label="y")


@pytest.mark.parametrize("packed", ["uncompressed", "lz4", "zstd"])
def test_files_of_arrow_and_parquet_are_the_same_shards(tmp_path: Any, packed: str) -> None:
    import pyarrow.feather
    import pyarrow.parquet

    rows = [[float(at), at / 2, -float(at)] for at in range(5000)]
    kinds = pa.array([["ape", "bee", "cat"][at % 3] for at in range(5000)]).dictionary_encode()
    table = pa.table({"features": pa.array(rows, pa.list_(pa.float32())), "kind": kinds, "weight": np.arange(5000) / 7})
    (tmp_path / "arrow").mkdir()
    (tmp_path / "parquet").mkdir()
    for part in range(2):
        piece = table.slice(part * 2500, 2500)
        pyarrow.feather.write_feather(piece, tmp_path / "arrow" / f"{part}.feather", compression=packed, chunksize=999)
        pyarrow.parquet.write_table(piece, tmp_path / "parquet" / f"{part}.parquet")
    ours, theirs = (pl.Data.open(f"shards:{tmp_path / kind}?label=kind&weight=weight") for kind in ("arrow", "parquet"))
    assert len(ours) == len(theirs) == 5000
    np.testing.assert_array_equal(ours.features(), theirs.features())
    assert ours.describe(0) == theirs.describe(0)


def test_dictionaries_are_labels_and_numbers() -> None:
    names = pa.array([["no", "yes"][label] for label in Y])
    for label in (names.dictionary_encode(), polars.Series([["no", "yes"][label] for label in Y], dtype=polars.Categorical)):
        made = polars.DataFrame({"x0": X[:, 0], "y": label}) if isinstance(label, polars.Series) else pa.table({"x0": X[:, 0], "y": label})
        data = pl.Data.from_arrow(made, label="y")
        assert data.targets() is not None and data.targets().tolist() == names.to_pylist()
    numbers = pa.array([1.5, 2.5, 1.5] * 100).dictionary_encode()
    data = pl.Data.from_arrow(pa.table({"x": numbers, "y": Y[:300]}), label="y")
    np.testing.assert_array_equal(data.features()[:, 0], [1.5, 2.5, 1.5] * 100)
