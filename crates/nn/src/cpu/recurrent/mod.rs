//! Recurrent layers. What comes in is multiplied for all steps at once, and so are the gradients; only the product with what was before
//! waits for the step before it. Its weights are packed once for all steps where that fits. Where a step is there for no sequence of a batch,
//! nothing is multiplied.

mod units;

use paceline_model::vectorize;
use units::{BackRow, Memory, back_of_row, step_of_row};

use super::dense::{sum_columns, weight_gradient, weight_gradient_scratch};
use super::dispatch::Instructions;
use super::product::{self, Matrix, Packing, Product};
use crate::Activation;
use crate::pass::{Backward, Forward, Needs, RowsOfGradient, WrittenNext};
use crate::plain::recurrent::is_there;
use crate::recurrence::{CELL, Cell, Recurrence};

/// A product whose right side is the same at every step.
#[derive(Clone, Copy)]
struct Repeated {
    rows: usize,
    depth: usize,
    columns: usize,
}

impl Repeated {
    fn keeps(self) -> bool {
        product::can_keep(self.depth, self.columns)
    }

    fn scratch(self, instructions: Instructions) -> usize {
        match self.keeps() {
            true => product::scratch_that_keeps(instructions, self.rows, self.depth, self.columns),
            false => product::scratch(instructions, self.rows, self.columns),
        }
    }

    /// c = a b; the first time b is packed.
    fn run(
        self,
        instructions: Instructions,
        [a, b]: [Matrix<'_>; 2],
        c: &mut [f32],
        is_first: bool,
        scratch: &mut [f32],
    ) {
        let packing = match (self.keeps(), is_first) {
            (false, _) => Packing::Blocks,
            (true, true) => Packing::Kept,
            (true, false) => Packing::Done,
        };
        let Repeated { rows, depth, columns } = self;
        let (bias, next) = (&[][..], WrittenNext::default());
        Product { rows, depth, columns, a, b, c, bias, relu: false, scratch, packing, next }.run(instructions);
    }
}

impl Recurrence {
    fn columns(&self) -> usize {
        self.gates() * self.units
    }

    fn forth(&self, examples: usize) -> Repeated {
        Repeated { rows: examples, depth: self.units, columns: self.columns() }
    }

