//! Gradients that are computed from what replicas show of their backward passes, against those of one replica that has the
//! examples of all of them: the same bits.

use paceline_model::{
    Batch, FactorSum, Factors, Model, Part, PartwiseModel, Progress, SharedFactors, State, TakeFactors, Targets,
};
use paceline_nn::{Engine, Instructions, Network};

use crate::networks::{batch_for, network};

/// Examples of each replica, step by step.
const STEPS: [[usize; 3]; 5] = [[64, 128, 1], [64, 128, 1], [0, 33, 0], [2, 0, 126], [400, 400, 400]];

/// Takes steps of three replicas both ways. Says whether any part was factored.
fn compare(json: &str) -> bool {
    let network = network(json);
    let mut is_any_factored = false;
    for instructions in Instructions::available() {
        let engine = || Engine::with_instructions(network.clone(), instructions).poisoned();
        let mut replicas: Vec<Engine> = (0..3).map(|_| engine()).collect();
        let (mut found, mut expected) = (replicas[0].initial_state(), replicas[0].initial_state());
        let parts = replicas[0].parts(found.parameters.len());
        assert_eq!(parts.iter().map(|part| part.range.len()).sum::<usize>(), found.parameters.len());
        is_any_factored |= parts.iter().any(|part| part.is_factored);
        for (iteration, examples) in (0..).zip(STEPS) {
            let progress = Progress { iteration, epoch: 0 };
            let batches = batches(&network, examples, iteration);
            take_factors(&mut replicas, &batches, &parts, &mut found, progress);
            take_gradients(&mut replicas, &batches, &parts, &mut expected, progress);
            let step = format!("{instructions:?}, step {iteration}");
            assert!(found.parameters == expected.parameters, "{step}: parameters");
            assert!(found.slots == expected.slots, "{step}: slots of the updater");
        }
        assert!(found.parameters != replicas[0].initial_state().parameters, "something was learned");
    }
    is_any_factored
}

fn batches(network: &Network, examples: [usize; 3], seed: u64) -> Vec<Batch> {
    (0..3).zip(examples).map(|(replica, examples)| batch_for(network, examples, seed * 3 + replica)).collect()
}

fn weight(batches: &[Batch]) -> f32 {
    batches.iter().map(Batch::weight).sum()
}

/// The only sum of a step.
fn sum(factors: &[Factors]) -> FactorSum<'_> {
    FactorSum { factors, number: 0 }
}

/// Hears what a model shows.
struct Hear<F>(F);

impl<F: FnMut(&SharedFactors, usize)> TakeFactors for Hear<F> {
    fn passed(&mut self, factors: &SharedFactors, from: usize) {
        (self.0)(factors, from);
    }
}

/// Computes the gradient of a factored part and steps with it.
fn step_from_factors(
    engine: &mut Engine,
    state: &mut State,
    range: std::ops::Range<usize>,
    factors: &[Factors],
    at: (f32, Progress),
    done: &mut dyn FnMut(std::ops::Range<usize>),
) {
    let mut gradient = vec![f32::NAN; range.len()];
    engine.gradient_of_factors(range.clone(), sum(factors), at.1.iteration, Some(&*state), &mut gradient);
    engine.step_part(state, range, &mut gradient, at, done);
}

/// Every replica shows its factors; each part is updated by another one, the last part first.
fn take_factors(replicas: &mut [Engine], batches: &[Batch], parts: &[Part], state: &mut State, progress: Progress) {
    let weight = weight(batches);
    let mut gradient = vec![0.0; state.gradient.len()];
    let mut shown = Vec::new();
    for (replica, batch) in replicas.iter_mut().zip(batches) {
        let mut factors = None;
        if batch.examples() > 0 {
            // What a gradient leaves out is not looked at.
            state.gradient.fill(f32::NAN);
            let mut show = Hear(|shown: &SharedFactors, _| factors = Some(shown.clone()));
            replica.factored_gradient(batch, state, &mut show).expect("a batch that fits");
            gradient.iter_mut().zip(state.gradient.iter()).for_each(|(sum, slope)| *sum += slope);
        }
        shown.push(factors);
    }
    #[expect(unsafe_code, reason = "what was shown is read")]
    // SAFETY: nobody computes a gradient before this is gone.
    let read = |shown: SharedFactors| Factors { examples: shown.examples, values: unsafe { shown.values.view() } };
    let factors: Vec<Factors> = shown.into_iter().map(|shown| shown.map_or_else(Factors::default, read)).collect();
    for (at, Part { range, is_factored }) in parts.iter().cloned().enumerate().rev() {
        let replica = &mut replicas[at % 3];
        if is_factored {
            step_from_factors(replica, state, range, &factors, (weight, progress), &mut |_| {});
        } else {
            state.gradient[range.clone()].copy_from_slice(&gradient[range.clone()]);
            replica.update(state, range.clone(), weight, progress);
            replica.apply(state, range);
        }
    }
}

