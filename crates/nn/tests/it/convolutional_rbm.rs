//! A Boltzmann machine over images learns what the paper says, by other loops than those of the kernels.

use paceline_model::{Batch, Model, PartwiseModel, Progress, Targets};
use paceline_nn::config::{ConvolutionalDeepBeliefNet, ConvolutionalRbm, NetworkConfig, Output, Sparsity, Visible};
use paceline_nn::random::Counted;
use paceline_nn::{Activation, Engine, Loss, Network, Reference, Updater};

const IMAGE: [usize; 3] = [6, 5, 2];
const KERNEL: [usize; 2] = [3, 2];
const FILTERS: usize = 3;
/// What the kernel leaves of the image.
const HIDDEN: [usize; 2] = [4, 4];
/// Blocks of so many.
const POOL: [usize; 2] = [2, 4];

fn machine(layer: ConvolutionalRbm, pretrains: bool) -> Network {
    let [height, width, channels] = IMAGE;
    let config = NetworkConfig::image(height, width, channels)
        .seed(5)
        .updater(Updater::sgd(0.05))
        .layer(layer.pool(POOL))
        .layer(Output::new(3, Loss::CrossEntropy).activation(Activation::Softmax));
    Network::new(if pretrains { config.pretraining(0) } else { config }).expect("a network")
}

fn images(examples: usize) -> Batch {
    let width = IMAGE.iter().product();
    let pixel = |at: usize| Counted::new(9, 1, 0, 0).uniform(at as u32);
    Batch {
        features: (0..examples * width).map(pixel).collect(),
        width,
        targets: Targets::None,
        weights: Some((0..examples).map(|at| 0.5 + at as f32 / 4.0).collect()),
        indices: (10..10 + examples as u64).collect(),
        epoch: 3,
    }
}

/// Every place of a picture of so many rows, columns and channels, and its number.
fn places([rows, columns, channels]: [usize; 3]) -> impl Iterator<Item = ([usize; 3], usize)> {
    let place = move |at: usize| [at / channels / columns, at / channels % columns, at % channels];
    (0..rows * columns * channels).map(move |at| (place(at), at))
}

const UNITS: [usize; 3] = [HIDDEN[0], HIDDEN[1], FILTERS];

struct Rules<'a> {
    visible: Visible,
    k: usize,
    sparsity: Option<Sparsity>,
    weights: &'a [f64],
    bias: &'a [f64],
    visible_bias: &'a [f64],
}

