//! A panel: all rows of a few columns, tile by tile.

#![expect(unsafe_code, reason = "hands raw pointers to the tile; every `Panel` is made from checked slices")]

use super::dispatch::{Instructions, Work};
use super::live::LiveSteps;
use super::tile::{Finish, LINE, Sum, UNROLLED, rows, tile};
use super::vector::{Registers, Vector};

/// Where the rows of a matrix start, in floats from a base.
#[derive(Clone, Copy)]
pub(super) enum Rows<'a> {
    /// So many floats apart.
    Every(usize),
    /// As the table says.
    At(&'a [u32]),
    /// In strips of as many rows as a packed tile has, each with so many steps; the last strip is whole.
    Strips(usize),
    /// The same, but only the steps that a list names lie there, in a row.
    LiveStrips(usize, &'a LiveSteps),
}

impl Rows<'_> {
    #[inline(always)]
    fn start(self, row: usize) -> usize {
        match self {
            Rows::Every(stride) => row * stride,
            Rows::At(table) => table[row] as usize,
            Rows::Strips(steps) | Rows::LiveStrips(steps, _) => row * steps,
        }
    }

    /// Where the last of `rows` rows starts.
    fn last(self, rows: usize) -> usize {
        match self {
            Rows::At(table) => table[..rows].iter().map(|&r| r as usize).max().unwrap_or(0),
            _ => self.start(rows - 1),
        }
    }
}

/// One panel of columns, all rows: C[rows, columns] ← Σ A · B.
pub(super) struct Panel<'a> {
    pub rows: usize,
    pub columns: usize,
    pub a: &'a [f32],
    pub a_rows: Rows<'a>,
    pub b: &'a [f32],
    /// Whether the rows of B are as far apart as [`Columns::packed`] says, with floats to read behind the last column.
    pub b_is_packed: bool,
    pub c: &'a mut [f32],
    pub c_rows: Rows<'a>,
    pub sum: Sum<'a>,
    pub bias: Option<&'a [f32]>,
    pub add: bool,
    pub relu: bool,
    /// With packed strips.
    pub ahead: Ahead<'a>,
}

/// What comes to the second-level cache while a panel is computed, as far as it gets.
#[derive(Clone, Copy, Default)]
pub(super) struct Ahead<'a> {
    pub values: [&'a [f32]; 2],
    /// Whether it comes twice as fast.
    pub hurry: bool,
    /// Whether it is taken from other cores, to be written.
    pub from_others: bool,
}

