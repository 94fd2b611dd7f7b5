//! Layers over sequences: slopes against finite differences, both executors, steps that are not there, and one step after the other.

use paceline_model::{Batch, Model, Targets};
use paceline_nn::random::Counted;
use paceline_nn::{Engine, Network, Reference, Stepwise};

use crate::conformance::compare_on;
use crate::gradient_check::check_on;
use crate::networks::{batch_for, network};

const STEPS: usize = 6;
const FEATURES: usize = 3;

/// Layers that give a sequence for a sequence of 6 steps of 4.
const SAME_STEPS: &[&str] = &[
    r#"{"simple_rnn": {"units": 5}}"#,
    r#"{"simple_rnn": {"units": 5, "activation": "sigmoid", "bidirectional": "add"}}"#,
    r#"{"lstm": {"units": 5}}"#,
    r#"{"lstm": {"units": 3, "peepholes": true, "gate_activation": "hard_sigmoid"}}"#,
    r#"{"lstm": {"units": 3, "peepholes": true, "bidirectional": "concat"}}"#,
    r#"{"gru": {"units": 5}}"#,
    r#"{"gru": {"units": 3, "bidirectional": "multiply"}}"#,
    r#"{"gru": {"units": 3, "bidirectional": "average"}}, {"lstm": {"units": 4}}"#,
    r#"{"dense": {"units": 5, "activation": "tanh"}}"#,
    r#"{"layer_norm": {}}"#,
    r#"{"reverse_time": {}}, {"lstm": {"units": 4}}"#,
    r#"{"self_attention": {"units": 6, "heads": 2}}"#,
    r#"{"self_attention": {"units": 5, "heads": 3, "head_size": 2, "causal": true, "activation": "tanh"}}"#,
    r#"{"recurrent_attention": {"units": 4, "heads": 2}}"#,
    r#"{"conv1d": {"filters": 5, "kernel": 3, "padding": "same", "activation": "tanh"}}"#,
    r#"{"conv1d": {"filters": 5, "kernel": 2, "dilation": 2, "padding": "causal"}}"#,
    r#"{"mask": {"value": 0.25}}, {"gru": {"units": 3}}"#,
    r#"{"batch_norm": {"epsilon": 0.1}}"#,
    r#"{"dense": {"units": 2, "name": "a"}}, {"gru": {"units": 3, "after": "first", "name": "b"}}, {"merge": {"after": ["a", "b"]}}"#,
    r#"{"dense": {"units": 4, "name": "a"}}, {"stack": {"after": ["a", "first"]}}, {"gru": {"units": 3}}, {"unstack": {"index": 1, "of": 2}}"#,
    r#"{"last_time_step": {"name": "last"}}, {"repeat_vector": {"after": ["last", "first"]}}, {"lstm": {"units": 4}}"#,
    r#"{"dense": {"units": 4, "name": "q"}}, {"attention": {"units": 6, "heads": 2, "after": ["q", "first"]}}"#,
    r#"{"attention": {"units": 4, "heads": 2, "project": false, "after": ["first", "first", "first"]}}"#,
];

/// Layers that give something else.
const OTHERS: &[&str] = &[
    r#"{"lstm": {"units": 4}}, {"last_time_step": {}}"#,
    r#"{"gru": {"units": 4}}, {"global_pooling": {"pool": "average"}}"#,
    r#"{"gru": {"units": 4}}, {"global_pooling": {"pool": "max"}}"#,
    r#"{"global_pooling": {"pool": {"pnorm": {"p": 3}}}}"#,
    r#"{"learned_self_attention": {"units": 4, "queries": 3, "heads": 2}}, {"global_pooling": {"pool": "sum"}}"#,
    r#"{"conv1d": {"filters": 5, "kernel": 3, "stride": 2}}, {"lstm": {"units": 3}}, {"last_time_step": {}}"#,
    r#"{"conv1d": {"filters": 4, "kernel": 3, "padding": 1}}, {"subsampling1d": {"kernel": 2}}, {"global_pooling": {}}"#,
    r#"{"subsampling1d": {"pool": "average", "kernel": 3, "stride": 2, "padding": "same"}}, {"lstm": {"units": 3}}, {"last_time_step": {}}"#,
    r#"{"zero_padding1d": {"padding": [1, 2]}}, {"gru": {"units": 3}}, {"last_time_step": {}}"#,
    r#"{"locally_connected1d": {"filters": 4, "kernel": 2, "dilation": 2, "padding": "same"}}, {"gru": {"units": 3}}, {"last_time_step": {}}"#,
    r#"{"cropping1d": {"cropping": [1, 1]}}, {"gru": {"units": 3}}, {"last_time_step": {}}"#,
    r#"{"upsampling1d": {"size": 2}}, {"gru": {"units": 3}}, {"last_time_step": {}}"#,
    r#"{"last_time_step": {}}, {"repeat_vector": {"steps": 3}}, {"lstm": {"units": 4}}, {"last_time_step": {}}"#,
    r#"{"reshape": {"to": {"sequence": [8, 3]}}}, {"gru": {"units": 3}}, {"last_time_step": {}}"#,
];

