//! How columns are cut into panels, by what the tiles of an instruction set can hold.

use super::dispatch::Instructions;

/// How columns are cut into panels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Columns {
    columns: usize,
    lanes: usize,
    /// Columns of a full panel.
    pub width: usize,
}

impl Columns {
    /// The cut that wastes the fewest lanes and rows.
    pub(super) fn cut(instructions: Instructions, rows: usize, columns: usize) -> Self {
        let (lanes, shapes) = instructions.tiles();
        let vectors = columns.div_ceil(lanes);
        let cost = |width: usize| {
            let of = |w: usize| {
                let (tile_rows, slowness) = shapes[w - 1];
                rows.div_ceil(tile_rows) * tile_rows * w * slowness
            };
            vectors / width * of(width) + if vectors % width > 0 { of(vectors % width) } else { 0 }
        };
        let width = (1..=shapes.len()).rev().min_by_key(|&w| cost(w)).expect("there is a tile");
        Self { columns, lanes, width: width * lanes }
    }

    /// The cut for packed strips.
    pub(super) fn beside_strips(instructions: Instructions, columns: usize) -> Self {
        let (lanes, _) = instructions.tiles();
        Self { columns, lanes, width: instructions.strip().width }
    }

    /// All columns.
    pub(super) fn columns(self) -> usize {
        self.columns
    }

    /// First column and number of columns of every panel.
    pub(super) fn panels(self) -> impl Iterator<Item = (usize, usize)> {
        (0..self.columns).step_by(self.width).map(move |start| (start, self.width.min(self.columns - start)))
    }

    /// Floats of a packed row of a panel with so many columns: whole vectors.
    pub(super) fn packed(self, count: usize) -> usize {
        count.next_multiple_of(self.lanes)
    }

    /// Columns when every panel is full.
    pub(super) fn padded(self) -> usize {
        self.columns.div_ceil(self.width) * self.width
    }
}

impl Instructions {
    /// Lanes, and for panels of 1, 2, … vectors the rows of a tile and how slow it is per element, in percent.
    fn tiles(self) -> (usize, &'static [(usize, usize)]) {
        match self {
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx512 => (16, &[(10, 130), (10, 106), (8, 100), (6, 100)]),
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx2 => (8, &[(8, 115), (6, 100), (4, 100)]),
            Instructions::Portable => (8, &[(4, 100), (2, 100)]),
        }
    }

    /// Floats of a vector.
    pub(super) fn lanes(self) -> usize {
        self.tiles().0
    }

    /// The tile of packed strips.
    pub(super) fn strip(self) -> Strip {
        match self {
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx512 => Strip { rows: 8, width: 48 },
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx2 => Strip { rows: 4, width: 24 },
            Instructions::Portable => Strip { rows: 2, width: 16 },
        }
    }
}

/// Rows and columns of a tile when both sides of the product are packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Strip {
    pub rows: usize,
    pub width: usize,
}
