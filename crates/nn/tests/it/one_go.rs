//! A step in one go, against gradient, update and application in turn: the same bits. So with a gradient or an update in parts.

use std::ops::Range;

use paceline_model::{Batch, Handed, Model, PartwiseModel, Progress, State, hand_out_in_turn, train_in_turn};
use paceline_nn::{Engine, Instructions};

use crate::networks::{batch_for, network};

/// Takes three steps both ways, the last with a shorter batch.
fn compare(json: &str) {
    let network = network(json);
    for instructions in Instructions::available() {
        let engine = || Engine::with_instructions(network.clone(), instructions);
        let (mut one, mut other) = (engine().poisoned(), engine());
        let (mut at_once, mut in_turn) = (one.initial_state(), other.initial_state());
        for (iteration, examples) in [(0, 150), (1, 150), (2, 7)] {
            let batch = batch_for(&network, examples, 17 + iteration);
            let progress = Progress { iteration, epoch: 0 };
            for handed in [Handed::Gradient, Handed::Update(progress)] {
                compare_parts(&batch, handed, &mut one, &mut other, &at_once);
            }
            let found = one.train(&batch, &mut at_once, progress).expect("a batch that fits");
            let expected = train_in_turn(&mut other, &batch, &mut in_turn, progress).expect("a batch that fits");
            assert_eq!(found, expected, "{instructions:?}: loss");
            assert!(at_once.parameters == in_turn.parameters, "{instructions:?}, step {iteration}: parameters");
            assert!(at_once.slots == in_turn.slots, "{instructions:?}, step {iteration}: slots of the updater");
            assert!(at_once.running == in_turn.running, "{instructions:?}, step {iteration}: running statistics");
        }
        assert!(at_once.parameters != one.initial_state().parameters, "something was learned");
    }
}

/// The gradient or the update alone, in parts as they come and part by part in turn.
fn compare_parts(batch: &Batch, handed: Handed, one: &mut Engine, other: &mut Engine, state: &State) {
    let (mut at_once, mut in_turn) = (state.clone(), state.clone());
    let length = state.parameters.len();
    let (mut found, mut expected) = (vec![f32::NAN; length], vec![f32::NAN; length]);
    let loss = one.hand_out(batch, &mut at_once, handed, &mut |part: Range<usize>, values: &mut [f32]| {
        found[part].copy_from_slice(values);
    });
    let expected_loss =
        hand_out_in_turn(other, batch, &mut in_turn, handed, &mut |part: Range<usize>, update: &mut [f32]| {
            expected[part].copy_from_slice(update);
        });
    assert_eq!(loss.expect("a batch that fits"), expected_loss.expect("a batch that fits"));
    assert!(found == expected, "every part was handed out, with the same bits");
    assert!(at_once.slots == in_turn.slots && at_once.running == in_turn.running);
    assert!(at_once.parameters == state.parameters, "nothing was applied");
}

#[test]
fn dense_layers_of_odd_sizes() {
    // More rows than are taken at a time, more columns than are packed at a time, a layer that starts with its bias.
    compare(
        r#"{"seed": 3, "input": {"feed_forward": 139}, "l2": 0.01, "weight_decay": 0.001,
            "updater": {"adam": {"learning_rate": 0.01}}, "layers": [
            {"dense": {"units": 1033, "activation": "relu"}}, {"dense": {"units": 5, "activation": "tanh"}},
            {"dense": {"units": 3}}, {"output": {"units": 4, "activation": "softmax"}}]}"#,
    );
}

#[test]
fn layers_of_every_kind() {
    compare(
        r#"{"seed": 3, "input": {"image": [9, 9, 3]}, "updater": {"nesterovs": {"learning_rate": 0.1, "momentum": 0.9}},
            "gradient_normalisation": {"clip_element_wise": {"threshold": 0.05}}, "layers": [
            {"conv2d": {"filters": 7, "kernel": [3, 3]}}, {"batch_norm": {"activation": "relu"}},
            {"subsampling": {"kernel": [2, 2]}}, {"dropout": {"rate": 0.3}},
            {"dense": {"units": 70, "activation": "sigmoid"}}, {"output": {"units": 4, "activation": "softmax"}}]}"#,
    );
}

#[test]
fn graphs_with_ways_around() {
    compare(
        r#"{"seed": 3, "input": {"image": [9, 9, 3]}, "updater": {"nesterovs": {"learning_rate": 0.1, "momentum": 0.9}}, "layers": [
            {"conv2d": {"filters": 7, "kernel": [3, 3], "padding": "same", "name": "a"}}, {"batch_norm": {"activation": "relu"}},
            {"conv2d": {"filters": 7, "kernel": [3, 3], "padding": "same", "name": "b"}},
            {"element_wise": {"after": ["a", "b"]}}, {"dense": {"units": 70, "activation": "sigmoid", "name": "c"}},
            {"dense": {"units": 40, "activation": "tanh", "after": "a", "name": "d"}},
            {"output": {"units": 4, "activation": "softmax", "after": ["c", "d"]}}]}"#,
    );
}

#[test]
fn layers_that_are_frozen() {
    compare(
        r#"{"seed": 3, "input": {"feed_forward": 40}, "l2": 0.01, "updater": {"adam": {"learning_rate": 0.01}}, "layers": [
            {"dense": {"units": 50, "activation": "relu", "frozen": true}}, {"dense": {"units": 60, "activation": "tanh"}},
            {"dense": {"units": 30, "frozen": true}}, {"output": {"units": 4, "activation": "softmax"}}]}"#,
    );
}

#[test]
fn norms_and_constraints_are_seen_whole() {
    compare(
        r#"{"seed": 3, "input": {"feed_forward": 80}, "updater": {"sgd": {"learning_rate": 0.1}},
            "gradient_normalisation": {"clip_l2_per_layer": {"threshold": 0.01}}, "layers": [
            {"dense": {"units": 90, "activation": "relu", "constraints": [{"max_norm": {"norm": 0.5}}]}},
            {"output": {"units": 4, "activation": "softmax"}}]}"#,
    );
}

#[test]
fn a_loss_that_is_no_number_changes_no_parameter() {
    let network = network(
        r#"{"seed": 3, "input": {"feed_forward": 8}, "updater": {"sgd": {"learning_rate": 0.1}}, "layers": [
            {"dense": {"units": 9}}, {"output": {"units": 4, "activation": "softmax"}}]}"#,
    );
    let mut engine = Engine::new(network.clone());
    let mut state = engine.initial_state();
    let mut batch = batch_for(&network, 5, 1);
    batch.features[3] = f32::NAN;
    let loss = engine.train(&batch, &mut state, Progress::default()).expect("a batch that fits");
    assert!(loss.sum.is_nan());
    assert!(state.parameters == engine.initial_state().parameters);
}
