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
    assert model is not None and (model.predict(test[0]) == test[1].astype(str)).mean() == scores.accuracy
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
