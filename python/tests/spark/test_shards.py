"""`shards:` reads what other writers write: here pyarrow, with all that it can be told about a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import paceline as pl

ROWS = 5000


def table(kind: Any, lists: Any = None) -> pa.Table:
    random = np.random.default_rng(1)
    features = random.normal(size=(ROWS, 3)).astype(np.float32)
    many = lists or pa.list_(pa.float32())
    columns = {
        "features": pa.array(features.tolist(), many),
        "label": pa.array([int(row) % 4 for row in range(ROWS)], kind),
        "weight": pa.array(np.arange(ROWS) % 7, pa.float64()),
    }
    return pa.table(columns)


def read(folder: Path) -> pl.Data:
    return pl.Data.open(f"shards:{folder}?columns=features&label=label&weight=weight")


@pytest.mark.parametrize("compression", ["none", "snappy", "gzip", "zstd", "lz4"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("dictionary", [True, False])
def test_every_compression_and_encoding(tmp_path: Path, compression: str, version: str, dictionary: bool) -> None:
    written = table(pa.int32())
    pq.write_table(
        written,
        tmp_path / "a.parquet",
        compression=compression,
        data_page_version=version,
        use_dictionary=dictionary,
        row_group_size=1234,
        data_page_size=512,
    )
    data = read(tmp_path)
    assert np.array_equal(data.features(), np.asarray(written["features"].to_pylist(), dtype=np.float32))
    assert data.targets() is not None and [int(name) for name in data.targets()] == written["label"].to_pylist()


@pytest.mark.parametrize("kind", [pa.int8(), pa.uint16(), pa.int64(), pa.float32(), pa.float64(), pa.bool_(), pa.string()])
def test_every_kind_of_label(tmp_path: Path, kind: Any) -> None:
    of = pa.int32() if kind in (pa.bool_(), pa.string()) else kind
    written = table(of)
    if kind != of:
        cast = [str(label) if kind == pa.string() else label > 1 for label in written["label"].to_pylist()]
        written = written.set_column(1, "label", pa.array(cast, kind))
    pq.write_table(written, tmp_path / "a.parquet")
    data = read(tmp_path)
    names = {True: "1", False: "0"}
    labels = [names[label] if isinstance(label, bool) else str(label).removesuffix(".0") for label in written["label"].to_pylist()]
    assert data.targets() is not None and [str(name) for name in data.targets()] == labels


@pytest.mark.parametrize(
    "lists", [pa.list_(pa.float64()), pa.large_list(pa.float32()), pa.list_(pa.float32(), 3), pa.list_(pa.float32())]
)
def test_every_kind_of_list(tmp_path: Path, lists: Any) -> None:
    written = table(pa.int32(), lists)
    pq.write_table(written, tmp_path / "a.parquet")
    assert np.array_equal(read(tmp_path).features(), np.asarray(written["features"].to_pylist(), dtype=np.float32))


def test_flipped_bits_are_noticed(tmp_path: Path) -> None:
    pq.write_table(table(pa.int32()), tmp_path / "a.parquet", write_page_checksum=True)
    content = bytearray((tmp_path / "a.parquet").read_bytes())
    for place in range(100, len(content) - 2000, 1000):
        flipped = content.copy()
        flipped[place] ^= 1
        (tmp_path / "a.parquet").write_bytes(flipped)
        with pytest.raises(pl.Error, match="a.parquet"):
            read(tmp_path)


@pytest.mark.parametrize(
    ("column", "said"),
    [
        (pa.array([None] + [[1.0, 2.0, 3.0]] * 9), "row 0.*null"),
        (pa.array([[1.0, 2.0, 3.0]] * 9 + [[1.0, 2.0]]), "row 9.*2 numbers, and 3 elsewhere"),
        (pa.array([[1.0, 2.0, 3.0]] * 9 + [[]]), "row 9.*empty list"),
        (pa.array([[1.0, 2.0, None]] * 10), "row 0.*null"),
        (pa.array([[1.0, 2.0, float("nan")]] * 10), "row 0.*finite"),
        (pa.array([[1.0, 2.0, 1e300 * row] for row in range(10)]), "row 0.*finite numbers that fit 32 bits"),
        (pa.array([["a"]] * 10), "lists of texts"),
        (pa.array([[[1.0]]] * 10), "lists of lists"),
        (pa.array([{"a": 1.0, "b": 2.0}] * 10), "a structure of several columns"),
        (pa.array([b"abc"] * 10), "bytes"),
        (pa.array([0] * 10, pa.time32("s")), "times of a day"),
    ],
)
def test_what_cannot_be_taken_is_said(tmp_path: Path, column: Any, said: str) -> None:
    pq.write_table(pa.table({"features": column, "label": pa.array([0, 1] * 5), "weight": pa.array([1.0] * 10)}), tmp_path / "a.parquet")
    with pytest.raises(pl.Error, match=f"a.parquet.*column `features`.*{said}"):
        read(tmp_path)
