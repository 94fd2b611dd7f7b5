use std::path::{Path, PathBuf};

use paceline_model::{MOST_IN_A_PARTITION, MOST_PARTITIONS, PartitionId};
use serde::{Deserialize, Serialize};

use super::statistics::Statistics;
use crate::{Error, ExampleShape, NormaliserKind, Schema, Source, fingerprint};

/// What is known of a partition by those who do not have it. Written by who has it, read by the master.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PartitionNote {
    /// Which.
    pub partition: PartitionId,
    /// How many examples.
    pub examples: u64,
    /// Tells it apart from another of the same size.
    pub fingerprint: u64,
    /// What it has in common with the others.
    pub kind: Kind,
    /// What normalisers need.
    pub statistics: Statistics,
}

/// What all partitions have in common.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kind {
    /// What one example looks like.
    pub shape: ExampleShape,
    /// The columns and class names, where they were found in a file.
    pub schema: Option<Schema>,
    /// What usually brings these features near 0 to 1.
    pub normaliser: NormaliserKind,
    /// Whether every example carries its own weight.
    pub weighted: bool,
}

impl PartitionNote {
    /// Reads a note.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let fails = |source| Error::File { action: "read", path: path.to_owned(), source };
        let text = std::fs::read_to_string(path).map_err(fails)?;
        serde_json::from_str(&text).map_err(|error| Error::Partitions {
            reason: format!(
                "`{}` is not the note of a partition ({error}); `paceline data describe` writes them",
                path.display()
            ),
        })
    }

    /// Reads a partition once.
    pub fn of(partition: PartitionId, source: &dyn Source) -> Result<Self, Error> {
        let kind = Kind {
            shape: source.shape().clone(),
            schema: source.schema().cloned(),
            normaliser: source.default_normaliser(),
            weighted: source.weighted(),
        };
        let (examples, fingerprint, statistics) =
            (source.examples() as u64, fingerprint(source)?, Statistics::of(source)?);
        Ok(Self { partition, examples, fingerprint, kind, statistics })
    }
}

/// What is known of all partitions, put together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PartitionNotes {
    /// Examples and fingerprint of each, by number.
    pub partitions: Vec<(u64, u64)>,
    /// What they have in common.
    pub kind: Kind,
    /// Of all of them.
    pub statistics: Statistics,
}

impl PartitionNotes {
    /// Puts the notes of all partitions together, whatever their order.
    pub fn merge(mut notes: Vec<PartitionNote>) -> Result<Self, Error> {
        notes.sort_by_key(|note| note.partition);
        let Some(first) = notes.first().cloned() else {
            return Err(Error::Partitions { reason: "expected notes of partitions, found none".into() });
        };
        let (mut partitions, mut statistics) = (Vec::new(), None::<Statistics>);
        for (expected, note) in (0..).zip(&notes) {
            note.check(expected, &first)?;
            partitions.push((note.examples, note.fingerprint));
            // From the first to the last, so that the same notes come to the same.
            statistics = Some(match statistics {
                Some(statistics) => statistics.and(&note.statistics),
                None => note.statistics.clone(),
            });
        }
        let statistics = statistics.expect("there is a first");
        Ok(Self { partitions, kind: first.kind, statistics })
    }

    /// Fails unless it makes sense; to be asked of notes that came from elsewhere.
    pub(super) fn check(&self) -> Result<(), Error> {
        let is_large = self.partitions.iter().any(|(examples, _)| *examples > MOST_IN_A_PARTITION);
        let is_many = self.partitions.is_empty() || self.partitions.len() > MOST_PARTITIONS as usize;
        match is_large || is_many || !self.statistics.fits(self.kind.shape.width()) {
            true => Err(Error::Partitions { reason: "their notes do not fit together; describe them again".into() }),
            false => Ok(()),
        }
    }
}

impl PartitionNote {
    /// Fails unless this is the partition that comes next, and of the same kind as the first.
    fn check(&self, expected: PartitionId, first: &Self) -> Result<(), Error> {
        let refuse = |reason: String| Err(Error::Partitions { reason });
        if self.partition != expected {
            let what = if self.partition < expected { "two" } else { "none" };
            let number = self.partition.min(expected);
            return refuse(format!(
                "expected one note of partition {number}, found {what}; describe each once, from 0 on"
            ));
        }
        if self.examples > MOST_IN_A_PARTITION
            || expected >= MOST_PARTITIONS
            || !self.statistics.fits(self.kind.shape.width())
        {
            return refuse(format!("the note of partition {expected} makes no sense; describe it again"));
        }
        if self.kind != first.kind {
            return refuse(format!(
                "partition {expected} was read otherwise than partition {}, by other columns, classes or means: describe it again with `--like` and that one's note",
                first.partition
            ));
        }
        Ok(())
    }
}

/// Notes what a partition holds in a file of a folder, which is made if it is not there.
pub fn describe(partition: PartitionId, source: &dyn Source, folder: &Path) -> Result<PathBuf, Error> {
    let note = PartitionNote::of(partition, source)?;
    let text = serde_json::to_string(&note).expect("words and numbers can be written");
    let path = folder.join(format!("partition-{partition}.json"));
    let fails = |action, path: &Path| {
        let path = path.to_owned();
        move |source| Error::File { action, path, source }
    };
    std::fs::create_dir_all(folder).map_err(fails("make the folder", folder))?;
    let mut file = tempfile::NamedTempFile::new_in(folder).map_err(fails("write into", folder))?;
    std::io::Write::write_all(&mut file, text.as_bytes()).map_err(fails("write", &path))?;
    file.persist(&path).map_err(|error| fails("write", &path)(error.error))?;
    Ok(path)
}
