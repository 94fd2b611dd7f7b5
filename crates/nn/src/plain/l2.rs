//! Lengths: a row divided by its own, and that of the difference of two rows.

use crate::Real;
use crate::pass::{Backward, Forward};

fn dot<R: Real>(a: &[R], b: &[R]) -> R {
    a.iter().zip(b).fold(R::ZERO, |sum, (a, b)| sum + *a * *b)
}

/// y = x / max(‖x‖, ε)
pub(super) fn normalise<R: Real>(width: usize, epsilon: f32, pass: &mut Forward<'_, R>) {
    for (x, y) in pass.x.chunks_exact(width).zip(pass.y.chunks_exact_mut(width)) {
        let length = dot(x, x).sqrt().max(R::of(f64::from(epsilon)));
        x.iter().zip(y).for_each(|(x, y)| *y = *x / length);
    }
}

/// dx = (dy − y (y · dy)) / ‖x‖, or dy / ε where the length is less than that.
pub(super) fn normalise_back<R: Real>(width: usize, epsilon: f32, pass: &mut Backward<'_, R>) {
    let epsilon = R::of(f64::from(epsilon));
    let rows = pass.x.chunks_exact(width).zip(pass.y.chunks_exact(width)).zip(pass.dy.chunks_exact(width));
    for (((x, y), dy), dx) in rows.zip(pass.dx.chunks_exact_mut(width)) {
        let length = dot(x, x).sqrt();
        if length < epsilon {
            dx.iter_mut().zip(dy).for_each(|(dx, dy)| *dx = *dy / epsilon);
            continue;
        }
        let along = dot(y, dy);
        y.iter().zip(dy).zip(dx).for_each(|((y, dy), dx)| *dx = (*dy - *y * along) / length);
    }
}

/// y = √(Σ (a − b)² + ε)
pub(super) fn distance<R: Real>(width: usize, epsilon: f32, pass: &mut Forward<'_, R>) {
    let (a, b) = (pass.operands.get(0).chunks_exact(width), pass.operands.get(1).chunks_exact(width));
    for ((a, b), y) in a.zip(b).zip(pass.y.iter_mut()) {
        let squares = a.iter().zip(b).fold(R::ZERO, |sum, (a, b)| sum + (*a - *b) * (*a - *b));
        *y = (squares + R::of(f64::from(epsilon))).sqrt();
    }
}

/// da = (a − b) dy / y = −db
pub(super) fn distance_back<R: Real>(width: usize, pass: &mut Backward<'_, R>) {
    for at in 0..2 {
        let (own, other, y) = (pass.kept.get(at), pass.kept.get(1 - at), pass.y);
        let (dx, dy) = pass.slope(at);
        for (row, dx) in dx.chunks_exact_mut(width).enumerate() {
            let scale = dy[row] / y[row];
            let both = own[row * width..].iter().zip(&other[row * width..]);
            dx.iter_mut().zip(both).for_each(|(dx, (own, other))| *dx = (*own - *other) * scale);
        }
    }
}
