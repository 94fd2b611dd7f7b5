//! The `cpu` executor against the reference, on random networks and shapes.

use paceline_model::{Batch, Model, State};
use paceline_nn::random::Counted;
use paceline_nn::{Activation, Engine, Instructions, Loss, Network, Reference};

use crate::networks::{batch_for, network};

/// Compares loss, gradient, outputs and running statistics of a batch, and of a second, shorter one that goes through another plan in the
/// same memory.
fn compare(network: &Network, examples: usize, what: &str) {
    compare_all(network, &[batch_for(network, examples, 31), batch_for(network, examples.div_ceil(2), 31)], what);
}

/// The same for one batch.
pub(crate) fn compare_on(network: &Network, batch: &Batch, what: &str) {
    compare_all(network, std::slice::from_ref(batch), what);
}

fn compare_all(network: &Network, batches: &[Batch], what: &str) {
    for instructions in Instructions::available() {
        let mut engine = Engine::with_instructions(network.clone(), instructions).poisoned();
        let mut reference = Reference::new(network.clone());
        let mut state: State = engine.initial_state();
        for batch in batches {
            let found = engine.gradient(batch, &mut state).expect("a batch that fits");
            let expected = reference.gradient(batch).expect("a batch that fits");
            close(found.sum, expected.sum, expected.sum.abs(), &format!("{what}: loss"));
            assert_eq!(found.weight, expected.weight);
            // A bias before batch norm has no gradient but the rounding of what cancels out, so the whole counts too.
            let floor = 0.1 * magnitude(&reference.gradient);
            for parameter in network.parameters() {
                let range = parameter.range.clone();
                let name = format!("{what}: gradient of {}", parameter.name);
                close_all(&state.gradient[range.clone()], &reference.gradient[range], floor, &name);
            }
            close_all(&state.running, &reference.running, 0.0, &format!("{what}: running statistics"));
            let mut outputs = Vec::new();
            engine.predict(batch, &state, &mut outputs).expect("a batch that fits");
            let (expected, _) = reference.predict(batch).expect("a batch that fits");
            close_all(&outputs, &expected, 0.0, &format!("{what}: outputs"));
        }
    }
}

fn magnitude(values: &[f64]) -> f64 {
    (values.iter().filter(|v| !v.is_nan()).map(|v| v * v).sum::<f64>() / values.len().max(1) as f64).sqrt()
}

/// Within 1e-4 of the typical magnitude: single elements may be differences of large sums.
fn close_all(found: &[f32], expected: &[f64], floor: f64, what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    let scale = magnitude(expected).max(floor);
    for (at, (f, e)) in found.iter().zip(expected).enumerate() {
        close(f64::from(*f), *e, scale.max(e.abs()), &format!("{what}[{at}]"));
    }
}

fn close(found: f64, expected: f64, scale: f64, what: &str) {
    let is_nothing = found.is_nan() && expected.is_nan();
    assert!(is_nothing || (found - expected).abs() <= 1e-4 * scale.max(1e-6), "{what}: {found} is not {expected}");
}

#[test]
fn every_activation_agrees_with_the_reference() {
    for activation in Activation::ALL {
        let name = serde_json::to_string(&activation).expect("a name");
        let json = format!(
            r#"{{"seed": 5, "input": {{"feed_forward": 19}}, "layers": [
                {{"dense": {{"units": 37, "activation": {name}}}}},
                {{"activation": {{"function": {name}}}}},
                {{"output": {{"units": 3, "loss": "mse"}}}}]}}"#
        );
        compare(&network(&json), 5, &name);
    }
}

#[test]
fn every_loss_agrees_with_the_reference() {
    for loss in Loss::ALL {
        let name = serde_json::to_string(&loss).expect("a name");
        let activation = match loss {
            Loss::CrossEntropy | Loss::SparseCrossEntropy | Loss::KlDivergence => "softmax",
            Loss::BinaryCrossEntropy => "sigmoid",
            Loss::Poisson | Loss::Msle => "softplus",
            _ => "tanh",
        };
        let json = format!(
            r#"{{"seed": 6, "input": {{"feed_forward": 5}}, "layers": [
                {{"dense": {{"units": 6, "activation": "tanh"}}}},
                {{"output": {{"units": 4, "loss": {name}, "activation": "{activation}"}}}}]}}"#
        );
        compare(&network(&json), 7, &name);
    }
}

