//! Layers over the steps of sequences that are no recurrence.

use super::Builder;
use crate::config::{
    Conv1d, Cropping1d, Embedding, LayerNorm, MaskSteps, OneHot, Padding1d, Pool, RepeatVector, Subsampling1d,
    Upsampling1d, ZeroPadding1d,
};
use crate::node::{Op, Resize, Resizing};
use crate::window::{Misfit, Window};
use crate::{Error, Fan, Shape};

pub(super) fn last(builder: &mut Builder<'_>) -> Result<(), Error> {
    let [steps, features] = builder.sequence()?;
    builder.push_masked(Op::LastStep { steps }, Shape::Flat(features), 0..0, 0..0);
    Ok(())
}

pub(super) fn reverse(builder: &mut Builder<'_>) -> Result<(), Error> {
    let [steps, _] = builder.sequence()?;
    builder.push_masked(Op::ReverseSteps { steps }, builder.shape, 0..0, 0..0);
    Ok(())
}

/// A row at so many steps, or at those of a second value.
pub(super) fn repeat(config: &RepeatVector, builder: &mut Builder<'_>) -> Result<(), Error> {
    let operands = builder.operands();
    let (steps, mask) = match (config.steps, &operands[..]) {
        (Some(0), _) => return Err(builder.wrong("`steps` must be at least 1".into())),
        (Some(steps), [_]) => (steps, None),
        (None, [_, like]) => {
            builder.same_copies()?;
            builder.continue_from(*like);
            (builder.sequence()?[0], builder.mask())
        }
        (Some(_), _) => return Err(builder.wrong("expected one value, as `steps` says how often".into())),
        (None, _) => {
            let message = "expected `steps`, or a second value that comes in, a sequence of as many steps";
            return Err(builder.wrong(message.into()));
        }
    };
    builder.continue_from(operands[0]);
    let Shape::Flat(features) = builder.shape else {
        return Err(builder.misfit("a row of numbers".into()));
    };
    builder.push(Op::RepeatSteps { steps }, Shape::Sequence { steps, features });
    builder.set_mask(mask);
    Ok(())
}

/// Says of more steps that they are not there.
pub(super) fn mask(config: &MaskSteps, builder: &mut Builder<'_>) -> Result<(), Error> {
    let [steps, features] = builder.sequence()?;
    if config.value.is_nan() {
        return Err(builder.wrong("`value` must be a number".into()));
    }
    let read = builder.value();
    builder.push_masked(Op::DifferentSteps { features, value: config.value }, Shape::Flat(steps), 0..0, 0..0);
    let mask = builder.value();
    builder.continue_from(read);
    builder.push_reading(Op::HideSteps { features, instead: 0.0 }, vec![read, mask], builder.shape, 0..0);
    builder.set_mask(Some(mask));
    Ok(())
}

/// What the numbers of things look up: one thing gives a row, several give a sequence.
fn things(units: usize, builder: &Builder<'_>) -> Result<Shape, Error> {
    match builder.shape {
        Shape::Flat(1) => Ok(Shape::Flat(units)),
        Shape::Flat(steps) | Shape::Sequence { steps, features: 1 } => Ok(Shape::Sequence { steps, features: units }),
        _ => Err(builder.misfit("the number of a thing, several of them, or a sequence of them".into())),
    }
}

pub(super) fn embedding(config: &Embedding, builder: &mut Builder<'_>) -> Result<(), Error> {
    let &Embedding { count, units, bias, .. } = config;
    countable(count, builder)?;
    if units == 0 {
        return Err(builder.wrong("`units` must be at least 1".into()));
    }
    let output = things(units, builder)?;
    let weights = builder.weights("weight", vec![count, units], Fan { inputs: count, outputs: units })?;
    let bias = if bias { builder.bias("bias", units) } else { 0..0 };
    builder.push_with(Op::Embedding { count }, output, weights, bias, 0..0);
    builder.activate();
    Ok(())
}

pub(super) fn one_hot(config: &OneHot, builder: &mut Builder<'_>) -> Result<(), Error> {
    countable(config.count, builder)?;
    let output = things(config.count, builder)?;
    builder.push(Op::OneHot { count: config.count }, output);
    Ok(())
}

/// A number is told from the next one as long as floats can do that.
fn countable(count: usize, builder: &Builder<'_>) -> Result<(), Error> {
    if (1..=1 << 24).contains(&count) {
        return Ok(());
    }
    Err(builder.wrong(format!("`count` must be at least 1 and at most {}, found {count}", 1 << 24)))
}

pub(super) fn layer_norm(config: &LayerNorm, builder: &mut Builder<'_>) -> Result<(), Error> {
    let epsilon = super::joining::positive(config.epsilon, builder)?;
    let channels = builder.shape.channels();
    let gain = builder.constant("gain", channels, 1.0);
    let shift = builder.constant("shift", channels, 0.0);
    builder.push_with(Op::LayerNorm { channels, epsilon }, builder.shape, gain, shift, 0..0);
    builder.activate();
    Ok(())
}

/// A window over steps is one over an image that is one pixel wide.
fn window(
    padding: Padding1d,
    sizes @ [kernel, stride, dilation]: [usize; 3],
    builder: &Builder<'_>,
) -> Result<Window, Error> {
    let [steps, features] = builder.sequence()?;
    let window = match padding {
        Padding1d::Causal => Window::causal(steps, features, sizes),
        _ => Window::new([steps, 1, features], [kernel, 1], [stride, 1], [dilation, 1], padding.of_image()),
    };
    window.map_err(|misfit| match misfit {
        Misfit::Zero(name) => builder.wrong(format!("`{name}` must be at least 1")),
        Misfit::TooSmall([steps, _]) => {
            builder.misfit(format!("a sequence of at least {steps} steps for its kernel of {kernel}"))
        }
        Misfit::LeftOver(_) => unreachable!("nothing was said to be strict"),
    })
}

