//! What the rules tell, as events and on the board.

use std::ops::Range;

use paceline_exchange::rounds::Told;
use paceline_train::Event;

use super::board;
use super::event_loop::{EventLoop, Term};

impl EventLoop<'_> {
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
            Told::Counted { assignment, .. } => {
                let steps = assignment.iteration..assignment.iteration + assignment.steps();
                count(term, assignment.epoch, steps, assignment.examples(), tell);
            }
            Told::Shared { epoch, spans, .. } => {
                let (before, steps) = (term.iteration, term.machine.rest().steps());
                count(term, *epoch, before..steps, spans.iter().map(|span| span.len()).sum(), tell);
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
}

/// Examples of some steps count.
fn count(term: &mut Term, epoch: u64, steps: Range<u64>, examples: u64, tell: &mut dyn FnMut(&Event)) {
    if epoch != term.epoch {
        (term.epoch, term.epoch_began_at) = (epoch, steps.start);
    }
    term.iteration = steps.end;
    let step = steps.start.saturating_sub(term.epoch_began_at);
    if let Some(event) = term.tally.count(epoch, step, steps.end, examples) {
        tell(&event);
    }
}
