//! Thresholds that find their way from the first update on, over a real encoder.

use paceline_exchange::{Encoder, Threshold, ThresholdPolicy};
use proptest::prelude::Rng;
use proptest::test_runner::{RngAlgorithm, TestRng};

/// Updates as a worker makes them: gradients with a drift and noise, of layers a hundred times apart, behind a momentum.
struct Updates {
    random: TestRng,
    momentum: Vec<f32>,
    scale: f32,
}

impl Updates {
    fn new(elements: usize, scale: f32) -> Self {
        Self { random: TestRng::deterministic_rng(RngAlgorithm::ChaCha), momentum: vec![0.0; elements], scale }
    }

    fn next(&mut self) -> &[f32] {
        let layer = self.momentum.len() / 4;
        for (index, momentum) in self.momentum.iter_mut().enumerate() {
            let uniform = |random: &mut TestRng| random.next_u32() as f32 / 2f32.powi(32) - 0.5;
            let noise: f32 = (0..4).map(|_| uniform(&mut self.random)).sum();
            let drift = ((index * 7919 % 1000) as f32 / 500.0 - 1.0) * 0.2;
            *momentum = 0.9 * *momentum + self.scale * (noise + drift) * 0.2f32.powi((index / layer) as i32);
        }
        &self.momentum
    }
}

/// The share that each of `steps` messages sends.
fn shares(policy: ThresholdPolicy, scale: f32, steps: usize) -> Vec<f64> {
    let elements = 40_000;
    let mut updates = Updates::new(elements, scale);
    let mut encoder = Encoder::new(vec![0.0; elements]).expect("a short residual");
    let mut threshold = Threshold::new(policy).expect("a good policy");
    (0..steps)
        .map(|_| {
            let update = updates.next();
            let sent = encoder.encode(update, threshold.for_update(update), &mut Vec::new()).expect("a finite update");
            threshold.observe(&sent);
            sent.sparsity()
        })
        .collect()
}

fn mean(shares: &[f64]) -> f64 {
    shares.iter().sum::<f64>() / shares.len() as f64
}

#[test]
fn the_default_sends_what_it_aims_at_whatever_the_size_of_the_updates() {
    for scale in [1e-6, 1e-2, 1e3] {
        let shares = shares(ThresholdPolicy::default(), scale, 300);
        assert!((0.5e-3..2e-3).contains(&shares[0]), "first {}", shares[0]);
        let whole_run = mean(&shares);
        assert!(whole_run < 2e-3, "scale {scale}: mean {whole_run}");
        let settled = mean(&shares[100..]);
        assert!((0.8e-3..1.25e-3).contains(&settled), "scale {scale}: settled mean {settled}");
    }
}

#[test]
fn the_adaptive_rule_sends_on_average_what_its_band_allows() {
    let policy = ThresholdPolicy::Adaptive { first: None, minimum_sparsity: 5e-4, maximum_sparsity: 5e-3, step: 1.035 };
    let shares = shares(policy, 1e-2, 400);
    let settled = mean(&shares[150..]);
    assert!((5e-4..5e-3).contains(&settled), "settled mean {settled}");
}

#[test]
fn a_worker_that_stood_still_finds_its_threshold_again() {
    let elements = 40_000;
    let mut encoder = Encoder::new(vec![0.0; elements]).expect("a short residual");
    let mut threshold = Threshold::new(ThresholdPolicy::default()).expect("a good policy");
    let mut updates = Updates::new(elements, 1e-2);
    let mut step = |update: &[f32]| {
        let sent = encoder.encode(update, threshold.for_update(update), &mut Vec::new()).expect("a finite update");
        threshold.observe(&sent);
        sent.sparsity()
    };
    (0..50).for_each(|_| _ = step(updates.next()));
    (0..2000).for_each(|_| _ = step(&vec![0.0; elements]));
    let shares: Vec<f64> = (0..150).map(|_| step(updates.next())).collect();
    assert!(mean(&shares[100..]) < 2e-3, "{:?}", &shares[..20]);
}
