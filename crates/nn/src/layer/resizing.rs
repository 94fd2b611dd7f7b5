use super::Builder;
use crate::config::{Cropping2d, SpaceToDepth, Upsampling2d};
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
