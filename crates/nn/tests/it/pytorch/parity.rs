//! A hundred random configurations: nowhere further from PyTorch in `f64` than ten times what PyTorch's own `f32` is.

use paceline_model::{Batch, Model, Progress, Targets};
use paceline_nn::{Engine, Flat, Network, NetworkConfig};
use serde::Deserialize;
use serde_json::Value;

use super::read;
use super::updaters::network;

/// Times PyTorch's own error; the worst of all is 3.3 times as far off.
const ALLOWED: f64 = 10.0;
/// A single number is rounded by that much.
const ROUNDING: f64 = 1e-7;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Parity {
    start: Vec<f32>,
    gradients: Vec<Vec<f32>>,
    updates: Vec<Updates>,
    endings: Vec<Ending>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Updates {
    settings: Value,
    after: Vec<f64>,
    moved: f64,
    error: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Ending {
    network: Value,
    features: Vec<f32>,
    targets: Vec<f32>,
    parameters: Vec<f32>,
    loss: f64,
    gradient: Vec<f64>,
    scale: f64,
    loss_error: f64,
    error: f64,
}

/// The largest difference, as a share of `scale`.
fn error(found: &[f32], expected: &[f64], scale: f64) -> f64 {
    assert_eq!(found.len(), expected.len());
    found.iter().zip(expected).map(|(f, e)| (f64::from(*f) - e).abs()).fold(0.0, f64::max) / scale
}

fn check(found: f64, pytorch: f64, what: &Value) -> f64 {
    let share = found / pytorch.max(ROUNDING);
    assert!(share <= ALLOWED, "{what}: off by {found:.1e}, PyTorch by {pytorch:.1e}");
    share
}

#[test]
fn a_hundred_random_configurations_are_as_near_as_pytorch_itself() {
    let Parity { start, gradients, updates, endings } = read("parity.json");
    assert_eq!(updates.len() + endings.len(), 100);
    let mut worst: f64 = 0.0;
    for Updates { settings, after, moved, error: pytorch } in &updates {
        let mut engine = Engine::new(network(settings));
        let mut state = engine.initial_state();
        state.parameters.copy_from_slice(&start);
        for (step, gradient) in gradients.iter().enumerate() {
            state.gradient.copy_from_slice(gradient);
            let all = 0..start.len();
            engine.update(&mut state, all.clone(), 1.0, Progress { iteration: step as u64, epoch: 0 });
            engine.apply(&mut state, all);
        }
        worst = worst.max(check(error(&state.parameters, after, *moved), *pytorch, settings));
    }
    for ending in &endings {
        let config = NetworkConfig::from_value(ending.network.clone()).expect("a description");
        let network = Network::new(config).expect("a network");
        let (inputs, outputs) = (network.input().len(), network.output().len());
        let batch = Batch {
            epoch: 0,
            indices: (0..(ending.features.len() / inputs) as u64).collect(),
            width: inputs,
            features: ending.features.clone(),
            targets: Targets::Values { width: outputs, values: ending.targets.clone() },
            weights: None,
        };
        let mut state = network.initial_state();
        state.parameters = Flat::from_slice(&ending.parameters);
        let loss = Engine::new(network).gradient(&batch, &mut state).expect("a batch that fits");
        let off = (loss.sum - ending.loss).abs() / ending.loss.abs();
        worst = worst.max(check(off, ending.loss_error, &ending.network));
        worst = worst.max(check(error(&state.gradient, &ending.gradient, ending.scale), ending.error, &ending.network));
    }
    assert!(worst > 0.0, "something was compared");
}
