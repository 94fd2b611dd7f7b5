use super::Builder;
use crate::Error;
use crate::config::{Pool, Subsampling};
use crate::node::Op;

pub(super) fn build(config: &Subsampling, builder: &mut Builder<'_>) -> Result<(), Error> {
    let stride = config.stride.unwrap_or(config.kernel);
    let window = builder.window(config.kernel, stride, config.dilation, config.padding, config.strict)?;
    check(config.pool, builder)?;
    // Which cell won a maximum is kept in 16 bits.
    if config.kernel[0].saturating_mul(config.kernel[1]) > usize::from(u16::MAX) {
        return Err(builder.wrong(format!("its window may have at most {} cells", u16::MAX)));
    }
    // Padding that a window lies in entirely has no largest number.
    if (0..2).any(|d| window.before[d] >= window.kernel[d] || window.after[d] >= window.kernel[d]) {
        return Err(builder.wrong("`padding` must be smaller than `kernel`".into()));
    }
    builder.push(Op::Pool { window, pool: config.pool }, window.output(window.channels));
    Ok(())
}

pub(super) fn check(pool: Pool, builder: &Builder<'_>) -> Result<(), Error> {
    match pool {
        Pool::Pnorm { p } if !(p >= 1.0 && p.is_finite()) => {
            Err(builder.wrong(format!("`p` of a p-norm must be at least 1, found {p}")))
        }
        _ => Ok(()),
    }
}
