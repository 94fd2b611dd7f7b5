//! One term of a master: it carries out what the rules decide.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use paceline_exchange::rounds::{
    Incarnation, Master, MasterAction, MasterEvent, MemberOptions, Now, Operator, Round, Slots,
};
use paceline_exchange::sharing::{self, SharingOptions};
use paceline_exchange::{Bulk, MasterRules, Planted};
use paceline_train::{Event, ReplicaMode, Traffic, TrainingStatistics};

use super::host::{Answer, Begun, Input, MasterHost, Operation};
use super::judging::Judging;
use super::master_loop::MasterSetup;
use super::saving::Purpose;
use super::tally::Tally;
use super::{Outcome, board, ending::Closing};
use crate::coordination::{RunRecord, RunStage};
use crate::door::Door;
use crate::mode::name_of;
use crate::tracker::Board;
use crate::transport::LinkId;
use crate::wire::Word;
use crate::{ClusterError, Whereabouts};

/// How often it looks around, in milliseconds.
const LOOK_EVERY: Now = 50;
/// A loop that was woken so much later than it wanted was away: it has not listened.
const AWAY: Now = 500;
/// Steps of a lease in `shared`: a second or so of work, far more than it takes to get the next one.
const STEPS_PER_LEASE: u64 = 16;

/// The end of an epoch that a run goes on from: its checkpoint was written before it was judged.
fn unjudged(begun: &Begun, is_resumed: bool) -> BTreeMap<Round, u64> {
    let is_at_an_end = is_resumed && begun.rest.epoch() > 0 && begun.rest.is_at_its_start();
    is_at_an_end.then(|| (begun.round, begun.rest.epoch() - 1)).into_iter().collect()
}

/// A worker as the master knows it.
pub(super) struct Known {
    pub link: LinkId,
    /// When its certificate was made.
    pub certified: Now,
    /// Where it runs, if it has said so.
    pub whereabouts: Option<Whereabouts>,
    pub address: String,
    pub slots: Slots,
    /// In `shared`: what it last said of its messages.
    pub traffic: Option<Traffic>,
}

/// A term, from the moment that everybody can find its master.
pub struct Term {
    pub(super) setup: Arc<MasterSetup>,
    pub(super) board: Board,
    pub(super) record: RunRecord,
    pub(super) machine: MasterRules,
    pub(super) timer: Option<Now>,
    /// When it looks around next, and whether it was woken in time.
    looks_at: Now,
    pub(super) members: BTreeMap<Incarnation, Known>,
    pub(super) links: BTreeMap<LinkId, Incarnation>,
    /// Strangers that have to prove that they know the token.
    pub(super) door: Door,
    /// What the machines of all who have joined are called.
    pub(super) hosts: BTreeMap<Incarnation, String>,
    pub(super) joined: u64,
    pub(super) sequence: u64,
    /// States that have arrived.
    pub(super) states: BTreeMap<Round, Bulk>,
    /// The one that is on its way to the disk, until it stands there.
    pub(super) being_saved: Option<(Round, Bulk)>,
    /// What members without a state start from.
    pub(super) checkpoint: (Round, Bulk),
    /// Steps that are in it.
    pub(super) checkpoint_steps: u64,
    /// What is being published, oldest first.
    pub(super) publishing: VecDeque<Purpose>,
    /// Operations that were not answered yet.
    pub(super) unanswered: usize,
    /// Examples of rounds that count and are not in it.
    pub(super) counted: BTreeMap<Round, u64>,
    /// Steps that count.
    pub(super) iteration: u64,
    /// The epoch, and the steps before it.
    pub(super) epoch: u64,
    pub(super) epoch_began_at: u64,
    /// Epochs whose end is counted, by their last round: their state is judged.
    pub(super) ends: BTreeMap<Round, u64>,
    /// States that are being judged.
    pub(super) being_judged: usize,
    pub(super) tally: Tally,
    /// What the time of members went into.
    pub(super) statistics: TrainingStatistics,
    pub(super) told_too_short: bool,
    pub(super) judging: Judging,
    /// Why the run ends before its last epoch, if it does.
    pub(super) enough: Option<String>,
    /// When the newest checkpoint was written.
    pub(super) saved: Option<Now>,
    /// When the last one by the clock was asked for.
    pub(super) asked_to_save: Now,
    /// Epochs that there are, the last one perhaps in part.
    pub(super) epochs: u64,
    pub(super) is_stopping: bool,
    /// How training ended.
    pub(super) ended: Option<Option<String>>,
    /// What is done when it has.
    pub(super) closing: Option<Closing>,
    /// What the term came to.
    pub(super) outcome: Option<Outcome>,
}

