//! Who leads, what is published, and what is on the disk.

use std::collections::BTreeMap;
use std::path::PathBuf;

use paceline_cluster::ClusterError;
use paceline_cluster::coordination::{CoordinationError, Leadership, Loss, RunRecord, RunStage};
use paceline_cluster::loops::{Answer, Begun, Checkpoint, Exported, Operation, Unpublished};
use paceline_exchange::Planted;

use crate::network::Pid;
use crate::numbers::State;
use crate::replica::read_state;
use crate::world::{Happening, Rules, World};

/// What survives all processes.
#[derive(Default)]
pub(crate) struct Store {
    pub term: u64,
    pub leader: Option<Pid>,
    /// Candidates, in the order in which they came.
    waiting: Vec<Pid>,
    pub record: Option<RunRecord>,
    files: BTreeMap<String, Checkpoint>,
    pub model: Option<State>,
    /// The term that each process leads, or believes to.
    terms: BTreeMap<Pid, u64>,
}

impl World {
    pub(crate) fn begin(&mut self, pid: Pid, operation: Operation) {
        let delay = self.random.within(1, 20);
        match operation {
            Operation::Lead => {
                self.store.waiting.push(pid);
                match self.store.leader {
                    None => self.after(delay, pid, Happening::Leads),
                    Some(_) => self.after(delay, pid, Happening::Answered(Answer::Standby)),
                }
            }
            Operation::Resign => {
                if self.store.leader == Some(pid) {
                    self.expire(pid);
                }
                self.store.waiting.retain(|waiting| *waiting != pid);
            }
            Operation::Publish(record) => self.publish(pid, record),
            Operation::Load(record) => {
                let loaded = self.load(&record);
                self.after(delay, pid, Happening::Answered(loaded));
            }
            Operation::Save(checkpoint) => self.save(pid, checkpoint),
            Operation::Tidy(_) => {}
            Operation::Judge { epoch, state } => {
                let delay = self.random.within(1, 500);
                self.after(delay, pid, Happening::Answered(Answer::Judged { epoch, state, scores: Ok(None) }));
            }
            Operation::KeepBest { .. } => {
                self.after(delay, pid, Happening::Answered(Answer::BestKept(Ok(()))));
            }
            Operation::Export { state, .. } => {
                self.store.model = read_state(&state).ok();
                let exported = Exported { path: "model".into(), digest: String::new(), scores: None };
                self.after(delay, pid, Happening::Answered(Answer::Exported(Ok(exported))));
            }
        }
    }

    /// The first candidate leads, if nobody does.
    pub(crate) fn lead_now(&mut self, pid: Pid) {
        if self.store.leader.is_some() || self.store.waiting.first() != Some(&pid) {
            return;
        }
        self.store.waiting.remove(0);
        if self.planted != Some(Planted::TakesTheSameTermAgain) || self.store.term == 0 {
            self.store.term += 1;
        }
        (self.store.leader, self.store.terms) = (Some(pid), {
            let mut terms = std::mem::take(&mut self.store.terms);
            terms.insert(pid, self.store.term);
            terms
        });
        let (term, found) = (self.store.term, self.store.record.clone());
        let round = found.as_ref().and_then(|record| self.store.files.get(record.checkpoint.as_ref()?));
        let round = round.map_or(0, |checkpoint| checkpoint.round);
        self.watch.master_began(self.now, term, round);
        let leadership = Leadership { term, found };
        self.tell_master(pid, paceline_cluster::loops::MasterInput::Done(Answer::Led(Ok(leadership))));
    }

    /// A leader is known to be gone, or has stepped down: the next one leads.
    pub(crate) fn expire(&mut self, leader: Pid) {
        if self.store.leader == Some(leader) {
            self.store.leader = None;
            // It learns of it from the coordinator, sooner or later.
            let delay = self.random.within(1, 3000);
            let lost = ClusterError::from(CoordinationError::Lost { reason: Loss::SessionExpired });
            self.after(delay, leader, Happening::Answered(Answer::Unled(lost)));
            let dead = &self.dead;
            self.store.waiting.retain(|pid| !dead.contains(pid));
            if let Some(next) = self.store.waiting.first().copied() {
                self.after(5, next, Happening::Leads);
            }
        }
    }

    /// A record becomes the newest, unless somebody else has taken a term since.
    fn publish(&mut self, pid: Pid, record: RunRecord) {
        let delay = self.random.within(1, 20);
        let newest = self.store.term;
        if record.term < newest {
            self.watch.count("an old master was fenced");
            let error = ClusterError::from(CoordinationError::Fenced { mine: record.term, newest });
            let answer = Answer::Published(Err(Unpublished::Succeeded(error)));
            return self.after(delay, pid, Happening::Answered(answer));
        }
        if let Some(RunStage::Ended { .. }) = self.store.record.as_ref().map(|record| &record.stage)
            && !matches!(record.stage, RunStage::Ended { .. })
        {
            return self.watch.fail(self.now, "a run that has ended was begun again".into());
        }
        self.store.record = Some(record);
        self.after(delay, pid, Happening::Answered(Answer::Published(Ok(()))));
    }

    fn load(&mut self, record: &RunRecord) -> Answer {
        let path = record.checkpoint.clone().unwrap_or_default();
        let Some(checkpoint) = self.store.files.get(&path).cloned() else {
            self.watch.fail(self.now, format!("{path} was published, but is not there"));
            return Answer::Loaded(Err(CoordinationError::Lost { reason: Loss::NeverLed }.into()));
        };
        let Checkpoint { run, round, rest, is_finished, judged, state, .. } = checkpoint;
        Answer::Loaded(Ok(Begun { run, round, rest, state, judged, path: Some(PathBuf::from(path)), is_finished }))
    }

    /// Writing takes a while, and fails now and then.
    fn save(&mut self, pid: Pid, checkpoint: Checkpoint) {
        let delay = if self.random.one_in(10) { self.random.within(20, 3000) } else { self.random.within(1, 20) };
        let round = checkpoint.round;
        // Whatever the disk does: a run may go back to any state that its master holds.
        if self.store.leader == Some(pid) && self.store.term == checkpoint.term {
            match read_state(&checkpoint.state) {
                Err(wrong) => self.watch.fail(self.now, wrong),
                Ok(state) => match self.rules {
                    Rules::Rounds => self.watch.published(self.now, round, &state, &checkpoint.rest),
                    Rules::Sharing => self.watch.shared_published(self.now, round, &state, &checkpoint.rest),
                },
            }
        }
        let saved = if self.disk_fails() {
            self.watch.count("a checkpoint could not be written");
            Err("no space is left".to_owned())
        } else {
            let path = format!("checkpoint-{}-{round}", checkpoint.term);
            self.store.files.insert(path.clone(), checkpoint);
            Ok(PathBuf::from(path))
        };
        self.after(delay, pid, Happening::Answered(Answer::Saved(round, saved)));
    }
}
