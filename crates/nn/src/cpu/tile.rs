//! A tile: `ROWS` rows by `VECTORS` vectors of accumulators that stay in registers while k runs.
//!
//! C[i, j] ← Σ over runs r and steps k of A[row i + run r + k · step] · B[run r + k · step + j]
//!
//! What is a row, a run and a step is up to the caller, so that one tile serves dense products, convolutions over
//! images where they lie (nothing is unrolled into columns) and both of their gradients.

#![expect(unsafe_code, reason = "the innermost loop works on raw pointers; `Sum` says what they must reach")]
#![expect(clippy::needless_range_loop, reason = "rows and vectors of a tile are indices of several arrays at once")]

use super::vector::Vector;

/// The sum that every element of a tile is.
#[derive(Clone, Copy)]
pub(super) struct Sum<'a> {
    /// Where each run starts in A and in B, in floats.
    pub runs: &'a [(usize, usize)],
    /// Steps of one run.
    pub steps: usize,
    /// Floats between two steps in A.
    pub a_step: usize,
    /// Floats between two steps in B.
    pub b_step: usize,
    /// With [`rows::LISTED`]: which step of B each packed step of A belongs to, instead of `steps`.
    pub listed: &'a [u16],
}

/// What is done with a finished tile, and for the next ones.
#[derive(Clone, Copy)]
pub(super) struct Finish {
    /// With a packed strip: what comes to the second-level cache meanwhile, a line of each every [`UNROLLED`] steps.
    pub ahead: [*const f32; 2],
    /// Whether it comes twice as fast.
    pub hurry: bool,
    /// Whether it is taken from other cores, to be written.
    pub from_others: bool,
    /// Whether it is added to what is there.
    pub add: bool,
    /// Starting values of a row, if any; null for zero. As many as the tile has columns, or more.
    pub bias: *const f32,
    /// Whether what is below 0 becomes 0.
    pub relu: bool,
}

/// Steps that share the counting of the loop.
pub(super) const UNROLLED: usize = 4;

/// Floats of a line of the cache.
pub(super) const LINE: usize = 16;

/// How the rows of A lie, so that the loop needs as few instructions as it can besides the products.
pub(super) mod rows {
    /// Anywhere, any step.
    pub(in super::super) const ANYWHERE: u8 = 0;
    /// Anywhere, one float from step to step: several steps share one change of the index.
    pub(in super::super) const UNIT_STEP: u8 = 1;
    /// One float from row to row: all rows share one pointer.
    pub(in super::super) const ADJACENT: u8 = 2;
    /// A packed strip: one float from row to row, and the next step right behind the last row.
    pub(in super::super) const STRIP: u8 = 3;
    /// A packed strip of which only some steps are there, as a list says.
    pub(in super::super) const LISTED: u8 = 4;
}

