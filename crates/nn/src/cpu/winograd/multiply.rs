//! The products at the points: one small matrix product per plane.

#![expect(unsafe_code, reason = "raw vectors in planes; the public functions check their lengths")]
#![expect(clippy::needless_range_loop, reason = "rows and vectors of a tile are indices of several arrays at once")]

use super::super::dispatch::{Instructions, Work};
use super::super::vector::{Registers, Vector};
use super::tiles::PANEL;
use super::transform::{self, SIDE};

/// Planes to planes through matrices: C[row, tile] ← Σ over steps of A[step, row] · B[step, tile], for a row of points.
pub(super) struct Multiply<'a> {
    pub rows: usize,
    pub steps: usize,
    pub tiles: usize,
    /// A matrix per point with a row per step, and some floats that are read behind the last one: [`SPARE`].
    pub a: &'a [f32],
    pub b: &'a [f32],
    /// Vectors between two planes of B.
    pub b_plane: usize,
    pub c: &'a mut [f32],
    /// Vectors between two planes of C.
    pub c_plane: usize,
    pub then: Then,
}

/// What is done with the products of a row of points.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Then {
    /// They are written.
    Write,
    /// They are summed along to so many outputs, M A, which are written.
    Sum(usize),
}

/// Rows of the tallest tile.
const TALLEST: usize = 12;

/// Floats behind the last matrix: tiles read rows behind the last one.
pub(super) const SPARE: usize = 16;

impl Multiply<'_> {
    pub(super) fn run(self, instructions: Instructions) {
        let lanes = instructions.lanes();
        assert!(SIDE * self.rows * self.steps + SPARE <= self.a.len(), "A has floats to spare");
        let planes = |count: usize, plane: usize, rows: usize| ((count - 1) * plane + self.tiles * rows) * lanes;
        assert!(planes(SIDE, self.b_plane, self.steps) <= self.b.len(), "B has a plane for every point");
        let results = if let Then::Sum(outputs) = self.then { outputs } else { SIDE };
        assert!(planes(results, self.c_plane, self.rows) <= self.c.len(), "C has a plane for every result");
        instructions.run(self);
    }
}

impl Work for Multiply<'_> {
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let tallest = match V::REGISTERS {
            #[cfg(target_arch = "x86_64")]
            Registers::ThirtyTwo => TALLEST,
            #[cfg(target_arch = "x86_64")]
            Registers::Sixteen => 6,
            Registers::Few => 3,
        };
        let Self { rows, steps, tiles, b_plane, c_plane, .. } = self;
        // As even as can be: rows behind the last one are computed and thrown away.
        let height = rows.div_ceil(rows.div_ceil(tallest));
        let (a, b, c) = (self.a.as_ptr(), self.b.as_ptr(), self.c.as_mut_ptr());
        // SAFETY: the caller checked the instructions of `V`, `Multiply::run` held the lengths; panels of tiles lie one
        // behind the other.
        unsafe {
            let mut products = [V::splat(0.0); SIDE * TALLEST * PANEL];
            for first in (0..rows).step_by(height) {
                let live = height.min(rows - first);
                for tile in (0..tiles).step_by(PANEL) {
                    let panel = PANEL.min(tiles - tile);
                    let (c, plane) = (c.add((tile * rows + first * panel) * V::LANES), c_plane * V::LANES);
                    for point in 0..SIDE {
                        let product = Product {
                            a: a.add(point * steps * rows + first),
                            a_step: rows,
                            b: b.add((point * b_plane + tile * steps) * V::LANES),
                            steps,
                            c: match self.then {
                                Then::Write => c.add(point * plane),
                                Then::Sum(_) => products.as_mut_ptr().add(point * TALLEST * PANEL).cast(),
                            },
                            live,
                        };
                        product.run::<V>(height, panel);
                    }
                    match self.then {
                        Then::Sum(2) => sum::<V, 2>(&products, live * panel, c, plane),
                        Then::Sum(3) => sum::<V, 3>(&products, live * panel, c, plane),
                        Then::Sum(4) => sum::<V, 4>(&products, live * panel, c, plane),
                        _ => {}
                    }
                }
            }
        }
    }
}

/// Outputs along a row of points from its products.
#[inline(always)]
unsafe fn sum<V: Vector, const M: usize>(
    products: &[V; SIDE * TALLEST * PANEL],
    count: usize,
    to: *mut f32,
    plane: usize,
) {
    for at in 0..count.min(TALLEST * PANEL) {
        // SAFETY: the caller's pointer has `count` vectors in each plane.
        unsafe {
            let mut row = [products[at]; SIDE];
            for j in 1..SIDE {
                row[j] = products[j * TALLEST * PANEL + at];
            }
            let row = transform::output::<V, M>(row);
            for j in 0..M {
                row[j].store(to.add(j * plane + at * V::LANES));
            }
        }
    }
}

