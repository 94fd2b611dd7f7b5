use super::Builder;
use crate::Error;
use crate::node::{Noise, Op};

pub(super) fn build(noise: Noise, builder: &mut Builder<'_>) -> Result<(), Error> {
    let wrong = match noise {
        Noise::Spatial { rate } | Noise::Factor { rate } | Noise::Masked { rate } | Noise::Alpha { rate }
            if !(0.0..1.0).contains(&rate) =>
        {
            Some(format!("`rate` must be 0 or more and less than 1, found {rate}"))
        }
        Noise::Added { deviation } if !(deviation >= 0.0 && deviation.is_finite()) => {
            Some(format!("`deviation` must be 0 or more, found {deviation}"))
        }
        _ => None,
    };
    match wrong {
        Some(message) => Err(builder.wrong(message)),
        None if builder.is_frozen() => Ok(()),
        None => {
            builder.push(Op::Noise(noise), builder.shape);
            Ok(())
        }
    }
}
