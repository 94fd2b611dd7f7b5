//! One model, several workers: the bits of plain prediction, whatever shares a pass, is swapped or fails meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::scope;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, unbounded};
use paceline_data::{
    Arrays, Example, ExampleShape, ExampleTarget, Normaliser, OpenOptions, Source, Stream, Subset, TargetShape, open,
};
use paceline_model::{Batch, Targets};
use paceline_nn::config::{BatchNorm, Conv2d, CustomConfig, Dense, Dropout, NetworkConfig, Output};
use paceline_nn::{Activation, Backward, CustomParameter, Layer, Loss, ModelFile, Network, Real, Shape};
use paceline_train::{
    Answer, BatchedOptions, Error, InferenceError, InferenceMode, ParallelInference, Pending, SavedModel,
};

const WIDTH: usize = 64;

fn file(config: NetworkConfig, normaliser: &Normaliser) -> ModelFile {
    let network = Network::new(config).expect("a network");
    let extra = [("normaliser".to_owned(), serde_json::to_string(normaliser).expect("numbers"))].into();
    let state = network.initial_state();
    ModelFile { extra, ..ModelFile::new(network, state) }
}

/// A model of digits; another seed is another model, with another normaliser too.
fn model(seed: u64) -> ModelFile {
    let config = NetworkConfig::image(8, 8, 1)
        .seed(seed)
        .layer(Conv2d::new(5, [3, 3]))
        .layer(BatchNorm::default().activation(Activation::Relu))
        .layer(Dropout::new(0.5))
        .layer(Dense::new(19).activation(Activation::Tanh))
        .layer(Output::new(10, Loss::CrossEntropy).activation(Activation::Softmax));
    file(config, &Normaliser::Image { scale: 16.0 + seed as f32 })
}

fn digits(examples: usize) -> Arc<dyn Source> {
    Arc::new(Subset::first(open("digits:", &OpenOptions::default()).expect("digits"), examples))
}

fn features(examples: usize) -> Vec<f32> {
    let mut batch = Batch::empty();
    digits(examples).read(&(0..examples as u64).collect::<Vec<_>>(), &mut batch).expect("there are that many");
    batch.features
}

/// What one thread says of these digits: the outputs of each.
fn plain(model: ModelFile, examples: usize) -> Vec<Vec<f32>> {
    let mut rows = Vec::new();
    let take = |_: &Batch, outputs: &[f32]| -> Result<(), Error> {
        rows.extend(outputs.chunks_exact(10).map(<[f32]>::to_vec));
        Ok(())
    };
    SavedModel::new(model).expect("a model").predict(digits(examples), 32, take).expect("they fit");
    rows
}

fn batched(batch_limit: usize, queue_limit: usize, wait: Duration) -> InferenceMode {
    InferenceMode::Batched(BatchedOptions { batch_limit, queue_limit, wait })
}

fn all_modes() -> [InferenceMode; 4] {
    [
        InferenceMode::Sequential { queue_limit: 2 },
        batched(8, 3, Duration::ZERO),
        batched(5, 64, Duration::from_micros(300)),
        InferenceMode::InPlace,
    ]
}

fn start(model: ModelFile, workers: usize, mode: InferenceMode) -> ParallelInference {
    ParallelInference::builder(model).workers(workers).mode(mode).build().expect("good settings")
}

#[test]
fn every_mode_gives_the_bits_of_plain_prediction() {
    let (features, wanted) = (features(60), plain(model(1), 60));
    for mode in all_modes() {
        for workers in [1, 3] {
            let inference = start(model(1), workers, mode);
            scope(|threads| {
                for offset in 0..4 {
                    // From one to four examples a request, by the examples where it begins.
                    let (inference, features, wanted) = (inference.clone(), &features, &wanted);
                    threads.spawn(move || {
                        let mut outputs = vec![1.0; 3];
                        for at in (offset..56).chain(0..offset) {
                            let examples = at..at + 1 + at % 4;
                            let rows = &features[examples.start * WIDTH..examples.end * WIDTH];
                            let wanted = wanted[examples].concat();
                            assert_eq!(inference.output(rows).expect("an answer"), wanted, "{mode:?}");
                            assert_eq!(inference.output_into(rows, &mut outputs).expect("an answer"), 1);
                            assert_eq!(outputs, wanted, "{mode:?}");
                        }
                    });
                }
            });
            let told = inference.statistics();
            assert_eq!([told.requests, told.failed, told.refused], [2 * 4 * 56, 0, 0]);
        }
    }
}

