import _thread
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import paceline as pl
from conftest import small
from paceline.events import Kept

JOB = """
[data]
train = "digits:train"
test = "digits:test"
batch = 32
seed = 5
[network]
input = { image = [8, 8, 1] }
seed = 5
updater = { adam = { learning_rate = 0.005, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8 } }
layers = [{ dense = { units = 32, activation = "relu" } }, { output = { units = 10 } }]
[train]
epochs = 3
"""


@pytest.mark.parametrize("mode", ["sync", {"averaging": {"frequency": 5}}, "alone"])
def test_arrays_train_to_the_bits_of_the_command_line(elsewhere, digits, mode) -> None:
    settings = {} if mode == "alone" else {"mode": mode, "workers": 2}
    more = {"alone": "", "sync": "workers = 2\nmode = 'sync'\n"}.get(str(mode), "workers = 2\nmode.averaging.frequency = 5\n")
    (elsewhere / "job.toml").write_text(JOB + more)
    command = [sys.executable, "-m", "paceline", "train", "job.toml", "--output", "run", "--events", "none"]
    subprocess.run(command, check=True)
    trainer = pl.Trainer(small(seed=5), epochs=3, batch=32, normaliser=None, **settings)
    (features, labels), test = digits
    # What the digits are divided by in the program.
    ours = pl.Trainer(small(seed=5), epochs=3, batch=32, **settings).fit(pl.Data.open("digits:train"), "digits:test")
    theirs = pl.Model.load("run/model.safetensors")
    for name, numbers in theirs.parameters().items():
        np.testing.assert_array_equal(ours.model.parameters()[name], numbers, err_msg=name)
    # The same numbers from arrays, which are normalised by whoever has them.
    scaled = trainer.fit((features / np.float32(16), labels), (test[0] / np.float32(16), test[1]))
    plain = pl.Trainer(small(seed=5), epochs=3, batch=32, normaliser="none", **settings)
    again = plain.fit((features / np.float32(16), labels), (test[0] / np.float32(16), test[1]))
    for name, numbers in again.model.parameters().items():
        np.testing.assert_array_equal(scaled.model.parameters()[name], numbers, err_msg=name)
    assert ours.scores is not None and ours.scores.accuracy == theirs.evaluate("digits:test").accuracy


def test_a_model_predicts_saves_and_travels(elsewhere, digits) -> None:
    train, (features, labels) = digits
    outcome = pl.Trainer(small(), epochs=5, normaliser="min_max").fit(train, (features, labels))
    model = outcome.model
    assert outcome.scores.accuracy > 0.9 and not outcome.stopped
    said = model.predict(features)
    assert said.dtype == labels.dtype and (said == labels).mean() == pytest.approx(outcome.scores.accuracy)
    probabilities = model.predict_proba(features)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-5)
    model.save("model.safetensors")
    for other in (pl.Model.load("model.safetensors"), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(other.predict_proba(features), probabilities)
    assert list(pl.Model.load("model.safetensors").classes) == list(range(10)), "as they were given"
    scores = model.evaluate((features, labels))
    assert scores == outcome.scores and "Confusion matrix" in str(scores)
    assert {event.kind for event in outcome.events} >= {"started", "step", "epoch", "evaluation", "finished"}


def test_numbers_are_learned_too() -> None:
    x = np.linspace(-1, 1, 400).reshape(-1, 1)
    network = pl.Network([pl.layers.dense(20, activation="tanh"), pl.layers.output(1)], input=pl.feed_forward(1), updater=pl.adam(0.01))
    outcome = pl.Trainer(network, epochs=150, batch=32).fit((x, np.sin(3 * x[:, 0])))
    assert outcome.model.classes is None
    assert np.abs(outcome.model.predict(x) - np.sin(3 * x[:, 0])).mean() < 0.1
    with pytest.raises(pl.SettingError, match="no probabilities"):
        outcome.model.predict_proba(x)


def test_other_threads_go_on_while_it_trains(digits) -> None:
    counted = 0
    is_over = threading.Event()

    def count() -> None:
        nonlocal counted
        while not is_over.is_set():
            counted += 1
            time.sleep(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    before = counted
    pl.Trainer(small(), epochs=30).fit(digits[0])
    is_over.set()
    thread.join()
    assert counted - before > 20, "nobody holds the interpreter"


def test_a_callback_that_raises_stops_the_run(digits) -> None:
    told = []

    def raises(event: pl.Event) -> None:
        told.append(event.kind)
        if event.kind == "epoch":
            raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        pl.Trainer(small(), epochs=1_000_000, callbacks=[raises]).fit(digits[0])
    assert told.count("epoch") == 1


def test_it_is_stopped_from_a_callback_and_resumed(digits) -> None:
    def trainer(**more) -> pl.Trainer:
        return pl.Trainer(small(), epochs=6, output="run", **more)

    first = trainer()
    first.callbacks.append(lambda event: first.stop() if event.kind == "epoch" and event.epoch == 2 else None)
    outcome = first.fit(digits[0])
    assert outcome.stopped
    with pytest.raises(pl.Error, match="holds a run already"):
        trainer().fit(digits[0])
    rest = trainer(resume=True).fit(digits[0])
    whole = pl.Trainer(small(), epochs=6).fit(digits[0])
    for name, numbers in whole.model.parameters().items():
        np.testing.assert_array_equal(rest.model.parameters()[name], numbers, err_msg=name)


def test_ctrl_c_stops_after_the_step_and_says_so(digits) -> None:
    # Who starts the tests in the background of a shell has Ctrl-C ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    pressed = []

    def press(event: pl.Event) -> None:
        if event.kind == "step" and not pressed:
            pressed.append(True)
            _thread.interrupt_main(signal.SIGINT)

    with pytest.raises(pl.Stopped) as raised:
        pl.Trainer(small(), epochs=1_000_000, output="run", callbacks=[press]).fit(digits[0])
    signal.signal(signal.SIGINT, before)
    assert isinstance(raised.value, KeyboardInterrupt)
    assert raised.value.outcome.stopped
    assert pl.Model.load("run/checkpoint.safetensors").iteration == raised.value.outcome.model.iteration


def test_a_forked_child_trains_and_is_told_what_it_cannot_use(digits) -> None:
    pl.Trainer(small(), epochs=1).fit(digits[0])
    from paceline import _native

    job = '{"data":{"train":"digits:train"},"network":%s,"train":{"epochs":100000}}' % small().to_json()
    run = _native.Run.train(job, name="x")
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            with pytest.raises(pl.Error, match="cannot be used in its child"):
                run.next(1.0)
            outcome = pl.Trainer(small(), epochs=1, progress=False).fit(digits[0])
            os.write(write, b"trained" if outcome.model.iteration else b"")
        except BaseException as error:
            os.write(write, repr(error).encode())
        finally:
            os._exit(0)
    os.close(write)
    assert os.read(read, 1000) == b"trained"
    os.waitpid(child, 0)
    run.stop()


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"epochs": 0}, "at least 1"),
        ({"mode": "snyc"}, "did you mean `sync`"),
        ({"batch": "many"}, "expected a whole number"),
        ({"workers": 100_000}, "at most 1,024"),
        ({"class_weights": [0, 0]}, "class_weights"),
        ({"normaliser": "maximum"}, "normaliser"),
    ],
)
def test_what_is_wrong_with_the_settings_is_said(digits, settings, told) -> None:
    with pytest.raises(pl.SettingError) as raised:
        pl.Trainer(small(), **settings).fit(digits[0])
    assert told in str(raised.value)


