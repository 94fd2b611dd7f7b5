//! A worker's loop from its start to its end: it seeks a master, is a member of the run, and seeks again.

use std::sync::Arc;

use paceline_exchange::Planted;
use paceline_exchange::rounds::{Incarnation, Now, Slots, Term};

use super::WorkerEvent;
use super::host::{Found, Input, WorkerHost};
use super::membership::{Ended, LastRun, Membership, Prepared};
use super::stream::Former;
use crate::ClusterError;
use crate::trust::{Token, Trust};

/// Between two tries to find a master, in milliseconds.
const AGAIN_AFTER: Now = 300;
/// How often a worker without a master says that it waits for one, in milliseconds.
const TOLD_EVERY: Now = 5000;

/// A loop that was woken so much later than it wanted stood still, in milliseconds.
const STILL: Now = 1000;

/// What does not change while a worker lives.
pub struct WorkerSetup {
    /// What proves that it may join.
    pub token: Option<Token>,
    /// Whether it speaks only with a master whose key is known.
    pub needs_key: bool,
    /// Workers that it stands for.
    pub slots: Slots,
    /// How long it looks for a master, in milliseconds.
    pub patience: Now,
    /// Where it looks.
    pub place: String,
    /// A mistake, for the simulator.
    pub planted: Option<Planted>,
}

enum Stage {
    /// It looks for a master.
    Seeking {
        /// When it asks again; none while it waits for an answer.
        again: Option<Now>,
    },
    /// It has connected to one.
    Joined(Box<Membership>),
    Over,
}

/// A worker, as a machine that is handed one input at a time.
pub struct WorkerLoop {
    setup: Arc<WorkerSetup>,
    stage: Stage,
    last_run: LastRun,
    missing_since: Now,
    /// When it says the next time that it waits for a master.
    tells: Now,
    job: Prepared,
    former: Option<Former>,
    /// How long it stood still since it last joined.
    stood_still: Option<Now>,
    outcome: Option<Result<(), ClusterError>>,
}

impl WorkerLoop {
    /// A worker that looks for a master.
    pub fn new(setup: WorkerSetup, host: &mut dyn WorkerHost) -> Self {
        let now = host.now();
        host.find(0);
        Self {
            setup: Arc::new(setup),
            stage: Stage::Seeking { again: None },
            last_run: LastRun::default(),
            missing_since: now,
            // Somebody who starts everything at once need not hear of it.
            tells: now + 2 * AGAIN_AFTER,
            job: Prepared::default(),
            former: None,
            stood_still: None,
            outcome: None,
        }
    }

    /// What it came to, when it is over.
    pub fn take_outcome(&mut self) -> Option<Result<(), ClusterError>> {
        self.outcome.take()
    }

    /// When it must be woken at the latest.
    pub fn wakes_at(&self) -> Option<Now> {
        match &self.stage {
            Stage::Seeking { again } => *again,
            Stage::Joined(membership) => membership.wakes_at(),
            Stage::Over => None,
        }
    }

    /// Who it is in the run that it is a member of.
    pub fn incarnation(&self) -> Option<Incarnation> {
        self.member().map(paceline_exchange::MemberRules::incarnation)
    }

    /// The rules that it follows as a member.
    pub fn member(&self) -> Option<&paceline_exchange::MemberRules> {
        match &self.stage {
            Stage::Joined(membership) => membership.member.as_ref(),
            _ => None,
        }
    }

    /// The newest term that it has seen.
    pub fn known_term(&self) -> Term {
        self.last_run.term
    }

    /// Takes an input, and does all that follows from it.
    pub fn handle(&mut self, input: Input, host: &mut dyn WorkerHost) {
        if let Some(late) = self.wakes_at().and_then(|at| host.now().checked_sub(at)).filter(|late| *late >= STILL) {
            self.stood_still = self.stood_still.max(Some(late));
            host.tell(&WorkerEvent::StoodStill { seconds: late as f64 / 1000.0 });
        }
        let done = match &mut self.stage {
            Stage::Over => return,
            Stage::Seeking { .. } => self.seek(input, host),
            Stage::Joined(membership) => match membership.handle(input, host) {
                Ok(None) => return,
                Ok(Some(ended)) => self.leave(ended, host),
                Err(error) => Err(error),
            },
        };
        if let Some(outcome) = done.transpose() {
            self.stage = Stage::Over;
            self.outcome = Some(outcome);
        }
    }

