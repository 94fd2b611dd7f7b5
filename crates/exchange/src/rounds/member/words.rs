//! What a member is told, and what it does.

use serde::{Deserialize, Serialize};

use super::super::message::{ToMaster, ToMember, ToPeer};
use crate::membership::{MESH_LIMIT, Paths};
use crate::rounds::{Brings, Incarnation, Now, Round, Schedule, Slice, Slots, StepSize, Term, ViewNumber};
use crate::sharing::{Act, Happened};

/// Counts what a member computes.
pub type WorkNumber = u64;

/// What a member is told when it joins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberOptions {
    /// Milliseconds between two beats.
    pub beat_every: Now,
    /// The master's limit of silence: what was last renewed holds for so long since the beat was sent.
    pub silence_limit: Now,
    /// How long a master whose lease ran out may be silent before it is taken for gone, in milliseconds. The worker decides.
    pub patience: Now,
    /// A peer that a round waits for is unreachable when its link is down for so long, in milliseconds.
    pub edge_limit: Now,
    /// The first member of a view sends its state to the master after so many rounds, and at the end of an epoch.
    pub save_every: Option<Round>,
    /// How long a round waits for those who have not contributed before the master hears of it; none: as long as it takes.
    pub straggler_limit: Option<StragglerLimit>,
    /// Whether the next round is computed while the last one is still summed.
    pub overlap: bool,
    /// A view of more members is a tree.
    pub mesh_limit: usize,
    /// In `shared`: examples of a step.
    pub share: StepSize,
    /// In `shared`: steps that a member may be ahead of what the others have taken of it; then it waits for them.
    pub max_ahead: u64,
    /// In `shared`: own messages that not everybody has taken, at most.
    pub window_messages: u64,
    /// In `shared`: their bytes, at most.
    pub window_bytes: u64,
}

/// How long a round waits for stragglers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StragglerLimit {
    /// So many milliseconds.
    After(Now),
    /// Much longer than rounds have waited lately.
    Auto,
}

impl MemberOptions {
    /// Limits that follow from how long a member may be silent, in milliseconds.
    pub fn within(silence_limit: Now, beats: u64) -> Self {
        Self {
            beat_every: (silence_limit / beats.max(1)).max(1),
            silence_limit,
            patience: silence_limit,
            edge_limit: (silence_limit / 2).max(1),
            save_every: None,
            straggler_limit: None,
            overlap: false,
            mesh_limit: MESH_LIMIT,
            share: StepSize::Each(1),
            max_ahead: 4,
            window_messages: 4096,
            window_bytes: 64 << 20,
        }
    }
}

/// What happens to a member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MemberEvent {
    /// The data is there.
    DataRead {
        /// What there is of it here, with what proves that it is the same as everybody's.
        data: Brings,
        /// Where peers connect to.
        address: String,
        /// Who this process was before.
        was: Option<Incarnation>,
        /// Workers that it stands for.
        slots: Slots,
    },
    /// The master says something, in its term.
    MasterSaid(Term, ToMember),
    /// A peer says something; the numbers that came with it are kept by the driver.
    PeerSaid(Incarnation, ToPeer),
    /// The master has sent the state after a round.
    StateFromMaster(Round),
    /// Something long is on its way from a peer, or from the master: who sends it is slow, not gone.
    Arriving(Option<Incarnation>),
    /// What [`MemberAction::Compute`] asked for under this number is there.
    Computed(WorkNumber),
    /// The link to a peer stands, perhaps again: nothing that was said before may have arrived.
    PeerUp(Incarnation),
    /// The link to a peer is gone, or could not be made.
    PeerDown(Incarnation),
    /// The link to the master is gone.
    MasterLost(String),
    /// This process is asked to go.
    AskedToLeave,
    /// What happens in `shared` only.
    Sharing(Happened),
    /// A timer rang, or nothing did.
    Tick,
}

/// The steps that one member takes in a round.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Steps {
    /// The epoch of the examples.
    pub epoch: u64,
    /// Steps of the run before the first one.
    pub iteration: u64,
    /// The places of the examples of each step in the order of the epoch.
    pub slice: Slice,
}

