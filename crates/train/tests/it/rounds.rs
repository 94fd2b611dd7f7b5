//! Rounds that overlap: what was done meanwhile is added to the mean, and nothing else.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use paceline_data::{OpenOptions, Subset, open};
use paceline_nn::config::{Dense, NetworkConfig, Output};
use paceline_nn::{Activation, Loss, Network, Updater};
use paceline_train::{AveragingOptions, Contribution, RoundMode, RoundReplica, TrainOptions, Trainer};

static WANTED: AtomicBool = AtomicBool::new(false);

fn replica(overlap: bool) -> RoundReplica {
    let config = NetworkConfig::image(8, 8, 1)
        .updater(Updater::Nesterovs { learning_rate: 0.05.into(), momentum: 0.9.into() })
        .layer(Dense::new(12))
        .layer(Output::new(10, Loss::CrossEntropy).activation(Activation::Softmax));
    let source = Arc::new(Subset::first(open("digits:", &OpenOptions::default()).expect("digits"), 200));
    let options = TrainOptions { batch: 8, seed: 3, evaluate: false, ..TrainOptions::default() };
    let trainer = Trainer::new(Network::new(config).expect("a network"), source, options).expect("they fit");
    let options =
        AveragingOptions { frequency: 2, overlap, average_updater: Some(false), ..AveragingOptions::default() };
    RoundReplica::new(&trainer, RoundMode::Averaging(options), 1, None).expect("a replica")
}

fn places(round: u64) -> Vec<u64> {
    ((round - 1) * 16..round * 16).collect()
}

fn means(contribution: &Contribution) -> Vec<f32> {
    contribution.values.iter().map(|value| value / contribution.weight as f32).collect()
}

#[test]
fn a_replica_moves_by_as_much_as_the_mean_is_away_from_what_it_gave() {
    let mut plain = replica(false);
    let first = plain.compute(1, 0, &places(1), &WANTED).expect("a round").expect("wanted");
    // Alone, the mean is what it gave: it goes on as if there were no rounds.
    assert!(plain.apply(1, &first.values, first.weight).is_none());
    let second = plain.compute(2, 0, &places(2), &WANTED).expect("a round").expect("wanted");

    let mut overlapped = replica(true);
    let given = overlapped.compute(1, 0, &places(1), &WANTED).expect("a round").expect("wanted");
    assert_eq!(given.values, first.values);
    // What was done ahead and is taken back leaves nothing behind.
    overlapped.compute_ahead(2, 0, &places(5), &WANTED).expect("a round");
    overlapped.drop_ahead();
    overlapped.compute_ahead(2, 0, &places(2), &WANTED).expect("a round");
    // Another one, as heavy, is half as large.
    let sum: Vec<f32> = given.values.iter().map(|value| value * 1.5).collect();
    let next = overlapped.apply(1, &sum, given.weight * 2.0).expect("the next round was computed");
    assert_eq!(next.weight, second.weight);
    let expected = means(&second).into_iter().zip(means(&first)).map(|(second, first)| second + 0.75 * first - first);
    for (n, (found, expected)) in means(&next).into_iter().zip(expected).enumerate() {
        assert!((found - expected).abs() <= 1e-5, "value {n}: expected {expected}, found {found}");
    }
    let state = overlapped.snapshot();
    let shown = f32::from_le_bytes(state[..4].try_into().expect("four bytes"));
    assert_eq!(shown, sum[0] / (given.weight * 2.0) as f32, "what others get is the mean");
}

#[test]
fn what_is_not_wanted_any_more_ends_at_the_next_step() {
    let mut replica = replica(true);
    assert!(replica.compute(1, 0, &places(1), &AtomicBool::new(true)).expect("no error").is_none());
}
