//! Layers that go through a sequence step by step. A step that is not there changes nothing, and 0 comes out of it.
//!
//! Simple: h = f(x W + h' R + b).
//!
//! LSTM: i, f, o = σ(x W + h' R + b), g = a(x W + h' R + b), c = f c' + i g, h = o a(c); with peepholes i and f see c', and o sees c.
//!
//! GRU: r, z = σ(x W + h' R + b), q = h' R + b', n = a(x W + b + r q), h = (1 − z) n + z h'.

use crate::pass::{Backward, Forward};
use crate::recurrence::{CELL, Cell, Recurrence};
use crate::{Activation, Real};

/// The numbers of one unit of one example at one step, and what was before.
pub(crate) struct Unit<R> {
    /// What the gates are given: from what comes in, and from what was before.
    pub z: [[R; 4]; 2],
    pub before: R,
    pub cell_before: R,
    pub peepholes: [R; 3],
}

/// What comes out of a unit: its gates, and its planes behind them.
#[inline(always)]
pub(crate) fn step_forward<R: Real>(op: &Recurrence, unit: &Unit<R>) -> [R; 6] {
    let [x, h] = unit.z;
    let (gate, a) = (|z: R| op.gate.value(z), |z: R| op.activation.value(z));
    match op.cell {
        Cell::Simple => {
            let out = a(x[0] + h[0]);
            [out, out, R::ZERO, R::ZERO, R::ZERO, R::ZERO]
        }
        Cell::Lstm { peepholes } => {
            let [pi, pf, po] = unit.peepholes;
            let before = unit.cell_before;
            let seen = |z: R, weight: R, cell: R| if peepholes { z + weight * cell } else { z };
            let (i, f) = (gate(seen(x[0] + h[0], pi, before)), gate(seen(x[1] + h[1], pf, before)));
            let g = a(x[2] + h[2]);
            let c = f * before + i * g;
            let o = gate(seen(x[3] + h[3], po, c));
            [i, f, g, o, c, o * a(c)]
        }
        Cell::Gru => {
            let (r, z, q) = (gate(x[0] + h[0]), gate(x[1] + h[1]), h[2]);
            let n = a(x[2] + r * q);
            [r, z, n, q, (R::ONE - z) * n + z * unit.before, R::ZERO]
        }
    }
}

/// The slopes by what the gates are given, from what comes in and from what was before; by the cell before; by what was before, apart
/// from its way through the gates.
pub(crate) struct Slopes<R> {
    pub z: [[R; 4]; 2],
    pub cell_before: R,
    pub before: R,
}

/// The way back through a unit. `planes` are what [`step_forward`] has returned, `dh` and `dc` the slopes by what came out and by the
/// cell.
#[inline(always)]
pub(crate) fn step_back<R: Real>(op: &Recurrence, planes: [R; 6], unit: &Unit<R>, dh: R, dc: R) -> Slopes<R> {
    let gate = |y: R| op.gate.slope(y, y);
    let a = |y: R| op.activation.slope(y, y);
    let none = [R::ZERO; 4];
    match op.cell {
        Cell::Simple => {
            let dz = [dh * a(planes[0]), R::ZERO, R::ZERO, R::ZERO];
            Slopes { z: [dz, dz], cell_before: R::ZERO, before: R::ZERO }
        }
        Cell::Lstm { peepholes } => {
            let [i, f, g, o, c, _] = planes;
            let [pi, pf, po] = unit.peepholes;
            let shown: R = op.activation.value(c);
            let out = dh * shown * gate(o);
            let mut dc = dc + dh * o * a(shown);
            if peepholes {
                dc += out * po;
            }
            let dz = [dc * g * gate(i), dc * unit.cell_before * gate(f), dc * i * a(g), out];
            let mut cell_before = dc * f;
            if peepholes {
                cell_before += dz[0] * pi + dz[1] * pf;
            }
            Slopes { z: [dz, dz], cell_before, before: R::ZERO }
        }
        Cell::Gru => {
            let [r, z, n, q, ..] = planes;
            let new = dh * (R::ONE - z) * a(n);
            let mut by_x = none;
            (by_x[0], by_x[1], by_x[2]) = (new * q * gate(r), dh * (unit.before - n) * gate(z), new);
            let by_h = [by_x[0], by_x[1], new * r, R::ZERO];
            Slopes { z: [by_x, by_h], cell_before: R::ZERO, before: dh * z }
        }
    }
}

/// Scratch of the way back: what is passed from step to step, and the slopes of one row.
pub(super) fn backward_scratch(op: &Recurrence, examples: usize) -> usize {
    3 * examples * op.units + 2 * op.gates() * op.units
}

