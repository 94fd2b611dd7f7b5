//! Requests a second: LeNet, one example a request, the three modes with one and two workers.
//!
//! `cargo bench -p paceline-train --bench inference`
//!
//! Rounds of all cases in turn, so that a busy machine slows all of them alike; the median is shown.

#![expect(clippy::print_stdout, reason = "a benchmark prints its table")]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use paceline_nn::config::{Conv2d, Dense, NetworkConfig, Output, Subsampling};
use paceline_nn::{Activation, Loss, ModelFile, Network};
use paceline_train::{BatchedOptions, InferenceMode, ParallelInference};

const ROUNDS: usize = 7;
const REQUESTS: usize = 2000;
/// Threads that ask, each for one answer at a time.
const CLIENTS: usize = 32;

fn lenet() -> ModelFile {
    let config = NetworkConfig::image(28, 28, 1)
        .seed(1)
        .layer(Conv2d::new(20, [5, 5]))
        .layer(Subsampling::max([2, 2]))
        .layer(Conv2d::new(50, [5, 5]))
        .layer(Subsampling::max([2, 2]))
        .layer(Dense::new(500).activation(Activation::Relu))
        .layer(Output::new(10, Loss::CrossEntropy).activation(Activation::Softmax));
    let network = Network::new(config).expect("LeNet");
    let state = network.initial_state();
    ModelFile::new(network, state)
}

fn requests_per_second(inference: &ParallelInference) -> f64 {
    let asked = AtomicUsize::new(0);
    let start = Instant::now();
    std::thread::scope(|threads| {
        for client in 0..CLIENTS {
            let asked = &asked;
            threads.spawn(move || {
                let features = vec![client as f32 / CLIENTS as f32; 28 * 28];
                let mut outputs = Vec::new();
                while asked.fetch_add(1, Ordering::Relaxed) < REQUESTS {
                    inference.output_into(&features, &mut outputs).expect("an answer");
                }
            });
        }
    });
    REQUESTS as f64 / start.elapsed().as_secs_f64()
}

fn main() {
    let sequential = InferenceMode::Sequential { queue_limit: 64 };
    let modes = [
        ("sequential", sequential),
        ("batched", InferenceMode::Batched(BatchedOptions::default())),
        ("in place", InferenceMode::InPlace),
    ];
    let mut cases = Vec::new();
    for workers in [1, 2] {
        for (name, mode) in modes {
            let inference = ParallelInference::builder(lenet()).workers(workers).mode(mode).build().expect("good");
            requests_per_second(&inference);
            cases.push((name, workers, inference, Vec::new()));
        }
    }
    for _ in 0..ROUNDS {
        for (_, _, inference, rates) in &mut cases {
            rates.push(requests_per_second(inference));
        }
    }
    println!("LeNet, one example a request, {CLIENTS} clients\n\nmode        workers  requests/s  examples/pass");
    for (name, workers, inference, rates) in &mut cases {
        rates.sort_by(f64::total_cmp);
        let told = inference.statistics();
        let joined = told.examples as f64 / told.passes as f64;
        println!("{name:<11} {workers:>7} {:>11.0} {joined:>14.1}", rates[ROUNDS / 2]);
    }
}
