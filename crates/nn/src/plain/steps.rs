//! Which steps of a sequence are there, and what is done with all of them. A mask has a 1 for every step that is there and a 0 for every
//! other; what has no mask is there as a whole.

use crate::Real;
use crate::pass::{Backward, Forward};

use super::recurrent::is_there;

/// The last operand, if it is a mask: behind so many that are none.
fn mask<'a, R>(operands: &'a paceline_model::Parts<'_, R>, values: usize) -> Option<&'a [R]> {
    (operands.len() > values).then(|| operands.get(values))
}

/// 1 where the first number of a step is one.
pub(super) fn present<R: Real>(width: usize, pass: &mut Forward<'_, R>) {
    for (x, y) in pass.x.chunks_exact(width).zip(pass.y.iter_mut()) {
        *y = if x[0].is_nan() { R::ZERO } else { R::ONE };
    }
}

/// 0 where a step is not there: its first number is none.
pub(super) fn fill<R: Real>(width: usize, pass: &mut Forward<'_, R>) {
    for (x, y) in pass.x.chunks_exact(width).zip(pass.y.chunks_exact_mut(width)) {
        if x[0].is_nan() { y.fill(R::ZERO) } else { y.copy_from_slice(x) }
    }
}

/// 1 where a step is there and its numbers are not all this one.
pub(super) fn differs<R: Real>(width: usize, value: f32, pass: &mut Forward<'_, R>) {
    let (value, mask) = (R::of(f64::from(value)), mask(&pass.operands, 1));
    for (at, (x, y)) in pass.x.chunks_exact(width).zip(pass.y.iter_mut()).enumerate() {
        let is_one = is_there(mask, at) && x.iter().any(|x| *x != value);
        *y = if is_one { R::ONE } else { R::ZERO };
    }
}

/// A number instead of those of a step that is not there.
pub(super) fn hide<R: Real>(width: usize, instead: f32, pass: &mut Forward<'_, R>) {
    let (mask, instead) = (pass.operands.get(1), R::of(f64::from(instead)));
    for ((x, y), is_there) in pass.x.chunks_exact(width).zip(pass.y.chunks_exact_mut(width)).zip(mask) {
        if *is_there == R::ZERO { y.fill(instead) } else { y.copy_from_slice(x) }
    }
}

pub(super) fn hide_back<R: Real>(width: usize, pass: &mut Backward<'_, R>) {
    let mask = pass.kept.get(1);
    for ((dx, dy), is_there) in pass.dx.chunks_exact_mut(width).zip(pass.dy.chunks_exact(width)).zip(mask) {
        if *is_there == R::ZERO { dx.fill(R::ZERO) } else { dx.copy_from_slice(dy) }
    }
}

/// By example: the last step that is there; none if no step is.
fn last_of<R: Real>(mask: Option<&[R]>, row: usize, steps: usize) -> Option<usize> {
    (0..steps).rev().find(|step| is_there(mask, row * steps + step))
}

pub(super) fn last<R: Real>(steps: usize, pass: &mut Forward<'_, R>) {
    let width = pass.x.len() / pass.examples / steps;
    let mask = mask(&pass.operands, 1);
    for (row, y) in pass.y.chunks_exact_mut(width).enumerate() {
        match last_of(mask, row, steps) {
            Some(step) => y.copy_from_slice(&pass.x[(row * steps + step) * width..][..width]),
            None => y.fill(R::ZERO),
        }
    }
}

pub(super) fn last_back<R: Real>(steps: usize, pass: &mut Backward<'_, R>) {
    if pass.dx.is_empty() {
        return;
    }
    let width = pass.dx.len() / pass.examples / steps;
    let mask = mask(&pass.kept, 1).filter(|_| pass.kept.len() > 2);
    pass.dx.fill(R::ZERO);
    for (row, dy) in pass.dy.chunks_exact(width).enumerate() {
        if let Some(step) = last_of(mask, row, steps) {
            pass.dx[(row * steps + step) * width..][..width].copy_from_slice(dy);
        }
    }
}

pub(super) fn repeat<R: Real>(steps: usize, pass: &mut Forward<'_, R>) {
    let width = pass.y.len() / pass.examples / steps;
    for (x, y) in pass.x.chunks_exact(width).zip(pass.y.chunks_exact_mut(width * steps)) {
        y.chunks_exact_mut(width).for_each(|y| y.copy_from_slice(x));
    }
}

pub(super) fn repeat_back<R: Real>(steps: usize, pass: &mut Backward<'_, R>) {
    let width = pass.dy.len() / pass.examples / steps;
    for (dx, dy) in pass.dx.chunks_exact_mut(width).zip(pass.dy.chunks_exact(width * steps)) {
        dx.fill(R::ZERO);
        dy.chunks_exact(width).for_each(|dy| dx.iter_mut().zip(dy).for_each(|(dx, dy)| *dx += *dy));
    }
}

/// From the last step that is there to the first; those behind stay where they are. It is its own way back.
fn turn_around<R: Real>(steps: usize, rows: usize, mask: Option<&[R]>, from: &[R], to: &mut [R]) {
    let width = from.len() / rows / steps;
    for row in 0..rows {
        let end = last_of(mask, row, steps).map_or(0, |last| last + 1);
        for step in 0..steps {
            let other = if step < end { end - 1 - step } else { step };
            let (from, to) =
                (&from[(row * steps + other) * width..][..width], &mut to[(row * steps + step) * width..][..width]);
            to.copy_from_slice(from);
        }
    }
}

pub(super) fn reverse<R: Real>(steps: usize, pass: &mut Forward<'_, R>) {
    turn_around(steps, pass.examples, mask(&pass.operands, 1), pass.x, pass.y);
}

pub(super) fn reverse_back<R: Real>(steps: usize, pass: &mut Backward<'_, R>) {
    if !pass.dx.is_empty() {
        let mask = mask(&pass.kept, 1).filter(|_| pass.kept.len() > 2);
        turn_around(steps, pass.examples, mask, pass.dy, pass.dx);
    }
}
