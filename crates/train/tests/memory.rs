//! A process that trains for long, or many networks, does not grow.
//!
//! A binary of its own, with one test: memory is that of the whole process.

use std::sync::Arc;

use paceline_data::{OpenOptions, Source, Subset, open};
use paceline_nn::config::{BatchNorm, Conv2d, Dense, Dropout, NetworkConfig, Output, Subsampling};
use paceline_nn::{Activation, Loss, Network, Updater};
use paceline_train::{AveragingOptions, Mode, SharedOptions, TrainOptions, Trainer};

/// Resident memory in KiB.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux tells");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("the line");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

/// What allocators and thread stacks may keep for themselves.
const SLACK: u64 = 4 << 10;

fn train(seed: u64, width: usize, mode: &Mode, workers: usize, epochs: u64, digits: &Arc<dyn Source>) {
    let config = NetworkConfig::image(8, 8, 1)
        .seed(seed)
        .updater(Updater::adam(0.01))
        .layer(Conv2d::new(8, [3, 3]))
        .layer(BatchNorm::default().activation(Activation::Relu))
        .layer(Subsampling::max([2, 2]))
        .layer(Dropout::new(0.2))
        .layer(Dense::new(width).activation(Activation::Tanh))
        .layer(Output::new(10, Loss::CrossEntropy).activation(Activation::Softmax));
    let options =
        TrainOptions { global_batch: Some(32), epochs, workers, mode: mode.clone(), ..TrainOptions::default() };
    let network = Network::new(config).expect("a network");
    let trainer = Trainer::new(network, digits.clone(), options).and_then(|trainer| trainer.test(digits.clone()));
    trainer.expect("they fit").run(&mut |_| {}).expect("a run");
}

#[test]
fn many_epochs_and_many_networks_leave_memory_as_it_was() {
    let digits: Arc<dyn Source> =
        Arc::new(Subset::first(open("digits:", &OpenOptions::default()).expect("digits"), 100));
    let modes = [
        (Mode::Solo, 1),
        (Mode::Sync, 2),
        (Mode::Averaging(AveragingOptions::default()), 2),
        (Mode::Shared(SharedOptions::default()), 2),
    ];
    let networks = |count: u64| {
        for (network, (mode, workers)) in (0..count).zip(modes.iter().cycle()) {
            train(network, 100 + 10 * (network as usize % 7), mode, *workers, 2, &digits);
        }
    };
    networks(28);
    let before = resident();
    networks(50);
    let after = resident();
    assert!(after < before + SLACK, "50 networks: {before} KiB before, {after} KiB after");
    for (mode, workers) in &modes {
        train(1, 100, mode, *workers, 20, &digits);
        let before = resident();
        train(1, 100, mode, *workers, 250, &digits);
        let after = resident();
        assert!(after < before + SLACK, "{mode:?}, 250 epochs: {before} KiB before, {after} KiB after");
    }
}