/// The gradient of all examples where parts are factored, elsewhere the sum of the gradients of replicas.
fn take_gradients(replicas: &mut [Engine], batches: &[Batch], parts: &[Part], state: &mut State, progress: Progress) {
    let sum = sum_of_gradients(replicas, batches, state);
    replicas[0].gradient(&together(batches), state).expect("a batch that fits");
    for Part { range, .. } in parts.iter().filter(|part| !part.is_factored) {
        state.gradient[range.clone()].copy_from_slice(&sum[range.clone()]);
    }
    replicas[0].update(state, 0..sum.len(), weight(batches), progress);
    replicas[0].apply(state, 0..sum.len());
}

fn sum_of_gradients(replicas: &mut [Engine], batches: &[Batch], state: &mut State) -> Vec<f32> {
    let mut sum = vec![0.0; state.gradient.len()];
    for (replica, batch) in replicas.iter_mut().zip(batches).filter(|(_, batch)| batch.examples() > 0) {
        replica.gradient(batch, state).expect("a batch that fits");
        sum.iter_mut().zip(state.gradient.iter()).for_each(|(sum, slope)| *sum += slope);
    }
    sum
}

/// One batch with the examples of all.
fn together(batches: &[Batch]) -> Batch {
    let mut all = batches[0].clone();
    for batch in &batches[1..] {
        all.indices.extend(&batch.indices);
        all.features.extend(&batch.features);
        all.weights.as_mut().expect("weights").extend(batch.weights.as_ref().expect("weights"));
        match (&mut all.targets, &batch.targets) {
            (Targets::Classes(all), Targets::Classes(more)) => all.extend(more),
            _ => unreachable!("these networks learn classes"),
        }
    }
    all
}

#[test]
fn dense_layers_of_odd_sizes() {
    // More rows than are taken at a time, and more columns than are packed at a time.
    let factored = compare(
        r#"{"seed": 3, "input": {"feed_forward": 139}, "l2": 0.01, "updater": {"adam": {"learning_rate": 0.01}}, "layers": [
            {"dense": {"units": 1033, "activation": "relu"}}, {"dense": {"units": 5, "activation": "tanh"}},
            {"dense": {"units": 300}}, {"output": {"units": 4, "activation": "softmax"}}]}"#,
    );
    assert!(factored, "dense layers have factors");
}

#[test]
fn a_convolution_before_dense_layers() {
    let factored = compare(
        r#"{"seed": 3, "input": {"image": [9, 9, 3]}, "updater": {"nesterovs": {"learning_rate": 0.1, "momentum": 0.9}},
            "layers": [{"conv2d": {"filters": 7, "kernel": [3, 3], "activation": "relu"}},
            {"subsampling": {"kernel": [2, 2]}}, {"dropout": {"rate": 0.3}},
            {"dense": {"units": 70, "activation": "sigmoid"}}, {"output": {"units": 4, "activation": "softmax"}}]}"#,
    );
    assert!(factored, "dense layers have factors");
}

#[test]
fn with_batch_norm_it_is_the_sum_of_gradients_up_to_rounding() {
    // Each replica normalises by its own examples, so there is no one replica that would come to the same.
    let network = network(
        r#"{"seed": 3, "input": {"feed_forward": 80}, "updater": {"sgd": {"learning_rate": 1.0}}, "layers": [
            {"dense": {"units": 90}}, {"batch_norm": {"activation": "relu"}}, {"dense": {"units": 30, "activation": "tanh"}},
            {"output": {"units": 4, "activation": "softmax"}}]}"#,
    );
    let mut replicas: Vec<Engine> = (0..3).map(|_| Engine::new(network.clone()).poisoned()).collect();
    let mut state = replicas[0].initial_state();
    let (start, parts) = (state.parameters.clone(), replicas[0].parts(state.parameters.len()));
    let batches = batches(&network, [20, 30, 1], 7);
    let sum = sum_of_gradients(&mut replicas, &batches, &mut state);
    take_factors(&mut replicas, &batches, &parts, &mut state, Progress::default());
    for (at, slope) in sum.iter().enumerate() {
        let (found, expected) = (start[at] - state.parameters[at], slope / weight(&batches));
        assert!((found - expected).abs() < 1e-5, "parameter {at}: {found} instead of {expected}");
    }
}

