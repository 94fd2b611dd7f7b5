//! One term of a master: the loop that carries out what the rules decide.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, after, never, select, unbounded};
use paceline_data::Normaliser;
use paceline_exchange::rounds::message::{ToMaster, ToMember};
use paceline_exchange::rounds::{
    Incarnation, Master, MasterAction, MasterEvent, MasterOptions, MemberOptions, Now, Operator, Round, Schedule, Slots,
};
use paceline_exchange::sharing::{self, SharingOptions};
use paceline_exchange::{Frame, MasterRules};
use paceline_model::{Progress, State};
use paceline_train::{Event, ReplicaMode, Scores, Stop, Traffic, Trainer};

use super::judging::Judging;
use super::keep::{Begun, Keep};
use super::tally::Tally;
use super::{Outcome, board};
use crate::ClusterError;
use crate::coordination::{Coordination, CoordinationError, RunRecord};
use crate::mode::name_of;
use crate::record::Record;
use crate::tracker::Board;
use crate::transport::{LinkId, TcpTransport, Transport, TransportEvent};
use crate::trust::{MasterIdentity, Token};
use crate::wire::{JobText, Word};

/// How often it looks whether it still leads, and whether it was asked to stop.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// States that are judged at once. While so many are, epochs end unjudged.
const JUDGED_AT_ONCE: usize = 4;
/// Steps of a lease in `shared`: a second or so of work, far more than it takes to get the next one.
const STEPS_PER_LEASE: u64 = 16;
/// How long the certificate of a member holds.
const CERTIFICATE: Duration = Duration::from_secs(24 * 3600);

/// The end of an epoch that a run goes on from: its checkpoint was written before it was judged.
fn unjudged(begun: &Begun) -> BTreeMap<Round, u64> {
    let is_at_an_end = begun.is_resumed && begun.rest.epoch() > 0 && begun.rest.is_at_its_start();
    is_at_an_end.then(|| (begun.round, begun.rest.epoch() - 1)).into_iter().collect()
}

/// Everything that a term needs.
pub(super) struct EventLoop<'a> {
    pub trainer: &'a Trainer,
    pub text: &'a JobText,
    pub token: Option<&'a Token>,
    pub identity: Option<&'a MasterIdentity>,
    pub normaliser: Option<Normaliser>,
    pub mode: ReplicaMode,
    pub member: MemberOptions,
    pub keep: Keep,
    pub coordination: Box<dyn Coordination>,
    pub record: RunRecord,
    pub events: Record,
    pub transport: TcpTransport,
    pub inbox: Receiver<TransportEvent>,
    pub operators: &'a Receiver<Operator>,
    pub board: &'a Board,
    pub stop: &'a Stop,
}

/// A worker as the master knows it.
pub(super) struct Known {
    pub(super) link: LinkId,
    pub address: String,
    pub slots: Slots,
    /// In `shared`: what it last said of its messages.
    pub traffic: Option<Traffic>,
}

/// What changes while a term lasts.
pub(super) struct Term {
    pub(super) machine: MasterRules,
    pub(super) began: Instant,
    pub(super) timer: Option<Now>,
    pub(super) members: BTreeMap<Incarnation, Known>,
    pub(super) links: BTreeMap<LinkId, Incarnation>,
    pub(super) joined: u64,
    pub(super) sequence: u64,
    /// States that have arrived and are not published.
    pub(super) states: BTreeMap<Round, Vec<u8>>,
    /// What members without a state start from.
    pub(super) checkpoint: (Round, Vec<u8>),
    /// Steps that are in it.
    pub(super) checkpoint_steps: u64,
    /// Steps that count.
    pub(super) iteration: u64,
    /// The epoch, and the steps before it.
    pub(super) epoch: u64,
    pub(super) epoch_began_at: u64,
    /// Epochs whose end is counted, by their last round: their state is judged.
    pub(super) ends: BTreeMap<Round, u64>,
    pub(super) tally: Tally,
    pub(super) judging: Judging,
    /// Why the run ends before its last epoch, if it does.
    pub(super) enough: Option<String>,
    /// When the newest checkpoint was written.
    pub(super) saved: Option<Instant>,
    /// When the last one by the clock was asked for.
    pub(super) asked_to_save: Instant,
    /// Epochs that there are, the last one perhaps in part.
    pub(super) epochs: u64,
    pub(super) is_stopping: bool,
    pub(super) ended: Option<Option<String>>,
}

