//! Connections between simulated processes.

use paceline_cluster::transport::{LinkId, TransportEvent};
use paceline_cluster::wire::Word;
use paceline_exchange::Frame;
use paceline_exchange::rounds::Now;
use paceline_exchange::rounds::message::ToPeer;
use paceline_exchange::sharing::message::PeerWord;

use crate::network::Pid;
use crate::world::{Happening, World};

/// What a loop hears of its links.
pub(crate) fn event(happening: Happening) -> Option<TransportEvent> {
    match happening {
        Happening::Arrives(link, frame) => Some(TransportEvent::Frame { link: LinkId::new(link), frame }),
        Happening::Arriving(link) => Some(TransportEvent::Arriving { link: LinkId::new(link) }),
        Happening::Opened(link) => Some(TransportEvent::Opened { link: LinkId::new(link) }),
        Happening::Closed(link, reason) => Some(TransportEvent::Closed { link: LinkId::new(link), reason }),
        _ => None,
    }
}

/// Whether a frame carries a whole state.
fn is_state(frame: &Frame) -> bool {
    let Ok((word, _)) = Word::read(frame) else { return false };
    let said = match &word {
        Word::State { .. } | Word::SaveState { .. } | Word::SaveShared { .. } => return true,
        Word::ToPeer(said) | Word::Relay { said, .. } | Word::Relayed { said, .. } => said,
        _ => return false,
    };
    matches!(said, ToPeer::State { .. } | ToPeer::Sharing(PeerWord::Snapshot { .. }))
}

impl World {
    /// Tries to connect; the process hears of it.
    pub(crate) fn connect(&mut self, link: u64, from: Pid, address: &str) {
        let to: Pid = address.parse().unwrap_or(0);
        let there = self.network.passes_at(from, to, self.now);
        let passes = self.network.passes_at(to, from, there);
        let exists = (self.masters.contains_key(&to) || self.workers.contains_key(&to)) && !self.dead.contains(&to);
        if !exists || passes > self.now + 1000 {
            let delay = if exists { 1000 } else { self.random.within(1, 10) };
            return self.after(delay, from, Happening::Closed(link, "nobody answers".into()));
        }
        self.network.open(link, from, to);
        let delay = self.random.within(1, 10);
        self.at(passes + delay, from, Happening::Opened(link));
    }

    pub(crate) fn send(&mut self, link: u64, from: Pid, frame: Frame, overtakes: bool) {
        // A state may take seconds; whoever waits for it sees it coming.
        let is_state = self.faults.has_slow_links(self.now) && is_state(&frame);
        let delay = if is_state { self.random.within(200, 5000) } else { self.random.within(1, 15) };
        if let Some((to, at)) = self.network.arrival(link, from, self.now, delay, overtakes) {
            self.said = (self.said.0 + 1, self.said.1 + frame.body.len());
            self.master_said += if self.masters.contains_key(&from) { frame.body.len() } else { 0 };
            self.said_to_master += u64::from(self.masters.contains_key(&from) || self.masters.contains_key(&to));
            self.say(|| match Word::read(&frame) {
                Ok((word, _)) => {
                    let mut word = format!("{word:?}");
                    word.truncate(200);
                    format!("  {from} says to {to}: {word}")
                }
                Err(error) => format!("  {from} says to {to}: {error}"),
            });
            if is_state {
                self.watch.count("a state was on its way for long");
                let first = at.saturating_sub(delay).max(self.now);
                (first..at).step_by(500).skip(1).for_each(|seen| self.at(seen, to, Happening::Arriving(link)));
            }
            self.at(at, to, Happening::Arrives(link, frame));
        }
    }

    /// One end closes: the other hears it behind what was sent before.
    pub(crate) fn close(&mut self, link: u64, by: Pid, reason: &str) {
        let Some(connection) = self.network.connections.get(&link).filter(|connection| connection.is_up) else {
            return;
        };
        let other = connection.other(by);
        let at = self.network.last_arrival(link).max(self.now) + 1;
        self.at(at, other, Happening::Closed(link, format!("closed by peer: {reason}")));
        self.after(0, by, Happening::Closed(link, reason.to_owned()));
    }

    /// The connection is gone. Each end hears of it soon, or late if it is half open.
    pub(crate) fn reset(&mut self, link: u64, why: &str) {
        let Some(connection) = self.network.connections.get_mut(&link).filter(|c| c.is_up) else { return };
        connection.is_up = false;
        let ends = connection.ends;
        for pid in ends {
            let is_late = self.random.one_in(8);
            let delay = if is_late { self.random.within(1000, 20_000) } else { self.random.within(1, 20) };
            ends.into_iter().for_each(|end| self.watch.is_faulty(end, self.now + delay));
            self.after(delay, pid, Happening::Closed(link, why.to_owned()));
        }
    }

    /// A process is gone; silently, if nobody is told for a long time. What it had sent may still arrive, or not.
    pub(crate) fn kill(&mut self, pid: Pid, is_silent: bool) {
        self.say(|| format!("{pid} dies"));
        self.dead.insert(pid);
        self.watch.is_faulty(pid, Now::MAX / 2);
        for link in self.network.of(pid) {
            let other = self.network.connections[&link].other(pid);
            if !is_silent && self.random.one_in(2) {
                let at = self.network.last_arrival(link).max(self.now) + 1;
                self.at(at, other, Happening::Closed(link, "closed by peer".into()));
                continue;
            }
            self.network.connections.get_mut(&link).expect("it was listed").is_up = false;
            let delay = if is_silent { 30_000 } else { self.random.within(1, 20) };
            self.after(delay, other, Happening::Closed(link, "reset by peer".into()));
        }
    }
}
