//! How a run comes to its end: states are judged beside the training, and the last or the best of them is the model.

use paceline_exchange::rounds::{MasterEvent, Operator};
use paceline_exchange::{Bulk, Planted};
use paceline_model::Progress;
use paceline_train::{Event, ReplicaMode, Scores};

use super::host::{Exported, MasterHost, Operation};
use super::saving::Purpose;
use super::term::Term;
use super::{Outcome, board};
use crate::ClusterError;
use crate::coordination::RunStage;
use crate::mode::name_of;

/// States that are judged at once. While so many are, epochs end unjudged.
const JUDGED_AT_ONCE: usize = 4;

/// What is done when training has ended.
pub(super) enum Closing {
    /// What is still being judged may be the best.
    WaitsForJudges,
    /// That no more is trained is being published.
    Publishing,
    /// The last state is judged.
    JudgesTheLast,
    /// The model is written.
    Exports(Box<Option<Scores>>),
    /// That the run has ended is being published.
    Ends(Box<(Exported, Option<Scores>)>),
}

impl Term {
    /// Judges the state at the end of an epoch beside the training, when it has been published.
    pub(super) fn judge_what_is_due(&mut self, host: &mut dyn MasterHost) {
        if self.being_judged >= JUDGED_AT_ONCE || self.ended.is_some() {
            return;
        }
        let round = self.checkpoint.0;
        // In `shared` others go on while a state is copied: it may have some of the next epoch.
        let end = match self.setup.mode {
            ReplicaMode::Sync | ReplicaMode::Averaging(_) => Some(round),
            ReplicaMode::Shared(_) => self.ends.range(..=round).next_back().map(|(end, _)| *end),
        };
        let Some(epoch) = end.and_then(|end| self.ends.remove(&end)) else { return };
        self.ends.retain(|end, _| *end > round);
        let is_last = epoch + 1 == self.epochs;
        if !is_last && (epoch + 1) % self.setup.train.evaluate_every == 0 {
            self.being_judged += 1;
            let progress = Progress { iteration: self.checkpoint_steps, epoch: epoch + 1 };
            self.ask(host, Operation::Judge { epoch, state: self.checkpoint.1.clone(), progress });
        }
    }

    pub(super) fn take_judged(
        &mut self,
        epoch: u64,
        state: Bulk,
        scores: Option<Scores>,
        host: &mut dyn MasterHost,
    ) -> Result<(), ClusterError> {
        if matches!(self.closing, Some(Closing::JudgesTheLast)) {
            self.export(epoch, state, scores, host);
            return Ok(());
        }
        self.being_judged = self.being_judged.saturating_sub(1);
        if let Some(scores) = scores {
            self.take_scores(epoch, state, scores, host)?;
        }
        match self.closing {
            Some(Closing::WaitsForJudges) => self.close(host)?,
            _ => self.judge_what_is_due(host),
        }
        Ok(())
    }

    /// A state was judged: it may be the best so far, or a reason to end.
    fn take_scores(
        &mut self,
        epoch: u64,
        state: Bulk,
        scores: Scores,
        host: &mut dyn MasterHost,
    ) -> Result<(), ClusterError> {
        board::judged(&self.board, epoch, &scores);
        let (is_best, ends) = self.judging.take(&scores);
        host.tell(&Event::Evaluation { epoch: epoch + 1, scores });
        if is_best {
            // Whoever was succeeded writes nothing over what its successor has written.
            let progress = Progress { iteration: self.checkpoint_steps, epoch: epoch + 1 };
            self.publishing.push_back(Purpose::Best(Operation::KeepBest { state, progress }));
            self.ask(host, Operation::Publish(self.record.clone()));
        }
        self.end_early(ends, host)
    }

    pub(super) fn end_early(&mut self, reason: Option<String>, host: &mut dyn MasterHost) -> Result<(), ClusterError> {
        let Some(reason) = reason.filter(|_| self.enough.is_none() && self.ended.is_none() && !self.is_stopping) else {
            return Ok(());
        };
        self.enough = Some(reason);
        self.feed(MasterEvent::Asked(Operator::Stop), host)
    }

    /// Training has ended; members have been told.
    pub(super) fn close(&mut self, host: &mut dyn MasterHost) -> Result<(), ClusterError> {
        if let Some(Some(reason)) = self.ended.clone() {
            host.tell(&Event::Failed { error: reason.clone(), resumable: true });
            return Err(ClusterError::RunFailed { reason });
        }
        if self.is_stopping && self.enough.is_none() {
            host.begin(Operation::Resign);
            let checkpoint = self.record.checkpoint.as_ref().map(Into::into);
            self.tell_statistics(host);
            host.tell(&Event::Paused { iteration: self.checkpoint_steps, checkpoint });
            host.tell(&Event::Failed { error: "stopped before its end, as it was asked to".into(), resumable: true });
            self.outcome = Some(Outcome { scores: None, stopped: true });
            return Ok(());
        }
        if self.being_judged > 0 {
            self.closing = Some(Closing::WaitsForJudges);
            return Ok(());
        }
        self.closing = Some(Closing::Publishing);
        // What waits to be published may be the best model: it is written before anything looks for it.
        if self.record.stage == RunStage::Trained && self.publishing.is_empty() {
            self.judge_the_last(host);
        } else {
            self.record.stage = RunStage::Trained;
            self.publishing.push_back(Purpose::Trained);
            self.ask(host, Operation::Publish(self.record.clone()));
        }
        Ok(())
    }

