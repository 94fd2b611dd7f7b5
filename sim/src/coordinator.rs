//! Who leads, and what is published: a coordinator that notices late, is away for a while, and loses replies.

use std::collections::BTreeMap;

use paceline_cluster::ClusterError;
use paceline_cluster::coordination::{CoordinationError, Leadership, RunRecord, RunStage};
use paceline_cluster::loops::{Answer, MasterInput, Unpublished};
use paceline_exchange::Planted;
use paceline_exchange::rounds::Now;

use crate::network::Pid;
use crate::world::{Happening, NOBODY, World};

#[derive(Default)]
pub(crate) struct Coordinator {
    pub term: u64,
    pub leader: Option<Pid>,
    /// Candidates, in the order in which they came.
    waiting: Vec<Pid>,
    pub record: Option<RunRecord>,
    /// The term that each process believes to lead.
    believed: BTreeMap<Pid, u64>,
    /// Nobody reaches it before.
    away_until: Now,
    /// When the last thing that a process wants to publish arrives.
    arrives: BTreeMap<Pid, Now>,
}

impl World {
    /// Whether a process rules a term that nobody has succeeded in, though its session may have ended.
    pub(crate) fn leads(&self, pid: Pid, term: u64) -> bool {
        self.coordinator.believed.get(&pid) == Some(&term) && self.coordinator.term == term
    }

    /// The record of the master that leads now, for one who has seen a term.
    pub(crate) fn found_by(&self, known: u64) -> Option<&RunRecord> {
        let Coordinator { term, leader, record, away_until, .. } = &self.coordinator;
        let record = record.as_ref().filter(|record| record.term == *term && record.term >= known);
        record.filter(|_| leader.is_some() && self.now >= *away_until)
    }

    pub(crate) fn stand(&mut self, pid: Pid) {
        let delay = self.random.within(1, 20);
        self.coordinator.waiting.push(pid);
        match self.coordinator.leader {
            None => self.after(delay, pid, Happening::Leads),
            Some(_) => self.after(delay, pid, Happening::Answered(Answer::Standby)),
        }
    }

    pub(crate) fn resign(&mut self, pid: Pid) {
        self.coordinator.believed.remove(&pid);
        self.coordinator.waiting.retain(|waiting| *waiting != pid);
        self.expire(pid);
    }

    /// The first candidate leads, if nobody does.
    pub(crate) fn lead_now(&mut self, pid: Pid) {
        if self.now < self.coordinator.away_until {
            return self.at(self.coordinator.away_until, pid, Happening::Leads);
        }
        if self.coordinator.leader.is_some() || self.coordinator.waiting.first() != Some(&pid) {
            return;
        }
        self.coordinator.waiting.remove(0);
        if self.planted != Some(Planted::TakesTheSameTermAgain) || self.coordinator.term == 0 {
            self.coordinator.term += 1;
        }
        let (term, found) = (self.coordinator.term, self.coordinator.record.clone());
        self.coordinator.leader = Some(pid);
        self.coordinator.believed.insert(pid, term);
        let round = found.as_ref().and_then(|record| self.store.files.get(record.checkpoint.as_ref()?));
        let round = round.map_or(0, |checkpoint| checkpoint.round);
        self.watch.master_began(self.now, term, round);
        self.tell_master(pid, MasterInput::Done(Answer::Led(Ok(Leadership { term, found }))));
    }

    /// A leader is known to be gone, or has stepped down, or a candidate is gone: the next one leads.
    pub(crate) fn expire(&mut self, leader: Pid) {
        let is_candidate = self.dead.contains(&leader) && self.coordinator.waiting.contains(&leader);
        if self.coordinator.leader != Some(leader) && !is_candidate {
            return;
        }
        if self.now < self.coordinator.away_until {
            return self.at(self.coordinator.away_until, NOBODY, Happening::Expires(leader));
        }
        if self.coordinator.leader == Some(leader) {
            self.coordinator.leader = None;
            // It learns of it from the coordinator, sooner or later.
            let delay = self.random.within(1, 3000);
            self.after(delay, leader, Happening::Unled(self.coordinator.term));
        }
        let dead = &self.dead;
        self.coordinator.waiting.retain(|pid| !dead.contains(pid));
        if self.coordinator.leader.is_none()
            && let Some(next) = self.coordinator.waiting.first().copied()
        {
            self.after(5, next, Happening::Leads);
        }
    }

