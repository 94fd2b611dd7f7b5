//! Layers that can be pretrained: how they work for others, and what is computed while they are.

use std::ops::Range;

use super::Builder;
use crate::config::{AutoEncoder, ConvolutionalRbm, Hidden, Padding, Rbm, Sparsity, Vae, Visible, activation_before};
use crate::graph::{ForceKind, ValueId};
use crate::node::{Blocks, Conv, Noise, Op, Transposed, Unit};
use crate::{Activation, Error, Fan, Loss, Registry, Shape};

/// What works in both directions with the same weights.
struct Tied {
    visible: Shape,
    hidden: Shape,
    up: Op,
    down: Op,
    weights: Range<usize>,
    bias: Range<usize>,
    visible_bias: Range<usize>,
}

impl Tied {
    /// Every unit sees everything.
    fn dense(units: usize, builder: &mut Builder<'_>) -> Result<Self, Error> {
        if units == 0 {
            return Err(builder.wrong("`units` must be at least 1".into()));
        }
        let inputs = builder.shape.len();
        let weights = builder.weights("weight", vec![inputs, units], Fan { inputs, outputs: units })?;
        Ok(Self {
            visible: Shape::Flat(inputs),
            hidden: Shape::Flat(units),
            up: Op::Dense { inputs, outputs: units },
            down: Op::TiedDense { inputs: units, outputs: inputs },
            weights,
            bias: builder.bias("bias", units),
            visible_bias: builder.visible_bias(inputs),
        })
    }

    /// Every unit sees a window.
    fn convolving(config: &ConvolutionalRbm, builder: &mut Builder<'_>) -> Result<Self, Error> {
        let &ConvolutionalRbm { filters, kernel, .. } = config;
        let window = builder.window(kernel, [1, 1], [1, 1], Padding::Valid, false)?;
        if filters == 0 {
            return Err(builder.wrong("`filters` must be at least 1".into()));
        }
        let channels = window.channels;
        let area = kernel[0].saturating_mul(kernel[1]);
        let fan = Fan { inputs: area.saturating_mul(channels), outputs: area.saturating_mul(filters) };
        let weights = builder.weights("weight", vec![kernel[0], kernel[1], channels, filters], fan)?;
        let [rows, columns] = window.out;
        let down = Transposed {
            input: [rows, columns, filters],
            filters: channels,
            kernel,
            stride: [1, 1],
            dilation: [1, 1],
            before: [0, 0],
            out: [window.height, window.width],
        };
        Ok(Self {
            visible: builder.shape,
            hidden: window.output(filters),
            up: Op::Conv2d(Conv { window, filters, groups: 1 }),
            down: Op::Transposed(down),
            weights,
            bias: builder.bias("bias", filters),
            visible_bias: builder.visible_bias(channels),
        })
    }

    /// From what is visible to what is hidden.
    fn up(&self, builder: &mut Builder<'_>) -> ValueId {
        builder.push_with(self.up.clone(), self.hidden, self.weights.clone(), self.bias.clone(), 0..0);
        builder.value()
    }

    /// The same, and behind it what only the biases are learned from.
    fn up_to_biases(&self, builder: &mut Builder<'_>) -> [ValueId; 2] {
        builder.push_with(self.up.clone(), self.hidden, self.weights.clone(), 0..0, 0..0);
        let weighed = builder.value();
        builder.push_with(Op::AddBias, self.hidden, 0..0, self.bias.clone(), 0..0);
        let all = builder.value();
        builder.continue_from(weighed);
        // Nothing is learned through it.
        builder.push(Op::Sample { unit: Unit::Linear, draw: 0 }, self.hidden);
        builder.push_with(Op::AddBias, self.hidden, 0..0, self.bias.clone(), 0..0);
        let biases = builder.value();
        builder.continue_from(all);
        [all, biases]
    }

