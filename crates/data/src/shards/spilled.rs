//! Where decoded rows are kept: in memory, or in a temporary file without a name.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::os::unix::fs::FileExt;

use paceline_model::{Batch, Targets};

use super::layout::{Layout, Piece};
use crate::source::{begin, check_indices, class_targets, value_targets};
use crate::{Error, ExampleShape, Source};

/// Decoded rows, one after the other.
pub(super) enum Spilled {
    InMemory { features: Vec<f32>, targets: Targets, weights: Option<Vec<f32>> },
    InFile(Rows),
}

/// Takes decoded rows; moves all to a file when they become too large for memory.
pub(super) struct Room {
    shape: ExampleShape,
    rows: usize,
    limit: usize,
    is_weighted: bool,
    features: Vec<f32>,
    targets: Targets,
    weights: Vec<f32>,
    file: Option<BufWriter<File>>,
}

impl Room {
    pub(super) fn new(layout: &Layout, limit: usize) -> Self {
        Self {
            shape: layout.shape.clone(),
            rows: 0,
            limit,
            is_weighted: layout.is_weighted(),
            features: Vec::new(),
            targets: layout.room(),
            weights: Vec::new(),
            file: None,
        }
    }

    pub(super) fn add(&mut self, piece: &Piece) -> Result<(), Error> {
        self.rows += piece.features.len() / self.shape.width();
        self.features.extend_from_slice(&piece.features);
        match (&mut self.targets, &piece.targets) {
            (Targets::Classes(all), Targets::Classes(some)) => all.extend_from_slice(some),
            (Targets::Values { values: all, .. }, Targets::Values { values: some, .. }) => all.extend_from_slice(some),
            _ => {}
        }
        self.weights.extend_from_slice(&piece.weights);
        match self.file.is_some() || 4 * self.features.len() > self.limit {
            true => self.spill(),
            false => Ok(()),
        }
    }

    /// Writes what is in memory to the file.
    fn spill(&mut self) -> Result<(), Error> {
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(BufWriter::with_capacity(1 << 20, tempfile::tempfile().map_err(no_room)?)),
        };
        let width = self.shape.width();
        for (row, features) in self.features.chunks_exact(width).enumerate() {
            for number in features {
                file.write_all(&number.to_le_bytes()).map_err(no_room)?;
            }
            match &self.targets {
                Targets::None => {}
                Targets::Classes(classes) => file.write_all(&classes[row].to_le_bytes()).map_err(no_room)?,
                Targets::Values { width, values } => {
                    for number in &values[row * width..(row + 1) * width] {
                        file.write_all(&number.to_le_bytes()).map_err(no_room)?;
                    }
                }
            }
            if self.is_weighted {
                file.write_all(&self.weights[row].to_le_bytes()).map_err(no_room)?;
            }
        }
        self.features.clear();
        self.weights.clear();
        match &mut self.targets {
            Targets::None => {}
            Targets::Classes(classes) => classes.clear(),
            Targets::Values { values, .. } => values.clear(),
        }
        Ok(())
    }

    pub(super) fn end(self) -> Result<Spilled, Error> {
        let Some(file) = self.file else {
            let weights = self.is_weighted.then_some(self.weights);
            return Ok(Spilled::InMemory { features: self.features, targets: self.targets, weights });
        };
        let file = file.into_inner().map_err(|error| no_room(error.into_error()))?;
        Ok(Spilled::InFile(Rows {
            shape: self.shape,
            rows: self.rows,
            is_weighted: self.is_weighted,
            targets: self.targets,
            file,
        }))
    }
}

fn no_room(source: std::io::Error) -> Error {
    Error::File { action: "keep decoded rows in a temporary file in", path: std::env::temp_dir(), source }
}

/// Rows of the same size in a file.
pub(super) struct Rows {
    shape: ExampleShape,
    rows: usize,
    is_weighted: bool,
    /// Empty: their kind.
    targets: Targets,
    file: File,
}

impl Source for Rows {
    fn examples(&self) -> usize {
        self.rows
    }

    fn shape(&self) -> &ExampleShape {
        &self.shape
    }

    fn read(&self, indices: &[u64], batch: &mut Batch) -> Result<(), Error> {
        check_indices(indices, self.rows)?;
        let width = self.shape.width();
        begin(batch, indices, width);
        let targets = match &self.targets {
            Targets::None => 0,
            Targets::Classes(_) => 1,
            Targets::Values { width, .. } => *width,
        };
        match &self.targets {
            Targets::None => batch.targets = Targets::None,
            Targets::Classes(_) => class_targets(batch).clear(),
            Targets::Values { width, .. } => value_targets(batch, *width).clear(),
        }
        match self.is_weighted {
            true => batch.weights.get_or_insert_default().clear(),
            false => batch.weights = None,
        }
        let mut row = vec![0; 4 * (width + targets + usize::from(self.is_weighted))];
        let size = row.len() as u64;
        for index in indices {
            self.file.read_exact_at(&mut row, index * size).map_err(no_room)?;
            let words = row.as_chunks::<4>().0;
            batch.features.extend(words[..width].iter().map(|word| f32::from_le_bytes(*word)));
            match &mut batch.targets {
                Targets::None => {}
                Targets::Classes(classes) => classes.push(u32::from_le_bytes(words[width])),
                Targets::Values { values, .. } => {
                    values.extend(words[width..width + targets].iter().map(|word| f32::from_le_bytes(*word)));
                }
            }
            if let Some(weights) = &mut batch.weights {
                weights.push(f32::from_le_bytes(words[width + targets]));
            }
        }
        Ok(())
    }

    fn weighted(&self) -> bool {
        self.is_weighted
    }
}
