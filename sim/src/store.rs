//! What is on the disk, and what a master's loop wants of its surroundings.

use std::collections::BTreeMap;
use std::path::PathBuf;

use paceline_cluster::coordination::{CoordinationError, Loss, RunRecord};
use paceline_cluster::loops::{Answer, Begun, Checkpoint, Exported, Operation};

use paceline_exchange::Bulk;
use paceline_exchange::rounds::{Now, Round, Schedule};

use crate::network::Pid;
use crate::numbers::State;
use crate::replica::read_state;
use crate::world::{Happening, Rules, World};

/// The files that all masters share.
#[derive(Default)]
pub(crate) struct Store {
    pub files: BTreeMap<String, Checkpoint>,
    pub model: Option<State>,
    /// The last state that was to be written, and what was left behind it.
    held: Option<(u64, Round, Schedule)>,
    /// Who could not write a checkpoint last, in which term, and when it was told so by its clock.
    failed: Option<(Pid, u64, Now)>,
}

/// What a master has written.
pub(crate) enum Written {
    Checkpoint(String, Box<Checkpoint>),
    Model(Option<State>),
}

impl Store {
    /// A file is there when all of it is on the disk: what a master leaves behind that dies before is not read.
    pub(crate) fn take(&mut self, written: Written) {
        match written {
            Written::Checkpoint(path, checkpoint) => drop(self.files.insert(path, *checkpoint)),
            Written::Model(model) => self.model = model,
        }
    }
}

impl World {
    pub(crate) fn begin(&mut self, pid: Pid, operation: Operation) {
        let delay = self.random.within(1, 20);
        match operation {
            Operation::Lead => self.stand(pid),
            Operation::Resign => self.resign(pid),
            Operation::Publish(record) => self.publish(pid, record),
            Operation::Load(record) => {
                let loaded = self.load(&record);
                self.after(delay, pid, Happening::Answered(loaded));
            }
            Operation::Save(checkpoint) => self.save(pid, checkpoint),
            Operation::Tidy(_) => {}
            Operation::Judge { epoch, state, .. } => {
                let delay = self.random.within(1, 500);
                self.after(delay, pid, Happening::Answered(Answer::Judged { epoch, state, scores: Ok(None) }));
            }
            Operation::KeepBest { .. } => {
                self.after(delay, pid, Happening::Answered(Answer::BestKept(Ok(()))));
            }
            Operation::Export { state, .. } => {
                let exported = Exported { path: "model".into(), digest: String::new(), scores: None, kept: None };
                let model = Box::new(Written::Model(read_state(&state).ok()));
                self.after(delay, pid, Happening::Written(model, Answer::Exported(Ok(Box::new(exported)))));
            }
        }
    }

    fn load(&mut self, record: &RunRecord) -> Answer {
        let path = record.checkpoint.clone().unwrap_or_default();
        let Some(checkpoint) = self.store.files.get(&path).cloned() else {
            self.watch.fail(self.now, format!("{path} was published, but is not there"));
            return Answer::Loaded(Err(CoordinationError::Lost { reason: Loss::NeverLed }.into()));
        };
        let Checkpoint { run, round, rest, is_finished, judged, state, .. } = checkpoint;
        Answer::Loaded(Ok(Box::new(Begun {
            run,
            round,
            rest,
            state,
            judged,
            path: Some(PathBuf::from(path)),
            is_finished,
            remark: None,
        })))
    }

    /// Whatever the disk does: a run may go back to any state that its master holds. One that is tried again was looked at when it was
    /// new: what counts may have been taken back since, but not in that state.
    pub(crate) fn look_at_state(&mut self, pid: Pid, held: (u64, Round, Schedule), state: &Bulk) {
        if self.store.held.as_ref() == Some(&held) {
            return;
        }
        let (term, round, rest) = held.clone();
        self.store.held = Some(held);
        if self.leads(pid, term) {
            match read_state(state) {
                Err(wrong) => self.watch.fail(self.now, wrong),
                Ok(state) => match self.rules {
                    Rules::Rounds => self.watch.published(self.now, round, &state, &rest),
                    Rules::Sharing => self.watch.shared_published(self.now, round, &state, &rest),
                },
            }
        }
    }

    /// Writing takes a while, and fails now and then.
    fn save(&mut self, pid: Pid, checkpoint: Checkpoint) {
        let delay = if self.random.one_in(10) { self.random.within(20, 3000) } else { self.random.within(1, 20) };
        let round = checkpoint.round;
        self.look_at_state(pid, (checkpoint.term, round, checkpoint.rest.clone()), &checkpoint.state);
        let shown = self.clocks.shows(pid, self.now);
        let is_the_same = |(by, term, at)| by == pid && term == checkpoint.term && shown < at + 900;
        if self.store.failed.is_some_and(is_the_same) {
            self.watch.fail(self.now, "a checkpoint that could not be written was tried again at once".into());
        }
        let happening = if self.disk_fails() {
            self.store.failed = Some((pid, checkpoint.term, shown + delay));
            self.watch.count("a checkpoint could not be written");
            Happening::Answered(Answer::Saved(round, Err("no space is left".to_owned())))
        } else {
            let path = format!("checkpoint-{}-{round}", checkpoint.term);
            let saved = Answer::Saved(round, Ok(PathBuf::from(&path)));
            Happening::Written(Box::new(Written::Checkpoint(path, Box::new(checkpoint))), saved)
        };
        self.after(delay, pid, happening);
    }
}
