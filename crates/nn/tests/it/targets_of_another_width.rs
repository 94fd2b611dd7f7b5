//! Losses whose targets are other numbers than the outputs: mixtures of distributions, and boxes around things.

use paceline_model::{Batch, Targets};
use paceline_nn::{Loss, Network, NetworkConfig, Reference, Shape};

use crate::networks::{batch_for, network};

fn with_targets(network: &Network, examples: usize, width: usize, values: Vec<f32>) -> Batch {
    let mut batch = batch_for(network, examples, 5);
    batch.targets = Targets::Values { width, values };
    batch
}

fn mixture() -> Network {
    network(
        r#"{"seed": 2, "input": {"feed_forward": 4}, "layers": [{"dense": {"units": 6, "activation": "tanh"}},
            {"output": {"units": 12, "loss": {"mixture_density": {"gaussians": 3}}}}]}"#,
    )
}

#[test]
fn a_mixture_says_how_likely_targets_are() {
    let network = mixture();
    let batch = with_targets(&network, 4, 2, vec![0.5, -1.0, 2.0, 0.1, 0.0, 0.3, -0.7, 1.5]);
    crate::gradient_check::check_on(network.clone(), &batch, "a mixture");
    crate::conformance::compare_on(&network, &batch, "a mixture");
    let mut reference = Reference::new(network.clone());
    let (outputs, loss) = reference.predict(&batch).expect("a batch that fits");
    let Targets::Values { values, .. } = &batch.targets else { unreachable!() };
    let weights = batch.weights.as_ref().expect("weights");
    let mut expected = 0.0;
    for ((y, t), weight) in outputs.chunks_exact(12).zip(values.chunks_exact(2)).zip(weights) {
        let all: f64 = y[..3].iter().map(|z| z.exp()).sum();
        let density = |k: usize| {
            let deviation = y[3 + k].exp();
            let one = |at: usize| {
                let away = (f64::from(t[at]) - y[6 + 2 * k + at]) / deviation;
                (-0.5 * away * away).exp() / (deviation * (2.0 * std::f64::consts::PI).sqrt())
            };
            y[k].exp() / all * one(0) * one(1)
        };
        expected -= f64::from(*weight) * (0..3).map(density).sum::<f64>().ln();
    }
    let loss = loss.expect("targets").sum;
    assert!((loss - expected).abs() < 1e-9, "{loss}, not {expected}");
}

#[test]
fn what_a_mixture_expects_is_its_mean() {
    let loss = Loss::MixtureDensity { gaussians: 2 };
    let shape = Shape::Flat(6);
    assert_eq!(loss.targets(shape), Some(1));
    let told = loss.told(shape, &[0.0, 3f32.ln(), 9.0, 9.0, 4.0, 8.0]).expect("other numbers");
    assert!((told[0] - 7.0).abs() < 1e-5, "{told:?}");
    assert_eq!(Loss::Mse.told(shape, &[0.0; 6]), None);
}

#[test]
fn every_step_of_a_sequence_may_be_a_mixture() {
    let network = network(
        r#"{"seed": 2, "input": {"sequence": [3, 2]}, "layers": [{"lstm": {"units": 4}},
            {"output": {"units": 6, "loss": {"mixture_density": {"gaussians": 2}}}}]}"#,
    );
    let batch = with_targets(&network, 2, 3, vec![0.5, -1.0, 2.0, f32::NAN, 0.0, 0.3]);
    crate::gradient_check::check_on(network.clone(), &batch, "mixtures");
    crate::conformance::compare_on(&network, &batch, "mixtures");
}

/// Two cells by three, with two boxes each and two classes.
fn finder() -> Network {
    network(
        r#"{"seed": 4, "input": {"image": [2, 3, 2]}, "layers": [{"conv2d": {"filters": 14, "kernel": [1, 1]}},
            {"yolo2_output": {"boxes": [[1.0, 1.5], [2.0, 0.5]]}}]}"#,
    )
}

