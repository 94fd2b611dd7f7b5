use std::fmt;

use paceline_data::{Loader, LoaderOptions, Source, TargetShape};
use paceline_model::{Batch, Loss, Model, State, Targets};
use paceline_nn::evaluation::{Classification, Regression};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use crate::Error;

/// How good a model is on some data.
#[derive(Clone, Debug)]
pub struct Scores {
    /// The mean loss.
    pub loss: Loss,
    /// What else can be told, by the kind of targets.
    pub measures: Measures,
}

/// What can be told besides the loss.
#[derive(Clone, Debug)]
pub enum Measures {
    /// For classes.
    Classes(Classification),
    /// For numbers.
    Values(Regression),
}

impl Scores {
    /// The mean loss.
    pub fn score(&self) -> f64 {
        self.loss.mean()
    }

    /// The share of examples whose class was told right; nothing for numbers.
    pub fn accuracy(&self) -> Option<f64> {
        match &self.measures {
            Measures::Classes(classes) => Some(classes.accuracy()),
            Measures::Values(_) => None,
        }
    }
}

impl fmt::Display for Scores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "loss {:.5}", self.score())?;
        match &self.measures {
            Measures::Classes(classes) => classes.fmt(f),
            Measures::Values(values) => values.fmt(f),
        }
    }
}

impl Serialize for Scores {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("score", &self.score())?;
        match &self.measures {
            Measures::Classes(classes) => {
                let average = classes.macro_average();
                map.serialize_entry("accuracy", &classes.accuracy())?;
                map.serialize_entry("precision", &average.precision)?;
                map.serialize_entry("recall", &average.recall)?;
                map.serialize_entry("f1", &average.f1)?;
                map.serialize_entry("mcc", &classes.mcc())?;
            }
            Measures::Values(values) => {
                let average = values.average();
                map.serialize_entry("mse", &average.mse)?;
                map.serialize_entry("mae", &average.mae)?;
                map.serialize_entry("rmse", &average.rmse)?;
                map.serialize_entry("r2", &average.r2)?;
            }
        }
        map.end()
    }
}

/// Collects scores batch by batch.
pub struct Evaluator {
    scores: Scores,
    outputs: Vec<f32>,
}

impl Evaluator {
    /// For targets of this kind; nothing for data without targets.
    pub fn new(targets: &TargetShape) -> Option<Self> {
        let measures = match targets {
            TargetShape::None => return None,
            TargetShape::Classes { names } => {
                Measures::Classes(Classification::new(names.clone()).with_top_n(top(names)))
            }
            TargetShape::Values { names } => Measures::Values(Regression::new(names.clone())),
        };
        Some(Self { scores: Scores { loss: Loss::default(), measures }, outputs: Vec::new() })
    }

    /// Judges one batch.
    pub fn add(&mut self, model: &mut dyn Model, state: &State, batch: &Batch) -> Result<(), Error> {
        let Self { scores, outputs } = self;
        scores.loss.merge(model.predict(batch, state, outputs)?.unwrap_or_default());
        match (&mut scores.measures, &batch.targets) {
            (Measures::Classes(classes), Targets::Classes(wanted)) => {
                classes.add(outputs, wanted, batch.weights.as_deref());
            }
            (Measures::Values(values), Targets::Values { values: wanted, .. }) => {
                values.add(outputs, wanted, batch.weights.as_deref());
            }
            _ => unreachable!("a source gives targets of the kind that its shape names"),
        }
        Ok(())
    }

    /// What was found.
    pub fn scores(self) -> Scores {
        self.scores
    }
}

/// The usual "top 5", or less where there are not many classes.
fn top(names: &[String]) -> usize {
    (names.len() / 2).clamp(1, 5)
}

/// Judges a model on a whole source; `None` if the source has no targets.
pub fn evaluate(
    model: &mut dyn Model,
    state: &State,
    source: std::sync::Arc<dyn Source>,
    options: LoaderOptions,
) -> Result<Option<Scores>, Error> {
    let Some(mut evaluator) = Evaluator::new(&source.shape().targets) else { return Ok(None) };
    let loader = Loader::new(source, LoaderOptions { shuffle: false, class_weights: None, ..options })?;
    let mut batches = loader.epoch(0, 0);
    while let Some(batch) = batches.next() {
        let batch = batch?;
        evaluator.add(model, state, &batch)?;
        batches.recycle(batch);
    }
    Ok(Some(evaluator.scores()))
}