impl Term {
    pub(super) fn new(
        setup: Arc<MasterSetup>,
        board: Board,
        record: RunRecord,
        begun: Begun,
        is_resumed: bool,
        host: &mut dyn MasterHost,
    ) -> Self {
        let now = host.now();
        let (term, round, rest, rules) = (record.term, begun.round, begun.rest.clone(), setup.rules.clone());
        let mut machine = match &setup.mode {
            ReplicaMode::Sync | ReplicaMode::Averaging(_) => {
                MasterRules::Rounds(Master::new(rules, term, round, rest, now))
            }
            ReplicaMode::Shared(_) => {
                let MemberOptions { save_every, share, .. } = setup.member;
                let sharing = SharingOptions { share, steps_per_lease: STEPS_PER_LEASE, save_every };
                MasterRules::Sharing(sharing::Master::new(rules, sharing, term, round, rest, now))
            }
        };
        machine.plant(setup.planted);
        let (steps, epoch, epochs) = (begun.rest.steps(), begun.rest.epoch(), begun.rest.epochs());
        board.update(|status| {
            (status.run, status.term, status.mode) =
                (format!("{:016x}", record.run), record.term, name_of(&setup.mode).into());
            (status.epochs, status.examples) = (epochs, setup.work.examples());
            status.epoch = (epoch + 1).min(epochs);
        });
        Self {
            machine,
            board,
            record,
            timer: None,
            looks_at: now,
            members: BTreeMap::new(),
            links: BTreeMap::new(),
            door: Door::default(),
            hosts: BTreeMap::new(),
            joined: 0,
            sequence: 0,
            states: BTreeMap::new(),
            being_saved: None,
            ends: unjudged(&begun, is_resumed),
            being_judged: 0,
            checkpoint: (begun.round, begun.state),
            checkpoint_steps: steps,
            publishing: VecDeque::new(),
            unanswered: 0,
            counted: BTreeMap::new(),
            iteration: steps,
            epoch,
            epochs,
            epoch_began_at: steps,
            tally: Tally::new(now),
            statistics: TrainingStatistics::default(),
            told_too_short: false,
            judging: Judging::new(&setup.train, begun.judged, now),
            enough: None,
            saved: None,
            asked_to_save: now,
            is_stopping: false,
            ended: None,
            closing: None,
            outcome: None,
            setup,
        }
    }

    /// Tells how it begins; a run that is trained already is finished at once.
    pub(super) fn begin(&mut self, host: &mut dyn MasterHost) -> Result<(), ClusterError> {
        host.record().master(&self.machine);
        let train = &self.setup.train;
        let examples = self.setup.work.examples();
        let steps_per_epoch = examples.div_ceil(train.step_examples().max(1) as u64);
        host.tell(&Event::Started {
            mode: name_of(&self.setup.mode),
            workers: 0,
            parameters: self.setup.parameters,
            examples: examples as usize,
            steps_per_epoch,
            epochs: self.epochs,
            steps: steps_per_epoch.saturating_mul(self.epochs).min(train.steps.unwrap_or(u64::MAX)),
            resumed_at: self.checkpoint_steps,
            examples_left: Some(self.machine.rest().left_of_all()),
            instructions: paceline_nn::Instructions::detect().name(),
        });
        if self.record.stage == RunStage::Trained {
            self.ended = Some(None);
            return self.close(host);
        }
        self.feed(MasterEvent::Tick, host)
    }

    /// When it must be woken at the latest.
    pub(super) fn wakes_at(&self) -> Now {
        self.timer.map_or(self.looks_at, |timer| timer.min(self.looks_at))
    }

    /// Its number.
    pub fn number(&self) -> u64 {
        self.record.term
    }

    /// The rules.
    pub fn rules(&self) -> &MasterRules {
        &self.machine
    }

    /// The states that it holds.
    pub fn states(&self) -> impl Iterator<Item = (Round, &Bulk)> {
        let held = self.being_saved.iter().chain([&self.checkpoint]).map(|(round, state)| (*round, state));
        self.states.iter().map(|(round, state)| (*round, state)).chain(held)
    }

    /// The members that it has a link to.
    pub fn linked(&self) -> impl Iterator<Item = Incarnation> {
        self.members.keys().copied()
    }

    /// The links of its members.
    pub(super) fn links(&self) -> impl Iterator<Item = LinkId> {
        self.members.values().map(|known| known.link)
    }

    /// Takes an input, and does all that follows from it. Says what the run came to, when it is over.
    pub(super) fn handle(&mut self, input: Input, host: &mut dyn MasterHost) -> Result<Option<Outcome>, ClusterError> {
        let now = host.now();
        let ignores = Planted::JudgesSilenceAfterItWasAway.is(self.setup.planted);
        if now > self.wakes_at() + AWAY && !ignores {
            host.tell(&Event::StoodStill { worker: None, seconds: (now - self.wakes_at()) as f64 / 1000.0 });
            // Whoever was away itself knows nothing about who was silent.
            self.feed(MasterEvent::WasAway, host)?;
        }
        match input {
            Input::Link(event) => self.happen(event, host)?,
            Input::Asked(asked) => self.obey(asked, host)?,
            Input::Done(answer) => self.take_answer(answer, host)?,
            Input::Wake => {}
        }
        // By the clock, however much is said meanwhile.
        if now >= self.wakes_at() {
            self.looks_at = now + LOOK_EVERY;
            self.look(host)?;
        }
        if self.ended.is_some() && self.closing.is_none() && self.outcome.is_none() {
            self.close(host)?;
        }
        Ok(self.outcome.take())
    }

