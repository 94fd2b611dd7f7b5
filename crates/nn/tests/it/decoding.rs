//! Networks that give back what went in, through the weights that took it apart.

use paceline_model::{Model, PartwiseModel, Progress, Targets};
use paceline_nn::config::SemanticHashing;
use paceline_nn::{Engine, Network, NetworkConfig, Reference};

use crate::networks::{batch_for, network};

/// Two machines, a code, and the way back; noise where the code is asked for it.
fn coder(noise: &str) -> Network {
    network(&format!(
        r#"{{"seed": 5, "input": {{"flat_image": [2, 3, 1]}}, "updater": {{"sgd": {{"learning_rate": 0.1}}}}, "layers": [
            {{"rbm": {{"units": 5}}}}, {{"autoencoder": {{"units": 3, "activation": "tanh", "name": "code"}}}}{noise},
            {{"decoder": {{"of": "code"}}}}, {{"decoder": {{"of": "0", "name": "seen"}}}},
            {{"reconstruction": {{"loss": "binary_cross_entropy", "after": ["seen", "input"]}}}}]}}"#
    ))
}

/// Features that are chances, and nothing to learn from besides.
fn batch(network: &Network) -> paceline_model::Batch {
    let mut batch = batch_for(network, 4, 2);
    batch.features.iter_mut().for_each(|x| *x = 1.0 / (1.0 + x.exp()));
    batch.targets = Targets::None;
    batch
}

#[test]
fn what_comes_back_is_judged_by_what_went_in() {
    for noise in ["", r#", {"gaussian_noise": {"deviation": 0.5}}"#] {
        let network = coder(noise);
        let batch = batch(&network);
        crate::gradient_check::check_on(network.clone(), &batch, "a coder");
        crate::conformance::compare_on(&network, &batch, "a coder");
    }
}

#[test]
fn a_decoder_goes_back_through_the_weights_of_another_layer() {
    let network = coder("");
    let batch = batch(&network);
    let mut reference = Reference::new(network.clone());
    let parameters = reference.parameters.clone();
    let of = |name: &str| &parameters[network.parameters().iter().find(|p| p.name == name).expect(name).range.clone()];
    let sigmoid = |z: f64| 1.0 / (1.0 + (-z).exp());
    let up = |x: &[f64], layer: &str, units: usize, f: &dyn Fn(f64) -> f64| -> Vec<f64> {
        let (weights, bias) = (of(&format!("{layer}.weight")), of(&format!("{layer}.bias")));
        let unit = |unit| f(bias[unit] + (0..x.len()).map(|at| x[at] * weights[at * units + unit]).sum::<f64>());
        (0..units).map(unit).collect()
    };
    let down = |h: &[f64], layer: &str, visible: usize| -> Vec<f64> {
        let (weights, bias) = (of(&format!("{layer}.weight")), of(&format!("{layer}.visible_bias")));
        let unit =
            |at| sigmoid(bias[at] + (0..h.len()).map(|unit| h[unit] * weights[at * h.len() + unit]).sum::<f64>());
        (0..visible).map(unit).collect()
    };
    let (outputs, _) = reference.predict(&batch).expect("a batch that fits");
    for (row, found) in outputs.chunks_exact(6).enumerate() {
        let seen: Vec<f64> = batch.row(row).iter().map(|x| f64::from(*x)).collect();
        let code = up(&up(&seen, "0", 5, &sigmoid), "code", 3, &f64::tanh);
        let expected = down(&down(&code, "code", 5), "0", 6);
        let close = |(a, b): (&f64, &f64)| (a - b).abs() < 1e-12;
        assert!(found.iter().zip(&expected).all(close), "row {row}: {found:?}, expected {expected:?}");
    }
}

#[test]
fn a_decoder_teaches_biases_that_only_pretraining_taught() {
    let network = coder("");
    let mut engine = Engine::new(network.clone()).poisoned();
    let mut state = engine.initial_state();
    let before = state.parameters.to_vec();
    engine.train(&batch(&network), &mut state, Progress::default()).expect("a step");
    for parameter in network.parameters() {
        let moved = parameter.range.clone().any(|at| state.parameters[at] != before[at]);
        assert!(moved, "{} stays as it was", parameter.name);
    }
}

