//! One layer learns from what goes into it, while the others stay as they are.

use paceline_model::{Batch, Model, PartwiseModel, Progress, Targets, train_in_turn};
use paceline_nn::config::{AutoEncoder, Dense, Hidden, NetworkConfig, Output, Rbm, Visible};
use paceline_nn::random::Counted;
use paceline_nn::{Activation, Engine, Loss, Network, Reference, Updater};

use crate::networks::batch_for;

/// A network of two layers that can be pretrained, of which one is.
fn stacked(first: Rbm, layer: usize) -> Network {
    let config = NetworkConfig::feed_forward(6)
        .seed(5)
        .updater(Updater::sgd(0.1))
        .layer(first.name("first"))
        .layer(Rbm::new(4).name("second"))
        .layer(Output::new(3, Loss::CrossEntropy).activation(Activation::Softmax))
        .pretraining(layer);
    Network::new(config).expect("a network")
}

/// Features from 0 to 1, in rows that sum to 1, and nothing to learn from besides them.
fn chances(examples: usize) -> Batch {
    let width = 6;
    let mut features: Vec<f32> =
        (0..examples * width).map(|at| 0.05 + Counted::new(9, 1, 0, 0).uniform(at as u32)).collect();
    for row in features.chunks_exact_mut(width) {
        let sum: f32 = row.iter().sum();
        row.iter_mut().for_each(|value| *value /= sum);
    }
    let weights = Some((0..examples).map(|at| 0.5 + at as f32 / 4.0).collect());
    Batch { features, width, targets: Targets::None, weights, indices: (10..10 + examples as u64).collect(), epoch: 3 }
}

fn sigmoid(z: f64) -> f64 {
    1.0 / (1.0 + (-z).exp())
}

fn softmax(z: &[f64]) -> Vec<f64> {
    let powers: Vec<f64> = z.iter().map(|z| z.exp()).collect();
    let sum: f64 = powers.iter().sum();
    powers.iter().map(|power| power / sum).collect()
}

/// What contrastive divergence comes to, written down as papers do.
struct Divergence<'a> {
    visible: Visible,
    hidden: Hidden,
    k: usize,
    /// By visible unit and hidden unit.
    weights: &'a [f64],
    bias: &'a [f64],
    visible_bias: &'a [f64],
}

impl Divergence<'_> {
    fn up(&self, v: &[f64]) -> Vec<f64> {
        let units = self.bias.len();
        (0..units)
            .map(|j| self.bias[j] + v.iter().enumerate().map(|(i, v)| v * self.weights[i * units + j]).sum::<f64>())
            .collect()
    }

    fn mean(&self, z: &[f64]) -> Vec<f64> {
        match self.hidden {
            Hidden::Binary => z.iter().map(|z| sigmoid(*z)).collect(),
            Hidden::Rectified => z.iter().map(|z| z.max(0.0)).collect(),
            Hidden::Gaussian => z.to_vec(),
            Hidden::Softmax => softmax(z),
        }
    }

    fn sample(&self, z: &[f64], stream: Counted) -> Vec<f64> {
        let mean = self.mean(z);
        let uniform = |at: usize| f64::from(stream.uniform(at as u32));
        let normal = |at: usize| stream.normal(at as u32);
        match self.hidden {
            Hidden::Binary => mean.iter().enumerate().map(|(at, p)| f64::from(uniform(at) < *p)).collect(),
            Hidden::Rectified => {
                z.iter().enumerate().map(|(at, z)| (z + sigmoid(*z).sqrt() * normal(at)).max(0.0)).collect()
            }
            Hidden::Gaussian => mean.iter().enumerate().map(|(at, mean)| mean + normal(at)).collect(),
            Hidden::Softmax => {
                let mut below = 0.0;
                let is_here = |p: &f64| {
                    let from = below;
                    below += p;
                    f64::from(from <= uniform(0) && uniform(0) < below)
                };
                mean.iter().map(is_here).collect()
            }
        }
    }

    /// What is visible for what is hidden: as it is shown to the hidden units, and its mean.
    fn down(&self, h: &[f64], stream: Counted) -> [Vec<f64>; 2] {
        let row = |i: usize| h.iter().zip(&self.weights[i * h.len()..]).map(|(h, w)| h * w).sum::<f64>();
        let u: Vec<f64> = self.visible_bias.iter().enumerate().map(|(i, bias)| bias + row(i)).collect();
        match self.visible {
            Visible::Binary => [u.iter().map(|u| sigmoid(*u)).collect(), u.iter().map(|u| sigmoid(*u)).collect()],
            Visible::Gaussian => [u.iter().enumerate().map(|(at, u)| u + stream.normal(at as u32)).collect(), u],
            Visible::Linear => [u.clone(), u],
            Visible::Softmax => [softmax(&u), softmax(&u)],
        }
    }

    /// Adds what an example says to the gradient of weights, biases and visible biases.
    fn add(&self, v: &[f64], weight: f64, stream: Counted, gradient: &mut [Vec<f64>; 3]) {
        let first = self.mean(&self.up(v));
        let (mut shown, mut mean, mut z) = (v.to_vec(), v.to_vec(), self.up(v));
        for step in 0..self.k as u64 {
            let h = self.sample(&z, stream.draw(2 * step + 1));
            [shown, mean] = self.down(&h, stream.draw(2 * step + 2));
            z = self.up(&shown);
        }
        let last = self.mean(&z);
        let units = first.len();
        for i in 0..v.len() {
            for j in 0..units {
                gradient[0][i * units + j] += weight * (shown[i] * last[j] - v[i] * first[j]);
            }
            gradient[2][i] += weight * (mean[i] - v[i]);
        }
        (0..units).for_each(|j| gradient[1][j] += weight * (last[j] - first[j]));
    }
}