/// Says how many examples came in, and lets nobody out without a permit, or for ever after permits have ended. Panics
/// over what it cannot take.
struct Turnstile {
    entered: Sender<usize>,
    permits: Receiver<()>,
}

impl Layer for Turnstile {
    fn name(&self) -> &str {
        "turnstile"
    }

    fn output(&self, input: Shape) -> Result<Shape, String> {
        Ok(input)
    }

    fn parameters(&self, _: Shape) -> Vec<CustomParameter> {
        Vec::new()
    }

    fn forward<R: Real>(&self, examples: usize, _: &[R], x: &[R], y: &mut [R]) {
        // Nobody listens in tests that do not care.
        let _ = self.entered.send(examples);
        let _ = self.permits.recv();
        assert!(x.iter().all(|x| *x < R::of(1e6)), "a layer that fears large numbers");
        y.copy_from_slice(x);
    }

    fn backward<R: Real>(&self, _: Backward<'_, R>) {
        unreachable!("nobody trains here")
    }
}

/// A model of one number that says what went in, behind a turnstile; what is seen of it, and the permits.
///
/// Tests bind the permits after the workers: a test that fails drops them first, and no worker waits for one.
fn turnstile() -> (ModelFile, Receiver<usize>, Sender<()>) {
    let ((entered, seen), (permit, permits)) = (unbounded(), unbounded());
    let config = NetworkConfig::feed_forward(1)
        .layer(CustomConfig::new(Turnstile { entered, permits }))
        .layer(Output::new(1, Loss::Mse));
    let mut file = file(config, &Normaliser::Image { scale: 1.0 });
    file.state.parameters.copy_from_slice(&[1.0, 0.0]);
    (file, seen, permit)
}

fn submit_all(inference: &ParallelInference, requests: &[&[f32]]) -> Vec<Pending> {
    requests.iter().map(|request| inference.submit(request).expect("it fits")).collect()
}

fn assert_answered(pending: Vec<Pending>, requests: &[&[f32]]) {
    for (pending, request) in pending.into_iter().zip(requests) {
        let answer = pending.wait().expect("an answer");
        assert_eq!(answer, Answer { outputs: request.to_vec(), version: 1 });
    }
}

#[test]
fn requests_that_wait_together_share_a_pass_up_to_the_limit() {
    let (model, seen, permit) = turnstile();
    let (inference, permit) = (start(model, 1, batched(8, 64, Duration::ZERO)), permit);
    let first = inference.submit(&[-1.0]).expect("it fits");
    assert_eq!(seen.recv(), Ok(1), "nobody else was there");
    let ones: Vec<[f32; 1]> = (0..10).map(|value| [value as f32]).collect();
    let mut requests: Vec<&[f32]> = ones.iter().map(|one| &one[..]).collect();
    let many: Vec<f32> = (100..120).map(|value| value as f32).collect();
    // Eight ones, then two with the five; the four do not fit there but with the three; twenty are too many for any.
    requests.extend([&many[..5], &many[5..9], &many[9..12], &many, &many[..1]]);
    let pending = submit_all(&inference, &requests);
    drop(permit);
    assert_eq!(first.wait().expect("an answer").outputs, [-1.0]);
    assert_answered(pending, &requests);
    let told = inference.statistics();
    assert_eq!([told.requests, told.passes, told.examples, told.largest_pass], [16, 6, 44, 20]);
    drop(inference);
    assert_eq!(seen.iter().collect::<Vec<_>>(), [8, 7, 7, 20, 1]);
}

