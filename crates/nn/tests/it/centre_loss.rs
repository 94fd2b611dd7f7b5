//! Examples that are pulled towards the centre of their class.

use paceline_model::{Batch, Model, Progress, Targets};
use paceline_nn::{Engine, Network, NetworkConfig, Reference};

use crate::networks::{batch_for, network};

fn with(units: usize, activation: &str, centre_loss: &str) -> Network {
    network(&format!(
        r#"{{"seed": 7, "input": {{"feed_forward": 4}}, "updater": {{"sgd": {{"learning_rate": 0.1}}}}, "layers": [
            {{"dense": {{"units": 5, "activation": "tanh"}}}},
            {{"output": {{"units": {units}, "activation": "{activation}"{centre_loss}}}}}]}}"#
    ))
}

/// What goes into the output of every example.
fn features(network: &Network, batch: &Batch) -> Vec<Vec<f64>> {
    let reference = Reference::new(network.clone());
    let of = |name: &str| &network.parameters().iter().find(|p| p.name == name).expect("a parameter").range;
    let (weights, bias) = (&reference.parameters[of("0.weight").clone()], &reference.parameters[of("0.bias").clone()]);
    let unit = |row: &[f32], unit: usize| {
        let sum: f64 = row.iter().enumerate().map(|(at, x)| f64::from(*x) * weights[at * 5 + unit]).sum();
        (sum + bias[unit]).tanh()
    };
    (0..batch.examples()).map(|row| (0..5).map(|at| unit(batch.row(row), at)).collect()).collect()
}

#[test]
fn what_goes_in_has_the_slope_of_its_distance() {
    // With as much weight as there are classes, centres go the way of the slope too.
    for (units, activation, lambda) in [(3, "softmax", 3.0), (1, "sigmoid", 2.0)] {
        let network = with(units, activation, &format!(r#", "centre_loss": {{"lambda": {lambda}}}"#));
        let mut batch = batch_for(&network, 4, 11);
        crate::gradient_check::check_on(network.clone(), &batch, "centre loss");
        crate::conformance::compare_on(&network, &batch, "centre loss");
        batch.weights = Some(vec![1.0, 0.5, 2.0, 0.0]);
        crate::gradient_check::check_on(network, &batch, "centre loss with weights");
    }
}

#[test]
fn the_distance_counts_in_the_loss_and_centres_go_part_of_the_way() {
    let (plain, pulled) =
        (with(2, "softmax", ""), with(2, "softmax", r#", "center_loss": {"alpha": 0.5, "lambda": 0.01}"#));
    let mut batch = batch_for(&pulled, 6, 3);
    batch.targets = Targets::Classes(vec![0, 1, 1, 0, 1, 0]);
    batch.weights = None;
    let features = features(&pulled, &batch);
    let loss = |network: &Network| Reference::new(network.clone()).gradient(&batch).expect("a batch that fits").sum;
    let squares: f64 = features.iter().flatten().map(|x| x * x).sum();
    assert!((loss(&pulled) - loss(&plain) - f64::from(0.01f32) * 0.5 * squares).abs() < 1e-12, "centres start at 0");

    let mut engine = Engine::new(pulled.clone()).poisoned();
    let mut state = engine.initial_state();
    engine.gradient(&batch, &mut state).expect("a step");
    let all = 0..state.parameters.len();
    engine.update(&mut state, all.clone(), batch.weight(), Progress::default());
    engine.apply(&mut state, all);
    let range = pulled.parameters().iter().find(|p| p.name == "1.centres").expect("centres").range.clone();
    for (class, centre) in state.parameters[range].chunks_exact(5).enumerate() {
        let own = || (0..6).filter(|row| [0, 1, 1, 0, 1, 0][*row] == class).map(|row| &features[row]);
        for (at, found) in centre.iter().enumerate() {
            let mean: f64 = own().map(|row| row[at]).sum::<f64>() / 3.0;
            assert!((f64::from(*found) - 0.5 * mean).abs() < 1e-6, "class {class}: {found} is not half of {mean}");
        }
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    let refused = |layers: &str, part: &str| {
        let config = NetworkConfig::from_json(&format!(r#"{{"input": {{"feed_forward": 4}}, "layers": [{layers}]}}"#));
        let error = Network::new(config.expect("a network")).expect_err(layers).to_string();
        assert!(error.contains(part), "{layers}: {error}");
    };
    refused(
        r#"{"output": {"units": 3, "centre_loss": {"alpha": 1.5}}}"#,
        "`centre_loss.alpha` must be above 0 and at most 1",
    );
    refused(r#"{"output": {"units": 3, "centre_loss": {"lambda": 0}}}"#, "`centre_loss.lambda` must be above 0");
    refused(r#"{"output": {"units": 3, "loss": "mse", "centre_loss": {}}}"#, "a loss that tells classes apart");
    refused(
        r#"{"output": {"name": "a", "units": 3, "centre_loss": {}}}, {"output": {"units": 3, "after": ["input"]}}"#,
        "networks with one end",
    );
}
