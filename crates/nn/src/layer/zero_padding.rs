use super::Builder;
use crate::config::ZeroPadding;
use crate::node::Op;
use crate::{Error, Shape};

pub(super) fn build(config: &ZeroPadding, builder: &mut Builder<'_>) -> Result<(), Error> {
    let [height, width, channels] = builder.image()?;
    let padding @ [top, bottom, left, right] = config.padding;
    let output = Shape::Image {
        height: height.saturating_add(top).saturating_add(bottom),
        width: width.saturating_add(left).saturating_add(right),
        channels,
    };
    builder.push(Op::ZeroPad { height, width, channels, padding }, output);
    Ok(())
}
