//! A master's loop from its start to its end: it stands by, leads a term, and finishes the run.

use std::sync::Arc;

use paceline_exchange::Planted;
use paceline_exchange::rounds::{MasterOptions, MemberOptions, Now, Operator, Schedule};
use paceline_train::{Event, ReplicaMode, TrainOptions};

use super::Outcome;
use super::host::{Answer, Begun, Input, MasterHost, Operation, Unpublished};
use super::judging::Kept;
use super::term::Term;
use crate::ClusterError;
use crate::coordination::{Leadership, RunRecord, RunStage};
use crate::tracker::Board;
use crate::transport::{LinkId, TransportEvent};
use crate::trust::{JoinString, Token};
use crate::wire::JobText;

/// What does not change while a master lives.
pub struct MasterSetup {
    /// The job.
    pub text: JobText,
    /// How it trains.
    pub train: TrainOptions,
    /// How the replicas stay together.
    pub mode: ReplicaMode,
    /// What the rules need.
    pub rules: MasterOptions,
    /// What members need.
    pub member: MemberOptions,
    /// All that there is to do.
    pub work: Schedule,
    /// Parameters of the network.
    pub parameters: usize,
    /// What workers must show.
    pub token: Option<Token>,
    /// Where this master is.
    pub address: String,
    /// The fingerprint of its key.
    pub key: Option<crate::trust::Fingerprint>,
    /// How old a certificate of a member becomes before it gets a new one; none where links are plain.
    pub renews_after: Option<Now>,
    /// Whether a run that is there already is begun anew.
    pub restarts: bool,
    /// Whether it tells at the end what the time of its members went into.
    pub statistics: bool,
    /// A mistake, for the simulator.
    pub planted: Option<Planted>,
}

enum Stage {
    /// Another one leads, or nobody does yet.
    Standby { is_told: bool },
    /// It leads, and reads what it goes on from.
    Loading { term: u64, is_reading: bool },
    /// It publishes that it leads.
    Announcing { record: RunRecord, begun: Box<Begun>, is_resumed: bool },
    /// It leads.
    Leading(Box<Term>),
    /// It was succeeded, and waits for answers to what it has asked for before it stands by.
    Retiring { unanswered: usize },
    /// It is done.
    Over,
}

/// A master, as a machine that is handed one input at a time.
pub struct MasterLoop {
    setup: Arc<MasterSetup>,
    board: Board,
    stage: Stage,
    /// Whether a run that is there already is begun anew when it leads.
    restarts: bool,
    /// Links of members that were there when it was over.
    last_links: Vec<LinkId>,
    outcome: Option<Result<Outcome, ClusterError>>,
}

impl MasterLoop {
    /// A master that wants to lead.
    pub fn new(setup: MasterSetup, board: Board, host: &mut dyn MasterHost) -> Self {
        host.begin(Operation::Lead);
        let restarts = setup.restarts;
        Self {
            setup: Arc::new(setup),
            board,
            stage: Stage::Standby { is_told: false },
            restarts,
            last_links: Vec::new(),
            outcome: None,
        }
    }

    /// What it came to, when it is over.
    pub fn take_outcome(&mut self) -> Option<Result<Outcome, ClusterError>> {
        self.outcome.take()
    }

    /// When it must be woken at the latest.
    pub fn wakes_at(&self) -> Option<Now> {
        match &self.stage {
            Stage::Leading(term) => Some(term.wakes_at()),
            _ => None,
        }
    }

    /// Links of members that were there when it was over: they may not have heard everything yet.
    pub fn last_links(&self) -> &[LinkId] {
        &self.last_links
    }

    /// The term that it leads.
    pub fn term(&self) -> Option<&Term> {
        match &self.stage {
            Stage::Leading(term) => Some(term),
            _ => None,
        }
    }

