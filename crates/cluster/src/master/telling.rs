//! What the rules tell, as events and on the board.

use std::ops::Range;

use paceline_exchange::rounds::{Incarnation, Missing, Told};
use paceline_train::{Event, ReplicaMode};

use super::board;
use super::host::MasterHost;
use super::term::Term;
use crate::names::name_of;

impl Term {
    pub(super) fn hear_told(&mut self, told: &Told, host: &mut dyn MasterHost) {
        let (workers, now) = (self.members.len(), host.now());
        board::hear(self, self.tally.seconds(now), told);
        if matches!(told, Told::WorkerJoined(_) | Told::WorkerLost { .. } | Told::View { .. } | Told::Paused(_)) {
            board::show(&self.board, self, now);
        }
        match told {
            Told::WorkerJoined(worker) => {
                let address = self.members.get(worker).map(|known| known.address.clone()).unwrap_or_default();
                host.tell(&Event::WorkerJoined { worker: self.name(*worker), address, workers });
            }
            Told::WorkerLost { member, reason } => {
                let traffic = self.members.get(member).and_then(|known| known.traffic);
                host.tell(&Event::WorkerLost {
                    residual: traffic.map(|traffic| traffic.residual_mass),
                    worker: self.name(*member),
                    reason: reason.clone(),
                    workers: workers.saturating_sub(1),
                });
            }
            Told::View { view, members, first, reason } => {
                host.tell(&Event::View {
                    view: *view,
                    workers: members.iter().map(|member| self.name(*member)).collect(),
                    round: *first,
                    reason: reason.clone(),
                });
            }
            Told::RoundAgain { round } => {
                host.tell(&Event::LeaseRepeated { round: *round, worker: None, examples: None })
            }
            Told::Counted { round, assignment } => {
                self.counted.insert(*round, assignment.examples());
                let steps = assignment.iteration..assignment.iteration + assignment.steps();
                self.count(assignment.epoch, steps, assignment.examples(), host);
            }
            Told::Shared { epoch, spans, steps, .. } => {
                let before = self.iteration.min(steps.saturating_sub(1));
                self.count(*epoch, before..*steps, spans.iter().map(|span| span.len()).sum(), host);
            }
            Told::TakenBack { spans, .. } => {
                self.tally.take_back(spans.iter().map(|span| span.len()).sum());
            }
            Told::LeaseAgain { member, examples } => {
                let (round, worker, examples) = (self.machine.counted(), Some(self.name(*member)), Some(*examples));
                host.tell(&Event::LeaseRepeated { round, worker, examples });
            }
            Told::EpochDone { epoch, round } => {
                host.tell(&self.tally.epoch_ends(*epoch, now));
                self.ends.insert(*round, *epoch);
            }
            Told::SetAside { epoch, spans } => {
                let examples = spans.iter().map(|span| span.len()).sum();
                let places = spans.iter().map(|span| (span.start, span.end)).collect();
                host.tell(&Event::SetAside { epoch: epoch + 1, examples, places });
            }
            Told::RolledBack { to, from, .. } => {
                // Epochs that ended behind it end again.
                self.ends.retain(|end, _| end <= to);
                match self.setup.mode {
                    // The state may have more in it than counted last: what was taken back counts again.
                    ReplicaMode::Shared(_) if to > from => self.tally.examples += to - from,
                    ReplicaMode::Shared(_) => self.tally.take_back(from - to),
                    _ => self.tally.take_back(self.counted.split_off(&(to + 1)).into_values().sum()),
                }
                host.tell(&Event::RolledBack { from: *from, to: *to });
            }
            Told::WorkerRefused { member, reason } => {
                let address = self.members.get(member).map(|known| known.address.clone()).unwrap_or_default();
                host.tell(&Event::WorkerRefused { worker: self.name(*member), address, reason: reason.clone() });
            }
            Told::Waiting(Missing::Members { members, needed }) => {
                host.tell(&Event::Waiting { workers: *members, needed: *needed });
            }
            Told::Waiting(Missing::Partitions(partitions)) => {
                host.tell(&Event::WaitingForPartitions { partitions: partitions.clone() });
            }
            Told::Paused(paused) => host.tell(&Event::OnHold { paused: *paused }),
            Told::NotSaved { round, reason } => host.tell(&Event::NotSaved { round: *round, reason: reason.clone() }),
        }
    }

    /// What people call a worker of this term.
    pub(super) fn name(&self, worker: Incarnation) -> String {
        name_of(self.hosts.get(&worker).map_or("", String::as_str), worker)
    }

    /// Examples of some steps count.
    fn count(&mut self, epoch: u64, steps: Range<u64>, examples: u64, host: &mut dyn MasterHost) {
        if epoch != self.epoch {
            (self.epoch, self.epoch_began_at) = (epoch, steps.start);
        }
        self.iteration = steps.end;
        let step = steps.start.saturating_sub(self.epoch_began_at);
        if let Some(event) = self.tally.count(epoch, step, steps.end, examples, host.now()) {
            host.tell(&event);
        }
    }
}
