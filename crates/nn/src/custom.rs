//! Layers and losses of other crates.
//!
//! One writes the arithmetic once, generic over [`Real`]; the engine runs it in `f32` and the reference, which the
//! gradient check is made with, in `f64`.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::{Fan, Real, Shape};

/// One parameter array that a custom layer asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct CustomParameter {
    /// Its name within the layer.
    pub name: String,
    /// Its shape.
    pub shape: Vec<usize>,
    /// `Some` to be initialised as weights with this fan, `None` as a bias.
    pub fan: Option<Fan>,
}

/// A layer of another crate.
///
/// All slices hold one row per example; `parameters` and `gradients` hold the layer's parameters one after the other.
pub trait Layer: Send + Sync + 'static {
    /// The name that job files and model files know it by.
    fn name(&self) -> &str;
    /// The settings that a job file would hold, so that the model file can be read again.
    fn options(&self) -> serde_json::Value {
        serde_json::Value::Object(serde_json::Map::new())
    }
    /// What comes out for what goes in, or a sentence that says why it cannot be.
    fn output(&self, input: Shape) -> Result<Shape, String>;
    /// The parameters for this input.
    fn parameters(&self, input: Shape) -> Vec<CustomParameter> {
        let _ = input;
        Vec::new()
    }
    /// Writes `y`.
    fn forward<R: Real>(&self, examples: usize, parameters: &[R], x: &[R], y: &mut [R]);
    /// Adds to `gradients` and writes `dx`, given the slope `dy` of the loss by every output.
    fn backward<R: Real>(&self, pass: Backward<'_, R>);
}

/// What a custom layer's backward pass works on.
pub struct Backward<'a, R> {
    /// Examples in the batch.
    pub examples: usize,
    /// The layer's parameters.
    pub parameters: &'a [R],
    /// What went in.
    pub x: &'a [R],
    /// What came out.
    pub y: &'a [R],
    /// Slope of the loss by what came out.
    pub dy: &'a [R],
    /// To be added to: slope of the loss by the parameters.
    pub gradients: &'a mut [R],
    /// To be written: slope of the loss by what went in. Empty where nobody needs it, as before the first trained layer.
    pub dx: &'a mut [R],
}

/// A loss of another crate.
pub trait LossFunction: Send + Sync + 'static {
    /// The name that model files know it by.
    fn name(&self) -> &str;
    /// The loss of one example; writes its slope by every output into `slope`.
    fn row<R: Real>(&self, target: &[R], output: &[R], slope: &mut [R]) -> R;
}