impl Rules<'_> {
    /// The weight between a pixel and a hidden unit, if the one sees the other.
    fn between([y, x, channel]: [usize; 3], [row, column, filter]: [usize; 3]) -> Option<usize> {
        let (down, right) = (y.checked_sub(row)?, x.checked_sub(column)?);
        let sees = down < KERNEL[0] && right < KERNEL[1];
        sees.then(|| ((down * KERNEL[1] + right) * IMAGE[2] + channel) * FILTERS + filter)
    }

    fn up(&self, v: &[f64]) -> Vec<f64> {
        let sum = |unit: [usize; 3]| -> f64 {
            places(IMAGE)
                .filter_map(|(pixel, at)| Self::between(pixel, unit).map(|weight| v[at] * self.weights[weight]))
                .sum()
        };
        places(UNITS).map(|(unit, _)| self.bias[unit[2]] + sum(unit)).collect()
    }

    fn block([row, column, filter]: [usize; 3]) -> [usize; 3] {
        [row / POOL[0], column / POOL[1], filter]
    }

    fn chances(&self, z: &[f64]) -> Vec<f64> {
        let sum = |block| -> f64 {
            places(UNITS).filter(|(unit, _)| Self::block(*unit) == block).map(|(_, at)| z[at].exp()).sum()
        };
        places(UNITS).map(|(unit, at)| z[at].exp() / (1.0 + sum(Self::block(unit)))).collect()
    }

    fn sample(&self, z: &[f64], stream: Counted) -> Vec<f64> {
        let chances = self.chances(z);
        let mut on = vec![0.0; z.len()];
        let blocks = [HIDDEN[0] / POOL[0], HIDDEN[1] / POOL[1], FILTERS];
        for (block, number) in places(blocks) {
            let drawn = f64::from(stream.uniform(number as u32));
            let mut below = 0.0;
            for (_, at) in places(UNITS).filter(|(unit, _)| Self::block(*unit) == block) {
                on[at] = f64::from(below <= drawn && drawn < below + chances[at]);
                below += chances[at];
            }
        }
        on
    }

    /// What is visible, as it is shown to the hidden units, and its mean.
    fn down(&self, h: &[f64], stream: Counted) -> [Vec<f64>; 2] {
        let sum = |pixel: [usize; 3]| -> f64 {
            places(UNITS)
                .filter_map(|(unit, at)| Self::between(pixel, unit).map(|weight| h[at] * self.weights[weight]))
                .sum()
        };
        let u: Vec<f64> = places(IMAGE).map(|(pixel, _)| self.visible_bias[pixel[2]] + sum(pixel)).collect();
        match self.visible {
            Visible::Binary => [0, 1].map(|_| u.iter().map(|u| 1.0 / (1.0 + (-u).exp())).collect()),
            Visible::Gaussian => [u.iter().enumerate().map(|(at, u)| u + stream.normal(at as u32)).collect(), u],
            _ => [u.clone(), u],
        }
    }

    /// Adds to the gradient what one half of the difference says.
    fn pull(&self, v: &[f64], slopes: &[f64], gradient: &mut [Vec<f64>; 3]) {
        for (unit, at) in places(UNITS) {
            gradient[1][unit[2]] += slopes[at];
            for (pixel, from) in places(IMAGE) {
                if let Some(weight) = Self::between(pixel, unit) {
                    gradient[0][weight] += slopes[at] * v[from];
                }
            }
        }
    }

    fn add(&self, v: &[f64], weight: f64, stream: Counted, gradient: &mut [Vec<f64>; 3]) {
        let (mut shown, mut mean, mut z) = (v.to_vec(), v.to_vec(), self.up(v));
        let first = self.chances(&z);
        let Sparsity { target, cost } = self.sparsity.unwrap_or(Sparsity::new(0.0, 0.0));
        let (target, cost) = (f64::from(target), f64::from(cost));
        let slopes: Vec<f64> = first.iter().map(|p| -weight * p).collect();
        self.pull(v, &slopes, gradient);
        for (unit, at) in places(UNITS) {
            gradient[1][unit[2]] += weight * cost * (first[at] - target);
        }
        for step in 0..self.k as u64 {
            let h = self.sample(&z, stream.draw(2 * step + 1));
            [shown, mean] = self.down(&h, stream.draw(2 * step + 2));
            z = self.up(&shown);
        }
        let slopes: Vec<f64> = self.chances(&z).iter().map(|p| weight * p).collect();
        self.pull(&shown, &slopes, gradient);
        for (pixel, at) in places(IMAGE) {
            gradient[2][pixel[2]] += weight * (mean[at] - v[at]);
        }
    }
}

#[test]
fn contrastive_divergence_over_images_is_what_the_paper_says() {
    let sparse = Some(Sparsity::new(0.1, 0.7));
    let cases = [
        (Visible::Binary, 1, None),
        (Visible::Binary, 3, sparse),
        (Visible::Gaussian, 2, None),
        (Visible::Linear, 1, sparse),
    ];
    for (visible, k, sparsity) in cases {
        let layer = ConvolutionalRbm { sparsity, ..ConvolutionalRbm::new(FILTERS, KERNEL) };
        let network = machine(layer.visible(visible).k(k), true);
        let batch = images(5);
        let mut reference = Reference::new(network.clone());
        let moved = |at: usize| 0.3 * Counted::new(1, 1, 1, 1).normal(at as u32);
        reference.parameters.iter_mut().enumerate().for_each(|(at, value)| *value = moved(at));
        reference.gradient(&batch).expect("features are enough");
        let ranges = [0, 1, 2].map(|at: usize| network.parameters()[at].range.clone());
        let [weights, bias, visible_bias] = ranges.each_ref().map(|range| &reference.parameters[range.clone()]);
        let rules = Rules { visible, k, sparsity, weights, bias, visible_bias };
        let mut expected = ranges.each_ref().map(|range| vec![0.0; range.len()]);
        for (row, v) in batch.features.chunks_exact(batch.width).enumerate() {
            let v: Vec<f64> = v.iter().map(|v| f64::from(*v)).collect();
            let weight = f64::from(batch.weights.as_ref().expect("weights")[row]);
            rules.add(&v, weight, Counted::new(5, 1 << 32, batch.epoch, batch.indices[row]), &mut expected);
        }
        let found = ranges.map(|range| reference.gradient[range].to_vec());
        for (found, expected) in found.iter().flatten().zip(expected.iter().flatten()) {
            assert!((found - expected).abs() < 1e-6, "{visible:?}, k = {k}: {found}, expected {expected}");
        }
        crate::conformance::compare_on(&network, &images(17), "a convolutional machine");
    }
}

