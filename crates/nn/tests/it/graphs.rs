//! Networks that are no list of layers: what is wrong with them, and that they are what their layers are.

use paceline_model::{Model, PartwiseModel, Progress};
use paceline_nn::config::{
    Conv2d, Dense, ElementWise, ElementWiseOp, Merge, NetworkConfig, Output, Padding, Stack, Unstack,
};
use paceline_nn::{Activation, Engine, InputType, Loss, Network};

use crate::networks::{batch_for, network};

fn refused(json: &str) -> String {
    let config = NetworkConfig::from_json(json).expect("readable");
    Network::new(config).expect_err(json).to_string()
}

#[test]
fn what_cannot_be_wired_is_refused_with_the_names() {
    let of = |layers: &str| format!(r#"{{"input": {{"feed_forward": 4}}, "layers": [{layers}]}}"#);
    let end = r#"{"output": {"units": 2, "after": "b"}}"#;
    let cases = [
        (
            format!(
                r#"{{"dense": {{"units": 3, "name": "a", "after": "b"}}}}, {{"dense": {{"units": 3, "name": "b", "after": "a"}}}}, {end}"#
            ),
            "layer 0 (dense): it comes after itself: `a` → `b` → `a`",
        ),
        (
            format!(
                r#"{{"dense": {{"units": 3, "name": "bone"}}}}, {{"dense": {{"units": 3, "name": "b", "after": "one"}}}}, {end}"#
            ),
            "layer 1 (dense): `after`: there is no layer or input `one`; did you mean `bone`?",
        ),
        (
            format!(
                r#"{{"dense": {{"units": 3, "name": "a"}}}}, {{"dense": {{"units": 3, "name": "b", "after": "input"}}}}, {end}"#
            ),
            "layer 0 (dense): nothing comes `after` it: name `a` in a layer that reads it, or leave it out",
        ),
        (
            format!(
                r#"{{"dense": {{"units": 3, "name": "a"}}}}, {{"dense": {{"units": 4, "name": "c", "after": "input"}}}},
                {{"element_wise": {{"name": "b", "after": ["a", "c"]}}}}, {end}"#
            ),
            "layer 2 (element_wise): expected values of one shape: `a` gives 3 numbers, and `c` gives 4 numbers",
        ),
        (
            format!(r#"{{"dense": {{"units": 3, "name": "b"}}}}, {end}, {{"dense": {{"units": 3}}}}"#),
            "layer 2 (dense): nothing can follow the loss of layer 1; say with `after` which layers or inputs it follows",
        ),
        (
            format!(r#"{{"dense": {{"units": 3, "name": "input"}}}}, {end}"#),
            "layer 0 (dense): the name `input` is taken by an input",
        ),
        (
            format!(r#"{{"stack": {{"name": "b", "after": ["input", "input"]}}}}, {end}"#),
            "layer 1 (output): its input is stacked: `unstack` it before the loss",
        ),
    ];
    for (layers, expected) in cases {
        assert_eq!(refused(&of(&layers)), expected);
    }
    let two =
        r#"{"inputs": [{"name": "a", "feed_forward": 2}, {"name": "b", "image": [2, 2, 1]}], "layers": [LAYERS]}"#;
    let cases = [
        (r#"{"output": {"units": 2, "after": "a"}}"#, "`inputs`: nothing comes `after` the input `b`"),
        (r#"{"output": {"units": 2}}"#, "layer 0 (output): say with `after` which of the inputs it follows: `a`, `b`"),
        (
            r#"{"output": {"units": 2, "after": ["a", "b"]}}"#,
            "layer 0 (output): expected rows of numbers side by side, as `a` gives; `b` gives an image of 2×2×1",
        ),
    ];
    for (layers, expected) in cases {
        assert_eq!(refused(&two.replace("LAYERS", layers)), expected);
    }
}

#[test]
fn builders_and_files_describe_the_same_graph() {
    let built = NetworkConfig::with_inputs([("left", InputType::FeedForward(3)), ("right", InputType::FeedForward(4))])
        .layer(Dense::new(5).name("l").after(["left"]))
        .layer(Dense::new(5).name("r").after(["right"]))
        .layer(ElementWise::new(ElementWiseOp::Product).after(["l", "r"]).name("both"))
        .layer(Merge::default().after(["both", "l"]))
        .layer(Output::new(2, Loss::CrossEntropy).activation(Activation::Softmax));
    let json = r#"{"inputs": [{"name": "left", "feed_forward": 3}, {"name": "right", "feed_forward": 4}], "layers": [
        {"dense": {"units": 5, "name": "l", "after": "left"}}, {"dense": {"units": 5, "name": "r", "after": ["right"]}},
        {"element_wise": {"op": "product", "name": "both", "after": ["l", "r"]}}, {"merge": {"after": ["both", "l"]}},
        {"output": {"units": 2, "loss": "cross_entropy", "activation": "softmax"}}]}"#;
    assert_eq!(NetworkConfig::from_json(json).expect("readable"), built);
    assert_eq!(NetworkConfig::from_json(&built.to_json()).expect("readable"), built);
}

/// A list of layers, and the same list with every `after` written out and the file turned upside down.
#[test]
fn the_order_in_the_file_means_nothing_where_all_is_named() {
    let layers = [
        r#"{"conv2d": {"filters": 4, "kernel": [3, 3], "name": "a", "activation": "relu", "after": "input"}}"#,
        r#"{"batch_norm": {"name": "b", "after": "a"}}"#,
        r#"{"output": {"units": 3, "activation": "softmax", "name": "c", "after": "b"}}"#,
    ];
    let of = |layers: &[&str]| {
        network(&format!(r#"{{"seed": 4, "input": {{"image": [6, 6, 2]}}, "layers": [{}]}}"#, layers.join(", ")))
    };
    let (forth, back) = (of(&layers), of(&[layers[2], layers[1], layers[0]]));
    let batch = batch_for(&forth, 5, 3);
    let gradient = |network: &Network| {
        let mut engine = Engine::new(network.clone());
        let mut state = engine.initial_state();
        engine.gradient(&batch, &mut state).expect("a batch that fits");
        state.gradient
    };
    assert!(gradient(&forth) == gradient(&back));
    let name = |network: &Network| network.parameters().iter().map(|p| p.name.clone()).collect::<Vec<_>>();
    assert_eq!(name(&forth), name(&back));
}

/// Two values that are stacked go through the same weights: a step is that of one with twice as many examples.
#[test]
fn stacked_values_share_all_that_follows() {
    let stacked = NetworkConfig::feed_forward(6)
        .layer(Stack::default().after(["input", "input"]))
        .layer(Dense::new(5).activation(Activation::Tanh).name("dense"))
        .layer(Unstack::new(0, 2).name("one"))
        .layer(Unstack::new(1, 2).after(["dense"]).name("other"))
        .layer(ElementWise::new(ElementWiseOp::Average).after(["one", "other"]))
        .layer(Output::new(3, Loss::Mse).activation(Activation::Identity).name("end"));
    let plain = NetworkConfig::feed_forward(6)
        .layer(Dense::new(5).activation(Activation::Tanh).name("dense"))
        .layer(Output::new(3, Loss::Mse).activation(Activation::Identity).name("end"));
    let (stacked, plain) = (Network::new(stacked).expect("a network"), Network::new(plain).expect("a network"));
    let batch = batch_for(&plain, 7, 1);
    let gradient = |network: &Network| {
        let mut engine = Engine::new(network.clone()).poisoned();
        let mut state = engine.initial_state();
        let loss = engine.gradient(&batch, &mut state).expect("a batch that fits");
        (loss, state.gradient)
    };
    let ((loss, found), (expected_loss, expected)) = (gradient(&stacked), gradient(&plain));
    assert!((loss.sum - expected_loss.sum).abs() < 1e-5, "{loss:?}, {expected_loss:?}");
    for (found, expected) in found.iter().zip(expected.iter()) {
        assert!((found - expected).abs() < 1e-4, "{found}, {expected}");
    }
}

/// A residual network learns, and in one go as in turn.
#[test]
fn a_block_with_a_way_around_learns() {
    let block = |config: NetworkConfig, at: usize, from: &str| {
        let (first, second) = (format!("{at}a"), format!("{at}b"));
        config
            .layer(
                Conv2d::new(6, [3, 3]).padding(Padding::Same).activation(Activation::Relu).after([from]).name(&first),
            )
            .layer(Conv2d::new(6, [3, 3]).padding(Padding::Same).name(&second))
            .layer(ElementWise::new(ElementWiseOp::Add).after([second.as_str(), from]).name(&format!("{at}")))
    };
    let config = NetworkConfig::image(8, 8, 1).seed(2).updater(paceline_nn::Updater::sgd(0.05));
    let config = config.layer(Conv2d::new(6, [3, 3]).padding(Padding::Same).activation(Activation::Relu).name("stem"));
    let config = block(block(config, 10, "stem"), 11, "10");
    let network = Network::new(config.layer(Output::by_task(3))).expect("a network");
    let mut engine = Engine::new(network.clone());
    let mut state = engine.initial_state();
    let batch = batch_for(&network, 12, 9);
    let mut step = |iteration| {
        engine.train(&batch, &mut state, Progress { iteration, epoch: 0 }).expect("a batch that fits").mean()
    };
    let first = step(0);
    let last = (1..60).map(&mut step).last().expect("steps");
    assert!(last < 0.2 * first, "{first} became {last}");
}

/// Layers whose outputs reach no loss: their gradient is 0 on every executor, however often the memory of a plan was used before.
#[test]
fn a_layer_that_no_gradient_reaches_has_gradient_zero() {
    let cases = [
        // The branch `b` is only a part of the target of the reconstruction.
        (
            r#"{"input": {"feed_forward": 3}, "layers": [
                {"dense": {"units": 2, "name": "b", "after": "input"}}, {"merge": {"name": "both", "after": ["input", "b"]}},
                {"dense": {"units": 5, "activation": "tanh", "name": "a", "after": "input"}},
                {"reconstruction": {"loss": "mse", "after": ["a", "both"]}}]}"#,
            "b.",
        ),
        (
            r#"{"input": {"feed_forward": 3}, "layers": [
                {"dense": {"units": 1, "activation": "sigmoid", "name": "b"}}, {"one_hot": {"count": 4}}, {"output": {"units": 2}}]}"#,
            "b.",
        ),
    ];
    for (json, layer) in cases {
        let network = Network::new(NetworkConfig::from_json(json).expect("readable")).expect(json);
        let mut batch = batch_for(&network, 6, 3);
        if !network.wants_targets() {
            batch.targets = paceline_model::Targets::None;
        }
        crate::conformance::compare_on(&network, &batch, json);
        let mut engine = Engine::new(network.clone());
        let mut state = engine.initial_state();
        for _ in 0..2 {
            state.gradient.iter_mut().for_each(|value| *value = 7.0);
            engine.gradient(&batch, &mut state).expect("a gradient");
            for parameter in network.parameters() {
                let gradient = &state.gradient[parameter.range.clone()];
                let is_zero = gradient.iter().all(|value| *value == 0.0);
                assert_eq!(is_zero, parameter.name.starts_with(layer), "{json}: {}: {gradient:?}", parameter.name);
            }
        }
    }
}

#[test]
fn a_window_outside_of_the_image_pools_to_zero() {
    for pool in ["max", "average", "sum"] {
        let json = format!(
            r#"{{"input": {{"image": [3, 3, 2]}}, "layers": [
                {{"subsampling": {{"pool": "{pool}", "kernel": [2, 2], "stride": [1, 1], "dilation": [4, 4], "padding": [1, 1]}}}},
                {{"output": {{"units": 2}}}}]}}"#
        );
        let network = network(&json);
        crate::conformance::compare_on(&network, &batch_for(&network, 3, 5), &json);
        let mut outputs = Vec::new();
        let engine = &mut Engine::new(network.clone());
        let state = engine.initial_state();
        engine.predict(&batch_for(&network, 3, 5), &state, &mut outputs).expect("outputs");
        assert!(outputs.iter().all(|output| output.is_finite()), "{pool}: {outputs:?}");
    }
}

