//! Who takes which minibatch when one worker is slow.

use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use paceline_data::{Arrays, ExampleShape, NormaliserKind, TargetShape};
use paceline_model::Targets;
use paceline_nn::config::{CustomConfig, NetworkConfig, Output};
use paceline_nn::{Activation, Backward, CustomParameter, Layer, Loss, Network, Real, Shape, Updater};
use paceline_train::{AveragingOptions, Event, Mode, SharedOptions, TrainOptions, Trainer};
use serde_json::Value;

const BATCH: usize = 4;
const STEPS: usize = 20;

/// Who has seen which examples; every feature is the number of its example.
#[derive(Default)]
struct Diary {
    seen: Mutex<Vec<(usize, usize)>>,
    more: Condvar,
}

/// Passes everything on and writes it down.
struct Watched {
    diary: Arc<Diary>,
    slow: Slow,
}

/// What is slow about the first worker.
#[derive(Clone, Copy)]
enum Slow {
    /// It does not come out of its first minibatch before the second one has begun as many.
    Until(usize),
    /// It takes as long for every example.
    By(Duration),
}

impl Layer for Watched {
    fn name(&self) -> &str {
        "watched"
    }
    fn options(&self) -> Value {
        Value::Null
    }
    fn output(&self, input: Shape) -> Result<Shape, String> {
        Ok(input)
    }
    fn parameters(&self, _: Shape) -> Vec<CustomParameter> {
        Vec::new()
    }
    fn forward<R: Real>(&self, _: usize, _: &[R], x: &[R], y: &mut [R]) {
        y.copy_from_slice(x);
        let thread = std::thread::current();
        let worker = thread.name().and_then(|name| name.strip_prefix("paceline-worker-")?.parse().ok());
        let worker: usize = worker.expect("a worker");
        let mut seen = self.diary.seen.lock().expect("nobody panicked");
        seen.extend(x.iter().map(|x| (worker, x.to_f64() as usize)));
        self.diary.more.notify_all();
        if worker != 0 {
            return;
        }
        match self.slow {
            Slow::By(time) => {
                drop(seen);
                let since = Instant::now();
                while since.elapsed() < time * x.len() as u32 {
                    std::hint::spin_loop();
                }
            }
            Slow::Until(until) => {
                let begun = |seen: &[(usize, usize)]| seen.iter().filter(|(worker, _)| *worker == 1).count() / BATCH;
                let waits = |seen: &mut Vec<_>| begun(seen) < until;
                let waited = self.diary.more.wait_timeout_while(seen, Duration::from_secs(20), waits);
                let is_over = waited.expect("nobody panicked").1.timed_out();
                assert!(!is_over, "the second worker began fewer than {until}");
            }
        }
    }
    fn backward<R: Real>(&self, _: Backward<'_, R>) {}
}

/// An epoch of two workers in `shared`; what each of them has seen.
fn watched(until: usize, max_ahead: u64, shuffle: bool) -> Vec<(usize, usize)> {
    let mode = Mode::Shared(SharedOptions { max_ahead, ..SharedOptions::default() });
    let options = TrainOptions { mode, batch: BATCH, shuffle, ..TrainOptions::default() };
    seen(2 * BATCH * STEPS, Slow::Until(until), options)
}

/// An epoch of two workers, of whom the first is slow: who has seen what, each example once.
fn seen(examples: usize, slow: Slow, options: TrainOptions) -> Vec<(usize, usize)> {
    let shape =
        ExampleShape { features: vec![1], targets: TargetShape::Classes { names: vec!["a".into(), "b".into()] } };
    let features = (0..examples).map(|example| example as f32).collect();
    let classes = Targets::Classes((0..examples).map(|example| example as u32 % 2).collect());
    let source = Arc::new(Arrays::new(features, shape, classes).expect("they fit"));
    let diary = Arc::new(Diary::default());
    let config = NetworkConfig::feed_forward(1)
        .updater(Updater::sgd(0.001))
        .layer(CustomConfig::new(Watched { diary: diary.clone(), slow }))
        .layer(Output::new(2, Loss::CrossEntropy).activation(Activation::Softmax));
    let options = TrainOptions { workers: 2, normaliser: Some(NormaliserKind::None), ..options };
    let trainer = Trainer::new(Network::new(config).expect("a network"), source, options).expect("they fit");
    let mut told = 0;
    let outcome = trainer.run(&mut |event| {
        if let Event::Finished { examples, .. } = event {
            told = *examples;
        }
    });
    outcome.expect("a run");
    assert_eq!(told, examples as u64);
    let mut seen = std::mem::take(&mut *diary.seen.lock().expect("nobody panicked"));
    seen.sort_unstable_by_key(|(_, example)| *example);
    assert!(seen.iter().map(|(_, example)| *example).eq(0..examples), "every example once");
    seen
}

#[test]
fn a_slow_worker_gets_fewer_minibatches_and_none_is_lost() {
    // The second one takes both halves of the steps that it may be ahead, all but the first half of the first step.
    let max_ahead = 4;
    watched(2 * (max_ahead + 1) - 1, max_ahead as u64, true);
    // Where nobody needs to wait it takes all the rest.
    watched(2 * STEPS - 1, u64::MAX, true);
}

#[test]
fn without_a_shuffle_every_worker_sees_its_own_half_of_a_step() {
    let max_ahead = 4;
    let seen = watched(max_ahead + 1, max_ahead as u64, false);
    for (worker, example) in seen {
        assert_eq!(worker, example / BATCH % 2, "example {example}");
    }
}

#[test]
fn in_averaging_a_slow_worker_gets_less_of_a_step_if_the_job_lets_it() {
    let global_batch = Some(2 * BATCH);
    let balanced = AveragingOptions { frequency: 2, balance: true, ..AveragingOptions::default() };
    let equal = AveragingOptions { balance: false, ..balanced };
    // Only who has a core to itself can be slow.
    let has_cores = std::thread::available_parallelism().is_ok_and(|cores| cores.get() >= 2);
    let cases = [(balanced, global_batch, has_cores), (equal, global_batch, false), (balanced, None, false)];
    for (averaging, global_batch, gets_less) in cases {
        let mode = Mode::Averaging(averaging);
        let options = TrainOptions { mode, global_batch, batch: BATCH, ..TrainOptions::default() };
        let examples = 2 * BATCH * 4 * STEPS;
        let seen = seen(examples, Slow::By(Duration::from_micros(100)), options);
        let of_slow = seen.iter().filter(|(worker, _)| *worker == 0).count();
        match gets_less {
            true => assert!((1..2 * examples / 5).contains(&of_slow), "{of_slow} of {examples}"),
            false => assert_eq!(of_slow, examples / 2),
        }
    }
}
