//! Values below each other, as more rows an example; and one of such values again.

use crate::Real;
use crate::pass::{Backward, Forward};

pub(super) fn forward<R: Real>(pass: &mut Forward<'_, R>) {
    let mut first = 0;
    for x in pass.operands.iter() {
        pass.y[first..first + x.len()].copy_from_slice(x);
        first += x.len();
    }
}

/// `copies` are the rows that each operand has for an example.
pub(super) fn backward<R: Real>(copies: &[usize], pass: &mut Backward<'_, R>) {
    let of_one = pass.dy.len() / copies.iter().sum::<usize>();
    let mut first = 0;
    for (at, copies) in copies.iter().enumerate() {
        let own = first..first + copies * of_one;
        first = own.end;
        let (dx, dy) = pass.slope(at);
        if !dx.is_empty() {
            dx.copy_from_slice(&dy[own]);
        }
    }
}

pub(super) fn forward_one<R: Real>(index: usize, pass: &mut Forward<'_, R>) {
    let len = pass.y.len();
    pass.y.copy_from_slice(&pass.x[index * len..][..len]);
}

pub(super) fn backward_one<R: Real>(index: usize, pass: &mut Backward<'_, R>) {
    if !pass.dx.is_empty() {
        let len = pass.dy.len();
        pass.dx.fill(R::ZERO);
        pass.dx[index * len..][..len].copy_from_slice(pass.dy);
    }
}