/// Which steps are there when windows have moved over them: those of whose windows any was.
fn pooled_mask(window: Window, builder: &mut Builder<'_>) -> Option<usize> {
    let (read, mask) = (builder.value(), builder.mask()?);
    builder.continue_from(mask);
    let op = Op::Pool { window: Window { channels: 1, ..window }, pool: Pool::Max };
    builder.push(op, Shape::Flat(window.out[0]));
    let pooled = builder.value();
    builder.continue_from(read);
    Some(pooled)
}

/// What is not there must not be seen beside what is.
fn hide(instead: f32, builder: &mut Builder<'_>) {
    if let Some(mask) = builder.mask() {
        let op = Op::HideSteps { features: builder.shape.channels(), instead };
        builder.push_reading(op, vec![builder.value(), mask], builder.shape, 0..0);
    }
}

pub(super) fn conv1d(config: &Conv1d, builder: &mut Builder<'_>) -> Result<(), Error> {
    let &Conv1d { filters, kernel, stride, dilation, padding, bias, .. } = config;
    slide(padding, [kernel, stride, dilation], filters, builder, |window, builder| {
        super::conv2d::convolve("weight", window, filters, 1, bias, builder)
    })
}

/// What moves windows over the steps and gives so many features at every place; steps that are not there are seen as 0.
pub(super) fn slide(
    padding: Padding1d,
    sizes: [usize; 3],
    features: usize,
    builder: &mut Builder<'_>,
    op: impl FnOnce(Window, &mut Builder<'_>) -> Result<(), Error>,
) -> Result<(), Error> {
    let window = window(padding, sizes, builder)?;
    if padding != Padding1d::Causal && (window.before[0] >= window.kernel[0] || window.after[0] >= window.kernel[0]) {
        return Err(builder.wrong("`padding` must be smaller than `kernel`".into()));
    }
    let mask = pooled_mask(window, builder);
    hide(0.0, builder);
    op(window, builder)?;
    builder.view_as(Shape::Sequence { steps: window.out[0], features });
    builder.set_mask(mask);
    builder.activate();
    Ok(())
}

pub(super) fn subsampling1d(config: &Subsampling1d, builder: &mut Builder<'_>) -> Result<(), Error> {
    let window = window(config.padding, [config.kernel, config.stride.unwrap_or(config.kernel), 1], builder)?;
    super::subsampling::check(config.pool, builder)?;
    if window.kernel[0] > usize::from(u16::MAX) || window.before[0] >= window.kernel[0] {
        let message = format!("`kernel` must be larger than `padding`, and at most {}", u16::MAX);
        return Err(builder.wrong(message));
    }
    let mask = pooled_mask(window, builder);
    // What is not there is never the largest.
    hide(if config.pool == Pool::Max { f32::NEG_INFINITY } else { 0.0 }, builder);
    builder.push(Op::Pool { window, pool: config.pool }, window.output(window.channels));
    builder.view_as(Shape::Sequence { steps: window.out[0], features: window.channels });
    builder.set_mask(mask);
    // Where nothing was there, nothing came out.
    hide(0.0, builder);
    Ok(())
}

pub(super) fn padding(config: &ZeroPadding1d, builder: &mut Builder<'_>) -> Result<(), Error> {
    let [steps, features] = builder.sequence()?;
    let [before, behind] = config.padding;
    let op = |channels| Op::ZeroPad { height: steps, width: 1, channels, padding: [before, behind, 0, 0] };
    let steps = steps.saturating_add(before).saturating_add(behind);
    // Steps of padding are not there, where anything says which are.
    same_with_mask(op, steps, features, builder);
    Ok(())
}

pub(super) fn cropping(config: &Cropping1d, builder: &mut Builder<'_>) -> Result<(), Error> {
    let [steps, features] = builder.sequence()?;
    let [first, last] = config.cropping;
    let Some(rest) = steps.checked_sub(first).and_then(|rest| rest.checked_sub(last)).filter(|rest| *rest > 0) else {
        return Err(builder.misfit("a sequence of which something is left".into()));
    };
    let how = Resizing::Crop { first: [first, 0], size: [rest, 1] };
    let op = |channels| Op::Resize(Resize { input: [steps, 1, channels], how });
    same_with_mask(op, rest, features, builder);
    Ok(())
}

pub(super) fn upsampling(config: &Upsampling1d, builder: &mut Builder<'_>) -> Result<(), Error> {
    let [steps, features] = builder.sequence()?;
    if config.size == 0 {
        return Err(builder.wrong("`size` must be at least 1".into()));
    }
    let how = Resizing::Repeat([config.size, 1]);
    let op = |channels| Op::Resize(Resize { input: [steps, 1, channels], how });
    same_with_mask(op, steps.saturating_mul(config.size), features, builder);
    Ok(())
}

/// The same is done with steps and with which of them are there.
fn same_with_mask(op: impl Fn(usize) -> Op, steps: usize, features: usize, builder: &mut Builder<'_>) {
    let read = builder.value();
    let mask = builder.mask().map(|mask| {
        builder.continue_from(mask);
        builder.push(op(1), Shape::Flat(steps));
        builder.value()
    });
    builder.continue_from(read);
    builder.push(op(features), Shape::Sequence { steps, features });
    builder.set_mask(mask);
}
