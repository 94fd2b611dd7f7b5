"""Trains on a Spark cluster: its tasks lend their cores, the driver leads.

    from paceline.spark import PacelineClassifier

    classifier = PacelineClassifier(network=network, featuresCol="features", labelCol="label", numWorkers=4, epochs=3)
    model = classifier.fit(df)
    model.transform(df).select("prediction", "probability")

There is no barrier: a fit begins with the tasks that Spark can run, goes on when some are lost, and takes in those that Spark runs
again. pyspark is needed where this is imported (tested with 4.3), and pyarrow and pandas on all hosts.
"""

from paceline.spark.estimator import (
    PacelineClassificationModel,
    PacelineClassifier,
    PacelineModel,
    PacelineRegressionModel,
    PacelineRegressor,
)
from paceline.spark.masters import ParameterAveragingTrainingMaster, SharedTrainingMaster, TrainingMaster
from paceline.spark.network import SparkNetwork

__all__ = [
    "PacelineClassificationModel",
    "PacelineClassifier",
    "PacelineModel",
    "PacelineRegressionModel",
    "PacelineRegressor",
    "ParameterAveragingTrainingMaster",
    "SharedTrainingMaster",
    "SparkNetwork",
    "TrainingMaster",
]
