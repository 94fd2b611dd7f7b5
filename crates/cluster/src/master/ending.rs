//! How a run comes to its end: states are judged beside the training, and the last or the best of them is the model.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use paceline_exchange::rounds::{MasterEvent, Operator};
use paceline_model::{Progress, State};
use paceline_train::{Event, ReplicaMode, Scores};

use super::event_loop::{EventLoop, Term};
use super::judging::best_path;
use super::{Outcome, board};
use crate::ClusterError;
use crate::mode::name_of;
use crate::transport::Transport;

/// How long members have to hear that the run is over.
const GOODBYE: Duration = Duration::from_millis(300);

impl EventLoop<'_> {
    /// A state was judged: it may be the best so far, or a reason to end.
    pub(super) fn take_scores(
        &mut self,
        term: &mut Term,
        epoch: u64,
        state: State,
        scores: Scores,
        tell: &mut dyn FnMut(&Event),
    ) -> Result<(), ClusterError> {
        board::judged(self.board, epoch, &scores);
        tell(&Event::Evaluation { epoch, scores: scores.clone() });
        let (is_best, ends) = term.judging.take(&scores);
        if is_best {
            // Whoever was succeeded writes nothing over what its successor has written.
            self.coordination.check()?;
            let progress = Progress { iteration: term.checkpoint_steps, epoch: epoch + 1 };
            let model = self.trainer.model_file(self.normaliser.as_ref(), state, progress, 0);
            if let Err(error) = model.save(&best_path(self.keep.folder())) {
                tell(&Event::NotSaved { round: term.checkpoint.0, reason: error.to_string() });
            }
        }
        self.end_early(term, ends, tell)
    }

    pub(super) fn end_early(
        &mut self,
        term: &mut Term,
        reason: Option<String>,
        tell: &mut dyn FnMut(&Event),
    ) -> Result<(), ClusterError> {
        let Some(reason) = reason.filter(|_| term.enough.is_none() && term.ended.is_none() && !term.is_stopping) else {
            return Ok(());
        };
        term.enough = Some(reason);
        self.feed(term, MasterEvent::Asked(Operator::Stop), tell)
    }

    /// The state at the end of an epoch, when it has been published.
    pub(super) fn due_for_judging(&self, term: &mut Term) -> Option<(u64, State)> {
        let round = term.checkpoint.0;
        // In `shared` others go on while a state is copied: it may have some of the next epoch.
        let end = match self.mode {
            ReplicaMode::Sync | ReplicaMode::Averaging(_) => round,
            ReplicaMode::Shared(_) => *term.ends.range(..=round).next_back()?.0,
        };
        let epoch = term.ends.remove(&end)?;
        term.ends.retain(|end, _| *end > round);
        let is_last = epoch + 1 == term.epochs;
        let is_wanted = !is_last && (epoch + 1) % self.trainer.options().evaluate_every == 0;
        let (state, _) = self.keep.state(self.trainer, &self.mode, &term.checkpoint.1).ok().filter(|_| is_wanted)?;
        Some((epoch, state))
    }

    /// The model is the last state; workers have been told.
    pub(super) fn finish(mut self, mut term: Term, tell: &mut dyn FnMut(&Event)) -> Result<Outcome, ClusterError> {
        let began = Instant::now();
        while began.elapsed() < GOODBYE && term.members.values().any(|known| self.transport.queued(known.link) > 0) {
            std::thread::sleep(Duration::from_millis(5));
        }
        if let Some(Some(reason)) = term.ended {
            tell(&Event::Failed { error: reason.clone(), resumable: true });
            return Err(ClusterError::RunFailed { reason });
        }
        let path = PathBuf::from(self.record.checkpoint.clone().unwrap_or_default());
        if term.is_stopping && term.enough.is_none() {
            self.coordination.resign();
            let checkpoint = self.record.checkpoint.is_some().then_some(path);
            tell(&Event::Paused { iteration: term.checkpoint_steps, checkpoint });
            tell(&Event::Failed { error: "stopped before its end, as it was asked to".into(), resumable: true });
            return Ok(Outcome { scores: None, stopped: true });
        }
        let seconds = term.tally.seconds();
        let read = self.keep.state(self.trainer, &self.mode, &term.checkpoint.1);
        let (state, _) = read.map_err(|reason| ClusterError::RunFailed { reason })?;
        let mut scores = self.trainer.judge(self.normaliser.as_ref(), &state)?;
        let epochs = if term.enough.is_some() { term.epoch + 1 } else { term.epochs };
        let mut is_best = true;
        if let Some(scores) = &scores {
            tell(&Event::Evaluation { epoch: epochs.saturating_sub(1), scores: scores.clone() });
            is_best = term.judging.take(scores).0;
        }
        let progress = Progress { iteration: term.checkpoint_steps, epoch: epochs };
        let mut model = self.trainer.model_file(self.normaliser.as_ref(), state, progress, 0);
        if let Some(best) = term.judging.best(self.keep.folder()).filter(|_| !is_best) {
            scores = self.trainer.judge(self.normaliser.as_ref(), &best.state)?;
            model = best;
        } else if is_best && term.judging.keeps_best() {
            model.save(&best_path(self.keep.folder()))?;
        }
        let path = self.keep.model_path();
        model.save(&path)?;
        if term.enough.is_some() {
            // Given again, the same command begins anew.
            self.record.has_ended = true;
            self.coordination.publish(&self.record)?;
        }
        tell(&Event::Finished {
            mode: name_of(&self.mode),
            workers: term.machine.view().1.len(),
            epochs,
            examples: term.tally.examples,
            parameters: self.trainer.network().parameter_count(),
            seconds,
            examples_per_second: term.tally.examples as f64 / seconds.max(1e-9),
            score: scores.as_ref().map_or(f64::NAN, Scores::score),
            accuracy: scores.as_ref().and_then(Scores::accuracy),
            bytes_sent: term.tally.bytes_sent,
            model: Some(path),
            ended_early: term.enough,
        });
        Ok(Outcome { scores, stopped: false })
    }
}
