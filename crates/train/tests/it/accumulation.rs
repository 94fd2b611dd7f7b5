//! Steps that are computed in parts, and means of parameters, in every mode.

use std::sync::Arc;

use paceline_data::{OpenOptions, Source, Subset, open};
use paceline_nn::config::{Dense, NetworkConfig, Output};
use paceline_nn::{Activation, Loss, ModelFile, Network, Updater};
use paceline_train::{AveragingOptions, Error, Event, Job, Mode, Plateau, SharedOptions, TrainOptions, Trainer};

fn digits(from: u64, to: u64) -> Arc<dyn Source> {
    let all = open("digits:", &OpenOptions::default()).expect("digits");
    Arc::new(Subset::of(all, (from..to).collect()).expect("some of them"))
}

fn config() -> NetworkConfig {
    NetworkConfig::image(8, 8, 1)
        .seed(3)
        .updater(Updater::nesterovs(0.05, 0.9))
        .layer(Dense::new(128).activation(Activation::Tanh))
        .layer(Output::new(10, Loss::CrossEntropy).activation(Activation::Softmax))
}

fn run(config: NetworkConfig, options: TrainOptions) -> ModelFile {
    let network = Network::new(config).expect("a network");
    let options = TrainOptions { batch: 64, epochs: 2, seed: 3, ..options };
    Trainer::new(network, digits(0, 300), options).expect("they fit").run(&mut |_| {}).expect("a run").model
}

fn distance(a: &ModelFile, b: &ModelFile) -> f32 {
    let pairs = a.state.parameters.iter().zip(b.state.parameters.iter());
    pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

#[test]
fn a_step_in_parts_is_the_step_as_a_whole_in_every_mode() {
    let averaging = AveragingOptions { frequency: 2, ..AveragingOptions::default() };
    for (workers, mode) in [(1, Mode::Solo), (2, Mode::Sync), (2, Mode::Averaging(averaging))] {
        let of = |micro_batch| {
            run(config(), TrainOptions { workers, mode: mode.clone(), micro_batch, ..TrainOptions::default() })
        };
        let (whole, parts) = (of(None), of(Some(24)));
        let (apart, moved) = (
            distance(&whole, &parts),
            distance(&whole, &ModelFile::new(whole.network.clone(), whole.network.initial_state())),
        );
        assert!(apart > 0.0 && apart < 1e-5 && moved > 0.05, "{}: {apart}, moved {moved}", mode.name());
        assert_eq!(of(Some(24)).state, parts.state, "{}: the same bits again", mode.name());
        if workers == 1 {
            assert_eq!(of(Some(64)).state.parameters, whole.state.parameters, "one part is the whole");
        }
    }
    // Who gets what is not the same twice in this mode: it comes somewhere near.
    let shared = Mode::Shared(SharedOptions::default());
    let options = TrainOptions { workers: 2, mode: shared, micro_batch: Some(24), ..TrainOptions::default() };
    assert!(run(config(), options).state.parameters.iter().all(|value| value.is_finite()));
}

#[test]
fn a_mean_of_the_parameters_is_the_same_in_one_process_whoever_computes() {
    let of = |keeps: Option<f64>, workers, mode| {
        let config = NetworkConfig { moving_average: keeps, ..config() };
        run(config, TrainOptions { workers, mode, global_batch: Some(64), ..TrainOptions::default() })
    };
    let (plain, one) = (of(None, 1, Mode::Solo), of(Some(0.9), 1, Mode::Solo));
    assert!(distance(&plain, &one) > 1e-3, "the mean lies behind");
    let two = of(Some(0.9), 2, Mode::Sync);
    assert!(distance(&one, &two) < 1e-5, "{}", distance(&one, &two));
    for mode in [Mode::Averaging(AveragingOptions::default()), Mode::Shared(SharedOptions::default())] {
        let (name, plain, mean) = (mode.name(), of(None, 2, mode.clone()), of(Some(0.9), 2, mode));
        assert!(distance(&plain, &mean) < 0.5 && distance(&one, &mean) < 0.5, "{name}");
    }
}

#[test]
fn a_run_with_a_mean_that_is_resumed_comes_to_the_same_bits() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = config().moving_average(0.95);
    let trainer = |steps, name: &str, resume| {
        let output = Some(folder.path().join(name));
        let options = TrainOptions { batch: 64, epochs: 3, steps, seed: 3, output, resume, ..TrainOptions::default() };
        let network = Network::new(config.clone()).expect("a network");
        Trainer::new(network, digits(0, 300), options).expect("they fit").test(digits(300, 500)).expect("they fit")
    };
    let whole = trainer(None, "whole", false).run(&mut |_| {}).expect("a run");
    trainer(Some(7), "cut", false).run(&mut |_| {}).expect("a part");
    let resumed = trainer(None, "cut", true).run(&mut |_| {}).expect("the rest");
    assert_eq!(resumed.model.state, whole.model.state);
    let kept = paceline_train::SavedModel::load(&folder.path().join("whole/model.safetensors")).expect("a model");
    let mut saved =
        paceline_train::SavedModel::load(&folder.path().join("whole/checkpoint.safetensors")).expect("a model");
    assert_eq!(kept.file.state.parameters, saved.file.state.parameters, "a checkpoint is judged as its run is");
    let scores = whole.scores.expect("scores");
    let again = saved.evaluate(digits(300, 500), 256).expect("judged").expect("scores");
    assert_eq!(again.score().to_bits(), scores.score().to_bits());
}

