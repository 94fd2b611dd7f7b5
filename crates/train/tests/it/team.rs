//! Several replicas in one process: what they agree on, and what happens when one of them fails.

use std::path::Path;
use std::sync::Arc;

use paceline_data::{
    Arrays, ExampleShape, Loader, LoaderOptions, OpenOptions, Share, Source, Subset, TargetShape, open,
};
use paceline_model::{Batch, Model, Progress, State, Targets};
use paceline_nn::config::{BatchNorm, Conv2d, CustomConfig, Dense, Dropout, NetworkConfig, Output};
use paceline_nn::{
    Activation, Backward, Constraint, CustomParameter, Engine, Flat, GradientNormalisation, Layer, Loss, ModelFile,
    Network, Real, Shape, Updater, WeightNoise,
};
use paceline_train::{
    AveragingOptions, CheckpointOptions, Error, Event, Mode, Outcome, Outer, SharedOptions, TrainOptions, Trainer,
};
use serde_json::Value;

const EVERY_STEP: Mode =
    Mode::Averaging(AveragingOptions { frequency: 1, average_updater: Some(true), ..EQUAL_SHARES });

/// What each gets does not depend on how fast it is, so that runs can be compared.
const EQUAL_SHARES: AveragingOptions = AveragingOptions {
    frequency: 3,
    average_updater: None,
    overlap: false,
    outer: Outer::None,
    balance: false,
    report_score: true,
};

fn averaging(frequency: u64) -> Mode {
    Mode::Averaging(AveragingOptions { frequency, ..EQUAL_SHARES })
}

fn shared() -> Mode {
    Mode::Shared(SharedOptions::default())
}

/// Everything that has a memory, and a layer whose norm must be seen whole.
fn config(updater: Updater) -> NetworkConfig {
    NetworkConfig::image(8, 8, 1)
        .seed(3)
        .updater(updater)
        .layer(Conv2d::new(4, [3, 3]))
        .layer(BatchNorm::default().activation(Activation::Relu))
        .layer(Dropout::new(0.2))
        .layer(
            Dense::new(16)
                .activation(Activation::Tanh)
                .gradient_normalisation(GradientNormalisation::ClipL2PerLayer { threshold: 0.5 }),
        )
        .layer(Output::new(10, Loss::CrossEntropy).activation(Activation::Softmax))
}

/// 200 digits: with 60 a step, the last step has 20, and the third of three workers none of them.
fn digits() -> Arc<dyn Source> {
    Arc::new(Subset::first(open("digits:", &OpenOptions::default()).expect("digits"), 200))
}

fn options(workers: usize, mode: Mode) -> TrainOptions {
    TrainOptions {
        global_batch: Some(60),
        epochs: 2,
        seed: 3,
        workers,
        mode,
        evaluate: false,
        ..TrainOptions::default()
    }
}

fn train(config: NetworkConfig, options: TrainOptions) -> Outcome {
    let network = Network::new(config).expect("a network");
    Trainer::new(network, digits(), options).expect("they fit").run(&mut |_| {}).expect("a run")
}

