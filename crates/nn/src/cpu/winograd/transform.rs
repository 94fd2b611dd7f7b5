//! The transforms of Winograd's minimal filtering with the points 0, 1, −1, 2, −2 and infinity, over vectors.
//!
//! With m + r − 1 = 6, m outputs of a filter of r taps over 6 inputs are y = Aᵀ [(G w) ⊙ (Bᵀ d)]: Aᵀ and G hold powers
//! of the points, Bᵀ interpolates (Lavin and Gray, 2015, for m = 4 and r = 3). Only A and G depend on m.

#![expect(unsafe_code, reason = "vectors may only be used where the machine has their instructions")]
#![expect(clippy::needless_range_loop, reason = "an index is also a power")]
// SAFETY of every block below: the caller checked the instructions of `V`.

use super::super::vector::Vector;

/// Inputs along one side of a tile, and products along it.
pub(super) const SIDE: usize = 6;

/// The points but infinity.
const FINITE: [f32; SIDE - 1] = [0.0, 1.0, -1.0, 2.0, -2.0];

#[inline(always)]
unsafe fn minus<V: Vector>(a: V, b: V) -> V {
    unsafe { a.add_product(b, V::splat(-1.0)) }
}

#[inline(always)]
unsafe fn times<V: Vector>(factor: f32, a: V) -> V {
    unsafe { V::splat(0.0).add_product(a, V::splat(factor)) }
}

#[inline(always)]
unsafe fn plus_times<V: Vector>(a: V, factor: f32, b: V) -> V {
    unsafe { a.add_product(b, V::splat(factor)) }
}

/// Bᵀ d: what the inputs are at the points.
#[inline(always)]
pub(super) unsafe fn input<V: Vector>(d: [V; SIDE]) -> [V; SIDE] {
    unsafe {
        let (even, odd) = (plus_times(d[4], -4.0, d[2]), plus_times(d[3], -4.0, d[1]));
        let (far_even, far_odd) = (minus(d[4], d[2]), minus(d[3], d[1]));
        [
            plus_times(plus_times(d[4], -5.0, d[2]), 4.0, d[0]),
            even.add(odd),
            minus(even, odd),
            plus_times(far_even, 2.0, far_odd),
            plus_times(far_even, -2.0, far_odd),
            plus_times(plus_times(d[5], -5.0, d[3]), 4.0, d[1]),
        ]
    }
}

/// B v: slopes by the inputs from slopes at the points.
#[inline(always)]
pub(super) unsafe fn input_slope<V: Vector>(v: [V; SIDE]) -> [V; SIDE] {
    unsafe {
        let (near, near_odd) = (v[1].add(v[2]), minus(v[1], v[2]));
        let (far, far_odd) = (v[3].add(v[4]), minus(v[3], v[4]));
        [
            times(4.0, v[0]),
            plus_times(times(4.0, minus(v[5], near_odd)), -2.0, far_odd),
            minus(plus_times(times(-5.0, v[0]), -4.0, near), far),
            plus_times(plus_times(near_odd, 2.0, far_odd), -5.0, v[5]),
            v[0].add(near).add(far),
            v[5],
        ]
    }
}

/// Aᵀ p: the outputs from the products at the points.
#[inline(always)]
pub(super) unsafe fn output<V: Vector, const M: usize>(p: [V; SIDE]) -> [V; M] {
    unsafe {
        let (near, near_odd) = (p[1].add(p[2]), minus(p[1], p[2]));
        let (far, far_odd) = (p[3].add(p[4]), minus(p[3], p[4]));
        let mut y = [p[0].add(near).add(far); M];
        for j in 1..M {
            let power = (1 << j) as f32;
            y[j] = if j % 2 == 0 { plus_times(near, power, far) } else { plus_times(near_odd, power, far_odd) };
        }
        y[M - 1] = y[M - 1].add(p[5]);
        y
    }
}

/// A dy: slopes at the points from slopes by the outputs.
#[inline(always)]
pub(super) unsafe fn output_slope<V: Vector, const M: usize>(dy: [V; M]) -> [V; SIDE] {
    unsafe {
        // Sums of even and of odd powers, at 1 and at 2; the odd ones at 2 are halved.
        let [mut near, mut near_odd, mut far, mut far_odd] = [dy[0], dy[1], dy[0], dy[1]];
        for j in 2..M {
            let power = (1 << (j - j % 2)) as f32;
            if j % 2 == 0 {
                (near, far) = (near.add(dy[j]), plus_times(far, power, dy[j]));
            } else {
                (near_odd, far_odd) = (near_odd.add(dy[j]), plus_times(far_odd, power, dy[j]));
            }
        }
        [
            dy[0],
            near.add(near_odd),
            minus(near, near_odd),
            plus_times(far, 2.0, far_odd),
            plus_times(far, -2.0, far_odd),
            dy[M - 1],
        ]
    }
}

/// A: the power of a point that an output has, with so many outputs.
pub(super) fn power(point: usize, output: usize, outputs: usize) -> f32 {
    match FINITE.get(point) {
        Some(point) => point.powi(output as i32),
        None => f32::from(u8::from(output + 1 == outputs)),
    }
}

/// G: a row per point, a column per tap.
pub(super) fn filter(taps: usize) -> [[f32; SIDE]; SIDE] {
    let scales = [0.25, -1.0 / 6.0, -1.0 / 6.0, 1.0 / 24.0, 1.0 / 24.0];
    let mut g = [[0.0; SIDE]; SIDE];
    for (row, (point, scale)) in g.iter_mut().zip(FINITE.into_iter().zip(scales)) {
        (0..taps).for_each(|tap| row[tap] = scale * point.powi(tap as i32));
    }
    g[SIDE - 1][taps - 1] = 1.0;
    g
}