/// A network over a sequence, with these layers behind one that is learned.
fn over_a_sequence(layers: &str) -> Network {
    network(&format!(
        r#"{{"seed": 7, "input": {{"sequence": [{STEPS}, {FEATURES}]}}, "layers": [
            {{"dense": {{"units": 4, "activation": "tanh", "name": "first"}}}}, {layers},
            {{"output": {{"units": 3, "activation": "softmax"}}}}]}}"#
    ))
}

/// A batch of which some steps are not there: at the ends, once in the middle, and once throughout. Some targets are missing, too.
fn with_gaps(network: &Network, examples: usize) -> Batch {
    let mut batch = batch_for(network, examples, 11);
    let width = batch.width / STEPS;
    let steps = network.output().steps();
    if let Some(steps) = steps {
        let stream = Counted::new(4, 4, 0, 0);
        let values = (0..examples * steps).map(|at| (stream.bits(at as u32) % 3) as f32).collect();
        batch.targets = Targets::Values { width: steps, values };
    }
    let mut leave_out = |example: usize, step: usize| {
        if example < examples {
            batch.features[(example * STEPS + step) * width..][..width].fill(f32::NAN);
        }
    };
    (4..STEPS).for_each(|step| leave_out(1, step));
    (1..STEPS).for_each(|step| leave_out(2, step));
    leave_out(0, 2);
    (0..STEPS).for_each(|step| leave_out(3, step));
    if let (Targets::Values { values, .. }, Some(_)) = (&mut batch.targets, steps) {
        values[3] = f32::NAN;
    }
    batch
}

#[test]
fn every_layer_over_sequences_has_its_slopes() {
    for layers in SAME_STEPS.iter().chain(OTHERS) {
        let network = over_a_sequence(layers);
        check_on(network.clone(), &batch_of(&network, 4), layers);
        check_on(network.clone(), &with_gaps(&network, 4), &format!("{layers} with gaps"));
    }
}

/// A batch without gaps.
fn batch_of(network: &Network, examples: usize) -> Batch {
    let gaps = with_gaps(network, examples);
    let whole = |values: &[f32]| values.iter().map(|v| if v.is_nan() { 0.5 } else { *v }).collect::<Vec<_>>();
    let targets = match &gaps.targets {
        Targets::Values { width, values } => Targets::Values {
            width: *width,
            values: values.iter().map(|v| if v.is_nan() { 1.0 } else { *v }).collect(),
        },
        others => others.clone(),
    };
    Batch { features: whole(&gaps.features), targets, ..gaps }
}

#[test]
fn every_layer_over_sequences_agrees_with_the_reference() {
    for layers in SAME_STEPS.iter().chain(OTHERS) {
        let network = over_a_sequence(layers);
        for examples in [5, 17, 1] {
            compare_on(&network, &with_gaps(&network, examples), &format!("{layers}, {examples} with gaps"));
            compare_on(&network, &batch_of(&network, examples), &format!("{layers}, {examples}"));
        }
    }
}