/// The same by one thread: the gradients of all shares, summed in order, and one update.
fn by_hand(config: NetworkConfig, workers: usize) -> State {
    let mut engine = Engine::new(Network::new(config).expect("a network"));
    let mut state = engine.initial_state();
    let loader = |index| {
        let share = Share { of: workers, index };
        let normaliser = paceline_data::Normaliser::fit(digits().default_normaliser(), &*digits()).expect("numbers");
        Loader::new(digits(), LoaderOptions { batch: 60, share, seed: 3, normaliser, ..LoaderOptions::default() })
    };
    let loaders: Vec<Loader> = (0..workers).map(|index| loader(index).expect("it fits")).collect();
    let mut iteration = 0;
    for epoch in 0..2 {
        let mut shares: Vec<_> = loaders.iter().map(|loader| loader.epoch(epoch, 0)).collect();
        for _ in 0..loaders[0].steps_per_epoch() {
            let (before, running) = (state.running.clone(), state.running.clone());
            let (mut sum, mut weight) = (vec![0.0; state.gradient.len()], 0.0);
            let mut seen: Vec<(f32, Flat)> = Vec::new();
            for share in &mut shares {
                let batch = share.next().expect("a batch").expect("readable");
                state.running = running.clone();
                if batch.examples() > 0 {
                    engine.gradient(&batch, &mut state).expect("it fits");
                    sum.iter_mut().zip(state.gradient.iter()).for_each(|(sum, gradient)| *sum += gradient);
                }
                weight += batch.weight();
                seen.push((batch.weight(), state.running.clone()));
            }
            state.running = before;
            state.running.fill(0.0);
            for (of_share, running) in seen.iter().filter(|(weight, _)| *weight > 0.0) {
                let part = of_share / weight;
                state.running.iter_mut().zip(running.iter()).for_each(|(mean, value)| *mean += part * value);
            }
            state.gradient.copy_from_slice(&sum);
            let all = 0..state.parameters.len();
            engine.update(&mut state, all.clone(), weight, Progress { iteration, epoch });
            engine.apply(&mut state, all);
            iteration += 1;
        }
    }
    state
}

#[test]
fn sync_gives_the_bits_of_one_worker_that_sums_in_order() {
    for workers in [2, 3] {
        let config = || config(Updater::adam(0.01));
        let (found, expected) = (train(config(), options(workers, Mode::Sync)).model.state, by_hand(config(), workers));
        assert!(found.parameters == expected.parameters, "{workers} workers: parameters");
        assert!(found.slots == expected.slots, "{workers} workers: what the updater remembers");
        assert!(found.running == expected.running, "{workers} workers: running statistics");
    }
}

#[test]
fn every_mode_gives_the_same_bits_on_every_run() {
    for mode in [Mode::Sync, averaging(3), EVERY_STEP] {
        let run = || lasting(train(config(Updater::adam(0.01)), options(4, mode.clone())));
        assert!(run() == run(), "{mode:?}");
    }
}

/// Every worker tells on its way back what it is done with, and others update and average it meanwhile, or it begins to do so
/// before the others are there; with a constraint that never binds each updates all by itself, and then all is averaged. Both
/// come to the same.
#[test]
fn it_makes_no_difference_whether_parts_are_exchanged_early() {
    let outer = Outer::Nesterov { learning_rate: 0.8, momentum: 0.5 };
    let with_outer = AveragingOptions { frequency: 2, outer, ..EQUAL_SHARES };
    let own_slots = AveragingOptions { average_updater: Some(false), ..EQUAL_SHARES };
    for mode in [averaging(1), averaging(3), Mode::Averaging(with_outer), Mode::Averaging(own_slots), Mode::Sync] {
        for workers in [2, 3, 9] {
            let run = |constraint: Option<Constraint>| {
                let output = Output::new(10, Loss::CrossEntropy).activation(Activation::Softmax);
                // Many pieces, and convolutions that are still under way when dense layers are done.
                let config = NetworkConfig::image(8, 8, 1)
                    .seed(3)
                    .updater(Updater::adam(0.01))
                    .layer(Conv2d::new(8, [3, 3]).activation(Activation::Relu))
                    .layer(BatchNorm::default())
                    .layer(Dense::new(150).activation(Activation::Relu))
                    .layer(Dense::new(90).activation(Activation::Tanh))
                    .layer(constraint.into_iter().fold(output, Output::constraint));
                lasting(train(config, options(workers, mode.clone())))
            };
            let (early, late) = (run(None), run(Some(Constraint::MaxNorm { norm: 1e9 })));
            match mode {
                // Factors are summed in another order than gradients.
                Mode::Sync => assert!(run(None) == early, "{workers} workers"),
                _ => assert!(early == late, "{mode:?}, {workers} workers"),
            }
        }
    }
}

