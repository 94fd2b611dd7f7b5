//! A layer of another crate: it adds to gradients that start at zero.

use crate::Real;
use crate::custom::{self, CustomLayer};
use crate::pass::Backward;

pub(super) fn backward<R: Real>(layer: &dyn CustomLayer, pass: &mut Backward<'_, R>) {
    pass.dweights.fill(R::ZERO);
    R::custom_backward(
        layer,
        custom::Backward {
            examples: pass.examples,
            parameters: pass.weights,
            x: pass.x,
            y: pass.y,
            dy: pass.dy,
            gradients: pass.dweights,
            dx: pass.dx,
        },
    );
}
