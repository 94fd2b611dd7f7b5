import numpy as np

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
