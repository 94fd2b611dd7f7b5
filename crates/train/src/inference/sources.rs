//! Whole sources: batches go to the workers a few ahead, and come back in the order of the source.

use std::collections::VecDeque;
use std::mem::swap;
use std::sync::Arc;

use paceline_data::{Loader, LoaderOptions, Source};
use paceline_model::{Batch, Loss, Targets};
use paceline_nn::evaluation::Thresholds;

use super::served::Served;
use super::slot::Told;
use super::{IfBusy, ParallelInference};
use crate::run::trainer::fits_features;
use crate::scores::Evaluator;
use crate::{Error, Scores};

impl ParallelInference {
    /// How good the model is on this data; `None` if it has no targets.
    ///
    /// Workers run the model, and what comes out is judged in the order of the source: every figure has the bits that
    /// one worker gives, as [`SavedModel::evaluate`](crate::SavedModel::evaluate) does.
    pub fn evaluate(&self, source: Arc<dyn Source>, batch: usize) -> Result<Option<Scores>, Error> {
        self.evaluate_at(source, batch, Thresholds::Exact)
    }

    /// As [`Self::evaluate`], with curves that distinguish these thresholds: the exact ones keep the scores of all examples.
    pub fn evaluate_at(
        &self,
        source: Arc<dyn Source>,
        batch: usize,
        thresholds: Thresholds,
    ) -> Result<Option<Scores>, Error> {
        let network = &self.current().network;
        fits_features(network, &*source, "given")?;
        let evaluator = Evaluator::new(&source.shape().targets, network, thresholds);
        let Some(evaluator) = evaluator else { return Ok(None) };
        let evaluator = evaluator.with_schema(source.schema());
        self.evaluate_by(evaluator, source, batch).map(Some)
    }

    /// As [`Self::evaluate`], by an evaluator that was made for the targets of the source.
    pub fn evaluate_by(
        &self,
        mut evaluator: Evaluator,
        source: Arc<dyn Source>,
        batch: usize,
    ) -> Result<Scores, Error> {
        self.predict_with_loss(source, batch, |batch, outputs, loss| evaluator.add_outputs(batch, outputs, loss))?;
        Ok(evaluator.scores())
    }

    /// Hands every batch with its outputs and its loss to `each`, in the order of the source: to be judged by an
    /// [`Evaluator`] with what was said of other parts of the data.
    pub fn predict_with_loss(
        &self,
        source: Arc<dyn Source>,
        batch: usize,
        mut each: impl FnMut(&Batch, &[f32], Loss),
    ) -> Result<(), Error> {
        let model = self.current();
        fits_features(&model.network, &*source, "given")?;
        self.pass_over(&model, source, batch, true, |batch, outputs, told| {
            each(batch, outputs, told.loss.unwrap_or_default());
            Ok(())
        })
    }

    /// Fails if the examples of a source are no inputs of the model.
    pub fn expect_inputs(&self, source: &dyn Source) -> Result<(), Error> {
        fits_features(&self.current().network, source, "given")
    }

    /// Hands every batch with its outputs, row after row, to `each`, in the order of the source.
    ///
    /// A few batches for each worker are in memory at a time, however large the source is. In place there is one thread,
    /// the caller's.
    pub fn predict<E: From<Error>>(
        &self,
        source: Arc<dyn Source>,
        batch: usize,
        mut each: impl FnMut(&Batch, &[f32]) -> Result<(), E>,
    ) -> Result<(), E> {
        let model = self.current();
        fits_features(&model.network, &*source, "given")?;
        self.pass_over(&model, source, batch, false, |batch, outputs, _| each(batch, outputs))
    }

    /// Runs one version over a source.
    fn pass_over<E: From<Error>>(
        &self,
        model: &Arc<Served>,
        source: Arc<dyn Source>,
        batch: usize,
        judged: bool,
        mut each: impl FnMut(&Batch, &[f32], Told) -> Result<(), E>,
    ) -> Result<(), E> {
        // One for each worker, and one so that none waits for the first of them to be taken.
        let ahead = self.workers() + 1;
        // Without the normaliser: it belongs to the version, and workers apply it.
        let options = LoaderOptions { batch, shuffle: false, prefetch: ahead, ..LoaderOptions::default() };
        let loader = Loader::new(source, options).map_err(Error::from)?;
        let mut batches = loader.epoch(0, 0);
        let mut waiting = VecDeque::with_capacity(ahead);
        let mut outputs = Vec::new();
        let mut end = None;
        loop {
            while end.is_none() && waiting.len() < ahead {
                match batches.next() {
                    Some(Ok(mut batch)) => {
                        if !judged {
                            // Whatever the targets are, they have no say here.
                            batch.targets = Targets::None;
                        }
                        let fill = |job: &mut super::Job| swap(&mut job.batch, &mut batch);
                        let pending = self.begin(model.clone(), false, IfBusy::Wait, fill);
                        waiting.push_back(pending.map_err(Error::from)?);
                    }
                    Some(Err(error)) => end = Some(Err(E::from(error.into()))),
                    None => end = Some(Ok(())),
                }
            }
            // What came before the end is still to be told, also where the end is an error.
            let Some(first) = waiting.pop_front() else { return end.unwrap_or(Ok(())) };
            let mut batch = Batch::empty();
            let told = first.finish(|job| {
                swap(&mut job.batch, &mut batch);
                swap(&mut job.outputs, &mut outputs);
            });
            each(&batch, &outputs, told.map_err(Error::from)?)?;
            batches.recycle(batch);
        }
    }
}
