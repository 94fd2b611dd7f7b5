//! Runs that end before their last epoch, and what they come to.

use std::path::Path;
use std::sync::Arc;

use paceline_data::{OpenOptions, Source, Subset, open};
use paceline_nn::config::{Dense, NetworkConfig, Output};
use paceline_nn::{Activation, Loss, ModelFile, Network, Per, Rule, Schedule, Updater};
use paceline_train::{
    AveragingOptions, CheckpointOptions, EarlyStopping, Error, Event, Metric, Mode, SharedOptions, TrainOptions,
    Trainer,
};

const STOPPING: EarlyStopping = EarlyStopping {
    metric: Metric::Score,
    patience: None,
    improvement: 0.0,
    target: None,
    worst: None,
    minutes: None,
    invalid_score: true,
    save_best: true,
};

fn modes() -> [(usize, Mode); 4] {
    [
        (1, Mode::Solo),
        (2, Mode::Sync),
        (2, Mode::Averaging(AveragingOptions::default())),
        (2, Mode::Shared(SharedOptions::default())),
    ]
}

fn digits(from: u64, to: u64) -> Arc<dyn Source> {
    let all = open("digits:", &OpenOptions::default()).expect("digits");
    Arc::new(Subset::of(all, (from..to).collect()).expect("some of them"))
}

/// Learns 60 examples by heart, and is judged on others.
fn trainer(rate: f64, output: &Path, change: impl FnOnce(&mut TrainOptions)) -> Trainer {
    let config = NetworkConfig::image(8, 8, 1)
        .seed(3)
        .updater(Updater::sgd(rate))
        .layer(Dense::new(32).activation(Activation::Tanh))
        .layer(Output::new(10, Loss::CrossEntropy).activation(Activation::Softmax));
    let mut options = TrainOptions {
        global_batch: Some(20),
        epochs: 400,
        seed: 3,
        output: Some(output.to_owned()),
        ..TrainOptions::default()
    };
    change(&mut options);
    let network = Network::new(config).expect("a network");
    Trainer::new(network, digits(0, 60), options).expect("they fit").test(digits(60, 400)).expect("they fit")
}