    /// And back again.
    fn down(&self, builder: &mut Builder<'_>) {
        builder.push_with(self.down.clone(), self.visible, self.weights.clone(), 0..0, 0..0);
    }

    fn add_visible_bias(&self, builder: &mut Builder<'_>) {
        builder.push_with(Op::AddBias, self.visible, 0..0, self.visible_bias.clone(), 0..0);
    }
}

/// What a Boltzmann machine is made of, and how it learns.
struct Machine {
    tied: Tied,
    hidden: Unit,
    visible: Visible,
    k: usize,
    sparsity: Option<Sparsity>,
}

impl Machine {
    /// Contrastive divergence holds the mean of what is hidden for the data against that for what it dreams of; gives what is hidden for
    /// the data.
    ///
    /// Its gradient is that of F(v₀) − F(vₖ), where F is the free energy and vₖ is taken as given; that by the visible biases is the
    /// gradient of the reconstruction error by them, with all that lies before taken as given.
    fn build(&self, registry: &Registry, builder: &mut Builder<'_>) -> Result<(), Error> {
        let Self { tied, hidden: unit, visible, .. } = self;
        let (unit, visible) = (*unit, *visible);
        if self.k == 0 {
            return Err(builder.wrong("`k` must be at least 1".into()));
        }
        if let Some(problem) = self.sparsity.and_then(|sparsity| sparsity.problem()) {
            return Err(builder.wrong(problem));
        }
        let data = builder.value();
        let first = match self.sparsity.filter(|_| builder.is_pretrained()) {
            None => tied.up(builder),
            Some(Sparsity { target, cost }) => {
                let [first, biases] = tied.up_to_biases(builder);
                builder.force(biases, ForceKind::Sparse { unit, target, cost });
                first
            }
        };
        if !builder.is_pretrained() {
            return Ok(());
        }
        builder.force(first, ForceKind::Energy { unit, sign: -1.0 });
        let mut reconstruction = first;
        for step in 0..self.k {
            let is_last = step + 1 == self.k;
            // What lies between the data and the last step is sampled, and nothing is learned from how.
            builder.taken_as_given(true);
            builder.push(Op::Sample { unit, draw: 2 * step as u64 + 1 }, builder.shape);
            tied.down(builder);
            builder.taken_as_given(!is_last);
            tied.add_visible_bias(builder);
            reconstruction = builder.value();
            builder.push(Op::Sample { unit: Unit::from(visible), draw: 2 * step as u64 + 2 }, tied.visible);
            let last = tied.up(builder);
            if is_last {
                builder.force(last, ForceKind::Energy { unit, sign: 1.0 });
            }
        }
        builder.taken_as_given(false);
        builder.continue_from(reconstruction);
        let (activation, loss, weight) = match visible {
            Visible::Binary => (Activation::Sigmoid, Loss::BinaryCrossEntropy, 1.0),
            Visible::Softmax => (Activation::Softmax, Loss::CrossEntropy, 1.0),
            Visible::Gaussian | Visible::Linear => (Activation::Identity, Loss::L2, 0.5),
        };
        builder.activate_with(activation);
        builder.judge_against(data, &loss, weight, registry)?;
        builder.continue_from(first);
        Ok(())
    }
}

/// A Boltzmann machine; to other layers what is hidden, on average.
pub(super) fn rbm(config: &Rbm, registry: &Registry, builder: &mut Builder<'_>) -> Result<(), Error> {
    let &Rbm { units, visible, hidden, k, sparsity, .. } = config;
    let tied = Tied::dense(units, builder)?;
    Machine { tied, hidden: Unit::from(hidden), visible, k, sparsity }.build(registry, builder)?;
    builder.activate_or(hidden.mean());
    Ok(())
}