/// What a run came to; what is left in the gradient means nothing.
fn lasting(outcome: Outcome) -> (Flat, Vec<Flat>, Flat) {
    let State { parameters, slots, running, .. } = outcome.model.state;
    (parameters, slots, running)
}

/// Dense layers of which `sync` shares factors, large enough for many parts.
fn dense() -> NetworkConfig {
    NetworkConfig::image(8, 8, 1)
        .seed(3)
        .updater(Updater::nesterovs(0.05, 0.9))
        .layer(Dense::new(300).activation(Activation::Relu))
        .layer(Dense::new(200).activation(Activation::Relu))
        .layer(Output::new(10, Loss::CrossEntropy).activation(Activation::Softmax))
}

#[test]
fn sync_gives_the_same_bits_whoever_updates_what() {
    let run = |workers| lasting(train(dense(), options(workers, Mode::Sync)));
    for workers in [2, 3, 5] {
        let first = run(workers);
        (0..5).for_each(|_| assert!(run(workers) == first, "{workers} workers"));
    }
}

#[test]
fn sync_with_shared_factors_is_the_sum_of_gradients_up_to_rounding() {
    for workers in [2, 3] {
        let (found, expected) = (train(dense(), options(workers, Mode::Sync)).model.state, by_hand(dense(), workers));
        let away = found.parameters.iter().zip(expected.parameters.iter()).map(|(a, b)| (a - b).abs());
        assert!(away.fold(0.0, f32::max) < 1e-4, "{workers} workers");
        assert_eq!(found.slots.len(), 1, "all is there for a checkpoint");
        let away = found.slots[0].iter().zip(expected.slots[0].iter()).map(|(a, b)| (a - b).abs());
        assert!(away.fold(0.0, f32::max) < 1e-4, "{workers} workers: what the updater remembers");
    }
}

#[test]
fn weights_are_disturbed_alike_however_many_workers_there_are() {
    let noisy = |noise: Option<WeightNoise>| {
        let mut dense = Dense::new(16).activation(Activation::Tanh);
        dense.settings.weight_noise = noise;
        let config = NetworkConfig::image(8, 8, 1).seed(3).updater(Updater::sgd(0.1)).layer(dense);
        config.layer(Output::new(10, Loss::CrossEntropy).activation(Activation::Softmax))
    };
    let run = |noise, workers, mode| train(noisy(noise), options(workers, mode)).model.state.parameters;
    let away = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    let noise = Some(WeightNoise::DropConnect { rate: 0.3 });
    let alone = run(noise, 1, Mode::Solo);
    assert!(away(&alone, &run(None, 1, Mode::Solo)) > 1e-2, "nothing was disturbed");
    for workers in [2, 3] {
        let away = away(&alone, &run(noise, workers, Mode::Sync));
        assert!(away < 1e-5, "{workers} workers are {away} away from one");
    }
}

#[test]
fn averaging_every_step_with_plain_descent_is_sync_up_to_rounding() {
    // Without statistics of minibatches and norms of gradients, which are a replica's own.
    let config = || {
        NetworkConfig::image(8, 8, 1)
            .seed(3)
            .updater(Updater::sgd(0.1))
            .layer(Dense::new(16).activation(Activation::Tanh))
            .layer(Output::new(10, Loss::CrossEntropy).activation(Activation::Softmax))
    };
    let start = Engine::new(Network::new(config()).expect("a network")).initial_state();
    // Three workers: in the last step of an epoch one of them has nothing, and must have no say.
    let runs = [Mode::Sync, EVERY_STEP].map(|mode| train(config(), options(3, mode)).model.state.parameters);
    let mut moved = 0.0f32;
    for (at, (one, other)) in runs[0].iter().zip(runs[1].iter()).enumerate() {
        assert!((one - other).abs() < 1e-5, "parameter {at}: {one} in sync, {other} averaged");
        moved = moved.max((one - start.parameters[at]).abs());
    }
    assert!(moved > 0.05, "only {moved} was learned");
}

