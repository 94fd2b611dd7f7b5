//! What a worker does in `shared`, carried out.

use bytes::Bytes;
use paceline_exchange::rounds::message::ToPeer;
use paceline_exchange::rounds::{Incarnation, MemberEvent, Steps, number_of};
use paceline_exchange::sharing::message::PeerWord;
use paceline_exchange::sharing::{Act, Happened};
use paceline_exchange::{Bulk, Message};

use super::compute::Task;
use super::host::WorkerHost;
use super::membership::Membership;
use super::stream::{StreamDone, StreamTask};
use crate::wire::{Word, read_values, write_values};

impl Membership {
    pub(super) fn act(&mut self, act: Act, host: &mut dyn WorkerHost) -> Result<(), String> {
        let me = self.me();
        match act {
            Act::Step { epoch, iteration, spans, encodes } => {
                let (tells, part) = (self.stream.tells(host.now()), self.stream.part);
                let steps = Steps { epoch, iteration, slice: vec![spans] };
                self.compute(Task::Stream(me, StreamTask::Step { steps, part, encodes, tells }), host);
            }
            Act::Keep { origin, sequence } => {
                let message = self.stream.arrived.take().ok_or("the message that came is missing")?;
                self.stream.keep(origin, sequence, message);
            }
            Act::Apply { origin, sequence } => {
                let message = self.kept(origin, sequence)?;
                self.compute(Task::Stream(me, StreamTask::Apply(message)), host);
            }
            Act::Forget { origin, up_to } => self.stream.forget(origin, up_to),
            Act::Send { to, sequence, covered, examples, stable } => {
                let message = self.kept(me, sequence)?;
                let word = PeerWord::Update { sequence, covered, examples, stable };
                self.send_to_peer(to, ToPeer::Sharing(word), message, host);
            }
            Act::Relay { to, origin, sequence, covered, examples } => {
                let message = self.kept(origin, sequence)?;
                let word = PeerWord::Relayed { origin, sequence, covered, examples };
                self.send_to_peer(to, ToPeer::Sharing(word), message, host);
            }
            Act::Snapshot => self.compute(Task::Stream(me, StreamTask::Snapshot), host),
            Act::SendSnapshot { to, view, vector, round } => {
                let state = self.stream.copies.pop_front().ok_or("the copy of the state is missing")?;
                self.send_to_peer(to, ToPeer::Sharing(PeerWord::Snapshot { view, vector, round }), state, host);
            }
            Act::SaveSnapshot { view, epoch, vector, round } => {
                let state = self.stream.copies.pop_front().ok_or("the copy of the state is missing")?;
                self.send_beside(self.master, &Word::SaveShared { view, epoch, vector, round }, &state, host);
            }
            Act::DropSnapshot => drop(self.stream.copies.pop_front()),
            Act::Adopt { former } => {
                let (_, state) = self.fetched_state.take().ok_or("the state that was fetched is missing")?;
                let of =
                    |(was, cut)| self.former.as_ref().filter(|old| old.incarnation == was).map(|old| old.behind(cut));
                self.compute(Task::Stream(me, StreamTask::Adopt { state, void: former.and_then(of) }), host);
            }
            Act::Count(part) => self.stream.part = part,
        }
        Ok(())
    }

    fn kept(&self, origin: Incarnation, sequence: u64) -> Result<Bytes, String> {
        self.stream
            .get(origin, sequence)
            .ok_or_else(|| format!("message {sequence} of worker {} is missing", number_of(origin)))
    }

    /// Takes what came beside a word of a peer, if it is what it should be.
    pub(super) fn take_beside(
        &mut self,
        word: &PeerWord,
        numbers: &Bulk,
        host: &mut dyn WorkerHost,
    ) -> Result<(), String> {
        let Some(ready) = &self.job.ready else { return Err("no data is read here yet".into()) };
        if let PeerWord::Snapshot { round, .. } = word {
            self.fetched_state = Some((*round, numbers.clone()));
            return Ok(());
        }
        let numbers = &numbers.to_bytes().map_err(|error| error.to_string())?;
        match word {
            PeerWord::Update { .. } | PeerWord::Relayed { .. } => {
                let message = Message::read(numbers).map_err(|error| error.to_string())?;
                if message.elements() != ready.width {
                    let (expected, found) = (ready.width, message.elements());
                    return Err(format!("expected a message about {expected} parameters, found one about {found}"));
                }
                self.stream.arrived = Some(numbers.clone());
            }
            PeerWord::Running { slots } => {
                let running = read_values(numbers).map_err(|error| error.to_string())?;
                let task = Task::Stream(self.me(), StreamTask::MeetRunning(running, *slots, self.stream.part));
                self.compute(task, host);
            }
            _ => {}
        }
        Ok(())
    }

    pub(super) fn take_stream_done(&mut self, done: StreamDone, host: &mut dyn WorkerHost) {
        let me = self.me();
        match done {
            StreamDone::Stepped { message, loss, traffic, running } => {
                (self.loss, self.weight) = (self.loss + loss.sum, self.weight + loss.weight);
                self.stream.traffic = traffic.or(self.stream.traffic);
                let bytes = message.as_ref().map(|message| message.len() as u64);
                let next =
                    self.member.as_ref().and_then(|member| member.sharing()).map(|member| member.own_sequence() + 1);
                if let (Some(message), Some(next)) = (message, next) {
                    self.stream.keep(me, next, message);
                }
                self.feed(MemberEvent::Sharing(Happened::Stepped { bytes }), host);
                if !running.is_empty() {
                    let (numbers, slots) = (Bulk::from(write_values(&running)), self.setup.slots);
                    for peer in self.links.peers() {
                        self.send_to_peer(peer, ToPeer::Sharing(PeerWord::Running { slots }), numbers.clone(), host);
                    }
                }
                self.report(host);
            }
            StreamDone::Copied(state) => {
                self.stream.copies.push_back(state);
                self.feed(MemberEvent::Sharing(Happened::SnapshotTaken), host);
            }
        }
    }
}
