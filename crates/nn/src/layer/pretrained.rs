//! Layers that can be pretrained: how they work for others, and what is computed while they are.

use std::ops::Range;

use super::Builder;
use crate::config::{AutoEncoder, Hidden, Rbm, Vae, Visible, activation_before};
use crate::graph::{ForceKind, ValueId};
use crate::node::{Noise, Op, Unit};
use crate::{Activation, Error, Fan, Loss, Registry, Shape};

/// The weights and biases of both directions.
struct Tied {
    visible: Shape,
    units: usize,
    weights: Range<usize>,
    bias: Range<usize>,
    visible_bias: Range<usize>,
}

impl Tied {
    fn new(units: usize, builder: &mut Builder<'_>) -> Result<Self, Error> {
        if units == 0 {
            return Err(builder.wrong("`units` must be at least 1".into()));
        }
        let inputs = builder.shape.len();
        let weights = builder.weights("weight", vec![inputs, units], Fan { inputs, outputs: units })?;
        let bias = builder.bias("bias", units);
        let visible_bias = builder.visible_bias(inputs);
        Ok(Self { visible: Shape::Flat(inputs), units, weights, bias, visible_bias })
    }

    /// From what is visible to what is hidden.
    fn up(&self, builder: &mut Builder<'_>) -> ValueId {
        let op = Op::Dense { inputs: self.visible.len(), outputs: self.units };
        builder.push_with(op, Shape::Flat(self.units), self.weights.clone(), self.bias.clone(), 0..0);
        builder.value()
    }

    /// And back again.
    fn down(&self, builder: &mut Builder<'_>) {
        let op = Op::TiedDense { inputs: self.units, outputs: self.visible.len() };
        builder.push_with(op, self.visible, self.weights.clone(), 0..0, 0..0);
    }

    fn add_visible_bias(&self, builder: &mut Builder<'_>) {
        builder.push_with(Op::AddBias, self.visible, 0..0, self.visible_bias.clone(), 0..0);
    }
}

/// A Boltzmann machine: contrastive divergence holds the mean of what is hidden for the data against that for what it dreams of.
///
/// Its gradient is that of F(v₀) − F(vₖ), where F is the free energy and vₖ is taken as given; that by the visible biases is the
/// gradient of the reconstruction error by them, with all that lies before taken as given.
pub(super) fn rbm(config: &Rbm, registry: &Registry, builder: &mut Builder<'_>) -> Result<(), Error> {
    if config.k == 0 {
        return Err(builder.wrong("`k` must be at least 1".into()));
    }
    let tied = Tied::new(config.units, builder)?;
    let data = builder.value();
    let first = tied.up(builder);
    if builder.is_pretrained() {
        let hidden = Unit::from(config.hidden);
        builder.force(first, ForceKind::Energy { unit: hidden, sign: -1.0 });
        let mut reconstruction = first;
        for step in 0..config.k {
            let is_last = step + 1 == config.k;
            // What lies between the data and the last step is sampled, and nothing is learned from how.
            builder.taken_as_given(true);
            builder.push(Op::Sample { unit: hidden, draw: 2 * step as u64 + 1 }, builder.shape);
            tied.down(builder);
            builder.taken_as_given(!is_last);
            tied.add_visible_bias(builder);
            reconstruction = builder.value();
            builder.push(Op::Sample { unit: Unit::from(config.visible), draw: 2 * step as u64 + 2 }, tied.visible);
            let last = tied.up(builder);
            if is_last {
                builder.force(last, ForceKind::Energy { unit: hidden, sign: 1.0 });
            }
        }
        builder.taken_as_given(false);
        builder.continue_from(reconstruction);
        let (activation, loss, weight) = match config.visible {
            Visible::Binary => (Activation::Sigmoid, Loss::BinaryCrossEntropy, 1.0),
            Visible::Softmax => (Activation::Softmax, Loss::CrossEntropy, 1.0),
            Visible::Gaussian | Visible::Linear => (Activation::Identity, Loss::L2, 0.5),
        };
        builder.activate_with(activation);
        builder.judge_against(data, &loss, weight, registry)?;
    }
    builder.continue_from(first);
    builder.activate_or(config.hidden.mean());
    Ok(())
}