#[test]
fn workers_that_see_different_classes_only_learn_all_of_them() {
    let all = open("digits:", &OpenOptions::default()).expect("digits");
    let mut batch = Batch::empty();
    all.read(&(0..all.examples() as u64).collect::<Vec<_>>(), &mut batch).expect("all of them");
    let Targets::Classes(classes) = &batch.targets else { panic!("digits have classes") };
    let of = |low: bool| (0..classes.len()).filter(move |&i| (classes[i] < 5) == low);
    // In every step of 40, the first half goes to the first worker.
    let (low, high): (Vec<usize>, Vec<usize>) = (of(true).collect(), of(false).collect());
    let order = low.chunks_exact(20).zip(high.chunks_exact(20)).flat_map(|(low, high)| [low, high].concat());
    let order: Vec<usize> = order.collect();
    let features = order.iter().flat_map(|&i| batch.row(i).to_vec()).collect();
    let targets = Targets::Classes(order.iter().map(|&i| classes[i]).collect());
    let names = (0..10).map(|n| n.to_string()).collect();
    let shape = ExampleShape { features: vec![8, 8, 1], targets: TargetShape::Classes { names } };
    let source: Arc<dyn Source> = Arc::new(Arrays::new(features, shape, targets).expect("they fit"));
    for mode in [Mode::Sync, averaging(3), shared()] {
        let config = NetworkConfig::image(8, 8, 1)
            .seed(3)
            .updater(Updater::nesterovs(0.02, 0.9))
            .layer(Dense::new(32).activation(Activation::Relu))
            .layer(Output::new(10, Loss::CrossEntropy).activation(Activation::Softmax));
        let options = TrainOptions {
            shuffle: false,
            epochs: 20,
            evaluate: true,
            global_batch: Some(40),
            normaliser: Some(paceline_data::NormaliserKind::MinMax),
            ..options(2, mode.clone())
        };
        let trainer =
            Trainer::new(Network::new(config).expect("a network"), source.clone(), options).expect("they fit");
        let outcome = trainer.test(all.clone()).expect("they fit").run(&mut |_| {}).expect("a run");
        let accuracy = outcome.scores.and_then(|scores| scores.accuracy()).expect("an accuracy");
        // A worker that learned nothing from the other would know one half.
        assert!(accuracy > 0.95, "{mode:?}: accuracy {accuracy}");
    }
}

#[test]
fn a_team_that_is_stopped_goes_on_with_the_same_bytes() {
    // Nesterov's way, and updaters that nobody else has seen, must be in the checkpoint.
    let outer = Outer::Nesterov { learning_rate: 0.8, momentum: 0.5 };
    let alone = AveragingOptions { frequency: 2, average_updater: Some(false), outer, ..EQUAL_SHARES };
    for mode in [Mode::Sync, averaging(2), Mode::Averaging(alone)] {
        let trainer = |folder: &Path, resume| {
            let output = Some(folder.to_owned());
            let options = TrainOptions {
                output,
                resume,
                checkpoint: CheckpointOptions { steps: Some(1), ..CheckpointOptions::default() },
                ..options(3, mode.clone())
            };
            Trainer::new(Network::new(config(Updater::adam(0.01))).expect("a network"), digits(), options)
        };
        let model = |folder: &Path| std::fs::read(folder.join("model.safetensors")).expect("a model");
        let whole = tempfile::tempdir().expect("a temporary folder");
        trainer(whole.path(), false).expect("they fit").run(&mut |_| {}).expect("a run");
        let stopped = tempfile::tempdir().expect("a temporary folder");
        let first = trainer(stopped.path(), false).expect("they fit");
        let stop = first.stop();
        let outcome = first.run(&mut |event| {
            if matches!(event, Event::Checkpoint { iteration: 2, .. }) {
                stop.ask();
            }
        });
        assert!(outcome.expect("a run").stopped);
        trainer(stopped.path(), true).expect("they fit").run(&mut |_| {}).expect("the rest");
        assert!(model(stopped.path()) == model(whole.path()), "{mode:?}");
    }
}