#[test]
fn to_other_layers_it_gives_the_chances_of_its_blocks() {
    let network = machine(ConvolutionalRbm::new(FILTERS, KERNEL), false);
    let batch = Batch { targets: Targets::Classes(vec![0, 2, 1, 1]), ..images(4) };
    crate::gradient_check::check_on(network.clone(), &batch, "a convolutional machine");
    let batch = Batch { targets: Targets::Classes((0..17).map(|at| at % 3).collect()), ..images(17) };
    crate::conformance::compare_on(&network, &batch, "a convolutional machine");
}

#[test]
fn it_learns_what_goes_in_and_gives_it_back() {
    // A bar that lies anywhere in the image.
    let [height, width, channels] = IMAGE;
    let bars = (0..40).flat_map(|at| {
        places([height, width, channels])
            .map(move |([_, x, channel], _)| f32::from(u8::from(x % 5 == at % 5 && channel == 0)))
    });
    let mut batch = Batch { features: bars.collect(), weights: None, indices: (0..40).collect(), ..images(40) };
    let mut engine = Engine::new(machine(ConvolutionalRbm::new(6, KERNEL), true)).poisoned();
    let mut state = engine.initial_state();
    let mut given_back = Vec::new();
    let first = engine.predict(&batch, &state, &mut given_back).expect("features are enough").expect("a loss").mean();
    for iteration in 0..600 {
        batch.epoch = iteration;
        engine.train(&batch, &mut state, Progress { iteration, epoch: iteration }).expect("features are enough");
    }
    let last = engine.predict(&batch, &state, &mut given_back).expect("features are enough").expect("a loss").mean();
    assert!(last < first / 4.0, "{first} before, {last} behind");
}

#[test]
fn a_net_of_them_is_read_and_bad_ones_are_refused() {
    let read = |layers: &str| {
        let json = format!(r#"{{"seed": 1, "input": {{"flat_image": [28, 28, 1]}}, "layers": {layers}}}"#);
        NetworkConfig::from_json(&json).and_then(Network::new).map_err(|error| error.to_string())
    };
    let net = r#"{"cdbn": {"filters": [24, 40], "kernels": [[9, 9], [5, 5]], "hidden": [100], "outputs": 10}}"#;
    let kinds: Vec<&str> = read(net).expect("a net").layers().iter().map(|info| info.kind).collect();
    assert_eq!(kinds, ["convolutional_rbm", "convolutional_rbm", "rbm", "output"]);
    let built = ConvolutionalDeepBeliefNet::new([(24, [9, 9]), (40, [5, 5])]).hidden([100]).outputs(10).layers();
    let config = NetworkConfig::flat_image(28, 28, 1).seed(1);
    let config = built.into_iter().fold(config, NetworkConfig::layer);
    assert_eq!(Network::new(config).expect("a net").config(), read(net).expect("a net").config());
    let refused = |layers: &str, expected: &str| {
        let found = read(layers).expect_err(layers);
        assert!(found.contains(expected), "{found}");
    };
    refused(r#"{"cdbn": {"filters": [24, 40], "kernels": [[9, 9]]}}"#, "a kernel for each of its 2 `filters`, found 1");
    let machine = |settings: &str| {
        format!(r#"[{{"convolutional_rbm": {{"filters": 4, {settings}}}}}, {{"output": {{"units": 2}}}}]"#)
    };
    refused(&machine(r#""kernel": [8, 9]"#), "`pool` of 2×2 must divide the 21×20 that its kernel of 8×9 leaves");
    refused(&machine(r#""kernel": [9, 9], "pool": [0, 2]"#), "`pool` of 0×2 must divide");
    refused(&machine(r#""kernel": [9, 9], "visible": "softmax""#), "pixels are no classes");
    refused(&machine(r#""kernel": [30, 30]"#), "at least 30×30");
    refused(&machine(r#""kernel": [9, 9], "k": 0"#), "`k` must be at least 1");
    refused(&machine(r#""kernel": [9, 9], "sparsity": {"target": 2}"#), "`sparsity.target` must be from 0 to 1");
    refused(&machine(r#""kernel": [9, 9], "activation": "tanh""#), "`activation` means nothing to it");
}