    /// Takes an input, and does all that follows from it.
    pub fn handle(&mut self, input: Input, host: &mut dyn MasterHost) {
        let result = match (&mut self.stage, input) {
            (Stage::Over, _) => return,
            (_, Input::Done(Answer::Unled(error))) => self.retire(&error, host),
            (Stage::Leading(term), input) => term.handle(input, host),
            (_, input) => self.begin(input, host),
        };
        if let Some(outcome) = result.transpose() {
            self.last_links = self.term().into_iter().flat_map(Term::links).collect();
            self.stage = Stage::Over;
            self.outcome = Some(outcome);
        }
    }

    /// Until it leads. Says what the master came to, if it does not get there.
    fn begin(&mut self, input: Input, host: &mut dyn MasterHost) -> Result<Option<Outcome>, ClusterError> {
        match input {
            Input::Link(TransportEvent::Frame { link, .. }) => {
                host.links().close(link, "this master does not lead yet");
            }
            Input::Asked(Operator::Stop) => {
                host.begin(Operation::Resign);
                return Ok(Some(Outcome { scores: None, stopped: true }));
            }
            Input::Link(_) | Input::Asked(_) | Input::Wake => {}
            Input::Done(Answer::Standby) => {
                if let Stage::Standby { is_told: is_told @ false } = &mut self.stage {
                    *is_told = true;
                    host.tell(&Event::Standby { address: self.setup.address.clone() });
                }
            }
            Input::Done(Answer::CoordinatorAway(reason)) => host.tell(&Event::CoordinatorAway { reason }),
            Input::Done(Answer::CoordinatorBack) => host.tell(&Event::CoordinatorBack),
            Input::Done(answer) => return self.take_answer(answer, host),
        }
        Ok(None)
    }

    fn take_answer(&mut self, answer: Answer, host: &mut dyn MasterHost) -> Result<Option<Outcome>, ClusterError> {
        match (&mut self.stage, answer) {
            (Stage::Retiring { unanswered }, _) => {
                *unanswered -= 1;
                self.stand_by_when_all_is_answered(host);
            }
            (_, Answer::Led(leadership)) => return self.lead(leadership?, host),
            (_, Answer::Loaded(loaded)) => {
                let begun = loaded?;
                if let Some(message) = begun.remark.clone() {
                    host.tell(&Event::Warning { message });
                }
                self.announce(*begun, true, host);
            }
            (Stage::Announcing { .. }, Answer::Published(Ok(()))) => self.open(host)?,
            (Stage::Announcing { .. }, Answer::Published(Err(Unpublished::Failed(reason)))) => {
                return Err(ClusterError::RunFailed { reason });
            }
            _ => {}
        }
        Ok(None)
    }

    /// Another one leads. This one stands by, unless it was asked to stop.
    fn retire(&mut self, why: &ClusterError, host: &mut dyn MasterHost) -> Result<Option<Outcome>, ClusterError> {
        let unanswered = match &self.stage {
            Stage::Leading(term) => {
                if term.is_stopping {
                    host.begin(Operation::Resign);
                    return Ok(Some(Outcome { scores: None, stopped: true }));
                }
                term.links().for_each(|link| host.links().close(link, &format!("another master leads: {why}")));
                term.unanswered
            }
            Stage::Loading { is_reading, .. } => usize::from(*is_reading),
            Stage::Announcing { .. } => 1,
            Stage::Retiring { .. } | Stage::Standby { .. } | Stage::Over => return Ok(None),
        };
        self.board.update(|status| status.phase = "standby".into());
        self.stage = Stage::Retiring { unanswered };
        self.stand_by_when_all_is_answered(host);
        Ok(None)
    }

    /// What was asked for in one term must not be taken for something of the next.
    fn stand_by_when_all_is_answered(&mut self, host: &mut dyn MasterHost) {
        if let Stage::Retiring { unanswered: 0 } = self.stage {
            self.stage = Stage::Standby { is_told: false };
            if !Planted::NeverStandsByAgain.is(self.setup.planted) {
                host.begin(Operation::Lead);
            }
        }
    }

