//! The units of one example at one step, some lanes at a time.

use crate::plain::recurrent::{Unit, step_back, step_forward};
use crate::recurrence::{Cell, Recurrence};

/// What is remembered of one step of one example besides its gates, and what was before.
pub(super) struct Memory<'a> {
    /// The cell of an LSTM, or what a GRU proposed; of a simple layer what came out.
    pub(super) other: &'a mut [f32],
    pub(super) h: &'a mut [f32],
    pub(super) h_before: Option<&'a [f32]>,
    pub(super) c_before: Option<&'a [f32]>,
}

impl<'a> Memory<'a> {
    /// Cuts it out of the planes behind the gates, of which the last is what came out.
    #[inline(always)]
    pub(super) fn cut(
        planes: &'a mut [f32],
        h_plane: &'a mut [f32],
        units: usize,
        at: usize,
        last: Option<usize>,
    ) -> Self {
        let (h, h_before) = here_and_before(h_plane, units, at, last);
        let (other, c_before) = here_and_before(planes, units, at, last);
        Self { other, h, h_before, c_before }
    }
}

/// The numbers of one place to be written, and those of another; nothing of a plane that is not there.
#[inline(always)]
fn here_and_before(plane: &mut [f32], units: usize, at: usize, last: Option<usize>) -> (&mut [f32], Option<&[f32]>) {
    if plane.is_empty() {
        return (&mut [], None);
    }
    match last {
        None => (&mut plane[at * units..][..units], None),
        Some(last) => {
            let ranges = [at * units..(at + 1) * units, last * units..(last + 1) * units];
            let [here, before] = plane.get_disjoint_mut(ranges).expect("two steps");
            (here, Some(before))
        }
    }
}

/// Units that are computed together: from arrays of their own, so that the compiler sees that nothing overlaps.
const LANES: usize = 16;
type Lanes = [f32; LANES];
const NONE: Lanes = [0.0; LANES];

/// Some units of a row, and zeros behind its end.
#[inline(always)]
fn load(row: &[f32], at: usize) -> Lanes {
    let mut lanes = [0.0; LANES];
    match row.get(at..at + LANES) {
        Some(whole) => lanes.copy_from_slice(whole),
        None => lanes[..row.len() - at].copy_from_slice(&row[at..]),
    }
    lanes
}

#[inline(always)]
fn store(lanes: &Lanes, row: &mut [f32], at: usize) {
    match row.get_mut(at..at + LANES) {
        Some(whole) => whole.copy_from_slice(lanes),
        None => {
            let rest = &mut row[at..];
            rest.copy_from_slice(&lanes[..rest.len()]);
        }
    }
}

/// The units of one example at one step.
#[inline(always)]
pub(super) fn step_of_row(
    op: &Recurrence,
    z: &mut [f32],
    given: &[f32],
    [h_before, c_before]: [&[f32]; 2],
    [p, proposed_bias]: [&[f32]; 2],
    memory: &mut Memory<'_>,
) {
    let units = op.units;
    let is_lstm = matches!(op.cell, Cell::Lstm { .. });
    let sees = op.cell == Cell::Lstm { peepholes: true };
    let is_gru = op.cell == Cell::Gru;
    let count = op.gates();
    for at in (0..units).step_by(LANES) {
        let (mut x, mut r, mut peep, mut out) = ([NONE; 4], [NONE; 4], [NONE; 3], [NONE; 6]);
        for gate in 0..count {
            x[gate] = load(&z[gate * units..(gate + 1) * units], at);
            r[gate] = load(&given[gate * units..(gate + 1) * units], at);
        }
        if sees {
            for row in 0..3 {
                peep[row] = load(&p[row * units..(row + 1) * units], at);
            }
        }
        let cell_before = if is_lstm { load(c_before, at) } else { NONE };
        let before = if is_gru { load(h_before, at) } else { NONE };
        let more = if is_gru { load(proposed_bias, at) } else { NONE };
        for lane in 0..LANES {
            let unit = Unit {
                z: [
                    [x[0][lane], x[1][lane], x[2][lane], x[3][lane]],
                    [r[0][lane], r[1][lane], r[2][lane] + more[lane], r[3][lane]],
                ],
                before: before[lane],
                cell_before: cell_before[lane],
                peepholes: [peep[0][lane], peep[1][lane], peep[2][lane]],
            };
            let found = step_forward(op, &unit);
            out[0][lane] = found[0];
            out[1][lane] = found[1];
            out[2][lane] = found[2];
            out[3][lane] = found[3];
            out[4][lane] = found[4];
            out[5][lane] = found[5];
        }
        for gate in 0..count {
            store(&out[gate], &mut z[gate * units..(gate + 1) * units], at);
        }
        if op.cell != Cell::Simple {
            store(&out[count], memory.other, at);
        }
        store(&out[op.planes() - 1], memory.h, at);
    }
}

/// What one example remembers of one step.
pub(super) struct BackRow<'a> {
    pub(super) gates: &'a [f32],
    pub(super) other: &'a [f32],
    pub(super) before: [&'a [f32]; 2],
    pub(super) p: &'a [f32],
}

/// Slopes of the units of one example at one step.
#[inline(always)]
#[expect(clippy::needless_range_loop, reason = "so the compiler sees arrays, and vectorises")]
pub(super) fn back_of_row(
    op: &Recurrence,
    row: &BackRow<'_>,
    dh: &[f32],
    dc: &mut [f32],
    passes_by: &mut [f32],
    dz: &mut [f32],
    dn: &mut [f32],
) {
    let units = op.units;
    let is_lstm = matches!(op.cell, Cell::Lstm { .. });
    let sees = op.cell == Cell::Lstm { peepholes: true };
    let is_gru = op.cell == Cell::Gru;
    let count = op.gates();
    let [h_before, c_before] = row.before;
    for at in (0..units).step_by(LANES) {
        let (mut planes, mut peep, mut by_x, mut by_h) = ([NONE; 5], [NONE; 3], NONE, [NONE; 4]);
        for gate in 0..count {
            planes[gate] = load(&row.gates[gate * units..(gate + 1) * units], at);
        }
        if op.cell != Cell::Simple {
            planes[count] = load(row.other, at);
        }
        if sees {
            for which in 0..3 {
                peep[which] = load(&row.p[which * units..(which + 1) * units], at);
            }
        }
        let cell_before = if is_lstm { load(c_before, at) } else { NONE };
        let before = if is_gru { load(h_before, at) } else { NONE };
        let (slope, mut of_cell, mut by_before) = (load(dh, at), load(dc, at), NONE);
        for lane in 0..LANES {
            let unit = Unit {
                z: [[0.0; 4]; 2],
                before: before[lane],
                cell_before: cell_before[lane],
                peepholes: [peep[0][lane], peep[1][lane], peep[2][lane]],
            };
            let planes = [planes[0][lane], planes[1][lane], planes[2][lane], planes[3][lane], planes[4][lane], 0.0];
            let slopes = step_back(op, planes, &unit, slope[lane], of_cell[lane]);
            by_x[lane] = slopes.z[0][2];
            by_h[0][lane] = slopes.z[1][0];
            by_h[1][lane] = slopes.z[1][1];
            by_h[2][lane] = slopes.z[1][2];
            by_h[3][lane] = slopes.z[1][3];
            of_cell[lane] = slopes.cell_before;
            by_before[lane] = slopes.before;
        }
        for gate in 0..count {
            store(&by_h[gate], &mut dz[gate * units..(gate + 1) * units], at);
        }
        if is_gru {
            store(&by_x, dn, at);
        }
        store(&of_cell, dc, at);
        store(&by_before, passes_by, at);
    }
}
