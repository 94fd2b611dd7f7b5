//! What only this mode says. Messages and states carry their numbers beside these words.

use serde::{Deserialize, Serialize};

use super::{Have, Lease, Mark, Sequence};
use crate::membership::Crew;
use crate::rounds::{Incarnation, Round, Slots, ViewNumber};

/// To the master.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Report {
    /// Takes nothing more of those that are lost, and holds this of them.
    Holds {
        /// The view that is being prepared.
        view: ViewNumber,
        /// Whether there is a state here at all.
        has_state: bool,
        /// Of each that is lost, and from which message on it could be given to others.
        have: Vec<(Incarnation, Have, Sequence)>,
        /// The view whose members are known here; 0 for none.
        knows: ViewNumber,
    },
    /// Has a state, with all messages up to the cuts of the view.
    CaughtUp {
        /// The view.
        view: ViewNumber,
    },
    /// Wants more to do.
    Wants {
        /// Its own steps have come this far, whether anybody holds their messages or not.
        done: Mark,
    },
    /// How far the own messages come that another member holds, and those that all members hold.
    Covered {
        /// Another one.
        one: Mark,
        /// All of them.
        all: Mark,
    },
}

/// From the master.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Order {
    /// These are lost: takes nothing more of them, and says what is held.
    Cut {
        /// The view that is being prepared.
        view: ViewNumber,
        /// Those whose cut is not known to all.
        lost: Vec<Incarnation>,
    },
    /// The view begins.
    View(Box<Sharing>),
    /// Examples to take.
    Lease(Lease),
    /// Sends its state to the master, for a checkpoint of this epoch.
    Save {
        /// The epoch.
        epoch: u64,
    },
}

/// A view.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sharing {
    /// Its number.
    pub view: ViewNumber,
    /// Its members, as they differ from those of a view that the receiver knows.
    pub crew: Crew,
    /// The members that the receiver is linked with, and where they are.
    pub peers: Vec<(Incarnation, String)>,
    /// Up to where the messages of lost members count, and who holds them.
    pub cuts: Vec<(Incarnation, Have, Incarnation)>,
    /// Members that have a state for the receiver, or get one; if there is none, the master has it.
    pub donors: Vec<Incarnation>,
    /// Whether nobody has a state: all begin at the master's, with all messages that there will be.
    pub begins_anew: bool,
    /// The round of the master's state.
    pub round: Round,
    /// What became of the receiver's last incarnation, if that is known: up to where its messages count.
    pub former: Option<(Incarnation, Sequence)>,
}

/// Between members.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PeerWord {
    /// Holds the receiver's messages up to this one; nothing, and no state either, if none.
    Resume {
        /// The number.
        have: Option<Sequence>,
        /// Whether these are in a state, and not only waiting for one.
        has_state: bool,
        /// Whether the receiver should say the same.
        answers: bool,
        /// The sender's view: what it held without a state in older ones it holds no more.
        view: ViewNumber,
    },
    /// Answers who holds nothing: in this view what comes behind the number is sent.
    From(ViewNumber, Sequence),
    /// A message of the sender, beside it.
    Update {
        /// Its number.
        sequence: Sequence,
        /// How far the sender has come with it.
        covered: Mark,
        /// Examples that it covers.
        examples: u64,
        /// All members of the sender's view hold its messages up to here.
        stable: Sequence,
    },
    /// Holds the receiver's messages up to this one.
    Got(Sequence),
    /// Asks for messages of somebody who is lost.
    WantUpdates {
        /// Who.
        origin: Incarnation,
        /// The first.
        from: Sequence,
        /// The last.
        to: Sequence,
    },
    /// One of these, beside it.
    Relayed {
        /// Of whom.
        origin: Incarnation,
        /// Its number.
        sequence: Sequence,
        /// How far the origin had come with it.
        covered: Mark,
        /// Examples that it covers.
        examples: u64,
    },
    /// In a tree: what the sender holds of everybody; nothing, if it has no state and does not know yet which messages it will get.
    Compare {
        /// The view.
        view: ViewNumber,
        /// Up to where, of each member.
        vector: Option<Vec<(Incarnation, Sequence)>>,
        /// Whether the receiver should say the same.
        answers: bool,
    },
    /// In a tree: the sender holds messages up to here that the receiver lacks, and keeps them no more.
    CannotGive {
        /// Of whom.
        origin: Incarnation,
        /// The last.
        up_to: Sequence,
    },
    /// In a tree: the least that is held of each member's messages.
    Minima {
        /// The view.
        view: ViewNumber,
        /// Whether it is that of the sender and those below it, or that of the whole view.
        is_up: bool,
        /// By the place of the member in the view: those that have changed since this was last said.
        minima: Vec<(usize, Minimum)>,
    },
    /// Asks for a state that has at least these messages.
    WantSnapshot {
        /// The view.
        view: ViewNumber,
        /// Of each member.
        at_least: Vec<(Incarnation, Sequence)>,
    },
    /// A state, beside it.
    Snapshot {
        /// The view.
        view: ViewNumber,
        /// The messages that are in it.
        vector: Vec<(Incarnation, Have)>,
        /// Examples that are in it.
        round: Round,
    },
    /// Running statistics, beside it; they are no part of what is conserved.
    Running {
        /// The sender's: so much it counts for.
        slots: Slots,
    },
}

/// The least that some members hold of an origin's messages. As three numbers, because it is said often.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "(Sequence, Sequence, Sequence)", into = "(Sequence, Sequence, Sequence)")]
pub struct Minimum {
    /// Nobody needs those up to here any more.
    pub needed: Sequence,
    /// All have a state with those up to here.
    pub held: Sequence,
    /// All who have a state have taken those up to here.
    pub near: Sequence,
}

impl Minimum {
    /// That of these and some others.
    pub(super) fn and(self, other: Self) -> Self {
        Self { needed: self.needed.min(other.needed), held: self.held.min(other.held), near: self.near.min(other.near) }
    }
}

impl From<(Sequence, Sequence, Sequence)> for Minimum {
    fn from((needed, held, near): (Sequence, Sequence, Sequence)) -> Self {
        Self { needed, held, near }
    }
}

impl From<Minimum> for (Sequence, Sequence, Sequence) {
    fn from(minimum: Minimum) -> Self {
        (minimum.needed, minimum.held, minimum.near)
    }
}
