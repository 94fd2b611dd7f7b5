//! What the rules were told and what they decided, line by line, so that a run can be replayed.
//!
//! ```text
//! {"master": STATE} or {"member": STATE}      where it begins; again for every incarnation
//! {"now": MS, "event": EVENT, "actions": [ACTION, …]}
//! ```
//!
//! `paceline-sim --replay FILE` gives the events to the rules again and compares the actions.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use paceline_exchange::rounds::Now;
use paceline_exchange::{MasterRules, MemberRules};
use serde::Serialize;

use crate::ClusterError;

/// A file that grows, or nothing.
#[derive(Default)]
pub struct Record {
    file: Option<BufWriter<File>>,
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Begins<'a> {
    Master(&'a MasterRules),
    Member(&'a MemberRules),
}

#[derive(Serialize)]
struct Line<'a, E, A> {
    now: Now,
    event: &'a E,
    actions: &'a [A],
}

impl Record {
    pub(crate) fn new(path: Option<&Path>) -> Result<Self, ClusterError> {
        let open = |path: &Path| {
            let failed =
                |source| ClusterError::Unwritable { what: "the record of `--record`", path: path.to_owned(), source };
            Ok::<_, ClusterError>(BufWriter::new(File::create(path).map_err(failed)?))
        };
        Ok(Self { file: path.map(open).transpose()? })
    }

    pub(crate) fn master(&mut self, machine: &MasterRules) {
        self.write(&Begins::Master(machine));
    }

    pub(crate) fn member(&mut self, machine: &MemberRules) {
        self.write(&Begins::Member(machine));
    }

    /// Whether anybody wants to know.
    pub(crate) fn is_on(&self) -> bool {
        self.file.is_some()
    }

    pub(crate) fn note<E: Serialize, A: Serialize>(&mut self, now: Now, event: &E, actions: &[A]) {
        self.write(&Line { now, event, actions });
    }

    fn write(&mut self, line: &impl Serialize) {
        let Some(file) = &mut self.file else { return };
        let line = serde_json::to_string(line).expect("words, numbers and lists can be written");
        // A record that cannot be written is given up; the run is worth more.
        if writeln!(file, "{line}").and_then(|()| file.flush()).is_err() {
            self.file = None;
        }
    }
}
