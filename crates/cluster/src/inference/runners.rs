//! The threads that run the model over parts, on the cores of this process.

use std::sync::Arc;

use crossbeam_channel::{Receiver, Sender, unbounded};
use paceline_data::{Source, Subset, TargetShape};
use paceline_model::{Batch, Loss};
use paceline_train::ParallelInference;

use super::answer::{Answer, Answered, TargetKind};
use crate::ClusterError;

/// Parts that a process has at a time: while one ends, the cores are busy with the other.
pub(super) const AT_A_TIME: usize = 2;
/// Batches in a part: enough that handing it out costs nothing, few enough that little is lost with a helper.
const BATCHES: usize = 16;

/// The data of a pass, cut into parts.
#[derive(Clone)]
pub(super) struct Work {
    pub source: Arc<dyn Source>,
    /// Examples in a batch.
    pub batch: usize,
    /// Whether targets count.
    pub judged: bool,
}

impl Work {
    /// How many parts there are.
    pub(super) fn parts(&self) -> usize {
        self.source.examples().div_ceil(BATCHES * self.batch)
    }

    /// The examples of every batch of a part.
    pub(super) fn batches(&self, part: usize) -> Vec<u32> {
        let (from, to) = self.range(part);
        let sizes = (from..to).step_by(self.batch).map(|at| self.batch.min(to - at));
        sizes.map(|examples| examples as u32).collect()
    }

    /// What comes with the features, and counts.
    pub(super) fn targets(&self) -> TargetKind {
        match &self.source.shape().targets {
            _ if !self.judged => TargetKind::None,
            TargetShape::None => TargetKind::None,
            TargetShape::Classes { names } => TargetKind::Classes(names.len() as u32),
            TargetShape::Values { names } => TargetKind::Values(names.len() as u32),
        }
    }

    fn range(&self, part: usize) -> (usize, usize) {
        let (size, all) = (BATCHES * self.batch, self.source.examples());
        ((part * size).min(all), ((part + 1) * size).min(all))
    }

    /// Runs a model over a part.
    fn run(&self, part: usize, inference: &ParallelInference) -> Result<Answer, ClusterError> {
        let (from, to) = self.range(part);
        let source = Arc::new(Subset::of(self.source.clone(), (from as u64..to as u64).collect())?);
        let mut batches = Vec::new();
        let mut keep = |batch: &Batch, outputs: &[f32], loss: Loss| {
            let Batch { epoch, indices, targets, weights, .. } = batch;
            let (indices, targets, weights) = (indices.clone(), targets.clone(), weights.clone());
            let batch = Batch { epoch: *epoch, indices, targets, weights, ..Batch::empty() };
            batches.push(Answered { batch, outputs: outputs.to_vec(), loss });
        };
        if self.judged {
            inference.predict_with_loss(source, self.batch, keep)?;
        } else {
            inference.predict(source, self.batch, |batch, outputs| {
                keep(batch, outputs, Loss::default());
                Ok::<_, paceline_train::Error>(())
            })?;
        }
        Ok(Answer { batches })
    }
}

/// What came of a part.
pub(super) type Run = (usize, Result<Answer, ClusterError>);

/// Threads that take parts, and end when nobody can give them any.
pub(super) struct Runners {
    parts: Sender<usize>,
    pub done: Receiver<Run>,
}

impl Runners {
    /// Waiting for their first part.
    pub(super) fn start(work: &Work, inference: &ParallelInference) -> Result<Self, ClusterError> {
        let (parts, asked) = unbounded::<usize>();
        let (outbox, done) = unbounded();
        for _ in 0..AT_A_TIME {
            let (work, inference, asked, outbox) = (work.clone(), inference.clone(), asked.clone(), outbox.clone());
            let run = move || {
                for part in asked {
                    if outbox.send((part, work.run(part, &inference))).is_err() {
                        return;
                    }
                }
            };
            let thread = std::thread::Builder::new().name("paceline-parts".into()).spawn(run);
            thread.map_err(|source| ClusterError::Thread { source })?;
        }
        Ok(Self { parts, done })
    }

    /// One more part, after all others.
    pub(super) fn give(&self, part: usize) {
        // They end only when this end is dropped.
        let _ = self.parts.send(part);
    }
}
