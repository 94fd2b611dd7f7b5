//! A step in one go, against gradient, update and application in turn: the same bits. So with an update in parts.

use std::ops::Range;

use paceline_model::{Batch, Flat, Loss, Model, Progress, SharedFlat, State, train_in_turn, update_in_turn};
use paceline_nn::{Engine, Instructions};

use crate::networks::{batch_for, network};

/// Takes three steps both ways, the last with a shorter batch. Says whether parameters were passed on the way.
fn compare(json: &str) -> bool {
    let mut is_passed = true;
    let network = network(json);
    for instructions in Instructions::available() {
        let engine = || Engine::with_instructions(network.clone(), instructions);
        let (mut one, mut other) = (engine().poisoned(), engine());
        let (mut at_once, mut in_turn) = (one.initial_state(), other.initial_state());
        for (iteration, examples) in [(0, 150), (1, 150), (2, 7)] {
            let batch = batch_for(&network, examples, 17 + iteration);
            let progress = Progress { iteration, epoch: 0 };
            compare_updates(&batch, progress, &mut one, &mut other, &at_once);
            let (found, first) = train(&mut one, &batch, &mut at_once, progress);
            is_passed &= first == 0;
            let expected = train_in_turn(&mut other, &batch, &mut in_turn, progress).expect("a batch that fits");
            assert_eq!(found, expected, "{instructions:?}: loss");
            assert!(at_once.parameters == in_turn.parameters, "{instructions:?}, step {iteration}: parameters");
            assert!(at_once.slots == in_turn.slots, "{instructions:?}, step {iteration}: slots of the updater");
            assert!(at_once.running == in_turn.running, "{instructions:?}, step {iteration}: running statistics");
        }
        assert!(at_once.parameters != one.initial_state().parameters, "something was learned");
    }
    is_passed
}

/// A step of which everything is taken away as soon as it was passed, and given back in the end. Says what was passed.
fn train(engine: &mut Engine, batch: &Batch, state: &mut State, progress: Progress) -> (Loss, usize) {
    fn all(state: &mut State) -> impl Iterator<Item = &mut Flat> {
        std::iter::once(&mut state.parameters).chain(&mut state.slots)
    }
    let mut first = state.parameters.len();
    let shared: Vec<SharedFlat> = all(state).map(|values| values.clone().into()).collect();
    let mut taken: Vec<Flat> = all(state).map(|values| values.clone()).collect();
    let mut take = |from: usize| {
        for (values, taken) in shared.iter().zip(&mut taken) {
            #[expect(unsafe_code, reason = "somebody else changes what the engine has passed")]
            // SAFETY: on one thread, and the engine looks at nothing that it has passed.
            let values = unsafe { values.part_mut(from..first) };
            taken[from..first].copy_from_slice(values);
            values.fill(f32::NAN);
        }
        first = from;
    };
    #[expect(unsafe_code, reason = "as above")]
    // SAFETY: as above.
    all(state).zip(&shared).for_each(|(values, shared)| *values = unsafe { shared.view() });
    let loss = engine.train(batch, state, progress, &mut take).expect("a batch that fits");
    for (values, taken) in all(state).zip(taken) {
        values[first..].copy_from_slice(&taken[first..]);
        *values = values.clone();
    }
    (loss, first)
}

/// The update alone, in parts as they come and part by part in turn.
fn compare_updates(batch: &Batch, progress: Progress, one: &mut Engine, other: &mut Engine, state: &State) {
    let (mut at_once, mut in_turn) = (state.clone(), state.clone());
    let length = state.parameters.len();
    let (mut found, mut expected) = (vec![f32::NAN; length], vec![f32::NAN; length]);
    let loss = one.update_in_parts(batch, &mut at_once, progress, &mut |part: Range<usize>, update: &mut [f32]| {
        found[part].copy_from_slice(update);
    });
    let expected_loss =
        update_in_turn(other, batch, &mut in_turn, progress, &mut |part: Range<usize>, update: &mut [f32]| {
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
    let is_passed = compare(
        r#"{"seed": 3, "input": {"feed_forward": 139}, "l2": 0.01, "weight_decay": 0.001,
            "updater": {"adam": {"learning_rate": 0.01}}, "layers": [
            {"dense": {"units": 1033, "activation": "relu"}}, {"dense": {"units": 5, "activation": "tanh"}},
            {"dense": {"units": 3}}, {"output": {"units": 4, "activation": "softmax"}}]}"#,
    );
    assert!(is_passed, "others may have what is done with");
}

#[test]
fn layers_of_every_kind() {
    let is_passed = compare(
        r#"{"seed": 3, "input": {"image": [9, 9, 3]}, "updater": {"nesterovs": {"learning_rate": 0.1, "momentum": 0.9}},
            "gradient_normalisation": {"clip_element_wise": {"threshold": 0.05}}, "layers": [
            {"conv2d": {"filters": 7, "kernel": [3, 3]}}, {"batch_norm": {"activation": "relu"}},
            {"subsampling": {"kernel": [2, 2]}}, {"dropout": {"rate": 0.3}},
            {"dense": {"units": 70, "activation": "sigmoid"}}, {"output": {"units": 4, "activation": "softmax"}}]}"#,
    );
    assert!(is_passed, "others may have what is done with");
}

#[test]
fn norms_and_constraints_are_seen_whole() {
    let is_passed = compare(
        r#"{"seed": 3, "input": {"feed_forward": 80}, "updater": {"sgd": {"learning_rate": 0.1}},
            "gradient_normalisation": {"clip_l2_per_layer": {"threshold": 0.01}}, "layers": [
            {"dense": {"units": 90, "activation": "relu", "constraints": [{"max_norm": {"norm": 0.5}}]}},
            {"output": {"units": 4, "activation": "softmax"}}]}"#,
    );
    assert!(!is_passed, "nothing is done with before all is there");
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
    let loss = engine.train(&batch, &mut state, Progress::default(), &mut |_| {}).expect("a batch that fits");
    assert!(loss.sum.is_nan());
    assert!(state.parameters == engine.initial_state().parameters);
}
