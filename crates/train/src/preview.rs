//! What a run would be, told without beginning it.

use std::fmt;
use std::time::Instant;

use paceline_data::{Loader, LoaderOptions, Share};
use paceline_model::{Batch, Model};
use paceline_nn::Engine;
use serde::Serialize;

use crate::run::health::not_finite;
use crate::{ClassWeights, Error, Trainer};

/// What a run would be.
#[derive(Clone, Debug, Serialize)]
pub struct Preview {
    /// How replicas stay together.
    pub mode: &'static str,
    /// Replicas.
    pub workers: usize,
    /// Trained numbers.
    pub parameters: usize,
    /// Examples that are learned from.
    pub examples: usize,
    /// Examples that the model is judged on.
    pub test_examples: Option<usize>,
    /// What an example is.
    pub features: Vec<usize>,
    /// Steps of an epoch.
    pub steps_per_epoch: u64,
    /// Steps of the whole run.
    pub steps: u64,
    /// Bytes of the parameters, their gradient, and what updaters remember, of one replica.
    pub state_bytes: usize,
    /// Bytes that one replica needs for its share of a step.
    pub activation_bytes: usize,
    /// Examples of the first share.
    pub first_examples: usize,
    /// Their loss before anything is learned.
    pub first_loss: f64,
    /// Seconds that their gradient took, the first time.
    pub first_seconds: f64,
}

impl Trainer {
    /// Reads the first batch and computes its gradient, as a worker would; writes nothing, and learns nothing.
    pub fn preview(&self) -> Result<Preview, Error> {
        self.can_stop_early()?;
        let options = &self.options;
        let loader = Loader::new(
            self.train.clone(),
            self.fit_normalisers()?.into_options(LoaderOptions {
                batch: options.step_examples(),
                share: Share { of: options.workers, index: 0 },
                shuffle: options.shuffle,
                by_length: options.by_length,
                seed: options.seed,
                prefetch: 0,
                class_weights: ClassWeights::each(options.class_weights.as_ref()),
                ..LoaderOptions::default()
            }),
        )?;
        let batch = loader.epoch(0, 0).next().transpose()?.unwrap_or_else(Batch::empty);
        let mut engine = Engine::new(self.network.clone()).micro_batch(options.micro_batch);
        let mut state = self.first_state();
        let began = Instant::now();
        let loss = engine.gradient(&batch, &mut state)?;
        let first_seconds = began.elapsed().as_secs_f64();
        if !loss.sum.is_finite() {
            return Err(not_finite(
                &self.network,
                &state,
                self.first_progress(),
                &batch,
                loss.mean(),
                "nothing was trained",
            ));
        }
        let steps_per_epoch = loader.steps_per_epoch();
        Ok(Preview {
            mode: options.mode.name(),
            workers: options.workers,
            parameters: self.network.parameter_count(),
            examples: self.train.examples(),
            test_examples: self.test.as_ref().map(|test| test.examples()),
            features: self.train.shape().features.clone(),
            steps_per_epoch,
            steps: steps_per_epoch.saturating_mul(options.epochs).min(options.steps.unwrap_or(u64::MAX)),
            state_bytes: 4 * (state.parameters.len() * (2 + state.slots.len()) + state.running.len()),
            activation_bytes: engine.activation_bytes(),
            first_examples: batch.examples(),
            first_loss: loss.mean(),
            first_seconds,
        })
    }
}

impl fmt::Display for Preview {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shape: Vec<String> = self.features.iter().map(usize::to_string).collect();
        let judged = self.test_examples.map(|examples| format!(", judged on {examples}")).unwrap_or_default();
        writeln!(f, "data       {} examples of {}{judged}", self.examples, shape.join(" × "))?;
        let Self { mode, workers, steps, steps_per_epoch, .. } = self;
        let of = if *workers == 1 { "1 worker".into() } else { format!("{workers} workers") };
        writeln!(f, "training   {mode}, {of}, {steps} steps, {steps_per_epoch} of them in an epoch")?;
        let (state, activations) = (mebibytes(self.state_bytes), mebibytes(self.activation_bytes));
        writeln!(
            f,
            "memory     of a worker: {state} MiB for parameters and what updaters remember, {activations} MiB for a step"
        )?;
        let Self { first_examples, first_loss, first_seconds, .. } = self;
        let milliseconds = 1000.0 * first_seconds;
        write!(
            f,
            "first step {first_examples} examples of a worker: loss {first_loss:.5}, gradient in {milliseconds:.1} ms"
        )
    }
}

fn mebibytes(bytes: usize) -> String {
    format!("{:.1}", bytes as f64 / f64::from(1 << 20))
}
