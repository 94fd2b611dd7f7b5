//! Weights that are disturbed for the length of a step.

use paceline_model::{Model, PartwiseModel, Progress};
use paceline_nn::random::Counted;
use paceline_nn::{Engine, Network, Reference};

use crate::networks::{batch_for, network};

fn with(noise: &str) -> Network {
    network(&format!(
        r#"{{"seed": 9, "input": {{"image": [6, 5, 2]}}, "updater": {{"sgd": {{"learning_rate": 0.1}}}}, "layers": [
            {{"conv2d": {{"filters": 4, "kernel": [3, 2], "activation": "tanh"}}}},
            {{"dense": {{"units": 7, "activation": "tanh"{noise}}}}}, {{"output": {{"units": 3, "activation": "softmax"}}}}]}}"#
    ))
}

/// What multiplies a weight and what is added to it, by its number.
fn disturbed(kind: &str, stream: Counted, at: u32) -> [f64; 2] {
    match kind {
        "drop_connect" => [if stream.uniform(at) < 0.4 { 0.0 } else { 1.0 / (1.0 - f64::from(0.4f32)) }, 0.0],
        "added" => [1.0, f64::from(0.3f32) * stream.normal(at)],
        _ => [1.0 + f64::from(0.3f32) * stream.normal(at), 0.0],
    }
}

#[test]
fn a_step_sees_disturbed_weights_and_learns_for_the_true_ones() {
    let plain = with("");
    let own = plain.parameters().iter().find(|p| p.name == "1.weight").expect("weights").range.clone();
    let batch = batch_for(&plain, 6, 3);
    for (kind, settings) in
        [("drop_connect", "rate\": 0.4"), ("added", "deviation\": 0.3"), ("multiplied", "deviation\": 0.3")]
    {
        let noisy = with(&format!(r#", "weight_noise": {{"{kind}": {{"{settings}}}}}"#));
        let (mut reference, mut expected) = (Reference::new(noisy.clone()), Reference::new(plain.clone()));
        let stream = Counted::new(9, (1 << 33) + own.start as u64, 0, 0);
        for (at, weight) in expected.parameters[own.clone()].iter_mut().enumerate() {
            let [factor, added] = disturbed(kind, stream, at as u32);
            *weight = *weight * factor + added;
        }
        let loss = reference.gradient(&batch).expect("a batch that fits").sum;
        assert_eq!(loss, expected.gradient(&batch).expect("a batch that fits").sum, "{kind}");
        for (at, slope) in expected.gradient[own.clone()].iter_mut().enumerate() {
            *slope *= disturbed(kind, stream, at as u32)[0];
        }
        assert_eq!(reference.gradient, expected.gradient, "{kind}");
        crate::conformance::compare_on(&noisy, &batch, kind);
        // Who predicts sees the weights as they are, and so does the next step of whoever has the same.
        let mut undisturbed = Reference::new(plain.clone());
        let same = |a: Vec<f64>, b: Vec<f64>| assert_eq!(a, b, "{kind}");
        same(reference.predict(&batch).expect("outputs").0, undisturbed.predict(&batch).expect("outputs").0);
        let other = batch_for(&plain, 3, 8);
        reference.gradient(&other).expect("a batch that fits");
        assert_eq!(reference.gradient(&batch).expect("a batch that fits").sum, loss, "{kind}");
    }
}

#[test]
fn every_step_draws_anew_and_goes_the_same_way_in_one_go() {
    let network = with(r#", "weight_noise": {"drop_connect": {"rate": 0.5}}"#);
    let batch = batch_for(&network, 6, 3);
    let run = || {
        let mut engine = Engine::new(network.clone()).poisoned();
        let mut state = engine.initial_state();
        let step = |iteration| {
            engine.begin_step(Progress { iteration, epoch: 0 });
            engine.train(&batch, &mut state, Progress { iteration, epoch: 0 }).expect("a step");
            let own = network.parameters().iter().find(|p| p.name == "1.weight").expect("weights");
            let is_still = |slope: &&f32| **slope == 0.0;
            (state.gradient[own.range.clone()].iter().filter(is_still).count(), state.parameters.to_vec())
        };
        (0..4).map(step).collect::<Vec<_>>()
    };
    let steps = run();
    assert_eq!(steps, run());
    assert_ne!(steps[0].0, steps[1].0, "others are dropped");
    let bad = paceline_nn::NetworkConfig::from_json(
        r#"{"seed": 1, "input": {"feed_forward": 3}, "layers": [
            {"output": {"units": 2, "weight_noise": {"drop_connect": {"rate": 1}}}}]}"#,
    );
    let error = bad.and_then(Network::new).expect_err("a rate of 1").to_string();
    assert!(error.contains("`rate` of `drop_connect` must be 0 or more and less than 1, found 1"), "{error}");
}