    /// It leads: a run of the same job that has not ended goes on.
    fn lead(&mut self, leadership: Leadership, host: &mut dyn MasterHost) -> Result<Option<Outcome>, ClusterError> {
        let term = leadership.term;
        self.stage = Stage::Loading { term, is_reading: false };
        // Once is enough: whoever leads again goes on from what its successor has done.
        let restarts = std::mem::take(&mut self.restarts);
        let Some(record) = leadership.found.filter(|_| !restarts) else {
            if !restarts && let Some(path) = host.of_another_run() {
                host.begin(Operation::Resign);
                return Err(ClusterError::UnknownRun { path });
            }
            self.begin_anew(host)?;
            return Ok(None);
        };
        if let Some(what) = self.setup.text.differs(&record.job) {
            host.begin(Operation::Resign);
            return Err(ClusterError::OtherRun { what });
        }
        let (found, own) = (JobText::published_phase(&record.job), self.setup.text.phase());
        match &record.stage {
            // A later phase begins only when those before it have ended.
            _ if found > own => {
                host.begin(Operation::Resign);
                return Ok(Some(Outcome { scores: None, stopped: false }));
            }
            RunStage::Ended { .. } if found < own => self.begin_anew(host)?,
            RunStage::Running | RunStage::Trained if found < own => {
                host.begin(Operation::Resign);
                let what = format!("its phase {found} has not ended, and phase {own} is to begin");
                return Err(ClusterError::OtherRun { what });
            }
            RunStage::Ended { model, .. } if !Planted::BeginsAnEndedRunAgain.is(self.setup.planted) => {
                host.begin(Operation::Resign);
                host.tell(&Event::AlreadyEnded { model: model.clone() });
                return Ok(Some(Outcome { scores: None, stopped: false }));
            }
            _ if Planted::ForgetsItsCheckpoint.is(self.setup.planted) => self.begin_anew(host)?,
            RunStage::Ended { .. } | RunStage::Running | RunStage::Trained if record.checkpoint.is_some() => {
                self.stage = Stage::Loading { term, is_reading: true };
                host.begin(Operation::Load(record));
            }
            RunStage::Ended { .. } | RunStage::Running | RunStage::Trained => self.begin_anew(host)?,
        }
        Ok(None)
    }

    fn begin_anew(&mut self, host: &mut dyn MasterHost) -> Result<(), ClusterError> {
        let (run, state) = (host.run_number(), host.initial_state()?);
        let rest = self.setup.work.clone();
        self.announce(
            Begun { run, round: 0, rest, state, judged: Kept::default(), path: None, is_finished: false, remark: None },
            false,
            host,
        );
        Ok(())
    }
}

impl MasterLoop {
    /// Publishes that this master leads, and from where on.
    fn announce(&mut self, begun: Begun, is_resumed: bool, host: &mut dyn MasterHost) {
        let Stage::Loading { term, .. } = self.stage else { return };
        let record = RunRecord {
            run: begun.run,
            term,
            address: self.setup.address.clone(),
            key: self.setup.key.map(|key| key.to_string()),
            job: self.setup.text.published(),
            checkpoint: begun.path.as_ref().map(|path| path.display().to_string()),
            stage: if begun.is_finished { RunStage::Trained } else { RunStage::Running },
        };
        host.begin(Operation::Publish(record.clone()));
        self.stage = Stage::Announcing { record, begun: Box::new(begun), is_resumed };
    }

    /// Everybody can find it: workers are let in, or what is trained is finished.
    fn open(&mut self, host: &mut dyn MasterHost) -> Result<(), ClusterError> {
        let stage = std::mem::replace(&mut self.stage, Stage::Over);
        let Stage::Announcing { record, begun, is_resumed } = stage else { return Ok(()) };
        let status = host.show()?;
        let MasterSetup { address, token, key, .. } = &*self.setup;
        let join = token.clone().zip(*key).map(|(token, key)| JoinString { address: address.clone(), token, key });
        let join = join.map(|join| join.reveal());
        host.tell(&Event::Listening { address: address.clone(), join, status, term: record.term });
        let mut term = Term::new(self.setup.clone(), self.board.clone(), record, *begun, is_resumed, host);
        let begun = term.begin(host);
        self.stage = Stage::Leading(Box::new(term));
        begun
    }
}
