//! Several values of one shape, number by number.

use crate::Real;
use crate::config::ElementWiseOp;
use crate::pass::{Backward, Forward};

pub(super) fn forward<R: Real>(op: ElementWiseOp, pass: &mut Forward<'_, R>) {
    pass.y.copy_from_slice(pass.x);
    for x in pass.operands.iter().skip(1) {
        let both = pass.y.iter_mut().zip(x);
        match op {
            ElementWiseOp::Add | ElementWiseOp::Average => both.for_each(|(y, x)| *y += *x),
            ElementWiseOp::Subtract => both.for_each(|(y, x)| *y -= *x),
            ElementWiseOp::Product => both.for_each(|(y, x)| *y *= *x),
            // A number that is none comes through.
            ElementWiseOp::Max => both.for_each(|(y, x)| *y = if *x <= *y { *y } else { *x }),
        }
    }
    if op == ElementWiseOp::Average {
        let share = R::ONE / R::of(pass.operands.len() as f64);
        pass.y.iter_mut().for_each(|y| *y *= share);
    }
}

pub(super) fn backward<R: Real>(op: ElementWiseOp, pass: &mut Backward<'_, R>) {
    let operands = pass.kept.len() - 1;
    for at in 0..operands {
        let (x, y) = (pass.kept.get(at), pass.y);
        let others: Vec<&[R]> = (0..operands).filter(|other| *other != at).map(|other| pass.kept.get(other)).collect();
        let (dx, dy) = pass.slope(at);
        let both = dx.iter_mut().zip(dy);
        match op {
            ElementWiseOp::Add => both.for_each(|(dx, dy)| *dx = *dy),
            ElementWiseOp::Subtract if at == 0 => both.for_each(|(dx, dy)| *dx = *dy),
            ElementWiseOp::Subtract => both.for_each(|(dx, dy)| *dx = -*dy),
            ElementWiseOp::Average => {
                let share = R::ONE / R::of(operands as f64);
                both.for_each(|(dx, dy)| *dx = *dy * share);
            }
            ElementWiseOp::Product => {
                for (i, (dx, dy)) in both.enumerate() {
                    *dx = others.iter().fold(*dy, |product, other| product * other[i]);
                }
            }
            // The first of those that are equal takes it all.
            ElementWiseOp::Max => {
                for (i, (dx, dy)) in both.enumerate() {
                    let is_first = !others[..at].iter().any(|other| other[i] == y[i]);
                    *dx = if x[i] == y[i] && is_first { *dy } else { R::ZERO };
                }
            }
        }
    }
}
