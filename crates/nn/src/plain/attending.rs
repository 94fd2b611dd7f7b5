//! hₜ = f(uₜ + aₜ R): a recurrence in which hₜ₋₁ Q looks at the keys of all steps, and aₜ is what it takes of their values.

use super::activation::softmax;
use super::recurrent::is_there;
use crate::Real;
use crate::node::Attending;
use crate::pass::{Backward, Forward, Needs};

/// What is remembered of every step of every example: the chances of all steps for every head, what was taken, what came out.
fn remembered(op: &Attending) -> usize {
    op.heads * op.steps + op.heads * op.size + op.units
}

pub(super) fn needs(op: &Attending, examples: usize) -> Needs {
    let width = op.heads * op.size;
    Needs {
        keeps_x: true,
        aux: examples * op.steps * remembered(op),
        aux_always: true,
        forward_scratch: op.units + width + op.steps,
        backward_scratch: 2 * op.units + 3 * width + op.steps,
        ..Needs::default()
    }
}

fn times<R: Real>(x: &[R], w: &[R], y: &mut [R]) {
    y.fill(R::ZERO);
    for (x, row) in x.iter().zip(w.chunks_exact(y.len())) {
        y.iter_mut().zip(row).for_each(|(y, w)| *y += *x * *w);
    }
}

fn times_transposed<R: Real>(y: &[R], w: &[R], x: &mut [R]) {
    for (x, row) in x.iter_mut().zip(w.chunks_exact(y.len())) {
        *x = row.iter().zip(y).fold(R::ZERO, |sum, (w, y)| sum + *w * *y);
    }
}

fn add<R: Real>(factor: R, from: &[R], to: &mut [R]) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to += factor * *from);
}

pub(super) fn forward<R: Real>(op: &Attending, pass: &mut Forward<'_, R>) {
    let &Attending { heads, size, steps, units, activation } = op;
    let width = heads * size;
    let (ask, recur) = pass.weights.split_at(units * width);
    let [u, keys, values] = [0, 1, 2].map(|operand| pass.operands.get(operand));
    let mask = (pass.operands.len() > 3).then(|| pass.operands.get(3));
    let factor = R::of(1.0 / (size as f64).sqrt());
    let (h, rest) = pass.scratch.split_at_mut(units);
    let (question, scores) = rest.split_at_mut(width);
    for row in 0..pass.examples {
        h.fill(R::ZERO);
        for t in 0..steps {
            let at = row * steps + t;
            let (chances, rest) = pass.aux[at * remembered(op)..][..remembered(op)].split_at_mut(heads * steps);
            let (taken, out) = rest.split_at_mut(width);
            let y = &mut pass.y[at * units..][..units];
            if !is_there(mask, at) {
                out.copy_from_slice(h);
                y.fill(R::ZERO);
                continue;
            }
            times(h, ask, question);
            taken.fill(R::ZERO);
            for head in 0..heads {
                let part = head * size..(head + 1) * size;
                for (step, score) in scores[..steps].iter_mut().enumerate() {
                    let there = row * steps + step;
                    let key = &keys[there * width..][part.clone()];
                    let product = question[part.clone()].iter().zip(key).fold(R::ZERO, |sum, (q, k)| sum + *q * *k);
                    *score = if is_there(mask, there) { factor * product } else { R::of(f64::NEG_INFINITY) };
                }
                let chances = &mut chances[head * steps..][..steps];
                softmax(&scores[..steps], chances);
                for (step, p) in chances.iter().enumerate() {
                    add(*p, &values[(row * steps + step) * width..][part.clone()], &mut taken[part.clone()]);
                }
            }
            times(taken, recur, h);
            h.iter_mut().zip(&u[at * units..]).for_each(|(h, u)| *h = activation.value(*h + *u));
            out.copy_from_slice(h);
            y.copy_from_slice(h);
        }
    }
}

pub(super) fn backward<R: Real>(op: &Attending, pass: &mut Backward<'_, R>) {
    let &Attending { heads, size, steps, units, activation } = op;
    let width = heads * size;
    let (ask, recur) = pass.weights.split_at(units * width);
    let [keys, values] = [1, 2].map(|operand| pass.kept.get(operand));
    let mask = (pass.kept.len() > 4).then(|| pass.kept.get(3));
    let factor = R::of(1.0 / (size as f64).sqrt());
    pass.dweights.fill(R::ZERO);
    pass.dx.fill(R::ZERO);
    (0..2).for_each(|operand| pass.more_dx.get(operand).fill(R::ZERO));
    let learns = !pass.dweights.is_empty();
    let (dask, drecur) = pass.dweights.split_at_mut(if learns { units * width } else { 0 });
    let (dh, rest) = pass.scratch.split_at_mut(units);
    let (dz, rest) = rest.split_at_mut(units);
    let (question, rest) = rest.split_at_mut(width);
    let (dquestion, rest) = rest.split_at_mut(width);
    let (dtaken, ds) = rest.split_at_mut(width);
    let remembered_at = |at: usize| &pass.aux[at * remembered(op)..][..remembered(op)];
    for row in 0..pass.examples {
        dh.fill(R::ZERO);
        for t in (0..steps).rev() {
            let at = row * steps + t;
            if !is_there(mask, at) {
                continue;
            }
            let here = remembered_at(at);
            let (chances, taken, out) =
                (&here[..heads * steps], &here[heads * steps..][..width], &here[heads * steps + width..]);
            let before = (t > 0).then(|| &remembered_at(at - 1)[heads * steps + width..]);
            let dy = &pass.dy[at * units..][..units];
            for (((dz, dh), dy), out) in dz.iter_mut().zip(&*dh).zip(dy).zip(out) {
                *dz = (*dh + *dy) * activation.slope(*out, *out);
            }
            if !pass.dx.is_empty() {
                pass.dx[at * units..][..units].copy_from_slice(dz);
            }
            times_transposed(dz, recur, dtaken);
            if learns {
                drecur.chunks_exact_mut(units).zip(taken).for_each(|(drow, a)| add(*a, dz, drow));
            }
            match before {
                Some(before) => times(before, ask, question),
                None => question.fill(R::ZERO),
            }
            dquestion.fill(R::ZERO);
            for head in 0..heads {
                let part = head * size..(head + 1) * size;
                let (chances, ds) = (&chances[head * steps..][..steps], &mut ds[..steps]);
                for (step, ds) in ds.iter_mut().enumerate() {
                    let value = &values[(row * steps + step) * width..][part.clone()];
                    *ds = value.iter().zip(&dtaken[part.clone()]).fold(R::ZERO, |sum, (v, d)| sum + *v * *d);
                }
                let mean = chances.iter().zip(&*ds).fold(R::ZERO, |sum, (p, d)| sum + *p * *d);
                for (step, p) in chances.iter().enumerate() {
                    let there = (row * steps + step) * width;
                    let slope = *p * (ds[step] - mean) * factor;
                    add(slope, &keys[there..][part.clone()], &mut dquestion[part.clone()]);
                    let (from_question, from_taken) = (&question[part.clone()], &dtaken[part.clone()]);
                    for (operand, factor, from) in [(0, slope, from_question), (1, *p, from_taken)] {
                        let to = pass.more_dx.get(operand);
                        if !to.is_empty() {
                            add(factor, from, &mut to[there..][part.clone()]);
                        }
                    }
                }
            }
            if learns && let Some(before) = before {
                dask.chunks_exact_mut(width).zip(before).for_each(|(drow, h)| add(*h, dquestion, drow));
            }
            times_transposed(dquestion, ask, dh);
        }
    }
}
