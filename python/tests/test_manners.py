"""What users of scikit-learn and NumPy expect: interrupts, empty arrays, scalars, copies, threads, sentences in Python's words."""

from __future__ import annotations

import _thread
import copy
import pickle
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import paceline as pl
from conftest import small

ROWS = np.zeros((200_000, 64), np.float32)


@pytest.mark.parametrize("call", ["predict", "outputs", "evaluate"])
def test_ctrl_c_ends_the_evaluation_of_a_model(digits: Any, call: str) -> None:
    network = pl.Network([pl.layers.dense(2000), pl.layers.dense(2000), pl.layers.output(10)], input=pl.feed_forward(64))
    model = pl.Trainer(network, steps=1).fit((digits[0][0].reshape(-1, 64), digits[0][1])).model
    data = pl.Data.from_arrays(ROWS, np.arange(len(ROWS)) % 10)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    # All rows take half a minute.
    pressed = threading.Timer(0.1, lambda: _thread.interrupt_main(signal.SIGINT))
    began = time.monotonic()
    pressed.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            getattr(model, call)(data, batch=64, workers=1)
    finally:
        pressed.join()
        signal.signal(signal.SIGINT, before)
    assert time.monotonic() - began < 10
    assert model.predict(ROWS[:2]).shape == (2,), "the model is as it was"


def test_of_no_examples_nothing_is_predicted(digits: Any) -> None:
    (features, labels), _ = digits
    model = pl.Trainer(small()).fit((features, labels)).model
    assert model.predict(features[:0]).shape == (0,) and model.predict(features[:0]).dtype == labels.dtype
    assert model.predict_proba(features[:0]).shape == (0, 10)
    assert model.outputs(features[:0]).dtype == np.float32
    with pytest.raises(pl.Error, match="no examples"):
        model.evaluate((features[:0], labels[:0]))
    network = pl.Network([pl.layers.output(1)], input=pl.feed_forward(64))
    numbers = pl.Trainer(network).fit((features.reshape(-1, 64), labels / 2), task="regression").model
    assert numbers.predict(np.zeros((0, 64))).shape == (0,)


def test_numbers_of_numpy_are_settings(digits: Any) -> None:
    plain = pl.Trainer(small(updater=pl.adam(0.01)), epochs=2, batch=32, seed=3, shuffle=True, early_stopping={"epochs": 5})
    numpy = pl.Trainer(
        pl.Network(
            [pl.layers.dense(np.int64(32), activation="relu"), pl.layers.output(np.int32(10))],
            input={"image": np.asarray([8, 8, 1])},
            updater=pl.adam(np.float64(0.01)),
        ),
        epochs=np.int64(2),
        batch=np.int16(32),
        seed=np.uint8(3),
        shuffle=np.bool_(True),
        early_stopping={"epochs": np.int64(5)},
    )
    plain._train.pop("early_stopping"), numpy._train.pop("early_stopping")
    ours, theirs = (trainer.fit(digits[0], digits[1]).model.parameters() for trainer in (numpy, plain))
    for name, numbers in theirs.items():
        np.testing.assert_array_equal(ours[name], numbers, err_msg=name)


def test_data_travels_with_all_it_has(elsewhere: Path, digits: Any) -> None:
    seconds = 1.7e9 + np.arange(60.0)
    made = {
        "classes": pl.Data.from_arrays(*digits[0]),
        "numbers": pl.Data.from_arrays(seconds.reshape(-1, 1), 1e12 + seconds / 3, weights=np.arange(60)),
        "nothing to learn": pl.Data.from_arrays(np.eye(3, dtype=np.uint8)),
        "sequences": pl.Data.from_sequences([np.ones((2, 1)), np.ones((3, 1))], ["a", "b"]),
        "a file": pl.Data.open("digits:test"),
        "a part": pl.Data.open("digits:test").split(0.3)[0],
    }
    for name, data in made.items():
        for other in (pickle.loads(pickle.dumps(data)), copy.deepcopy(data)):
            np.testing.assert_array_equal(other.features(), data.features(), err_msg=name)
            np.testing.assert_array_equal(other.targets(), data.targets(), err_msg=name)
            assert other.describe(0) == data.describe(0), name
            assert (other.schema.text, other.remarks, other.shape) == (data.schema.text, data.remarks, data.shape), name


