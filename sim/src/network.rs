//! Connections: ordered streams that stall, and that lose all but a beginning when they are reset.

use std::collections::{BTreeMap, BTreeSet};

use paceline_exchange::rounds::message::{ToMaster, ToMember, ToPeer};
use paceline_exchange::rounds::{Incarnation, Now, Round, Schedule, Term, ViewNumber};
use paceline_exchange::sharing::Have;

use crate::numbers::{Contribution, State};
use crate::stream::Update;

/// A process.
pub(crate) type Pid = u64;
/// A connection between two processes.
pub(crate) type ConnectionId = u64;

/// What travels.
#[derive(Clone, Debug)]
pub(crate) enum Message {
    /// A worker that wants to join, and the newest term that it knows.
    Hello(Term),
    Welcome(Term, Incarnation),
    ToMaster(ToMaster),
    ToMember(Term, ToMember),
    /// The first word on a connection between workers: from whom, to whom.
    PeerHello(Incarnation, Incarnation),
    Peer(ToPeer, Numbers),
    /// Through the master, to whom.
    Relay(Incarnation, ToPeer, Numbers),
    /// Through the master, from whom.
    Relayed(Incarnation, ToPeer, Numbers),
    WantState(Round),
    StateFromMaster(Round, State),
    SaveState(Round, Schedule, State),
    SaveShared {
        view: ViewNumber,
        epoch: u64,
        vector: Vec<(Incarnation, Have)>,
        round: Round,
        state: State,
    },
}

/// The numbers beside a word to a peer.
#[derive(Clone, Debug)]
pub(crate) enum Numbers {
    None,
    Contribution(Contribution),
    Values(Vec<i64>),
    Update(Update),
    State(State),
}

#[derive(Clone, Debug)]
pub(crate) struct Connection {
    pub(crate) ends: [Pid; 2],
    pub(crate) is_up: bool,
    /// When the last message of each direction arrives: none overtakes another.
    last: [Now; 2],
}

impl Connection {
    pub(crate) fn other(&self, pid: Pid) -> Pid {
        if self.ends[0] == pid { self.ends[1] } else { self.ends[0] }
    }
}

/// All connections, and what is cut between processes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Network {
    pub(crate) connections: BTreeMap<ConnectionId, Connection>,
    /// Pairs between which nothing arrives until then.
    cut: BTreeMap<(Pid, Pid), Now>,
    /// Processes that nothing reaches or leaves until then.
    alone: BTreeMap<Pid, Now>,
    next: ConnectionId,
}

impl Network {
    pub(crate) fn open(&mut self, from: Pid, to: Pid) -> ConnectionId {
        self.next += 1;
        self.connections.insert(self.next, Connection { ends: [from, to], is_up: true, last: [0; 2] });
        self.next
    }

    pub(crate) fn cut(&mut self, a: Pid, b: Pid, until: Now) {
        self.cut.insert((a.min(b), a.max(b)), until);
    }

    pub(crate) fn isolate(&mut self, pid: Pid, until: Now) {
        self.alone.insert(pid, until);
    }

    pub(crate) fn heal(&mut self) {
        self.cut.clear();
        self.alone.clear();
    }

    /// From when on something sent now can pass.
    pub(crate) fn passes_at(&self, a: Pid, b: Pid, now: Now) -> Now {
        let cut = self.cut.get(&(a.min(b), a.max(b))).copied().unwrap_or(0);
        let alone = |pid| self.alone.get(&pid).copied().unwrap_or(0);
        now.max(cut).max(alone(a)).max(alone(b))
    }

    /// When a message sent now arrives, if the connection stands.
    pub(crate) fn arrival(&mut self, id: ConnectionId, from: Pid, now: Now, delay: Now) -> Option<(Pid, Now)> {
        let to = self.connections.get(&id).filter(|c| c.is_up)?.other(from);
        let at = self.passes_at(from, to, now) + delay;
        let connection = self.connections.get_mut(&id)?;
        let last = &mut connection.last[usize::from(connection.ends[0] == from)];
        *last = (*last).max(at);
        Some((to, *last))
    }

    /// When the last message that was sent arrives.
    pub(crate) fn last_arrival(&self, id: ConnectionId) -> Now {
        self.connections.get(&id).map_or(0, |connection| connection.last[0].max(connection.last[1]))
    }

    /// Connections of a process that stand.
    pub(crate) fn of(&self, pid: Pid) -> BTreeSet<ConnectionId> {
        self.connections.iter().filter(|(_, c)| c.is_up && c.ends.contains(&pid)).map(|(id, _)| *id).collect()
    }
}
