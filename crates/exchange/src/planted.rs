//! Mistakes that can be planted into the rules, so that a simulator that passes has proved that it can fail.

use serde::{Deserialize, Serialize};

/// A mistake. Does nothing unless the crate is built with the feature `planted`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names are the sentences")]
pub enum Planted {
    CountsWhenTheFirstIsDone,
    CommitsTheOldestRound,
    TakesTheLastPlanForKnown,
    CountsOnWhoWasLostMeanwhile,
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
    NeverRelays,
    TakesTheSameTermAgain,
    NeverForgetsPlans,
    NeverSetsAside,
    PublishesAnAbortedRound,
    ReusesWorkOfAnotherRound,
    KeepsWhatWasComputedAhead,
    FreezesWithinAStep,
    CutsAtTheLeast,
    ForgetsTheLostLease,
    KeepsTheCountWhenAllAreLost,
    EndsAnEpochTooSoon,
    PublishesAStateOfAnotherView,
    SavesWithoutWhatIsOut,
    TakesMessagesOfTheLost,
    JoinsBeforeItSubscribes,
    AppliesTwiceAfterJoining,
    GivesAStateTooSoon,
    AppliesAMessageTwice,
    ForgetsWhatOneHolds,
    CountsWhatNobodyHolds,
    NeverTellsTheRest,
    SavesWithinAStep,
    BeginsAnEndedRunAgain,
    ForgetsItsCheckpoint,
    TakesAFailedSaveForDone,
    PublishesBeforeItIsWritten,
    ForgetsWhatCouldNotBeSaved,
    SavesWithoutAPause,
    FinishesBeforeItIsPublished,
    JudgesSilenceAfterItWasAway,
    EndsWithItsCoordinator,
    NeverGoesOnWhenTheCoordinatorIsBack,
    TakesWorkOfAnotherIncarnation,
    NeverStandsByAgain,
    LosesWhatItRelays,
    GivesASilentMasterUp,
    GivesUpBeforeAMasterIsThere,
    EndsTheRunForALocalError,
    ExportsTheFirstState,
    StopsWithoutSaving,
    ForgetsWhoJoined,
    SumsBeforeAllBelowHaveGiven,
    KeepsTheWholeToItself,
    PutsAnybodyAbove,
    KeepsMessagesToItself,
    ForgetsBeforeAllHold,
    ForgetsThatClocksDiffer,
    GivesWhatItDoesNotHold,
    EndsWhenNobodyHoldsTheRest,
}

impl Planted {
    /// Those in the rules of `sync` and `averaging`.
    pub const IN_ROUNDS: [Planted; 27] = [
        Planted::GivesWhatItDoesNotHold,
        Planted::EndsWhenNobodyHoldsTheRest,
        Planted::ForgetsThatClocksDiffer,
        Planted::SumsBeforeAllBelowHaveGiven,
        Planted::KeepsTheWholeToItself,
        Planted::PutsAnybodyAbove,
        Planted::CountsWhenTheFirstIsDone,
        Planted::CommitsTheOldestRound,
        Planted::TakesTheLastPlanForKnown,
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
        Planted::NeverRelays,
        Planted::TakesTheSameTermAgain,
        Planted::NeverForgetsPlans,
        Planted::NeverSetsAside,
        Planted::PublishesAnAbortedRound,
        Planted::ReusesWorkOfAnotherRound,
        Planted::KeepsWhatWasComputedAhead,
        Planted::FreezesWithinAStep,
    ];

    /// Those that only the shipped loops can show.
    pub const IN_LOOPS: [Planted; 20] = [
        Planted::SavesWithinAStep,
        Planted::BeginsAnEndedRunAgain,
        Planted::ForgetsItsCheckpoint,
        Planted::TakesAFailedSaveForDone,
        Planted::PublishesBeforeItIsWritten,
        Planted::ForgetsWhatCouldNotBeSaved,
        Planted::SavesWithoutAPause,
        Planted::FinishesBeforeItIsPublished,
        Planted::JudgesSilenceAfterItWasAway,
        Planted::EndsWithItsCoordinator,
        Planted::NeverGoesOnWhenTheCoordinatorIsBack,
        Planted::TakesWorkOfAnotherIncarnation,
        Planted::NeverStandsByAgain,
        Planted::LosesWhatItRelays,
        Planted::GivesASilentMasterUp,
        Planted::GivesUpBeforeAMasterIsThere,
        Planted::EndsTheRunForALocalError,
        Planted::ExportsTheFirstState,
        Planted::StopsWithoutSaving,
        Planted::ForgetsWhoJoined,
    ];

    /// Those in the rules of `shared`.
    pub const IN_SHARING: [Planted; 23] = [
        Planted::GivesWhatItDoesNotHold,
        Planted::EndsWhenNobodyHoldsTheRest,
        Planted::TakesTheLastPlanForKnown,
        Planted::CountsOnWhoWasLostMeanwhile,
        Planted::KeepsMessagesToItself,
        Planted::ForgetsBeforeAllHold,
        Planted::CutsAtTheLeast,
        Planted::ForgetsTheLostLease,
        Planted::KeepsTheCountWhenAllAreLost,
        Planted::EndsAnEpochTooSoon,
        Planted::PublishesAStateOfAnotherView,
        Planted::SavesWithoutWhatIsOut,
        Planted::TakesMessagesOfTheLost,
        Planted::JoinsBeforeItSubscribes,
        Planted::AppliesTwiceAfterJoining,
        Planted::GivesAStateTooSoon,
        Planted::AppliesAMessageTwice,
        Planted::ForgetsWhatOneHolds,
        Planted::CountsWhatNobodyHolds,
        Planted::NeverTellsTheRest,
        Planted::NeverRelays,
        Planted::WorksWithoutALease,
        Planted::TakesTheSameTermAgain,
    ];
}

impl Planted {
    /// Whether this is the mistake that is planted.
    pub fn is(self, planted: Option<Self>) -> bool {
        has(planted, self)
    }
}

/// Whether this mistake is planted here.
pub(crate) fn has(planted: Option<Planted>, mistake: Planted) -> bool {
    cfg!(feature = "planted") && planted == Some(mistake)
}
