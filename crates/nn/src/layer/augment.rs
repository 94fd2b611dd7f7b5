use super::Builder;
use crate::config::{Augment, Flip, Outside};
use crate::node::{Augmentation, Op};
use crate::{Error, Shape};

/// Unlike other layers of chance it works in a frozen network, too: it is about the data, not about what is learned.
pub(super) fn build(config: &Augment, builder: &mut Builder<'_>) -> Result<(), Error> {
    let input = builder.image()?;
    let [height, width, channels] = input;
    if !(0.0..=180.0).contains(&config.rotate) {
        return Err(builder.wrong(format!("`rotate` must be degrees from 0 to 180, found {}", config.rotate)));
    }
    if config.shift[0] >= height || config.shift[1] >= width {
        let [down, aside] = config.shift;
        return Err(builder
            .wrong(format!("`shift` must leave something of an image of {height}×{width}, found [{down}, {aside}]")));
    }
    let size = config.crop.unwrap_or([height, width]);
    if size.contains(&0) || size[0] > height || size[1] > width {
        return Err(builder.wrong(format!("`crop` must be a part of an image of {height}×{width}, found {size:?}")));
    }
    let op = Augmentation {
        input,
        size,
        flips: [
            matches!(config.flip, Some(Flip::Vertical | Flip::Both)),
            matches!(config.flip, Some(Flip::Horizontal | Flip::Both)),
        ],
        rotate: config.rotate,
        shift: config.shift,
        repeats_edge: config.outside == Outside::Edge,
    };
    builder.push(Op::Augment(op), Shape::Image { height: size[0], width: size[1], channels });
    Ok(())
}