#[test]
fn a_shared_run_that_is_stopped_leaves_out_no_example_and_repeats_none() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let trainer = |resume| {
        let output = Some(folder.path().to_owned());
        let options = TrainOptions { output, resume, epochs: 30, ..options(3, shared()) };
        Trainer::new(Network::new(config(Updater::adam(0.01))).expect("a network"), digits(), options)
            .expect("they fit")
    };
    let first = trainer(false);
    let (stop, mut at) = (first.stop(), None);
    let outcome = first.run(&mut |event| match event {
        // The first step that is told is somewhere in the first epoch for the others.
        Event::Step { .. } => stop.ask(),
        Event::Paused { iteration, .. } => at = Some(*iteration),
        _ => {}
    });
    assert!(outcome.expect("a run").stopped);
    let at = at.expect("a pause");
    let mut examples = 0;
    let outcome = trainer(true).run(&mut |event| match event {
        Event::Started { resumed_at, .. } => assert_eq!(*resumed_at, at),
        Event::Finished { examples: seen, bytes_sent, .. } => {
            examples = *seen;
            assert!(*bytes_sent > 0);
        }
        _ => {}
    });
    assert_eq!(outcome.expect("the rest").model.progress.iteration, 30 * 4);
    // Whole steps have 60 examples, the last of an epoch 20.
    assert_eq!(examples, 30 * 200 - at / 4 * 200 - at % 4 * 60);
}

#[test]
fn what_shared_replicas_had_not_sent_is_in_the_checkpoint_and_applied_by_another_mode() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let trainer = |workers, mode, resume, steps| {
        let output = Some(folder.path().to_owned());
        // Each takes its own part of every step: one that has taken a single step has no threshold yet.
        let options = TrainOptions { output, resume, steps: Some(steps), shuffle: false, ..options(workers, mode) };
        Trainer::new(Network::new(config(Updater::adam(0.01))).expect("a network"), digits(), options)
            .expect("they fit")
    };
    trainer(3, shared(), false, 6).run(&mut |_| {}).expect("a run");
    let saved = ModelFile::load(&folder.path().join("checkpoint.safetensors")).expect("a checkpoint");
    let mut expected = saved.state.parameters.clone();
    for worker in 0..3 {
        let residual = &saved.arrays[&format!("{worker}.residual")];
        assert!(residual.iter().any(|rest| *rest != 0.0));
        assert_eq!(saved.arrays[&format!("{worker}.threshold")].len(), 1);
        expected.iter_mut().zip(residual).for_each(|(parameter, rest)| *parameter -= rest);
    }
    // Nothing is left to do, so the model is what the run began with.
    let outcome = trainer(1, Mode::Solo, true, 6).run(&mut |_| {}).expect("a run");
    assert!(outcome.model.state.parameters == expected);
    assert!(outcome.model.arrays.is_empty());
    let outcome = trainer(2, shared(), true, 6).run(&mut |_| {}).expect("a run");
    assert!(outcome.model.state.parameters == saved.state.parameters);
}

