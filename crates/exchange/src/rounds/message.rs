//! What master, members and peers say to each other. Numbers travel beside these, by whoever carries them out.

use serde::{Deserialize, Serialize};

use super::{Brings, Incarnation, PlanChange, Round, Slots, ViewNumber};
use crate::sharing::message::{Order, PeerWord, Report};

/// What a worker's data is, so that all train on the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataProof {
    /// Training examples.
    pub examples: u64,
    /// A digest of a sample of them.
    pub fingerprint: u64,
}

impl DataProof {
    /// Why data that was found is not this, if it is not.
    pub(crate) fn differs(&self, found: &DataProof) -> Option<String> {
        (found != self).then(|| {
            format!(
                "expected {} training examples with fingerprint {:016x}, found {} with {:016x}; all workers must read the same data",
                self.examples, self.fingerprint, found.examples, found.fingerprint
            )
        })
    }
}

/// What a member says to the master.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToMaster {
    /// The data has been read; views may count on this member. Others reach it at `address`.
    Ready {
        /// What it has of the data, with what proves that it is the same as everybody's.
        data: Brings,
        /// Where peers connect to.
        address: String,
        /// Who this process was before.
        was: Option<Incarnation>,
        /// Workers that it stands for.
        slots: Slots,
    },
    /// Still there; the number comes back in [`ToMember::Renew`].
    Beat {
        /// Counts up.
        beat: u64,
    },
    /// Frozen for a new view, at this round.
    Frozen {
        /// The view that is being prepared.
        view: ViewNumber,
        /// The last round that this member has completed; none while it has no state.
        completed: Option<Round>,
        /// Whose contributions to the round behind it have arrived here: whatever kills them now, it is not that round.
        contributed: Vec<Incarnation>,
        /// The view whose plan this member knows; 0 for none.
        knows: ViewNumber,
    },
    /// Completed a round (or has come to the state before the first one of the view).
    Done {
        /// The view.
        view: ViewNumber,
        /// The round.
        round: Round,
    },
    /// A peer of the view cannot be reached although the round waits for it.
    Unreachable {
        /// The view.
        view: ViewNumber,
        /// Who.
        peer: Incarnation,
    },
    /// Has contributed to a round, and waits for others longer than the limit allows.
    WaitsFor {
        /// The view.
        view: ViewNumber,
        /// The round.
        round: Round,
        /// Who has contributed nothing that arrived here.
        members: Vec<Incarnation>,
    },
    /// Wants to go; what it holds comes back without blame.
    Leave,
    /// What is said in `shared` only.
    Sharing(Report),
}

/// What the master says to a member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToMember {
    /// Completes nothing more in older views, and says where it is.
    Prepare {
        /// The view that is being prepared.
        view: ViewNumber,
    },
    /// The view begins.
    View {
        /// Who does what, as it differs from a plan that this member knows.
        plan: Box<PlanChange>,
        /// The members that this one is linked with, and where they are.
        peers: Vec<(Incarnation, String)>,
        /// Those of them that have the state before the first round, or get it; if nobody does, the master has it.
        holders: Vec<Incarnation>,
    },
    /// Answers a [`ToMaster::Beat`]: work may go on for as long as the limit says since that beat was sent.
    Renew {
        /// The number of the beat.
        beat: u64,
        /// Whether the run is paused: no new round begins.
        paused: bool,
    },
    /// Sends the state of the last completed round to the master.
    Save,
    /// Goes, for this reason; `rejoin` if it is welcome to come again.
    Stop {
        /// Why.
        reason: String,
        /// Whether it may join again.
        rejoin: bool,
    },
    /// What is said in `shared` only.
    Sharing(Order),
}

/// What members say to each other. Contributions, results and states carry their numbers beside these words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToPeer {
    /// The part of the sender's contribution that the receiver sums.
    Contribution {
        /// The view.
        view: ViewNumber,
        /// The round.
        round: Round,
    },
    /// The sum of the sender's part.
    Reduced {
        /// The view.
        view: ViewNumber,
        /// The round.
        round: Round,
    },
    /// Asks for the whole result of a round.
    WantResult {
        /// The view.
        view: ViewNumber,
        /// The round.
        round: Round,
    },
    /// The whole result.
    Result {
        /// The round.
        round: Round,
    },
    /// Asks for the state after a round.
    WantState {
        /// The view.
        view: ViewNumber,
        /// The round.
        round: Round,
    },
    /// The state.
    State {
        /// The round.
        round: Round,
    },
    /// What is said in `shared` only.
    Sharing(PeerWord),
}
