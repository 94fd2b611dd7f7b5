//! Weights to matrices at the points, and back.

use paceline_model::vectorize;

use super::transform::{SIDE, filter};

/// Floats that are worked on at a time, in the first-level cache.
const CHUNK: usize = 64;

/// Which way.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    /// U = G w Gᵀ
    ToPoints,
    /// dw = Gᵀ dU G
    ToTaps,
}

/// Transforms planes of `count` floats: one per tap on one side, one per point on the other.
pub(super) fn transform(way: Direction, taps: usize, count: usize, from: &[f32], to: &mut [f32]) {
    let (inner, outer) = if way == Direction::ToPoints { (taps, SIDE) } else { (SIDE, taps) };
    assert!(inner * inner * count <= from.len() && outer * outer * count <= to.len(), "a plane for each");
    vectorize(
        #[inline(always)]
        move || {
            let g = filter(taps);
            let factor = |out: usize, k: usize| if way == Direction::ToPoints { g[out][k] } else { g[k][out] };
            let mut half = [[0.0f32; CHUNK]; SIDE];
            for start in (0..count).step_by(CHUNK) {
                let len = CHUNK.min(count - start);
                for row in 0..outer {
                    for k in 0..inner {
                        let half = &mut half[k][..len];
                        half.fill(0.0);
                        for other in 0..inner {
                            let factor = factor(row, other);
                            let from = &from[(other * inner + k) * count + start..][..len];
                            half.iter_mut().zip(from).for_each(|(half, from)| *half += factor * from);
                        }
                    }
                    for column in 0..outer {
                        let to = &mut to[(row * outer + column) * count + start..][..len];
                        to.fill(0.0);
                        for (k, half) in half[..inner].iter().enumerate() {
                            let factor = factor(column, k);
                            to.iter_mut().zip(half).for_each(|(to, half)| *to += factor * half);
                        }
                    }
                }
            }
        },
    );
}
