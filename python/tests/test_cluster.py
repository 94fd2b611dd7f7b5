import numpy as np
import pytest

import paceline as pl
from conftest import small


def test_a_master_and_two_workers_in_one_process(elsewhere, digits) -> None:
    trainer = pl.Trainer(small(), epochs=5, global_batch=32, mode="sync", normaliser="min_max")
    train, test = digits
    with pl.Master(trainer, train, test, output="run", min_workers=2) as master:
        workers = [pl.Worker(master.join, train=train, test=test) for _ in range(2)]
        model, scores = master.wait()
        for worker in workers:
            worker.wait()
    assert scores is not None and scores.accuracy > 0.9
    assert model is not None and (model.predict(test[0]) == test[1]).mean() == scores.accuracy
    finished = next(event for event in master.events if event.kind == "finished")
    assert finished.examples == 5 * len(train[0])
    alone = pl.Trainer(small(), epochs=5, global_batch=32, normaliser="min_max").fit(train)
    for name, numbers in alone.model.parameters().items():
        np.testing.assert_allclose(model.parameters()[name], numbers, atol=2e-3, err_msg=name)


def test_workers_bring_partitions_one_after_the_other(elsewhere, digits) -> None:
    (features, labels), test = digits
    cuts = [slice(0, 100), slice(100, 101), slice(101, None)]
    parts = [pl.Data.from_arrays(features[cut], labels[cut], classes=list(range(10))) for cut in cuts]
    whole = pl.Data.of_partitions(part.describe(number) for number, part in enumerate(parts))
    assert len(whole) == len(labels)
    trainer = pl.Trainer(small(), epochs=3, batch=16, mode="sync", normaliser="min_max")
    with pl.Master(trainer, whole, test, output="run") as master:
        for epoch in range(3):
            for number, part in enumerate(parts):
                pl.Worker(master.join, partitions={number: part}, epoch=epoch).wait()
        model, scores = master.wait()
    assert model is not None and scores is not None and scores.accuracy > 0.8
    finished = next(event for event in master.events if event.kind == "finished")
    assert finished.examples == 3 * len(labels)
    with pytest.raises(pl.Error, match="expected one note of partition 1, found none"):
        pl.Data.of_partitions([parts[0].describe(0), parts[2].describe(2)])


def test_a_run_goes_on_from_the_model_of_another_and_tells_where_its_time_went(elsewhere, digits) -> None:
    train, test = digits

    def run(output: str, epochs: int, start: pl.Model | None = None) -> tuple[pl.Model, list[pl.Event]]:
        trainer = pl.Trainer(small(), epochs=epochs, global_batch=32, mode="sync", normaliser="min_max", start=start, take="everything")
        with pl.Master(trainer, train, test, output=output, min_workers=2, expected_workers=2, statistics=True) as master:
            workers = [pl.Worker(master.join, train=train, test=test) for _ in range(2)]
            model, _ = master.wait()
            for worker in workers:
                worker.wait()
        assert model is not None
        return model, master.events

    whole, _ = run("whole", 40)
    first, _ = run("first", 15)
    rest, events = run("rest", 25, first)
    assert (rest.epoch, rest.iteration) == (40, whole.iteration)
    for name, numbers in whole.parameters().items():
        np.testing.assert_array_equal(rest.parameters()[name], numbers, err_msg=name)
    assert [event.epoch for event in events if event.kind == "epoch"] == list(range(16, 41))
    statistics = pl.TrainingStatistics.of(events)
    assert statistics is not None and len(statistics.workers) == 2
    assert all(phases["compute"] > 0 for phases in statistics.seconds().values())
    assert str(statistics).splitlines()[0].split()[:2] == ["worker", "steps"]
    statistics.save("statistics.html")
    assert "<svg" in open("statistics.html").read() and "<svg" in statistics._repr_html_()
    with pytest.raises(pl.Error, match="the normaliser of the model to begin with differs"):
        other = pl.Trainer(small(), epochs=1, normaliser="standardise", start=first)
        pl.Master(other, train, test, output="other").wait()


def test_workers_subtract_the_offsets_of_the_master(elsewhere) -> None:
    seconds = 1_700_000_000.0 + np.random.default_rng(0).permutation(200)
    x, y = seconds.reshape(-1, 1), (seconds >= 1_700_000_100).astype(int)
    network = pl.Network([pl.layers.output(2)], input=pl.feed_forward(1), updater=pl.adam(0.05), seed=1)
    first = pl.Trainer(network, epochs=20).fit((x, y)).model
    # Some rows have another middle than all of them.
    part = (x[:150], y[:150])
    trainer = pl.Trainer(network, epochs=20, mode="sync", start=first, take="everything")
    with pl.Master(trainer, part, output="run") as master:
        worker = pl.Worker(master.join, train=part, like=master.train)
        model, _ = master.wait()
        worker.wait()
    assert model is not None and model.schema.text == first.schema.text
    assert (model.predict(x) == y).mean() > 0.95
