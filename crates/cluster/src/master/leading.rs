//! The thread of a master that speaks with the coordinator, so that its loop never waits for it.
//!
//! A coordinator that does not answer has not deposed anybody. The thread keeps what is to be published until it is back: if
//! nobody has taken another term by then, this master leads on.

use std::collections::VecDeque;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};

use super::host::{Answer, Unpublished};
use super::storage::Storage;
use crate::coordination::{Coordination, CoordinationError, Leadership, Loss, RunRecord};
use crate::{ClusterError, descriptors};

/// How often it looks whether it still leads, and whether it is asked for anything.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How long it waits for the coordinator at a time before it looks whether it is asked for anything.
const ASKED_FOR: Duration = Duration::from_millis(500);

/// What the thread is asked.
pub(super) enum Asked {
    Lead,
    Publish(RunRecord),
    Resign,
}

enum Stage {
    Idle,
    /// It wants to lead.
    Stands,
    Leads,
    /// It led, and does not know whether it still does.
    Unsure,
}

pub(super) struct Leading {
    coordination: Box<dyn Coordination>,
    storage: Storage,
    answers: Sender<Answer>,
    stage: Stage,
    /// What is to be published, oldest first.
    records: VecDeque<RunRecord>,
    /// Whether the loop was told that nobody answers.
    is_away: bool,
}

/// True if the coordinator was silent. Too many open files are a shortage of this process, and pass.
fn is_silence(error: &CoordinationError) -> bool {
    use CoordinationError::{File, Lost, Unreachable};
    match error {
        Unreachable { .. } | Lost { reason: Loss::NoAnswer { .. } | Loss::SessionExpired } => true,
        File { source, .. } => descriptors::is_shortage(source),
        _ => false,
    }
}

/// True if the error does not say who leads: a file that cannot be read now may be read later.
fn is_unknown(error: &CoordinationError) -> bool {
    is_silence(error) || matches!(error, CoordinationError::File { .. })
}

impl Leading {
    pub(super) fn new(coordination: Box<dyn Coordination>, storage: Storage, answers: Sender<Answer>) -> Self {
        Self { coordination, storage, answers, stage: Stage::Idle, records: VecDeque::new(), is_away: false }
    }

    /// Serves the loop until nobody can ask anything any more.
    pub(super) fn serve(mut self, asked: &Receiver<Asked>) {
        loop {
            // One that waits for the coordinator has waited already.
            let pause = match self.stage {
                Stage::Idle | Stage::Leads => LOOK_EVERY,
                Stage::Stands | Stage::Unsure => Duration::ZERO,
            };
            match asked.recv_timeout(pause) {
                Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => {}
                Ok(Asked::Lead) => self.stage = Stage::Stands,
                Ok(Asked::Publish(record)) => self.records.push_back(record),
                Ok(Asked::Resign) => {
                    self.stage = Stage::Idle;
                    self.coordination.resign();
                }
            }
            let answered = match self.stage {
                Stage::Idle => self.refuse_all(),
                Stage::Stands => self.stand(),
                Stage::Leads => self.lead_on(),
                Stage::Unsure => self.regain(),
            };
            if answered.is_none() {
                return;
            }
        }
    }

    /// None when nobody listens any more.
    fn answer(&self, answer: Answer) -> Option<()> {
        self.answers.send(answer).ok()
    }

    fn be_away(&mut self, error: &CoordinationError) -> Option<()> {
        if std::mem::replace(&mut self.is_away, true) {
            return Some(());
        }
        self.answer(Answer::CoordinatorAway(error.to_string()))
    }

    fn be_back(&mut self) -> Option<()> {
        if !std::mem::replace(&mut self.is_away, false) {
            return Some(());
        }
        self.answer(Answer::CoordinatorBack)
    }

    fn stand(&mut self) -> Option<()> {
        let led: Result<Leadership, ClusterError> = match self.coordination.lead(ASKED_FOR) {
            Ok(None) => {
                self.be_back()?;
                match self.prove_storage() {
                    Ok(()) => return self.answer(Answer::Standby),
                    Err(error) => {
                        self.stage = Stage::Idle;
                        self.coordination.resign();
                        Err(error)
                    }
                }
            }
            // It waits for as long as nobody tells it to go.
            Err(error) if is_silence(&error) => {
                self.be_away(&error)?;
                std::thread::sleep(LOOK_EVERY);
                return Some(());
            }
            Ok(Some(leadership)) => {
                self.be_back()?;
                self.stage = Stage::Leads;
                Ok(leadership)
            }
            Err(error) => {
                self.stage = Stage::Idle;
                Err(error.into())
            }
        };
        self.answer(Answer::Led(led))
    }

    /// One who stands by must see what the leader writes: it would go on from there.
    fn prove_storage(&mut self) -> Result<(), ClusterError> {
        // A coordinator that does not answer is found out when it is next asked to let this one lead.
        let Ok(Some(record)) = self.coordination.find(0, Duration::ZERO) else { return Ok(()) };
        self.storage.check(record.run)
    }

    /// Publishes what is to be published, and looks whether it still leads.
    fn lead_on(&mut self) -> Option<()> {
        while let Some(record) = self.records.front() {
            let marked = self.storage.mark(record.run).map_err(Unpublished::Failed);
            let published = match marked.map(|()| self.coordination.publish(record)) {
                Err(not_marked) => Err(not_marked),
                Ok(Ok(())) => Ok(()),
                Ok(Err(error)) if is_silence(&error) => {
                    self.stage = Stage::Unsure;
                    return self.be_away(&error);
                }
                Ok(Err(error @ (CoordinationError::Fenced { .. } | CoordinationError::Lost { .. }))) => {
                    return self.be_succeeded(error);
                }
                Ok(Err(error)) => Err(Unpublished::Failed(error.to_string())),
            };
            self.records.pop_front();
            self.answer(Answer::Published(published))?;
        }
        match self.coordination.check() {
            Ok(()) => Some(()),
            Err(error) if is_unknown(&error) => {
                self.stage = Stage::Unsure;
                self.be_away(&error)
            }
            Err(error) => self.be_succeeded(error),
        }
    }

    fn regain(&mut self) -> Option<()> {
        match self.coordination.regain(ASKED_FOR) {
            Ok(()) => {
                self.stage = Stage::Leads;
                self.be_back()
            }
            Err(error) if is_unknown(&error) => {
                std::thread::sleep(LOOK_EVERY);
                Some(())
            }
            Err(error) => self.be_succeeded(error),
        }
    }

    fn be_succeeded(&mut self, error: CoordinationError) -> Option<()> {
        self.stage = Stage::Idle;
        self.is_away = false;
        self.answer(Answer::Unled(error.into()))?;
        self.refuse_all()
    }

    /// Nothing that is to be published may be, but all that was asked is answered.
    fn refuse_all(&mut self) -> Option<()> {
        for _ in std::mem::take(&mut self.records) {
            self.answer(Answer::Published(Err(Unpublished::NotLeading)))?;
        }
        Some(())
    }
}
