//! A member's side of `shared`: one worker process from joining to leaving.

mod join;
mod messages;
mod steps;
mod tree;
mod words;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde::{Deserialize, Serialize};
pub use words::{Act, Encodes, Happened};

use super::message::{Minimum, Order, PeerWord, Report, Sharing};
use super::{Have, Lease, Mark, Sequence};
use crate::membership::{Paths, Touch};
use crate::planted::{Planted, has};
use crate::rounds::message::{ToMaster, ToMember, ToPeer};
use crate::rounds::{Capacity, Incarnation, MemberAction, MemberEvent, MemberOptions, Now, Part, Term, ViewNumber};
use tree::{Edge, Gap};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Stage {
    /// No state, and no view to get one in.
    Still,
    /// Waits for a state of the view.
    Joining {
        asked: usize,
        asked_at: Option<Now>,
    },
    /// Has a state.
    Working,
    Over,
}

/// What is known of a peer of the view.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Peer {
    /// Whether it has said on this link what it holds, so that messages can be sent to it.
    is_fed: bool,
    /// Whether it has a state that messages go into.
    has_state: bool,
    /// It needs no messages up to here.
    needs_none_up_to: Sequence,
    /// From where on it was promised all, when it had nothing, and in which view.
    subscribed: Option<(ViewNumber, Sequence)>,
    /// It holds the own messages up to here.
    holds: Sequence,
    /// Up to where it was last told that its messages are held.
    told: Sequence,
    /// What was held when it was last asked about a gap.
    asked_at: Option<Sequence>,
    /// Since when its link is down, and whether that was told.
    down: Option<(Now, bool)>,
}

/// What is known of a message that is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Kept {
    covered: Mark,
    examples: u64,
    bytes: u64,
}

/// A step that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Issued {
    mark: Mark,
    examples: u64,
}

/// A state that was asked for: what was in it of others then, and for whom it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Copying {
    view: ViewNumber,
    vector: Vec<(Incarnation, Have)>,
    of_others: u64,
    whom: Whom,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Whom {
    Peer(Incarnation),
    Master { epoch: u64 },
}

/// Going away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Leaving {
    since: Now,
    has_sent_all: bool,
    is_told: bool,
}

/// One incarnation of a worker process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    options: MemberOptions,
    me: Incarnation,
    term: Term,
    touch: Touch,
    stage: Stage,
    /// The newest view that was prepared or began.
    view: ViewNumber,
    sharing: Option<Sharing>,
    /// The members of that view, and what they can take.
    members: Vec<Incarnation>,
    crew: Vec<Capacity>,
    peers: BTreeMap<Incarnation, Peer>,
    /// Who is linked with whom in it.
    paths: Option<Paths>,
    /// In a tree: what is known of neighbours, what the whole view holds, and which messages no neighbour can give.
    edges: BTreeMap<Incarnation, Edge>,
    stable: BTreeMap<Incarnation, Minimum>,
    gaps: BTreeMap<Incarnation, Gap>,
    /// In a tree, for one without a state: all messages behind these come here.
    subscribed: Option<BTreeMap<Incarnation, Sequence>>,
    /// In a tree: whether nothing has changed since neighbours were told what is held here.
    has_swept: bool,
    /// Lost members of which nothing more is taken.
    refused: BTreeSet<Incarnation>,
    /// What is held of others, without a gap.
    have: BTreeMap<Incarnation, Have>,
    /// Messages of lost members that are missing here: up to where, and who holds them.
    missing: BTreeMap<Incarnation, (Have, Incarnation)>,
    missing_asked_at: Now,
    #[serde(with = "pairs")]
    kept: BTreeMap<(Incarnation, Sequence), Kept>,
    /// The last own message.
    own: Have,
    /// How far the own steps have come, and the examples of those that no message covers.
    done: Mark,
    uncovered: u64,
    /// Examples in the state: of own messages, and of all else.
    of_own: u64,
    of_others: u64,
    /// Examples to take, and how many of the first lease were asked for.
    leases: VecDeque<Lease>,
    begun: u64,
    issued: VecDeque<Issued>,
    has_asked_for_more: bool,
    /// How far the own steps had come when that was last told.
    told_done: Mark,
    /// Whether a step has ended since peers were last told what is held of theirs.
    has_stepped: bool,
    /// How far the own messages are held by another, and by all; and what of that was told.
    one: Have,
    all: Have,
    told: (Have, Have),
    copying: VecDeque<Copying>,
    /// Who waits for a state with at least these messages.
    waiting: BTreeMap<Incarnation, Vec<(Incarnation, Sequence)>>,
    leaving: Option<Leaving>,
    actions: Vec<MemberAction>,
    planted: Option<Planted>,
}

/// How long one that was asked for something is waited for before the next one is asked.
const PATIENCE: Now = 2000;
/// Own messages that are told to be held at the latest after so many more.
const COVERED_EVERY: Sequence = 8;