#[test]
fn a_stop_takes_all_replicas_out_at_the_same_step_long_before_the_epoch_ends() {
    let digits = open("digits:", &OpenOptions::default()).expect("digits");
    for mode in [Mode::Sync, averaging(3), shared()] {
        let config = NetworkConfig::image(8, 8, 1)
            .layer(Dense::new(2000).activation(Activation::Relu))
            .layer(Output::new(10, Loss::CrossEntropy).activation(Activation::Softmax));
        // 899 steps of more than a hundred thousand parameters.
        let options = TrainOptions { global_batch: Some(2), ..options(2, mode.clone()) };
        let network = Network::new(config).expect("a network");
        let trainer = Trainer::new(network, digits.clone(), options).expect("they fit");
        let (stop, mut at) = (trainer.stop(), None);
        let outcome = trainer.run(&mut |event| match event {
            Event::Step { .. } => stop.ask(),
            Event::Paused { iteration, .. } => at = Some(*iteration),
            _ => {}
        });
        assert!(outcome.expect("a run").stopped);
        assert!(at.is_some_and(|at| at < 800), "{mode:?}: stopped at {at:?}");
    }
}

#[test]
fn shared_workers_tell_what_they_send() {
    for (workers, mode, expected) in [(3, shared(), 3), (2, Mode::Sync, 0)] {
        let network = Network::new(config(Updater::adam(0.01))).expect("a network");
        let (parameters, per_epoch) = (network.parameter_count() as f64, 4);
        // Each takes its own part of the last step.
        let options = TrainOptions { shuffle: false, ..options(workers, mode) };
        let trainer = Trainer::new(network, digits(), options).expect("they fit");
        let (mut at_the_end, mut bytes) = (Vec::new(), 0.0);
        let outcome = trainer.run(&mut |event| match event {
            Event::Threshold { worker, step, traffic, .. } => {
                assert!(traffic.sparsity <= 1.0 && traffic.threshold > 0.0, "{traffic:?}");
                assert!(traffic.residual_norm > 0.0 && traffic.residual_norm.is_finite(), "{traffic:?}");
                // None is larger than its header and two bits for every parameter.
                assert!(traffic.bytes_per_step <= 18.0 + parameters / 4.0, "{traffic:?}");
                assert_eq!(traffic.form.is_some(), traffic.sparsity > 0.0);
                bytes += traffic.bytes_per_step;
                if *step == per_epoch {
                    at_the_end.push(worker.clone());
                }
                let json = serde_json::to_value(event).expect("an event");
                assert_eq!((&json["event"], &json["worker"]), (&"threshold".into(), &worker.as_str().into()));
                assert!(json["residual_norm"].is_number() && json["bytes_per_step"].is_number(), "{json}");
            }
            Event::Finished { bytes_sent, .. } => assert_eq!(*bytes_sent > 0, bytes > 0.0),
            _ => {}
        });
        outcome.expect("a run");
        at_the_end.sort_unstable();
        let every_epoch: Vec<String> =
            (1..=expected).flat_map(|worker| [worker, worker]).map(|n: usize| n.to_string()).collect();
        assert_eq!(at_the_end, every_epoch);
    }
}

/// Passes everything on, panics at a 77, or on the way back at a 79, and makes a NaN of a 78.
struct Touchy;

impl Layer for Touchy {
    fn name(&self) -> &str {
        "touchy"
    }
    fn options(&self) -> Value {
        Value::Null
    }
    fn output(&self, input: Shape) -> Result<Shape, String> {
        Ok(input)
    }
    fn parameters(&self, _input: Shape) -> Vec<CustomParameter> {
        // Without any the way back would end before it.
        vec![CustomParameter { name: "idle".into(), shape: vec![1], fan: None }]
    }
    fn forward<R: Real>(&self, _examples: usize, _parameters: &[R], x: &[R], y: &mut [R]) {
        for (x, y) in x.iter().zip(y) {
            assert!(*x != R::of(77.0), "touched the 77");
            *y = if *x == R::of(78.0) { R::of(f64::NAN) } else { *x };
        }
    }
    fn backward<R: Real>(&self, pass: Backward<'_, R>) {
        assert!(pass.x.iter().all(|x| *x != R::of(79.0)), "touched the 79");
    }
}

