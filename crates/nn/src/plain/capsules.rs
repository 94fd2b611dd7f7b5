//! Capsules: what others foretell of each is weighed by how well they agree, in a few rounds (Sabour et al. 2017).

use super::activation::softmax;
use crate::Real;
use crate::node::Capsules;
use crate::pass::{Backward, Forward, Needs};

fn dot<R: Real>(a: &[R], b: &[R]) -> R {
    a.iter().zip(b).fold(R::ZERO, |sum, (a, b)| sum + *a * *b)
}

/// The length, never quite 0.
fn length<R: Real>(x: &[R]) -> R {
    (dot(x, x) + R::LEAST).sqrt()
}

/// y = x ‖x‖ / (1 + ‖x‖²): as it points, and shorter than 1.
fn squash<R: Real>(x: &[R], y: &mut [R]) {
    let n = length(x);
    let factor = n / (R::ONE + n * n);
    x.iter().zip(y).for_each(|(x, y)| *y = factor * *x);
}

/// Adds the slope by x.
fn squash_back<R: Real>(x: &[R], dy: &[R], dx: &mut [R]) {
    let n = length(x);
    let whole = R::ONE + n * n;
    let factor = n / whole;
    let along = dot(x, dy) * (R::ONE - n * n) / (whole * whole * n);
    x.iter().zip(dy).zip(dx).for_each(|((x, dy), dx)| *dx += factor * *dy + along * *x);
}

pub(super) fn squash_all<R: Real>(size: usize, pass: &mut Forward<'_, R>) {
    pass.x.chunks_exact(size).zip(pass.y.chunks_exact_mut(size)).for_each(|(x, y)| squash(x, y));
}

pub(super) fn squash_all_back<R: Real>(size: usize, pass: &mut Backward<'_, R>) {
    pass.dx.fill(R::ZERO);
    let rows = pass.x.chunks_exact(size).zip(pass.dy.chunks_exact(size)).zip(pass.dx.chunks_exact_mut(size));
    rows.for_each(|((x, dy), dx)| squash_back(x, dy, dx));
}

pub(super) fn lengths<R: Real>(size: usize, pass: &mut Forward<'_, R>) {
    pass.x.chunks_exact(size).zip(pass.y.iter_mut()).for_each(|(x, y)| *y = length(x));
}

pub(super) fn lengths_back<R: Real>(size: usize, pass: &mut Backward<'_, R>) {
    let rows = pass.x.chunks_exact(size).zip(pass.dx.chunks_exact_mut(size)).zip(pass.y.iter().zip(pass.dy.iter()));
    for ((x, dx), (y, dy)) in rows {
        x.iter().zip(dx).for_each(|(x, dx)| *dx = *dy * *x / *y);
    }
}

impl Capsules {
    /// Pairs of a capsule below and one above.
    fn pairs(&self) -> usize {
        self.inputs * self.outputs
    }

    /// Numbers that come out.
    fn all(&self) -> usize {
        self.outputs * self.size
    }

    /// What is foretold: by every capsule below, of every capsule above.
    fn foretold(&self) -> usize {
        self.inputs * self.all()
    }

    /// Numbers of a round: who listens to whom, what is heard, and what is said then.
    fn round(&self) -> usize {
        self.pairs() + 2 * self.all()
    }
}

pub(super) fn needs(op: &Capsules, examples: usize) -> Needs {
    let routed = op.pairs() + op.routings * op.round();
    Needs {
        keeps_x: true,
        aux: examples * op.foretold() + op.all(),
        aux_always: true,
        forward_scratch: routed,
        backward_scratch: routed + 2 * op.pairs() + op.foretold() + 2 * op.all(),
        ..Needs::default()
    }
}

/// û = u W
fn foretell<R: Real>(op: &Capsules, weights: &[R], x: &[R], foretold: &mut [R]) {
    foretold.fill(R::ZERO);
    let (of_input, all) = (op.features * op.all(), op.all());
    let capsules = x.chunks_exact(op.features).zip(weights.chunks_exact(of_input)).zip(foretold.chunks_exact_mut(all));
    for ((x, weights), foretold) in capsules {
        for (x, weights) in x.iter().zip(weights.chunks_exact(all)) {
            foretold.iter_mut().zip(weights).for_each(|(sum, w)| *sum += *x * *w);
        }
    }
}

/// Goes through the rounds, and leaves them in the scratch behind the numbers that the last of them listened by.
fn route<R: Real>(op: &Capsules, foretold: &[R], bias: &[R], scratch: &mut [R]) {
    let (agreed, rounds) = scratch.split_at_mut(op.pairs());
    agreed.fill(R::ZERO);
    for (at, round) in rounds.chunks_exact_mut(op.round()).take(op.routings).enumerate() {
        let (listened, rest) = round.split_at_mut(op.pairs());
        let (heard, said) = rest.split_at_mut(op.all());
        let rows = agreed.chunks_exact(op.outputs).zip(listened.chunks_exact_mut(op.outputs));
        rows.for_each(|(agreed, listened)| softmax(agreed, listened));
        heard.copy_from_slice(bias);
        for (listened, foretold) in listened.chunks_exact(op.outputs).zip(foretold.chunks_exact(op.all())) {
            let capsules = listened.iter().zip(foretold.chunks_exact(op.size)).zip(heard.chunks_exact_mut(op.size));
            for ((share, foretold), heard) in capsules {
                heard.iter_mut().zip(foretold).for_each(|(sum, u)| *sum += *share * *u);
            }
        }
        heard.chunks_exact(op.size).zip(said.chunks_exact_mut(op.size)).for_each(|(heard, said)| squash(heard, said));
        if at + 1 < op.routings {
            for (agreed, foretold) in agreed.chunks_exact_mut(op.outputs).zip(foretold.chunks_exact(op.all())) {
                let capsules = agreed.iter_mut().zip(foretold.chunks_exact(op.size)).zip(said.chunks_exact(op.size));
                capsules.for_each(|((agreed, foretold), said)| *agreed += dot(foretold, said));
            }
        }
    }
}

