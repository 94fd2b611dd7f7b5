//! A source, a layer, a loss and a listener of one's own: trained by two workers of this process, then by a master with two workers.
//!
//! `cargo run --release -p paceline --example own_parts`

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;

use paceline::cluster::{JobText, LeadOptions, Target, WorkerOptions, run_master, run_worker};
use paceline::data::{Error as DataError, ExampleShape, TargetShape};
use paceline::nn::{Backward, CustomParameter, Fan, Layer, LossFunction, Real, Registry, Shape};
use paceline::prelude::*;
use paceline::serde_json::{Value, json};

/// Points of a landscape and how high it is there. Nothing is stored: example 17 is computed whenever somebody wants it, and is always
/// the same.
struct Landscape {
    shape: ExampleShape,
    /// Which of all points these are.
    points: Range<u64>,
}

impl Landscape {
    fn new(points: Range<u64>) -> Self {
        let targets = TargetShape::Values { names: vec!["height".into()] };
        Self { shape: ExampleShape { features: vec![2], targets }, points }
    }
}

impl Source for Landscape {
    fn examples(&self) -> usize {
        (self.points.end - self.points.start) as usize
    }

    fn shape(&self) -> &ExampleShape {
        &self.shape
    }

    fn read(&self, indices: &[u64], batch: &mut Batch) -> Result<(), DataError> {
        batch.indices = indices.to_vec();
        batch.width = 2;
        batch.features.clear();
        let mut heights = Vec::with_capacity(indices.len());
        for index in indices {
            // Evenly spread over a square, by multiples of the golden ratio and of its square.
            let place = |step: f64| (((self.points.start + index) as f64 * step).fract() * 4.0 - 2.0) as f32;
            let (x, y) = (place(0.618_033_988_749_895), place(0.381_966_011_250_105 * 0.618_033_988_749_895));
            batch.features.extend([x, y]);
            heights.push((2.0 * x).sin() * (1.5 * y).cos());
        }
        batch.targets = Targets::Values { width: 1, values: heights };
        Ok(())
    }
}

/// Bumps: each says how near the point is to a place that it learns, `exp(−|x − place|²)`.
struct Bumps {
    count: usize,
}

impl Bumps {
    fn read(options: &Value) -> Result<Self, String> {
        match options["count"].as_u64() {
            Some(count @ 1..=1000) => Ok(Self { count: count as usize }),
            _ => Err("`count` must be from 1 to 1000".into()),
        }
    }
}

impl Layer for Bumps {
    fn name(&self) -> &str {
        "bumps"
    }

    fn options(&self) -> Value {
        json!({ "count": self.count })
    }

    fn output(&self, _input: Shape) -> Result<Shape, String> {
        Ok(Shape::Flat(self.count))
    }

    fn parameters(&self, input: Shape) -> Vec<CustomParameter> {
        // Places begin where weights would: near the middle, each elsewhere.
        let fan = Some(Fan { inputs: 1, outputs: 1 });
        vec![CustomParameter { name: "places".into(), shape: vec![self.count, input.len()], fan }]
    }

    fn forward<R: Real>(&self, examples: usize, places: &[R], x: &[R], y: &mut [R]) {
        let width = x.len() / examples;
        for (x, y) in x.chunks_exact(width).zip(y.chunks_exact_mut(self.count)) {
            for (place, y) in places.chunks_exact(width).zip(y) {
                let mut distance = R::ZERO;
                for (x, place) in x.iter().zip(place) {
                    distance += (*x - *place) * (*x - *place);
                }
                *y = (-distance).exp();
            }
        }
    }

    fn backward<R: Real>(&self, pass: Backward<'_, R>) {
        let width = pass.x.len() / pass.examples;
        // Nobody needs the slope by what went in where nothing before this layer learns.
        pass.dx.fill(R::ZERO);
        for example in 0..pass.examples {
            for bump in 0..self.count {
                let at = example * self.count + bump;
                let slope = R::of(2.0) * pass.dy[at] * pass.y[at];
                for column in 0..width {
                    let place = bump * width + column;
                    let by_place = slope * (pass.x[example * width + column] - pass.parameters[place]);
                    pass.gradients[place] += by_place;
                    if let Some(dx) = pass.dx.get_mut(example * width + column) {
                        *dx -= by_place;
                    }
                }
            }
        }
    }
}

/// Like a square near 0, and like a magnitude far from it: `√(1 + error²) − 1`.
struct PseudoHuber;

impl LossFunction for PseudoHuber {
    fn name(&self) -> &str {
        "pseudo_huber"
    }

