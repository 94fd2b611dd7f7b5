use super::Builder;
use crate::config::{BatchToSpace, Cropping2d, SpaceToBatch, SpaceToDepth, Upsampling2d};
use crate::node::{Op, Resize, Resizing};
use crate::{Error, Shape};

pub(super) fn upsampling(config: &Upsampling2d, builder: &mut Builder<'_>) -> Result<(), Error> {
    if config.size.contains(&0) {
        return Err(builder.wrong("`size` must be at least 1 in both directions".into()));
    }
    resize(Resizing::Repeat(config.size), builder)
}

pub(super) fn cropping(config: &Cropping2d, builder: &mut Builder<'_>) -> Result<(), Error> {
    let [top, bottom, left, right] = config.cropping;
    let [height, width, _] = builder.image()?;
    let rest = |all: usize, one: usize, other: usize| all.checked_sub(one.checked_add(other)?).filter(|rest| *rest > 0);
    match (rest(height, top, bottom), rest(width, left, right)) {
        (Some(height), Some(width)) => resize(Resizing::Crop { first: [top, left], size: [height, width] }, builder),
        _ => Err(builder.misfit("an image of which something is left".into())),
    }
}

pub(super) fn space_to_depth(config: &SpaceToDepth, builder: &mut Builder<'_>) -> Result<(), Error> {
    let [height, width, _] = builder.image()?;
    let block = config.block;
    if block == 0 || height % block != 0 || width % block != 0 {
        return Err(builder.misfit(format!("an image whose height and width are multiples of `block` ({block})")));
    }
    resize(Resizing::Deepen { block }, builder)
}

fn resize(how: Resizing, builder: &mut Builder<'_>) -> Result<(), Error> {
    let resize = Resize { input: builder.image()?, how };
    let [height, width, channels] = resize.output();
    builder.push(Op::Resize(resize), Shape::Image { height, width, channels });
    Ok(())
}

/// Every block of pixels is taken apart: the first pixels of all blocks are an image, and so on, one row of the example below the other.
pub(super) fn space_to_batch(config: &SpaceToBatch, builder: &mut Builder<'_>) -> Result<(), Error> {
    let [height, width, channels] = builder.image()?;
    let [down, right] = config.block;
    if config.block.contains(&0) || !height.is_multiple_of(down) || !width.is_multiple_of(right) {
        return Err(
            builder.misfit(format!("an image whose height and width are multiples of `block` ({down}×{right})"))
        );
    }
    if builder.copies() > 1 {
        return Err(builder.wrong("what comes in was stacked already: `unstack` it first".into()));
    }
    let small = [height / down, width / right];
    let all = builder.shape.len();
    // Part by part, and in it pixel by pixel.
    builder.gather(Shape::Flat(all), channels, |at| {
        let (part, pixel) = (at / (small[0] * small[1]), at % (small[0] * small[1]));
        let y = pixel / small[1] * down + part / right;
        Some(y * width + pixel % small[1] * right + part % right)
    })?;
    let (parts, taken_apart) = (down * right, builder.value());
    let values = (0..parts).map(|part| {
        builder.continue_from(taken_apart);
        builder.push(Op::Subset { first: part * (all / parts) }, Shape::Flat(all / parts));
        builder.view_as(Shape::Image { height: small[0], width: small[1], channels });
        builder.value()
    });
    let values: Vec<_> = values.collect();
    let image = builder.shape;
    builder.join_values(Op::Stack { copies: vec![1; parts] }, values, image, parts);
    Ok(())
}

/// And together again.
pub(super) fn batch_to_space(config: &BatchToSpace, builder: &mut Builder<'_>) -> Result<(), Error> {
    let [height, width, channels] = builder.image()?;
    let [down, right] = config.block;
    let parts = down.saturating_mul(right);
    if parts == 0 || builder.copies() != parts {
        let found = builder.copies();
        return Err(builder.wrong(format!(
            "expected an image for every pixel of its blocks of {down}×{right}, as `space_to_batch` gives, found {found} an example"
        )));
    }
    let (stacked, image, flat) = (builder.value(), builder.shape, Shape::Flat(builder.shape.len()));
    let values = (0..parts).map(|index| {
        builder.join_values(Op::Unstack { index }, vec![stacked], image, 1);
        builder.view_as(flat);
        builder.value()
    });
    let values: Vec<_> = values.collect();
    let op = Op::Merge { channels: vec![flat.len(); parts] };
    builder.join_values(op, values, Shape::Flat(flat.len() * parts), 1);
    let (wide, pixels) = (width * right, height * width);
    let output = Shape::Image { height: height * down, width: wide, channels };
    builder.gather(output, channels, |at| {
        let (y, x) = (at / wide, at % wide);
        Some((y % down * right + x % right) * pixels + y / down * width + x / right)
    })
}
