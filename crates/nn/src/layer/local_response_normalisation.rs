use super::Builder;
use crate::Error;
use crate::config::LocalResponseNormalisation;
use crate::node::Op;

pub(super) fn build(config: &LocalResponseNormalisation, builder: &mut Builder<'_>) -> Result<(), Error> {
    let &LocalResponseNormalisation { k, n, alpha, beta, .. } = config;
    let limits = 0.0..f32::INFINITY;
    if n == 0 || k == 0.0 || ![k, alpha, beta].iter().all(|number| limits.contains(number)) {
        let message = "expected `n` of at least 1, `k` above 0, `alpha` and `beta` of 0 or more";
        return Err(builder.wrong(format!("{message}, found {n}, {k}, {alpha} and {beta}")));
    }
    let [_, _, channels] = builder.image()?;
    builder.push(Op::Lrn { channels, k, n, alpha, beta }, builder.shape);
    Ok(())
}