#[test]
fn semantic_hashing_stands_for_machines_and_the_way_back() {
    let json =
        r#"{"input": {"feed_forward": 6}, "layers": {"semantic_hashing": {"hidden": [5, 4], "code": 3, "noise": 2}}}"#;
    let config = NetworkConfig::from_json(json).expect("a network");
    assert_eq!(config.layers, SemanticHashing::new([5, 4], 3).noise(2.0).layers());
    let kinds: Vec<&str> = config.layers.iter().map(|layer| layer.kind()).collect();
    let back = ["decoder", "decoder", "decoder", "reconstruction"];
    assert_eq!(kinds, [&["rbm", "rbm", "rbm", "gaussian_noise", "activation"][..], &back].concat());
    let network = Network::new(config.clone()).expect("a network");
    assert_eq!(network.output().len(), 6);
    assert!(!network.wants_targets());
    for layer in 0..3 {
        let pretrained = NetworkConfig { pretrains: Some(layer), ..config.clone() };
        let pretrained = Network::new(pretrained).expect("a phase");
        assert_eq!(pretrained.outputs().count(), 1, "only the machine itself is judged");
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    let refused = |layers: &str, part: &str| {
        let config = NetworkConfig::from_json(&format!(r#"{{"input": {{"feed_forward": 4}}, "layers": [{layers}]}}"#));
        let error = Network::new(config.expect("a network")).expect_err(layers).to_string();
        assert!(error.contains(part), "{layers}: {error}");
    };
    let end = r#"{"reconstruction": {"after": ["back", "input"]}}"#;
    let back = |of: &str| {
        format!(
            r#"{{"rbm": {{"units": 3}}}}, {{"dense": {{"units": 2}}}}, {{"decoder": {{"of": "{of}", "name": "back"}}}}, {end}"#
        )
    };
    refused(&back("1"), "must name an `rbm` or an `autoencoder`");
    refused(&back("0"), "the 3 numbers that come out of layer `0`");
    refused(r#"{"rbm": {"units": 3}}, {"decoder": {"of": "0"}}, "reconstruction""#, "`after` must name two");
    refused(
        r#"{"rbm": {"units": 3, "name": "back"}}, {"reconstruction": {"after": ["back", "input"]}}"#,
        "as many numbers",
    );
    let both = r#"{"rbm": {"units": 3, "name": "r"}}, {"decoder": {"of": "r", "name": "back"}}, {"output": {"units": 2, "after": ["r"]}}"#;
    refused(&format!("{both}, {end}"), "no ends that need targets");
}

#[test]
fn a_reconstruction_compares_values_as_they_come() {
    let network = |layers: &str| {
        let json = format!(r#"{{"input": {{"feed_forward": 2}}, "layers": [{layers}]}}"#);
        Network::new(NetworkConfig::from_json(&json).expect("readable"))
    };
    let end = |more: &str| format!(r#"{{"reconstruction": {{"after": ["seen", "input"]{more}}}}}"#);
    let sigmoid = r#"{"dense": {"units": 2, "activation": "sigmoid", "name": "seen"}}"#;
    let mut outputs = Vec::new();
    for more in ["", r#", "activation": "identity""#] {
        let network = network(&format!("{sigmoid}, {}", end(more))).expect("a network");
        let mut engine = paceline_nn::Engine::new(network.clone());
        let mut state = engine.initial_state();
        // Weights so large that a sigmoid is 0 or 1: a second one would make 0.5 and 0.73 of these.
        let weights = [50.0, 0.0, 0.0, 50.0];
        state.parameters[..4].copy_from_slice(&weights);
        let batch = paceline_model::Batch {
            indices: vec![0],
            width: 2,
            features: vec![-1.0, 1.0],
            ..paceline_model::Batch::empty()
        };
        paceline_model::Model::predict(&mut engine, &batch, &state, &mut outputs).expect("outputs");
        assert!(outputs[0] < 1e-6 && outputs[1] > 1.0 - 1e-6, "{outputs:?}");
    }
    // A loss of probabilities behind values that are none is refused, whatever stands between them.
    let linear = r#"{"dense": {"units": 2, "activation": "identity", "name": "seen"}}"#;
    let error = network(&format!("{linear}, {}", end(""))).expect_err("no probabilities").to_string();
    assert!(error.contains("reconstruction") && error.contains("between 0 and 1"), "{error}");
    assert!(network(&format!("{linear}, {}", end(r#", "loss": "mse""#))).is_ok());
    assert!(network(&format!("{linear}, {}", end(r#", "activation": "sigmoid""#))).is_ok());
}
