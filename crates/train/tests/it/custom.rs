//! A layer and a loss of another crate: checked, trained, saved, read again, resumed.

use std::path::Path;
use std::sync::Arc;

use paceline_data::{Arrays, ExampleShape, Source, TargetShape};
use paceline_model::{Batch, Model, Targets};
use paceline_nn::config::{CustomConfig, Dense, NetworkConfig, Output};
use paceline_nn::{
    Activation, Backward, CustomParameter, Engine, Fan, Layer, Loss, LossFunction, ModelFile, Network, Real, Reference,
    Registry, Shape, Updater,
};
use paceline_train::{Event, SavedModel, TrainOptions, Trainer};
use serde_json::{Value, json};

/// y = s · x² + b, element by element, with a learned scale and shift per element; `times` is a setting.
struct Square {
    times: f64,
}

impl Square {
    fn read(options: &Value) -> Result<Self, String> {
        let times = options["times"].as_f64().ok_or("`times` must be a number")?;
        Ok(Self { times })
    }
}

impl Layer for Square {
    fn name(&self) -> &str {
        "square"
    }

    fn options(&self) -> Value {
        json!({ "times": self.times })
    }

    fn output(&self, input: Shape) -> Result<Shape, String> {
        match input.len() {
            1000.. => Err(format!("expects fewer than 1000 inputs, got {}", input.len())),
            _ => Ok(input),
        }
    }

    fn parameters(&self, input: Shape) -> Vec<CustomParameter> {
        let fan = Some(Fan { inputs: input.len(), outputs: input.len() });
        vec![
            CustomParameter { name: "scale".into(), shape: vec![input.len()], fan },
            CustomParameter { name: "shift".into(), shape: vec![input.len()], fan: None },
        ]
    }

    fn forward<R: Real>(&self, _examples: usize, parameters: &[R], x: &[R], y: &mut [R]) {
        let (scale, shift) = parameters.split_at(parameters.len() / 2);
        let times = R::of(self.times);
        for (x, y) in x.chunks_exact(scale.len()).zip(y.chunks_exact_mut(scale.len())) {
            for i in 0..scale.len() {
                y[i] = times * scale[i] * x[i] * x[i] + shift[i];
            }
        }
    }

    fn backward<R: Real>(&self, pass: Backward<'_, R>) {
        let (scale, _) = pass.parameters.split_at(pass.parameters.len() / 2);
        let (of_scale, of_shift) = pass.gradients.split_at_mut(scale.len());
        let (width, times) = (scale.len(), R::of(self.times));
        for example in 0..pass.examples {
            for i in 0..width {
                let at = example * width + i;
                let (x, dy) = (pass.x[at], pass.dy[at]);
                of_scale[i] += times * x * x * dy;
                of_shift[i] += dy;
                pass.dx[at] = R::of(2.0) * times * scale[i] * x * dy;
            }
        }
    }
}

/// Σ ln cosh(y − t): like a square near 0, like a magnitude far from it.
struct LogCosh;

impl LossFunction for LogCosh {
    fn name(&self) -> &str {
        "log_cosh"
    }

    fn row<R: Real>(&self, target: &[R], output: &[R], slope: &mut [R]) -> R {
        let mut sum = R::ZERO;
        for i in 0..output.len() {
            let error = output[i] - target[i];
            // ln cosh e = |e| + ln(1 + e^(−2|e|)) − ln 2 does not overflow.
            sum += error.abs() + (-(R::of(2.0) * error.abs())).exp().ln_1p() - R::of(std::f64::consts::LN_2);
            slope[i] = error.tanh();
        }
        sum
    }
}

fn registry() -> Registry {
    Registry::default().layer("square", Square::read).loss(LogCosh)
}

fn config() -> NetworkConfig {
    NetworkConfig::feed_forward(3)
        .seed(2)
        .updater(Updater::adam(0.02))
        .layer(Dense::new(5).activation(Activation::Tanh))
        .layer(CustomConfig::new(Square { times: 1.5 }).activation(Activation::Tanh))
        .layer(Output::new(2, Loss::custom(LogCosh)))
}

/// Rows with targets that are squares: what the layer is good for.
fn source() -> Arc<dyn Source> {
    let features: Vec<f32> = (0..300).map(|i| ((i * 37 % 101) as f32 - 50.0) / 50.0).collect();
    let rows = features.chunks_exact(3);
    let values: Vec<f32> = rows.flat_map(|row| [row[0] * row[0] - row[1], row[2] * row[2]]).collect();
    let names = vec!["a".to_owned(), "b".to_owned()];
    let shape = ExampleShape { features: vec![3], targets: TargetShape::Values { names } };
    Arc::new(Arrays::new(features, shape, Targets::Values { width: 2, values }).expect("they fit"))
}

fn batch(examples: u64) -> Batch {
    let mut batch = Batch::empty();
    source().read(&(0..examples).collect::<Vec<_>>(), &mut batch).expect("there are that many");
    batch
}