#[test]
fn sequential_and_in_place_never_join() {
    for mode in [InferenceMode::Sequential { queue_limit: 64 }, InferenceMode::InPlace] {
        let (model, seen, permit) = turnstile();
        drop(permit);
        let inference = start(model, 1, mode);
        let requests: [&[f32]; 4] = [&[1.0], &[2.0, 3.0], &[4.0], &[5.0]];
        assert_answered(submit_all(&inference, &requests), &requests);
        drop(inference);
        assert_eq!(seen.iter().collect::<Vec<_>>(), [1, 2, 1, 1], "{mode:?}");
    }
}

#[test]
fn a_batch_waits_for_more_until_it_is_full_or_its_window_closes() {
    let (model, _seen, permit) = turnstile();
    drop(permit);
    // Two workers: the one that is free must not take what belongs in the other's batch. A queue of one: when the next
    // request is let in, a worker has the one before.
    let inference = start(model, 2, batched(3, 1, Duration::MAX));
    let values: Vec<[f32; 1]> = (0..60).map(|value| [value as f32]).collect();
    let requests: Vec<&[f32]> = values.iter().map(|value| &value[..]).collect();
    assert_answered(submit_all(&inference, &requests), &requests);
    assert_eq!(inference.statistics().passes, 20);

    let (model, _seen, permit) = turnstile();
    drop(permit);
    let inference = start(model, 2, batched(3, 64, Duration::from_millis(20)));
    assert_eq!(inference.output(&[7.0]).expect("an answer"), [7.0], "nobody else comes");
}

#[test]
fn a_full_queue_refuses_or_waits() {
    for mode in [InferenceMode::Sequential { queue_limit: 3 }, batched(2, 3, Duration::ZERO)] {
        let (model, seen, permit) = turnstile();
        let (inference, permit) = (start(model, 1, mode), permit);
        let first = inference.try_submit(&[0.0]).expect("the worker is free");
        assert_eq!(seen.recv(), Ok(1));
        let requests: [&[f32]; 3] = [&[1.0], &[2.0], &[3.0]];
        let pending = requests.map(|request| inference.try_submit(request).expect("there is room"));
        let refused = inference.try_submit(&[4.0]).err().expect("there is no room");
        assert!(matches!(refused, InferenceError::Busy { limit: 3, .. }), "{refused}");
        assert_eq!(refused.to_string(), "3 requests wait already, and no more may: ask again later, or allow more");
        assert_eq!(inference.statistics().refused, 1);
        scope(|threads| {
            let patient = threads.spawn(|| inference.output(&[5.0]));
            drop(permit);
            assert_eq!(patient.join().expect("no panic").expect("an answer"), [5.0]);
        });
        assert_eq!(first.wait().expect("an answer").outputs, [0.0]);
        assert_answered(pending.into(), &requests);
        assert_eq!(inference.try_output(&[6.0]).expect("there is room again"), [6.0]);
    }
}

#[test]
fn in_place_refuses_or_waits_when_all_replicas_are_in_use() {
    let (model, seen, permit) = turnstile();
    let (inference, permit) = (start(model, 1, InferenceMode::InPlace), permit);
    scope(|threads| {
        let first = threads.spawn(|| inference.output(&[1.0]));
        assert_eq!(seen.recv(), Ok(1));
        let refused = inference.try_output(&[2.0]).expect_err("the only replica is in use");
        assert_eq!(refused.to_string(), "1 replicas are all in use: ask again later, or allow more");
        let patient = threads.spawn(|| inference.output(&[3.0]));
        drop(permit);
        assert_eq!(first.join().expect("no panic").expect("an answer"), [1.0]);
        assert_eq!(patient.join().expect("no panic").expect("an answer"), [3.0]);
    });
    assert_eq!(inference.try_output(&[2.0]).expect("it is free again"), [2.0]);
}

