//! Every layer, activation, loss and normalisation against finite differences, on the `f64` reference.

use paceline_nn::{Activation, Loss, Network, Reference};

use crate::networks::{batch_for, network};

/// Compares the gradient with central differences at up to 60 parameters spread over the layout.
fn check(network: Network, what: &str) {
    let batch = batch_for(&network, 4, 11);
    let mut reference = Reference::new(network);
    reference.gradient(&batch).expect("a batch that fits");
    let gradient = reference.gradient.clone();
    let count = gradient.len();
    assert!(gradient.iter().any(|g| g.abs() > 1e-9), "{what}: no gradient at all");
    let step = 1e-5;
    for at in (0..count).step_by((count / 60).max(1)) {
        let kept = reference.parameters[at];
        let mut loss = |value: f64| {
            reference.parameters[at] = value;
            reference.gradient(&batch).expect("a batch that fits").sum
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