def test_a_trainer_runs_once_at_a_time(digits: Any) -> None:
    began, told = threading.Event(), []

    def first() -> None:
        told.append(trainer.fit(digits[0]).stopped)

    trainer = pl.Trainer(small(), epochs=1_000_000, callbacks=[lambda _: began.set()], progress=False)
    thread = threading.Thread(target=first)
    thread.start()
    assert began.wait(60)
    with pytest.raises(pl.SettingError, match="this trainer is running already"):
        trainer.fit(digits[0])
    trainer.stop()
    thread.join()
    assert told == [True]
    trainer.callbacks, trainer._train["epochs"] = [], 1
    assert not trainer.fit(digits[0]).stopped, "it runs again"


def test_features_and_targets_stand_beside_each_other_too(digits: Any) -> None:
    (x, y), test = digits
    pairs = pl.Trainer(small(), epochs=1).fit((x, y), test)
    beside = pl.Trainer(small(), epochs=1).fit(x, y, validation=test)
    assert pairs.scores == beside.scores
    assert pl.Trainer(small(), epochs=1).fit(x, list(y)).model.iteration > 0
    with pytest.raises(pl.SettingError, match="nothing to learn from: pass `\\(X, y\\)`"):
        pl.Trainer(small()).fit(x)
    with pytest.raises(pl.SettingError, match="test data once"):
        pl.Trainer(small()).fit((x, y), test, validation=test)


def test_sentences_speak_of_python(elsewhere: Path, digits: Any) -> None:
    pl.Trainer(small(), output="run").fit(digits[0])
    with pytest.raises(pl.Error) as raised:
        pl.Trainer(small(), output="run").fit(digits[0])
    assert "`resume=True`" in str(raised.value) and "--" not in str(raised.value)
    sparse = pytest.importorskip("scipy.sparse").eye(64).tocsr()
    with pytest.raises(pl.SettingError, match=r"sparse matrix: `X.toarray\(\)`"):
        pl.Trainer(small()).fit((sparse, np.zeros(64)))
    with pytest.raises(ValueError, match="masked"):
        pl.Data.from_arrays(np.ma.masked_array(np.eye(2), mask=np.eye(2)))
    with pytest.raises(ValueError):
        pl.Network([pl.layers.output(2)], input=pl.feed_forward(2), updtaer="adam")


def test_notebooks_show_tables(digits: Any) -> None:
    outcome = pl.Trainer(small(), epochs=1).fit(*digits)
    assert outcome.scores is not None
    assert f"<td>{outcome.scores.accuracy:.4g}</td>" in outcome._repr_html_()
    assert "<td>64 × 32</td>" in small()._repr_html_()


TYPED = """
import paceline as pl
network = pl.Network([pl.layers.output(2)], input=pl.feed_forward(4))
right = pl.Trainer(network, mode="sync", normaliser="standardise", class_weights={0: 1.0})
also_right = pl.Trainer(network, mode={"averaging": {"frequency": 3}}, class_weights="balanced")
wrong = pl.Trainer(network, mode="asnyc")
wrong_too = pl.Trainer(network, normaliser="standardize")
stopping = pl.Trainer(network, early_stopping={"patience": 3, "metric": "accuracy"}, plateau={"factor": 0.5})
wrong_key = pl.Trainer(network, early_stopping={"patence": 3})
wrong_options = pl.Trainer(network, mode={"averaging": {"frequenzy": 3}})
layer = pl.layers.dense(3, activation="relu", updater="adam", l2=0.1)
wrong_activation = pl.layers.dense(3, activation="rellu")
wrong_setting = pl.layers.conv2d(3, 3, strid=2)
wrong_of_network = pl.Network([layer], input=pl.feed_forward(4), updater="adm")
def listen(event: pl.Event) -> None:
    if event.kind == "step":
        print(event.loss + 1.0)
        print(event.los)
    if event.kind == "stpe":
        print(event.loss)
"""


def test_mypy_finds_misspelt_settings(elsewhere: Path) -> None:
    Path("typed.py").write_text(TYPED)
    done = subprocess.run([sys.executable, "-m", "mypy", "--strict", "typed.py"], capture_output=True, text=True)
    found = [line.split(":")[1] for line in done.stdout.splitlines() if ": error:" in line]
    assert list(dict.fromkeys(found)) == ["6", "7", "9", "10", "12", "13", "14", "18", "19"], done.stdout


