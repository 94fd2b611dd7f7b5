//! A network over sequences, one stretch of steps after the other.

use paceline_model::{Batch, Error, Loss, State, Targets};

use crate::config::NetworkConfig;
use crate::cpu::{Cpu, Instructions};
use crate::executor::Executor;
use crate::{InputType, Network};

/// Predicts for sequences that go on: what its recurrent layers have come to is kept from one call to the next.
pub struct Stepwise {
    executor: Executor<Cpu>,
    parameters: Vec<f32>,
    running: Vec<f32>,
    steps: u64,
}

impl Stepwise {
    /// Takes one step at a time with a network and what it has learned.
    ///
    /// # Errors
    ///
    /// If the network has something that needs all steps at once: a layer that reads from the end, attention, a shape that depends on
    /// how many steps there are.
    pub fn new(network: &Network, state: &State) -> Result<Self, crate::Error> {
        let whole = |message: String| crate::Error::Config { path: "layers".into(), message };
        if let Some(layer) = network.needs_whole_sequences() {
            let name = &network.layers()[layer].name;
            return Err(whole(format!(
                "layer `{name}` needs all steps of a sequence at once, and cannot take one after the other"
            )));
        }
        let stepwise = Network::new(with_steps(network.config().clone(), 1))?;
        if stepwise.parameter_count() != network.parameter_count() {
            return Err(whole(
                "its weights depend on how many steps there are, so it cannot take one after the other".into(),
            ));
        }
        Ok(Self {
            executor: Executor::new(stepwise, Cpu::new(Instructions::detect())),
            parameters: state.parameters.to_vec(),
            running: state.running.to_vec(),
            steps: 0,
        })
    }

    /// The outputs for one step of each of so many sequences, whose numbers lie one after the other. Sequences begin at the first call,
    /// and when there are more or fewer of them than before.
    pub fn step(&mut self, features: &[f32], sequences: usize, outputs: &mut Vec<f32>) -> Result<Option<Loss>, Error> {
        let batch = Batch {
            epoch: 0,
            indices: (0..sequences as u64).collect(),
            width: features.len() / sequences.max(1),
            features: features.to_vec(),
            targets: Targets::None,
            weights: None,
        };
        let (rows, loss) = self.executor.predict_next(&batch, &self.parameters, &self.running)?;
        outputs.clear();
        outputs.extend_from_slice(rows);
        self.steps += 1;
        Ok(loss)
    }

    /// Steps taken since the sequences began.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Lets sequences begin anew.
    pub fn forget(&mut self) {
        self.executor.forget();
        self.steps = 0;
    }
}

/// The same network for sequences of so many steps.
fn with_steps(mut config: NetworkConfig, steps: usize) -> NetworkConfig {
    for input in &mut config.inputs {
        if let InputType::Sequence([_, features]) = input.kind {
            input.kind = InputType::Sequence([steps, features]);
        }
    }
    config
}