#[test]
fn random_networks_of_every_layer_agree_with_the_reference() {
    for seed in 0..80 {
        let json = random_network(seed);
        let examples = [1, 2, 3, 5, 13, 17][seed as usize % 6];
        compare(&network(&json), examples, &format!("seed {seed}, batch {examples}, {json}"));
    }
}

/// Batch norm over two or three examples multiplies rounding by 1/√ε, so ε is larger here than its default.
/// A network of random layers with odd sizes, strides larger than kernels, padding, groups and dilation.
fn random_network(seed: u64) -> String {
    let stream = Counted::new(seed, 99, 0, 0);
    let mut drawn = 0;
    let mut pick = |n: u32| {
        drawn += 1;
        stream.bits(drawn) % n
    };
    let activations = ["relu", "tanh", "identity", "sigmoid", "leaky_relu", "gelu", "softplus"];
    let paddings = ["\"valid\"", "\"same\"", "[1, 1]"];
    let mut layers = Vec::new();
    let channels = 1 + pick(5);
    let (height, width) = (9 + pick(9), 9 + pick(9));
    for _ in 0..1 + pick(3) {
        let activation = activations[pick(7) as usize];
        let padding = paddings[pick(3) as usize];
        let filters = [1, 3, 6, 17, 35, 50][pick(6) as usize];
        let (kernel, stride) = ([1 + pick(3), 1 + pick(3)], [1 + pick(3), 1 + pick(3)]);
        layers.push(match pick(21) {
            0..=2 => format!(
                r#"{{"conv2d": {{"filters": {filters}, "kernel": {kernel:?}, "stride": {stride:?}, "padding": {padding}, "activation": "{activation}"}}}}"#
            ),
            3 => format!(
                r#"{{"conv2d": {{"filters": {}, "kernel": [2, 2], "dilation": {stride:?}, "padding": "same", "groups": {}}}}}"#,
                channels * 3, if layers.is_empty() { channels } else { 1 }
            ),
            4 => format!(r#"{{"subsampling": {{"pool": "max", "kernel": [2, 2], "stride": {stride:?}, "padding": "same"}}}}"#),
            5 => r#"{"subsampling": {"pool": "average", "kernel": [3, 2], "stride": [1, 1], "padding": "same"}}"#.into(),
            6 => r#"{"subsampling": {"pool": "sum", "kernel": [2, 3], "stride": [2, 1], "padding": [1, 1]}}"#.into(),
            7 => r#"{"subsampling": {"pool": {"pnorm": {"p": 3}}, "kernel": [2, 2]}}"#.into(),
            8 => r#"{"zero_padding": {"padding": [1, 0, 2, 1]}}"#.into(),
            9 => r#"{"dropout": {"rate": 0.25}}"#.into(),
            10 => format!(r#"{{"batch_norm": {{"epsilon": 0.01, "activation": "{activation}"}}}}"#),
            11 => r#"{"local_response_normalisation": {"alpha": 0.05}}"#.into(),
            12 => format!(r#"{{"depthwise_conv2d": {{"multiplier": 2, "kernel": {kernel:?}, "padding": "same"}}}}"#),
            13 => format!(
                r#"{{"separable_conv2d": {{"filters": {filters}, "kernel": {kernel:?}, "padding": "same", "activation": "{activation}"}}}}"#
            ),
            14 => format!(r#"{{"conv2d_transposed": {{"filters": 3, "kernel": {kernel:?}, "stride": [2, 1], "padding": "same"}}}}, {{"spatial_dropout": {{"rate": 0.3}}}}"#),
            15 => r#"{"gaussian_dropout": {"rate": 0.3}}, {"gaussian_noise": {"deviation": 0.3}}"#.into(),
            16 => r#"{"alpha_dropout": {"rate": 0.3}}"#.into(),
            17 => r#"{"upsampling2d": {"size": [2, 1]}}, {"cropping2d": {"cropping": [1, 0, 1, 0]}}"#.into(),
            18 => r#"{"prelu": {}}"#.into(),
            19 => format!(r#"{{"locally_connected2d": {{"filters": 3, "kernel": {kernel:?}, "stride": {stride:?}, "padding": "same"}}}}"#),
            _ => r#"{"element_wise_multiplication": {}}"#.into(),
        });
    }
    if pick(2) == 0 {
        let pool = ["\"average\"", "\"max\"", "\"sum\"", r#"{"pnorm": {"p": 2}}"#][pick(4) as usize];
        layers.push(format!(r#"{{"global_pooling": {{"pool": {pool}}}}}"#));
    }
    if pick(2) == 0 {
        layers.push(format!(
            r#"{{"dense": {{"units": {}, "dropout": 0.3, "activation": "{}"}}}}"#,
            1 + pick(90),
            activations[pick(7) as usize]
        ));
        layers.push(r#"{"batch_norm": {"epsilon": 0.1}}"#.into());
    }
    layers.push(format!(r#"{{"output": {{"units": {}, "activation": "softmax"}}}}"#, 2 + pick(40)));
    format!(
        r#"{{"seed": {seed}, "input": {{"image": [{height}, {width}, {channels}]}}, "layers": [{}]}}"#,
        layers.join(", ")
    )
}

#[test]
fn random_graphs_agree_with_the_reference() {
    for seed in 0..80 {
        let json = random_graph(seed);
        let examples = [1, 2, 3, 5, 13, 17][seed as usize % 6];
        compare(&network(&json), examples, &format!("seed {seed}, batch {examples}, {json}"));
    }
}

/// A network of random layers, each after one or two of those before it; what nobody has read goes into the output.
fn random_graph(seed: u64) -> String {
    let stream = Counted::new(seed, 98, 0, 0);
    let mut drawn = 0;
    let mut pick = |n: usize| {
        drawn += 1;
        stream.bits(drawn) as usize % n
    };
    // Names and channels of what is there; all images have one size.
    let mut values = vec![("input".to_owned(), 2), ("other".to_owned(), 3)];
    let (mut unread, mut layers) = (vec!["input".to_owned(), "other".to_owned()], Vec::new());
    for at in 0..3 + pick(7) {
        let (one, channels) = values[pick(values.len())].clone();
        let (other, others) = values[pick(values.len())].clone();
        let filters = [1, 4, 17][pick(3)];
        let (op, kernel) = (["add", "subtract", "product", "average", "max"][pick(5)], [1 + pick(3), 1 + pick(3)]);
        let activation = ["relu", "tanh", "identity", "sigmoid"][pick(4)];
        let (kind, settings, reads, channels) = match pick(9) {
            0 | 1 => (
                "conv2d",
                format!(
                    r#""filters": {filters}, "kernel": {kernel:?}, "padding": "same", "activation": "{activation}""#
                ),
                vec![one],
                filters,
            ),
            2 | 3 if channels == others => ("element_wise", format!(r#""op": "{op}""#), vec![one, other], channels),
            2 | 3 => ("element_wise", format!(r#""op": "{op}""#), vec![one.clone(), one], channels),
            4 => ("merge", String::new(), vec![one, other], channels + others),
            5 => ("activation", format!(r#""function": "{activation}""#), vec![one], channels),
            6 => ("batch_norm", format!(r#""epsilon": 0.1, "activation": "{activation}""#), vec![one], channels),
            7 => ("scale", r#""factor": 0.7"#.to_owned(), vec![one], channels),
            _ => ("dropout", r#""rate": 0.3"#.to_owned(), vec![one], channels),
        };
        let name = format!("v{at}");
        unread.retain(|name| !reads.contains(name));
        unread.push(name.clone());
        let comma = if settings.is_empty() { "" } else { ", " };
        layers.push(format!(r#"{{"{kind}": {{{settings}{comma}"name": "{name}", "after": {reads:?}}}}}"#));
        values.push((name, channels));
    }
    layers.push(format!(r#"{{"output": {{"units": {}, "activation": "softmax", "after": {unread:?}}}}}"#, 2 + pick(9)));
    format!(
        r#"{{"seed": {seed}, "inputs": [{{"name": "input", "image": [5, 7, 2]}}, {{"name": "other", "image": [5, 7, 3]}}], "layers": [{}]}}"#,
        layers.join(", ")
    )
}

#[test]
fn several_inputs_and_ends_agree_with_the_reference() {
    let json = r#"{"seed": 7, "inputs": [{"name": "left", "image": [5, 5, 2]}, {"name": "right", "feed_forward": 3}], "layers": [
        {"conv2d": {"filters": 6, "kernel": [3, 3], "activation": "relu", "after": "left", "name": "l"}},
        {"dense": {"units": 6, "activation": "tanh", "after": "right", "name": "r"}},
        {"global_pooling": {"after": "l", "name": "p"}}, {"element_wise": {"op": "product", "after": ["p", "r"]}},
        {"output": {"units": 4, "name": "class"}},
        {"output": {"units": 1, "loss": "binary_cross_entropy", "after": "r", "name": "size", "loss_weight": 0.3}},
        {"loss": {"loss": "mse", "after": "p"}}]}"#;
    compare(&network(json), 7, "several inputs and ends");
}

/// Images are worked on in blocks of as many as a vector has lanes; the last block of each batch is not whole.
#[test]
fn convolutions_over_tiles_agree_with_the_reference() {
    for (kernel, padding) in [(3, "same"), (4, "same"), (5, "valid")] {
        let json = format!(
            r#"{{"seed": 8, "input": {{"image": [13, 11, 6]}}, "layers": [
                {{"conv2d": {{"filters": 19, "kernel": [{kernel}, {kernel}], "padding": "{padding}", "activation": "relu"}}}},
                {{"conv2d": {{"filters": 33, "kernel": [{kernel}, {kernel}], "padding": "{padding}", "activation": "tanh"}}}},
                {{"global_pooling": {{"pool": "average"}}}}, {{"output": {{"units": 3, "activation": "softmax"}}}}]}}"#
        );
        compare(&network(&json), 29, &format!("window of {kernel}"));
    }
}

#[test]
fn batch_norm_with_its_default_epsilon_agrees_on_a_large_batch() {
    let json = r#"{"seed": 3, "input": {"image": [6, 5, 3]}, "layers": [
        {"conv2d": {"filters": 17, "kernel": [3, 3], "padding": "same"}}, {"batch_norm": {"activation": "relu"}},
        {"loss": {"loss": "mse", "activation": "sigmoid"}}]}"#;
    compare(&network(json), 64, "batch norm");
}

#[test]
fn a_nan_comes_through_pooling_and_every_kind_of_cut() {
    let layers = [
        r#"{"subsampling": {"pool": "max", "kernel": [2, 2]}}"#.to_owned(),
        r#"{"global_pooling": {"pool": "max"}}"#.to_owned(),
        r#"{"dense": {"units": 5, "activation": "relu"}}"#.to_owned(),
    ];
    let cuts = ["relu", "relu6", "hard_tanh", "hard_sigmoid", "rectified_tanh", "leaky_relu"];
    let cuts = cuts.map(|name| format!(r#"{{"activation": {{"function": "{name}"}}}}"#));
    for layer in layers.iter().chain(&cuts) {
        let json = format!(
            r#"{{"input": {{"image": [4, 4, 17]}}, "layers": [{layer}, {{"output": {{"units": 2, "loss": "mse"}}}}]}}"#
        );
        let network = network(&json);
        // Once in the first cell of a window, once in the last.
        for at in [0, 17 * 5] {
            let mut batch = batch_for(&network, 1, 5);
            batch.features[at] = f32::NAN;
            for instructions in Instructions::available() {
                let mut engine = Engine::with_instructions(network.clone(), instructions);
                let (state, mut outputs) = (engine.initial_state(), Vec::new());
                engine.predict(&batch, &state, &mut outputs).expect("a batch that fits");
                assert!(outputs.iter().all(|o| o.is_nan()), "{layer}, {instructions:?}: {outputs:?}");
            }
            let (outputs, _) = Reference::new(network.clone()).predict(&batch).expect("a batch that fits");
            assert!(outputs.iter().all(|o| o.is_nan()), "{layer}, reference: {outputs:?}");
        }
    }
}
