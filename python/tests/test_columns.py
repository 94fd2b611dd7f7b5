"""Columns of tables: their names decide, and what 32 bits would blur is shifted first."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import polars
import pyarrow as pa
import pytest

import paceline as pl

RANDOM = np.random.default_rng(5)
TABLE = {name: RANDOM.normal(size=400) * scale for name, scale in (("a", 1.0), ("b", 3.0), ("c", 0.5))}
Y = (TABLE["a"] - TABLE["c"] > 0).astype(int)

KINDS: dict[str, Any] = {"pandas": pandas.DataFrame, "polars": polars.DataFrame, "arrow": pa.table}


def network(inputs: int, outputs: int = 2) -> pl.Network:
    return pl.Network([pl.layers.output(outputs)], input=pl.feed_forward(inputs), updater=pl.adam(0.05), seed=1)


def chosen(kind: str, *names: str) -> Any:
    return KINDS[kind]({name: TABLE[name] for name in names})


@pytest.mark.parametrize("kind", KINDS)
def test_columns_of_a_table_are_matched_by_their_names(elsewhere: Path, kind: str) -> None:
    outcome = pl.Trainer(network(3), epochs=10).fit((chosen(kind, "a", "b", "c"), Y), (chosen(kind, "c", "b", "a"), Y))
    assert outcome.scores is not None and outcome.scores.accuracy is not None and outcome.scores.accuracy > 0.95
    outcome.model.save("model.safetensors")
    for model in (outcome.model, pl.Model.load("model.safetensors")):
        assert model.columns == ["a", "b", "c"]
        expected = model.predict(np.stack([TABLE[name] for name in "abc"], axis=1))
        for other in KINDS:
            np.testing.assert_array_equal(model.predict(chosen(other, "c", "a", "b")), expected)
        reordered = pl.Data.from_arrays(chosen(kind, "b", "c", "a"), Y)
        np.testing.assert_array_equal(model.predict(reordered), expected)
        assert model.evaluate(reordered) == outcome.scores
        with pytest.raises(pl.SettingError, match="no column `b`, which the model"):
            model.predict(chosen(kind, "a", "c"))
        with pytest.raises(pl.SettingError, match="no column `b`, which the model"):
            model.predict(pl.Data.from_arrays(chosen(kind, "a", "c")))
        with pytest.raises(pl.Error, match="2"):
            model.predict(np.zeros((3, 2)))


def test_a_file_is_read_with_the_columns_of_the_model(elsewhere: Path) -> None:
    model = pl.Trainer(network(3), epochs=5).fit((chosen("pandas", "a", "b", "c"), Y)).model
    swapped = chosen("pandas", "c", "a", "b")
    swapped.to_csv("swapped.csv", index=False)
    np.testing.assert_array_equal(model.predict("csv:swapped.csv"), model.predict(swapped))


def test_columns_that_are_not_numbers_are_named() -> None:
    frame = pandas.DataFrame({"a": [1.0, 2.0], "when": pandas.to_datetime(["2026-01-01", "2026-01-02"]), "kind": ["x", "y"]})
    with pytest.raises(pl.SettingError, match="column `when` holds dates or times"):
        pl.Data.from_arrays(frame[["a", "when"]])
    with pytest.raises(pl.SettingError, match="column `kind` holds something else than numbers"):
        pl.Data.from_arrays(frame[["a", "kind"]])
    with pytest.raises(pl.SettingError, match="different names, found `a` several times"):
        pl.Data.from_arrays(pandas.concat([frame[["a"]], frame[["a"]]], axis=1))


def of_time(kind: str) -> tuple[Any, np.ndarray, Any]:
    """Seconds near 1.7e9, whether they are in the second half of their span, and a test part."""
    seconds = 1_700_000_000 + np.random.default_rng(0).permutation(400)
    y = (seconds >= 1_700_000_200).astype(int)
    match kind:
        case "integers":
            return seconds.reshape(-1, 1), y, seconds[:50].reshape(-1, 1)
        case "floats":
            return seconds.reshape(-1, 1) + 0.25, y, seconds[:50].reshape(-1, 1) + 0.25
        case "columns":
            return np.asfortranarray(np.stack([seconds, seconds[::-1]], axis=1)), y, np.stack([seconds, seconds[::-1]], axis=1)[:50]
        case _:
            return KINDS[kind]({"at": seconds}), y, KINDS[kind]({"at": seconds[:50]})


@pytest.mark.parametrize("kind", ["integers", "floats", "columns", *KINDS])
def test_an_offset_is_subtracted_before_features_are_narrowed(elsewhere: Path, kind: str) -> None:
    x, y, part = of_time(kind)
    inputs = 2 if kind == "columns" else 1
    outcome = pl.Trainer(network(inputs), epochs=60, batch=16, normaliser="standardise").fit((x, y), (part, y[:50]))
    assert outcome.scores is not None and outcome.scores.accuracy is not None and outcome.scores.accuracy >= 0.98
    outcome.model.save("model.safetensors")
    model = pl.Model.load("model.safetensors")
    assert (model.predict(x) == y).mean() >= 0.98
    # A few rows have another middle than all of them; alone they are shifted by what the model knows.
    np.testing.assert_array_equal(model.predict(part), model.predict(x)[:50])
    np.testing.assert_array_equal(model.predict(pl.Data.from_arrays(part)), model.predict(x)[:50])
    data = pl.Data.from_arrays(x, y)
    assert data.remarks == [] and np.array_equal(data.features(), np.asarray(x))


def test_a_table_of_arrow_is_shifted_too() -> None:
    x, y, _ = of_time("arrow")
    data = pl.Data.from_arrow(x.append_column("y", pa.array(y)), label="y")
    model = pl.Trainer(network(1), epochs=60, batch=16, normaliser="standardise").fit(data).model
    assert (model.predict(x) == y).mean() >= 0.98


def test_targets_far_from_zero_are_learned_and_predicted_in_64_bits(elsewhere: Path) -> None:
    x = RANDOM.normal(size=(400, 2))
    y = 1.7e12 + 1000 * x[:, 0] + 0.5
    outcome = pl.Trainer(network(2, 1), epochs=150, batch=20, target_normaliser="standardise").fit((x, y), (x[:50], y[:50]))
    assert outcome.scores is not None and outcome.scores["r2"] > 0.99
    outcome.model.save("model.safetensors")
    for model in (outcome.model, pl.Model.load("model.safetensors")):
        predicted = model.predict(x)
        assert predicted.dtype == np.float64
        assert np.abs(predicted - y).mean() < 100
        assert model.evaluate((x, y))["mae"] == pytest.approx(np.abs(predicted - y).mean(), rel=1e-3)
        assert model.evaluate(pl.Data.from_arrays(x[:50], y[:50]))["mae"] == pytest.approx(outcome.scores["mae"], rel=1e-3)
    data = pl.Data.from_arrays(x, y)
    assert np.abs(data.targets()[:, 0] - y).max() < 1e-3


def test_sequences_are_shifted_by_their_features() -> None:
    seconds = [1.7e9 + np.arange(length)[:, np.newaxis] + 100 * (at % 2) for at, length in enumerate([3, 5, 4, 2] * 50)]
    data = pl.Data.from_sequences(seconds, [at % 2 for at in range(200)])
    features = data.features()
    assert np.nanmax(np.abs(features[1, :5, 0] - seconds[1][:, 0])) == 0 and np.isnan(features[0, 3:]).all()


def test_a_remark_is_made_where_distinct_numbers_collapse_all_the_same() -> None:
    x = np.stack([2.0**40 * (np.arange(100) % 2) + np.arange(100), np.arange(100.0)], axis=1)
    (remark,) = pl.Data.from_arrays(pandas.DataFrame(x, columns=["id", "plain"])).remarks
    assert remark.startswith("column `id`: 100 different numbers among the first 100 become")
    assert pl.Data.from_arrays(np.random.default_rng(0).normal(size=(1000, 50))).remarks == []


MEMORY = """
import resource, sys
import numpy as np, pyarrow as pa, paceline as pl
kind = sys.argv[1]
table = pa.table({f"x{at}": np.arange(2_500_000, dtype=np.float64) + at for at in range(10)})
rows = None
if kind == "numpy":
    rows = np.stack([column.to_numpy() for column in table.columns], axis=1)
    del table
