//! The plain kernels: loops that read like their formulas, in any precision.
//!
//! The reference executor runs nothing else, in `f64`. The `cpu` executor falls back to them, in `f32`, for operations
//! that nobody has needed fast yet.

pub(crate) mod activation;
mod add_bias;
mod attending;
mod attention;
mod augment;
mod batch_norm;
mod blocks;
mod boxes;
mod capsules;
mod centres;
mod convolution;
mod custom;
mod dense;
mod dropout;
mod element_wise;
mod embedding;
mod force;
mod gather;
mod global_pool;
mod l2;
mod latent;
mod layer_norm;
mod learned;
mod linear;
mod local;
mod loss;
mod lrn;
mod merge;
mod noise;
mod pool;
mod prelu;
pub(crate) mod recurrent;
mod resizing;
mod sample;
mod stack;
mod steps;
mod subset;
mod tied_dense;
mod transposed;
mod weigh;
mod zero_pad;

pub(crate) use dropout::threshold as dropout_threshold;
pub(crate) use force::push;
pub(crate) use loss::{Judged, judge};

use convolution::Filters;

use crate::config::ElementWiseOp;
use crate::node::{Conv, Node, Op};
use crate::pass::{Backward, Forward, Needs};
use crate::window::Window;
use crate::{Activation, Real};

/// What a plain operation asks of the plan.
pub(crate) fn needs(node: &Node, examples: usize) -> Needs {
    let mut needs = match &node.op {
        Op::Dense { .. } | Op::Conv2d(_) | Op::Conv3d { .. } | Op::Local { .. } => {
            Needs { keeps_x: true, ..Needs::default() }
        }
        Op::Pool { pool, .. } | Op::Pool3d { pool, .. } => pool::needs(*pool, examples * node.output.len()),
        Op::GlobalPool { .. } => Needs { keeps_x: true, keeps_y: true, ..Needs::default() },
        Op::BatchNorm { channels, .. } => {
            let scratch = 2 * channels;
            Needs {
                keeps_x: true,
                aux: scratch,
                forward_scratch: scratch,
                backward_scratch: scratch,
                ..Needs::default()
            }
        }
        Op::FixedNorm { channels, .. } => Needs { aux: *channels, ..Needs::default() },
        Op::Dropout { .. } | Op::ZeroPad { .. } => Needs::default(),
        Op::Activation(activation) => Needs {
            keeps_x: !activation.slope_from_output() && *activation != Activation::Softmax,
            keeps_y: activation.slope_from_output() || !matches!(activation, Activation::RandomRelu { .. }),
            ..Needs::default()
        },
        Op::Lrn { .. } => {
            let len = examples * node.input.len();
            Needs { keeps_x: true, keeps_y: true, aux: len, ..Needs::default() }
        }
        Op::Custom(_) | Op::L2Normalise { .. } | Op::L2Distance { .. } | Op::Lengths { .. } => {
            Needs { keeps_x: true, keeps_y: true, ..Needs::default() }
        }
        Op::ElementWise(op) => {
            let is_max = *op == ElementWiseOp::Max;
            Needs { keeps_x: is_max || *op == ElementWiseOp::Product, keeps_y: is_max, ..Needs::default() }
        }
        Op::Boxes { .. } => Needs { keeps_y: true, ..Needs::default() },
        Op::Gather(_)
        | Op::Merge { .. }
        | Op::Subset { .. }
        | Op::Stack { .. }
        | Op::Unstack { .. }
        | Op::Linear { .. }
        | Op::Noise(_)
        | Op::Resize(_)
        | Op::Augment(_)
        | Op::AddBias
        | Op::Sample { .. }
        | Op::PresentSteps { .. }
        | Op::FillSteps { .. }
        | Op::DifferentSteps { .. }
        | Op::RepeatSteps { .. }
        | Op::OneHot { .. }
        | Op::Learned
        | Op::Reshape => Needs::default(),
        Op::Recurrence(op) => recurrent::needs(op, examples),
        Op::Capsules(op) => capsules::needs(op, examples),
        Op::AttendingRecurrence(op) => attending::needs(op, examples),
        Op::Attention(op) => {
            let aux = examples * op.queries * op.heads * op.steps;
            Needs {
                keeps_x: true,
                aux,
                aux_always: true,
                forward_scratch: op.steps,
                backward_scratch: aux,
                ..Needs::default()
            }
        }
        Op::PoolChances(_) => Needs { aux: examples * node.input.len(), aux_always: true, ..Needs::default() },
        Op::HideSteps { .. }
        | Op::LastStep { .. }
        | Op::ReverseSteps { .. }
        | Op::Embedding { .. }
        | Op::Latent
        | Op::Squash { .. }
        | Op::LayerNorm { .. } => Needs { keeps_x: true, ..Needs::default() },
        Op::PRelu | Op::Weigh | Op::Centres { .. } | Op::Transposed(_) | Op::TiedDense { .. } => {
            Needs { keeps_x: true, ..Needs::default() }
        }
    };
    needs.keeps_y |= node.activation != Activation::Identity;
    needs
}