/// The scores of all evaluations of a run, and why it ended.
fn run(trainer: &Trainer) -> (Vec<f64>, Option<String>) {
    let mut found = Vec::new();
    let outcome = trainer.run(&mut |event| {
        if let Event::Evaluation { scores, .. } = event {
            found.push(scores.score());
        }
    });
    (found, outcome.expect("a run").ended_early)
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

#[test]
fn patience_ends_a_run_in_every_mode_and_the_model_is_the_best_one() {
    for (workers, mode) in modes() {
        let folder = folder();
        let stopping = EarlyStopping { patience: Some(3), ..STOPPING };
        let trainer = trainer(0.5, folder.path(), |options| {
            (options.workers, options.mode, options.early_stopping) = (workers, mode.clone(), Some(stopping));
        });
        let mut found = Vec::new();
        let outcome = trainer.run(&mut |event| {
            if let Event::Evaluation { scores, .. } = event {
                found.push(scores.score());
            }
        });
        let outcome = outcome.expect("a run");
        assert!(outcome.ended_early.expect("an early end").contains("not improved for 3 evaluations"), "{mode:?}");
        assert!(found.len() < 400);
        let best = found.iter().copied().fold(f64::INFINITY, f64::min);
        assert_eq!(best, found[found.len() - 4], "{mode:?}: three evaluations were worse");
        assert_eq!(outcome.scores.expect("scores").score(), best);
        let read = |name| ModelFile::load(&folder.path().join(name)).expect("a model");
        assert_eq!(read("model.safetensors").progress.epoch, found.len() as u64 - 3);
        assert!(read("model.safetensors").state.parameters == read("best.safetensors").state.parameters);
        assert_eq!(read("checkpoint.safetensors").progress.epoch, found.len() as u64);
    }
}

#[test]
fn a_target_that_is_reached_ends_the_run() {
    let folder = folder();
    let stopping = EarlyStopping { metric: Metric::Accuracy, target: Some(0.6), ..STOPPING };
    let trainer = trainer(0.2, folder.path(), |options| options.early_stopping = Some(stopping));
    let outcome = trainer.run(&mut |_| {}).expect("a run");
    assert!(outcome.ended_early.expect("an early end").contains("as good as asked for"));
    let accuracy = outcome.scores.and_then(|scores| scores.accuracy()).expect("an accuracy");
    assert!((0.6..0.9).contains(&accuracy), "{accuracy}");
}

#[test]
fn a_score_beyond_the_worst_allowed_ends_the_run() {
    let folder = folder();
    let stopping = EarlyStopping { worst: Some(1e-3), ..STOPPING };
    let (found, why) = run(&trainer(0.2, folder.path(), |options| options.early_stopping = Some(stopping)));
    assert_eq!(found.len(), 1);
    assert!(why.expect("an early end").contains("worse than allowed"));
}

#[test]
fn time_that_is_over_ends_a_run_within_an_epoch_in_every_mode() {
    for (workers, mode) in modes() {
        let folder = folder();
        // Over at the first step.
        let stopping = EarlyStopping { minutes: Some(1e-9), save_best: false, ..STOPPING };
        let trainer = trainer(0.2, folder.path(), |options| {
            (options.workers, options.mode, options.early_stopping) = (workers, mode.clone(), Some(stopping));
            options.global_batch = Some(2);
        });
        let outcome = trainer.run(&mut |_| {}).expect("a run");
        assert!(outcome.ended_early.expect("an early end").contains("minutes are over"));
        // Whoever looks at the clock may come late to such a short epoch, but not to two of them.
        assert!(outcome.model.progress.epoch <= if workers == 1 { 0 } else { 1 }, "{mode:?}");
        assert!(outcome.scores.is_some(), "{mode:?}: what there is was judged");
    }
}

#[test]
fn a_loss_that_is_no_number_ends_the_run_with_the_best_model() {
    let folder = folder();
    let ruin = |stopping| {
        // The rate becomes ruinous after a while.
        let config = NetworkConfig::image(8, 8, 1)
            .seed(3)
            .updater(Updater::sgd(Schedule::Changing(Rule::Map {
                values: vec![(0, 0.1), (12, 1e30)],
                per: Per::default(),
            })))
            .layer(Dense::new(32).activation(Activation::Identity))
            .layer(Output::new(10, Loss::Mse).activation(Activation::Identity));
        let options = TrainOptions {
            batch: 20,
            epochs: 40,
            output: Some(folder.path().to_owned()),
            early_stopping: stopping,
            overwrite: true,
            ..TrainOptions::default()
        };
        Trainer::new(Network::new(config).expect("a network"), digits(0, 60), options)
            .expect("they fit")
            .test(digits(60, 400))
            .expect("they fit")
    };
    assert!(matches!(ruin(None).run(&mut |_| {}), Err(Error::NotFinite { .. })));
    let no = EarlyStopping { invalid_score: false, ..STOPPING };
    assert!(matches!(ruin(Some(no)).run(&mut |_| {}), Err(Error::NotFinite { .. })));
    let outcome = ruin(Some(STOPPING)).run(&mut |_| {}).expect("an early end");
    assert!(outcome.ended_early.is_some_and(|why| why.contains("the loss became")));
    assert!(outcome.model.progress.epoch <= 4);
    assert!(outcome.scores.expect("scores").score().is_finite());
    assert!(outcome.model.state.parameters.iter().all(|parameter| parameter.abs() < 100.0));
}

#[test]
fn a_run_that_was_stopped_remembers_its_best_and_how_long_ago_that_was() {
    let stopping = EarlyStopping { patience: Some(3), ..STOPPING };
    let whole = folder();
    let (expected, _) = run(&trainer(0.5, whole.path(), |options| options.early_stopping = Some(stopping)));
    let parts = folder();
    let part = |resume| {
        trainer(0.5, parts.path(), |options| (options.early_stopping, options.resume) = (Some(stopping), resume))
    };
    let first = part(false);
    let (stop, mut found) = (first.stop(), Vec::new());
    let outcome = first.run(&mut |event| {
        if let Event::Evaluation { scores, .. } = event {
            found.push(scores.score());
            // One of the three is gone already.
            if found.len() == expected.len() - 2 {
                stop.ask();
            }
        }
    });
    assert!(outcome.expect("a run").stopped);
    let (rest, why) = run(&part(true));
    found.extend(rest);
    assert_eq!(found, expected);
    let bytes = |folder: &Path| std::fs::read(folder.join("model.safetensors")).expect("a model");
    assert!(bytes(parts.path()) == bytes(whole.path()));
    // Once more: it is over already, and says why.
    assert_eq!(run(&part(true)), (Vec::new(), why));
}

#[test]
fn an_evaluation_every_few_epochs_leaves_out_all_but_the_last() {
    let folder = folder();
    let mut epochs = Vec::new();
    let trainer = trainer(0.2, folder.path(), |options| (options.epochs, options.evaluate_every) = (7, 3));
    let outcome = trainer.run(&mut |event| {
        if let Event::Evaluation { epoch, .. } = event {
            epochs.push(*epoch);
        }
    });
    assert!(outcome.expect("a run").scores.is_some());
    assert_eq!(epochs, [3, 6, 7]);
}

#[test]
fn settings_that_make_no_sense_are_refused_before_anything_is_written() {
    let refused = |change: fn(&mut TrainOptions), has_test: bool| {
        let folder = folder();
        let mut options = TrainOptions { output: Some(folder.path().join("out")), ..TrainOptions::default() };
        change(&mut options);
        let config = NetworkConfig::image(8, 8, 1).layer(Output::new(10, Loss::CrossEntropy));
        let trainer = Trainer::new(Network::new(config).expect("a network"), digits(0, 60), options);
        let trainer = trainer.and_then(|trainer| if has_test { trainer.test(digits(60, 100)) } else { Ok(trainer) });
        let error = trainer.and_then(|trainer| trainer.run(&mut |_| {})).expect_err("refused").to_string();
        assert!(!folder.path().join("out").exists());
        error
    };
    type Change = fn(&mut TrainOptions);
    let cases: [(Change, &str); 5] = [
        (|o| o.checkpoint.steps = Some(0), "`train.checkpoint.steps`: expected at least 1"),
        (|o| o.checkpoint.keep = 0, "`train.checkpoint.keep`: expected at least 1"),
        (|o| o.checkpoint.minutes = Some(-1.0), "`train.checkpoint.minutes`: expected"),
        (|o| o.evaluate_every = 0, "`train.evaluate_every`: expected at least 1"),
        (
            |o| o.early_stopping = Some(EarlyStopping { patience: Some(0), ..STOPPING }),
            "`train.early_stopping.patience`: expected at least 1",
        ),
    ];
    for (change, expected) in cases {
        assert!(refused(change, true).contains(expected), "{expected}");
    }
    let without = refused(|o| o.early_stopping = Some(EarlyStopping { patience: Some(2), ..STOPPING }), false);
    assert!(without.contains("test data"), "{without}");
}

#[test]
fn the_last_checkpoints_and_the_best_are_kept_and_older_ones_go() {
    let folder = folder();
    let names = || {
        let entries = std::fs::read_dir(folder.path()).expect("a folder").flatten();
        let mut names: Vec<_> = entries.map(|entry| entry.file_name().into_string().expect("plain names")).collect();
        names.retain(|name| name.ends_with(".safetensors"));
        names.sort();
        names
    };
    let checkpoint = CheckpointOptions { keep: 3, best: true, steps: Some(2), ..CheckpointOptions::default() };
    let run = |epochs, resume: bool| {
        let trainer = trainer(0.2, folder.path(), |options| {
            (options.epochs, options.checkpoint) = (epochs, checkpoint);
            (options.resume, options.overwrite) = (resume, !resume);
        });
        trainer.run(&mut |_| {}).expect("a run")
    };
    // Three steps an epoch: saved at 2, 3, 4, 6, 8, 9.
    run(3, false);
    let expected = |older: [u64; 2]| {
        let mut names = older.map(|steps| format!("checkpoint-{steps}.safetensors")).to_vec();
        names.extend(["best.safetensors", "checkpoint.safetensors", "model.safetensors"].map(str::to_owned));
        names.sort();
        names
    };
    assert_eq!(names(), expected([6, 8]));
    let steps = |name: &str| ModelFile::load(&folder.path().join(name)).expect("readable").progress.iteration;
    assert_eq!([steps("checkpoint-6.safetensors"), steps("checkpoint-8.safetensors")], [6, 8]);
    run(4, true);
    assert_eq!(names(), expected([9, 10]));
    // A run that is replaced leaves none of those behind.
    run(1, false);
    assert_eq!(
        names(),
        ["best.safetensors", "checkpoint-2.safetensors", "checkpoint.safetensors", "model.safetensors"]
    );
}

#[test]
fn checkpoints_by_the_minute_are_written_within_an_epoch_in_every_mode() {
    let digits = open("digits:", &OpenOptions::default()).expect("digits");
    for (workers, mode) in modes() {
        let folder = folder();
        let config = NetworkConfig::image(8, 8, 1)
            .layer(Dense::new(1000).activation(Activation::Relu))
            .layer(Output::new(10, Loss::CrossEntropy).activation(Activation::Softmax));
        let options = TrainOptions {
            // Six hundred steps: whoever looks at the clock has the time to.
            global_batch: Some(3),
            workers,
            mode: mode.clone(),
            output: Some(folder.path().to_owned()),
            checkpoint: CheckpointOptions { minutes: Some(1e-4), epochs: 0, ..CheckpointOptions::default() },
            ..TrainOptions::default()
        };
        let trainer = Trainer::new(Network::new(config).expect("a network"), digits.clone(), options);
        let mut saved = Vec::new();
        let outcome = trainer.expect("they fit").run(&mut |event| {
            if let Event::Checkpoint { iteration, .. } = event {
                saved.push(*iteration);
            }
        });
        assert_eq!(outcome.expect("a run").model.progress.iteration, 599, "{mode:?}: every step was taken");
        assert!(saved.len() > 1 && saved.is_sorted(), "{mode:?}: {saved:?}");
        assert_eq!(saved.last(), Some(&599), "the end is saved");
    }
}