#[test]
fn contrastive_divergence_is_what_papers_say_for_every_kind_of_unit() {
    for visible in [Visible::Binary, Visible::Gaussian, Visible::Linear, Visible::Softmax] {
        for hidden in [Hidden::Binary, Hidden::Rectified, Hidden::Gaussian, Hidden::Softmax] {
            for k in [1, 3] {
                let network = stacked(Rbm::new(5).visible(visible).hidden(hidden).k(k), 0);
                let batch = chances(7);
                let mut reference = Reference::new(network.clone());
                let moved = |at: usize| 0.3 * Counted::new(1, 1, 1, 1).normal(at as u32);
                reference.parameters.iter_mut().enumerate().for_each(|(at, value)| *value = moved(at));
                reference.gradient(&batch).expect("features are enough");
                let [weights, bias, visible_bias] = [0, 1, 2].map(|at: usize| network.parameters()[at].range.clone());
                let rules = Divergence {
                    visible,
                    hidden,
                    k,
                    weights: &reference.parameters[weights.clone()],
                    bias: &reference.parameters[bias.clone()],
                    visible_bias: &reference.parameters[visible_bias.clone()],
                };
                let mut expected = [weights.clone(), bias.clone(), visible_bias.clone()].map(|r| vec![0.0; r.len()]);
                for (row, v) in batch.features.chunks_exact(6).enumerate() {
                    let v: Vec<f64> = v.iter().map(|v| f64::from(*v)).collect();
                    let weight = f64::from(batch.weights.as_ref().expect("weights")[row]);
                    let stream = Counted::new(5, 1 << 32, batch.epoch, batch.indices[row]);
                    rules.add(&v, weight, stream, &mut expected);
                }
                let found = [weights, bias, visible_bias].map(|range| reference.gradient[range].to_vec());
                for (found, expected) in found.iter().flatten().zip(expected.iter().flatten()) {
                    let what = format!("{visible:?} and {hidden:?}, k = {k}: {found}, expected {expected}");
                    assert!((found - expected).abs() < 1e-6, "{what}");
                }
                let others = &network.parameters()[3..];
                assert!(others.iter().all(|p| reference.gradient[p.range.clone()].iter().all(|g| *g == 0.0)));
            }
        }
    }
}