/// Whether a step of an example is there.
#[inline(always)]
pub(crate) fn is_there<R: Real>(mask: Option<&[R]>, at: usize) -> bool {
    mask.is_none_or(|mask| mask[at] != R::ZERO)
}

pub(super) fn forward<R: Real>(op: &Recurrence, pass: &mut Forward<'_, R>) {
    let &Recurrence { steps, inputs, units, .. } = op;
    let (rows, gates) = (pass.examples, op.gates());
    let mask = (pass.operands.len() > 1).then(|| pass.operands.get(1));
    let [w, r, p] = op.parts().map(|part| &pass.weights[part]);
    let last = op.planes() - 1;
    let mut state = vec![R::ZERO; rows * op.carried()];
    if !pass.carried.is_empty() {
        state.copy_from_slice(pass.carried);
    }
    let (h, c) = state.split_at_mut(rows * units);
    let mut given = [vec![R::ZERO; gates * units], vec![R::ZERO; gates * units]];
    for turn in 0..steps {
        let t = op.step(turn);
        for row in 0..rows {
            let at = row * steps + t;
            let place = |which: usize| op.place(rows, which, row, t);
            let y = &mut pass.y[at * units..][..units];
            let h = &mut h[row * units..][..units];
            if is_there(mask, at) {
                products(&pass.x[at * inputs..][..inputs], w, &mut given[0]);
                products(h, r, &mut given[1]);
                let before = h.to_vec();
                for unit in 0..units {
                    let of = Unit {
                        z: given_to(op, &given, pass.bias, unit),
                        before: before[unit],
                        cell_before: c.get(row * units + unit).copied().unwrap_or(R::ZERO),
                        peepholes: peepholes(p, units, unit),
                    };
                    let planes = step_forward(op, &of);
                    planes[..=last].iter().enumerate().for_each(|(n, v)| pass.aux[place(n) + unit] = *v);
                    h[unit] = planes[last];
                    if let Some(c) = c.get_mut(row * units + unit) {
                        *c = planes[CELL];
                    }
                }
                y.copy_from_slice(h);
            } else {
                (0..=last).for_each(|n| pass.aux[place(n)..][..units].fill(R::ZERO));
                pass.aux[place(last)..][..units].copy_from_slice(h);
                if let Some(c) = c.get(row * units..(row + 1) * units) {
                    pass.aux[place(CELL)..][..units].copy_from_slice(c);
                }
                y.fill(R::ZERO);
            }
        }
    }
    if !pass.carried.is_empty() {
        pass.carried.copy_from_slice(&state);
    }
}

/// z = x W
fn products<R: Real>(x: &[R], w: &[R], z: &mut [R]) {
    z.fill(R::ZERO);
    for (x, row) in x.iter().zip(w.chunks_exact(z.len())) {
        z.iter_mut().zip(row).for_each(|(z, w)| *z += *x * *w);
    }
}

/// What the gates of a unit are given, with their biases.
fn given_to<R: Real>(op: &Recurrence, given: &[Vec<R>; 2], bias: &[R], unit: usize) -> [[R; 4]; 2] {
    let mut z = [[R::ZERO; 4]; 2];
    let [by_x, by_h] = &mut z;
    for (gate, (x, h)) in by_x.iter_mut().zip(by_h.iter_mut()).enumerate().take(op.gates()) {
        let at = gate * op.units + unit;
        (*x, *h) = (given[0][at] + bias[at], given[1][at]);
    }
    if op.cell == Cell::Gru {
        by_h[2] += bias[3 * op.units + unit];
    }
    z
}

fn peepholes<R: Real>(p: &[R], units: usize, unit: usize) -> [R; 3] {
    [0, 1, 2].map(|row| p.get(row * units + unit).copied().unwrap_or(R::ZERO))
}