#[test]
fn a_swap_under_load_fails_nobody_and_mixes_nothing() {
    const SWAPS: u64 = 12;
    let features = features(40);
    // Odd versions are the first model, even ones the second.
    let wanted = [plain(model(2), 40), plain(model(1), 40)];
    assert_ne!(wanted[0][0], wanted[1][0]);
    for mode in all_modes() {
        let inference = start(model(1), 2, mode);
        let (swapped, over) = (AtomicU64::new(1), AtomicBool::new(false));
        let (answered, answers) = unbounded();
        scope(|threads| {
            // If this thread fails, nobody listens to the others any more and they end.
            let answers = answers;
            for offset in 0..3 {
                let (inference, answered) = (inference.clone(), answered.clone());
                let (features, wanted, swapped, over) = (&features, &wanted, &swapped, &over);
                threads.spawn(move || {
                    for at in (0..36).cycle().skip(offset * 9) {
                        let examples = at..at + 1 + at % 4;
                        let least = swapped.load(Ordering::SeqCst);
                        let rows = &features[examples.start * WIDTH..examples.end * WIDTH];
                        let Answer { outputs, version } = inference.answer(rows).expect("a swap fails nobody");
                        assert!(version >= least, "{version} after the swap to {least} had returned, {mode:?}");
                        assert_eq!(outputs, wanted[version as usize % 2][examples].concat(), "{mode:?}");
                        if answered.send(version).is_err() || over.load(Ordering::Relaxed) {
                            return;
                        }
                    }
                });
            }
            drop(answered);
            for swap in 0..SWAPS {
                answers.iter().take(10).for_each(drop);
                let version = inference.swap(model(2 - swap % 2)).expect("it fits");
                swapped.store(version, Ordering::SeqCst);
                assert_eq!(version, swap + 2);
                assert_eq!(inference.answer(&features[..WIDTH]).expect("an answer").version, version);
            }
            // Each of the others sees the last version, too.
            answers.iter().find(|version| *version == SWAPS + 1).expect("the load goes on");
            over.store(true, Ordering::Relaxed);
        });
        assert_eq!([inference.version(), inference.statistics().failed], [SWAPS + 1, 0]);
    }
}

#[test]
fn a_request_keeps_the_version_that_it_began_with() {
    let (model, seen, permit) = turnstile();
    let mut doubling = model.clone();
    doubling.state.parameters.copy_from_slice(&[2.0, 0.0]);
    let (inference, permit) = (start(model, 1, batched(8, 8, Duration::ZERO)), permit);
    let running = inference.submit(&[1.0]).expect("it fits");
    assert_eq!(seen.recv(), Ok(1));
    let waiting = inference.submit(&[2.0]).expect("it fits");
    assert_eq!(inference.swap(doubling).expect("it fits"), 2);
    let new = inference.submit(&[3.0]).expect("it fits");
    drop(permit);
    let answers = [running, waiting, new].map(|pending| pending.wait().expect("an answer"));
    let wanted = [(1.0, 1), (2.0, 1), (6.0, 2)].map(|(output, version)| Answer { outputs: vec![output], version });
    assert_eq!(answers, wanted);
    drop(inference);
    assert_eq!(seen.iter().collect::<Vec<_>>(), [1, 1], "two versions never share a pass");
}

