"""Digits on Spark, cell by cell. Runs as it is: `spark-submit spark_digits.py`, or `python spark_digits.py` on this machine."""

# %% A session: that of the notebook, that of `spark-submit`, or one on this machine with two slots and tasks that are run again.
from pyspark.sql import SparkSession

import paceline as pl
from paceline.spark import PacelineClassifier, ParameterAveragingTrainingMaster, SparkNetwork

spark = SparkSession.builder.config(map={"spark.master": "local[2,4]"}).appName("digits").getOrCreate()

# %% A DataFrame: 64 numbers and a label. Yours comes from `spark.read`.
digits = pl.Data.open("digits:train")
rows = [(row.tolist(), int(label)) for row, label in zip(digits.features().reshape(len(digits), -1), digits.targets())]
df = spark.createDataFrame(rows, "features array<float>, label int")

# %% What is trained.
network = pl.Network(
    [pl.layers.dense(100, activation="relu"), pl.layers.output(10)],
    input=pl.feed_forward(64),
    updater=pl.adam(0.005),
    seed=7,
)

# %% In Spark's words: an estimator, which goes into a `Pipeline` as well.
classifier = PacelineClassifier(network=network, numWorkers=2, epochs=10, normaliser="standardise")
model = classifier.fit(df)
told = model.transform(df)
print("right:", told.where(told.prediction == told.label).count(), "of", told.count())

# %% In the words of Deeplearning4j.
master = ParameterAveragingTrainingMaster(num_workers=2, batch_size_per_worker=16, averaging_frequency=5)
face = SparkNetwork(spark, network, master, normaliser="standardise")
face.fit(df, epochs=10)
print(face.evaluate(df))

# %% The model without Spark.
face.model.save("digits.safetensors")
spark.stop()
