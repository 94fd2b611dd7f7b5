use super::Builder;
use super::builder::count;
use super::conv2d::convolve;
use crate::config::{CapsuleLayer, PrimaryCapsules};
use crate::node::{Capsules, Op};
use crate::{Error, Fan, Shape};

pub(super) fn primary(config: &PrimaryCapsules, builder: &mut Builder<'_>) -> Result<(), Error> {
    let &PrimaryCapsules { capsules, size, kernel, stride, padding, .. } = config;
    let window = builder.window(kernel, stride, [1, 1], padding, false)?;
    if capsules == 0 || size == 0 {
        return Err(builder.wrong("`capsules` and `size` must be at least 1".into()));
    }
    convolve("weight", window, capsules.saturating_mul(size), 1, true, builder)?;
    if count(builder.shape).is_none() {
        return Err(builder.wrong("its capsules are more than any machine has memory for".into()));
    }
    let steps = builder.shape.len() / size;
    builder.push(Op::Reshape, Shape::Sequence { steps, features: size });
    builder.push(Op::Squash { size }, builder.shape);
    Ok(())
}

pub(super) fn route(config: &CapsuleLayer, builder: &mut Builder<'_>) -> Result<(), Error> {
    let &CapsuleLayer { capsules: outputs, size, routings, bias, .. } = config;
    let [inputs, features] = all_there(builder)?;
    if outputs == 0 || size == 0 || routings == 0 {
        return Err(builder.wrong("`capsules`, `size` and `routings` must be at least 1".into()));
    }
    let all = outputs.saturating_mul(size);
    let fan = Fan { inputs: features, outputs: size };
    let weights = builder.weights("weight", vec![inputs, features, all], fan)?;
    let bias = if bias { builder.bias("bias", all) } else { 0..0 };
    let op = Op::Capsules(Capsules { inputs, features, outputs, size, routings });
    builder.push_with(op, Shape::Sequence { steps: outputs, features: size }, weights, bias, 0..0);
    if count(builder.shape).is_none() {
        return Err(builder.wrong("its capsules are more than any machine has memory for".into()));
    }
    builder.set_mask(None);
    Ok(())
}

pub(super) fn strength(builder: &mut Builder<'_>) -> Result<(), Error> {
    let [capsules, size] = all_there(builder)?;
    builder.push(Op::Lengths { size }, Shape::Flat(capsules));
    Ok(())
}

/// The capsules that come in, and the numbers of each.
fn all_there(builder: &Builder<'_>) -> Result<[usize; 2], Error> {
    match builder.mask() {
        None => builder.sequence(),
        Some(_) => {
            Err(builder.wrong("it takes what `primary_capsules` and `capsules` give, and no sequence with gaps".into()))
        }
    }
}