    /// Says when the worker is over.
    fn seek(&mut self, input: Input, host: &mut dyn WorkerHost) -> Result<Option<()>, ClusterError> {
        let now = host.now();
        let is_hasty = Planted::GivesUpBeforeAMasterIsThere.is(self.setup.planted);
        let is_hopeless = now >= self.missing_since + self.setup.patience || is_hasty;
        match input {
            Input::AskedToGo => {
                host.tell(&WorkerEvent::Finished { reason: "asked to go".into() });
                return Ok(Some(()));
            }
            Input::Found(Ok(Some(found))) if found.key.is_some() || !self.setup.needs_key => self.join(found, host)?,
            Input::Found(Ok(found)) => {
                let reason = match found {
                    None => "no master has told that it leads a run".to_owned(),
                    Some(Found { address, .. }) => format!(
                        "the master at `{address}` speaks without TLS, and this worker listens to other machines: let the \
                         master listen to them, too (`--listen`)"
                    ),
                };
                if is_hopeless {
                    return Err(ClusterError::NoMaster { address: self.setup.place.clone(), reason });
                }
                self.wait(&reason, host);
            }
            Input::Found(Err(error)) if is_hopeless => return Err(error),
            Input::Found(Err(error)) => self.wait(&error.to_string(), host),
            // Of an incarnation that is over: a step that was under way when it ended has made a message.
            Input::Done(done) => self.former.iter_mut().for_each(|former| former.take(&done)),
            // Why it could not be read is told when it is wanted again.
            Input::Ready(ready) => drop(self.job.take(ready)),
            Input::Link(_) | Input::Wake => {}
        }
        if let Stage::Seeking { again } = &mut self.stage
            && again.is_some_and(|at| now >= at)
        {
            *again = None;
            host.find(self.last_run.term);
        }
        Ok(None)
    }

    /// Asks again soon.
    fn wait(&mut self, reason: &str, host: &mut dyn WorkerHost) {
        let now = host.now();
        self.stage = Stage::Seeking { again: Some(now + AGAIN_AFTER) };
        if now >= self.tells {
            self.tells = now + TOLD_EVERY;
            let left = (self.missing_since + self.setup.patience).saturating_sub(now) / 1000;
            let place = self.setup.place.clone();
            host.tell(&WorkerEvent::Waiting { place, reason: reason.into(), seconds_left: left });
        }
    }

    fn join(&mut self, found: Found, host: &mut dyn WorkerHost) -> Result<(), ClusterError> {
        // Members have certificates of the same authority; only the master is joined.
        let expects_master = found.key.is_some();
        if let Some(key) = found.key {
            host.links().set_trust(Trust::joining(key)?);
        }
        let (job, former) = (std::mem::take(&mut self.job), self.former.take());
        let mut membership = Membership::new(self.setup.clone(), found.address, self.last_run, job, former, host);
        (membership.expects_master, membership.stood_still) = (expects_master, self.stood_still.take());
        self.stage = Stage::Joined(Box::new(membership));
        Ok(())
    }

    /// An incarnation is over. Says when the worker is, too.
    fn leave(&mut self, ended: Ended, host: &mut dyn WorkerHost) -> Result<Option<()>, ClusterError> {
        let now = host.now();
        let stage = std::mem::replace(&mut self.stage, Stage::Seeking { again: None });
        let Stage::Joined(membership) = stage else { return Ok(None) };
        let Membership { address, run, term, job, former, stood_still, .. } = *membership;
        if run == self.last_run.run {
            self.last_run.term = self.last_run.term.max(term);
        } else if run != 0 {
            self.last_run = LastRun { run, term };
        }
        (self.job, self.former) = (job, former);
        self.stood_still = self.stood_still.max(stood_still);
        match ended {
            Ended::Finished(reason) => {
                host.tell(&WorkerEvent::Finished { reason });
                return Ok(Some(()));
            }
            Ended::Refused(reason) => return Err(ClusterError::Refused { address, reason }),
            Ended::Failed(reason) => return Err(ClusterError::RunFailed { reason }),
            Ended::Broken(reason) => return Err(ClusterError::WorkerBroken { reason }),
            Ended::NotFound(reason) => {
                if now >= self.missing_since + self.setup.patience {
                    return Err(ClusterError::NoMaster { address, reason });
                }
                self.wait(&reason, host);
            }
            Ended::Rejoin(reason) => {
                self.missing_since = now;
                host.tell(&WorkerEvent::Left { reason });
                host.find(self.last_run.term);
                self.tells = now + 2 * AGAIN_AFTER;
            }
        }
        Ok(None)
    }
}
