//! What the rules decide, carried out.

use paceline_exchange::Bulk;
use paceline_exchange::rounds::message::ToPeer;
use paceline_exchange::rounds::{Course, MemberAction, MemberEvent, number_of};
use paceline_train::{Outlet, Sink};

use super::WorkerEvent;
use super::chunks::{Outgoing, Whole};
use super::compute::{Done, ReplicaDone, Task, Whom};
use super::host::WorkerHost;
use super::membership::{Ended, Membership};
use crate::wire::Word;

impl Membership {
    /// Tells the rules what happened, and does what they say.
    pub(super) fn feed(&mut self, event: MemberEvent, host: &mut dyn WorkerHost) {
        let now = host.now();
        // Whatever was sent to it before may not have arrived: it is sent again when the rules say so.
        if let (MemberEvent::PeerUp(peer) | MemberEvent::PeerDown(peer), Some(flow)) = (&event, &mut self.flow) {
            flow.reached.remove(peer);
        }
        let Some(member) = &mut self.member else { return };
        let mut follows = Vec::new();
        let noted = host.record().is_on().then(|| event.clone());
        let actions = member.handle(event, now);
        if let Some(event) = noted {
            host.record().note(now, &event, &actions);
        }
        for action in actions {
            match self.carry_out(action, host) {
                Ok(events) => follows.extend(events),
                Err(reason) => {
                    self.ended = Some(Ended::Rejoin(reason));
                    return;
                }
            }
        }
        for event in follows {
            self.feed(event, host);
        }
    }

    /// Says what follows at once.
    pub(super) fn carry_out(
        &mut self,
        action: MemberAction,
        host: &mut dyn WorkerHost,
    ) -> Result<Vec<MemberEvent>, String> {
        let me = self.me();
        match action {
            MemberAction::Tell(message) => self.send(self.master, &Word::ToMaster(message), host),
            MemberAction::Ask(peer, message) => self.send_to_peer(peer, message, Bulk::default(), host),
            MemberAction::AskMasterForState(round) => self.send(self.master, &Word::WantState { round }, host),
            MemberAction::Begin { view, members, round } => {
                let members = members.into_iter().map(number_of).collect();
                host.tell(&WorkerEvent::View { view, members, round });
            }
            MemberAction::Connect(peers) => {
                let now = host.now();
                let without_link = self.links.want(peers, host.links(), now);
                let relayed = self.links.relayed().iter().copied().map(MemberEvent::PeerUp);
                return Ok(without_link.into_iter().map(MemberEvent::PeerDown).chain(relayed).collect());
            }
            MemberAction::Compute { work, round, steps, next, course, gives } => {
                let ready = self.job.ready.as_ref().ok_or("the data is not read yet")?;
                let (gives_nothing, width) = (ready.gives_nothing, ready.layout.width());
                let rounds = self.rounds.as_mut().ok_or("the data is not read yet")?;
                self.work.iter().for_each(|work| work.set_void());
                let cut = rounds.cut;
                let spare = std::mem::take(&mut rounds.spare);
                let to = gives.as_ref().map(|(view, paths)| (*view, paths.part().1));
                let out = Outgoing::new((me, round, work), cut, to, spare, host.outbox());
                self.work = Some(out.clone());
                if let Some((view, paths)) = gives {
                    self.begin_flow((view, round), work, paths);
                }
                // Nobody waits for a thread that is still at what is not wanted any more.
                if course == Course::Contributed && gives_nothing && steps.is_empty() {
                    out.begin(0.0);
                    out.put(0..width, &vec![0.0; width]);
                    // It comes back to this loop, which is here.
                    let _ = host.outbox().send(ReplicaDone(Done::Computed { of: me, work, weight: 0.0, loss: 0.0 }));
                    return Ok(Vec::new());
                }
                self.compute(Task::Compute { steps, next, course, out }, host);
            }
            MemberAction::DropAhead => {
                self.work.iter().for_each(|work| work.set_void());
                self.compute(Task::DropAhead, host);
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
                    self.send_chunks(to, &ToPeer::Contribution { view, round }, &chunks, of, host);
                }
            }
            MemberAction::Sum { view, round, paths } => {
                let rounds = self.rounds.as_ref().ok_or("the data is not read yet")?;
                let (part, parts) = paths.part();
                let own = rounds.cut.of_member(part, parts);
                if !self.is_flowing((view, round)) {
                    self.begin_flow((view, round), 0, paths);
                    // What is summed now is sent by the actions that follow.
                    self.flow.iter_mut().for_each(|flow| flow.reached.clear());
                }
                own.for_each(|index| self.sum_chunk((view, round), index, host));
            }
            MemberAction::PassUp { to, view, round } => {
                let rounds = self.rounds.as_ref().ok_or("the data is not read yet")?;
                if !self.has_reached((view, round), to) {
                    let (chunks, of) = (rounds.partial((view, round)), rounds.cut.count());
                    self.send_chunks(to, &ToPeer::Contribution { view, round }, &chunks, of, host);
                }
            }
            MemberAction::Distribute { to, view, round } => {
                let rounds = self.rounds.as_ref().ok_or("the data is not read yet")?;
                let (part, parts) = self.own_part();
                let of = rounds.cut.of_member(part, parts).len();
                if of > 0 && self.has_reached((view, round), to) {
                    return Ok(Vec::new());
                }
                let chunks = rounds.sums_of((view, round), part, parts);
                self.send_chunks(to, &ToPeer::Reduced { view, round }, &chunks, of, host);
            }
            MemberAction::Apply { view, round, at, .. } => {
                let rounds = self.rounds.as_mut().ok_or("the data is not read yet")?;
                let result = rounds.assemble((view, round))?;
                self.compute(Task::Commit { of: me, at, result }, host);
            }
            MemberAction::ApplyFetched(round, at) => {
                let rounds = self.rounds.as_mut().ok_or("the data is not read yet")?;
                let (_, result) = rounds.fetched_result.take().ok_or("the result that was fetched is missing")?;
                let result = rounds.keep(round, result);
                self.compute(Task::Commit { of: me, at, result }, host);
            }
            MemberAction::Adopt(_) => {
                let (_, state) = self.fetched_state.take().ok_or("the state that was fetched is missing")?;
                self.compute(Task::Adopt { of: me, state }, host);
            }
            MemberAction::ServeResult(peer, round) => {
                let result = self.rounds.as_ref().and_then(|rounds| rounds.result(round)).map(Whole::write);
                if let Some(numbers) = result {
                    self.send_to_peer(peer, ToPeer::Result { round }, numbers, host);
                }
            }
            MemberAction::ServeState(peer, round) => {
                self.compute(Task::Snapshot { of: me, whom: Whom::Peer(peer), round }, host)
            }
            MemberAction::SaveState(round, rest) => {
                self.compute(Task::Snapshot { of: me, whom: Whom::Master(rest), round }, host)
            }
            MemberAction::Forget(view, round) => {
                self.rounds.iter_mut().for_each(|rounds| rounds.forget(view, round));
            }
            MemberAction::Sharing(act) => self.act(act, host)?,
            MemberAction::SetTimer(at) => self.timer = Some(self.timer.map_or(at, |timer| timer.min(at))),
            MemberAction::End { reason, rejoin } => {
                let is_rejoining = rejoin && self.leaving.is_none();
                self.report_now(host);
                self.ended = Some(if is_rejoining { Ended::Rejoin(reason) } else { Ended::Finished(reason) });
            }
        }
        Ok(Vec::new())
    }
}
