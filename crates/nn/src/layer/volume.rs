//! Layers over volumes.

use super::{Builder, subsampling};
use crate::config::{Conv3d, Cropping3d, Subsampling3d, Upsampling3d, ZeroPadding3d};
use crate::node::Op;
use crate::window::{Cube, Misfit};
use crate::{Error, Fan, Shape};

fn volume(builder: &Builder<'_>) -> Result<[usize; 4], Error> {
    match builder.shape {
        Shape::Volume { depth, height, width, channels } => Ok([depth, height, width, channels]),
        _ => Err(builder.misfit("a volume".into())),
    }
}

/// The window that fits the volume that comes in, or an error that says why there is none.
fn fitting(found: Result<Cube, Misfit<3>>, kernel: [usize; 3], builder: &Builder<'_>) -> Result<Cube, Error> {
    found.map_err(|misfit| match misfit {
        Misfit::Zero(name) => builder.wrong(format!("`{name}` must be at least 1 in all directions")),
        Misfit::TooSmall([depth, height, width]) => builder.misfit(format!(
            "a volume of at least {depth}×{height}×{width} for its kernel of {}×{}×{}",
            kernel[0], kernel[1], kernel[2]
        )),
        Misfit::LeftOver(_) => unreachable!("nothing was said to be strict"),
    })
}

pub(super) fn conv3d(config: &Conv3d, builder: &mut Builder<'_>) -> Result<(), Error> {
    let &Conv3d { filters, kernel, stride, dilation, padding, bias, .. } = config;
    let input = volume(builder)?;
    let cube = fitting(Cube::new(input, kernel, stride, dilation, padding), kernel, builder)?;
    if filters == 0 {
        return Err(builder.wrong("`filters` must be at least 1".into()));
    }
    let channels = input[3];
    let fan = Fan { inputs: cube.cells().saturating_mul(channels), outputs: cube.cells().saturating_mul(filters) };
    let [depth, height, width] = kernel;
    let weights = builder.weights("weight", vec![depth, height, width, channels, filters], fan)?;
    let bias = if bias { builder.bias("bias", filters) } else { 0..0 };
    builder.push_with(Op::Conv3d { cube, filters }, cube.output(filters), weights, bias, 0..0);
    builder.activate();
    Ok(())
}

pub(super) fn subsampling3d(config: &Subsampling3d, builder: &mut Builder<'_>) -> Result<(), Error> {
    let &Subsampling3d { pool, kernel, stride, padding, .. } = config;
    let found = Cube::new(volume(builder)?, kernel, stride.unwrap_or(kernel), [1; 3], padding);
    let cube = fitting(found, kernel, builder)?;
    subsampling::check(pool, builder)?;
    if cube.cells() > usize::from(u16::MAX) {
        return Err(builder.wrong(format!("its window may have at most {} cells", u16::MAX)));
    }
    let slice = cube.slice;
    let is_covered = |d: usize| slice.before[d] >= slice.kernel[d] || slice.after[d] >= slice.kernel[d];
    if cube.before >= cube.kernel || cube.after >= cube.kernel || (0..2).any(is_covered) {
        return Err(builder.wrong("`padding` must be smaller than `kernel`".into()));
    }
    builder.push(Op::Pool3d { cube, pool }, cube.output(slice.channels));
    Ok(())
}

/// Takes pixels from other places: `from` says where one comes from, or that it is 0.
fn place(
    [depth, height, width]: [usize; 3],
    from: impl Fn([usize; 3]) -> Option<[usize; 3]>,
    builder: &mut Builder<'_>,
) -> Result<(), Error> {
    let [_, rows, columns, channels] = volume(builder)?;
    let output = Shape::Volume { depth, height, width, channels };
    builder.gather(output, channels, |at| {
        let [z, y, x] = from([at / (height * width), at / width % height, at % width])?;
        Some((z * rows + y) * columns + x)
    })
}

pub(super) fn padding(config: &ZeroPadding3d, builder: &mut Builder<'_>) -> Result<(), Error> {
    let [depth, height, width, _] = volume(builder)?;
    let sizes = [depth, height, width];
    let [before, behind, top, bottom, left, right] = config.padding;
    let (first, last) = ([before, top, left], [behind, bottom, right]);
    let wide = [0, 1, 2].map(|d| sizes[d].saturating_add(first[d]).saturating_add(last[d]));
    let inside = |at: [usize; 3], d: usize| at[d].checked_sub(first[d]).filter(|at| *at < sizes[d]);
    place(wide, |at| Some([inside(at, 0)?, inside(at, 1)?, inside(at, 2)?]), builder)
}

pub(super) fn cropping(config: &Cropping3d, builder: &mut Builder<'_>) -> Result<(), Error> {
    let [depth, height, width, _] = volume(builder)?;
    let [before, behind, top, bottom, left, right] = config.cropping;
    let rest = |all: usize, one: usize, other: usize| all.checked_sub(one.checked_add(other)?).filter(|rest| *rest > 0);
    match (rest(depth, before, behind), rest(height, top, bottom), rest(width, left, right)) {
        (Some(depth), Some(height), Some(width)) => {
            place([depth, height, width], |[z, y, x]| Some([z + before, y + top, x + left]), builder)
        }
        _ => Err(builder.misfit("a volume of which something is left".into())),
    }
}

pub(super) fn upsampling(config: &Upsampling3d, builder: &mut Builder<'_>) -> Result<(), Error> {
    let [depth, height, width, _] = volume(builder)?;
    let size = config.size;
    if size.contains(&0) {
        return Err(builder.wrong("`size` must be at least 1 in all directions".into()));
    }
    let all = [depth.saturating_mul(size[0]), height.saturating_mul(size[1]), width.saturating_mul(size[2])];
    place(all, |[z, y, x]| Some([z / size[0], y / size[1], x / size[2]]), builder)
}