    fn obey(&mut self, asked: Operator, host: &mut dyn MasterHost) -> Result<(), ClusterError> {
        if asked == Operator::Stop {
            if self.is_stopping || self.ended.is_some() {
                return Ok(());
            }
            self.is_stopping = true;
            if Planted::StopsWithoutSaving.is(self.setup.planted) {
                self.ended = Some(None);
                return Ok(());
            }
        }
        self.feed(MasterEvent::Asked(asked), host)
    }

    /// Begins an operation that is answered.
    pub(super) fn ask(&mut self, host: &mut dyn MasterHost, operation: Operation) {
        self.unanswered += 1;
        host.begin(operation);
    }

    fn take_answer(&mut self, answer: Answer, host: &mut dyn MasterHost) -> Result<(), ClusterError> {
        self.unanswered = self.unanswered.saturating_sub(usize::from(answer.is_asked_for()));
        match answer {
            Answer::Saved(round, saved) => self.take_saved(round, saved, host),
            Answer::Published(published) => self.take_published(published, host),
            Answer::Judged { epoch, state, scores } => {
                self.take_judged(epoch, state, scores?.map(|scores| *scores), host)
            }
            Answer::BestKept(kept) => {
                if let Err(reason) = kept {
                    host.tell(&Event::NotSaved { round: self.checkpoint.0, reason });
                }
                Ok(())
            }
            Answer::Exported(exported) => self.take_exported(exported.map(|exported| *exported), host),
            Answer::CoordinatorAway(reason) if Planted::EndsWithItsCoordinator.is(self.setup.planted) => {
                Err(ClusterError::RunFailed { reason })
            }
            Answer::CoordinatorBack if Planted::NeverGoesOnWhenTheCoordinatorIsBack.is(self.setup.planted) => Ok(()),
            Answer::CoordinatorAway(reason) => {
                host.tell(&Event::CoordinatorAway { reason });
                self.feed(MasterEvent::CoordinatorAway(true), host)
            }
            Answer::CoordinatorBack => {
                host.tell(&Event::CoordinatorBack);
                self.feed(MasterEvent::CoordinatorAway(false), host)
            }
            Answer::Unled(_) | Answer::Standby | Answer::Led(_) | Answer::Loaded(_) => Ok(()),
        }
    }

    /// Looks at the clock.
    fn look(&mut self, host: &mut dyn MasterHost) -> Result<(), ClusterError> {
        let now = host.now();
        board::show(&self.board, self, now);
        if self.ended.is_some() {
            // The rules have nothing more to be woken for.
            self.timer = None;
            return Ok(());
        }
        self.renew_certificates(host)?;
        let minutes = self.setup.train.checkpoint.minutes;
        if minutes.is_some_and(|minutes| (now - self.asked_to_save) as f64 >= 60_000.0 * minutes) {
            self.asked_to_save = now;
            self.feed(MasterEvent::Asked(Operator::Save), host)?;
        }
        let over = self.judging.time_is_over(now);
        self.end_early(over, host)?;
        if self.timer.is_some_and(|at| now >= at) {
            self.timer = None;
            self.feed(MasterEvent::Tick, host)?;
        }
        Ok(())
    }

    /// Tells the rules what happened, and does what they say.
    pub(super) fn feed(&mut self, event: MasterEvent, host: &mut dyn MasterHost) -> Result<(), ClusterError> {
        let now = host.now();
        let noted = host.record().is_on().then(|| event.clone());
        let actions = self.machine.handle(event, now);
        if let Some(event) = noted {
            host.record().note(now, &event, &actions);
        }
        for action in actions {
            match action {
                MasterAction::Send(member, message) => {
                    if let Some(link) = self.members.get(&member).map(|known| known.link) {
                        self.send(link, &Word::ToMember(message), host);
                    }
                }
                MasterAction::Close(member) => {
                    if let Some(Known { link, .. }) = self.members.remove(&member) {
                        self.links.remove(&link);
                        host.links().close(link, "it is not a member any more");
                    }
                }
                MasterAction::Refuse(member, reason) => {
                    if let Some(Known { link, .. }) = self.members.remove(&member) {
                        self.links.remove(&link);
                        self.send(link, &Word::Refused { reason: reason.clone() }, host);
                        host.links().close(link, &reason);
                    }
                }
                MasterAction::Persist { round, rest } => self.save(round, rest, host),
                MasterAction::Keep { round, rest } => {
                    if let Some(state) = self.states.remove(&round) {
                        host.holds(round, &rest, &state);
                        self.being_saved = Some((round, state));
                    }
                }
                MasterAction::Discard(round) => drop(self.states.remove(&round)),
                MasterAction::SetTimer(at) => self.timer = Some(self.timer.map_or(at, |timer| timer.min(at))),
                MasterAction::Tell(told) => {
                    host.hear(&told);
                    self.hear_told(&told, host);
                }
                MasterAction::End(error) => self.ended = Some(error),
            }
        }
        Ok(())
    }
}
