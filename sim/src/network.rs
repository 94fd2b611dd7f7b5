//! Connections: ordered streams that stall, and that lose all but a beginning when they are reset.

use std::collections::{BTreeMap, BTreeSet};

use paceline_exchange::rounds::Now;

/// A process.
pub(crate) type Pid = u64;
/// A connection between two processes.
pub(crate) type ConnectionId = u64;

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
    /// From whom to whom nothing arrives until then.
    cut: BTreeMap<(Pid, Pid), Now>,
    /// Processes that nothing reaches or leaves until then.
    alone: BTreeMap<Pid, Now>,
}

impl Network {
    pub(crate) fn open(&mut self, id: ConnectionId, from: Pid, to: Pid) {
        self.connections.insert(id, Connection { ends: [from, to], is_up: true, last: [0; 2] });
    }

    pub(crate) fn cut(&mut self, a: Pid, b: Pid, until: Now) {
        self.cut.extend([((a, b), until), ((b, a), until)]);
    }

    /// Nothing that one says reaches the other, who is heard.
    pub(crate) fn mute(&mut self, from: Pid, to: Pid, until: Now) {
        self.cut.insert((from, to), until);
    }

    pub(crate) fn isolate(&mut self, pid: Pid, until: Now) {
        self.alone.insert(pid, until);
    }

    pub(crate) fn heal(&mut self) {
        self.cut.clear();
        self.alone.clear();
    }

    /// From when on something sent now can pass.
    pub(crate) fn passes_at(&self, from: Pid, to: Pid, now: Now) -> Now {
        let cut = self.cut.get(&(from, to)).copied().unwrap_or(0);
        let alone = |pid| self.alone.get(&pid).copied().unwrap_or(0);
        now.max(cut).max(alone(from)).max(alone(to))
    }

    /// When a message sent now arrives, if the connection stands: behind those before it, unless it overtakes them.
    pub(crate) fn arrival(
        &mut self,
        id: ConnectionId,
        from: Pid,
        now: Now,
        delay: Now,
        overtakes: bool,
    ) -> Option<(Pid, Now)> {
        let to = self.connections.get(&id).filter(|c| c.is_up)?.other(from);
        let at = self.passes_at(from, to, now) + delay;
        let connection = self.connections.get_mut(&id)?;
        if overtakes {
            return Some((to, at));
        }
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
