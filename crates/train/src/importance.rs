//! Permutation importance (Breiman 2001): how much worse a model gets when the values of one column are dealt to other examples.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use paceline_data::{ColumnKind, ExampleShape, Order, Permutation, Schema, Source};
use paceline_model::Batch;
use paceline_nn::Network;
use paceline_nn::evaluation::Thresholds;
use serde::Serialize;

use crate::{Error, Evaluator, Metric, ParallelInference, Scores};

/// The importance of one column.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Importance {
    /// The column.
    pub column: String,
    /// By how much the metric gets worse, as the mean over the repetitions; below 0 if it gets better.
    pub mean: f64,
    /// The deviation of the repetitions.
    pub deviation: f64,
}

/// The importance of all columns.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Importances {
    /// The metric: `accuracy` for classes, `r2` for numbers, else the score.
    pub metric: Metric,
    /// Its value on the data as it is.
    pub value: f64,
    /// The columns, the most important first.
    pub columns: Vec<Importance>,
}

impl ParallelInference {
    /// How much worse the model gets on this data when the values of one column are dealt to other examples: `repeats` times for every
    /// column, all categories of a column and all steps of a sequence together. `network` is that of the model.
    pub fn importance(
        &self,
        network: &Network,
        source: &Arc<dyn Source>,
        batch: usize,
        repeats: usize,
        seed: u64,
    ) -> Result<Importances, Error> {
        let columns = columns(&**source)?;
        let judge = |source: Arc<dyn Source>| -> Result<Scores, Error> {
            let evaluator = Evaluator::new(&source.shape().targets, network, Thresholds::Steps(1));
            self.evaluate_by(evaluator.ok_or(Error::NothingToJudge)?, source, batch)
        };
        let scores = judge(source.clone())?;
        let told = [Metric::Accuracy, Metric::R2].into_iter().find(|metric| metric.of(&scores).is_some());
        let metric = told.unwrap_or(Metric::Score);
        let of = |scores: &Scores| metric.of(scores).unwrap_or(f64::NAN);
        let value = of(&scores);
        let mut found = Vec::with_capacity(columns.len());
        for (at, (column, range)) in columns.into_iter().enumerate() {
            let mut losses = Vec::with_capacity(repeats);
            for repeat in 0..repeats {
                // A seed of its own for every pair of column and repetition.
                let seed = seed ^ ((at as u64) << 32 | repeat as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                let dealt = Dealt::new(source.clone(), range.clone(), seed);
                losses.push(metric.gain(value, of(&judge(Arc::new(dealt))?)));
            }
            let mean = losses.iter().sum::<f64>() / repeats.max(1) as f64;
            let variance = losses.iter().map(|loss| (loss - mean).powi(2)).sum::<f64>() / repeats.max(1) as f64;
            found.push(Importance { column, mean, deviation: variance.sqrt() });
        }
        found.sort_by(|a, b| b.mean.total_cmp(&a.mean));
        Ok(Importances { metric, value, columns: found })
    }
}

/// The columns of a table with their features within an example, or within a step of one.
fn columns(source: &dyn Source) -> Result<Vec<(String, Range<usize>)>, Error> {
    let none = || Error::Unsuitable {
        setting: "--importance",
        message: "is for data whose columns have names, such as tables".into(),
    };
    let schema: &Schema = source.schema().filter(|schema| !schema.columns.is_empty()).ok_or_else(none)?;
    let mut start = 0;
    let columns = schema.columns.iter().map(|column| {
        let width = match &column.kind {
            ColumnKind::Number { .. } => 1,
            ColumnKind::Category { names } => names.len(),
            ColumnKind::Characters { steps, .. } => *steps,
        };
        start += width;
        (column.name.clone(), start - width..start)
    });
    let columns: Vec<(String, Range<usize>)> = columns.collect();
    let of_example = source.shape().features.last().copied().unwrap_or_default();
    if start == of_example { Ok(columns) } else { Err(none()) }
}

/// A source in which every example has one column of another.
struct Dealt {
    source: Arc<dyn Source>,
    column: Range<usize>,
    order: Permutation,
    /// The other examples, whose room is used again.
    others: Mutex<(Vec<u64>, Batch)>,
}

impl Dealt {
    fn new(source: Arc<dyn Source>, column: Range<usize>, seed: u64) -> Self {
        let order = Permutation::new(source.examples() as u64, seed);
        Self { source, column, order, others: Mutex::new((Vec::new(), Batch::empty())) }
    }
}

impl Source for Dealt {
    fn examples(&self) -> usize {
        self.source.examples()
    }

    fn shape(&self) -> &ExampleShape {
        self.source.shape()
    }

    fn read(&self, indices: &[u64], batch: &mut Batch) -> Result<(), paceline_data::Error> {
        self.source.read(indices, batch)?;
        let mut others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
        let (places, other) = &mut *others;
        places.clear();
        places.extend(indices.iter().map(|index| self.order.at(*index)));
        self.source.read(places, other)?;
        // Examples of sequences have the column at every step.
        let width = self.shape().features.last().copied().unwrap_or(1);
        for (own, other) in batch.features.chunks_exact_mut(width).zip(other.features.chunks_exact(width)) {
            own[self.column.clone()].copy_from_slice(&other[self.column.clone()]);
        }
        Ok(())
    }

    fn order(&self) -> Order {
        self.source.order()
    }

    fn weighted(&self) -> bool {
        self.source.weighted()
    }
}