/// Wide enough for whole vectors, blocks and remainders.
#[test]
fn wide_recurrent_layers_agree_with_the_reference() {
    for layer in [
        r#"{"lstm": {"units": 70}}"#,
        r#"{"lstm": {"units": 33, "peepholes": true, "bidirectional": "concat"}}"#,
        r#"{"gru": {"units": 70}}"#,
        r#"{"simple_rnn": {"units": 70}}"#,
    ] {
        let network = network(&format!(
            r#"{{"seed": 7, "input": {{"sequence": [{STEPS}, 40]}}, "layers": [{layer}, {{"output": {{"units": 3}}}}]}}"#
        ));
        compare_on(&network, &with_gaps(&network, 35), layer);
    }
}

#[test]
fn things_are_looked_up_by_their_number() {
    for layers in [
        r#"{"embedding": {"count": 7, "units": 4, "bias": true}}, {"lstm": {"units": 3}}"#,
        r#"{"one_hot": {"count": 7}}, {"gru": {"units": 3}}"#,
    ] {
        let network = network(&format!(
            r#"{{"seed": 3, "input": {{"sequence": [{STEPS}, 1]}}, "layers": [{layers}, {{"output": {{"units": 3}}}}]}}"#
        ));
        let mut batch = with_gaps(&network, 5);
        let numbers = Counted::new(1, 1, 0, 0);
        for (at, feature) in batch.features.iter_mut().enumerate().filter(|(_, feature)| !feature.is_nan()) {
            *feature = (numbers.bits(at as u32) % 7) as f32;
        }
        check_on(network.clone(), &batch, layers);
        compare_on(&network, &batch, layers);
        batch.features[0] = 7.0;
        let mut engine = Engine::new(network);
        let mut state = engine.initial_state();
        let error = engine.gradient(&batch, &mut state).expect_err("there is no such thing").to_string();
        assert!(error.contains("7 in example 1") && error.contains("one of the numbers from 0 to 6"), "{error}");
    }
    let network = network(
        r#"{"input": {"feed_forward": 1}, "layers": [{"embedding": {"count": 3, "units": 2}}, {"output": {"units": 2}}]}"#,
    );
    let parameters = Engine::new(network.clone()).initial_state().parameters;
    let batch = Batch {
        epoch: 0,
        indices: vec![0],
        width: 1,
        features: vec![2.0],
        targets: Targets::Classes(vec![1]),
        weights: None,
    };
    check_on(network, &batch, "a row");
    assert_eq!(parameters.len(), 3 * 2 + 2 * 2 + 2);
}

#[test]
fn what_is_not_there_changes_nothing() {
    for layers in SAME_STEPS.iter().chain(OTHERS).filter(|layers| !layers.contains("batch_norm")) {
        let network = over_a_sequence(layers);
        let mut batch = with_gaps(&network, 4);
        let mut reference = Reference::new(network.clone());
        let (loss, gradient) = (reference.gradient(&batch).expect("it fits").sum, reference.gradient.clone());
        // Whatever else stands in steps whose first number is none.
        for step in batch.features.chunks_exact_mut(FEATURES).filter(|step| step[0].is_nan()) {
            step[1..].fill(1e9);
        }
        assert_eq!(reference.gradient(&batch).expect("it fits").sum, loss, "{layers}");
        assert_eq!(reference.gradient, gradient, "{layers}");
    }
}