/// A [`Layer`] behind a pointer; implemented for every layer.
pub trait CustomLayer: Send + Sync {
    /// See [`Layer::name`].
    fn name(&self) -> &str;
    /// See [`Layer::options`].
    fn options(&self) -> serde_json::Value;
    /// See [`Layer::output`].
    fn output(&self, input: Shape) -> Result<Shape, String>;
    /// See [`Layer::parameters`].
    fn parameters(&self, input: Shape) -> Vec<CustomParameter>;
    /// [`Layer::forward`] in `f32`.
    fn forward_f32(&self, examples: usize, parameters: &[f32], x: &[f32], y: &mut [f32]);
    /// [`Layer::forward`] in `f64`.
    fn forward_f64(&self, examples: usize, parameters: &[f64], x: &[f64], y: &mut [f64]);
    /// [`Layer::backward`] in `f32`.
    fn backward_f32(&self, pass: Backward<'_, f32>);
    /// [`Layer::backward`] in `f64`.
    fn backward_f64(&self, pass: Backward<'_, f64>);
}

impl<L: Layer> CustomLayer for L {
    fn name(&self) -> &str {
        Layer::name(self)
    }
    fn options(&self) -> serde_json::Value {
        Layer::options(self)
    }
    fn output(&self, input: Shape) -> Result<Shape, String> {
        Layer::output(self, input)
    }
    fn parameters(&self, input: Shape) -> Vec<CustomParameter> {
        Layer::parameters(self, input)
    }
    fn forward_f32(&self, examples: usize, parameters: &[f32], x: &[f32], y: &mut [f32]) {
        self.forward(examples, parameters, x, y);
    }
    fn forward_f64(&self, examples: usize, parameters: &[f64], x: &[f64], y: &mut [f64]) {
        self.forward(examples, parameters, x, y);
    }
    fn backward_f32(&self, pass: Backward<'_, f32>) {
        self.backward(pass);
    }
    fn backward_f64(&self, pass: Backward<'_, f64>) {
        self.backward(pass);
    }
}

/// A [`LossFunction`] behind a pointer; implemented for every one.
pub trait CustomLoss: Send + Sync {
    /// See [`LossFunction::name`].
    fn name(&self) -> &str;
    /// [`LossFunction::row`] in `f32`.
    fn row_f32(&self, target: &[f32], output: &[f32], slope: &mut [f32]) -> f32;
    /// [`LossFunction::row`] in `f64`.
    fn row_f64(&self, target: &[f64], output: &[f64], slope: &mut [f64]) -> f64;
}

impl<L: LossFunction> CustomLoss for L {
    fn name(&self) -> &str {
        LossFunction::name(self)
    }
    fn row_f32(&self, target: &[f32], output: &[f32], slope: &mut [f32]) -> f32 {
        self.row(target, output, slope)
    }
    fn row_f64(&self, target: &[f64], output: &[f64], slope: &mut [f64]) -> f64 {
        self.row(target, output, slope)
    }
}

impl fmt::Debug for dyn CustomLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "custom layer `{}`", self.name())
    }
}

impl fmt::Debug for dyn CustomLoss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "custom loss `{}`", self.name())
    }
}

type MakeLayer = Arc<dyn Fn(&serde_json::Value) -> Result<Arc<dyn CustomLayer>, String> + Send + Sync>;

/// The custom layers and losses that a job file or model file may name.
#[derive(Clone, Default)]
pub struct Registry {
    layers: BTreeMap<String, MakeLayer>,
    losses: BTreeMap<String, Arc<dyn CustomLoss>>,
}

impl Registry {
    /// Lets `{ custom = { kind = "…", options = { … } } }` make a layer.
    pub fn layer<L, F>(mut self, name: &str, make: F) -> Self
    where
        L: Layer,
        F: Fn(&serde_json::Value) -> Result<L, String> + Send + Sync + 'static,
    {
        self.layers.insert(name.into(), Arc::new(move |options| Ok(Arc::new(make(options)?) as Arc<dyn CustomLayer>)));
        self
    }

    /// Lets `loss = { custom = "…" }` name a loss.
    pub fn loss<L: LossFunction>(mut self, loss: L) -> Self {
        self.losses.insert(LossFunction::name(&loss).into(), Arc::new(loss));
        self
    }

    pub(crate) fn make_layer(
        &self,
        name: &str,
        options: &serde_json::Value,
    ) -> Option<Result<Arc<dyn CustomLayer>, String>> {
        self.layers.get(name).map(|make| make(options))
    }

    pub(crate) fn find_loss(&self, name: &str) -> Option<Arc<dyn CustomLoss>> {
        self.losses.get(name).cloned()
    }

    pub(crate) fn layer_names(&self) -> impl Iterator<Item = &str> {
        self.layers.keys().map(String::as_str)
    }

    pub(crate) fn loss_names(&self) -> impl Iterator<Item = &str> {
        self.losses.keys().map(String::as_str)
    }
}

/// By the names that both know.
impl PartialEq for Registry {
    fn eq(&self, other: &Self) -> bool {
        self.layers.keys().eq(other.layers.keys()) && self.losses.keys().eq(other.losses.keys())
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registry").field("layers", &self.layers.keys()).field("losses", &self.losses.keys()).finish()
    }
}