#[test]
fn a_model_of_another_shape_is_refused_and_the_old_one_goes_on() {
    let inference = start(model(1), 1, InferenceMode::default());
    let other = |config: NetworkConfig| file(config, &Normaliser::Image { scale: 1.0 });
    let wide = other(NetworkConfig::image(9, 8, 1).layer(Output::new(10, Loss::Mse)));
    let error = inference.swap(wide).expect_err("another input").to_string();
    assert!(error.starts_with("the new model has the input ") && error.contains("9") && error.contains("8"), "{error}");
    let few = other(NetworkConfig::image(8, 8, 1).layer(Output::new(9, Loss::Mse)));
    let error = inference.swap(few).expect_err("another output").to_string();
    assert!(error.starts_with("the new model has the output 9"), "{error}");
    let mut broken = model(2);
    broken.extra.insert("normaliser".into(), r#"{"min_max": {"minimum": [1], "range": [1]}}"#.into());
    let error = inference.swap(broken).expect_err("a normaliser of another width").to_string();
    assert!(error.contains("a `normaliser` that fits its network"), "{error}");
    let answer = inference.answer(&features(1)).expect("an answer");
    assert_eq!(answer, Answer { outputs: plain(model(1), 1).concat(), version: 1 });
}

#[test]
fn a_panic_fails_the_request_that_it_is_about_and_nobody_else() {
    let message = "worker 0 panicked over this request: a layer that fears large numbers";
    for mode in all_modes() {
        let (model, _seen, permit) = turnstile();
        drop(permit);
        let inference = start(model, 1, mode);
        for good in [1.0, 2.0] {
            assert_eq!(inference.output(&[1e9]).expect_err("a panic").to_string(), message);
            assert_eq!(inference.output(&[good]).expect("the worker goes on"), [good]);
        }
        assert_eq!(inference.statistics().failed, 2);
    }
    let (model, seen, permit) = turnstile();
    let (inference, permit) = (start(model, 1, batched(8, 8, Duration::ZERO)), permit);
    let first = inference.submit(&[0.0]).expect("it fits");
    assert_eq!(seen.recv(), Ok(1));
    let requests: [&[f32]; 3] = [&[1.0], &[1e9], &[3.0]];
    let mut pending = submit_all(&inference, &requests);
    drop(permit);
    first.wait().expect("an answer");
    assert_eq!(pending.remove(1).wait().expect_err("a panic").to_string(), message);
    assert_answered(pending, &[requests[0], requests[2]]);
    drop(inference);
    assert_eq!(seen.iter().collect::<Vec<_>>(), [3, 1, 1, 1], "together, and then each by itself");
}

#[test]
fn dropping_the_last_handle_answers_what_waits_and_ends_the_threads() {
    for mode in [InferenceMode::Sequential { queue_limit: 9 }, batched(2, 9, Duration::MAX)] {
        let (model, seen, permit) = turnstile();
        let (inference, permit) = (start(model, 1, mode), permit);
        let requests: [&[f32]; 5] = [&[1.0], &[2.0], &[3.0], &[4.0], &[5.0]];
        let pending = submit_all(&inference, &requests);
        let clone = inference.clone();
        drop(inference);
        seen.recv().expect("a clone keeps it alive");
        // Waits for the worker, which waits for a permit.
        let dropped = std::thread::spawn(move || drop(clone));
        drop(permit);
        assert_answered(pending, &requests);
        dropped.join().expect("no panic");
        // The other end lives in the model's layer: it is gone with the last thread and the model.
        assert!(seen.iter().count() >= 2);
    }
}

#[test]
fn features_that_are_not_whole_examples_are_refused() {
    for mode in all_modes() {
        let inference = start(model(1), 1, mode);
        for found in [0, 1, 63, 65] {
            let error = inference.output(&vec![0.0; found]).expect_err("no whole examples");
            assert!(matches!(error, InferenceError::Features { expected: 64, found: f } if f == found));
            let wanted = format!("the request has {found} features, but the model expects 64 for each example");
            assert!(error.to_string().starts_with(&wanted), "{error}");
        }
        assert_eq!(inference.statistics().passes, 0);
    }
}

#[test]
fn settings_that_make_no_sense_are_refused_by_name() {
    let refused = |workers, mode| {
        let built = ParallelInference::builder(model(1)).workers(workers).mode(mode).build();
        built.expect_err("makes no sense").to_string()
    };
    let good = InferenceMode::default();
    assert_eq!(refused(0, good), "`workers`: expected from 1 to 1024, found 0");
    assert_eq!(refused(1025, good), "`workers`: expected from 1 to 1024, found 1025");
    assert_eq!(refused(1, batched(0, 1, Duration::ZERO)), "`batch_limit`: expected at least 1, found 0");
    assert_eq!(refused(1, batched(1, 0, Duration::ZERO)), "`queue_limit`: expected at least 1, found 0");
    let sequential = InferenceMode::Sequential { queue_limit: 0 };
    assert_eq!(refused(1, sequential), "`queue_limit`: expected at least 1, found 0");
}

/// Rows of numbers with two targets of their own.
fn numbers(examples: usize) -> Arc<dyn Source> {
    let features: Vec<f32> = (0..examples * WIDTH).map(|i| ((i * 37 % 101) as f32 - 50.0) / 7.0).collect();
    let values = features.chunks_exact(WIDTH).flat_map(|row| [row[0] * row[1], row[2] + 0.1]).collect();
    let names = vec!["a".to_owned(), "b".to_owned()];
    let shape = ExampleShape { features: vec![WIDTH], targets: TargetShape::Values { names } };
    Arc::new(Arrays::new(features, shape, Targets::Values { width: 2, values }).expect("they fit"))
}

#[test]
fn an_evaluation_by_any_number_of_workers_has_the_bits_of_one() {
    let regression = NetworkConfig::feed_forward(WIDTH).seed(5).layer(Output::new(2, Loss::Mse));
    let regression = file(regression, &Normaliser::Image { scale: 3.0 });
    for (model, source) in [(model(1), digits(150)), (regression, numbers(150))] {
        let wanted = SavedModel::new(model.clone()).expect("a model").evaluate(source.clone(), 8).expect("it fits");
        // Debug shows every number to its last bit.
        let wanted = format!("{:?}", wanted.expect("targets"));
        for mode in all_modes() {
            for workers in [1, 3] {
                let found = start(model.clone(), workers, mode).evaluate(source.clone(), 8).expect("it fits");
                assert_eq!(format!("{:?}", found.expect("targets")), wanted, "{mode:?}");
            }
        }
    }
    let narrow = ExampleShape { features: vec![3], targets: TargetShape::None };
    let narrow = Arc::new(Arrays::new(vec![0.0; 3], narrow, Targets::None).expect("they fit"));
    let error = start(model(1), 2, InferenceMode::InPlace).evaluate(narrow, 8).expect_err("too narrow").to_string();
    assert!(error.contains("3 features per example"), "{error}");
}

#[test]
fn predictions_of_a_source_come_in_its_order_and_only_a_few_batches_ahead() {
    const EXAMPLES: usize = 400;
    const FAILS_AT: u64 = 390;
    let row = |index: u64| -> Vec<f32> { (0..WIDTH as u64).map(|i| ((index * 31 + i * 7) % 17) as f32).collect() };
    let read = Arc::new(AtomicU64::new(0));
    let counted = read.clone();
    let make = move || {
        let counted = counted.clone();
        (0..EXAMPLES as u64).map(move |index| {
            counted.fetch_max(index + 1, Ordering::SeqCst);
            if index == FAILS_AT {
                return Err("the line is cut".into());
            }
            Ok(Example { features: row(index), target: ExampleTarget::Class(index as u32 % 10) })
        })
    };
    let names = (0..10).map(|class: u32| class.to_string()).collect();
    let shape = ExampleShape { features: vec![WIDTH], targets: TargetShape::Classes { names } };
    let source = Arc::new(Stream::new(shape, EXAMPLES, make));
    let alone = start(model(1), 1, InferenceMode::InPlace);
    for workers in [1, 3] {
        let inference = start(model(1), workers, InferenceMode::Sequential { queue_limit: 64 });
        read.store(0, Ordering::SeqCst);
        let mut next = 0;
        let end = inference.predict(source.clone(), 4, |batch, outputs| -> Result<(), Error> {
            for (index, outputs) in batch.indices.iter().zip(outputs.chunks_exact(10)) {
                assert_eq!(*index, next);
                assert_eq!(outputs, alone.output(&row(*index)).expect("an answer"));
                next += 1;
            }
            // With the workers and one more, as many read ahead, one being read and one that waits to be handed over.
            let most = next + 4 * (2 * (workers as u64 + 1) + 2);
            let read = read.load(Ordering::SeqCst);
            assert!(read <= most, "{read} examples were read when {next} were told");
            Ok(())
        });
        assert!(end.expect_err("the source fails").to_string().contains("the line is cut"));
        assert_eq!(next, FAILS_AT / 4 * 4, "whatever came before it was told");
    }
}