    /// One who believes to lead a term is told that it does not, if it still believes so.
    pub(crate) fn tell_unled(&mut self, pid: Pid, mine: u64) {
        if self.coordinator.believed.get(&pid) == Some(&mine) {
            self.coordinator.believed.remove(&pid);
            self.watch.count("an old master learnt that it was succeeded");
            // Whoever does not lead can publish nothing, and so saves nothing; its members still hold their state.
            self.stop_asked.take_if(|asked| asked.pid == pid);
            let error = CoordinationError::Fenced { mine, newest: self.coordinator.term };
            self.tell_master(pid, MasterInput::Done(Answer::Unled(ClusterError::from(error))));
        }
    }

    /// What is published arrives in order, now and then late, and perhaps after its master is gone.
    pub(crate) fn publish(&mut self, pid: Pid, record: RunRecord) {
        let delay = if self.random.one_in(20) { self.random.within(20, 2000) } else { self.random.within(1, 20) };
        let last = self.coordinator.arrives.entry(pid).or_default();
        *last = (*last).max(self.now + delay);
        let at = *last;
        self.at(at, NOBODY, Happening::Publishes(pid, record));
    }

    /// A record becomes the newest, unless somebody else has taken a term since.
    pub(crate) fn take_record(&mut self, pid: Pid, record: RunRecord) {
        if self.now < self.coordinator.away_until {
            return self.at(self.coordinator.away_until, NOBODY, Happening::Publishes(pid, record));
        }
        // The reply may be lost and asked for again.
        let delay = if self.random.one_in(20) { self.random.within(20, 2000) } else { self.random.within(1, 20) };
        let newest = self.coordinator.term;
        if record.term < newest {
            self.watch.count("an old master was fenced");
            self.after(delay, pid, Happening::Unled(record.term));
            return self.after(delay, pid, Happening::Answered(Answer::Published(Err(Unpublished::NotLeading))));
        }
        if let Some(RunStage::Ended { .. }) = self.coordinator.record.as_ref().map(|record| &record.stage)
            && !matches!(record.stage, RunStage::Ended { .. })
        {
            return self.watch.fail(self.now, "a run that has ended was begun again".into());
        }
        self.coordinator.record = Some(record);
        let answers = self.coordinator.arrives.entry(pid).or_default();
        *answers = (*answers).max(self.now + delay);
        let at = *answers;
        self.at(at, pid, Happening::Answered(Answer::Published(Ok(()))));
    }

    /// Nobody reaches the coordinator for a while. Some sessions outlast that, others do not.
    pub(crate) fn go_away(&mut self, until: Now) {
        self.coordinator.away_until = until.max(self.coordinator.away_until);
        let Some((leader, term)) = self.coordinator.leader.map(|leader| (leader, self.coordinator.term)) else {
            return;
        };
        let notices = self.random.within(50, 1500);
        if self.now + notices >= until {
            return;
        }
        self.watch.count("the coordinator was away");
        self.after(notices, leader, Happening::Unsure(term));
        let returns = self.random.within(1, 50);
        if self.random.one_in(3) {
            self.at(until + returns, NOBODY, Happening::Expires(leader));
        } else {
            self.at(until + returns, leader, Happening::Regains(term));
        }
    }

    /// Who leads a term notices that the coordinator is away, if it still is.
    pub(crate) fn be_unsure(&mut self, pid: Pid, term: u64) {
        if self.leads(pid, term) && self.now < self.coordinator.away_until {
            let away = Answer::CoordinatorAway("nobody answers".into());
            self.tell_master(pid, MasterInput::Done(away));
        }
    }

    /// The coordinator is back: who still leads the same term goes on.
    pub(crate) fn regain(&mut self, pid: Pid, term: u64) {
        if self.now < self.coordinator.away_until {
            return self.at(self.coordinator.away_until + 1, pid, Happening::Regains(term));
        }
        if self.leads(pid, term) {
            self.watch.count("a master led on when the coordinator was back");
            self.tell_master(pid, MasterInput::Done(Answer::CoordinatorBack));
        }
    }
}