#[test]
fn the_gradient_is_what_finite_differences_say() {
    let mut reference = Reference::new(Network::new(config()).expect("a network"));
    let batch = batch(4);
    reference.gradient(&batch).expect("it fits");
    let gradient = reference.gradient.clone();
    // 3 · 5 + 5, then 5 + 5 of our own, then 5 · 2 + 2.
    assert_eq!(gradient.len(), 42);
    assert!(gradient[20..30].iter().all(|slope| slope.abs() > 1e-9), "our own parameters have slopes: {gradient:?}");
    for (at, found) in gradient.iter().enumerate() {
        let kept = reference.parameters[at];
        let mut loss = |value| {
            reference.parameters[at] = value;
            reference.gradient(&batch).expect("it fits").sum
        };
        let slope = (loss(kept + 1e-5) - loss(kept - 1e-5)) / 2e-5;
        reference.parameters[at] = kept;
        let error = (slope - found).abs() / (slope.abs() + found.abs()).max(1e-4);
        assert!(error < 1e-6, "parameter {at} has gradient {found}, differences say {slope}");
    }
}

#[test]
fn the_engine_agrees_with_the_reference() {
    let network = Network::new(config()).expect("a network");
    let (mut reference, mut engine) = (Reference::new(network.clone()), Engine::new(network));
    let (mut state, batch) = (engine.initial_state(), batch(7));
    let (wide, narrow) = (reference.gradient(&batch), engine.gradient(&batch, &mut state));
    assert!((wide.expect("it fits").sum - narrow.expect("it fits").sum).abs() < 1e-4);
    for (wide, narrow) in reference.gradient.iter().zip(state.gradient.iter()) {
        assert!((wide - f64::from(*narrow)).abs() < 1e-4 * (1.0 + wide.abs()), "{wide} and {narrow}");
    }
}

fn trainer(output: &Path, epochs: u64, resume: bool) -> Trainer {
    let options =
        TrainOptions { batch: 16, epochs, output: Some(output.to_owned()), resume, ..TrainOptions::default() };
    let network = Network::new(config()).expect("a network");
    Trainer::new(network, source(), options).expect("they fit").test(source()).expect("they fit").registry(registry())
}

#[test]
fn it_is_trained_saved_and_read_again() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut losses = Vec::new();
    let outcome = trainer(folder.path(), 60, false).run(&mut |event| {
        if let Event::Epoch { loss, .. } = event {
            losses.push(*loss);
        }
    });
    let scores = outcome.expect("a run").scores.expect("test data");
    assert!(scores.score() < losses[0] / 10.0, "from {} to {}", losses[0], scores.score());

    let path = folder.path().join("model.safetensors");
    let file = ModelFile::load_with_registry(&path, &registry()).expect("readable");
    let names: Vec<&str> = file.network.parameters().iter().map(|p| p.name.as_str()).collect();
    assert!(names.contains(&"1.scale") && names.contains(&"1.shift"), "{names:?}");
    let mut saved = SavedModel::load_with_registry(&path, &registry()).expect("readable");
    let again = saved.evaluate(source(), 16).expect("it fits").expect("targets");
    assert_eq!(again.loss, scores.loss, "the settings of the layer came back too");
}

#[test]
fn it_is_resumed_with_the_same_bytes() {
    let (whole, parts) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    trainer(whole.path(), 4, false).run(&mut |_| {}).expect("a run");
    trainer(parts.path(), 2, false).run(&mut |_| {}).expect("a run");
    trainer(parts.path(), 4, true).run(&mut |_| {}).expect("a run");
    let model = |folder: &Path| std::fs::read(folder.join("model.safetensors")).expect("a model");
    assert!(model(whole.path()) == model(parts.path()));
}

#[test]
fn without_a_registry_it_is_refused_by_name() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    trainer(folder.path(), 1, false).run(&mut |_| {}).expect("a run");
    let path = folder.path().join("model.safetensors");
    let error = ModelFile::load(&path).expect_err("nobody knows the layer").to_string();
    assert!(error.contains("layer 1 (custom): no layer `square` was registered"), "{error}");
    let error = SavedModel::load(&path).err().expect("nobody knows the layer").to_string();
    assert!(error.contains("model.safetensors") && error.contains("`square`"), "{error}");
    let only_layer = Registry::default().layer("square", Square::read);
    let error = ModelFile::load_with_registry(&path, &only_layer).expect_err("nobody knows the loss").to_string();
    assert!(error.contains("layer 2 (output): no loss `log_cosh` was registered"), "{error}");
    let misspelt = Registry::default().layer("sqare", Square::read).loss(LogCosh);
    let error = ModelFile::load_with_registry(&path, &misspelt).expect_err("another name").to_string();
    assert!(error.contains("did you mean `sqare`?"), "{error}");
}

#[test]
fn a_description_may_name_them() {
    let text = r#"{ "input": { "feed_forward": 3 }, "layers": [
        { "custom": { "kind": "square", "options": { "times": 2.0 }, "activation": "relu" } },
        { "output": { "units": 2, "loss": { "custom": "log_cosh" } } }] }"#;
    let make = |text: &str| Network::with_registry(NetworkConfig::from_json(text).expect("readable"), &registry());
    assert_eq!(make(text).expect("a network").parameter_count(), 3 + 3 + 3 * 2 + 2);
    let error = make(&text.replace("2.0", "\"two\"")).expect_err("not a number").to_string();
    assert_eq!(error, "layer 0 (custom): `times` must be a number");
    let error = make(&text.replace("\"feed_forward\": 3", "\"feed_forward\": 3000")).expect_err("too wide").to_string();
    assert_eq!(error, "layer 0 (custom): expects fewer than 1000 inputs, got 3000");
}