    fn row<R: Real>(&self, target: &[R], output: &[R], slope: &mut [R]) -> R {
        let mut sum = R::ZERO;
        for ((target, output), slope) in target.iter().zip(output).zip(slope) {
            let error = *output - *target;
            let root = (R::of(1.0) + error * error).sqrt();
            sum += root - R::of(1.0);
            *slope = error / root;
        }
        sum
    }
}

fn network() -> NetworkConfig {
    NetworkConfig::feed_forward(2)
        .seed(SEED)
        .updater(Updater::adam(0.02))
        .layer(CustomConfig::new(Bumps { count: 24 }))
        .layer(Output::new(1, Loss::custom(PseudoHuber)).activation(Activation::Identity))
}

/// How good the model is at the end of every epoch, as it is told.
#[derive(Default)]
struct Heard(Vec<f64>);

impl Heard {
    fn hear(&mut self, event: &Event) {
        if let Event::Evaluation { scores, .. } = event {
            self.0.push(scores.score());
        }
    }

    #[expect(clippy::print_stdout, reason = "an example shows what it does")]
    fn print(&self, who: &str) {
        let (first, last) = (self.0.first().copied().unwrap_or(f64::NAN), self.0.last().copied().unwrap_or(f64::NAN));
        println!("{who}: loss of other points {first:.5} after one epoch, and after {} it is {last:.5}", self.0.len());
    }
}

const SEED: u64 = 7;
const EPOCHS: u64 = 20;
const TO_LEARN: Range<u64> = 0..4096;
const TO_JUDGE: Range<u64> = 4096..5000;

/// Two workers of this process, which take every step together.
fn in_one_process() -> Result<(), Box<dyn std::error::Error>> {
    let options =
        TrainOptions { batch: 32, workers: 2, mode: Mode::Sync, epochs: EPOCHS, seed: SEED, ..TrainOptions::default() };
    let registry = Registry::default().layer("bumps", Bumps::read).loss(PseudoHuber);
    let trainer = Trainer::new(Network::new(network())?, Arc::new(Landscape::new(TO_LEARN)), options)?
        .registry(registry)
        .test(Arc::new(Landscape::new(TO_JUDGE)))?;
    let mut heard = Heard::default();
    trainer.run(&mut |event| heard.hear(event))?;
    heard.print("two workers");
    Ok(())
}

/// A master, and two workers that join it. All three could be on machines of their own: each brings the source, the layer and the loss.
#[expect(clippy::result_large_err, reason = "an error ends the program; nobody waits for it to be moved")]
fn on_many_machines(folder: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let job = JobText {
        name: "landscape".into(),
        text: json!({
            "data": { "train": "given:landscape", "test": "given:others", "batch": 32 },
            "network": serde_json_of(&network())?,
            "train": { "epochs": EPOCHS, "mode": "sync" },
        })
        .to_string(),
        is_json: true,
        settings: Vec::new(),
    };
    let given = || -> BTreeMap<String, Arc<dyn Source>> {
        let sources = [("landscape", TO_LEARN), ("others", TO_JUDGE)];
        sources.map(|(name, points)| (name.to_owned(), Arc::new(Landscape::new(points)) as Arc<dyn Source>)).into()
    };
    let open = || OpenOptions { given: given(), ..OpenOptions::default() };
    let registry = || Registry::default().layer("bumps", Bumps::read).loss(PseudoHuber);
    let leads =
        LeadOptions { min_workers: 2, open: open(), registry: registry(), ..LeadOptions::new(folder.to_owned()) };
    let (heard, failed) = (Mutex::new(Heard::default()), Mutex::new(None));
    thread::scope(|scope| {
        run_master(job, &leads, &Stop::default(), &mut |event| {
            if let Ok(mut heard) = heard.lock() {
                heard.hear(event);
            }
            let Event::Listening { address, .. } = event else { return };
            for _ in 0..2 {
                let target = Target::Address(address.clone());
                let works = WorkerOptions { open: open(), registry: registry(), ..WorkerOptions::new(target) };
                let failed = &failed;
                scope.spawn(move || {
                    let ended = run_worker(&works, &Stop::default(), &mut |_event| {});
                    if let (Err(error), Ok(mut failed)) = (ended, failed.lock()) {
                        *failed = Some(error);
                    }
                });
            }
        })
    })?;
    if let Some(error) = failed.into_inner()? {
        return Err(error.into());
    }
    heard.into_inner()?.print("a master with two");
    Ok(())
}

fn serde_json_of(network: &NetworkConfig) -> Result<Value, Box<dyn std::error::Error>> {
    Ok(paceline::serde_json::from_str(&network.to_json())?)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::args().nth(1).unwrap_or_else(|| "runs/own-parts".into());
    in_one_process()?;
    on_many_machines(Path::new(&folder))
}
