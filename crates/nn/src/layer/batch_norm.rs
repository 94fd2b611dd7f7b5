use super::Builder;
use crate::Error;
use crate::config::BatchNorm;
use crate::node::Op;

pub(super) fn build(config: &BatchNorm, builder: &mut Builder<'_>) -> Result<(), Error> {
    let &BatchNorm { epsilon, decay, learned, .. } = config;
    if !(epsilon > 0.0 && epsilon.is_finite() && (0.0..=1.0).contains(&decay)) {
        let message = format!("expected `epsilon` above 0 and `decay` from 0 to 1, found {epsilon} and {decay}");
        return Err(builder.wrong(message));
    }
    let (channels, positions) = (builder.shape.channels(), builder.shape.positions());
    let (gain, shift) = if learned {
        (builder.constant("gain", channels, 1.0), builder.constant("shift", channels, 0.0))
    } else {
        (0..0, 0..0)
    };
    let mean = builder.running("mean", channels, 0.0);
    let variance = builder.running("variance", channels, 1.0);
    let op = match builder.is_frozen() {
        true => Op::FixedNorm { channels, epsilon },
        false => Op::BatchNorm { channels, positions, epsilon, decay },
    };
    builder.push_with(op, builder.shape, gain, shift, mean.start..variance.end);
    builder.activate();
    Ok(())
}
