//! Mistakes that can be planted into the rules, so that a simulator that passes has proved that it can fail.

use serde::{Deserialize, Serialize};

/// A mistake. Does nothing unless the crate is built with the feature `planted`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names are the sentences")]
pub enum Planted {
    CountsWhenTheFirstIsDone,
    CommitsTheOldestRound,
    ForgetsTheLostSlice,
    RepeatsACommittedSlice,
    CompletesWhileFrozen,
    TakesContributionsOfOtherViews,
    NeverSaysAgain,
    PublishesBeforeAllAreDone,
    SavesTheScheduleOneRoundLate,
    WorksWithoutALease,
    BeginsWithoutAState,
    KeepsTheCountAtARollBack,
    NeverEvictsAnEdge,
    TakesTheSameTermAgain,
    NeverForgetsPlans,
    NeverSetsAside,
    PublishesAnAbortedRound,
    ReusesWorkOfAnotherRound,
}

impl Planted {
    /// All of them.
    pub const ALL: [Planted; 18] = [
        Planted::CountsWhenTheFirstIsDone,
        Planted::CommitsTheOldestRound,
        Planted::ForgetsTheLostSlice,
        Planted::RepeatsACommittedSlice,
        Planted::CompletesWhileFrozen,
        Planted::TakesContributionsOfOtherViews,
        Planted::NeverSaysAgain,
        Planted::PublishesBeforeAllAreDone,
        Planted::SavesTheScheduleOneRoundLate,
        Planted::WorksWithoutALease,
        Planted::BeginsWithoutAState,
        Planted::KeepsTheCountAtARollBack,
        Planted::NeverEvictsAnEdge,
        Planted::TakesTheSameTermAgain,
        Planted::NeverForgetsPlans,
        Planted::NeverSetsAside,
        Planted::PublishesAnAbortedRound,
        Planted::ReusesWorkOfAnotherRound,
    ];
}

/// Whether this mistake is planted here.
pub(crate) fn has(planted: Option<Planted>, mistake: Planted) -> bool {
    cfg!(feature = "planted") && planted == Some(mistake)
}