#[test]
fn gradients_that_are_seen_whole_are_not_factored() {
    let factored = compare(
        r#"{"seed": 3, "input": {"feed_forward": 80}, "updater": {"sgd": {"learning_rate": 0.1}},
            "gradient_normalisation": {"clip_l2_per_layer": {"threshold": 0.01}}, "layers": [
            {"dense": {"units": 90, "activation": "relu"}}, {"output": {"units": 4, "activation": "softmax"}}]}"#,
    );
    assert!(!factored, "a norm needs the whole gradient");
}

#[test]
fn parts_change_as_soon_as_they_are_passed_and_what_comes_after_them_does_not() {
    let network = network(
        r#"{"seed": 3, "input": {"image": [9, 9, 3]}, "updater": {"nesterovs": {"learning_rate": 0.1, "momentum": 0.9}},
            "layers": [{"conv2d": {"filters": 7, "kernel": [3, 3], "activation": "relu"}},
            {"dense": {"units": 70, "activation": "relu"}}, {"dropout": {"rate": 0.3}},
            {"dense": {"units": 90, "activation": "sigmoid"}}, {"output": {"units": 4, "activation": "softmax"}}]}"#,
    );
    let engine = || Engine::new(network.clone()).poisoned();
    let (batch, progress) = (batch_for(&network, 33, 5), Progress::default());
    let (mut replica, mut expected) = (engine(), network.initial_state());
    let factored: Vec<_> =
        replica.parts(expected.parameters.len()).into_iter().filter(|part| part.is_factored).collect();

    // One after the other: the way back, then the updates.
    let mut shown = None;
    let mut show = Hear(|factors: &SharedFactors, _| shown = Some(factors.clone()));
    let loss = replica.factored_gradient(&batch, &mut expected, &mut show).expect("a batch that fits");
    let gradient = expected.gradient.clone();
    #[expect(unsafe_code, reason = "what was shown is read")]
    // SAFETY: the way back is over.
    let read = |shown: &SharedFactors| Factors { examples: shown.examples, values: unsafe { shown.values.view() } };
    let factors = [read(&shown.expect("factors"))];
    for Part { range, .. } in &factored {
        let mut done = range.start;
        let mut tell = |stretch: std::ops::Range<usize>| {
            assert!(stretch.start == done && !stretch.is_empty(), "{stretch:?} after {done}");
            done = stretch.end;
        };
        step_from_factors(&mut replica, &mut expected, range.clone(), &factors, (batch.weight(), progress), &mut tell);
        assert_eq!(done, range.end);
    }

    // Each part as soon as it was passed, by another that has the same parameters.
    let (mut replica, mut helper) = (engine(), engine());
    let (mut own, mut others) = (network.initial_state(), network.initial_state());
    let parameters = paceline_model::SharedFlat::from(own.parameters.clone());
    #[expect(unsafe_code, reason = "one replica changes what the other has passed")]
    // SAFETY: on one thread, and the replica looks at no part that it has passed.
    unsafe {
        (own.parameters, others.parameters) = (parameters.view(), parameters.view());
    }
    let mut updated_at = Vec::new();
    let mut left = factored.clone();
    let mut told = 0;
    let update = |shown: &SharedFactors, from: usize| {
        told += 1;
        while let Some(Part { range, .. }) = left.pop_if(|part| part.range.start >= from) {
            let factors = [read(shown)];
            step_from_factors(&mut helper, &mut others, range, &factors, (batch.weight(), progress), &mut |_| {});
            updated_at.push(told);
        }
    };
    assert_eq!(replica.factored_gradient(&batch, &mut own, &mut Hear(update)).expect("a batch that fits"), loss);
    assert!(own.parameters == expected.parameters && others.slots == expected.slots);
    let mut others_start = 0;
    for Part { range, .. } in &factored {
        assert_eq!(own.gradient[others_start..range.start], gradient[others_start..range.start]);
        others_start = range.end;
    }
    assert_eq!((left.len(), updated_at.len()), (0, factored.len()));
    assert!(updated_at[0] < told - 2 && updated_at[0] < updated_at[factored.len() - 1], "{updated_at:?} of {told}");
}