/// One tile of accumulators that stay in registers.
struct Product {
    a: *const f32,
    a_step: usize,
    b: *const f32,
    steps: usize,
    c: *mut f32,
    live: usize,
}

impl Product {
    #[inline(always)]
    unsafe fn run<V: Vector>(self, height: usize, panel: usize) {
        // SAFETY: the caller's pointers reach all rows, steps and vectors.
        unsafe {
            match (V::REGISTERS, height) {
                (_, 1) => self.wide::<V, 1>(panel),
                (_, 2) => self.wide::<V, 2>(panel),
                (_, 3) => self.wide::<V, 3>(panel),
                #[cfg(target_arch = "x86_64")]
                (Registers::ThirtyTwo | Registers::Sixteen, 4) => self.wide::<V, 4>(panel),
                #[cfg(target_arch = "x86_64")]
                (Registers::ThirtyTwo | Registers::Sixteen, 5) => self.wide::<V, 5>(panel),
                #[cfg(target_arch = "x86_64")]
                (Registers::ThirtyTwo | Registers::Sixteen, 6) => self.wide::<V, 6>(panel),
                #[cfg(target_arch = "x86_64")]
                (Registers::ThirtyTwo, 7) => self.wide::<V, 7>(panel),
                #[cfg(target_arch = "x86_64")]
                (Registers::ThirtyTwo, 8) => self.wide::<V, 8>(panel),
                #[cfg(target_arch = "x86_64")]
                (Registers::ThirtyTwo, 9) => self.wide::<V, 9>(panel),
                #[cfg(target_arch = "x86_64")]
                (Registers::ThirtyTwo, 10) => self.wide::<V, 10>(panel),
                #[cfg(target_arch = "x86_64")]
                (Registers::ThirtyTwo, 11) => self.wide::<V, 11>(panel),
                #[cfg(target_arch = "x86_64")]
                (Registers::ThirtyTwo, 12) => self.wide::<V, 12>(panel),
                _ => unreachable!("no tile has {height} rows"),
            }
        }
    }

    #[inline(always)]
    unsafe fn wide<V: Vector, const ROWS: usize>(self, panel: usize) {
        // SAFETY: as above.
        unsafe { if panel == PANEL { self.tile::<V, ROWS, PANEL>() } else { self.tile::<V, ROWS, 1>() } }
    }

    #[inline(always)]
    unsafe fn tile<V: Vector, const ROWS: usize, const VECTORS: usize>(self) {
        let Self { mut a, a_step, mut b, steps, c, live } = self;
        // SAFETY: as above.
        unsafe {
            let mut total = [[V::splat(0.0); VECTORS]; ROWS];
            for _ in 0..steps {
                let mut row = [V::splat(0.0); VECTORS];
                for j in 0..VECTORS {
                    row[j] = V::load(b.add(j * V::LANES));
                }
                for i in 0..ROWS {
                    let value = V::splat(*a.add(i));
                    for j in 0..VECTORS {
                        total[i][j] = total[i][j].add_product(value, row[j]);
                    }
                }
                a = a.add(a_step);
                b = b.add(VECTORS * V::LANES);
            }
            for i in 0..ROWS {
                if i >= live {
                    break;
                }
                for j in 0..VECTORS {
                    total[i][j].store(c.add((i * VECTORS + j) * V::LANES));
                }
            }
        }
    }
}

/// Matrices from planes: D[a, b] += Σ over tiles and images of A[a, tile] · B[b, tile], for a row of points.
///
/// Images lie in the lanes, so a sum is made of whole vectors, and the lanes are added in the end. Sums lie in blocks
/// of as many as there are lanes.
pub(super) struct Correlate<'a> {
    pub tiles: usize,
    /// Rows of A and of B.
    pub rows: [usize; 2],
    pub a: &'a [f32],
    pub b: &'a [f32],
    /// Vectors between two planes of A and of B.
    pub planes: [usize; 2],
    pub sums: &'a mut [f32],
}

/// Rows of A that a block of sums has.
const BLOCK_ROWS: usize = 4;

/// Where the blocks of sums lie.
#[derive(Clone, Copy)]
pub(super) struct Blocks {
    rows: [usize; 2],
    lanes: usize,
}

impl Blocks {
    pub(super) fn new(instructions: Instructions, rows: [usize; 2]) -> Self {
        Self { rows, lanes: instructions.lanes() }
    }

