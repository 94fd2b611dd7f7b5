//! Optimisers that look at whole batches: how low they come, what checkpoints keep of them, and where they are not for.

use std::sync::Arc;

use paceline_data::{Arrays, ExampleShape, LoaderOptions, Normaliser, OpenOptions, TargetShape, open};
use paceline_model::{Batch, Model, PartwiseModel, Progress, State, Targets};
use paceline_nn::{Engine, Network, NetworkConfig};
use paceline_train::{AveragingOptions, IfFound, Job, Mode, TrainOptions, Trainer};

/// All digits of the training part, normalised.
fn digits() -> Batch {
    let source = open("digits:train", &OpenOptions::default()).expect("digits are built in");
    let normaliser = Normaliser::fit(source.default_normaliser(), &*source).expect("it can be read");
    let batch = source.examples();
    let loader = paceline_data::Loader::new(source, LoaderOptions { batch, normaliser, ..LoaderOptions::default() });
    let loader = loader.expect("a loader");
    let mut epoch = loader.epoch(0, 0);
    epoch.next().expect("a batch").expect("it can be read")
}

/// The mean loss, without the decay, of a network that was trained for so many passes over the digits.
fn after(optimiser: &str, layers: &str, passes: u64) -> (f64, Engine, paceline_model::State) {
    let json =
        format!(r#"{{"seed": 1, "input": {{"flat_image": [8, 8, 1]}}, "optimiser": {optimiser}, "layers": {layers}}}"#);
    let config = NetworkConfig::from_json(&json).unwrap_or_else(|error| panic!("{error}"));
    let mut engine = Engine::new(Network::new(config).unwrap_or_else(|error| panic!("{error}")));
    let (batch, mut state) = (digits(), engine.initial_state());
    let mut progress = Progress::default();
    while engine.passes() < passes {
        let before = engine.passes();
        engine.train(&batch, &mut state, progress).expect("a step");
        progress.iteration += 1;
        assert!(engine.passes() > before);
    }
    let loss = engine.predict(&batch, &state, &mut Vec::new()).expect("a batch").expect("targets").mean();
    (loss, engine, state)
}

#[test]
fn curvature_and_conjugate_directions_come_lower_than_the_gradient_at_equal_passes() {
    let layers =
        r#"[{"dense": {"units": 30, "activation": "tanh"}}, {"output": {"units": 10, "activation": "softmax"}}]"#;
    let of = |optimiser: &str| after(optimiser, layers, 120).0;
    let (plain, conjugate, curvature) =
        (of(r#""line_gradient_descent""#), of(r#""conjugate_gradient""#), of(r#""lbfgs""#));
    assert!(curvature < plain / 3.0, "{curvature} and {plain}");
    assert!(conjugate < plain / 2.0, "{conjugate} and {plain}");
}

/// What `fixtures/softmax_regression.py` prints.
const OPTIMUM: f64 = 0.724970871;

#[test]
fn softmax_regression_comes_to_the_optimum_of_scipy() {
    let layers = r#"[{"output": {"units": 10, "activation": "softmax", "l2": 0.01}}]"#;
    for optimiser in [r#"{"lbfgs": {"memory": 10}}"#, r#""conjugate_gradient""#] {
        let (loss, engine, state) = after(optimiser, layers, 400);
        let weights = engine.network().parameters()[0].range.clone();
        let decay: f64 = state.parameters[weights].iter().map(|w| f64::from(*w).powi(2)).sum();
        let found = loss + 0.005 * decay;
        assert!((found - OPTIMUM).abs() < 2e-6 * OPTIMUM, "{optimiser}: {found}");
    }
}

const JOB: &str = r#"
data    = { train = "digits:train", test = "digits:test", batch = 2000 }
network = { seed = 4, input = { flat_image = [8, 8, 1] }, optimiser = { lbfgs = { memory = 3 } }, layers = [{ dense = { units = 12, activation = "tanh" } }, { output = { units = 10 } }] }
train   = { epochs = 12, checkpoint = { steps = 1 } }
"#;

fn job(settings: &[&str]) -> Job {
    let settings: Vec<String> = settings.iter().map(|setting| (*setting).to_owned()).collect();
    Job::from_text(JOB, false, "whole", "the job", &settings).expect("a job")
}

#[test]
fn what_an_optimiser_remembers_outlives_a_stop() {
    let run = |workers: usize, folder: &std::path::Path, epochs: &str, found: IfFound| {
        let workers = format!("train.workers={workers}");
        let trainer =
            job(&[epochs, &workers]).phased(Some(folder.to_owned()), found, &OpenOptions::default()).expect("they fit");
        trainer.run(&mut |_| {}).expect("a run").model.state.parameters
    };
    for workers in [1, 2] {
        let [whole, halves] = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
        let at_once = run(workers, whole.path(), "train.epochs=12", IfFound::Refuse);
        run(workers, halves.path(), "train.epochs=5", IfFound::Refuse);
        assert!(run(workers, halves.path(), "train.epochs=12", IfFound::Resume) == at_once, "{workers} workers");
    }
}

/// What so many workers come to, with the first 300 digits so often one after the other.
fn with_copies(workers: usize, copies: usize, mode: Mode) -> State {
    let batch = digits();
    let Targets::Classes(classes) = &batch.targets else { unreachable!("digits are classes") };
    let features = batch.features[..300 * 64].repeat(copies);
    let shape = ExampleShape {
        features: vec![64],
        targets: TargetShape::Classes { names: (0..10).map(|digit: u32| digit.to_string()).collect() },
    };
    let source = Arrays::new(features, shape, Targets::Classes(classes[..300].repeat(copies))).expect("digits");
    let json = r#"{"seed": 4, "input": {"feed_forward": 64}, "optimiser": "lbfgs", "layers": [
        {"dense": {"units": 12}}, {"batch_norm": {"activation": "tanh"}}, {"output": {"units": 10, "activation": "softmax"}}]}"#;
    let network = Network::new(NetworkConfig::from_json(json).expect("a network")).expect("a network");
    let options = TrainOptions {
        global_batch: Some(300 * copies),
        workers,
        mode,
        epochs: 8,
        shuffle: false,
        ..TrainOptions::default()
    };
    let trainer = Trainer::new(network, Arc::new(source), options).expect("they fit");
    trainer.run(&mut |_| {}).expect("a run").model.state
}

#[test]
fn workers_that_have_the_same_examples_find_what_one_finds() {
    let one = with_copies(1, 1, Mode::Solo);
    assert!(one.running.iter().any(|value| *value != 0.0));
    for workers in [2, 4] {
        let found = with_copies(workers, workers, Mode::Sync);
        assert!(found.parameters == one.parameters && found.running == one.running, "{workers} workers");
        assert!(found.slots == one.slots, "{workers} workers");
        let averaged = with_copies(workers, workers, Mode::Averaging(AveragingOptions::default()));
        assert!(averaged.parameters == one.parameters && averaged.slots == one.slots, "{workers} workers, averaged");
    }
}

#[test]
fn a_worker_without_examples_attends() {
    let [one, more] = [1, 2].map(|workers| {
        let set =
            [format!("train.workers={workers}"), "data.batch=1".into(), "data.train=digits:train?examples=1".into()];
        let job = Job::from_text(JOB, false, "whole", "the job", &set).expect("a job");
        let options = OpenOptions::default();
        job.phased(None, IfFound::Refuse, &options).expect("they fit").run(&mut |_| {}).expect("a run").model.state
    });
    assert!(one.parameters == more.parameters);
}

#[test]
fn a_loss_that_is_no_number_ends_the_search_of_all() {
    let set = ["train.workers=2".to_owned(), "network.layers=[{ dense = { units = 12, weight_init = { distribution = { constant = { value = 1e38 } } }, activation = \"identity\" } }, { output = { units = 10 } }]".to_owned()];
    let job = Job::from_text(JOB, false, "whole", "the job", &set).expect("a job");
    let run = job.phased(None, IfFound::Refuse, &OpenOptions::default()).expect("they fit").run(&mut |_| {});
    let error = run.map(drop).expect_err("no loss").to_string();
    assert!(error.contains("before the first step: set another `weight_init`"), "{error}");
}

#[test]
fn what_makes_no_sense_for_a_search_is_refused() {
    let error = |settings: &[&str]| {
        let trainer = job(settings).phased(None, IfFound::Refuse, &OpenOptions::default());
        trainer.err().expect("it makes no sense").to_string()
    };
    assert!(
        error(&["train.workers=2", "train.mode=shared"])
            .contains("cannot be `shared` for a network whose `optimiser` searches")
    );
    let on_machines = job(&["train.epochs=1"]).cluster_trainer(None, &OpenOptions::default());
    let refused = on_machines.err().expect("nobody sums for a search there").to_string();
    assert!(
        refused.contains("cannot be `sync` on many machines for a network whose `optimiser` searches"),
        "{refused}"
    );
    assert!(error(&["network.l1=0.1"]).contains("`l1` is something that updaters know"));
    let pretrained =
        JOB.replace("dense = { units = 12, activation = \"tanh\" }", "rbm = { units = 12 }") + "pretrain = {}";
    let pretrained = Job::from_text(&pretrained, false, "whole", "the job", &[]).expect("a job");
    let refused = pretrained.phased(None, IfFound::Refuse, &OpenOptions::default()).err().expect("no loss to search");
    assert!(refused.to_string().contains("contrastive divergence"), "{refused}");
    let text = JOB.replace("memory = 3", "memory = 0");
    let error = Job::from_text(&text, false, "whole", "the job", &[]).expect_err("no memory").to_string();
    assert!(error.contains("`max_steps` and `memory` must be at least 1, and `memory` at most 1000"), "{error}");
}