/// An autoencoder: what goes in, perhaps corrupted, is told from what is hidden.
pub(super) fn auto_encoder(config: &AutoEncoder, registry: &Registry, builder: &mut Builder<'_>) -> Result<(), Error> {
    if !(0.0..1.0).contains(&config.corruption) {
        let found = config.corruption;
        return Err(builder.wrong(format!("`corruption` must be 0 or more and less than 1, found {found}")));
    }
    let tied = Tied::new(config.units, builder)?;
    let data = builder.value();
    if builder.is_pretrained() {
        if config.corruption > 0.0 {
            builder.push(Op::Noise(Noise::Masked { rate: config.corruption }), tied.visible);
        }
        tied.up(builder);
        builder.activate();
        tied.down(builder);
        tied.add_visible_bias(builder);
        builder.activate_with(config.visible_activation.unwrap_or_else(|| activation_before(&config.loss)));
        builder.judge_against(data, &config.loss, 1.0, registry)?;
        builder.continue_from(data);
    }
    tied.up(builder);
    builder.activate();
    Ok(())
}

/// A dense operation with weights and biases of this name.
fn product(name: &str, outputs: usize, builder: &mut Builder<'_>) -> Result<(), Error> {
    if outputs == 0 {
        return Err(builder.wrong("all its layers must have at least 1 unit".into()));
    }
    let inputs = builder.shape.len();
    let weights = builder.weights(&format!("{name}_weight"), vec![inputs, outputs], Fan { inputs, outputs })?;
    let bias = builder.bias(&format!("{name}_bias"), outputs);
    builder.push_with(Op::Dense { inputs, outputs }, Shape::Flat(outputs), weights, bias, 0..0);
    Ok(())
}

/// A variational autoencoder: the loss is what is lost in giving back, plus the divergence of what is drawn from the normal
/// distribution, ½ Σ (μ² + σ² − 1 − ln σ²).
pub(super) fn variational(config: &Vae, registry: &Registry, builder: &mut Builder<'_>) -> Result<(), Error> {
    let (data, visible) = (builder.value(), builder.shape.len());
    for (at, units) in config.encoder.iter().enumerate() {
        product(&format!("encoder{at}"), *units, builder)?;
        builder.activate_or(Activation::Tanh);
    }
    let encoded = builder.value();
    product("mean", config.units, builder)?;
    let mean = builder.value();
    let from = builder.asked();
    builder.continue_from(encoded);
    product("variance", config.units, builder)?;
    let variance = builder.value();
    builder.push_reading(Op::Latent, vec![mean, variance], Shape::Flat(config.units), 0..0);
    for (at, units) in config.decoder.iter().enumerate() {
        product(&format!("decoder{at}"), *units, builder)?;
        builder.activate_or(Activation::Tanh);
    }
    product("visible", visible, builder)?;
    builder.only_pretrained(from);
    if builder.is_pretrained() {
        builder.activate_with(config.visible_activation.unwrap_or_else(|| activation_before(&config.loss)));
        builder.judge_against(data, &config.loss, 1.0, registry)?;
        builder.force(mean, ForceKind::PriorMean);
        builder.force(variance, ForceKind::PriorVariance);
    }
    builder.continue_from(mean);
    Ok(())
}

impl From<Hidden> for Unit {
    fn from(hidden: Hidden) -> Self {
        match hidden {
            Hidden::Binary => Unit::Binary,
            Hidden::Rectified => Unit::Rectified,
            Hidden::Gaussian => Unit::Gaussian,
            Hidden::Softmax => Unit::OneOf,
        }
    }
}

impl From<Visible> for Unit {
    /// Binary and softmax units are shown as their chances, which is less noise for the same mean.
    fn from(visible: Visible) -> Self {
        match visible {
            Visible::Binary => Unit::Chance,
            Visible::Gaussian => Unit::Gaussian,
            Visible::Linear => Unit::Linear,
            Visible::Softmax => Unit::Chances,
        }
    }
}