/// 90 rows of 2 features, of which example 65 has the given one.
fn rows(bad: f32) -> Arc<dyn Source> {
    let mut features: Vec<f32> = (0..180).map(|i| (i % 7) as f32 / 7.0).collect();
    features[65 * 2] = bad;
    let shape =
        ExampleShape { features: vec![2], targets: TargetShape::Classes { names: vec!["a".into(), "b".into()] } };
    Arc::new(Arrays::new(features, shape, Targets::Classes((0..90).map(|i| i % 2).collect())).expect("they fit"))
}

/// Steps of 20 for two workers: example 65 comes in the fourth, to the first of them.
fn fail(mode: Mode, bad: f32, folder: &Path) -> (Error, Vec<String>) {
    let config = NetworkConfig::feed_forward(2)
        .updater(Updater::sgd(0.1))
        .layer(CustomConfig::new(Touchy))
        .layer(Dense::new(90).activation(Activation::Relu))
        .layer(Output::new(2, Loss::CrossEntropy).activation(Activation::Softmax));
    let options = TrainOptions {
        workers: 2,
        mode,
        batch: 10,
        shuffle: false,
        normaliser: Some(paceline_data::NormaliserKind::None),
        checkpoint: CheckpointOptions { steps: Some(2), ..CheckpointOptions::default() },
        output: Some(folder.to_owned()),
        ..TrainOptions::default()
    };
    let trainer = Trainer::new(Network::new(config).expect("a network"), rows(bad), options).expect("they fit");
    let mut names = Vec::new();
    let error = trainer.run(&mut |event| {
        let json = serde_json::to_value(event).expect("an event");
        names.push(json["event"].as_str().expect("a name").to_owned());
    });
    (error.expect_err("a failure"), names)
}

#[test]
fn a_panic_in_one_worker_ends_the_run_with_its_message_and_keeps_the_checkpoint() {
    for mode in [Mode::Sync, averaging(3), shared()] {
        for bad in [77.0, 79.0] {
            let folder = tempfile::tempdir().expect("a temporary folder");
            let (error, events) = fail(mode.clone(), bad, folder.path());
            assert_eq!(error.to_string(), format!("worker 0 panicked: touched the {bad}"), "{mode:?}");
            assert_eq!(events.last().map(String::as_str), Some("failed"));
            assert!(folder.path().join("checkpoint.safetensors").exists());
            assert!(!folder.path().join("model.safetensors").exists());
        }
    }
}

#[test]
fn a_loss_that_is_no_number_in_one_worker_ends_the_run_at_its_step() {
    for mode in [Mode::Sync, averaging(3), shared()] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (error, _) = fail(mode.clone(), 78.0, folder.path());
        let text = error.to_string();
        assert!(text.starts_with("the loss became NaN at step 3 (epoch 1)"), "{mode:?}: {text}");
        assert!(text.contains("checkpoint.safetensors"), "{mode:?}: {text}");
    }
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    let network = || Network::new(config(Updater::sgd(0.1))).expect("a network");
    let refused = |options| Trainer::new(network(), digits(), options).err().expect("refused").to_string();
    assert_eq!(refused(options(2, Mode::Solo)), "`train.workers`: expected 1 in mode `solo`, found 2");
    assert_eq!(refused(options(0, Mode::Sync)), "`train.workers`: expected at least 1, found 0");
    let never = refused(options(2, averaging(0)));
    assert_eq!(never, "`train.mode.averaging.frequency`: expected at least 1, found 0");
    let constraint = Constraint::MaxNorm { norm: 1.0 };
    let held = NetworkConfig::image(8, 8, 1).layer(Output::new(10, Loss::CrossEntropy).constraint(constraint));
    let held = Trainer::new(Network::new(held).expect("a network"), digits(), options(2, shared()));
    assert!(held.err().expect("refused").to_string().contains("`constraints`"));
    let few = refused(TrainOptions { global_batch: Some(3), ..options(4, Mode::Sync) });
    assert_eq!(few, "`data.global_batch`: expected at least one example for every worker, found 3");
}
