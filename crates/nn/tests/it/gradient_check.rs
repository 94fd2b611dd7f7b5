//! Every layer, activation, loss and normalisation against finite differences, on the `f64` reference.

use paceline_model::Batch;
use paceline_nn::{Activation, Loss, Network, Reference};

use crate::networks::{batch_for, network};

/// Compares the gradient with central differences at up to 60 parameters spread over the layout.
fn check(network: Network, what: &str) {
    let batch = batch_for(&network, 4, 11);
    check_on(network, &batch, what);
}

/// The same on a batch.
pub(crate) fn check_on(network: Network, batch: &Batch, what: &str) {
    let mut reference = Reference::new(network);
    reference.gradient(batch).expect("a batch that fits");
    let gradient = reference.gradient.clone();
    let count = gradient.len();
    assert!(gradient.iter().any(|g| g.abs() > 1e-9), "{what}: no gradient at all");
    let step = 1e-5;
    for at in (0..count).step_by((count / 60).max(1)) {
        let kept = reference.parameters[at];
        let mut loss = |value: f64| {
            reference.parameters[at] = value;
            reference.gradient(batch).expect("a batch that fits").sum
        };
        let slope = (loss(kept + step) - loss(kept - step)) / (2.0 * step);
        reference.parameters[at] = kept;
        let error = (slope - gradient[at]).abs() / (slope.abs() + gradient[at].abs()).max(1e-4);
        assert!(error < 1e-4, "{what}: parameter {at} has gradient {}, differences say {slope}", gradient[at]);
    }
}

#[test]
fn every_activation_has_its_slope() {
    for activation in Activation::ALL {
        let name = serde_json::to_string(&activation).expect("a name");
        check(
            network(&format!(
                r#"{{"seed": 5, "input": {{"feed_forward": 5}}, "layers": [
                    {{"dense": {{"units": 7, "activation": {name}}}}},
                    {{"output": {{"units": 3, "loss": "mse"}}}}]}}"#
            )),
            &name,
        );
    }
}

#[test]
fn every_loss_has_its_slope() {
    for loss in Loss::ALL {
        let name = serde_json::to_string(&loss).expect("a name");
        // Each loss with outputs of the range that it is meant for.
        let activation = match loss {
            Loss::CrossEntropy | Loss::SparseCrossEntropy | Loss::KlDivergence => "softmax",
            Loss::BinaryCrossEntropy => "sigmoid",
            Loss::Poisson | Loss::Msle => "softplus",
            _ => "tanh",
        };
        check(
            network(&format!(
                r#"{{"seed": 6, "input": {{"feed_forward": 5}}, "layers": [
                    {{"dense": {{"units": 6, "activation": "tanh"}}}},
                    {{"output": {{"units": 4, "loss": {name}, "activation": "{activation}"}}}}]}}"#
            )),
            &name,
        );
    }
}

#[test]
fn all_that_graphs_are_made_of_has_its_slopes() {
    let joints = [
        r#"{"merge": {"after": ["a", "b"]}}"#,
        r#"{"element_wise": {"op": "add", "after": ["a", "b", "a"]}}"#,
        r#"{"element_wise": {"op": "subtract", "after": ["a", "b"]}}"#,
        r#"{"element_wise": {"op": "product", "after": ["a", "b", "b"]}}"#,
        r#"{"element_wise": {"op": "average", "after": ["a", "b"]}}"#,
        r#"{"element_wise": {"op": "max", "after": ["a", "b"]}}"#,
        r#"{"l2_distance": {"after": ["a", "b"]}}"#,
        r#"{"conv2d": {"filters": 2, "kernel": [2, 2], "after": ["a", "b"]}}"#,
        r#"{"stack": {"after": ["a", "b"], "name": "s"}}, {"conv2d": {"filters": 2, "kernel": [2, 2]}},
            {"unstack": {"index": 1, "of": 2}}"#,
        r#"{"stack": {"after": ["a", "b"]}}, {"dropout": {"rate": 0.3, "name": "s"}}, {"unstack": {"index": 0, "of": 2, "name": "l"}},
            {"unstack": {"index": 1, "of": 2, "after": "s", "name": "r"}}, {"element_wise": {"op": "product", "after": ["l", "r"]}}"#,
        r#"{"element_wise": {"after": ["a", "b"]}}, {"subset": {"first": 1, "count": 2}}"#,
        r#"{"element_wise": {"after": ["a", "b"]}}, {"scale": {"factor": -1.5}}, {"shift": {"value": 0.3}}"#,
        r#"{"element_wise": {"after": ["a", "b"]}}, {"l2_normalise": {}}"#,
        r#"{"element_wise": {"after": ["a", "b"]}}, {"reshape": {"to": {"image": [4, 5, 6]}}}, {"conv2d": {"filters": 2, "kernel": [2, 2]}}"#,
    ];
    for joint in joints {
        let json = format!(
            r#"{{"seed": 7, "input": {{"image": [6, 5, 2]}}, "layers": [
                {{"conv2d": {{"filters": 4, "kernel": [1, 1], "activation": "tanh", "name": "a"}}}},
                {{"conv2d": {{"filters": 4, "kernel": [3, 3], "padding": "same", "activation": "sigmoid", "name": "b", "after": "input"}}}},
                {joint}, {{"output": {{"units": 3, "activation": "softmax"}}}}]}}"#
        );
        check(network(&json), joint);
    }
}