/// A shorter sequence and a longer one of which the rest is not there are the same to layers that go from step to step.
#[test]
fn a_sequence_that_is_filled_up_is_as_a_short_one() {
    let kinds = [
        r#"{"lstm": {"units": 4}}"#,
        r#"{"lstm": {"units": 4, "peepholes": true, "truncate": 3}}"#,
        r#"{"simple_rnn": {"units": 5, "bidirectional": "add"}}"#,
        r#"{"gru": {"units": 3, "bidirectional": "concat"}}"#,
    ];
    for layers in kinds {
        let of = |steps: usize| {
            network(&format!(
                r#"{{"seed": 7, "input": {{"sequence": [{steps}, 3]}}, "layers": [{layers}, {{"last_time_step": {{}}}},
                    {{"output": {{"units": 3}}}}]}}"#
            ))
        };
        let (short, long) = (of(4), of(9));
        let batch = batch_for(&short, 3, 5);
        let mut filled = Vec::new();
        for row in 0..3 {
            filled.extend_from_slice(batch.row(row));
            filled.resize((row + 1) * 27, f32::NAN);
        }
        let filled = Batch { features: filled, width: 27, ..batch.clone() };
        let mut references = [Reference::new(short.clone()), Reference::new(long.clone())];
        let losses =
            [&batch, &filled].into_iter().zip(&mut references).map(|(b, r)| r.gradient(b).expect("it fits").sum);
        let losses: Vec<f64> = losses.collect();
        assert_eq!(losses[0], losses[1], "{layers}");
        assert_eq!(references[0].gradient, references[1].gradient, "{layers}");
        let fast = [(short, &batch), (long, &filled)].map(|(network, batch)| {
            let mut engine = Engine::new(network);
            let mut state = engine.initial_state();
            let loss = engine.gradient(batch, &mut state).expect("it fits").sum;
            (loss, state.gradient)
        });
        // Gradients are summed in blocks of steps, so that rounding differs.
        let near = |a: f32, b: f32| (a - b).abs() <= 1e-6;
        let mut gradients = fast[0].1.iter().zip(fast[1].1.iter());
        assert!((fast[0].0 - fast[1].0).abs() <= 1e-6, "{layers}");
        assert!(gradients.all(|(a, b)| near(*a, *b)), "{layers}, where products for nobody are left out");
    }
}