    fn tell_statistics(&mut self, host: &mut dyn MasterHost) {
        if self.setup.statistics {
            host.tell(&Event::Statistics(std::mem::take(&mut self.statistics)));
        }
    }

    /// Epochs that were trained, the last one perhaps in part.
    fn epochs_done(&self) -> u64 {
        if self.enough.is_some() { self.epoch + 1 } else { self.epochs }
    }

    pub(super) fn judge_the_last(&mut self, host: &mut dyn MasterHost) {
        self.closing = Some(Closing::JudgesTheLast);
        let (epoch, mut state) = (self.epochs_done().saturating_sub(1), self.checkpoint.1.clone());
        if Planted::ExportsTheFirstState.is(self.setup.planted) {
            state = host.initial_state().unwrap_or_default();
        }
        let progress = Progress { iteration: self.checkpoint_steps, epoch: self.epochs_done() };
        self.ask(host, Operation::Judge { epoch, state, progress });
    }

    /// The model is the last state, or the best if the job says so.
    fn export(&mut self, epoch: u64, state: Bulk, scores: Option<Scores>, host: &mut dyn MasterHost) {
        let mut is_best = true;
        if let Some(scores) = &scores {
            host.tell(&Event::Evaluation { epoch: epoch + 1, scores: scores.clone() });
            is_best = self.judging.take(scores).0;
        }
        let progress = Progress { iteration: self.checkpoint_steps, epoch: self.epochs_done() };
        let prefers_best = !is_best && self.judging.comes_to_best();
        let keeps_best = is_best && self.judging.keeps_best();
        let of_last = scores.as_ref().filter(|_| is_best);
        let kept = of_last.and_then(|scores| self.judging.kept_epoch(progress.epoch, scores));
        self.ask(host, Operation::Export { state, progress, prefers_best, keeps_best, kept });
        self.closing = Some(Closing::Exports(Box::new(scores)));
    }

    /// The model stands. The run is over when everybody can know it.
    pub(super) fn take_exported(
        &mut self,
        exported: Result<Exported, ClusterError>,
        host: &mut dyn MasterHost,
    ) -> Result<(), ClusterError> {
        let Some(Closing::Exports(scores)) = self.closing.take() else { return Ok(()) };
        let scores = *scores;
        let mut exported = match exported {
            Ok(exported) => exported,
            Err(error) => {
                // The same command tries again.
                host.tell(&Event::Failed { error: error.to_string(), resumable: true });
                return Err(error);
            }
        };
        let scores = exported.scores.take().or(scores);
        let (model, digest) = (exported.path.display().to_string(), exported.digest.clone());
        self.record.stage = RunStage::Ended { model, digest };
        self.closing = Some(Closing::Ends(Box::new((exported, scores))));
        if Planted::FinishesBeforeItIsPublished.is(self.setup.planted) {
            self.finish(host);
            return Ok(());
        }
        self.publishing.push_back(Purpose::Ended);
        self.ask(host, Operation::Publish(self.record.clone()));
        Ok(())
    }

    /// Everybody can know that the run is over.
    pub(super) fn finish(&mut self, host: &mut dyn MasterHost) {
        let Some(Closing::Ends(ends)) = self.closing.take() else { return };
        let (exported, scores) = *ends;
        let seconds = self.tally.seconds(host.now());
        self.tell_statistics(host);
        host.tell(&Event::Finished {
            mode: name_of(&self.setup.mode),
            workers: self.machine.view().1.len(),
            epochs: self.epochs_done(),
            examples: self.tally.examples,
            parameters: self.setup.parameters,
            seconds,
            examples_per_second: self.tally.examples as f64 / seconds.max(1e-9),
            score: scores.as_ref().map_or(f64::NAN, Scores::score),
            accuracy: scores.as_ref().and_then(Scores::accuracy),
            bytes_sent: self.tally.bytes_sent,
            model: Some(exported.path),
            ended_early: self.enough.take(),
            kept: exported.kept.zip(scores.as_ref()).and_then(|(epoch, scores)| self.judging.kept_epoch(epoch, scores)),
        });
        self.outcome = Some(Outcome { scores, stopped: false });
    }
}