/// One over images, with probabilistic pooling (Lee et al. 2009); to other layers the chances that any unit of a block is on.
pub(super) fn convolutional_rbm(
    config: &ConvolutionalRbm,
    registry: &Registry,
    builder: &mut Builder<'_>,
) -> Result<(), Error> {
    let &ConvolutionalRbm { pool: block, visible, k, sparsity, .. } = config;
    if visible == Visible::Softmax {
        return Err(builder.wrong("`visible` must be `binary`, `gaussian` or `linear`: pixels are no classes".into()));
    }
    let tied = Tied::convolving(config, builder)?;
    let Shape::Image { height, width, channels } = tied.hidden else { unreachable!("a convolution gives an image") };
    if block.contains(&0) || !height.is_multiple_of(block[0]) || !width.is_multiple_of(block[1]) {
        return Err(builder.wrong(format!(
            "`pool` of {}×{} must divide the {height}×{width} that its kernel of {}×{} leaves of the image",
            block[0], block[1], config.kernel[0], config.kernel[1]
        )));
    }
    let blocks = Blocks { image: [height, width, channels], block };
    Machine { tied, hidden: Unit::OneOfBlocks(blocks), visible, k, sparsity }.build(registry, builder)?;
    let [height, width, channels] = blocks.pooled();
    builder.push(Op::PoolChances(blocks), Shape::Image { height, width, channels });
    Ok(())
}

/// An autoencoder: reconstructs its clean input from the hidden units, which see the input after dropout and corruption.
pub(super) fn auto_encoder(config: &AutoEncoder, registry: &Registry, builder: &mut Builder<'_>) -> Result<(), Error> {
    if !(0.0..1.0).contains(&config.corruption) {
        let found = config.corruption;
        return Err(builder.wrong(format!("`corruption` must be 0 or more and less than 1, found {found}")));
    }
    let tied = Tied::dense(config.units, builder)?;
    let (data, clean) = (builder.value(), builder.clean_input());
    if builder.is_pretrained() {
        if config.corruption > 0.0 {
            builder.push(Op::Noise(Noise::Masked { rate: config.corruption }), tied.visible);
        }
        tied.up(builder);
        builder.activate();
        tied.down(builder);
        tied.add_visible_bias(builder);
        builder.activate_with(config.visible_activation.unwrap_or_else(|| activation_before(&config.loss)));
        builder.judge_against(clean, &config.loss, 1.0, registry)?;
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
    let (data, visible) = (builder.clean_input(), builder.shape.len());
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

#[cfg(test)]
mod tests {
    use paceline_model::{Batch, Targets};

    use crate::Network;
    use crate::config::NetworkConfig;
    use crate::node::Op;
    use crate::pass::Draw;

    #[test]
    fn dropout_and_corruption_draw_apart_and_the_clean_input_is_the_target() {
        let json = r#"{"input": {"feed_forward": 4000}, "layers": [
            {"autoencoder": {"units": 2, "dropout": 0.5, "corruption": 0.5}}, {"output": {"units": 2}}]}"#;
        let config = NetworkConfig::from_json(json).expect("a network");
        let network = Network::new(NetworkConfig { pretrains: Some(0), ..config }).expect("a phase");
        let graph = &network.graph;
        let batch = Batch { indices: vec![7], targets: Targets::None, ..Batch::empty() };
        let drops = |is_of: fn(&Op) -> bool| {
            let node = graph.nodes.iter().find(|node| is_of(&node.op)).expect("it is there");
            let stream = Draw::new(1, node.layer, node.stream, &batch).row(0);
            (0..4000u32).map(|element| stream.uniform(element) < 0.5).collect::<Vec<bool>>()
        };
        let dropped = drops(|op| matches!(op, Op::Dropout { .. }));
        let masked = drops(|op| matches!(op, Op::Noise(_)));
        let zeroed = dropped.iter().zip(&masked).filter(|(dropped, masked)| **dropped || **masked).count();
        assert!((2900..3100).contains(&zeroed), "three quarters are 0: {zeroed} of 4000");
        assert_eq!(graph.heads[0].against, Some(graph.inputs[0].value), "the input as it comes");
    }
}
