//! What the rules decide, carried out.

use paceline_exchange::rounds::message::ToPeer;
use paceline_exchange::rounds::{Course, MemberAction, MemberEvent};
use paceline_train::{Outlet, Sink};

use super::chunks::{Outgoing, Whole};
use super::compute::{Done, Task, Whom};
use super::event_loop::{Ended, EventLoop};
use super::prepare::Prepared;
use crate::wire::Word;

impl EventLoop<'_> {
    /// Tells the rules what happened, and does what they say.
    pub(super) fn feed(&mut self, event: MemberEvent, prepared: &mut Option<Prepared>) {
        let now = self.now();
        // Whatever was sent to it before may not have arrived: it is sent again when the rules say so.
        if let (MemberEvent::PeerUp(peer) | MemberEvent::PeerDown(peer), Some(flow)) = (&event, &mut self.flow) {
            flow.reached.remove(peer);
        }
        let Some(member) = &mut self.member else { return };
        let mut follows = Vec::new();
        let noted = self.record.is_on().then(|| event.clone());
        let actions = member.handle(event, now);
        if let Some(event) = noted {
            self.record.note(now, &event, &actions);
        }
        for action in actions {
            match self.carry_out(action, prepared) {
                Ok(events) => follows.extend(events),
                Err(reason) => {
                    self.ended = Some(Ended::Rejoin(reason));
                    return;
                }
            }
        }
        for event in follows {
            self.feed(event, prepared);
        }
    }

    /// Says what follows at once.
    pub(super) fn carry_out(
        &mut self,
        action: MemberAction,
        prepared: &mut Option<Prepared>,
    ) -> Result<Vec<MemberEvent>, String> {
        let me = self.me();
        let task = |task: Task| -> Result<(), String> {
            let compute = prepared.as_ref().map(|prepared| &prepared.compute).ok_or("the data is not read yet")?;
            compute.tasks.send(task).map_err(|_| "the thread that computes is gone".to_owned())
        };
        match action {
            MemberAction::Tell(message) => self.send(self.master, &Word::ToMaster(message), &[]),
            MemberAction::Ask(peer, message) => self.send_to_peer(peer, message, &[]),
            MemberAction::AskMasterForState(round) => self.send(self.master, &Word::WantState { round }, &[]),
            MemberAction::Connect(peers) => {
                let without_link = self.links.want(peers, self.transport);
                let relayed = self.links.relayed().iter().copied().map(MemberEvent::PeerUp);
                return Ok(without_link.into_iter().map(MemberEvent::PeerDown).chain(relayed).collect());
            }
            MemberAction::Compute { work, round, steps, next, course, gives } => {
                let ready = prepared.as_ref().ok_or("the data is not read yet")?;
                let rounds = self.rounds.as_mut().ok_or("the data is not read yet")?;
                self.work.iter().for_each(|work| work.set_void());
                let cut = rounds.cut;
                let spare = std::mem::take(&mut rounds.spare);
                let to = gives.as_ref().map(|(view, members)| (*view, members.len()));
                let out = Outgoing::new((me, round, work), cut, to, spare, ready.compute.outbox.clone());
                self.work = Some(out.clone());
                if let Some((view, members)) = gives {
                    self.begin_flow((view, round), work, members);
                }
                // Nobody waits for a thread that is still at what is not wanted any more.
                if course == Course::Contributed && ready.gives_nothing && steps.is_empty() {
                    out.begin(0.0);
                    out.put(0..ready.layout.width(), &vec![0.0; ready.layout.width()]);
                    let outbox = &ready.compute.outbox;
                    let _ = outbox.send(Done::Computed { of: me, work, weight: 0.0, loss: 0.0 });
                    return Ok(Vec::new());
                }
                task(Task::Compute { steps, next, course, out })?;
            }
            MemberAction::DropAhead => {
                self.work.iter().for_each(|work| work.set_void());
                task(Task::DropAhead)?;
            }
            MemberAction::Contribute { to, view, round, part, parts } => {
                let flows = self.flow.as_ref().is_some_and(|flow| flow.key == (view, round) && flow.work > 0);
                let rounds = self.rounds.as_mut().ok_or("the data is not read yet")?;
                let of = rounds.cut.of_member(part, parts).len();
                if of > 0 && (self.has_reached((view, round), to) || (to == me && flows)) {
                    return Ok(Vec::new());
                }
                let rounds = self.rounds.as_mut().ok_or("the data is not read yet")?;
                let chunks = rounds.own_for(round, part, parts)?;
                if to == me {
                    for chunk in chunks {
                        rounds.take((view, round), me, Some(chunk), of);
                    }
                } else {
                    self.send_chunks(to, &ToPeer::Contribution { view, round }, &chunks, of);
                }
            }
            MemberAction::Sum { view, round, members } => {
                let rounds = self.rounds.as_ref().ok_or("the data is not read yet")?;
                let place = members.iter().position(|member| *member == me).ok_or("not a member of its own view")?;
                let own = rounds.cut.of_member(place, members.len());
                if !self.is_flowing((view, round)) {
                    self.begin_flow((view, round), 0, members);
                    // What is summed now is sent by the actions that follow.
                    self.flow.iter_mut().for_each(|flow| flow.reached.clear());
                }
                own.for_each(|index| self.sum_chunk((view, round), index));
            }
            MemberAction::Distribute { to, view, round } => {
                let rounds = self.rounds.as_ref().ok_or("the data is not read yet")?;
                let (place, members) = self.place_in_view();
                let of = rounds.cut.of_member(place, members).len();
                if of > 0 && self.has_reached((view, round), to) {
                    return Ok(Vec::new());
                }
                let chunks = rounds.sums_of((view, round), place, members);
                self.send_chunks(to, &ToPeer::Reduced { view, round }, &chunks, of);
            }
            MemberAction::Apply { view, round, at, .. } => {
                let rounds = self.rounds.as_mut().ok_or("the data is not read yet")?;
                let result = rounds.assemble((view, round))?;
                task(Task::Commit { of: me, at, result })?;
            }
            MemberAction::ApplyFetched(round, at) => {
                let rounds = self.rounds.as_mut().ok_or("the data is not read yet")?;
                let (_, result) = rounds.fetched_result.take().ok_or("the result that was fetched is missing")?;
                let result = rounds.keep(round, result);
                task(Task::Commit { of: me, at, result })?;
            }
            MemberAction::Adopt(_) => {
                let (_, state) = self.fetched_state.take().ok_or("the state that was fetched is missing")?;
                task(Task::Adopt { of: me, state })?;
            }
            MemberAction::ServeResult(peer, round) => {
                let result = self.rounds.as_ref().and_then(|rounds| rounds.result(round)).map(Whole::write);
                if let Some(numbers) = result {
                    self.send_to_peer(peer, ToPeer::Result { round }, &numbers);
                }
            }
            MemberAction::ServeState(peer, round) => task(Task::Snapshot { of: me, whom: Whom::Peer(peer), round })?,
            MemberAction::SaveState(round, rest) => task(Task::Snapshot { of: me, whom: Whom::Master(rest), round })?,
            MemberAction::Forget(view, round) => {
                self.rounds.iter_mut().for_each(|rounds| rounds.forget(view, round));
            }
            MemberAction::Sharing(act) => self.act(act, prepared)?,
            MemberAction::SetTimer(at) => self.timer = Some(self.timer.map_or(at, |timer| timer.min(at))),
            MemberAction::End { reason, rejoin } => {
                let is_rejoining = rejoin && self.leaving.is_none();
                self.ended = Some(if is_rejoining { Ended::Rejoin(reason) } else { Ended::Finished(reason) });
            }
        }
        Ok(Vec::new())
    }
}