#[test]
fn slopes_that_are_cut_are_those_of_stretches() {
    // Of a linear recurrence with one unit, hₜ = w xₜ + r hₜ₋₁, and the loss by its last number.
    let of = |truncate: &str| {
        network(&format!(
            r#"{{"input": {{"sequence": [5, 1]}}, "layers": [
                {{"simple_rnn": {{"units": 1, "activation": "identity"{truncate}}}}}, {{"last_time_step": {{}}}}, {{"loss": {{"loss": "l2"}}}}]}}"#
        ))
    };
    let x = [1.0, 2.0, -1.0, 0.5, 3.0];
    let slopes = |network: Network| {
        let mut reference = Reference::new(network);
        reference.parameters = vec![0.7, 0.9, 0.1];
        let batch = Batch {
            epoch: 0,
            indices: vec![0],
            width: 5,
            features: x.to_vec(),
            targets: Targets::Values { width: 1, values: vec![0.0] },
            weights: None,
        };
        reference.gradient(&batch).expect("it fits");
        reference.gradient
    };
    let mut h = [0.0; 6];
    for t in 0..5 {
        h[t + 1] = 0.7 * f64::from(x[t]) + 0.9 * h[t] + 0.1;
    }
    // Stretches begin with steps 0, 2 and 4, so the slope of the last goes back to step 4 and no further.
    for (truncate, first) in [("", 0), (r#", "truncate": 2"#, 4), (r#", "truncate": 4"#, 4), (r#", "truncate": 3"#, 3)]
    {
        let (mut dw, mut dr, mut db, mut dh) = (0.0, 0.0, 0.0, 2.0 * h[5]);
        for t in (first..5).rev() {
            (dw, dr, db) = (dw + dh * f64::from(x[t]), dr + dh * h[t], db + dh);
            dh *= f64::from(0.9f32);
        }
        for (found, expected) in slopes(of(truncate)).into_iter().zip([dw, dr, db]) {
            assert!((found - expected).abs() < 1e-5 * expected.abs(), "{truncate}: {found} and {expected}");
        }
    }
}

#[test]
fn one_step_after_the_other_gives_the_outputs_of_the_whole() {
    for layers in [
        r#"{"simple_rnn": {"units": 5}}"#,
        r#"{"lstm": {"units": 5, "peepholes": true}}, {"layer_norm": {}}, {"gru": {"units": 4}}"#,
    ] {
        let network = over_a_sequence(layers);
        let batch = batch_of(&network, 4);
        let mut engine = Engine::new(network.clone());
        let state = engine.initial_state();
        let mut whole = Vec::new();
        engine.predict(&batch, &state, &mut whole).expect("it fits");
        let mut stepwise = Stepwise::new(&network, &state).expect("it goes from step to step");
        for round in 0..2 {
            for step in 0..STEPS {
                let features: Vec<f32> =
                    (0..4).flat_map(|row| &batch.row(row)[step * FEATURES..][..FEATURES]).copied().collect();
                let mut outputs = Vec::new();
                stepwise.step(&features, 4, &mut outputs).expect("it fits");
                let expected: Vec<f32> =
                    (0..4).flat_map(|row| &whole[(row * STEPS + step) * 3..][..3]).copied().collect();
                for (found, expected) in outputs.iter().zip(&expected) {
                    assert!(
                        (found - expected).abs() < 1e-5,
                        "{layers}, round {round}, step {step}: {found} and {expected}"
                    );
                }
            }
            stepwise.forget();
        }
    }
    for layers in [r#"{"gru": {"units": 3, "bidirectional": "add"}}"#, r#"{"self_attention": {"units": 4}}"#] {
        let network = over_a_sequence(layers);
        let state = network.initial_state();
        let error = Stepwise::new(&network, &state).err().expect("it needs all steps").to_string();
        assert!(error.contains("needs all steps of a sequence at once"), "{error}");
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    let error = |layers: &str| {
        let json =
            format!(r#"{{"input": {{"sequence": [6, 3]}}, "layers": [{layers}, {{"output": {{"units": 2}}}}]}}"#);
        let config = paceline_nn::NetworkConfig::from_json(&json).map_err(|error| error.to_string());
        config.and_then(|config| Network::new(config).map_err(|error| error.to_string())).expect_err(layers)
    };
    for (layers, part) in [
        (r#"{"lstm": {"units": 3, "activation": "gelu"}}"#, "whose slope can be told from what comes out"),
        (r#"{"lstm": {"units": 3, "truncate": 0}}"#, "`truncate` must be at least 1"),
        (r#"{"lstm": {"unit": 3}}"#, "unknown key `unit`; did you mean `units`?"),
        (r#"{"last_time_step": {}}, {"lstm": {"units": 3}}"#, "expects a sequence, got 3 numbers"),
        (r#"{"conv2d": {"filters": 3, "kernel": [2, 2]}}"#, "expects an image, got a sequence of 6 steps of 3"),
        (r#"{"conv1d": {"filters": 3, "kernel": 9}}"#, "at least 9 steps"),
        (r#"{"self_attention": {"units": 5, "heads": 2}}"#, "cannot be shared evenly among 2 `heads`"),
        (r#"{"last_time_step": {}}, {"repeat_vector": {}}"#, "expected `steps`, or a second value"),
        (r#"{"embedding": {"count": 5, "units": 2}}"#, "the number of a thing"),
        (r#"{"conv1d": {"filters": 3, "kernel": 2, "padding": 2}}"#, "`padding` must be smaller than `kernel`"),
    ] {
        let error = error(layers);
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn a_step_that_is_not_there_is_never_the_largest_and_gives_no_number() {
    let network = network(
        r#"{"input": {"sequence": [4, 1]}, "layers": [{"subsampling1d": {"kernel": 2}}, {"loss": {"loss": "mse"}}]}"#,
    );
    let batch = Batch {
        epoch: 0,
        indices: vec![0],
        width: 4,
        features: vec![-3.0, f32::NAN, f32::NAN, f32::NAN],
        targets: Targets::Values { width: 2, values: vec![-1.0, 7.0] },
        weights: None,
    };
    let mut engine = Engine::new(network.clone());
    let (mut state, mut outputs) = (engine.initial_state(), Vec::new());
    let loss = engine.predict(&batch, &state, &mut outputs).expect("it fits").expect("targets");
    assert_eq!(outputs[0], -3.0);
    assert!(outputs[1].is_nan());
    assert_eq!(loss.sum, 4.0, "of the first step alone");
    assert_eq!(engine.gradient(&batch, &mut state).expect("it fits").sum, 4.0);
    let error = Stepwise::new(&network, &state).err().expect("it pools").to_string();
    assert!(error.contains("needs all steps"), "{error}");
}
