//! What must hold in every history, one file each.

mod conservation;
mod ends;
mod evictions;
mod leases;
mod ledger;
mod messages;
mod queues;
mod same_way;
mod terms;

use paceline_exchange::rounds::{Now, Round, Schedule, Told};

use crate::world::Rare;

/// Looks on, and remembers the first thing that did not hold.
#[derive(Clone, Debug)]
pub struct Watch {
    /// What did not hold.
    pub violation: Option<String>,
    /// Rare states that were reached.
    pub rare: Rare,
    ledger: ledger::Ledger,
    messages: messages::Messages,
    terms: terms::Terms,
    faulty: evictions::Faulty,
}

impl Watch {
    pub(crate) fn new(work: Schedule, begins: Round, is_sharing: bool) -> Self {
        Self {
            violation: None,
            rare: Rare::new(),
            ledger: ledger::Ledger::new(work, begins, is_sharing),
            messages: messages::Messages::default(),
            terms: terms::Terms::default(),
            faulty: evictions::Faulty::default(),
        }
    }

    pub(crate) fn fail(&mut self, now: Now, what: String) {
        if self.violation.is_none() {
            self.violation = Some(format!("at {now} ms: {what}"));
        }
    }

    pub(crate) fn count(&mut self, what: &'static str) {
        *self.rare.entry(what).or_default() += 1;
    }

    pub(crate) fn hear(&mut self, now: Now, told: &Told) {
        match told {
            Told::View { .. } => self.count("a view began"),
            Told::RoundAgain { .. } => self.count("a round was taken again"),
            Told::SetAside { .. } => self.count("examples were set aside"),
            Told::RolledBack { .. } => self.count("a run rolled back to its checkpoint"),
            Told::WorkerLost { member, reason } => {
                self.given_up(now, *member, reason);
                self.count("a worker was lost");
                if reason.contains("does not reach") {
                    self.count("one end of a bad edge was evicted");
                }
                if reason.contains("that nobody keeps") {
                    self.count("a worker lacked messages that nobody kept");
                }
                if reason.contains("nothing was heard") {
                    self.count("a worker was silent");
                }
            }
            Told::LeaseAgain { .. } => self.count("a lease was given again"),
            Told::TakenBack { .. } => self.count("what counted was taken back"),
            Told::Waiting { .. } => self.count("a run waited for workers"),
            _ => {}
        }
        if let Err(what) = self.ledger.hear(told) {
            self.fail(now, what);
        }
    }
}
