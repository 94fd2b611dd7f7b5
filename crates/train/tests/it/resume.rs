//! A run that was stopped at any step goes on as if it never was, byte by byte.

use std::path::Path;
use std::sync::Arc;

use paceline_data::{OpenOptions, Source, Subset, open};
use paceline_nn::config::{BatchNorm, Conv2d, Dense, Dropout, NetworkConfig, Output};
use paceline_nn::{Activation, Loss, ModelFile, Network, Updater};
use paceline_train::{CheckpointOptions, ClassWeights, Event, Stop, TrainOptions, Trainer};

const BATCH: usize = 30;
/// 200 examples: six batches of 30 and one of 20.
const STEPS: u64 = 7;
const EPOCHS: u64 = 3;

/// Everything that has a memory.
fn network() -> Network {
    let config = NetworkConfig::image(8, 8, 1)
        .seed(3)
        .updater(Updater::adam(0.01))
        .layer(Conv2d::new(4, [3, 3]))
        .layer(BatchNorm::default().activation(Activation::Relu))
        .layer(Dropout::new(0.2))
        .layer(Dense::new(16).activation(Activation::Tanh))
        .layer(Output::new(10, Loss::CrossEntropy).activation(Activation::Softmax));
    Network::new(config).expect("a network")
}

fn digits() -> Arc<dyn Source> {
    Arc::new(Subset::first(open("digits:", &OpenOptions::default()).expect("digits"), 200))
}

fn trainer(output: &Path, change: impl FnOnce(&mut TrainOptions)) -> Trainer {
    let mut options = TrainOptions {
        batch: BATCH,
        epochs: EPOCHS,
        seed: 3,
        output: Some(output.to_owned()),
        checkpoint: CheckpointOptions { steps: Some(1), ..CheckpointOptions::default() },
        ..TrainOptions::default()
    };
    change(&mut options);
    Trainer::new(network(), digits(), options).expect("they fit").test(digits()).expect("they fit")
}

/// Runs until the checkpoint of this step, then asks to stop; tells where the run stopped, if it did.
fn run_and_stop(trainer: &Trainer, at: u64) -> Option<u64> {
    let stop: Stop = trainer.stop();
    let mut paused = None;
    let outcome = trainer.run(&mut |event| match event {
        Event::Checkpoint { iteration, .. } if *iteration == at => stop.ask(),
        Event::Paused { iteration, .. } => paused = Some(*iteration),
        _ => {}
    });
    assert_eq!(outcome.expect("no error").stopped, paused.is_some());
    paused
}

fn model(output: &Path) -> Vec<u8> {
    std::fs::read(output.join("model.safetensors")).expect("a model")
}

#[test]
fn a_run_stopped_at_any_step_ends_with_the_same_bytes() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    trainer(folder.path(), |_| {}).run(&mut |_| {}).expect("a run");
    let whole = model(folder.path());
    let last = EPOCHS * STEPS;
    // The first steps, the middle, both sides of every end of an epoch, the short last batch, the last but one.
    for at in [1, 2, STEPS - 2, STEPS - 1, STEPS, STEPS + 1, 2 * STEPS - 1, 2 * STEPS, 2 * STEPS + 3, last - 1] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        assert_eq!(run_and_stop(&trainer(folder.path(), |_| {}), at), Some(at));
        assert!(!folder.path().join("model.safetensors").exists());
        let mut resumed_at = None;
        let outcome = trainer(folder.path(), |options| options.resume = true).run(&mut |event| {
            if let Event::Started { resumed_at: at, .. } = event {
                resumed_at = Some(*at);
            }
        });
        assert!(!outcome.expect("a run").stopped);
        assert_eq!(resumed_at, Some(at));
        assert!(model(folder.path()) == whole, "stopped at {at}: another model");
    }
}

#[test]
fn a_run_stopped_again_and_again_ends_with_the_same_bytes_and_losses() {
    let losses = |trainer: &Trainer, at: Option<u64>| {
        let (stop, mut losses) = (trainer.stop(), Vec::new());
        let outcome = trainer.run(&mut |event| match event {
            Event::Checkpoint { iteration, .. } if Some(*iteration) == at => stop.ask(),
            Event::Epoch { loss, .. } => losses.push(loss.to_bits()),
            _ => {}
        });
        outcome.expect("no error");
        losses
    };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let expected = losses(&trainer(folder.path(), |_| {}), None);
    let whole = model(folder.path());
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut found = Vec::new();
    for at in [3, 5, 9, 12] {
        found.extend(losses(&trainer(folder.path(), |options| options.resume = at > 3), Some(at)));
    }
    found.extend(losses(&trainer(folder.path(), |options| options.resume = true), None));
    assert_eq!(found, expected, "the mean loss of an epoch counts its steps before the stop");
    assert!(model(folder.path()) == whole);
}

#[test]
fn a_stop_at_the_very_last_step_is_no_stop() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    assert_eq!(run_and_stop(&trainer(folder.path(), |_| {}), EPOCHS * STEPS), None);
    assert!(folder.path().join("model.safetensors").exists());
}

#[test]
fn a_run_goes_on_from_the_checkpoint_that_a_power_cut_left() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (kept, path) = (folder.path().join("kept"), folder.path().join("checkpoint.safetensors"));
    let mut written = Vec::new();
    trainer(folder.path(), |options| options.checkpoint.steps = Some(4))
        .run(&mut |event| {
            if let Event::Checkpoint { iteration, path } = event {
                written.push(*iteration);
                if *iteration == 12 {
                    std::fs::copy(path, &kept).expect("copied");
                }
            }
        })
        .expect("a run");
    // Every fourth step, and the end of every epoch.
    assert_eq!(written, [4, 7, 8, 12, 14, 16, 20, 21]);
    let whole = model(folder.path());
    std::fs::rename(&kept, &path).expect("renamed");
    std::fs::remove_file(folder.path().join("model.safetensors")).expect("removed");
    assert_eq!(ModelFile::load(&path).expect("a checkpoint").step, 5);
    let resume = |options: &mut TrainOptions| (options.resume, options.checkpoint.steps) = (true, None);
    trainer(folder.path(), resume).run(&mut |_| {}).expect("a run");
    assert!(model(folder.path()) == whole);
}

#[test]
fn more_epochs_may_be_added_to_a_finished_run() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    trainer(folder.path(), |_| {}).run(&mut |_| {}).expect("a run");
    let whole = model(folder.path());
    let folder = tempfile::tempdir().expect("a temporary folder");
    trainer(folder.path(), |options| options.epochs = 1).run(&mut |_| {}).expect("a run");
    assert!(model(folder.path()) != whole);
    trainer(folder.path(), |options| options.resume = true).run(&mut |_| {}).expect("a run");
    assert!(model(folder.path()) == whole);
}

#[test]
fn a_checkpoint_of_other_data_is_refused_with_both_values() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    trainer(folder.path(), |_| {}).run(&mut |_| {}).expect("a run");
    let refused = |change: fn(&mut TrainOptions), expected: &str| {
        let trainer = trainer(folder.path(), |options| {
            options.resume = true;
            change(options);
        });
        let mut last = None;
        let error = trainer.run(&mut |event| last = Some(event.clone())).expect_err("another run").to_string();
        assert!(error.contains(expected), "`{expected}` is not in {error}");
        assert!(matches!(last, Some(Event::Failed { resumable: false, .. })), "{last:?}");
    };
    refused(|options| options.batch = 31, "its `data.batch` is 30, the job's is 31");
    refused(
        |options| options.class_weights = Some(ClassWeights::Each(vec![1.0; 10])),
        "its `data.class_weights` is null",
    );
}
