use super::Builder;
use crate::config::GlobalPooling;
use crate::node::Op;
use crate::{Error, Shape};

pub(super) fn build(config: &GlobalPooling, builder: &mut Builder<'_>) -> Result<(), Error> {
    if matches!(builder.shape, Shape::Flat(_)) {
        return Err(builder.misfit("an image or a sequence".into()));
    }
    let (positions, channels) = (builder.shape.positions(), builder.shape.channels());
    super::subsampling::check(config.pool, builder)?;
    builder.push_masked(Op::GlobalPool { positions, channels, pool: config.pool }, Shape::Flat(channels), 0..0, 0..0);
    Ok(())
}