pub(super) fn backward<R: Real>(op: &Recurrence, pass: &mut Backward<'_, R>) {
    let &Recurrence { steps, inputs, units, .. } = op;
    let (rows, columns) = (pass.examples, op.gates() * units);
    let mask = (pass.kept.len() > 2).then(|| pass.kept.get(1));
    let [w, r, p] = op.parts().map(|part| &pass.weights[part]);
    let last = op.planes() - 1;
    let aux = &*pass.aux;
    let memory = |n: usize, t: usize, row: usize, unit: usize| aux[op.place(rows, n, row, t) + unit];
    pass.dweights.fill(R::ZERO);
    pass.dbias.fill(R::ZERO);
    pass.dx.fill(R::ZERO);
    let learns = !pass.dweights.is_empty();
    let [dw, dr, dp] = op.parts().map(|part| if learns { part } else { 0..0 });
    let [dw, dr, dp] = pass.dweights.get_disjoint_mut([dw, dr, dp]).expect("parts follow each other");
    let (dh, rest) = pass.scratch.split_at_mut(rows * units);
    let (dc, rest) = rest.split_at_mut(rows * units);
    let (next, rest) = rest.split_at_mut(units);
    let (dzx, rest) = rest.split_at_mut(columns);
    let dzh = &mut rest[..columns];
    dh.fill(R::ZERO);
    dc.fill(R::ZERO);
    for turn in (0..steps).rev() {
        let t = op.step(turn);
        for row in 0..rows {
            let at = row * steps + t;
            if !is_there(mask, at) {
                continue;
            }
            let before = |n: usize, unit: usize| match turn {
                0 => R::ZERO,
                _ => memory(n, op.step(turn - 1), row, unit),
            };
            for unit in 0..units {
                let of = Unit {
                    z: [[R::ZERO; 4]; 2],
                    before: before(last, unit),
                    cell_before: if matches!(op.cell, Cell::Lstm { .. }) { before(CELL, unit) } else { R::ZERO },
                    peepholes: peepholes(p, units, unit),
                };
                let mut planes = [R::ZERO; 6];
                planes.iter_mut().take(last + 1).enumerate().for_each(|(n, v)| *v = memory(n, t, row, unit));
                let place = row * units + unit;
                let slopes = step_back(op, planes, &of, dh[place] + pass.dy[at * units + unit], dc[place]);
                (dc[place], next[unit]) = (slopes.cell_before, slopes.before);
                for gate in 0..op.gates() {
                    (dzx[gate * units + unit], dzh[gate * units + unit]) = (slopes.z[0][gate], slopes.z[1][gate]);
                }
                if let [.., _] = dp {
                    let seen = [of.cell_before, of.cell_before, planes[CELL]];
                    for (which, (seen, gate)) in seen.into_iter().zip([0, 1, 3]).enumerate() {
                        dp[which * units + unit] += slopes.z[0][gate] * seen;
                    }
                }
            }
            let x = &pass.x[at * inputs..][..inputs];
            if learns {
                x.iter().zip(dw.chunks_exact_mut(columns)).for_each(|(x, dw)| add_scaled(*x, dzx, dw));
                for (unit, dr) in dr.chunks_exact_mut(columns).enumerate() {
                    add_scaled(before(last, unit), dzh, dr);
                }
            }
            add_bias_slopes(op, [dzx, dzh], pass.dbias);
            if !pass.dx.is_empty() {
                let dx = &mut pass.dx[at * inputs..][..inputs];
                dx.iter_mut().zip(w.chunks_exact(columns)).for_each(|(dx, w)| *dx = dot(w, dzx));
            }
            let dh = &mut dh[row * units..][..units];
            for ((dh, r), next) in dh.iter_mut().zip(r.chunks_exact(columns)).zip(&*next) {
                *dh = *next + dot(r, dzh);
            }
        }
        if op.is_cut_before(turn) {
            dh.fill(R::ZERO);
            dc.fill(R::ZERO);
        }
    }
}

fn add_bias_slopes<R: Real>(op: &Recurrence, [dzx, dzh]: [&[R]; 2], dbias: &mut [R]) {
    dbias.iter_mut().zip(dzx).for_each(|(db, dz)| *db += *dz);
    if op.cell == Cell::Gru && !dbias.is_empty() {
        let new = &dzh[2 * op.units..3 * op.units];
        dbias[3 * op.units..].iter_mut().zip(new).for_each(|(db, dz)| *db += *dz);
    }
}

fn add_scaled<R: Real>(factor: R, from: &[R], to: &mut [R]) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to += factor * *from);
}

fn dot<R: Real>(a: &[R], b: &[R]) -> R {
    a.iter().zip(b).fold(R::ZERO, |sum, (a, b)| sum + *a * *b)
}

/// What a plain recurrence asks of the plan, besides its planes.
pub(super) fn needs(op: &Recurrence, examples: usize) -> crate::pass::Needs {
    crate::pass::Needs {
        keeps_x: true,
        aux: op.planes() * op.plane(examples),
        aux_always: true,
        backward_scratch: backward_scratch(op, examples),
        ..crate::pass::Needs::default()
    }
}

/// Activations whose slope can be told from what came out: those that a recurrence can remember by it.
pub(crate) fn takes(activation: Activation) -> bool {
    activation.is_element_wise() && activation.slope_from_output()
}