#[test]
fn every_layer_over_volumes_has_its_slopes_and_agrees_with_the_reference() {
    let layers = [
        r#"{"conv3d": {"filters": 3, "kernel": [2, 3, 2], "stride": [1, 2, 1], "padding": "same", "activation": "tanh"}}"#,
        r#"{"conv3d": {"filters": 2, "kernel": [2, 2, 2], "dilation": [2, 1, 2], "padding": [1, 0, 1], "bias": false}}"#,
        r#"{"subsampling3d": {}}"#,
        r#"{"subsampling3d": {"pool": "average", "kernel": [2, 3, 2], "stride": [1, 1, 1], "padding": "same"}}"#,
        r#"{"subsampling3d": {"pool": {"pnorm": {"p": 3}}, "kernel": [2, 2, 1]}}"#,
        r#"{"zero_padding3d": {"padding": [1, 0, 2, 1, 0, 2]}}"#,
        r#"{"cropping3d": {"cropping": [1, 0, 1, 1, 0, 1]}}"#,
        r#"{"upsampling3d": {"size": [2, 1, 3]}}"#,
        r#"{"global_pooling": {"pool": "average"}}"#,
        r#"{"batch_norm": {"epsilon": 0.1}}, {"dropout": {"rate": 0.3}}"#,
    ];
    for layer in layers {
        let json = format!(
            r#"{{"seed": 7, "input": {{"volume": [4, 5, 4, 2]}}, "layers": [
                {{"conv3d": {{"filters": 3, "kernel": [2, 2, 1], "activation": "tanh"}}}}, {layer},
                {{"output": {{"units": 3, "activation": "softmax"}}}}]}}"#
        );
        let network = network(&json);
        crate::conformance::compare_on(&network, &batch_for(&network, 5, 3), layer);
        check(network, layer);
    }
}

#[test]
fn several_ends_add_up() {
    let json = r#"{"seed": 7, "inputs": [{"name": "left", "feed_forward": 5}, {"name": "right", "feed_forward": 3}], "layers": [
        {"dense": {"units": 6, "activation": "tanh", "after": "left", "name": "l"}},
        {"dense": {"units": 6, "activation": "tanh", "after": "right", "name": "r"}},
        {"output": {"units": 4, "after": ["l", "r"], "name": "class"}},
        {"output": {"units": 2, "loss": "mse", "after": "r", "name": "size", "loss_weight": 0.3}},
        {"loss": {"loss": "l2", "after": "l", "name": "near"}}, {"loss": {"loss": "l1", "after": "l", "name": "nearer"}}]}"#;
    check(network(json), "four ends");
}

