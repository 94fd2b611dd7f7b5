//! What graphs are made of besides layers.

use super::Builder;
use crate::config::{ElementWise, ElementWiseOp, L2Distance, L2Normalise, Reshape, Subset, Unstack};
use crate::node::Op;
use crate::{Error, Shape};

/// Side by side: the channels of every position.
pub(super) fn merge(builder: &mut Builder<'_>) -> Result<(), Error> {
    let shapes = builder.shapes();
    let first = shapes[0];
    let fits = |shape: &&Shape| match (first, shape) {
        (Shape::Flat(_), Shape::Flat(_)) => true,
        (Shape::Image { height, width, .. }, Shape::Image { height: h, width: w, .. }) => height == *h && width == *w,
        (Shape::Volume { .. }, Shape::Volume { .. }) => first.with_channels(1) == shape.with_channels(1),
        (Shape::Sequence { steps, .. }, Shape::Sequence { steps: others, .. }) => steps == *others,
        _ => false,
    };
    if let Some(at) = shapes.iter().position(|shape| !fits(&shape)) {
        let expected = match first {
            Shape::Flat(_) => "rows of numbers".to_owned(),
            Shape::Image { height, width, .. } => format!("images of {height}×{width}"),
            Shape::Volume { depth, height, width, .. } => format!("volumes of {depth}×{height}×{width}"),
            Shape::Sequence { steps, .. } => format!("sequences of {steps} steps"),
        };
        return Err(builder.wrong(format!(
            "expected {expected} side by side, as `{}` gives; `{}` gives {}",
            builder.operand_name(0),
            builder.operand_name(at),
            shapes[at]
        )));
    }
    builder.same_copies()?;
    let channels: Vec<usize> = shapes.iter().map(|shape| shape.channels()).collect();
    let output = first.with_channels(channels.iter().sum());
    builder.join(Op::Merge { channels }, output, builder.copies());
    Ok(())
}

pub(super) fn element_wise(config: &ElementWise, builder: &mut Builder<'_>) -> Result<(), Error> {
    let operands = builder.shapes().len();
    if config.op == ElementWiseOp::Subtract && operands != 2 {
        return Err(builder.wrong(format!("`op = \"subtract\"` takes two values, found {operands}")));
    }
    builder.same_shapes()?;
    builder.join(Op::ElementWise(config.op), builder.shape, builder.copies());
    Ok(())
}

pub(super) fn subset(config: &Subset, builder: &mut Builder<'_>) -> Result<(), Error> {
    let &Subset { first, count, .. } = config;
    let channels = builder.shape.channels();
    if count == 0 || first.checked_add(count).is_none_or(|end| end > channels) {
        return Err(builder.wrong(format!(
            "expected at least 1 and no more than the {channels} numbers or channels that come in, found {count} from {first} on"
        )));
    }
    builder.push(Op::Subset { first }, builder.shape.with_channels(count));
    Ok(())
}

pub(super) fn stack(builder: &mut Builder<'_>) -> Result<(), Error> {
    builder.same_shapes_of_any_copies()?;
    let copies = builder.operand_copies();
    let (all, shape, operands) = (copies.iter().sum(), builder.shape, builder.operands());
    let mask = match builder.masks_of(&operands)[..] {
        [] => None,
        ref masks => {
            let steps = Shape::Flat(shape.positions());
            builder.join_values(Op::Stack { copies: copies.clone() }, masks.to_vec(), steps, all);
            Some(builder.value())
        }
    };
    builder.join_values(Op::Stack { copies }, operands, shape, all);
    builder.set_mask(mask);
    Ok(())
}

pub(super) fn unstack(config: &Unstack, builder: &mut Builder<'_>) -> Result<(), Error> {
    let &Unstack { index, of, .. } = config;
    let copies = builder.copies();
    if of == 0 || index >= of || !copies.is_multiple_of(of) {
        return Err(builder.wrong(format!(
            "expected `index` below `of`, and `of` as many as were stacked or a part of them ({copies}), found {index} of {of}"
        )));
    }
    let (value, shape) = (builder.value(), builder.shape);
    let mask = builder.mask().map(|mask| {
        builder.join_values(Op::Unstack { index }, vec![mask], Shape::Flat(shape.positions()), copies / of);
        builder.value()
    });
    builder.join_values(Op::Unstack { index }, vec![value], shape, copies / of);
    builder.set_mask(mask);
    Ok(())
}

pub(super) fn linear(factor: f32, offset: f32, builder: &mut Builder<'_>) -> Result<(), Error> {
    if !(factor.is_finite() && offset.is_finite()) {
        return Err(
            builder.wrong(format!("expected a number, found {}", if factor.is_finite() { offset } else { factor }))
        );
    }
    builder.push(Op::Linear { factor, offset }, builder.shape);
    Ok(())
}

pub(super) fn l2_normalise(config: &L2Normalise, builder: &mut Builder<'_>) -> Result<(), Error> {
    let epsilon = positive(config.epsilon, builder)?;
    builder.push(Op::L2Normalise { epsilon }, builder.shape);
    Ok(())
}

pub(super) fn l2_distance(config: &L2Distance, builder: &mut Builder<'_>) -> Result<(), Error> {
    let epsilon = positive(config.epsilon, builder)?;
    let operands = builder.shapes().len();
    if operands != 2 {
        return Err(builder.wrong(format!("expected two values, found {operands}")));
    }
    builder.same_shapes()?;
    builder.join(Op::L2Distance { epsilon }, Shape::Flat(1), builder.copies());
    Ok(())
}

pub(super) fn positive(epsilon: f32, builder: &Builder<'_>) -> Result<f32, Error> {
    if epsilon > 0.0 && epsilon.is_finite() {
        return Ok(epsilon);
    }
    Err(builder.wrong(format!("`epsilon` must be above 0, found {epsilon}")))
}

pub(super) fn reshape(config: &Reshape, builder: &mut Builder<'_>) -> Result<(), Error> {
    let output = config.to.shape();
    if output.len() != builder.shape.len() {
        return Err(builder.misfit(format!("as many numbers as {output} has ({})", output.len())));
    }
    builder.push(Op::Reshape, output);
    Ok(())
}
