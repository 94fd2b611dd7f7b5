//! The rules of rounds on many machines: `sync` (a round is a step) and `averaging` (a round is some steps).
//!
//! Every member of a view computes its slice of a round, the contributions are reduced among the members, and everybody
//! applies the same result. Who takes which examples follows from the [`Plan`] of the view, which all of them have, so the
//! master is not asked from round to round; it counts examples when every member has said that a round is done.
//!
//! A round completes at a member only when all have contributed, and a member contributes to the next one only after it
//! has completed this one. So no two members are more than one round apart, and when one is lost only the current round is in
//! doubt: it stands if a survivor holds its result, and is taken again without the lost member if none does.
//!
//! Everything here is `(state, event, now) → (state, actions)`; actions that a person would ask about carry their reason. Numbers never pass through: a
//! driver holds the buffers and is told what to do with them.
//!
//! # Layout
//!
//! - [`Schedule`], [`Plan`]: who takes which examples; [`Capacity`]: what a member can take.
//! - [`Master`]: membership, views, what counts, checkpoints.
//! - [`Member`]: one worker process from joining to leaving.
//! - [`message`]: what they say to each other.

mod capacity;
mod change;
mod master;
mod member;
pub mod message;
mod plan;
mod schedule;
mod told;

pub use capacity::{Brings, Brought, Capacity, Held};
pub use change::{PlanChange, Taken};
pub use master::{Master, MasterAction, MasterEvent, MasterOptions, Operator};
pub(crate) use member::DOES_NOT_FIT;
pub use member::{At, Course, Member, MemberAction, MemberEvent, MemberOptions, Steps, StragglerLimit, WorkNumber};
pub use plan::Plan;
pub use schedule::{Assignment, LOSSES_UNTIL_SET_ASIDE, MOST_SLOTS, Part, Schedule, Slice, Slots, Span, StepSize};
pub(crate) use schedule::{Pace, slots_of};
pub use told::{Missing, Told};

/// Why a run ends that must not leave examples out.
pub(crate) fn poison(epoch: u64, span: Span) -> String {
    format!(
        "examples {} to {} of the order of epoch {} were lost with two workers; look at them, or run without `--on-poison stop`",
        span.start,
        span.end - 1,
        epoch + 1
    )
}

/// One master's rule; a greater one fences all smaller ones.
pub type Term = u64;
/// One worker process from one joining to its leaving; never used again.
pub type Incarnation = u64;
/// The number of a worker as people read it: within the first master's term `3`, in later ones `2.3`.
pub fn number_of(worker: Incarnation) -> String {
    match (worker >> 32, worker & 0xffff_ffff) {
        (0 | 1, number) => number.to_string(),
        (term, number) => format!("{term}.{number}"),
    }
}

/// The number of a view within a term.
pub type ViewNumber = u64;
/// The number of a round within a run, from 1; the state before the first round is that of round 0.
pub type Round = u64;
/// Milliseconds of a clock that only goes forward. No two machines' clocks are compared.
pub type Now = u64;