if kind == "pandas":
    rows = table.to_pandas()
    del table
def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
def now(): return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize() / 2**20
open("/proc/self/clear_refs", "w").write("5")
before = now()
data = pl.Data.from_arrow(table) if kind == "arrow" else pl.Data.from_arrays(rows)
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(before, int(status["VmHWM"].split()[0]) / 1024)
"""


@pytest.mark.parametrize("kind", ["arrow", "numpy", "pandas"])
def test_a_table_of_200_mb_is_copied_once_at_most(kind: str) -> None:
    """191 MiB of 64-bit numbers become 95 MiB of 32 bits; nothing else is allocated."""
    done = subprocess.run([sys.executable, "-c", MEMORY, kind], capture_output=True, text=True, check=True)
    before, peak = map(float, done.stdout.split())
    assert before > 191 and peak - before < 110, (before, peak)


LISTS = {"u": np.stack([TABLE["a"], TABLE["b"]], axis=1), "v": TABLE["c"].reshape(-1, 1) * [1.0, 2.0]}


@pytest.mark.parametrize("kind", ["arrow", "polars"])
def test_columns_of_lists_are_matched_by_their_names(kind: str) -> None:
    def made(*names: str) -> Any:
        columns = {name: LISTS[name].tolist() for name in names}
        return pa.table(columns) if kind == "arrow" else polars.DataFrame(columns)

    outcome = pl.Trainer(network(4), epochs=5).fit((made("u", "v"), Y), (made("v", "u"), Y))
    model = outcome.model
    assert model.columns == ["u.0", "u.1", "v.0", "v.1"]
    expected = model.outputs(made("u", "v"))
    np.testing.assert_array_equal(model.outputs(made("v", "u")), expected)
    np.testing.assert_array_equal(model.outputs(pl.Data.from_arrays(made("v", "u"))), expected)
    data = pl.Data.from_arrow(made("u", "v"))
    np.testing.assert_array_equal(pl.Data.from_arrow(made("v", "u"), like=data).features(), data.features())
    with pytest.raises(pl.SettingError, match="no column `v.0`, `v.1`"):
        model.predict(made("u"))
    longer = pa.table({"u": np.ones((3, 3)).tolist(), "v": np.ones((3, 1)).tolist()})
    with pytest.raises(pl.SettingError, match="no column `v.0`"):
        model.predict(longer)


def test_columns_with_numbers_for_names_are_matched_too() -> None:
    x = np.stack([TABLE[name] for name in "abc"], axis=1)
    frame = pandas.DataFrame(x)
    model = pl.Trainer(network(3), epochs=5).fit((frame, Y)).model
    expected = model.outputs(frame)
    np.testing.assert_array_equal(model.outputs(frame[[2, 0, 1]]), expected)
    np.testing.assert_array_equal(model.outputs(pl.Data.from_arrays(frame[[2, 0, 1]])), expected)
    np.testing.assert_array_equal(model.outputs(x), expected)
    with pytest.raises(pl.SettingError, match="no column `1`"):
        model.outputs(frame[[0, 2]])
    other = pl.Trainer(network(3), epochs=5).fit((frame[[2, 1, 0]], Y)).model
    np.testing.assert_array_equal(other.outputs(pl.Data.from_arrays(frame)), other.outputs(frame[[2, 1, 0]]))


@pytest.mark.parametrize("kind", KINDS)
def test_columns_that_the_model_lacks_are_ignored_whatever_they_hold(kind: str) -> None:
    model = pl.Trainer(network(2), epochs=2).fit((chosen(kind, "a", "b"), Y)).model
    when = np.asarray(["2026-01-01"] * 400, dtype="datetime64[ms]")
    more = KINDS[kind]({"label": ["x"] * 400, "b": TABLE["b"], "when": when, "a": TABLE["a"]})
    np.testing.assert_array_equal(model.predict(more), model.predict(chosen(kind, "a", "b")))


@pytest.mark.parametrize("kind", KINDS)
def test_sequences_of_tables_are_matched_by_their_names(kind: str) -> None:
    def made(*names: str) -> list[Any]:
        return [KINDS[kind]({name: TABLE[name][at * 4 : at * 4 + 4 - at % 2] for name in names}) for at in range(40)]

    layers = [pl.layers.lstm(4), pl.layers.last_time_step(), pl.layers.output(2)]
    model = pl.Trainer(pl.Network(layers, input=pl.sequence(4, 2), seed=1)).fit((made("a", "b"), Y[:40])).model
    assert model.columns == ["a", "b"]
    np.testing.assert_array_equal(model.outputs(made("b", "a")), model.outputs(made("a", "b")))
    mixed = [KINDS[kind]({name: TABLE[name][:3] for name in ("ab" if at else "ba")}) for at in range(4)]
    plain = [KINDS[kind]({name: TABLE[name][:3] for name in "ab"}) for _ in range(4)]
    np.testing.assert_array_equal(model.outputs(mixed), model.outputs(plain))
    with pytest.raises(pl.SettingError, match="no column `b`"):
        model.predict(made("a"))


@pytest.mark.parametrize("kind", ["array", *KINDS])
def test_the_held_out_part_of_a_split_has_no_say_in_offsets(kind: str) -> None:
    seconds = 1_700_000_000.0 + np.random.default_rng(0).permutation(400)
    numbers = 1e12 + 3 * seconds

    def parts(held: float) -> tuple[pl.Data, pl.Data]:
        x, y = seconds.copy(), numbers.copy()
        x[places[1]] += held
        y[places[1]] -= held
        rows = x.reshape(-1, 1) if kind == "array" else KINDS[kind]({"at": x})
        return pl.Data.from_arrays(rows, y).split(0.75, seed=4)

    numbered = pl.Data.from_arrays(np.arange(400, dtype=np.float32).reshape(-1, 1))
    places = [part.features()[:, 0].astype(int) for part in numbered.split(0.75, seed=4)]
    (one, held), (other, moved) = parts(0.0), parts(1e6)
    assert one.schema.text == other.schema.text
    np.testing.assert_array_equal(one.features(), other.features())
    np.testing.assert_array_equal(one.features()[:, 0], seconds[places[0]])
    assert held.schema.shifts == one.schema.shifts and np.abs(moved.features()[:, 0] - seconds[places[1]] - 1e6).max() < 1


def test_of_images_that_32_bits_blur_there_is_a_remark() -> None:
    pixels = 1.7e9 + np.random.default_rng(0).permutation(10 * 8 * 8).reshape(10, 8, 8)
    (remark,) = pl.Data.from_arrays(pixels).remarks
    assert "images cannot be told apart in 32 bits" in remark
    assert pl.Data.from_arrays(np.random.default_rng(0).normal(size=(10, 8, 8))).remarks == []
