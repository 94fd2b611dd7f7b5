use std::sync::{Mutex, PoisonError};

use csv::Position;
use paceline_model::{Batch, Targets};

use super::Schema;
use super::decoder::{Decoded, Decoder};
use super::rows::Rows;
use crate::shuffle::WINDOW_BLOCKS;
use crate::source::{Notes, begin, check_indices, class_targets, value_targets};
use crate::{Error, ExampleShape, LeftOut, NormaliserKind, Order, Source};

/// Decoded blocks that are held: a batch touches at most the blocks of two windows.
pub(super) const MOST_HELD: usize = 2 * WINDOW_BLOCKS as usize;

/// A table that is too large for memory: blocks of rows are decoded when they are asked for, and the last few are held.
pub(super) struct BlockTable {
    pub(super) schema: Schema,
    pub(super) decoder: Decoder,
    pub(super) examples: usize,
    pub(super) block_rows: usize,
    /// Where each block begins in the file.
    pub(super) starts: Vec<Position>,
    pub(super) notes: Notes,
    /// One reader at a time decodes; another waits, and finds the block there.
    pub(super) cache: Mutex<Cache>,
}

pub(super) struct Cache {
    rows: Rows,
    held: Vec<Held>,
    clock: u64,
}

struct Held {
    block: usize,
    used: u64,
    decoded: Decoded,
}

impl Cache {
    pub(super) fn new(rows: Rows) -> Self {
        Self { rows, held: Vec::with_capacity(MOST_HELD), clock: 0 }
    }
}

impl BlockTable {
    /// The place of a block among those held, decoding it over the one unused for longest if it is not there.
    fn hold(&self, cache: &mut Cache, block: usize) -> Result<usize, Error> {
        cache.clock += 1;
        if let Some(at) = cache.held.iter().position(|held| held.block == block) {
            cache.held[at].used = cache.clock;
            return Ok(at);
        }
        let expected = self.block_rows.min(self.examples - block * self.block_rows);
        let mut decoded = match cache.held.len() < MOST_HELD {
            true => self.decoder.room(self.block_rows),
            false => {
                let oldest = (0..cache.held.len()).min_by_key(|at| cache.held[*at].used).expect("some are held");
                cache.held.swap_remove(oldest).decoded
            }
        };
        decoded.clear();
        cache.rows.seek(self.starts[block].clone())?;
        while decoded.rows < expected {
            if !self.decoder.read_row(&mut cache.rows, &mut decoded)? {
                let what = "it has fewer rows than before";
                return Err(Error::FileChanged { path: cache.rows.path.clone(), what });
            }
        }
        cache.held.push(Held { block, used: cache.clock, decoded });
        Ok(cache.held.len() - 1)
    }
}

impl Source for BlockTable {
    fn examples(&self) -> usize {
        self.examples
    }

    fn shape(&self) -> &ExampleShape {
        &self.decoder.shape
    }

    fn read(&self, indices: &[u64], batch: &mut Batch) -> Result<(), Error> {
        check_indices(indices, self.examples)?;
        let width = self.decoder.shape.width();
        begin(batch, indices, width);
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        let empty = self.decoder.room(0);
        match &empty.targets {
            Targets::None => batch.targets = Targets::None,
            Targets::Classes(_) => class_targets(batch).clear(),
            Targets::Values { width, .. } => value_targets(batch, *width).clear(),
        }
        match self.decoder.weighted() {
            true => batch.weights.get_or_insert_default().clear(),
            false => batch.weights = None,
        }
        for index in indices {
            let (block, row) = (*index as usize / self.block_rows, *index as usize % self.block_rows);
            let held = self.hold(&mut cache, block)?;
            let decoded = &cache.held[held].decoded;
            batch.features.extend_from_slice(&decoded.features[row * width..(row + 1) * width]);
            match (&mut batch.targets, &decoded.targets) {
                (Targets::Classes(classes), Targets::Classes(of)) => classes.push(of[row]),
                (Targets::Values { values, .. }, Targets::Values { width, values: of }) => {
                    values.extend_from_slice(&of[row * width..(row + 1) * width]);
                }
                _ => {}
            }
            if let (Some(weights), Some(of)) = (&mut batch.weights, &decoded.weights) {
                weights.push(of[row]);
            }
        }
        Ok(())
    }

    fn order(&self) -> Order {
        Order::Blocks { size: self.block_rows }
    }

    fn schema(&self) -> Option<&Schema> {
        Some(&self.schema)
    }

    fn default_normaliser(&self) -> NormaliserKind {
        NormaliserKind::Standardise
    }

    fn remarks(&self) -> &[String] {
        &self.notes.remarks
    }

    fn left_out(&self) -> &[LeftOut] {
        &self.notes.left_out
    }

    fn weighted(&self) -> bool {
        self.decoder.weighted()
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use paceline_model::Batch;

    use super::MOST_HELD;
    use crate::{OpenOptions, Shuffle, Source, table};

    #[test]
    fn never_more_than_the_bound_of_decoded_blocks_is_held() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("long.csv");
        let mut text = String::from("a,b\n");
        (0..30_000).for_each(|row| writeln!(text, "{row},{}", row % 7).unwrap());
        std::fs::write(&path, text).unwrap();
        let options = OpenOptions::default();
        let table =
            table::scan(&path, table::Format::Csv, &[("label", "b".to_owned())], &options).unwrap().into_blocks();
        assert!(table.starts.len() > 3 * MOST_HELD, "the file is many times the cache");
        let shuffle = Shuffle::new(table.examples(), table.order(), 3, 0);
        let (mut batch, mut most) = (Batch::empty(), 0);
        for start in (0..table.examples() as u64).step_by(500) {
            let indices: Vec<u64> = (start..start + 500).map(|at| shuffle.index_at(at)).collect();
            table.read(&indices, &mut batch).unwrap();
            assert!(indices.iter().zip(&batch.features).all(|(index, value)| *index as f32 == *value));
            most = most.max(table.cache.lock().unwrap().held.len());
        }
        assert_eq!(most, MOST_HELD);
        let held = table.cache.lock().unwrap();
        assert!(held.held.iter().all(|held| held.decoded.features.capacity() <= table.block_rows));
    }
}