impl Conv {
    fn plain(&self) -> Filters<'_, Window> {
        Filters { window: &self.window, filters: self.filters, groups: self.groups }
    }
}

pub(crate) fn forward<R: Real>(node: &Node, pass: &mut Forward<'_, R>) {
    match &node.op {
        Op::Dense { inputs, outputs } => dense::forward(*inputs, *outputs, pass),
        Op::Conv2d(conv) => convolution::forward(conv.plain(), pass),
        Op::Conv3d { cube, filters } => {
            convolution::forward(Filters { window: cube, filters: *filters, groups: 1 }, pass)
        }
        Op::Local { window, filters } => local::forward(window, *filters, pass),
        Op::Pool3d { cube, pool } => pool::forward(cube, *pool, pass),
        Op::Gather(op) => gather::forward(op, pass),
        Op::Pool { window, pool } => pool::forward(window, *pool, pass),
        Op::GlobalPool { positions, channels, pool } => global_pool::forward(*positions, *channels, *pool, pass),
        Op::BatchNorm { channels, positions, epsilon, decay } => {
            batch_norm::forward(*channels, *positions, *epsilon, *decay, pass);
        }
        Op::FixedNorm { channels, epsilon } => batch_norm::forward_fixed(*channels, *epsilon, pass),
        Op::Dropout { rate } => dropout::forward(*rate, pass),
        Op::Activation(activation) => activation::forward(*activation, node.input.channels(), pass),
        Op::Lrn { channels, k, n, alpha, beta } => lrn::forward(*channels, [*k, *alpha, *beta], *n, pass),
        Op::ZeroPad { height, width, channels, padding } => {
            zero_pad::forward([*height, *width, *channels], *padding, pass);
        }
        Op::Custom(layer) => R::custom_forward(layer.as_ref(), pass.examples, pass.weights, pass.x, pass.y),
        Op::Merge { channels } => merge::forward(channels, pass),
        Op::ElementWise(op) => element_wise::forward(*op, pass),
        Op::Subset { first } => subset::forward(*first, [node.input.channels(), node.output.channels()], pass),
        Op::Stack { .. } => stack::forward(pass),
        Op::Unstack { index } => stack::forward_one(*index, pass),
        Op::Linear { factor, offset } => linear::forward(*factor, *offset, pass),
        Op::L2Normalise { epsilon } => l2::normalise(node.input.len(), *epsilon, pass),
        Op::L2Distance { epsilon } => l2::distance(node.input.len(), *epsilon, pass),
        Op::Reshape => pass.y.copy_from_slice(pass.x),
        Op::Noise(noise) => noise::forward(*noise, node.input.channels(), pass),
        Op::Resize(resize) => resizing::forward(resize, pass),
        Op::Augment(op) => augment::forward(op, pass),
        Op::PRelu => prelu::forward(pass),
        Op::Weigh => weigh::forward(pass),
        Op::Centres { .. } => centres::forward(pass),
        Op::Capsules(op) => capsules::forward(op, pass),
        Op::Squash { size } => capsules::squash_all(*size, pass),
        Op::Lengths { size } => capsules::lengths(*size, pass),
        Op::Boxes { sizes, classes } => boxes::forward(sizes, *classes, pass),
        Op::Transposed(op) => transposed::forward(op, pass),
        Op::TiedDense { inputs, outputs } => tied_dense::forward(*inputs, *outputs, pass),
        Op::AddBias => add_bias::forward(pass),
        Op::Sample { unit, draw } => sample::forward(*unit, *draw, pass),
        Op::PresentSteps { features } => steps::present(*features, pass),
        Op::FillSteps { features } => steps::fill(*features, pass),
        Op::DifferentSteps { features, value } => steps::differs(*features, *value, pass),
        Op::HideSteps { features, instead } => steps::hide(*features, *instead, pass),
        Op::Recurrence(op) => recurrent::forward(op, pass),
        Op::LastStep { steps } => steps::last(*steps, pass),
        Op::RepeatSteps { steps } => steps::repeat(*steps, pass),
        Op::ReverseSteps { steps } => steps::reverse(*steps, pass),
        Op::Embedding { count } => embedding::forward(*count, pass),
        Op::OneHot { count } => embedding::one_hot(*count, pass),
        Op::LayerNorm { channels, epsilon } => layer_norm::forward(*channels, *epsilon, pass),
        Op::Attention(op) => attention::forward(op, pass),
        Op::AttendingRecurrence(op) => attending::forward(op, pass),
        Op::Learned => learned::forward(pass),
        Op::Latent => latent::forward(pass),
        Op::PoolChances(of) => blocks::forward(*of, pass),
    }
    if node.activation != Activation::Identity {
        pass.y.iter_mut().for_each(|y| *y = node.activation.value(*y));
    }
}