#[test]
fn targets_that_a_loss_cannot_learn_are_refused_with_the_example() {
    for (end, wrong) in [
        (r#""loss": "binary_cross_entropy""#, 2.0),
        (r#""loss": "poisson""#, -1.0),
        (r#""loss": "kl_divergence""#, -0.5),
    ] {
        let json = format!(r#"{{"input": {{"feed_forward": 3}}, "layers": [{{"output": {{"units": 2, {end}}}}}]}}"#);
        let network = network(&json);
        let mut engine = Engine::new(network.clone());
        let state = network.initial_state();
        let mut batch = batch_for(&network, 4, 1);
        batch.targets = paceline_model::Targets::Values { width: 2, values: vec![0.5; 8] };
        let mut outputs = Vec::new();
        engine.predict(&batch, &state, &mut outputs).expect("shares");
        let paceline_model::Targets::Values { values, .. } = &mut batch.targets else { panic!("numbers") };
        values[5] = wrong;
        let error = engine.predict(&batch, &state, &mut outputs).expect_err(end).to_string();
        assert!(error.contains("targets:") && error.contains(&format!("{wrong} in example")), "{error}");
    }
}

#[test]
fn targets_that_are_no_classes_of_an_end_are_refused_with_the_example() {
    let json = r#"{"input": {"feed_forward": 3}, "layers": [
        {"dense": {"units": 4, "name": "body"}},
        {"output": {"units": 3, "name": "kind", "after": "body"}},
        {"output": {"units": 2, "name": "size", "after": "body"}}]}"#;
    let network = network(json);
    let mut engine = Engine::new(network.clone());
    let state = network.initial_state();
    for wrong in [-1.0, 1.5, 3.0, f32::NAN] {
        let mut batch = batch_for(&network, 4, 1);
        let paceline_model::Targets::Values { width: 2, values } = &mut batch.targets else {
            panic!("a class for each end")
        };
        values[4] = wrong;
        let mut outputs = Vec::new();
        let error = engine.predict(&batch, &state, &mut outputs).expect_err("no class").to_string();
        assert!(
            error.contains("the number of a class of the output `kind`, from 0 to 2")
                && error.contains("in example 15"),
            "{wrong}: {error}"
        );
    }
}
