//! How fast the kernels are: each layer of the benchmark networks against the sgemm rate of this machine.
//!
//! `cargo bench -p paceline-nn --bench kernels [NAME]`

#![expect(clippy::print_stdout, reason = "a benchmark prints its table")]

use std::time::Instant;

use paceline_model::{Batch, Model, PartwiseModel, Progress, Targets};
use paceline_nn::random::Counted;
use paceline_nn::{Engine, Network, NetworkConfig, Shape};

const LENET: &str = r#"{"seed": 1, "input": {"image": [28, 28, 1]},
    "updater": {"nesterovs": {"learning_rate": 0.01, "momentum": 0.9}}, "layers": [
    {"conv2d": {"filters": 20, "kernel": [5, 5]}}, {"subsampling": {"kernel": [2, 2]}},
    {"conv2d": {"filters": 50, "kernel": [5, 5]}}, {"subsampling": {"kernel": [2, 2]}},
    {"dense": {"units": 500, "activation": "relu"}}, {"output": {"units": 10, "activation": "softmax"}}]}"#;

const MLP: &str = r#"{"seed": 1, "input": {"feed_forward": 784}, "activation": "relu",
    "updater": {"nesterovs": {"learning_rate": 0.01, "momentum": 0.9}}, "layers": [
    {"dense": {"units": 1000}}, {"dense": {"units": 500}}, {"dense": {"units": 250}},
    {"output": {"units": 10, "activation": "softmax"}}]}"#;

const UNTUNED: &str = r#"{"seed": 1, "input": {"image": [32, 32, 3]},
    "updater": {"nesterovs": {"learning_rate": 0.01, "momentum": 0.9}}, "layers": [
    {"conv2d": {"filters": 17, "kernel": [3, 3], "padding": "same"}}, {"batch_norm": {"activation": "relu"}},
    {"conv2d": {"filters": 35, "kernel": [3, 3], "padding": "same", "stride": [2, 2]}}, {"batch_norm": {"activation": "relu"}},
    {"conv2d": {"filters": 51, "kernel": [3, 3], "padding": "same", "stride": [2, 2]}}, {"batch_norm": {"activation": "relu"}},
    {"global_pooling": {"pool": "average"}},
    {"dense": {"units": 77, "activation": "relu"}}, {"output": {"units": 10, "activation": "softmax"}}]}"#;

const SMALL_WINDOWS: &str = r#"{"seed": 1, "input": {"image": [32, 32, 3]}, "activation": "relu",
    "updater": {"nesterovs": {"learning_rate": 0.01, "momentum": 0.9}}, "layers": [
    {"conv2d": {"filters": 32, "kernel": [3, 3], "padding": "same"}},
    {"conv2d": {"filters": 32, "kernel": [3, 3], "padding": "same"}}, {"subsampling": {"kernel": [2, 2]}},
    {"conv2d": {"filters": 64, "kernel": [3, 3], "padding": "same"}},
    {"conv2d": {"filters": 64, "kernel": [3, 3], "padding": "same"}}, {"subsampling": {"kernel": [2, 2]}},
    {"conv2d": {"filters": 128, "kernel": [3, 3], "padding": "same"}},
    {"conv2d": {"filters": 128, "kernel": [3, 3], "padding": "same"}}, {"global_pooling": {"pool": "average"}},
    {"output": {"units": 10, "activation": "softmax"}}]}"#;

/// Rounds that are measured, and steps of each.
const ROUNDS: usize = 200;
const STEPS: u64 = 1;
/// Rows and columns of the product that a step is compared with.
const BESIDE: usize = 384;

fn main() {
    let wanted = std::env::args().nth(1).filter(|a| !a.starts_with("--"));
    let peak = sgemm_rate();
    println!("sgemm, one thread, 1024 × 1024 × 1024: {peak:.0} GFLOP/s (gemm crate)");
    for (name, json, batch, pixel) in [
        ("lenet b128", LENET, 128, noise as Pixel),
        ("lenet b32", LENET, 32, noise),
        ("mlp b128", MLP, 128, noise),
        ("mlp b128, strokes on an even ground", MLP, 128, strokes),
        ("untuned b64", UNTUNED, 64, noise),
        ("small windows b32", SMALL_WINDOWS, 32, noise),
    ] {
        if wanted.as_ref().is_none_or(|w| name.contains(w.as_str())) {
            measure(name, json, batch, pixel, peak);
        }
    }
}

/// What a pixel of an image shows: a stream of random numbers, the image, the pixel.
type Pixel = fn(&Counted, usize, usize) -> f32;

fn noise(stream: &Counted, image: usize, pixel: usize) -> f32 {
    stream.uniform((image * 784 + pixel) as u32)
}

