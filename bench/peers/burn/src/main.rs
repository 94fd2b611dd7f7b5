//! The Burn peer: trains one network for a number of steps on Burn's CPU backend, `flex`.
//!
//! The data stays as bytes in memory; a batch is picked by shuffled indices and scaled to 0..1 when it is needed, and the loss is
//! read only at the beginning and at the end. The last line on standard output is a JSON `finished` event in the shape of ours. How many threads
//! it takes is up to `RAYON_NUM_THREADS`.

mod idx;
mod network;

use std::collections::HashMap;
use std::path::Path;
use std::process::ExitCode;
use std::str::FromStr;
use std::time::Instant;

use burn::nn::loss::CrossEntropyLossConfig;
use burn::optim::momentum::MomentumConfig;
use burn::optim::{GradientsParams, SgdConfig};
use burn::prelude::*;

use crate::network::Network;

const SEED: u64 = 123;

fn main() -> ExitCode {
    match Options::parse().and_then(|options| train(&options)) {
        Ok(finished) => {
            println!("{finished}");
            ExitCode::SUCCESS
        }
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::FAILURE
        }
    }
}

/// `--name value` pairs.
struct Options(HashMap<String, String>);

impl Options {
    fn parse() -> Result<Self, String> {
        let mut pairs = HashMap::new();
        let mut arguments = std::env::args().skip(1);
        while let Some(name) = arguments.next() {
            let value = arguments.next().ok_or_else(|| format!("`{name}` lacks its value"))?;
            pairs.insert(name, value);
        }
        Ok(Self(pairs))
    }

    fn get<T: FromStr>(&self, name: &str) -> Result<T, String> {
        let value = self.0.get(name).ok_or_else(|| format!("expected the option `{name}`"))?;
        value.parse().map_err(|_| format!("`{name}` cannot be `{value}`"))
    }
}

fn train(options: &Options) -> Result<String, String> {
    let batch: usize = options.get("--batch")?;
    let steps: usize = options.get("--steps")?;
    let warm_steps: usize = options.get("--warm-steps")?;
    let rate: f64 = options.get("--learning-rate")?;
    let (_, images) = idx::read(Path::new(&options.get::<String>("--images")?))?;
    let (_, labels) = idx::read(Path::new(&options.get::<String>("--labels")?))?;

    let device = Device::flex().autodiff();
    device.seed(SEED);
    let mut network = Network::new(&options.get::<String>("--network")?, &device)?;
    let momentum = MomentumConfig::new()
        .with_momentum(options.get("--momentum")?)
        .with_dampening(0.0) // as everywhere else; Burn's own default is 0.1
        .with_nesterov(true);
    let mut optimiser = SgdConfig::new().with_momentum(Some(momentum)).init();
    let criterion = CrossEntropyLossConfig::new().init(&device);

    let mut order = Order::new(labels.len());
    let mut first_loss = None;
    let mut last_loss = None;
    let mut warm_at = Instant::now();
    for step in 0..steps {
        if step == warm_steps {
            warm_at = Instant::now();
        }
        let chosen = order.next(batch);
        let (pixels, wanted) = picked(&images, &labels, chosen, &device);
        let loss = criterion.forward(network.forward(pixels), wanted);
        let gradients = GradientsParams::from_grads(loss.backward(), &network);
        network = optimiser.step(rate, network, gradients);
        if step == 0 {
            first_loss = Some(loss.clone().into_scalar::<f32>());
        }
        last_loss = Some(loss);
    }
    let warm_ms = 1000.0 * warm_at.elapsed().as_secs_f64();

    let score = last_loss.map_or(f32::NAN, |loss| loss.into_scalar::<f32>());
    if !score.is_finite() {
        return Err(format!("the loss is {score} after {steps} steps; the figures would mean nothing"));
    }
    Ok(format!(
        r#"{{"event": "finished", "examples": {}, "first_score": {}, "score": {score}, "parameters": {}, "own_clock_ms": {}}}"#,
        steps * batch,
        first_loss.unwrap_or(f32::NAN),
        network.num_params(),
        warm_ms / steps.saturating_sub(warm_steps).max(1) as f64,
    ))
}

/// A batch of `n × 1 × 28 × 28` pixels from 0 to 1, and its labels.
fn picked(images: &[u8], labels: &[u8], chosen: &[usize], device: &Device) -> (Tensor<4>, Tensor<1, Int>) {
    let size = images.len() / labels.len();
    let mut pixels = Vec::with_capacity(chosen.len() * size);
    for &example in chosen {
        let bytes = &images[example * size..(example + 1) * size];
        pixels.extend(bytes.iter().map(|&byte| f32::from(byte) * (1.0 / 255.0)));
    }
    let wanted: Vec<i64> = chosen.iter().map(|&example| labels[example].into()).collect();
    let shape = [chosen.len(), 1, 28, 28];
    (
        Tensor::from_data(TensorData::new(pixels, shape), device),
        Tensor::from_data(TensorData::new(wanted, [chosen.len()]), device),
    )
}

/// A new order of the examples for every epoch; only whole batches.
struct Order {
    examples: Vec<usize>,
    taken: usize,
    random: u64,
}

impl Order {
    fn new(count: usize) -> Self {
        Self { examples: (0..count).collect(), taken: count, random: SEED }
    }

    fn next(&mut self, batch: usize) -> &[usize] {
        if self.taken + batch > self.examples.len() {
            for last in (1..self.examples.len()).rev() {
                let other = self.draw() % (last as u64 + 1);
                self.examples.swap(last, other as usize);
            }
            self.taken = 0;
        }
        self.taken += batch;
        &self.examples[self.taken - batch..self.taken]
    }

    /// xorshift64*: an order needs no better one.
    fn draw(&mut self) -> u64 {
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        self.random.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
}
