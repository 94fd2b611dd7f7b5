use super::Builder;
use crate::Error;
use crate::config::LocalResponseNormalisation;
use crate::node::Op;

pub(super) fn build(config: &LocalResponseNormalisation, builder: &mut Builder<'_>) -> Result<(), Error> {
    let &LocalResponseNormalisation { k, n, alpha, beta, .. } = config;
    if n == 0 || k <= 0.0 || alpha < 0.0 {
        return Err(builder.wrong("expected `n` of at least 1, `k` above 0 and `alpha` of 0 or more".into()));
    }
    let [_, _, channels] = builder.image()?;
    builder.push(Op::Lrn { channels, k, n, alpha, beta }, builder.shape);
    Ok(())
}