    fn back(&self, examples: usize) -> Repeated {
        Repeated { rows: examples, depth: self.columns(), columns: self.units }
    }
}

pub(super) fn needs(instructions: Instructions, op: &Recurrence, examples: usize, plain: Needs) -> Needs {
    let (all, columns, units) = (examples * op.steps, op.columns(), op.units);
    let forward = product::scratch(instructions, all, columns).max(op.forth(examples).scratch(instructions));
    let gradients = weight_gradient_scratch(instructions, op.inputs, all, columns)
        .max(weight_gradient_scratch(instructions, units, all, columns))
        .max(product::scratch(instructions, all, op.inputs))
        .max(op.back(examples).scratch(instructions));
    // Slopes of the gates, and of what a GRU proposes; of what came out and of the cell, and what passes by the gates.
    let slopes = all * (columns + if op.cell == Cell::Gru { units } else { 0 }) + 3 * examples * units + units;
    Needs { forward_scratch: examples * columns + units + forward, backward_scratch: slopes + gradients, ..plain }
}

/// Runs `$body` with `$known` bound to what makes the operation, its activations as constants where they are the usual ones. Called within
/// the vectorised code, it tells the compiler what it compiles.
macro_rules! with_known {
    ($op:expr, |$known:ident| $body:expr) => {{
        let op = *$op;
        match (op.cell, op.gate, op.activation) {
            (Cell::Lstm { peepholes: false }, Activation::Sigmoid, Activation::Tanh) => {
                let $known = move || Recurrence {
                    cell: Cell::Lstm { peepholes: false },
                    gate: Activation::Sigmoid,
                    activation: Activation::Tanh,
                    ..op
                };
                $body
            }
            (Cell::Lstm { peepholes: true }, Activation::Sigmoid, Activation::Tanh) => {
                let $known = move || Recurrence {
                    cell: Cell::Lstm { peepholes: true },
                    gate: Activation::Sigmoid,
                    activation: Activation::Tanh,
                    ..op
                };
                $body
            }
            (Cell::Gru, Activation::Sigmoid, Activation::Tanh) => {
                let $known = move || Recurrence {
                    cell: Cell::Gru,
                    gate: Activation::Sigmoid,
                    activation: Activation::Tanh,
                    ..op
                };
                $body
            }
            (Cell::Simple, _, Activation::Tanh) => {
                let $known = move || Recurrence {
                    cell: Cell::Simple,
                    gate: Activation::Sigmoid,
                    activation: Activation::Tanh,
                    ..op
                };
                $body
            }
            _ => {
                let $known = move || op;
                $body
            }
        }
    }};
}

pub(super) fn forward(instructions: Instructions, op: &Recurrence, pass: &mut Forward<'_, f32>) {
    let &Recurrence { steps, inputs, units, .. } = op;
    let (rows, columns) = (pass.examples, op.columns());
    let all = rows * steps;
    let mask = (pass.operands.len() > 1).then(|| pass.operands.get(1));
    let [w, r, p] = op.parts().map(|part| &pass.weights[part]);
    let (gates, planes) = pass.aux.split_at_mut(all * columns);
    let (given, rest) = pass.scratch.split_at_mut(rows * columns);
    let (nothing, scratch) = rest.split_at_mut(units);
    nothing.fill(0.0);
    let nothing = &*nothing;
    Product {
        rows: all,
        depth: inputs,
        columns,
        a: Matrix::Rows(pass.x, inputs),
        b: Matrix::Rows(w, columns),
        c: gates,
        bias: &pass.bias[..columns],
        relu: false,
        scratch,
        packing: Packing::Blocks,
        next: WrittenNext::default(),
    }
    .run(instructions);
    let proposed_bias = pass.bias.get(columns..).unwrap_or_default();
    let mut state = Vec::new();
    if !pass.carried.is_empty() {
        state.extend_from_slice(pass.carried);
    }
    let mut is_first = true;
    for turn in 0..steps {
        let (t, before) = (op.step(turn), turn.checked_sub(1).map(|turn| op.step(turn)));
        let has_before = before.is_some() || !state.is_empty();
        let is_for_nobody = (0..rows).all(|row| !is_there(mask, row * steps + t));
        let (all_planes, h_plane) = planes.split_at_mut(planes.len() - all * units);
        if is_for_nobody {
            // Nobody looks at what would be given.
        } else if has_before {
            let a = match before {
                Some(before) => Matrix::Rows(&h_plane[before * units..], steps * units),
                None => Matrix::Rows(&state[..rows * units], units),
            };
            op.forth(rows).run(instructions, [a, Matrix::Rows(r, columns)], given, is_first, scratch);
            is_first = false;
        } else {
            given.fill(0.0);
        }
        let y = &mut *pass.y;
        with_known!(op, |op| vectorize(
            #[inline(always)]
            || {
                let op = op();
                for row in 0..rows {
                    let at = row * steps + t;
                    let last = before.map(|before| row * steps + before);
                    let z = &mut gates[at * columns..][..columns];
                    let y = &mut y[at * units..][..units];
                    let mut memory = Memory::cut(all_planes, h_plane, units, at, last);
                    let (h_before, c_before) = match (last, state.is_empty()) {
                        (None, false) => {
                            let c = if matches!(op.cell, Cell::Lstm { .. }) {
                                &state[(rows + row) * units..][..units]
                            } else {
                                nothing
                            };
                            (&state[row * units..][..units], c)
                        }
                        _ => (memory.h_before.unwrap_or(nothing), memory.c_before.unwrap_or(nothing)),
                    };
                    if is_there(mask, at) {
                        let given = &given[row * columns..][..columns];
                        step_of_row(&op, z, given, [h_before, c_before], [p, proposed_bias], &mut memory);
                        y.copy_from_slice(memory.h);
                    } else {
                        z.fill(0.0);
                        memory.other.fill(0.0);
                        memory.h.copy_from_slice(h_before);
                        if matches!(op.cell, Cell::Lstm { .. }) {
                            memory.other.copy_from_slice(c_before);
                        }
                        y.fill(0.0);
                    }
                }
            }
        ));
    }
    if !pass.carried.is_empty() {
        let end = op.step(steps - 1);
        let kinds = if matches!(op.cell, Cell::Lstm { .. }) { [op.planes() - 1, CELL] } else { [op.planes() - 1; 2] };
        for (which, carried) in kinds.into_iter().zip(pass.carried.chunks_exact_mut(rows * units)) {
            for (row, carried) in carried.chunks_exact_mut(units).enumerate() {
                carried.copy_from_slice(&pass.aux[op.place(rows, which, row, end)..][..units]);
            }
        }
    }
}

pub(super) fn backward(instructions: Instructions, op: &Recurrence, pass: &mut Backward<'_, f32>) {
    let &Recurrence { steps, inputs, units, .. } = op;
    let (rows, columns, is_gru) = (pass.examples, op.columns(), op.cell == Cell::Gru);
    let all = rows * steps;
    let mask = (pass.kept.len() > 2).then(|| pass.kept.get(1));
    let [w, r, p] = op.parts().map(|part| &pass.weights[part]);
    let learns = !pass.dweights.is_empty();
    let [dw, dr, dp] = op.parts().map(|part| if learns { part } else { 0..0 });
    let [dw, dr, dp] = pass.dweights.get_disjoint_mut([dw, dr, dp]).expect("parts follow each other");
    dp.fill(0.0);
    let (gates, planes) = pass.aux.split_at_mut(all * columns);
    let (others, h_plane) = planes.split_at_mut(planes.len() - all * units);
    let (gates, others) = (&*gates, &*others);
    let (dz, rest) = pass.scratch.split_at_mut(all * columns);
    // By what comes in, where that differs from what was before: a GRU resets the one and not the other.
    let (dn, rest) = rest.split_at_mut(if is_gru { all * units } else { 0 });
    let (dh, rest) = rest.split_at_mut(rows * units);
    let (dc, rest) = rest.split_at_mut(rows * units);
    let (passes_by, rest) = rest.split_at_mut(rows * units);
    let (nothing, scratch) = rest.split_at_mut(units);
    nothing.fill(0.0);
    let nothing = &*nothing;
    dh.fill(0.0);
    dc.fill(0.0);
    let mut is_first = true;
    for turn in (0..steps).rev() {
        let (t, before) = (op.step(turn), turn.checked_sub(1).map(|turn| op.step(turn)));
        let dy = &*pass.dy;
        with_known!(op, |op| vectorize(
            #[inline(always)]
            || {
                let op = op();
                for row in 0..rows {
                    let at = row * steps + t;
                    let dz = &mut dz[at * columns..][..columns];
                    let (dh, dc) = (&mut dh[row * units..][..units], &mut dc[row * units..][..units]);
                    let passes_by = &mut passes_by[row * units..][..units];
                    let dn = if is_gru { &mut dn[at * units..][..units] } else { &mut [] };
                    if !is_there(mask, at) {
                        dz.fill(0.0);
                        dn.fill(0.0);
                        passes_by.copy_from_slice(dh);
                        continue;
                    }
                    dh.iter_mut().zip(&dy[at * units..][..units]).for_each(|(dh, dy)| *dh += dy);
                    let of = |plane: &'_ [f32], place: Option<usize>| {
                        place.map(|place| place * units).filter(|_| !plane.is_empty())
                    };
                    let last = before.map(|before| row * steps + before);
                    let h_before = of(h_plane, last).map_or(nothing, |place| &h_plane[place..][..units]);
                    let c_before = of(others, last).map_or(nothing, |place| &others[place..][..units]);
                    let other = of(others, Some(at)).map_or(nothing, |place| &others[place..][..units]);
                    let gates = &gates[at * columns..][..columns];
                    let row = BackRow { gates, other, before: [h_before, c_before], p };
                    back_of_row(&op, &row, dh, dc, passes_by, dz, dn);
                    if let Cell::Lstm { peepholes: true } = op.cell
                        && !dp.is_empty()
                    {
                        for (which, (gate, seen)) in [(0, c_before), (1, c_before), (3, other)].into_iter().enumerate()
                        {
                            let dz = &dz[gate * units..][..units];
                            let dp = &mut dp[which * units..][..units];
                            dp.iter_mut().zip(dz).zip(seen).for_each(|((dp, dz), seen)| *dp += dz * seen);
                        }
                    }
                }
            }
        ));
        if turn == 0 || op.is_cut_before(turn) {
            dh.fill(0.0);
            dc.fill(0.0);
            continue;
        }
        if (0..rows).all(|row| !is_there(mask, row * steps + t)) {
            // The slopes of the gates are 0, and `dh` passes by as it is.
            continue;
        }
        let matrices = [Matrix::Rows(&dz[t * columns..], steps * columns), Matrix::Columns(r, columns)];
        op.back(rows).run(instructions, matrices, dh, is_first, scratch);
        is_first = false;
        dh.iter_mut().zip(&*passes_by).for_each(|(dh, more)| *dh += more);
    }
    if let Some(proposed) = pass.dbias.get_mut(columns..).filter(|slopes| !slopes.is_empty()) {
        proposed.fill(0.0);
        for dz in dz.chunks_exact(columns) {
            proposed.iter_mut().zip(&dz[2 * units..]).for_each(|(db, dz)| *db += dz);
        }
    }
    swap_proposed(dz, dn, columns, units);
    sum_columns(dz, columns, false, pass.dbias.get_mut(..columns).unwrap_or_default());
    if !pass.dx.is_empty() {
        Product {
            rows: all,
            depth: columns,
            columns: inputs,
            a: Matrix::Rows(dz, columns),
            b: Matrix::Columns(w, columns),
            c: pass.dx,
            bias: &[],
            relu: false,
            scratch,
            packing: Packing::Blocks,
            next: WrittenNext::default(),
        }
        .run(instructions);
    }
    if !learns {
        return;
    }
    let mut gradient = |depth: usize, x: &[f32], dy: &[f32], dweights: &mut [f32]| {
        let (examples, next) = (dy.len() / columns, WrittenNext::default());
        let of =
            RowsOfGradient { examples, rows: 0..depth, x: &[x], dy: &[dy], dweights, scratch, goes_on: false, next };
        weight_gradient(instructions, [depth, columns], of);
    };
    gradient(inputs, pass.x, dz, dw);
    swap_proposed(dz, dn, columns, units);
    // Every step with what was before it; the first of each sequence has nothing before it.
    for row in 0..rows {
        dz[(row * steps + op.step(0)) * columns..][..columns].fill(0.0);
    }
    forget_what_nobody_followed(op, mask, h_plane);
    match all - 1 {
        0 => dr.fill(0.0),
        _ if op.is_reversed => gradient(units, &h_plane[units..], &dz[..(all - 1) * columns], dr),
        _ => gradient(units, &h_plane[..(all - 1) * units], &dz[columns..], dr),
    }
}

/// Sets what came out to 0 where the step behind it is not there, whose slopes are 0: products leave out zeros.
fn forget_what_nobody_followed(op: &Recurrence, mask: Option<&[f32]>, h_plane: &mut [f32]) {
    if mask.is_none() {
        return;
    }
    for (at, h) in h_plane.chunks_exact_mut(op.units).enumerate() {
        let behind = if op.is_reversed { at.checked_sub(1) } else { Some(at + 1) };
        // Beyond the ends of a sequence slopes were set to 0, too.
        let is_within = behind.filter(|behind| behind / op.steps == at / op.steps);
        if is_within.is_none_or(|behind| !is_there(mask, behind)) {
            h.fill(0.0);
        }
    }
}

/// Puts the slopes of what a GRU proposed, by what comes in, in the place of those by what was before; and back again.
fn swap_proposed(dz: &mut [f32], dn: &mut [f32], columns: usize, units: usize) {
    if !dn.is_empty() {
        for (dz, dn) in dz.chunks_exact_mut(columns).zip(dn.chunks_exact_mut(units)) {
            dz[2 * units..].swap_with_slice(dn);
        }
    }
}
