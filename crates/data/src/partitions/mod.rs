//! Data that lives with workers: each has some partitions, and everybody knows how many examples there are in all of them.

mod note;
mod statistics;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use paceline_model::{Batch, PartitionId, place_of, within_partition};

pub use note::{PartitionNote, PartitionNotes, describe};
pub use statistics::Statistics;

use crate::{Error, ExampleShape, NormaliserKind, OpenOptions, Order, PartitionSource, Schema, Shuffle, Source, open};

/// A partition that is here.
#[derive(Clone)]
pub struct HeldPartition {
    /// Its examples.
    pub source: Arc<dyn Source>,
    /// The only epoch that it is here for, from 0.
    pub epoch: Option<u64>,
}

/// All partitions, some of which are here. An index says which partition it is of; what is not here cannot be read.
pub struct Partitions {
    notes: PartitionNotes,
    held: BTreeMap<PartitionId, HeldPartition>,
}

impl Partitions {
    /// All partitions of these notes, with those that are here.
    pub fn new(notes: PartitionNotes, held: BTreeMap<PartitionId, HeldPartition>) -> Result<Self, Error> {
        notes.check()?;
        if let Some(unknown) = held.keys().find(|partition| **partition as usize >= notes.partitions.len()) {
            let reason = format!("expected a partition from 0 to {}, found {unknown}", notes.partitions.len() - 1);
            return Err(Error::Partitions { reason });
        }
        for (partition, HeldPartition { source, .. }) in &held {
            if *source.shape() != notes.kind.shape {
                let (expected, found) = (&notes.kind.shape, source.shape());
                let reason =
                    format!("partition {partition} is not as it was described: expected {expected:?}, found {found:?}");
                return Err(Error::Partitions { reason });
            }
        }
        Ok(Self { notes, held })
    }

    /// From `partitions:FOLDER`, where a folder has the notes of all partitions, or `partitions:{…}`, where they stand themselves.
    pub(crate) fn open(rest: &str, options: &OpenOptions) -> Result<Self, Error> {
        let notes: PartitionNotes = match rest.starts_with('{') {
            true => serde_json::from_str(rest)
                .map_err(|error| Error::Partitions { reason: format!("their notes cannot be read: {error}") })?,
            false => PartitionNotes::merge(read_folder(&options.path(rest)?)?)?,
        };
        // They are files of who has them, wherever they lie, and are read as the others are.
        let own = OpenOptions {
            schema: notes.kind.schema.clone(),
            confined: false,
            held: BTreeMap::new(),
            ..options.clone()
        };
        let held = options.held.iter().map(|(partition, (source, epoch))| {
            let source = match source {
                PartitionSource::Open(source) => source.clone(),
                PartitionSource::Named(spec) => open(spec, &own)?,
            };
            Ok((*partition, HeldPartition { source, epoch: *epoch }))
        });
        let held = held.collect::<Result<_, Error>>()?;
        Self::new(notes, held)
    }

    /// What is known of all of them.
    pub fn notes(&self) -> &PartitionNotes {
        &self.notes
    }

    /// Those that are here.
    pub fn held(&self) -> &BTreeMap<PartitionId, HeldPartition> {
        &self.held
    }

    /// The index of the example at a place of an epoch's order: every partition has an order of its own.
    pub(crate) fn index_at(
        &self,
        place: u64,
        shuffle: impl Fn(&dyn Source, PartitionId) -> Shuffle,
    ) -> Result<u64, Error> {
        let (partition, at) = within_partition(place);
        let held = self.held.get(&partition).ok_or_else(|| not_here(partition))?;
        let order = shuffle(&*held.source, partition);
        match at < order.examples() {
            true => Ok(place_of(partition, order.index_at(at))),
            false => Err(Error::IndexOutOfRange { index: at, examples: order.examples() as usize }),
        }
    }
}

fn not_here(partition: PartitionId) -> Error {
    Error::Partitions { reason: format!("partition {partition} is not here") }
}

fn read_folder(folder: &Path) -> Result<Vec<PartitionNote>, Error> {
    let fails = |action, path: &Path| {
        let path = path.to_owned();
        move |source| Error::File { action, path, source }
    };
    let mut notes = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(fails("read the folder", folder))? {
        let path = entry.map_err(fails("read the folder", folder))?.path();
        if path.extension().is_some_and(|extension| extension == "json") {
            notes.push(PartitionNote::read(&path)?);
        }
    }
    Ok(notes)
}

impl Source for Partitions {
    fn examples(&self) -> usize {
        self.notes.partitions.iter().map(|(examples, _)| *examples as usize).sum()
    }

    fn shape(&self) -> &ExampleShape {
        &self.notes.kind.shape
    }

    fn read(&self, indices: &[u64], batch: &mut Batch) -> Result<(), Error> {
        let mut pieces = indices.chunk_by(|a, b| within_partition(*a).0 == within_partition(*b).0);
        self.read_piece(pieces.next().unwrap_or(&[]), batch)?;
        let mut more = Batch { epoch: batch.epoch, ..Batch::empty() };
        for piece in pieces {
            self.read_piece(piece, &mut more)?;
            batch.take_last(piece.len(), &mut more);
        }
        Ok(())
    }

    fn order(&self) -> Order {
        Order::Any
    }

    fn schema(&self) -> Option<&Schema> {
        self.notes.kind.schema.as_ref()
    }

    fn default_normaliser(&self) -> NormaliserKind {
        self.notes.kind.normaliser
    }

    fn weighted(&self) -> bool {
        self.notes.kind.weighted
    }

    fn partitions(&self) -> Option<&Partitions> {
        Some(self)
    }
}

impl Partitions {
    /// Examples of one partition.
    fn read_piece(&self, indices: &[u64], batch: &mut Batch) -> Result<(), Error> {
        let Some(first) = indices.first() else {
            // No example at all has the shape of all others.
            let any = self.held.values().next().ok_or_else(|| not_here(0))?;
            return any.source.read(&[], batch);
        };
        let partition = within_partition(*first).0;
        let held = self.held.get(&partition).ok_or_else(|| not_here(partition))?;
        let within: Vec<u64> = indices.iter().map(|index| within_partition(*index).1).collect();
        held.source.read(&within, batch)?;
        batch.indices.clear();
        batch.indices.extend_from_slice(indices);
        Ok(())
    }
}
