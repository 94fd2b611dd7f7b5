//! Sums and scales per channel over long runs of pixels.
//!
//! Channel counts are odd and small, vectors are 16 wide. So per-channel numbers are repeated until a whole number of
//! vectors holds whole pixels: a *period*. Loops then run over periods without caring where a pixel ends.

/// Pixels in a period.
const PIXELS: usize = 16;

/// Floats of a period.
pub(super) fn period(channels: usize) -> usize {
    channels * PIXELS
}

/// Repeats one number per channel over a period.
#[inline(always)]
pub(super) fn repeat(values: impl Fn(usize) -> f32, channels: usize, to: &mut [f32]) {
    for to in to[..period(channels)].chunks_exact_mut(channels) {
        to.iter_mut().enumerate().for_each(|(c, to)| *to = values(c));
    }
}

/// Adds up the sums of a period, channel by channel.
#[inline(always)]
pub(super) fn fold(sums: &[f32], channels: usize, to: &mut [f32]) {
    to[..channels].fill(0.0);
    for sums in sums[..period(channels)].chunks_exact(channels) {
        to.iter_mut().zip(sums).for_each(|(to, sum)| *to += sum);
    }
}