#[test]
fn every_layer_has_its_slopes() {
    let first = r#"{"conv2d": {"filters": 4, "kernel": [3, 2], "activation": "tanh"}}"#;
    let layers = [
        r#"{"conv2d": {"filters": 5, "kernel": [3, 3], "stride": [2, 1], "padding": "same"}}"#,
        r#"{"conv2d": {"filters": 6, "kernel": [2, 3], "dilation": [2, 2], "groups": 2, "padding": [1, 2]}}"#,
        r#"{"conv2d": {"filters": 8, "kernel": [1, 1], "groups": 4, "bias": false}}"#,
        r#"{"subsampling": {"pool": "max", "kernel": [2, 2]}}"#,
        r#"{"subsampling": {"pool": "max", "kernel": [3, 2], "stride": [1, 2], "padding": "same"}}"#,
        r#"{"subsampling": {"pool": "average", "kernel": [3, 3], "stride": [2, 2], "padding": [1, 1]}}"#,
        r#"{"subsampling": {"pool": "sum", "kernel": [2, 3]}}"#,
        r#"{"subsampling": {"pool": {"pnorm": {"p": 3}}, "kernel": [2, 2]}}"#,
        r#"{"batch_norm": {}}"#,
        r#"{"batch_norm": {"learned": false, "activation": "tanh"}}"#,
        r#"{"dropout": {"rate": 0.4}}"#,
        r#"{"activation": {"function": "softmax"}}"#,
        r#"{"global_pooling": {"pool": "max"}}"#,
        r#"{"global_pooling": {"pool": "average"}}"#,
        r#"{"global_pooling": {"pool": "sum"}}"#,
        r#"{"global_pooling": {"pool": {"pnorm": {"p": 2}}}}"#,
        r#"{"local_response_normalisation": {"alpha": 0.1, "n": 3}}"#,
        r#"{"zero_padding": {"padding": [1, 0, 2, 3]}}"#,
        r#"{"dense": {"units": 6, "dropout": 0.3}}"#,
        r#"{"depthwise_conv2d": {"multiplier": 3, "kernel": [2, 3], "stride": [2, 1], "activation": "tanh"}}"#,
        r#"{"separable_conv2d": {"filters": 5, "multiplier": 2, "kernel": [3, 2], "padding": "same"}}"#,
        r#"{"conv2d_transposed": {"filters": 3, "kernel": [3, 2], "stride": [2, 3], "padding": "same"}}"#,
        r#"{"conv2d_transposed": {"filters": 3, "kernel": [3, 3], "dilation": [2, 1], "padding": [1, 1], "bias": false}}"#,
        r#"{"spatial_dropout": {"rate": 0.4}}"#,
        r#"{"augment": {"flip": "both", "rotate": 40, "shift": [1, 2], "crop": [4, 3]}}"#,
        r#"{"augment": {"flip": "horizontal", "shift": [2, 1], "outside": "edge"}}"#,
        r#"{"gaussian_dropout": {"rate": 0.4}}"#,
        r#"{"gaussian_noise": {"deviation": 0.4}}"#,
        r#"{"alpha_dropout": {"rate": 0.4}}"#,
        r#"{"upsampling2d": {"size": [2, 3]}}"#,
        r#"{"cropping2d": {"cropping": [1, 0, 1, 2]}}"#,
        r#"{"zero_padding": {"padding": [0, 1, 0, 1]}}, {"space_to_depth": {"block": 2}}, {"conv2d": {"filters": 2, "kernel": [2, 2]}}"#,
        r#"{"prelu": {"alpha": 0.3}}"#,
        r#"{"element_wise_multiplication": {"weight_init": "normal", "activation": "tanh"}}"#,
        r#"{"element_wise_multiplication": {"bias": false}}"#,
        r#"{"locally_connected2d": {"filters": 3, "kernel": [2, 3], "stride": [2, 1], "padding": [1, 1], "activation": "tanh"}}"#,
        r#"{"cropping2d": {"cropping": [1, 0, 1, 0]}}, {"space_to_batch": {"block": [2, 2]}}, {"conv2d": {"filters": 2, "kernel": [2, 1]}},
            {"batch_to_space": {}}"#,
    ];
    for layer in layers {
        check(
            network(&format!(
                r#"{{"seed": 7, "input": {{"image": [7, 6, 3]}}, "layers": [{first}, {layer},
                    {{"output": {{"units": 3, "activation": "softmax"}}}}]}}"#
            )),
            layer,
        );
    }
    check(
        network(
            r#"{"seed": 8, "input": {"feed_forward": 5}, "layers": [
                {"dense": {"units": 4}}, {"loss": {"loss": "mse", "activation": "tanh"}}]}"#,
        ),
        "loss layer",
    );
}
