//! After its first steps a worker allocates nothing, and neither does its side of the loader, nor a request for outputs.
//!
//! A binary of its own: the allocator is that of the whole process. It counts by thread.
#![expect(unsafe_code, reason = "an allocator cannot be written without")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;

use paceline_data::{Loader, LoaderOptions, Normaliser, NormaliserKind, OpenOptions, Subset, open};
use paceline_nn::config::{BatchNorm, Conv2d, Dense, Dropout, NetworkConfig, Output, Padding, Subsampling};
use paceline_nn::{Activation, Engine, GradientNormalisation, Loss, ModelFile, Network, Updater};
use paceline_train::{InferenceMode, ParallelInference, Solo, Worker};

/// Counts what a thread asks for while it wants to know.
struct Counting;

thread_local! {
    /// `None` while nobody counts. Constant at first and without a destructor: looking at it never allocates.
    static COUNT: Cell<Option<usize>> = const { Cell::new(None) };
}

fn count_one() {
    COUNT.with(|count| count.set(count.get().map(|n| n + 1)));
}

// SAFETY: every call goes to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count_one();
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count_one();
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count_one();
        unsafe { System.realloc(memory, layout, size) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// How often this thread allocates while it does something.
fn allocations<T>(what: impl FnOnce() -> T) -> (usize, T) {
    COUNT.set(Some(0));
    let result = what();
    (COUNT.replace(None).expect("counted"), result)
}

const EPOCHS: u64 = 3;

#[test]
fn no_step_after_the_first_ones_allocates() {
    let (count, _) = allocations(|| vec![1u8; 10]);
    assert_eq!(count, 1, "the allocator counts");

    let config = NetworkConfig::image(8, 8, 1)
        .seed(1)
        .updater(Updater::adam(0.001))
        .l2(0.001)
        .gradient_normalisation(GradientNormalisation::ClipL2PerLayer { threshold: 1.0 })
        .layer(Conv2d::new(6, [3, 3]).padding(Padding::Same))
        .layer(BatchNorm::default().activation(Activation::Relu))
        .layer(Subsampling::max([2, 2]))
        .layer(Dropout::new(0.25))
        .layer(Dense::new(32).activation(Activation::Relu).dropout(0.5))
        .layer(Output::new(10, Loss::CrossEntropy).activation(Activation::Softmax));
    let mut worker = Worker::new(Engine::new(Network::new(config).expect("a network")), Solo::default());
    let digits = open("digits:", &OpenOptions::default()).expect("digits");
    // Nine batches of 32 and one of 12.
    let source = Arc::new(Subset::first(digits, 300));
    let normaliser = Normaliser::fit(NormaliserKind::Standardise, &*source).expect("numbers");
    for prefetch in [0, 3] {
        let options = LoaderOptions {
            batch: 32,
            prefetch,
            normaliser: normaliser.clone(),
            class_weights: Some(vec![1.5; 10]),
            ..LoaderOptions::default()
        };
        let loader = Loader::new(source.clone(), options).expect("good options");
        let mut waits = 0;
        for epoch in 0..EPOCHS {
            let mut batches = loader.epoch(epoch, 0);
            let (mut steps, mut sizes) = (0, Vec::with_capacity(10));
            loop {
                let (in_loader, batch) = allocations(|| batches.next());
                let Some(batch) = batch else { break };
                let batch = batch.expect("a batch");
                let planned = epoch > 0 || sizes.contains(&batch.examples());
                sizes.push(batch.examples());
                let (in_step, report) = allocations(|| worker.step(&batch));
                assert!(report.expect("a step").loss.sum.is_finite());
                let (in_recycle, ()) = allocations(|| batches.recycle(batch));
                // A size that comes for the first time gets its plan; the short last batch too.
                if planned {
                    assert_eq!(in_step, 0, "step {steps} of epoch {epoch}, {} examples", sizes[steps]);
                }
                assert_eq!(in_recycle, 0, "step {steps} of epoch {epoch}");
                // Without a thread, a batch is filled here: for the first time in the first epoch.
                if prefetch > 0 || epoch > 0 {
                    waits += in_loader;
                }
                steps += 1;
            }
            assert_eq!(sizes, [32, 32, 32, 32, 32, 32, 32, 32, 32, 12]);
        }
        // A thread that waits for the first time gets a token, and the channel of an epoch makes room for who waits.
        let once = if prefetch > 0 { 1 + EPOCHS as usize } else { 0 };
        assert!(waits <= once, "{waits} allocations in {EPOCHS} epochs with prefetch {prefetch}");
    }
}

#[test]
fn no_request_after_the_first_ones_allocates() {
    let config = NetworkConfig::image(8, 8, 1)
        .layer(Conv2d::new(6, [3, 3]))
        .layer(BatchNorm::default().activation(Activation::Relu))
        .layer(Output::new(10, Loss::CrossEntropy).activation(Activation::Softmax));
    let network = Network::new(config).expect("a network");
    let extra = [("normaliser".to_owned(), r#"{"image": {"scale": 16.0}}"#.to_owned())].into();
    let state = network.initial_state();
    let model = ModelFile { extra, ..ModelFile::new(network, state) };
    // In place the whole way of a request is on this thread, with a queue the caller's part of it.
    for mode in [InferenceMode::InPlace, InferenceMode::default(), InferenceMode::Sequential { queue_limit: 2 }] {
        let inference = ParallelInference::builder(model.clone()).workers(2).mode(mode).build().expect("good settings");
        let mut outputs = Vec::new();
        for request in 0..20 {
            let (count, answer) = allocations(|| inference.output_into(&[1.0; 64], &mut outputs));
            answer.expect("an answer");
            assert!(request < 4 || count == 0, "{count} allocations in request {request}, {mode:?}");
        }
    }
}
