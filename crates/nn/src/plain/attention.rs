//! Every question looks at all steps: y = Σ p v, with p = softmax(q · k / √size) over the steps that are there, for every head by itself.

use super::activation::softmax;
use super::recurrent::is_there;
use crate::Real;
use crate::node::Looking;
use crate::pass::{Backward, Forward};

/// What a question sees of an example's steps; minus infinity is not seen.
fn scores<R: Real>(op: &Looking, q: &[R], keys: &[R], seen: impl Fn(usize) -> bool, scores: &mut [R]) {
    let width = op.heads * op.size;
    let factor = R::of(1.0 / (op.size as f64).sqrt());
    for (step, score) in scores.iter_mut().enumerate() {
        *score = if seen(step) {
            let k = &keys[step * width..][..op.size];
            factor * q.iter().zip(k).fold(R::ZERO, |sum, (q, k)| sum + *q * *k)
        } else {
            R::of(f64::NEG_INFINITY)
        };
    }
}

pub(super) fn forward<R: Real>(op: &Looking, pass: &mut Forward<'_, R>) {
    let &Looking { heads, size, queries, steps, causal } = op;
    let width = heads * size;
    let [q, k, v] = [0, 1, 2].map(|operand| pass.operands.get(operand));
    let mask = (pass.operands.len() > 3).then(|| pass.operands.get(3));
    let given = &mut pass.scratch[..steps];
    for row in 0..pass.examples {
        let of_row = row * steps * width..(row + 1) * steps * width;
        let (k, v) = (&k[of_row.clone()], &v[of_row]);
        for query in 0..queries {
            let at = (row * queries + query) * width;
            for head in 0..heads {
                let first = head * size;
                let seen = |step| is_there(mask, row * steps + step) && (!causal || step <= query);
                scores(op, &q[at + first..][..size], &k[first..], seen, given);
                let p = &mut pass.aux[((row * queries + query) * heads + head) * steps..][..steps];
                if given.iter().all(|score| *score == R::of(f64::NEG_INFINITY)) {
                    p.fill(R::ZERO);
                } else {
                    softmax(given, p);
                }
                let y = &mut pass.y[at + first..][..size];
                y.fill(R::ZERO);
                for (p, v) in p.iter().zip(v.chunks_exact(width)) {
                    y.iter_mut().zip(&v[first..][..size]).for_each(|(y, v)| *y += *p * *v);
                }
            }
        }
    }
}

pub(super) fn backward<R: Real>(op: &Looking, pass: &mut Backward<'_, R>) {
    let &Looking { heads, size, queries, steps, .. } = op;
    let width = heads * size;
    let factor = R::of(1.0 / (size as f64).sqrt());
    let [q, k, v] = [0, 1, 2].map(|operand| pass.kept.get(operand));
    let (p, ds) = (&*pass.aux, &mut *pass.scratch);
    let dy = &*pass.dy;
    // Where each question, key and row of chances begins, for every example, question and head.
    let places = || {
        (0..pass.examples * queries * heads).map(move |at| {
            let (row, query, head) = (at / heads / queries, at / heads % queries, at % heads);
            ((row * queries + query) * width + head * size, row * steps * width + head * size, at * steps)
        })
    };
    for (question, first, chances) in places() {
        let dy = &dy[question..][..size];
        let (p, ds) = (&p[chances..][..steps], &mut ds[chances..][..steps]);
        for (step, ds) in ds.iter_mut().enumerate() {
            let v = &v[first + step * width..][..size];
            *ds = v.iter().zip(dy).fold(R::ZERO, |sum, (v, dy)| sum + *v * *dy);
        }
        let mean = p.iter().zip(&*ds).fold(R::ZERO, |sum, (p, by_p)| sum + *p * *by_p);
        ds.iter_mut().zip(p).for_each(|(ds, p)| *ds = *p * (*ds - mean) * factor);
    }
    let add =
        |factor: R, from: &[R], to: &mut [R]| to.iter_mut().zip(from).for_each(|(to, from)| *to += factor * *from);
    pass.dx.fill(R::ZERO);
    if !pass.dx.is_empty() {
        for (question, first, chances) in places() {
            for (step, ds) in ds[chances..][..steps].iter().enumerate() {
                add(*ds, &k[first + step * width..][..size], &mut pass.dx[question..][..size]);
            }
        }
    }
    for (operand, factors) in [(0, &*ds), (1, p)] {
        let slope = pass.more_dx.get(operand);
        slope.fill(R::ZERO);
        if slope.is_empty() {
            continue;
        }
        for (question, first, chances) in places() {
            let from = if operand == 0 { &q[question..][..size] } else { &dy[question..][..size] };
            for (step, factor) in factors[chances..][..steps].iter().enumerate() {
                add(*factor, from, &mut slope[first + step * width..][..size]);
            }
        }
    }
}