impl Panel<'_> {
    /// Floats of each of `ahead` that a panel of packed strips gets.
    pub(super) fn fetched(instructions: Instructions, rows: usize, steps: usize, hurry: bool) -> usize {
        rows.div_ceil(instructions.strip().rows) * fetched(steps, hurry)
    }

    /// Computes the panel.
    pub(super) fn run(self, instructions: Instructions) {
        if self.rows > 0 && self.columns > 0 {
            self.check(instructions);
            instructions.run(self);
        }
    }

    /// Holds what the tile relies on; once per panel, so it costs nothing that could be measured.
    fn check(&self, instructions: Instructions) {
        let steps = self.sum.steps.saturating_sub(1);
        if !self.sum.runs.is_empty() && self.sum.steps > 0 {
            if let Rows::Strips(steps) | Rows::LiveStrips(steps, _) = self.a_rows {
                let rows = self.rows.next_multiple_of(instructions.strip().rows);
                assert!(self.b_is_packed && self.sum.steps == steps, "strips are as long as the sum");
                assert!(rows * steps <= self.a.len(), "a panel reads A to its end at most");
            } else {
                let reach = self.sum.runs.iter().map(|(a, _)| a + steps * self.sum.a_step).max().unwrap_or(0);
                assert!(self.a_rows.last(self.rows) + reach < self.a.len(), "a panel reads A to its end at most");
            }
            let reach = self.sum.runs.iter().map(|(_, b)| b + steps * self.sum.b_step).max().unwrap_or(0);
            let room = if self.b_is_packed { self.sum.b_step } else { self.columns };
            assert!(reach + room <= self.b.len(), "a panel reads B to its end at most");
            assert!(!self.b_is_packed || self.sum.b_step >= self.columns, "a packed row holds all columns");
        }
        assert!(self.c_rows.last(self.rows) + self.columns <= self.c.len(), "a panel writes C to its end at most");
        assert!(self.bias.is_none_or(|bias| bias.len() >= self.columns), "a bias for every column");
    }

    /// Packed strips have as many rows as [`Instructions::strip`] says, whatever the columns.
    #[inline(always)]
    unsafe fn run_strips<V: Vector, const A: u8>(&mut self, vectors: usize) {
        // SAFETY: the caller checked the instructions of `V`.
        unsafe {
            match (V::REGISTERS, vectors) {
                #[cfg(target_arch = "x86_64")]
                (Registers::ThirtyTwo, 3) => self.strips::<V, 8, 3, true, A>(),
                #[cfg(target_arch = "x86_64")]
                (Registers::ThirtyTwo, 2) => self.strips::<V, 8, 2, true, A>(),
                #[cfg(target_arch = "x86_64")]
                (Registers::ThirtyTwo, 1) => self.strips::<V, 8, 1, true, A>(),
                #[cfg(target_arch = "x86_64")]
                (Registers::Sixteen, 3) => self.strips::<V, 4, 3, true, A>(),
                #[cfg(target_arch = "x86_64")]
                (Registers::Sixteen, 2) => self.strips::<V, 4, 2, true, A>(),
                #[cfg(target_arch = "x86_64")]
                (Registers::Sixteen, 1) => self.strips::<V, 4, 1, true, A>(),
                (Registers::Few, 2) => self.strips::<V, 2, 2, true, A>(),
                (Registers::Few, 1) => self.strips::<V, 2, 1, true, A>(),
                _ => unreachable!("`Columns` cuts panels that a tile can hold"),
            }
        }
    }

    #[inline(always)]
    unsafe fn tiles<V: Vector, const ROWS: usize, const VECTORS: usize>(&mut self) {
        // SAFETY: the caller checked the instructions of `V`.
        unsafe {
            match (self.b_is_packed, self.sum.a_step) {
                (true, 1) => self.strips::<V, ROWS, VECTORS, true, { rows::UNIT_STEP }>(),
                (true, _) => self.strips::<V, ROWS, VECTORS, true, { rows::ANYWHERE }>(),
                (false, _) => self.strips::<V, ROWS, VECTORS, false, { rows::ANYWHERE }>(),
            }
        }
    }

    #[inline(always)]
    unsafe fn strips<V: Vector, const ROWS: usize, const VECTORS: usize, const PACKED: bool, const A: u8>(&mut self) {
        let mut finish = Finish {
            ahead: self.ahead.values.map(<[f32]>::as_ptr),
            hurry: self.ahead.hurry,
            from_others: self.ahead.from_others,
            add: self.add,
            bias: self.bias.map_or(std::ptr::null(), <[f32]>::as_ptr),
            relu: self.relu,
        };
        let (a, b, c) = (self.a.as_ptr(), self.b.as_ptr(), self.c.as_mut_ptr());
        let (mut sum, columns) = (self.sum, self.columns);
        assert!(!PACKED || sum.b_step == VECTORS * V::LANES, "packed rows are whole vectors");
        let mut row = 0;
        while row < self.rows {
            let live = ROWS.min(self.rows - row);
            if let Rows::LiveStrips(_, lists) = self.a_rows {
                sum.listed = lists.of(row / ROWS);
            }
            // Rows behind the last are computed like it and not written.
            let at = |i: usize| row + i.min(live - 1);
            let starts: [usize; ROWS] = std::array::from_fn(|i| self.a_rows.start(at(i)));
            let adjacent = A == rows::ANYWHERE && (0..ROWS).all(|i| starts[i] == starts[0] + i);
            // SAFETY: `check` held that every row's reads and writes end inside the slices.
            unsafe {
                let a: [*const f32; ROWS] = std::array::from_fn(|i| a.add(starts[i]));
                let c: [*mut f32; ROWS] = std::array::from_fn(|i| c.add(self.c_rows.start(at(i))));
                if adjacent {
                    tile::<V, ROWS, VECTORS, PACKED, { rows::ADJACENT }>(&a, b, &c, sum, live, columns, finish);
                } else {
                    tile::<V, ROWS, VECTORS, PACKED, A>(&a, b, &c, sum, live, columns, finish);
                }
            }
            finish.ahead = finish.ahead.map(|at| at.wrapping_add(fetched(sum.steps, self.ahead.hurry)));
            row += ROWS;
        }
    }
}

/// Floats of each of `ahead` that a tile of packed strips gets.
fn fetched(steps: usize, hurry: bool) -> usize {
    (1 + usize::from(hurry)) * (steps / UNROLLED) * LINE
}

impl Work for Panel<'_> {
    #[inline(always)]
    unsafe fn run<V: Vector>(mut self) {
        let vectors = self.columns.div_ceil(V::LANES);
        // SAFETY: the caller checked the instructions of `V`.
        unsafe {
            match self.a_rows {
                Rows::Strips(_) => return self.run_strips::<V, { rows::STRIP }>(vectors),
                Rows::LiveStrips(..) => return self.run_strips::<V, { rows::LISTED }>(vectors),
                Rows::Every(_) | Rows::At(_) => {}
            }
            match (V::REGISTERS, vectors) {
                #[cfg(target_arch = "x86_64")]
                (Registers::ThirtyTwo, 4) if self.rows == 1 => self.tiles::<V, 1, 4>(),
                #[cfg(target_arch = "x86_64")]
                (Registers::ThirtyTwo, 4) => self.tiles::<V, 6, 4>(),
                #[cfg(target_arch = "x86_64")]
                (Registers::ThirtyTwo, 3) => self.tiles::<V, 8, 3>(),
                #[cfg(target_arch = "x86_64")]
                (Registers::ThirtyTwo, 2) => self.tiles::<V, 10, 2>(),
                #[cfg(target_arch = "x86_64")]
                (Registers::ThirtyTwo, 1) => self.tiles::<V, 10, 1>(),
                #[cfg(target_arch = "x86_64")]
                (Registers::Sixteen, 3) => self.tiles::<V, 4, 3>(),
                #[cfg(target_arch = "x86_64")]
                (Registers::Sixteen, 2) => self.tiles::<V, 6, 2>(),
                #[cfg(target_arch = "x86_64")]
                (Registers::Sixteen, 1) => self.tiles::<V, 8, 1>(),
                (Registers::Few, 2) => self.tiles::<V, 2, 2>(),
                (Registers::Few, 1) => self.tiles::<V, 4, 1>(),
                _ => unreachable!("`Columns` cuts panels that a tile can hold"),
            }
        }
    }
}
