//! Pooling over windows, channel by channel. Padding never wins a maximum and never counts in a mean.

use crate::Real;
use crate::config::Pool;
use crate::pass::{Backward, Forward, Needs};
use crate::window::Windowed;

pub(super) fn needs(pool: Pool, outputs: usize) -> Needs {
    match pool {
        Pool::Max => Needs { marks: outputs, ..Needs::default() },
        Pool::Average | Pool::Sum => Needs::default(),
        Pool::Pnorm { .. } => Needs { keeps_x: true, keeps_y: true, ..Needs::default() },
    }
}

/// Calls `f(output, input, cell)` for every cell of every window that lies in the image.
fn each_cell(window: &impl Windowed, mut f: impl FnMut(usize, usize, usize)) {
    let channels = window.channels();
    window.each_cell(|position, pixel, cell| {
        (0..channels).for_each(|c| f(position * channels + c, pixel * channels + c, cell));
    });
}

pub(super) fn forward<R: Real>(window: &impl Windowed, pool: Pool, pass: &mut Forward<'_, R>) {
    let outputs = window.positions() * window.channels();
    let images = pass.x.chunks_exact(window.input_len()).zip(pass.y.chunks_exact_mut(outputs));
    for (image, (x, y)) in images.enumerate() {
        y.fill(if pool == Pool::Max { R::of(f64::NEG_INFINITY) } else { R::ZERO });
        match pool {
            Pool::Max => {
                // A forward pass that is not for training keeps no marks.
                let marks = &mut pass.marks[..];
                marks.iter_mut().skip(image * outputs).take(outputs).for_each(|mark| *mark = 0);
                each_cell(window, |o, i, cell| {
                    // A NaN must come through, or a broken run would look healthy.
                    if x[i] > y[o] || x[i].is_nan() {
                        y[o] = x[i];
                        if let Some(mark) = marks.get_mut(image * outputs + o) {
                            *mark = cell as u16;
                        }
                    }
                });
            }
            Pool::Sum | Pool::Average => each_cell(window, |o, i, _| y[o] += x[i]),
            Pool::Pnorm { p } => each_cell(window, |o, i, _| y[o] += x[i].abs().powf(R::of(f64::from(p)))),
        }
        match pool {
            Pool::Average => {
                for (position, y) in y.chunks_exact_mut(window.channels()).enumerate() {
                    let scale = R::ONE / R::of(window.cells_inside(position).max(1) as f64);
                    y.iter_mut().for_each(|y| *y *= scale);
                }
            }
            Pool::Pnorm { p } => y.iter_mut().for_each(|y| *y = y.powf(R::of(1.0 / f64::from(p)))),
            // A window whose cells all lie outside of the image has nothing to choose from.
            Pool::Max => {
                for (position, y) in y.chunks_exact_mut(window.channels()).enumerate() {
                    if y.first().is_some_and(|first| *first == R::of(f64::NEG_INFINITY))
                        && window.cells_inside(position) == 0
                    {
                        y.fill(R::ZERO);
                    }
                }
            }
            Pool::Sum => {}
        }
    }
}

pub(super) fn backward<R: Real>(window: &impl Windowed, pool: Pool, pass: &mut Backward<'_, R>) {
    if pass.dx.is_empty() {
        return;
    }
    let (inputs, outputs) = (window.input_len(), window.positions() * window.channels());
    pass.dx.fill(R::ZERO);
    for image in 0..pass.examples {
        let dx = &mut pass.dx[image * inputs..][..inputs];
        let dy = &pass.dy[image * outputs..][..outputs];
        match pool {
            Pool::Max => {
                let marks = &pass.marks[image * outputs..][..outputs];
                each_cell(window, |o, i, cell| {
                    if usize::from(marks[o]) == cell {
                        dx[i] += dy[o];
                    }
                });
            }
            Pool::Sum => each_cell(window, |o, i, _| dx[i] += dy[o]),
            Pool::Average => {
                each_cell(window, |o, i, _| {
                    dx[i] += dy[o] / R::of(window.cells_inside(o / window.channels()).max(1) as f64);
                });
            }
            Pool::Pnorm { p } => {
                let (x, y) = (&pass.x[image * inputs..][..inputs], &pass.y[image * outputs..][..outputs]);
                each_cell(window, |o, i, _| dx[i] += dy[o] * pnorm_slope(x[i], y[o], p));
            }
        }
    }
}

/// ∂y/∂x of y = (Σ |x|ᵖ)^(1/p), which is sign(x) (|x| / y)^(p − 1).
pub(super) fn pnorm_slope<R: Real>(x: R, y: R, p: f32) -> R {
    if y > R::ZERO { x.sign() * (x.abs() / y).powf(R::of(f64::from(p) - 1.0)) } else { R::ZERO }
}