impl Steps {
    /// Whether no step has any example.
    pub fn is_empty(&self) -> bool {
        self.slice.iter().all(Vec::is_empty)
    }
}

/// A step of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct At {
    /// Its epoch, from 0.
    pub epoch: u64,
    /// Steps before it.
    pub iteration: u64,
}

/// What becomes of computed steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Course {
    /// They are a contribution to the round.
    Contributed,
    /// As that, but the result of the round before is not here yet: it is worked in when it comes, and only then is this done.
    Ahead,
    /// The view has no other member: when they are computed, the round is complete.
    Alone,
}

/// What a member does, in order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MemberAction {
    /// Says something to the master.
    Tell(ToMaster),
    /// Says something to a peer that needs no numbers.
    Ask(Incarnation, ToPeer),
    /// Asks the master for the state after a round.
    AskMasterForState(Round),
    /// A view begins, with these members and this round.
    Begin {
        /// Its number.
        view: ViewNumber,
        /// Who is in it.
        members: Vec<Incarnation>,
        /// Its first round; in `shared`, that of the master's state.
        round: Round,
    },
    /// Links are needed to these peers and to no others.
    Connect(Vec<(Incarnation, String)>),
    /// Takes the steps of a round. [`MemberEvent::Computed`] follows. Whatever was asked for before is not wanted any more, if it is
    /// not done.
    Compute {
        /// Which work it is.
        work: WorkNumber,
        /// The round.
        round: Round,
        /// What is taken in it.
        steps: Steps,
        /// What is taken in the round behind it, as far as that is known: it can be read ahead.
        next: Option<Steps>,
        /// What becomes of it.
        course: Course,
        /// A view, and how it sums: parts of the contribution may be sent as they become final. Where they are not, or not all of
        /// them, [`MemberAction::Contribute`] and [`MemberAction::PassUp`] send the rest.
        gives: Option<(ViewNumber, Paths)>,
    },
    /// What was computed ahead does not count.
    DropAhead,
    /// Sends the part of the own contribution that a peer sums (the place of the peer among so many); to itself: keeps it.
    Contribute {
        /// To whom.
        to: Incarnation,
        /// The view.
        view: ViewNumber,
        /// The round.
        round: Round,
        /// Which part.
        part: usize,
        /// Of how many.
        parts: usize,
    },
    /// Sums the own part of the contributions that fall to this one.
    Sum {
        /// The view.
        view: ViewNumber,
        /// The round.
        round: Round,
        /// Whose they are.
        paths: Paths,
    },
    /// In a tree: sends what was summed here to the one above.
    PassUp {
        /// To whom.
        to: Incarnation,
        /// The view.
        view: ViewNumber,
        /// The round.
        round: Round,
    },
    /// Sends the sum of the own part; in a tree the whole.
    Distribute {
        /// To whom.
        to: Incarnation,
        /// The view.
        view: ViewNumber,
        /// The round.
        round: Round,
    },
    /// All parts of the result are here: puts them together, keeps the result until the next one, and applies it.
    Apply {
        /// The view.
        view: ViewNumber,
        /// The round.
        round: Round,
        /// Whose parts, in order.
        members: Vec<Incarnation>,
        /// The first step of the round.
        at: At,
    },
    /// Applies a whole result that a peer sent.
    ApplyFetched(Round, At),
    /// Takes over a state that a peer or the master sent.
    Adopt(Round),
    /// Sends the whole result of the last completed round.
    ServeResult(Incarnation, Round),
    /// Sends the state after the last completed round.
    ServeState(Incarnation, Round),
    /// Sends that state to the master, with what is left to do behind it.
    SaveState(Round, Schedule),
    /// Contributions and sums of older views, and of rounds up to this one, are not needed any more.
    Forget(ViewNumber, Round),
    /// What is done in `shared` only.
    Sharing(Act),
    /// Rings at the latest then.
    SetTimer(Now),
    /// This incarnation is over, for this reason; the process may join again as another one.
    End {
        /// Why.
        reason: String,
        /// Whether it should.
        rejoin: bool,
    },
}