impl Member {
    /// A member that the master of a term has welcomed.
    pub fn new(options: MemberOptions, me: Incarnation, term: Term, now: Now) -> Self {
        let touch = Touch::new(&options, now);
        Self {
            options,
            me,
            term,
            touch,
            stage: Stage::Still,
            view: 0,
            sharing: None,
            members: Vec::new(),
            crew: Vec::new(),
            peers: BTreeMap::new(),
            paths: None,
            edges: BTreeMap::new(),
            stable: BTreeMap::new(),
            gaps: BTreeMap::new(),
            subscribed: None,
            has_swept: false,
            refused: BTreeSet::new(),
            have: BTreeMap::new(),
            missing: BTreeMap::new(),
            missing_asked_at: 0,
            kept: BTreeMap::new(),
            own: Have::default(),
            done: Mark::default(),
            uncovered: 0,
            of_own: 0,
            of_others: 0,
            leases: VecDeque::new(),
            begun: 0,
            issued: VecDeque::new(),
            has_asked_for_more: false,
            told_done: Mark::default(),
            has_stepped: false,
            one: Have::default(),
            all: Have::default(),
            told: Default::default(),
            copying: VecDeque::new(),
            waiting: BTreeMap::new(),
            leaving: None,
            actions: Vec::new(),
            planted: None,
        }
    }

    /// Plants a mistake, for the simulator.
    pub fn plant(&mut self, mistake: Option<Planted>) {
        self.planted = mistake;
    }

    fn has(&self, mistake: Planted) -> bool {
        has(self.planted, mistake)
    }

    /// Until when work may go on without another word of the master.
    pub fn lease_until(&self) -> Now {
        self.touch.lease_until
    }

    /// Who this is.
    pub fn incarnation(&self) -> Incarnation {
        self.me
    }

    /// Whether this incarnation is over.
    pub fn is_over(&self) -> bool {
        self.stage == Stage::Over
    }

    /// Messages that are kept: bounded by what may be under way.
    pub fn messages_kept(&self) -> usize {
        self.kept.len()
    }

    /// The number of the last own message.
    pub fn own_sequence(&self) -> Sequence {
        self.own.sequence
    }

    /// The messages that are in the state here, of the members of the view; none without a state.
    pub fn vector(&self) -> Option<Vec<(Incarnation, Have)>> {
        self.has_state().then(|| self.vector_of_all())
    }

    /// What happens, and what follows from it.
    pub fn handle(&mut self, event: MemberEvent, now: Now) -> Vec<MemberAction> {
        if !self.is_over() {
            self.happen(event, now);
        }
        if !self.is_over() {
            self.keep_in_touch(now);
            self.go_on(now);
            self.set_timer(now);
        }
        std::mem::take(&mut self.actions)
    }

    fn happen(&mut self, event: MemberEvent, now: Now) {
        match event {
            MemberEvent::DataRead { data, address, was, slots } => {
                self.tell(ToMaster::Ready { data, address, was, slots });
            }
            MemberEvent::MasterSaid(term, message) => {
                // A greater term is another master's: this incarnation knows only its own.
                if term == self.term {
                    self.obey(message, now);
                }
            }
            MemberEvent::PeerSaid(peer, ToPeer::Sharing(word)) => self.hear(peer, word),
            MemberEvent::StateFromMaster(round) => self.take_state_of_master(round),
            MemberEvent::Arriving(_) => {
                if let Stage::Joining { asked_at: Some(at), .. } = &mut self.stage {
                    *at = now;
                }
            }
            MemberEvent::PeerUp(peer) => self.peer_up(peer),
            MemberEvent::PeerDown(peer) => {
                let known = self.peers.entry(peer).or_default();
                known.is_fed = false;
                known.down.get_or_insert((now, false));
                self.unlink(peer);
            }
            MemberEvent::MasterLost(reason) => self.end(format!("the master is gone: {reason}"), true),
            MemberEvent::AskedToLeave => {
                self.leaving.get_or_insert(Leaving { since: now, has_sent_all: false, is_told: false });
            }
            MemberEvent::Sharing(Happened::Stepped { bytes }) => self.stepped(bytes),
            MemberEvent::Sharing(Happened::SnapshotTaken) => self.copied(),
            // Of the other modes.
            MemberEvent::PeerSaid(..) | MemberEvent::Computed(_) | MemberEvent::Tick => {}
        }
    }