#[test]
fn fast_kernels_pretrain_as_plain_ones_do_in_one_go_and_in_turn() {
    let auto_encoder = |layer: AutoEncoder| {
        let config = NetworkConfig::feed_forward(6)
            .seed(5)
            .updater(Updater::sgd(0.1))
            .layer(layer.activation(Activation::Tanh))
            .layer(Output::new(3, Loss::CrossEntropy).activation(Activation::Softmax))
            .pretraining(0);
        Network::new(config).expect("a network")
    };
    let networks = [
        stacked(Rbm::new(5).k(2), 0),
        stacked(Rbm::new(5), 1),
        auto_encoder(AutoEncoder::new(4)),
        auto_encoder(AutoEncoder::new(9).corruption(0.4).loss(Loss::BinaryCrossEntropy)),
    ];
    for network in networks {
        let batch = chances(37);
        let mut reference = Reference::new(network.clone());
        let mut engine = Engine::new(network.clone()).poisoned();
        let (mut state, mut at_once) = (engine.initial_state(), engine.initial_state());
        let expected = reference.gradient(&batch).expect("features are enough").mean();
        let found = engine.gradient(&batch, &mut state).expect("features are enough").mean();
        assert!((found - expected).abs() < 1e-4 * expected.abs().max(1.0), "{found}, expected {expected}");
        let largest = reference.gradient.iter().fold(0.0f64, |top, g| top.max(g.abs()));
        assert!(largest > 0.0, "nothing is learned");
        for (found, expected) in state.gradient.iter().zip(&reference.gradient) {
            assert!((f64::from(*found) - expected).abs() < 1e-4 * largest, "{found}, expected {expected}");
        }
        let progress = Progress { iteration: 0, epoch: 3 };
        train_in_turn(&mut engine, &batch, &mut state, progress).expect("features are enough");
        engine.train(&batch, &mut at_once, progress).expect("features are enough");
        assert_eq!(state.parameters, at_once.parameters, "in turn and at once");
    }
}

#[test]
fn an_autoencoder_has_the_slopes_that_differences_say() {
    for corruption in [0.0, 0.3] {
        let config = NetworkConfig::feed_forward(6)
            .seed(2)
            .layer(Dense::new(5).activation(Activation::Sigmoid))
            .layer(AutoEncoder::new(4).corruption(corruption).activation(Activation::Sigmoid))
            .layer(Output::by_task(2))
            .pretraining(1);
        let network = Network::new(config).expect("a network");
        let (batch, own) = (chances(4), network.layers()[1].parameters.clone());
        let mut reference = Reference::new(network);
        reference.gradient(&batch).expect("features are enough");
        let gradient = reference.gradient.clone();
        assert!(gradient[..own.start].iter().chain(&gradient[own.end..]).all(|g| *g == 0.0), "others stay");
        for at in own {
            let kept = reference.parameters[at];
            let mut loss = |value: f64| {
                reference.parameters[at] = value;
                reference.gradient(&batch).expect("features are enough").sum
            };
            let slope = (loss(kept + 1e-5) - loss(kept - 1e-5)) / 2e-5;
            reference.parameters[at] = kept;
            assert!((slope - gradient[at]).abs() < 1e-7, "parameter {at}: {}, differences say {slope}", gradient[at]);
        }
    }
}

#[test]
fn a_machine_learns_what_goes_in_and_gives_it_back() {
    // Two patterns: each hidden unit can stand for one.
    let patterns = [[1.0, 1.0, 1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0, 1.0, 1.0]];
    let features: Vec<f32> = (0..40).flat_map(|at| patterns[at % 2]).collect();
    let mut batch = Batch { features, weights: None, indices: (0..40).collect(), ..chances(40) };
    let mut engine = Engine::new(stacked(Rbm::new(5), 0)).poisoned();
    let mut state = engine.initial_state();
    let mut given_back = Vec::new();
    let first = engine.predict(&batch, &state, &mut given_back).expect("features are enough").expect("a loss").mean();
    for iteration in 0..400 {
        batch.epoch = iteration;
        engine.train(&batch, &mut state, Progress { iteration, epoch: iteration }).expect("features are enough");
    }
    let last = engine.predict(&batch, &state, &mut given_back).expect("features are enough").expect("a loss").mean();
    assert!(last < first / 5.0, "{first} before, {last} behind");
    assert!(given_back.iter().zip(&batch.features).all(|(found, shown)| (found - shown).abs() < 0.5));
}

