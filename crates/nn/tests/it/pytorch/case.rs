//! A small network with what PyTorch finds for it.

use std::collections::BTreeMap;

use paceline_model::{Batch, Loss, Model, State, Targets};
use paceline_nn::{Engine, Instructions, Network, NetworkConfig, Parameter, Reference};
use serde::Deserialize;
use serde_json::Value;

use super::{close, read, root_mean_square};

/// What `f64` in plain loops may differ by: settings such as a decay of 0.9 are `f32` on our side.
const REFERENCE_TOLERANCE: f64 = 1e-6;

/// What `f32` may differ by.
const ENGINE_TOLERANCE: f64 = 3e-5;

type Named<T> = BTreeMap<String, Vec<T>>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    /// Whether the reference can follow: it takes logarithms of rounded outputs, which the engine does not.
    reference: bool,
    network: Value,
    features: Vec<f32>,
    targets: Target,
    weights: Option<Vec<f32>>,
    parameters: Named<f32>,
    running: Named<f32>,
    predicted: Predicted,
    /// Not there if the network is random in training.
    trained: Option<Trained>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Target {
    Classes(Vec<u32>),
    Values(Vec<f32>),
}

/// Outside of training, with the running statistics as given.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Predicted {
    outputs: Vec<f64>,
    loss: f64,
}

/// One step of training, sums over the examples.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Trained {
    loss: f64,
    gradient: Named<f64>,
    running: Named<f64>,
}

/// What one of our executors finds, in the order of the flat layout.
struct Found {
    outputs: Vec<f64>,
    predicted_loss: Loss,
    loss: Loss,
    gradient: Vec<f64>,
    running: Vec<f64>,
}

/// Gives every case of a fixture to the engine, to the engine without vector instructions and to the reference.
///
/// Returns the networks, for tests that ask whether anything was left out.
pub(super) fn agree_with_pytorch(file: &str) -> Vec<Network> {
    let cases: Vec<Case> = read(file);
    assert!(!cases.is_empty(), "{file} has cases");
    cases.iter().map(|case| case.check(file)).collect()
}

impl Case {
    fn check(&self, file: &str) -> Network {
        let what = format!("{file}, {}", self.name);
        let config = NetworkConfig::from_value(self.network.clone()).unwrap_or_else(|e| panic!("{what}: {e}"));
        let network = Network::new(config).unwrap_or_else(|e| panic!("{what}: {e}"));
        let batch = self.batch(&network);
        let state = State {
            parameters: paceline_nn::Flat::from_slice(&laid_out(network.parameters(), &self.parameters, &what)),
            running: paceline_nn::Flat::from_slice(&laid_out(network.running(), &self.running, &what)),
            ..network.initial_state()
        };
        for instructions in Instructions::available() {
            let engine = Engine::with_instructions(network.clone(), instructions);
            let found = by_engine(engine.poisoned(), &batch, state.clone());
            self.compare(&network, &found, ENGINE_TOLERANCE, &format!("{what}: {}", instructions.name()));
        }
        if self.reference {
            let found = by_reference(Reference::new(network.clone()), &batch, &state);
            self.compare(&network, &found, REFERENCE_TOLERANCE, &format!("{what}: reference"));
        }
        network
    }

    fn batch(&self, network: &Network) -> Batch {
        let width = network.input().len();
        let examples = self.features.len() / width;
        Batch {
            epoch: 0,
            indices: (0..examples as u64).collect(),
            width,
            features: self.features.clone(),
            targets: match &self.targets {
                Target::Classes(classes) => Targets::Classes(classes.clone()),
                Target::Values(values) => Targets::Values { width: values.len() / examples, values: values.clone() },
            },
            weights: self.weights.clone(),
        }
    }

    fn compare(&self, network: &Network, found: &Found, tolerance: f64, what: &str) {
        let all = |found: &[f64], expected: &[f64], floor: f64, name: &str| {
            let scale = root_mean_square(expected).max(floor);
            close(found, expected, scale, tolerance, &format!("{what}: {name}"));
        };
        all(&found.outputs, &self.predicted.outputs, 0.0, "outputs");
        all(&[found.predicted_loss.sum], &[self.predicted.loss], 0.0, "loss outside of training");
        let Some(trained) = &self.trained else { return };
        all(&[found.loss.sum], &[trained.loss], 0.0, "loss");
        let gradient = laid_out(network.parameters(), &trained.gradient, what);
        // A bias before batch norm has no gradient but the rounding of what cancels out, so the whole counts too.
        let floor = 0.1 * root_mean_square(&gradient);
        assert!(floor > 1e-6, "{what}: no gradient at all");
        for Parameter { name, range, .. } in network.parameters() {
            all(&found.gradient[range.clone()], &gradient[range.clone()], floor, &format!("gradient of {name}"));
        }
        let running = laid_out(network.running(), &trained.running, what);
        for Parameter { name, range, .. } in network.running() {
            all(&found.running[range.clone()], &running[range.clone()], 0.0, name);
        }
    }
}

/// The named arrays as one flat one: all that there are and no more.
fn laid_out<T: Copy>(parameters: &[Parameter], named: &Named<T>, what: &str) -> Vec<T> {
    let ours: Vec<&str> = parameters.iter().map(|p| p.name.as_str()).collect();
    assert_eq!(ours.len(), named.len(), "{what}: we have {ours:?}, PyTorch has {:?}", named.keys());
    let mut flat = Vec::new();
    for Parameter { name, range, .. } in parameters {
        let values = named.get(name).unwrap_or_else(|| panic!("{what}: PyTorch has no `{name}`"));
        assert_eq!(values.len(), range.len(), "{what}: numbers in `{name}`");
        flat.extend_from_slice(values);
    }
    flat
}

fn by_engine(mut engine: Engine, batch: &Batch, mut state: State) -> Found {
    let mut outputs = Vec::new();
    let predicted_loss = engine.predict(batch, &state, &mut outputs).expect("a batch that fits").expect("targets");
    let loss = engine.gradient(batch, &mut state).expect("a batch that fits");
    Found {
        outputs: wide(&outputs),
        predicted_loss,
        loss,
        gradient: wide(&state.gradient),
        running: wide(&state.running),
    }
}

fn by_reference(mut reference: Reference, batch: &Batch, state: &State) -> Found {
    reference.parameters = wide(&state.parameters);
    reference.running = wide(&state.running);
    let (outputs, predicted_loss) = reference.predict(batch).expect("a batch that fits");
    let predicted_loss = predicted_loss.expect("targets");
    let loss = reference.gradient(batch).expect("a batch that fits");
    Found { outputs, predicted_loss, loss, gradient: reference.gradient, running: reference.running }
}

fn wide(values: &[f32]) -> Vec<f64> {
    values.iter().map(|v| f64::from(*v)).collect()
}
