//! How a checkpoint comes to stand: it is written, then published, and then the rules hear of it.

use std::path::PathBuf;

use paceline_exchange::Planted;
use paceline_exchange::rounds::{MasterEvent, Round, Schedule};
use paceline_train::Event;

use super::board;
use super::host::{Checkpoint, MasterHost, Operation, Unpublished};
use super::term::Term;
use crate::ClusterError;
use crate::coordination::{RunRecord, RunStage};

/// What follows when a record is published.
#[derive(Debug)]
pub(super) enum Purpose {
    /// The checkpoint of a round stands, with so many steps in it.
    Checkpoint { round: Round, steps: u64, path: PathBuf, record: RunRecord },
    /// The best model may be written.
    Best(Operation),
    /// The last state may be judged and written as the model.
    Trained,
    /// The run is over.
    Ended,
}

impl Term {
    pub(super) fn save(&mut self, round: Round, rest: Schedule, host: &mut dyn MasterHost) {
        if let Some(state) = self.states.remove(&round) {
            self.being_saved = Some((round, state));
        }
        let Some((_, state)) = self.being_saved.clone().filter(|(of, _)| *of == round) else { return };
        let is_finished = rest.is_done() || self.enough.is_some();
        if Planted::ForgetsWhatCouldNotBeSaved.is(self.setup.planted) {
            self.being_saved = None;
        }
        if Planted::PublishesBeforeItIsWritten.is(self.setup.planted) {
            let mut record = self.record.clone();
            record.checkpoint = Some(format!("checkpoint-{}-{round}", record.term));
            self.publishing.push_back(Purpose::Best(Operation::Tidy(PathBuf::new())));
            self.ask(host, Operation::Publish(record));
        }
        let (run, term, judged) = (self.record.run, self.record.term, self.judging.kept(host.now()));
        self.ask(host, Operation::Save(Checkpoint { run, term, round, rest, is_finished, judged, state }));
    }

    /// A checkpoint is written. Others hear of it by the record: whoever was succeeded is refused there.
    pub(super) fn take_saved(
        &mut self,
        round: Round,
        saved: Result<PathBuf, String>,
        host: &mut dyn MasterHost,
    ) -> Result<(), ClusterError> {
        if self.ended.is_some() {
            // It came to its end without it.
            return Ok(());
        }
        let is_missed = Planted::TakesAFailedSaveForDone.is(self.setup.planted);
        let saved = if is_missed {
            saved.or_else(|_| Ok(format!("checkpoint-{}-{round}", self.number()).into()))
        } else {
            saved
        };
        match saved {
            Err(_) if Planted::SavesWithoutAPause.is(self.setup.planted) => {
                self.save(round, self.machine.newest(), host);
                Ok(())
            }
            Err(reason) => self.feed(MasterEvent::SaveFailed(round, reason), host),
            Ok(path) => {
                let rest = self.machine.newest();
                let is_finished = rest.is_done() || self.enough.is_some();
                let mut record = self.record.clone();
                record.checkpoint = Some(path.display().to_string());
                record.stage = if is_finished { RunStage::Trained } else { RunStage::Running };
                self.ask(host, Operation::Publish(record.clone()));
                self.publishing.push_back(Purpose::Checkpoint { round, steps: rest.steps(), path, record });
                Ok(())
            }
        }
    }

    pub(super) fn take_published(
        &mut self,
        published: Result<(), Unpublished>,
        host: &mut dyn MasterHost,
    ) -> Result<(), ClusterError> {
        let Some(purpose) = self.publishing.pop_front() else { return Ok(()) };
        let reason = match published {
            // It hears why.
            Err(Unpublished::NotLeading) => return Ok(()),
            Err(Unpublished::Failed(reason)) => Some(reason),
            Ok(()) => None,
        };
        match (purpose, reason) {
            (Purpose::Checkpoint { round, .. }, Some(reason)) => {
                self.feed(MasterEvent::SaveFailed(round, reason), host)
            }
            (Purpose::Checkpoint { round, steps, path, record }, None) => {
                self.record = record;
                host.begin(Operation::Tidy(path.clone()));
                if let Some(saved) = self.being_saved.take_if(|(of, _)| *of == round) {
                    self.checkpoint = saved;
                }
                self.checkpoint_steps = steps;
                self.counted.retain(|of, _| *of > round);
                self.saved = Some(host.now());
                board::saved(&self.board, round, &path);
                host.tell(&Event::Checkpoint { iteration: steps, path });
                self.feed(MasterEvent::Persisted(round), host)?;
                self.judge_what_is_due(host);
                Ok(())
            }
            (Purpose::Best(operation), None) => {
                self.ask(host, operation);
                Ok(())
            }
            (Purpose::Best(_), Some(reason)) => {
                host.tell(&Event::NotSaved { round: self.checkpoint.0, reason });
                Ok(())
            }
            (Purpose::Trained, None) => {
                self.judge_the_last(host);
                Ok(())
            }
            (Purpose::Ended, None) => {
                self.finish(host);
                Ok(())
            }
            (Purpose::Trained | Purpose::Ended, Some(reason)) => Err(ClusterError::RunFailed { reason }),
        }
    }
}