#[test]
fn in_the_whole_network_it_is_a_dense_layer() {
    let with = |first: NetworkConfig| {
        let config = first.layer(Output::new(3, Loss::CrossEntropy).activation(Activation::Softmax));
        Network::new(config).expect("a network")
    };
    let dense = with(NetworkConfig::feed_forward(6).layer(Dense::new(5).activation(Activation::Sigmoid)));
    let rbm = with(NetworkConfig::feed_forward(6).layer(Rbm::new(5)));
    let batch = batch_for(&dense, 8, 1);
    let of = |network: &Network| {
        let mut engine = Engine::new(network.clone());
        let mut state = engine.initial_state();
        let names = ["0.weight", "0.bias", "1.weight", "1.bias"];
        let ranges =
            names.map(|name| network.parameters().iter().find(|p| p.name == name).expect("a parameter").range.clone());
        for (at, range) in ranges.iter().enumerate() {
            let stream = Counted::new(4, at as u64, 0, 0);
            state.parameters[range.clone()]
                .iter_mut()
                .enumerate()
                .for_each(|(i, w)| *w = stream.normal(i as u32) as f32);
        }
        engine.gradient(&batch, &mut state).expect("a batch that fits");
        ranges.map(|range| state.gradient[range].to_vec())
    };
    assert_eq!(of(&dense), of(&rbm));
    let visible = rbm.parameters().iter().find(|p| p.name == "0.visible_bias").expect("a bias of its own");
    assert_eq!(visible.shape, [6]);
}

#[test]
fn what_cannot_be_pretrained_is_refused() {
    let config = NetworkConfig::feed_forward(6).layer(Dense::new(5)).layer(Output::by_task(2));
    let error = Network::new(config.clone().pretraining(0)).expect_err("a dense layer").to_string();
    assert_eq!(
        error,
        "layer 0 (dense): it cannot learn from what goes into it alone, as `rbm`, `convolutional_rbm`, `autoencoder` and `vae` can"
    );
    let error = Network::new(config.pretraining(7)).expect_err("no such layer").to_string();
    assert!(error.contains("expected one of its 2 layers, found 7"), "{error}");
}

#[test]
fn a_variational_autoencoder_has_its_slopes_and_agrees_with_the_reference() {
    for (loss, decoder) in [("binary_cross_entropy", "[6]"), ("mse", "[]")] {
        let json = format!(
            r#"{{"seed": 5, "input": {{"feed_forward": 6}}, "pretrains": 0, "layers": [
                {{"vae": {{"units": 3, "encoder": [7, 5], "decoder": {decoder}, "loss": "{loss}"}}}}, {{"output": {{"units": 2}}}}]}}"#
        );
        let network = crate::networks::network(&json);
        crate::gradient_check::check_on(network.clone(), &chances(4), loss);
        crate::conformance::compare_on(&network, &chances(17), loss);
    }
}

#[test]
fn what_only_pretraining_needs_is_left_alone_later() {
    let config = NetworkConfig::feed_forward(6)
        .updater(Updater::sgd(0.1))
        .l2(0.1)
        .layer(paceline_nn::config::Vae::new(3, 5))
        .layer(Output::new(2, Loss::CrossEntropy).activation(Activation::Softmax));
    let mut engine = Engine::new(Network::new(config).expect("a network"));
    let mut state = engine.initial_state();
    let before = state.parameters.to_vec();
    let batch = Batch { targets: Targets::Classes(vec![0, 1, 1, 0]), ..chances(4) };
    engine.train(&batch, &mut state, Progress::default()).expect("a step");
    for parameter in engine.network().parameters() {
        let own = parameter.name.strip_prefix("0.");
        let is_idle =
            own.is_some_and(|own| ["variance", "decoder", "visible"].iter().any(|idle| own.starts_with(idle)));
        let range = parameter.range.clone();
        assert_eq!(state.parameters[range.clone()] == before[range], is_idle, "{}", parameter.name);
    }
}
