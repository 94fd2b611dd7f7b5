//! What the rules tell, as events and on the board.

use paceline_exchange::rounds::{Round, Told};
use paceline_train::Event;

use super::board;
use super::office::{Office, Term};
use crate::mode::RunMode;

impl Office<'_> {
    pub(super) fn hear_told(&mut self, term: &mut Term, told: &Told, tell: &mut dyn FnMut(&Event)) {
        let workers = term.members.len();
        board::hear(self.board, term.began.elapsed().as_secs_f64(), told);
        if matches!(told, Told::WorkerJoined(_) | Told::WorkerLost { .. } | Told::View { .. } | Told::Paused(_)) {
            board::show(self.board, term, term.now());
        }
        match told {
            Told::WorkerJoined(worker) => {
                let address = term.members.get(worker).map(|known| known.address.clone()).unwrap_or_default();
                tell(&Event::WorkerJoined { worker: *worker, address, workers });
            }
            Told::WorkerLost { member, reason } => {
                let traffic = term.members.get(member).and_then(|known| known.traffic);
                tell(&Event::WorkerLost {
                    residual: traffic.map(|traffic| traffic.residual_mass),
                    worker: *member,
                    reason: reason.clone(),
                    workers: workers.saturating_sub(1),
                });
            }
            Told::View { view, members, first, reason } => {
                tell(&Event::View { view: *view, workers: members.clone(), round: *first, reason: reason.clone() });
            }
            Told::RoundAgain { round } => tell(&Event::LeaseRepeated { round: *round, worker: None, examples: None }),
            Told::Counted { round, assignment } => {
                self.count(term, assignment.epoch, *round, assignment.examples(), tell);
            }
            Told::Shared { epoch, spans, counted, .. } => {
                let examples = spans.iter().map(|span| span.len()).sum();
                self.count(term, *epoch, *counted, examples, tell);
            }
            Told::TakenBack { spans, .. } => {
                term.tally.take_back(spans.iter().map(|span| span.len()).sum());
            }
            Told::LeaseAgain { member, examples } => {
                let (round, worker, examples) = (term.machine.counted(), Some(*member), Some(*examples));
                tell(&Event::LeaseRepeated { round, worker, examples });
            }
            Told::EpochDone { epoch, round } => {
                tell(&term.tally.epoch_ends(*epoch));
                term.ends.insert(*round, *epoch);
            }
            Told::SetAside { epoch, spans } => {
                let examples = spans.iter().map(|span| span.len()).sum();
                let places = spans.iter().map(|span| (span.start, span.end)).collect();
                tell(&Event::SetAside { epoch: *epoch, examples, places });
            }
            Told::RolledBack { to, from, .. } => {
                // Epochs that ended behind it end again.
                term.ends.retain(|end, _| end <= to);
                tell(&Event::RolledBack { from: *from, to: *to });
            }
            Told::Waiting { members, needed } => tell(&Event::Waiting { workers: *members, needed: *needed }),
            Told::Paused(paused) => tell(&Event::OnHold { paused: *paused }),
            Told::NotSaved { round, reason } => tell(&Event::NotSaved { round: *round, reason: reason.clone() }),
        }
    }

    /// Examples count, up to a round.
    fn count(&self, term: &mut Term, epoch: u64, round: Round, examples: u64, tell: &mut dyn FnMut(&Event)) {
        let before = match self.mode {
            RunMode::Rounds(_) => round - 1,
            RunMode::Shared { .. } => round - examples,
        };
        if epoch != term.epoch {
            (term.epoch, term.epoch_began_at) = (epoch, before);
        }
        let step = self.mode.iteration(before).saturating_sub(self.mode.iteration(term.epoch_began_at));
        if let Some(event) = term.tally.count(epoch, step, self.mode.iteration(round), examples) {
            tell(&event);
        }
    }
}