pub(crate) fn backward<R: Real>(node: &Node, pass: &mut Backward<'_, R>) {
    if node.activation != Activation::Identity {
        for (dy, y) in pass.dy.iter_mut().zip(pass.y) {
            *dy *= node.activation.slope(*y, *y);
        }
    }
    match &node.op {
        Op::Dense { inputs, outputs } => dense::backward(*inputs, *outputs, pass),
        Op::Conv2d(conv) => convolution::backward(conv.plain(), pass),
        Op::Conv3d { cube, filters } => {
            convolution::backward(Filters { window: cube, filters: *filters, groups: 1 }, pass)
        }
        Op::Local { window, filters } => local::backward(window, *filters, pass),
        Op::Pool3d { cube, pool } => pool::backward(cube, *pool, pass),
        Op::Gather(op) => gather::backward(op, pass),
        Op::Pool { window, pool } => pool::backward(window, *pool, pass),
        Op::GlobalPool { positions, channels, pool } => global_pool::backward(*positions, *channels, *pool, pass),
        Op::BatchNorm { channels, positions, .. } => batch_norm::backward(*channels, *positions, pass),
        Op::FixedNorm { channels, .. } => batch_norm::backward_fixed(*channels, pass),
        Op::Dropout { rate } => dropout::backward(*rate, pass),
        Op::Activation(activation) => activation::backward(*activation, node.input.channels(), pass),
        Op::Lrn { channels, n, alpha, beta, .. } => lrn::backward(*channels, [*alpha, *beta], *n, pass),
        Op::ZeroPad { height, width, channels, padding } => {
            zero_pad::backward([*height, *width, *channels], *padding, pass);
        }
        Op::Custom(layer) => custom::backward(layer.as_ref(), pass),
        Op::Merge { channels } => merge::backward(channels, pass),
        Op::ElementWise(op) => element_wise::backward(*op, pass),
        Op::Subset { first } => subset::backward(*first, [node.input.channels(), node.output.channels()], pass),
        Op::Stack { copies } => stack::backward(copies, pass),
        Op::Unstack { index } => stack::backward_one(*index, pass),
        Op::Linear { factor, .. } => linear::backward(*factor, pass),
        Op::L2Normalise { epsilon } => l2::normalise_back(node.input.len(), *epsilon, pass),
        Op::L2Distance { .. } => l2::distance_back(node.input.len(), pass),
        Op::Reshape => linear::backward(1.0, pass),
        Op::Noise(noise) => noise::backward(*noise, node.input.channels(), pass),
        Op::Resize(resize) => resizing::backward(resize, pass),
        Op::Augment(op) => augment::backward(op, pass),
        Op::PRelu => prelu::backward(pass),
        Op::Weigh => weigh::backward(pass),
        Op::Centres { strength } => centres::backward(*strength, pass),
        Op::Capsules(op) => capsules::backward(op, pass),
        Op::Squash { size } => capsules::squash_all_back(*size, pass),
        Op::Lengths { size } => capsules::lengths_back(*size, pass),
        Op::Boxes { classes, .. } => boxes::backward(*classes, pass),
        Op::Transposed(op) => transposed::backward(op, pass),
        Op::TiedDense { inputs, outputs } => tied_dense::backward(*inputs, *outputs, pass),
        Op::AddBias => add_bias::backward(pass),
        Op::HideSteps { features, .. } => steps::hide_back(*features, pass),
        Op::Recurrence(op) => recurrent::backward(op, pass),
        Op::LastStep { steps } => steps::last_back(*steps, pass),
        Op::RepeatSteps { steps } => steps::repeat_back(*steps, pass),
        Op::ReverseSteps { steps } => steps::reverse_back(*steps, pass),
        Op::Embedding { count } => embedding::backward(*count, pass),
        Op::LayerNorm { channels, epsilon } => layer_norm::backward(*channels, *epsilon, pass),
        Op::Attention(op) => attention::backward(op, pass),
        Op::AttendingRecurrence(op) => attending::backward(op, pass),
        Op::Learned => learned::backward(pass),
        Op::Latent => latent::backward(pass),
        Op::PoolChances(of) => blocks::backward(*of, pass),
        op @ (Op::Sample { .. }
        | Op::PresentSteps { .. }
        | Op::FillSteps { .. }
        | Op::DifferentSteps { .. }
        | Op::OneHot { .. }) => unreachable!("nothing is learned through {op:?}"),
    }
}