/// Computes one tile.
///
/// `a` and `c` hold where each row starts; of the `live` first rows results are written, the others are copies that
/// keep the loop regular. `columns` counts what is written of each row. With `PACKED`, rows of B are as far apart as
/// the tile is wide and may be read whole; without, the last vector is read no further than the last column.
///
/// # Safety
///
/// The machine has the instructions of `V`; the pointers reach everything that `sum` and `columns` describe; `a` lies
/// as `A` says.
#[inline(always)]
pub(super) unsafe fn tile<V: Vector, const ROWS: usize, const VECTORS: usize, const PACKED: bool, const A: u8>(
    a: &[*const f32; ROWS],
    b: *const f32,
    c: &[*mut f32; ROWS],
    sum: Sum<'_>,
    live: usize,
    columns: usize,
    finish: Finish,
) {
    // SAFETY: the caller's contract covers all reads and writes below.
    unsafe {
        let last = columns - (VECTORS - 1) * V::LANES;
        let b_step = if PACKED { VECTORS * V::LANES } else { sum.b_step };
        let mut total = [[V::splat(0.0); VECTORS]; ROWS];
        let mut ahead = finish.ahead;
        // What is written may be far away, as the gradient of weights is; it can come while the products are computed.
        if A == rows::ADJACENT || A == rows::STRIP || A == rows::LISTED {
            for row in c {
                (0..VECTORS).for_each(|j| V::prefetch(row.add(j * V::LANES)));
            }
        }
        if A == rows::LISTED {
            let (groups, rest) = sum.listed.as_chunks::<UNROLLED>();
            let mut at = 0;
            for group in groups {
                // Strips that are cut by half fetch as much as whole ones.
                fetch::<V>(&mut ahead, &finish);
                fetch::<V>(&mut ahead, &finish);
                for &k in group {
                    let b = b.add(usize::from(k) * b_step);
                    step::<V, ROWS, VECTORS, PACKED, A>(a, at, b, last, &mut total);
                    at += ROWS;
                }
            }
            for &k in rest {
                let b = b.add(usize::from(k) * b_step);
                step::<V, ROWS, VECTORS, PACKED, A>(a, at, b, last, &mut total);
                at += ROWS;
            }
        }
        for &(a_run, b_run) in if A == rows::LISTED { &[] } else { sum.runs } {
            let mut at = a_run;
            let mut b = b.add(b_run);
            let mut left = sum.steps;
            let a_step = match A {
                rows::UNIT_STEP => 1,
                rows::STRIP => ROWS,
                _ => sum.a_step,
            };
            if A == rows::UNIT_STEP || A == rows::STRIP {
                while left >= UNROLLED {
                    if A == rows::STRIP {
                        fetch::<V>(&mut ahead, &finish);
                    }
                    for k in 0..UNROLLED {
                        step::<V, ROWS, VECTORS, PACKED, A>(a, at + k * a_step, b.add(k * b_step), last, &mut total);
                    }
                    at += UNROLLED * a_step;
                    b = b.add(UNROLLED * b_step);
                    left -= UNROLLED;
                }
            }
            for _ in 0..left {
                step::<V, ROWS, VECTORS, PACKED, A>(a, at, b, last, &mut total);
                at += a_step;
                b = b.add(b_step);
            }
        }
        for i in 0..ROWS {
            if i >= live {
                break;
            }
            for j in 0..VECTORS {
                let count = if j == VECTORS - 1 { last } else { V::LANES };
                let to = c[i].add(j * V::LANES);
                let mut value = total[i][j];
                if !finish.bias.is_null() {
                    value = value.add(V::load_part(finish.bias.add(j * V::LANES), count));
                }
                if finish.add {
                    value = value.add(V::load_part(to, count));
                }
                if finish.relu {
                    value = V::splat(0.0).max(value);
                }
                if count == V::LANES { value.store(to) } else { value.store_part(to, count) }
            }
        }
    }
}

/// Asks for the next line of each, or for two.
#[inline(always)]
unsafe fn fetch<V: Vector>(ahead: &mut [*const f32; 2], finish: &Finish) {
    for next in ahead {
        for _ in 0..1 + usize::from(finish.hurry) {
            // SAFETY: the caller has the instructions of `V`; what is asked for need not be there.
            unsafe { if finish.from_others { V::prefetch_to_write(*next) } else { V::prefetch_far(*next) } }
            *next = next.wrapping_add(LINE);
        }
    }
}

/// One step of the sum: a row of B, times one float of every row of A.
#[inline(always)]
unsafe fn step<V: Vector, const ROWS: usize, const VECTORS: usize, const PACKED: bool, const A: u8>(
    a: &[*const f32; ROWS],
    at: usize,
    b: *const f32,
    last: usize,
    total: &mut [[V; VECTORS]; ROWS],
) {
    // SAFETY: the contract of `tile` covers all reads below.
    unsafe {
        let mut row_of_b = [V::splat(0.0); VECTORS];
        for j in 0..VECTORS {
            let from = b.add(j * V::LANES);
            row_of_b[j] = if !PACKED && j == VECTORS - 1 { V::load_part(from, last) } else { V::load(from) };
        }
        for i in 0..ROWS {
            let together = A == rows::ADJACENT || A == rows::STRIP || A == rows::LISTED;
            let value = V::splat(if together { *a[0].add(at + i) } else { *a[i].add(at) });
            for j in 0..VECTORS {
                total[i][j] = total[i][j].add_product(value, row_of_b[j]);
            }
        }
    }
}
