//! Capsules that agree on what they see.

use paceline_nn::{Network, NetworkConfig, Reference};

use crate::networks::{batch_for, network};

fn with(bias: bool, routings: usize) -> Network {
    network(&format!(
        r#"{{"seed": 3, "input": {{"image": [5, 4, 2]}}, "layers": [
            {{"primary_capsules": {{"capsules": 2, "size": 3, "kernel": [3, 2], "stride": [2, 1]}}}},
            {{"capsules": {{"capsules": 4, "size": 5, "routings": {routings}, "bias": {bias}, "weight_init": "relu"}}}},
            "capsule_strength", {{"loss": {{"loss": "mse"}}}}]}}"#
    ))
}

#[test]
fn they_have_their_slopes_through_every_round() {
    for (bias, routings) in [(false, 1), (false, 3), (true, 2)] {
        let network = with(bias, routings);
        let batch = batch_for(&network, 3, 11);
        crate::gradient_check::check_on(network.clone(), &batch, "capsules");
        crate::conformance::compare_on(&network, &batch, "capsules");
    }
}

/// Shorter than 1, and as it points.
fn squash(x: &[f64]) -> Vec<f64> {
    let n = x.iter().map(|x| x * x).sum::<f64>().sqrt();
    x.iter().map(|x| x * n / (1.0 + n * n)).collect()
}

#[test]
fn who_agrees_is_listened_to() {
    let network = with(true, 3);
    let batch = batch_for(&network, 2, 7);
    let mut reference = Reference::new(network.clone());
    let parameters = reference.parameters.clone();
    let of = |name: &str| &parameters[network.parameters().iter().find(|p| p.name == name).expect(name).range.clone()];
    let (kernel, weights, bias) = (of("0.weight"), of("1.weight"), of("1.bias"));
    let (outputs, _) = reference.predict(&batch).expect("a batch that fits");
    for (row, found) in outputs.chunks_exact(4).enumerate() {
        let pixel = |y: usize, x: usize, c: usize| f64::from(batch.row(row)[(y * 4 + x) * 2 + c]);
        // Two rows and three columns of two capsules.
        let mut below = Vec::new();
        for place in 0..6 {
            let (top, left) = (2 * (place / 3), place % 3);
            let filter = |filter: usize| -> f64 {
                let cells = (0..3).flat_map(|y| (0..2).flat_map(move |x| (0..2).map(move |c| (y, x, c))));
                cells.map(|(y, x, c)| pixel(top + y, left + x, c) * kernel[((y * 2 + x) * 2 + c) * 6 + filter]).sum()
            };
            let all: Vec<f64> = (0..6).map(filter).collect();
            below.extend(all.chunks_exact(3).map(squash));
        }
        let foretold = |i: usize, j: usize| -> Vec<f64> {
            (0..5).map(|e| (0..3).map(|d| below[i][d] * weights[(i * 3 + d) * 20 + j * 5 + e]).sum()).collect()
        };
        let mut agreed = vec![[0.0f64; 4]; below.len()];
        let mut said = Vec::new();
        for _ in 0..3 {
            said = (0..4)
                .map(|j| {
                    let share = |i: usize| agreed[i][j].exp() / agreed[i].iter().map(|b| b.exp()).sum::<f64>();
                    let heard = |e: usize| {
                        bias[j * 5 + e] + (0..below.len()).map(|i| share(i) * foretold(i, j)[e]).sum::<f64>()
                    };
                    squash(&(0..5).map(heard).collect::<Vec<_>>())
                })
                .collect::<Vec<_>>();
            for (i, agreed) in agreed.iter_mut().enumerate() {
                for (j, agreed) in agreed.iter_mut().enumerate() {
                    *agreed += foretold(i, j).iter().zip(&said[j]).map(|(u, v)| u * v).sum::<f64>();
                }
            }
        }
        for (found, said) in found.iter().zip(&said) {
            let length = said.iter().map(|x| x * x).sum::<f64>().sqrt();
            assert!((found - length).abs() < 1e-12, "{found}, not {length}");
        }
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    let refused = |input: &str, layers: &str, part: &str| {
        let json = format!(r#"{{"input": {input}, "layers": [{layers}, {{"output": {{"units": 2}}}}]}}"#);
        let error = Network::new(NetworkConfig::from_json(&json).expect("a network")).expect_err(layers).to_string();
        assert!(error.contains(part), "{layers}: {error}");
    };
    let image = r#"{"image": [9, 9, 1]}"#;
    refused(image, r#"{"capsules": {"capsules": 2, "size": 3}}"#, "a sequence");
    refused(image, r#"{"primary_capsules": {"capsules": 0, "size": 3}}"#, "must be at least 1");
    refused(
        image,
        r#"{"primary_capsules": {"capsules": 2, "size": 3}}, {"capsules": {"capsules": 2, "size": 3, "routings": 0}}"#,
        "must be at least 1",
    );
    let far = "[9223372036854775807, 0]";
    for layer in [
        format!(r#"{{"primary_capsules": {{"capsules": 2, "size": 3, "kernel": [3, 3], "padding": {far}}}}}"#),
        format!(r#"{{"locally_connected2d": {{"filters": 2, "kernel": [3, 3], "padding": {far}}}}}"#),
        format!(r#"{{"conv2d": {{"filters": 2, "kernel": [3, 3], "padding": {far}}}}}"#),
    ] {
        refused(image, &layer, "with its padding the image is more than");
    }
    refused(r#"{"sequence": [4, 2]}"#, r#""capsule_strength""#, "no sequence with gaps");
}