    fn obey(&mut self, message: ToMember, now: Now) {
        match message {
            ToMember::Renew { beat, paused } => self.touch.renew(&self.options, beat, paused, self.planted),
            ToMember::Stop { reason, rejoin } => self.end(reason, rejoin),
            ToMember::Sharing(Order::Cut { view, lost }) if view > self.view => self.cut(view, lost, now),
            ToMember::Sharing(Order::View(sharing)) if sharing.view == self.view => self.begin(*sharing, now),
            ToMember::Sharing(Order::Lease(lease)) => {
                self.leases.push_back(lease);
                self.has_asked_for_more = false;
            }
            ToMember::Sharing(Order::Save { epoch }) => {
                if self.has_state() && self.missing.is_empty() {
                    self.copy(Whom::Master { epoch });
                }
            }
            // Of views that are over, or of the other modes.
            ToMember::Sharing(_) | ToMember::Prepare { .. } | ToMember::View { .. } | ToMember::Save => {}
        }
    }

    fn tell(&mut self, message: ToMaster) {
        self.actions.push(MemberAction::Tell(message));
    }

    fn report(&mut self, report: Report) {
        self.tell(ToMaster::Sharing(report));
    }

    fn say(&mut self, peer: Incarnation, word: PeerWord) {
        self.actions.push(MemberAction::Ask(peer, ToPeer::Sharing(word)));
    }

    fn act(&mut self, act: Act) {
        self.actions.push(MemberAction::Sharing(act));
    }

    fn end(&mut self, reason: String, rejoin: bool) {
        self.stage = Stage::Over;
        self.actions.push(MemberAction::End { reason, rejoin });
    }

    fn has_state(&self) -> bool {
        self.stage == Stage::Working
    }

    fn is_member(&self, peer: Incarnation) -> bool {
        peer != self.me && self.members.contains(&peer)
    }

    /// Where this one stands in the view.
    fn place(&self) -> Option<usize> {
        self.members.iter().position(|member| *member == self.me)
    }

    /// The other members of the view.
    fn others(&self) -> Vec<Incarnation> {
        self.members.iter().copied().filter(|member| *member != self.me).collect()
    }

    /// Those of them that this one is linked with.
    fn linked(&self) -> Vec<Incarnation> {
        self.paths.as_ref().map_or_else(Vec::new, |paths| paths.receivers().into_iter().chain(paths.parent()).collect())
    }

    fn vector_of_all(&self) -> Vec<(Incarnation, Have)> {
        let of = |peer| (peer, self.have.get(&peer).copied().unwrap_or_default());
        self.others().into_iter().map(of).chain([(self.me, self.own)]).collect()
    }

    fn keep_in_touch(&mut self, now: Now) {
        if let Some(beat) = self.touch.beat(&self.options, now) {
            self.tell(ToMaster::Beat { beat });
        }
        if self.touch.is_lost(&self.options, now) {
            self.end("nothing was heard of the master".into(), true);
        }
    }

    fn go_on(&mut self, now: Now) {
        self.go_on_joining(now);
        self.go_on_with_gaps(now);
        self.serve_states();
        self.issue(now);
        self.sweep();
        self.tell_what_is_held();
        self.leave(now);
        let (view, limit) = (self.view, self.options.edge_limit);
        let mut unreachable = Vec::new();
        for (peer, known) in &mut self.peers {
            if let Some((since, is_told)) = &mut known.down
                && !*is_told
                && now >= *since + limit
            {
                *is_told = true;
                unreachable.push(*peer);
            }
        }
        unreachable.retain(|peer| self.linked().contains(peer));
        unreachable.into_iter().for_each(|peer| self.tell(ToMaster::Unreachable { view, peer }));
    }

    fn set_timer(&mut self, now: Now) {
        let mut at = self.touch.next(&self.options);
        if let Stage::Joining { asked_at: Some(asked_at), .. } = self.stage {
            at = at.min(asked_at + PATIENCE);
        }
        if !self.missing.is_empty() {
            at = at.min(self.missing_asked_at + PATIENCE);
        }
        at = self.next_gap().map_or(at, |gap| at.min(gap));
        if let Some(leaving) = self.leaving.filter(|leaving| !leaving.is_told) {
            at = at.min(leaving.since + self.options.beat_every);
        }
        for (since, _) in self.peers.values().filter_map(|peer| peer.down).filter(|(_, is_told)| !is_told) {
            at = at.min(since + self.options.edge_limit);
        }
        self.actions.push(MemberAction::SetTimer(at.max(now + 1)));
    }
}

/// A map with keys of two numbers, as a list: JSON has no such keys.
mod pairs {
    use std::collections::BTreeMap;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<K: Serialize, V: Serialize, S: Serializer>(
        map: &BTreeMap<K, V>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        map.iter().collect::<Vec<_>>().serialize(serializer)
    }

    pub(super) fn deserialize<'de, K, V, D>(deserializer: D) -> Result<BTreeMap<K, V>, D::Error>
    where
        K: Deserialize<'de> + Ord,
        V: Deserialize<'de>,
        D: Deserializer<'de>,
    {
        Ok(Vec::<(K, V)>::deserialize(deserializer)?.into_iter().collect())
    }
}