    /// Floats of the sums of one point.
    pub(super) fn point(self) -> usize {
        let blocks = [self.rows[0].div_ceil(BLOCK_ROWS), self.rows[1].div_ceil(self.lanes / BLOCK_ROWS)];
        blocks[0] * blocks[1] * self.lanes
    }

    /// Copies the sums of a row of A with all rows of B out of their blocks.
    pub(super) fn copy_row(self, row: usize, sums: &[f32], to: &mut [f32]) {
        let wide = self.lanes / BLOCK_ROWS;
        let column = self.rows[0].div_ceil(BLOCK_ROWS) * self.lanes;
        let first = row / BLOCK_ROWS * self.lanes + row % BLOCK_ROWS * wide;
        for (to, from) in to.chunks_mut(wide).zip(sums[first..].chunks(column)) {
            to.copy_from_slice(&from[..to.len()]);
        }
    }
}

impl Correlate<'_> {
    pub(super) fn run(self, instructions: Instructions) {
        let lanes = instructions.lanes();
        for (rows, (plane, from)) in self.rows.into_iter().zip(self.planes.into_iter().zip([self.a, self.b])) {
            assert!(self.tiles * rows <= plane && SIDE * plane * lanes <= from.len(), "a plane for every point");
        }
        assert!(SIDE * Blocks::new(instructions, self.rows).point() <= self.sums.len(), "room for all sums");
        instructions.run(self);
    }

    #[inline(always)]
    unsafe fn blocks<V: Vector, const WIDE: usize>(self) {
        let [a_rows, b_rows] = self.rows;
        let mut sums = self.sums.as_mut_ptr();
        for point in 0..SIDE {
            for first_b in (0..b_rows).step_by(WIDE) {
                for first_a in (0..a_rows).step_by(BLOCK_ROWS) {
                    // SAFETY: `Correlate::run` held the lengths; rows behind the last one are copies of it.
                    unsafe {
                        let a = self.a.as_ptr().add(point * self.planes[0] * V::LANES);
                        let b = self.b.as_ptr().add(point * self.planes[1] * V::LANES);
                        let mut a: [*const f32; BLOCK_ROWS] =
                            std::array::from_fn(|i| a.add((first_a + i).min(a_rows - 1) * PANEL * V::LANES));
                        let mut b: [*const f32; WIDE] =
                            std::array::from_fn(|j| b.add((first_b + j).min(b_rows - 1) * PANEL * V::LANES));
                        let mut total = [[V::splat(0.0); WIDE]; BLOCK_ROWS];
                        for _ in 0..self.tiles / PANEL {
                            for vector in 0..PANEL {
                                add_products(&a, &b, vector * V::LANES, &mut total);
                            }
                            a = a.map(|a| a.add(a_rows * PANEL * V::LANES));
                            b = b.map(|b| b.add(b_rows * PANEL * V::LANES));
                        }
                        if self.tiles % PANEL == 1 {
                            // The rows of the last panel are one vector long.
                            let back = |first: usize, row: usize, rows: usize| (first + row).min(rows - 1) * V::LANES;
                            let a = std::array::from_fn(|i| a[i].sub(back(first_a, i, a_rows)));
                            let b = std::array::from_fn(|j| b[j].sub(back(first_b, j, b_rows)));
                            add_products(&a, &b, 0, &mut total);
                        }
                        V::load(sums).add(V::sums(total.as_flattened())).store(sums);
                        sums = sums.add(V::LANES);
                    }
                }
            }
        }
    }
}

#[inline(always)]
unsafe fn add_products<V: Vector, const HIGH: usize, const WIDE: usize>(
    a: &[*const f32; HIGH],
    b: &[*const f32; WIDE],
    at: usize,
    total: &mut [[V; WIDE]; HIGH],
) {
    // SAFETY: the caller's pointers have a vector there.
    unsafe {
        let mut row = [V::splat(0.0); WIDE];
        for j in 0..WIDE {
            row[j] = V::load(b[j].add(at));
        }
        for i in 0..HIGH {
            let value = V::load(a[i].add(at));
            for j in 0..WIDE {
                total[i][j] = total[i][j].add_product(value, row[j]);
            }
        }
    }
}

impl Work for Correlate<'_> {
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        // SAFETY: the caller checked the instructions of `V`.
        unsafe {
            match V::LANES / BLOCK_ROWS {
                4 => self.blocks::<V, 4>(),
                2 => self.blocks::<V, 2>(),
                _ => unreachable!("vectors have 8 or 16 lanes"),
            }
        }
    }
}