/// By cell: the edges of a box and its class.
fn things(boxes: &[(usize, [f32; 4], usize)]) -> Vec<f32> {
    let mut target = vec![0.0; 2 * 3 * 6];
    for (cell, edges, class) in boxes {
        target[cell * 6..][..4].copy_from_slice(edges);
        target[cell * 6 + 4 + class] = 1.0;
    }
    target
}

#[test]
fn boxes_have_the_slopes_of_their_loss() {
    let network = finder();
    let first = things(&[(1, [0.9, -0.2, 2.3, 0.8], 0), (5, [1.8, 1.1, 2.9, 2.0], 1)]);
    let second = things(&[(3, [-0.4, 0.9, 0.8, 2.4], 1)]);
    let batch = with_targets(&network, 3, 36, [first, second, things(&[])].concat());
    crate::gradient_check::check_on(network.clone(), &batch, "boxes");
    crate::conformance::compare_on(&network, &batch, "boxes");
}

#[test]
fn the_loss_of_boxes_is_what_the_paper_says() {
    // One cell with two boxes: the first lies where the thing is, the second away from it.
    let loss = Loss::Boxes(paceline_nn::BoxLoss { boxes: 2, coordinates: 5.0, no_object: 0.5 });
    let shape = Shape::Image { height: 1, width: 1, channels: 14 };
    assert_eq!(loss.targets(shape), Some(6));
    let output = [0.5, 0.5, 1.0, 1.0, 0.8, 0.7, 0.3, 0.1, 0.9, 0.25, 0.25, 0.4, 0.5, 0.5f64];
    // As wide, half as high: they share a half.
    let target = [0.0, 0.25, 1.0, 0.75, 1.0, 0.0];
    let mut slope = [0.0; 14];
    let found = loss.row(&target, &output, &mut slope);
    let root = 1.0 - 0.5f64.sqrt();
    let expected = 5.0 * root * root + 0.3 * 0.3 + 2.0 * 0.3 * 0.3 + 0.5 * 0.4 * 0.4;
    assert!((found - expected).abs() < 1e-12, "{found}, not {expected}");
    // Told as a target: the surest box of the cell.
    let told = loss.told(shape, &output.map(|y| y as f32)).expect("other numbers");
    assert_eq!(told, [0.0, 0.0, 1.0, 1.0, 0.7, 0.3]);
    assert_eq!(loss.told(shape, &[0.1; 14]), Some(vec![0.0; 6]), "nothing that it is sure of");
}

#[test]
fn what_cannot_be_judged_is_refused() {
    let refused = |input: &str, layer: &str, part: &str| {
        let json = format!(r#"{{"input": {input}, "layers": [{layer}]}}"#);
        let error = Network::new(NetworkConfig::from_json(&json).expect("a network")).expect_err(layer).to_string();
        assert!(error.contains(part), "{layer}: {error}");
    };
    let rows = r#"{"feed_forward": 4}"#;
    refused(
        rows,
        r#"{"output": {"units": 7, "loss": {"mixture_density": {"gaussians": 3}}}}"#,
        "judges 3 · (2 + targets) outputs",
    );
    refused(rows, r#"{"output": {"units": 6, "loss": {"mixture_density": {"gaussians": 3}}}}"#, "as many means");
    refused(rows, r#"{"yolo2_output": {"boxes": [[1, 1]]}}"#, "an image");
    let image = r#"{"image": [2, 2, 10]}"#;
    refused(image, r#"{"yolo2_output": {"boxes": []}}"#, "at least one width and height");
    refused(image, r#"{"yolo2_output": {"boxes": [[1, 1], [1, 2]]}}"#, "a multiple of 2 and more than 10");
    refused(image, r#"{"yolo2_output": {"boxes": [[1, 1]], "no_object": -1}}"#, "`no_object` must be 0 or more");
    let mut engine = paceline_nn::Engine::new(mixture());
    let mut batch = batch_for(&mixture(), 2, 1);
    batch.targets = Targets::Classes(vec![0, 1]);
    let mut state = paceline_model::Model::initial_state(&engine);
    let error = paceline_model::Model::gradient(&mut engine, &batch, &mut state).expect_err("classes").to_string();
    assert!(error.contains("2") && error.contains("targets per example"), "{error}");
}
