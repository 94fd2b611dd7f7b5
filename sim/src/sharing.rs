//! What a worker does in `shared`, carried out.

use paceline_exchange::rounds::message::ToPeer;
use paceline_exchange::rounds::{Incarnation, MemberEvent};
use paceline_exchange::sharing::message::PeerWord;
use paceline_exchange::sharing::{Act, Happened};

use crate::network::{Message, Numbers as Carried, Pid};
use crate::stream::{Done, Stream, Task};
use crate::world::{Happening, World};

impl World {
    pub(crate) fn act_for_worker(&mut self, pid: Pid, me: Incarnation, act: Act) -> Result<(), String> {
        match act {
            Act::Step { epoch, spans, encodes, .. } => {
                let task = Task::Step { epoch, spans, encodes };
                if encodes == paceline_exchange::sharing::Encodes::Nothing {
                    self.watch.count("a step sent nothing because somebody was slow");
                }
                self.enqueue(pid, task);
            }
            Act::Keep { origin, sequence } => {
                let stream = self.stream(pid);
                let update = stream.arrived.take();
                let update =
                    update.ok_or_else(|| format!("message {sequence} of {origin} was to be kept, but did not come"))?;
                stream.kept.insert((origin, sequence), update);
            }
            Act::Apply { origin, sequence } => self.enqueue(pid, Task::Apply(origin, sequence)),
            Act::Forget { origin, up_to } => {
                // What waits in the queue is applied all the same.
                let waits = |stream: &Stream, sequence| {
                    stream.tasks.iter().any(|task| matches!(task, Task::Apply(o, s) if *o == origin && *s == sequence))
                };
                let stream = self.stream(pid);
                let old: Vec<_> = stream.kept.range((origin, 0)..=(origin, up_to)).map(|(key, _)| *key).collect();
                for key in old {
                    if !waits(stream, key.1) {
                        stream.kept.remove(&key);
                    }
                }
            }
            Act::Send { to, sequence, covered, examples, stable } => {
                let update = self.stream(pid).kept.get(&(me, sequence)).cloned();
                let update = update.ok_or_else(|| format!("own message {sequence} was to be sent, but is not kept"))?;
                let word = PeerWord::Update { sequence, covered, examples, stable };
                self.say_to_peer(pid, to, ToPeer::Sharing(word), Carried::Update(update));
            }
            Act::Relay { to, origin, sequence, covered, examples } => {
                self.watch.count("a survivor relayed a message of a lost worker");
                let update = self.stream(pid).kept.get(&(origin, sequence)).cloned();
                let update = update
                    .ok_or_else(|| format!("message {sequence} of {origin} was to be relayed, but is not kept"))?;
                let word = PeerWord::Relayed { origin, sequence, covered, examples };
                self.say_to_peer(pid, to, ToPeer::Sharing(word), Carried::Update(update));
            }
            Act::Snapshot => self.enqueue(pid, Task::Snapshot),
            Act::SendSnapshot { to, view, vector, round } => {
                let state = self.stream(pid).copies.pop_front().ok_or("a copy was to be sent, but there is none")?;
                self.watch.state_is_sum(self.now, &state);
                let word = PeerWord::Snapshot { view, vector, round };
                self.say_to_peer(pid, to, ToPeer::Sharing(word), Carried::State(state));
                if self.faults.donor_dies(&mut self.random, self.now) {
                    self.watch.count("a donor died");
                    self.lose_worker(pid);
                }
            }
            Act::SaveSnapshot { view, epoch, vector, round } => {
                let state = self.stream(pid).copies.pop_front().ok_or("a copy was to be saved, but there is none")?;
                self.say_to_master(pid, Message::SaveShared { view, epoch, vector, round, state });
                if self.faults.saver_dies(&mut self.random, self.now) {
                    self.watch.count("a worker died when it had sent its state to the master");
                    self.lose_worker(pid);
                }
            }
            Act::DropSnapshot => drop(self.stream(pid).copies.pop_front()),
            Act::Adopt { former } => {
                let state = self.stream(pid).came.take().ok_or("a state was to be taken over, but none came")?;
                let old = self.workers[&pid].former.as_ref();
                let residual = match (former, old) {
                    (Some((was, cut)), Some((of, old))) if was == *of => {
                        self.watch.count("an evicted worker brought back what it had not sent");
                        old.unsent_behind(cut)
                    }
                    _ => Default::default(),
                };
                self.enqueue(pid, Task::Adopt { state, residual });
            }
            Act::Count(_) => {}
        }
        Ok(())
    }

    fn enqueue(&mut self, pid: Pid, task: Task) {
        self.stream(pid).tasks.push_back(task);
        // What happens to the queue happens behind all that this event led to.
        self.after(0, pid, Happening::Queued);
    }

    /// Works through the queue up to the next step, and begins that.
    pub(crate) fn work_on(&mut self, pid: Pid) {
        loop {
            let Some(member) = self.workers[&pid].member.as_ref() else { return };
            let (me, now) = (member.incarnation(), self.now);
            let stream = self.stream(pid);
            if stream.is_stepping {
                return;
            }
            match stream.next() {
                Err(wrong) => return self.watch.fail(now, format!("worker {pid}: {wrong}")),
                Ok(Some(Some(Done::Copied))) => {
                    self.tell_worker(pid, MemberEvent::Sharing(Happened::SnapshotTaken));
                }
                Ok(Some(_)) => {}
                Ok(None) => {
                    let Some(Task::Step { epoch, spans, .. }) = self.stream(pid).tasks.front().cloned() else { return };
                    if self.faults.kills(epoch, &spans) {
                        self.watch.count("an example killed its worker");
                        return self.lose_worker(pid);
                    }
                    self.stream(pid).is_stepping = true;
                    let delay = self.random.within(5, 60);
                    return self.after(delay, pid, Happening::Stepped(me));
                }
            }
        }
    }

    pub(crate) fn step_is_taken(&mut self, pid: Pid, me: Incarnation) {
        let is_alive = self.workers[&pid].member.as_ref().is_some_and(|member| member.incarnation() == me);
        if !is_alive || !self.stream(pid).is_stepping {
            return;
        }
        let done = self.stream(pid).step();
        if !self.stream(pid).conserves() {
            let now = self.now;
            self.watch.fail(now, format!("worker {pid} has lost something between its updates and its messages"));
        }
        if let Some(Done::Stepped(update)) = done {
            let bytes = update.as_ref().map(|_| 100);
            if let Some(update) = update {
                let sequence = self.stream(pid).state.applied.get(&me).copied().unwrap_or(0);
                self.watch.made(me, sequence, update);
            }
            self.tell_worker(pid, MemberEvent::Sharing(Happened::Stepped { bytes }));
        }
        if self.workers.contains_key(&pid) && !self.dead.contains(&pid) {
            self.work_on(pid);
        }
    }

    pub(crate) fn stream(&mut self, pid: Pid) -> &mut Stream {
        &mut self.workers.get_mut(&pid).expect("only live workers are driven").stream
    }
}