#[test]
fn rates_fall_on_a_plateau_and_a_resume_knows_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let trainer = |epochs, name: &str, resume| {
        // No score is ever this much better than another: rates fall at every evaluation but the first two.
        let plateau = Some(Plateau { improvement: 100.0, patience: 1, factor: 0.5, ..Plateau::default() });
        let output = Some(folder.path().join(name));
        let options = TrainOptions { batch: 64, epochs, plateau, output, resume, ..TrainOptions::default() };
        let network = Network::new(config()).expect("a network");
        Trainer::new(network, digits(0, 300), options).expect("they fit").test(digits(300, 500)).expect("they fit")
    };
    let told = |trainer: Trainer| {
        let mut told = Vec::new();
        let outcome = trainer.run(&mut |event| {
            if let Event::RatesLowered { epoch, factor } = event {
                told.push((*epoch, *factor));
            }
        });
        (told, outcome.expect("a run").model.state)
    };
    let (whole, state) = told(trainer(6, "whole", false));
    assert_eq!(whole, [(3, 0.5), (5, 0.25)]);
    assert_eq!(told(trainer(4, "cut", false)).0, [(3, 0.5)]);
    let (rest, resumed) = told(trainer(6, "cut", true));
    assert_eq!((rest, resumed.parameters), (vec![(5, 0.25)], state.parameters.clone()));
    let without = TrainOptions { batch: 64, epochs: 6, ..TrainOptions::default() };
    let plain = Trainer::new(Network::new(config()).expect("a network"), digits(0, 300), without).expect("they fit");
    assert_ne!(plain.run(&mut |_| {}).expect("a run").model.state.parameters, state.parameters, "it does something");
}

#[test]
fn what_makes_no_sense_is_refused_with_its_range() {
    let refused = |settings: &[&str]| {
        let settings: Vec<String> = settings.iter().map(|setting| (*setting).to_owned()).collect();
        let job = Job::digits(&settings).map_err(|error| error.to_string());
        match job.and_then(|job| {
            let trainer =
                job.trainer(None, Default::default(), &OpenOptions::default()).map_err(|error| error.to_string())?;
            trainer.can_stop_early().map_err(|error| error.to_string())
        }) {
            Ok(()) => panic!("{settings:?} was accepted"),
            Err(message) => message,
        }
    };
    for (settings, expected) in [
        (vec!["data.micro_batch=0"], "at least 1"),
        (vec!["network.moving_average=1.0"], "0 or more and less than 1"),
        (vec!["network.moving_average=0.9", "network.optimiser=lbfgs"], "an `optimiser` that searches"),
        (vec!["train.plateau.factor=1.5"], "above 0 and below 1"),
        (vec!["train.plateau.least=1.0"], "below 1"),
        (vec!["train.plateau.metric=mse"], "`accuracy`"),
        (vec!["train.early_stopping.metric=r2"], "where classes are learned"),
        (vec!["train.plateau.patience=1", "train.evaluate=false"], "test data"),
    ] {
        let found = refused(&settings);
        assert!(found.contains(expected), "{settings:?}: {found}");
    }
    let settings = ["train.plateau.patience=1".to_owned()];
    let job = Job::digits(&settings).expect("a job");
    let error = job.cluster_trainer(None, &OpenOptions::default()).err().expect("refused");
    assert!(matches!(&error, Error::Unsuitable { setting: "train.plateau", .. }), "{error}");
}