def test_a_network_without_targets_takes_features_and_test_features(digits: Any) -> None:
    rows, held = digits[0][0].reshape(-1, 64) / 16, digits[1][0].reshape(-1, 64) / 16
    network = pl.Network(
        [
            pl.layers.dense(16, activation="sigmoid"),
            pl.layers.dense(64, name="back", activation="sigmoid"),
            pl.layers.reconstruction(["back", "input"]),
        ],
        input=pl.feed_forward(64),
        seed=1,
    )
    beside = pl.Trainer(network).fit(rows, held)
    named = pl.Trainer(network).fit(rows, validation=held)
    assert beside.scores is not None and beside.scores == named.scores
    with pytest.raises(pl.SettingError, match="has no targets"):
        pl.Trainer(network).fit(rows, held, validation=held)


def test_a_trainer_stops_while_it_still_reads_its_data(digits: Any) -> None:
    class Slow:
        """Features that stop the trainer while they are read."""

        def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
            trainer.stop()
            return digits[0][0]

    trainer = pl.Trainer(small(), epochs=1_000_000)
    assert trainer.fit((Slow(), digits[0][1])).stopped
    trainer.stop()
    trainer._train["epochs"] = 1
    assert not trainer.fit(digits[0]).stopped, "a trainer that does not run has nothing to stop"


def test_mistakes_in_arrays_are_value_errors() -> None:
    x, y = np.ones((4, 3)), [0, 1, 0, 1]
    network = pl.Network([pl.layers.output(2)], input=pl.feed_forward(3))
    with pytest.raises(ValueError, match="holds NaN|holds nan"):
        pl.Data.from_arrays(np.full((2, 2), np.nan))
    with pytest.raises(ValueError):
        pl.Data.from_arrays(x, y, weights=[1.0, -1.0, 1.0, 1.0])
    with pytest.raises(ValueError):
        pl.Trainer(network).fit((np.ones((4, 5)), y))
    with pytest.raises(ValueError):
        pl.Trainer(network, target_normaliser="standardise").fit((x, y))


def test_a_run_that_memory_cannot_hold_is_refused() -> None:
    # Nearly all memory of the machine, of which some is taken: 267 numbers for each unit, in four buffers of 4 bytes.
    total = next(line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemTotal:"))
    units = int(total.split()[1]) * 1024 // 100 * 99 // (267 * 16)
    network = pl.Network([pl.layers.dense(units), pl.layers.output(10)], input=pl.feed_forward(256), updater=pl.adam(0.01))
    with pytest.raises(pl.Error, match="GiB of memory.*`force=True`"):
        pl.Trainer(network).fit((np.ones((4, 256)), [0, 1, 0, 1]))


def test_notes_and_errors_name_arguments_of_python(digits: Any) -> None:
    with pytest.raises(pl.Error) as raised:
        pl.Trainer(small(), early_stopping={"patience": 2}).fit(digits[0])
    assert "pass it to `fit`" in str(raised.value) and "data." not in str(raised.value)
    x = np.random.default_rng(0).normal(size=(50, 2))
    network = pl.Network([pl.layers.output(1)], input=pl.feed_forward(2))
    notes = [event["message"] for event in pl.Trainer(network).fit((x, 1000 * x[:, 0])).events if event.kind == "note"]
    assert any('`target_normaliser="none"`' in note for note in notes) and not any("data." in note for note in notes)


def test_data_models_and_events_show_themselves_in_notebooks(digits: Any) -> None:
    outcome = pl.Trainer(small(), epochs=1).fit(*digits)
    assert "<td>0, 1, 2, 3, 4, 5, 6, 7, 8, 9</td>" in outcome.model._repr_html_()
    assert "1,438" in pl.Data.from_arrays(*digits[0])._repr_html_()
    assert "<th>loss</th>" in next(event for event in outcome.events if event.kind == "epoch")._repr_html_()
    assert pickle.loads(pickle.dumps(outcome.events[0])) == outcome.events[0]
    outcome.scores.details = {"a": 1}
    assert pickle.loads(pickle.dumps(outcome.scores)).details == {"a": 1}


def test_data_of_a_file_travels_with_its_groups_and_its_order(elsewhere: Path) -> None:
    rows = "\n".join(f"{at},{at % 2},{at // 4}" for at in range(40))
    Path("data.csv").write_text(f"x,y,who\n{rows}\n")
    data = pl.Data.open("csv:data.csv?label=y&group=who")
    other = pickle.loads(pickle.dumps(data))
    assert other._source.state() == data._source.state() and other._source.state()[4] is not None
    for ours, theirs in zip(other.split(0.5, 1), data.split(0.5, 1), strict=True):
        np.testing.assert_array_equal(ours.features(), theirs.features())
