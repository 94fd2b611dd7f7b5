"""LeNet on MNIST by every face of `paceline.spark`, beside one process: test accuracy after the same epochs.

Needs the environment that `make test-spark` makes, and MNIST in the cache: target/spark-4.3.0/bin/python bench/spark_accuracy.py
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from spark import lenet, mnist_on_a_cluster


def one_process(epochs: int) -> float:
    import paceline as pl

    trainer = pl.Trainer(lenet(), epochs=epochs, batch=64, seed=5, normaliser="image", workers=1, progress=False)
    scores = trainer.fit("mnist:train", "mnist:test").scores
    assert scores is not None
    return float(scores.accuracy)


def by_network(spark: Any, frame: Any, master: Any, epochs: int) -> float:
    from paceline.spark import SparkNetwork

    trained = SparkNetwork(spark, lenet(), master, normaliser="image")
    trained.fit(frame.where("not held"), epochs=epochs)
    return float(trained.evaluate(frame.where("held")).accuracy)


def by_estimator(frame: Any, epochs: int) -> float:
    from paceline.spark import PacelineClassifier

    estimator = PacelineClassifier(network=lenet(), numWorkers=2, epochs=epochs, batchSize=32, seed=5, normaliser="image")
    told = estimator.fit(frame.where("not held")).transform(frame.where("held"))
    return float(told.where(told.prediction == told.label).count() / told.count())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--output", type=Path)
    asked = parser.parse_args()

    from paceline.spark import ParameterAveragingTrainingMaster, SharedTrainingMaster

    results: dict[str, Any] = {"epochs": asked.epochs, "one process": one_process(asked.epochs)}
    print(results, flush=True)
    usual = {"num_workers": 2, "batch_size_per_worker": 32, "rng_seed": 5}
    with mnist_on_a_cluster() as (spark, frame):
        ways = {
            "SharedTrainingMaster": lambda: by_network(spark, frame, SharedTrainingMaster(**usual), asked.epochs),
            "ParameterAveragingTrainingMaster": lambda: by_network(
                spark, frame, ParameterAveragingTrainingMaster(**usual), asked.epochs
            ),
            "SharedTrainingMaster, direct": lambda: by_network(
                spark, frame.repartition(4), SharedTrainingMaster(**usual, rdd_training_approach="direct"), asked.epochs
            ),
            "PacelineClassifier": lambda: by_estimator(frame, asked.epochs),
        }
        for name, way in ways.items():
            results[name] = way()
            print(name, results[name], flush=True)
    if asked.output:
        asked.output.parent.mkdir(parents=True, exist_ok=True)
        asked.output.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