/// About as much of 28 × 28 as a written digit covers: patches of 3 × 4 in the middle 20 × 20, the rest zero.
fn strokes(stream: &Counted, image: usize, pixel: usize) -> f32 {
    let (row, column) = (pixel / 28, pixel % 28);
    let middle = (4..24).contains(&row) && (4..24).contains(&column);
    let patch = 1_000_000 + image * 100 + row / 3 * 8 + column / 4;
    if middle && stream.uniform(patch as u32) < 0.37 { noise(stream, image, pixel) } else { 0.0 }
}

fn measure(name: &str, json: &str, examples: usize, pixel: Pixel, peak: f64) {
    let network = Network::new(NetworkConfig::from_json(json).expect("a network")).expect("a network");
    let mut engine = Engine::new(network.clone());
    let mut state = engine.initial_state();
    let stream = Counted::new(1, 2, 3, 4);
    let width = network.input().len();
    let batch = Batch {
        epoch: 0,
        indices: (0..examples as u64).collect(),
        width,
        features: (0..examples * width).map(|i| pixel(&stream, i / width, i % width)).collect(),
        targets: Targets::Classes((0..examples as u32).map(|i| i % 10).collect()),
        weights: None,
    };
    let mut steps = |count: u64, engine: &mut Engine| {
        let start = Instant::now();
        for iteration in 0..count {
            engine.train(&batch, &mut state, Progress { iteration, epoch: 0 }).expect("a batch that fits");
        }
        start.elapsed().as_secs_f64() / count as f64 * 1e3
    };
    steps(10, &mut engine);
    // The best of many single steps, because other work on the machine only ever adds time; and what a step costs in
    // products measured right before and after it, which tells two versions apart on a machine that is never quiet.
    let mut beside = Vec::with_capacity(ROUNDS);
    let mut rounds = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        let before = sgemm_seconds(BESIDE);
        rounds.push(steps(STEPS, &mut engine));
        beside.push(rounds[rounds.len() - 1] / 1e3 / (0.5 * (before + sgemm_seconds(BESIDE))));
    }
    let best = rounds.iter().copied().fold(f64::MAX, f64::min);
    let mut seconds = vec![[f64::MAX; 2]; network.layers().len()];
    for _ in 0..ROUNDS {
        engine.take_times();
        steps(STEPS, &mut engine);
        for (best, found) in seconds.iter_mut().zip(engine.layer_seconds()) {
            (0..2).for_each(|d| best[d] = best[d].min(found[d] / STEPS as f64));
        }
    }
    let (usual, beside) = (median(rounds), median(beside));
    println!(
        "\n{name}: a step takes {best:.2} ms at best, {usual:.2} in the median, {beside:.2} products of {BESIDE}³"
    );
    println!("  layer                    forward ms  backward ms   GFLOP/s   of sgemm");
    let first = network.layers().iter().position(|l| !l.parameters.is_empty()).unwrap_or(0);
    for (index, (layer, [forward, backward])) in network.layers().iter().zip(&seconds).enumerate() {
        let flops = examples as f64 * flops(layer.kind, layer.output, layer.parameters.len());
        // The first layer has no gradient by its input.
        let products = if index == first { 2.0 } else { 3.0 };
        let rate = products * flops / (forward + backward) / 1e9;
        let (forward, backward) = (forward * 1e3, backward * 1e3);
        let share = if flops > 0.0 { format!("{rate:9.0} {:9.0} %", 100.0 * rate / peak) } else { String::new() };
        println!("  {:<24} {forward:10.3} {backward:12.3} {share}", format!("{index} {}", layer.kind));
    }
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Floating-point operations of one product for one example.
fn flops(kind: &str, output: Shape, parameters: usize) -> f64 {
    match kind {
        "conv2d" | "dense" | "output" => 2.0 * (parameters - output.channels()) as f64 * output.positions() as f64,
        _ => 0.0,
    }
}

/// What a well-kept matrix product reaches on one thread, the best of several rounds, in GFLOP/s.
fn sgemm_rate() -> f64 {
    let best = (0..ROUNDS).map(|_| sgemm_seconds(1024)).fold(f64::MAX, f64::min);
    2.0 * 1024f64.powi(3) / best / 1e9
}

/// One product of square matrices.
fn sgemm_seconds(n: usize) -> f64 {
    let (a, b, mut c) = (vec![0.5f32; n * n], vec![0.25f32; n * n], vec![0.0f32; n * n]);
    let (row, column) = (1, n as isize);
    let start = Instant::now();
    #[expect(unsafe_code, reason = "the crate's only interface")]
    // SAFETY: three square matrices of n × n floats without gaps.
    unsafe {
        gemm::gemm(
            n,
            n,
            n,
            c.as_mut_ptr(),
            row,
            column,
            false,
            a.as_ptr(),
            row,
            column,
            b.as_ptr(),
            row,
            column,
            0.0,
            1.0,
            false,
            false,
            false,
            gemm::Parallelism::None,
        );
    }
    start.elapsed().as_secs_f64()
}