pub(super) fn forward<R: Real>(op: &Capsules, pass: &mut Forward<'_, R>) {
    let (of_rows, bias) = pass.aux.split_at_mut(pass.examples * op.foretold());
    // The way back goes through the rounds again.
    if pass.bias.is_empty() {
        bias.fill(R::ZERO)
    } else {
        bias.copy_from_slice(pass.bias)
    }
    let rows = pass.x.chunks_exact(op.inputs * op.features).zip(pass.y.chunks_exact_mut(op.all()));
    for ((x, y), foretold) in rows.zip(of_rows.chunks_exact_mut(op.foretold())) {
        foretell(op, pass.weights, x, foretold);
        route(op, foretold, bias, pass.scratch);
        let end = op.pairs() + op.routings * op.round();
        y.copy_from_slice(&pass.scratch[end - op.all()..end]);
    }
}

pub(super) fn backward<R: Real>(op: &Capsules, pass: &mut Backward<'_, R>) {
    pass.dweights.fill(R::ZERO);
    pass.dbias.fill(R::ZERO);
    pass.dx.fill(R::ZERO);
    let (routed, scratch) = pass.scratch.split_at_mut(op.pairs() + op.routings * op.round());
    let (dagreed, scratch) = scratch.split_at_mut(op.pairs());
    let (dlistened, scratch) = scratch.split_at_mut(op.pairs());
    let (dforetold, scratch) = scratch.split_at_mut(op.foretold());
    let (dsaid, dheard) = scratch.split_at_mut(op.all());
    let dheard = &mut dheard[..op.all()];
    let of_row = op.inputs * op.features;
    for (row, (x, dy)) in pass.x.chunks_exact(of_row).zip(pass.dy.chunks_exact(op.all())).enumerate() {
        let foretold = &pass.aux[row * op.foretold()..][..op.foretold()];
        let bias = &pass.aux[pass.examples * op.foretold()..];
        route(op, foretold, bias, routed);
        dagreed.fill(R::ZERO);
        dforetold.fill(R::ZERO);
        for (at, round) in routed[op.pairs()..].chunks_exact(op.round()).enumerate().rev() {
            let (listened, rest) = round.split_at(op.pairs());
            let (heard, said) = rest.split_at(op.all());
            if at + 1 == op.routings {
                dsaid.copy_from_slice(dy)
            } else {
                dsaid.fill(R::ZERO)
            }
            // What was said has changed who agrees in all rounds after it.
            for (pair, dagreed) in dagreed.iter().enumerate() {
                let (first, above) = (pair * op.size, pair % op.outputs * op.size);
                for at in 0..op.size {
                    dsaid[above + at] += *dagreed * foretold[first + at];
                    dforetold[first + at] += *dagreed * said[above + at];
                }
            }
            dheard.fill(R::ZERO);
            let capsules = heard.chunks_exact(op.size).zip(dsaid.chunks_exact(op.size));
            capsules.zip(dheard.chunks_exact_mut(op.size)).for_each(|((x, dy), dx)| squash_back(x, dy, dx));
            pass.dbias.iter_mut().zip(&*dheard).for_each(|(sum, d)| *sum += *d);
            for (pair, (share, dshare)) in listened.iter().zip(dlistened.iter_mut()).enumerate() {
                let (first, above) = (pair * op.size, pair % op.outputs * op.size);
                *dshare = dot(&foretold[first..][..op.size], &dheard[above..][..op.size]);
                for at in 0..op.size {
                    dforetold[first + at] += *share * dheard[above + at];
                }
            }
            let rows = listened.chunks_exact(op.outputs).zip(dlistened.chunks_exact(op.outputs));
            for ((shares, slopes), dagreed) in rows.zip(dagreed.chunks_exact_mut(op.outputs)) {
                let along = dot(shares, slopes);
                let each = shares.iter().zip(slopes).zip(dagreed);
                each.for_each(|((share, slope), dagreed)| *dagreed += *share * (*slope - along));
            }
        }
        let all = op.all();
        for (capsule, dforetold) in dforetold.chunks_exact(all).enumerate() {
            for feature in 0..op.features {
                let (place, first) = (capsule * op.features + feature, (capsule * op.features + feature) * all);
                let own = pass.dweights[first..][..all].iter_mut().zip(dforetold);
                own.for_each(|(dw, d)| *dw += x[place] * *d);
                if let Some(dx) = pass.dx.get_mut(row * of_row + place) {
                    *dx = dot(&pass.weights[first..][..all], dforetold);
                }
            }
        }
    }
}