impl EventLoop<'_> {
    pub(super) fn run(
        mut self,
        rules: MasterOptions,
        begun: Begun,
        tell: &mut dyn FnMut(&Event),
    ) -> Result<Outcome, ClusterError> {
        let options = self.trainer.options();
        let (term, round, rest) = (self.record.term, begun.round, begun.rest.clone());
        let machine = match &self.mode {
            ReplicaMode::Sync | ReplicaMode::Averaging(_) => {
                MasterRules::Rounds(Master::new(rules, term, round, rest, 0))
            }
            ReplicaMode::Shared(_) => {
                let MemberOptions { save_every, share, .. } = self.member;
                let sharing = SharingOptions { share, steps_per_lease: STEPS_PER_LEASE, save_every };
                MasterRules::Sharing(sharing::Master::new(rules, sharing, term, round, rest, 0))
            }
        };
        self.events.master(&machine);
        let epochs = begun.rest.epochs();
        let steps_per_epoch =
            (self.trainer.train_source().examples() as u64).div_ceil(options.step_examples().max(1) as u64);
        tell(&Event::Started {
            mode: name_of(&self.mode),
            workers: 0,
            parameters: self.trainer.network().parameter_count(),
            examples: self.trainer.train_source().examples(),
            steps_per_epoch,
            epochs,
            steps: steps_per_epoch.saturating_mul(epochs).min(options.steps.unwrap_or(u64::MAX)),
            resumed_at: begun.rest.steps(),
            instructions: paceline_nn::Instructions::detect().name(),
        });
        let ends = unjudged(&begun);
        let mut term = Term {
            machine,
            began: Instant::now(),
            timer: None,
            members: BTreeMap::new(),
            links: BTreeMap::new(),
            joined: 0,
            sequence: 0,
            states: BTreeMap::new(),
            checkpoint: (begun.round, begun.state),
            checkpoint_steps: begun.rest.steps(),
            iteration: begun.rest.steps(),
            epoch: begun.rest.epoch(),
            epochs,
            epoch_began_at: begun.rest.steps(),
            ends,
            tally: Tally::new(),
            judging: Judging::new(options, begun.judged),
            enough: None,
            saved: None,
            asked_to_save: Instant::now(),
            is_stopping: false,
            ended: None,
        };
        self.feed(&mut term, MasterEvent::Tick, tell)?;
        let (judge, judged) = unbounded::<(u64, State, Result<Option<Scores>, paceline_train::Error>)>();
        std::thread::scope(|scope| {
            let (mut judging, mut looked) = (0, Instant::now());
            while term.ended.is_none() {
                let wait = term.timer.map(|at| Duration::from_millis(at.saturating_sub(term.now())));
                let wait = after(wait.unwrap_or(LOOK_EVERY).min(LOOK_EVERY));
                let judged = if judging > 0 { judged.clone() } else { never() };
                let inbox = self.inbox.clone();
                select! {
                    recv(inbox) -> event => if let Ok(event) = event { self.happen(&mut term, event, tell)? },
                    recv(self.operators) -> asked => match asked {
                        Ok(asked) => {
                            term.is_stopping |= asked == Operator::Stop;
                            self.feed(&mut term, MasterEvent::Asked(asked), tell)?;
                        }
                        Err(_) => std::thread::sleep(LOOK_EVERY),
                    },
                    recv(judged) -> scores => if let Ok((epoch, state, scores)) = scores {
                        judging -= 1;
                        if let Some(scores) = scores? {
                            self.take_scores(&mut term, epoch, state, scores, tell)?;
                        }
                    },
                    recv(wait) -> _ => {}
                }
                // By the clock, however much is said meanwhile.
                if looked.elapsed() >= LOOK_EVERY || term.timer.is_some_and(|at| term.now() >= at) {
                    looked = Instant::now();
                    self.look(&mut term, tell)?;
                }
                // The state at the end of an epoch is judged beside the training.
                if judging < JUDGED_AT_ONCE
                    && let Some((epoch, state)) = self.due_for_judging(&mut term)
                {
                    let (judge, trainer, normaliser) = (judge.clone(), self.trainer, self.normaliser.clone());
                    judging += 1;
                    scope.spawn(move || {
                        let scores = trainer.judge(normaliser.as_ref(), &state);
                        drop(judge.send((epoch, state, scores)));
                    });
                }
            }
            // What was still being judged may be the best.
            drop(judge);
            for (epoch, state, scores) in judged.iter().take(judging) {
                if let Some(scores) = scores? {
                    self.take_scores(&mut term, epoch, state, scores, tell)?;
                }
            }
            Ok::<(), ClusterError>(())
        })?;
        self.finish(term, tell)
    }

    /// Looks at the clock, at the coordinator, and whether somebody wants the run to stop.
    fn look(&mut self, term: &mut Term, tell: &mut dyn FnMut(&Event)) -> Result<(), ClusterError> {
        self.coordination.check()?;
        board::show(self.board, term, term.now());
        let minutes = self.trainer.options().checkpoint.minutes;
        if minutes.is_some_and(|minutes| term.asked_to_save.elapsed().as_secs_f64() >= 60.0 * minutes) {
            term.asked_to_save = Instant::now();
            self.feed(term, MasterEvent::Asked(Operator::Save), tell)?;
        }
        let over = term.judging.time_is_over();
        self.end_early(term, over, tell)?;
        if self.stop.is_asked() && !term.is_stopping {
            term.is_stopping = true;
            self.feed(term, MasterEvent::Asked(Operator::Stop), tell)?;
        }
        if term.timer.is_some_and(|at| term.now() >= at) {
            term.timer = None;
            self.feed(term, MasterEvent::Tick, tell)?;
        }
        Ok(())
    }

    fn happen(
        &mut self,
        term: &mut Term,
        event: TransportEvent,
        tell: &mut dyn FnMut(&Event),
    ) -> Result<(), ClusterError> {
        match event {
            TransportEvent::Frame { link, frame } => self.hear(term, link, &frame, tell)?,
            TransportEvent::Arriving { link } => {
                if let Some(member) = term.links.get(&link).copied() {
                    self.feed(term, MasterEvent::Arriving(member), tell)?;
                }
            }
            TransportEvent::Closed { link, reason } => {
                if let Some(member) = term.links.remove(&link) {
                    self.feed(term, MasterEvent::LinkLost(member, reason), tell)?;
                }
            }
            TransportEvent::Accepted { .. } | TransportEvent::Opened { .. } | TransportEvent::Writable { .. } => {}
        }
        Ok(())
    }

    fn hear(
        &mut self,
        term: &mut Term,
        link: LinkId,
        frame: &Frame,
        tell: &mut dyn FnMut(&Event),
    ) -> Result<(), ClusterError> {
        let (word, numbers) = match Word::read(frame) {
            Ok(read) => read,
            Err(error) => {
                self.transport.close(link, &error.to_string());
                return Ok(());
            }
        };
        let Some(member) = term.links.get(&link).copied() else {
            return match word {
                Word::Hello { token, known_term, version } => {
                    let refusal = self.refusal(token.as_deref(), known_term, &version);
                    self.welcome(term, link, refusal, tell)
                }
                _ => {
                    self.transport.close(link, "expected a worker that says hello");
                    Ok(())
                }
            };
        };
        if frame.run != self.record.run || frame.term != self.record.term {
            // Of another run or an older term: nothing that it says counts here.
            return Ok(());
        }
        match word {
            Word::ToMaster(said) => {
                if let ToMaster::Ready { address, slots, .. } = &said
                    && let Some(known) = term.members.get_mut(&member)
                {
                    known.address.clone_from(address);
                    known.slots = *slots;
                }
                self.feed(term, MasterEvent::Said(member, said), tell)?;
            }
            Word::Relay { to, said } => {
                if let Some(link) = term.members.get(&to).map(|known| known.link) {
                    self.send(term, link, &Word::Relayed { from: member, said }, &numbers);
                }
            }
            Word::WantState { round } => {
                if term.checkpoint.0 == round {
                    let state = term.checkpoint.1.clone();
                    self.send(term, link, &Word::State { round }, &state);
                }
            }
            Word::SaveState { round, rest } => {
                term.states.insert(round, numbers.to_vec());
                self.feed(term, MasterEvent::StateArrived(member, round, rest), tell)?;
            }
            Word::SaveShared { view, epoch, vector, round } => {
                term.states.insert(round, numbers.to_vec());
                self.feed(term, MasterEvent::SharedStateArrived { member, view, epoch, round, vector }, tell)?;
            }
            Word::Report { loss, weight, bytes_sent, traffic } => {
                term.tally.report(loss, weight, bytes_sent);
                if let (Some(known), Some(traffic)) = (term.members.get_mut(&member), traffic) {
                    known.traffic = Some(traffic);
                    let iteration = term.iteration;
                    let step = iteration.saturating_sub(term.epoch_began_at);
                    tell(&Event::Threshold { worker: member as usize, epoch: term.epoch, step, iteration, traffic });
                }
            }
            Word::Failed { error } if term.judging.forgives_invalid_scores(self.keep.folder()) => {
                // Nothing of this state is worth saving: the best model stands for the run.
                term.enough = Some(error);
                term.ended = Some(None);
                let stop = ToMember::Stop { reason: "the run has ended".into(), rejoin: false };
                let links: Vec<LinkId> = term.members.values().map(|known| known.link).collect();
                links.into_iter().for_each(|link| self.send(term, link, &Word::ToMember(stop.clone()), &[]));
            }
            Word::Failed { error } => {
                let reason = format!("worker {member} cannot go on: {error}");
                let stop = Word::ToMember(ToMember::Stop { reason: reason.clone(), rejoin: false });
                let links: Vec<LinkId> = term.members.values().map(|known| known.link).collect();
                links.into_iter().for_each(|link| self.send(term, link, &stop, &[]));
                term.ended = Some(Some(reason));
            }
            _ => self.transport.close(link, "expected what a member says to its master"),
        }
        Ok(())
    }

    /// Why a stranger is refused, and what to do about it.
    fn refusal(&self, token: Option<&str>, known_term: u64, version: &str) -> Option<String> {
        let own = env!("CARGO_PKG_VERSION");
        let shows =
            |own: &Token| token.and_then(|t| Token::parse(t).ok()).is_some_and(|t| own.matches(t.reveal_bytes()));
        if self.token.is_some_and(|own| !shows(own)) {
            let what =
                "give the one that the master was started with (`--token-file`), or the join string that it printed";
            Some(format!("its token is wrong or missing: {what}"))
        } else if version != own {
            Some(format!("it runs version {version} and the master {own}: install the same on both"))
        } else if known_term > self.record.term {
            let own = self.record.term;
            Some(format!("it has seen term {known_term}, but this master rules term {own}: another master leads"))
        } else {
            None
        }
    }

    /// A stranger says hello: it is refused, or becomes an incarnation.
    fn welcome(
        &mut self,
        term: &mut Term,
        link: LinkId,
        refusal: Option<String>,
        tell: &mut dyn FnMut(&Event),
    ) -> Result<(), ClusterError> {
        if let Some(reason) = refusal {
            self.send(term, link, &Word::Refused { reason: reason.clone() }, &[]);
            self.transport.close(link, &reason);
            return Ok(());
        }
        self.transport.admit(link);
        term.joined += 1;
        let incarnation = (self.record.term << 32) | term.joined;
        let identity = self.identity.map(|identity| identity.issue(incarnation, CERTIFICATE)).transpose()?;
        let welcome = Word::Welcome {
            incarnation,
            job: self.text.clone(),
            options: self.member.clone(),
            is_shared: matches!(self.mode, ReplicaMode::Shared(_)),
            identity: identity.map(|identity| identity.reveal_bytes()),
        };
        term.members.insert(incarnation, Known { link, address: String::new(), slots: 0, traffic: None });
        term.links.insert(link, incarnation);
        self.send(term, link, &welcome, &[]);
        self.feed(term, MasterEvent::Joined(incarnation), tell)
    }

    pub(super) fn send(&mut self, term: &mut Term, link: LinkId, word: &Word, numbers: &[u8]) {
        term.sequence += 1;
        let frame = word.frame(self.record.run, self.record.term, 0, term.sequence, numbers);
        // What renews a lease must not wait behind a state.
        let sent = match word {
            Word::ToMember(ToMember::Renew { .. }) => self.transport.send_first(link, frame),
            _ => self.transport.send(link, frame),
        };
        if sent.is_err() {
            self.transport.close(link, "its queue is full");
        }
    }

    /// Tells the rules what happened, and does what they say.
    pub(super) fn feed(
        &mut self,
        term: &mut Term,
        event: MasterEvent,
        tell: &mut dyn FnMut(&Event),
    ) -> Result<(), ClusterError> {
        let now = term.now();
        let mut events = vec![event];
        while let Some(event) = events.pop() {
            let noted = self.events.is_on().then(|| event.clone());
            let actions = term.machine.handle(event, now);
            if let Some(event) = noted {
                self.events.note(now, &event, &actions);
            }
            for action in actions {
                match action {
                    MasterAction::Send(member, message) => {
                        if let Some(link) = term.members.get(&member).map(|known| known.link) {
                            self.send(term, link, &Word::ToMember(message), &[]);
                        }
                    }
                    MasterAction::Close(member) => {
                        if let Some(Known { link, .. }) = term.members.remove(&member) {
                            term.links.remove(&link);
                            self.transport.close(link, "it is not a member any more");
                        }
                    }
                    MasterAction::Persist { round, rest } => {
                        events.push(match self.persist(term, round, rest, tell)? {
                            Ok(()) => MasterEvent::Persisted(round),
                            Err(reason) => MasterEvent::SaveFailed(round, reason),
                        });
                    }
                    MasterAction::Discard(round) => drop(term.states.remove(&round)),
                    MasterAction::SetTimer(at) => term.timer = Some(term.timer.map_or(at, |timer| timer.min(at))),
                    MasterAction::Tell(told) => self.hear_told(term, &told, tell),
                    MasterAction::End(error) => term.ended = Some(error),
                }
            }
        }
        Ok(())
    }

    /// Writes a checkpoint, then publishes where it lies: whoever was succeeded is refused there. A disk that is full is no
    /// reason to end; the inner error says so.
    fn persist(
        &mut self,
        term: &mut Term,
        round: Round,
        rest: Schedule,
        tell: &mut dyn FnMut(&Event),
    ) -> Result<Result<(), String>, ClusterError> {
        let Some(bytes) = term.states.get(&round).cloned() else { return Ok(Err("its state did not arrive".into())) };
        let (state, velocity) = match self.keep.state(self.trainer, &self.mode, &bytes) {
            Ok(read) => read,
            Err(reason) => return Ok(Err(reason)),
        };
        let progress = Progress { iteration: rest.steps(), epoch: rest.epoch() };
        let model = self.trainer.model_file(self.normaliser.as_ref(), state, progress, 0);
        let is_finished = rest.clone().take(&[1]).is_none() || term.enough.is_some();
        let (run, of, judged) = (self.record.run, self.record.term, term.judging.kept());
        let saved = self.keep.save(model, velocity, run, of, round, rest, is_finished, judged);
        let path = match saved {
            Ok(path) => path,
            Err(error) => return Ok(Err(error.to_string())),
        };
        self.record.checkpoint = Some(path.display().to_string());
        match self.coordination.publish(&self.record) {
            Ok(()) => {}
            Err(error @ (CoordinationError::Fenced { .. } | CoordinationError::Lost { .. })) => {
                return Err(error.into());
            }
            Err(error) => return Ok(Err(error.to_string())),
        }
        self.keep.tidy(&path);
        term.states.remove(&round);
        term.saved = Some(Instant::now());
        board::saved(self.board, round, &path);
        term.checkpoint = (round, bytes);
        term.checkpoint_steps = progress.iteration;
        tell(&Event::Checkpoint { iteration: progress.iteration, path });
        Ok(Ok(()))
    }
}

impl Term {
    pub(super) fn now(&self) -> Now {
        self.began.elapsed().as_millis() as Now
    }
}