def test_targets_of_any_size_are_learned_and_told_in_their_units(elsewhere) -> None:
    rows = np.random.default_rng(0).normal(size=(400, 3)).astype(np.float32)
    prices = 250_000 + 40_000 * (rows[:, 0] - rows[:, 1] * rows[:, 2])
    data = pl.Data.from_arrays(rows, prices, task="regression")
    network = pl.Network([pl.layers.dense(24, activation="relu"), pl.layers.output(data.outputs)], input=data, updater=pl.adam(0.01))
    outcome = pl.Trainer(network, epochs=40, batch=20, target_normaliser="standardise").fit(data, data)
    told = outcome.model.outputs(rows)[:, 0]
    assert outcome.scores is not None and outcome.scores["r2"] > 0.95
    assert outcome.scores["mae"] == pytest.approx(float(np.abs(told - prices).mean()), rel=1e-4)
    outcome.model.save("prices.safetensors")
    np.testing.assert_array_equal(pl.Model.load("prices.safetensors").outputs(rows)[:, 0], told)


def test_rare_classes_weigh_as_much_as_frequent_ones(digits) -> None:
    (features, labels), _ = digits
    kept = np.concatenate([np.flatnonzero(labels == 0)[:60], np.flatnonzero(labels == 1)[:6]])
    weights = [66 / (2 * 60), 66 / (2 * 6)]
    data = pl.Data.from_arrays(features[kept], labels[kept], classes=[0, 1])
    network = pl.Network([pl.layers.output(data.outputs)], input=data)
    balanced, told = (pl.Trainer(network, epochs=2, class_weights=given).fit(data).model for given in ("balanced", weights))
    for name, numbers in told.parameters().items():
        np.testing.assert_array_equal(balanced.parameters()[name], numbers, err_msg=name)


def test_omp_num_threads_says_how_many_cores(monkeypatch, digits) -> None:
    def workers() -> int:
        return pl.Trainer(small(), epochs=1, batch=256).fit(digits[0]).events[0].workers

    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert workers() == 1
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    assert workers() == 2


def _trained_elsewhere(epochs: int) -> int:
    return pl.Trainer(small(), epochs=epochs, progress=False).fit("digits:train").model.iteration


@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
def test_children_of_every_kind_train_after_their_parent_has(method) -> None:
    expected = _trained_elsewhere(1)
    with multiprocessing.get_context(method).Pool(2) as pool:
        assert pool.map_async(_trained_elsewhere, [1, 2]).get(timeout=120) == [expected, 2 * expected]


def test_children_of_joblib_train() -> None:
    joblib = pytest.importorskip("joblib")
    expected = _trained_elsewhere(1)
    run = joblib.delayed(_trained_elsewhere)
    assert joblib.Parallel(n_jobs=2, backend="loky", timeout=120)(run(epochs) for epochs in (1, 2)) == [expected, 2 * expected]


def test_nothing_is_started_by_the_import() -> None:
    code = "import signal, threading; before = signal.getsignal(signal.SIGINT); import os, paceline; " \
        "assert signal.getsignal(signal.SIGINT) is before and len(os.listdir('/proc/self/task')) == 1"
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "OPENBLAS_NUM_THREADS": "1"})


def test_of_very_many_steps_the_last_are_kept() -> None:
    kept = Kept()
    kept.keep(pl.Event({"event": "started"}))
    for step in range(25_000):
        kept.keep(pl.Event({"event": "step", "iteration": step}))
    steps = [event["iteration"] for event in kept if event.kind == "step"]
    assert kept[0].kind == "started"
    assert len(steps) <= Kept.MOST_STEPS and steps == list(range(steps[0], 25_000))
