use super::Builder;
use crate::config::GlobalPooling;
use crate::node::Op;
use crate::{Error, Shape};

pub(super) fn build(config: &GlobalPooling, builder: &mut Builder<'_>) -> Result<(), Error> {
    let [height, width, channels] = builder.image()?;
    super::subsampling::check(config.pool, builder)?;
    builder.push(Op::GlobalPool { positions: height * width, channels, pool: config.pool }, Shape::Flat(channels));
    Ok(())
}
