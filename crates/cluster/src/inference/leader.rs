//! Leads a pass: computes itself, and gives parts to whoever helps.

use std::collections::BTreeMap;

use bytes::Bytes;
use crossbeam_channel::{Receiver, bounded, select};
use paceline_exchange::rounds::message::DataProof;
use paceline_exchange::{Bulk, Frame};
use paceline_model::{Batch, Loss};
use paceline_train::ParallelInference;

use super::answer::Answer;
use super::parts::Parts;
use super::runners::{AT_A_TIME, Run, Runners, Work};
use super::words::Helping;
use super::{InferenceEvent, LeadInference};
use crate::door::Door;
use crate::names::host_name;
use crate::transport::{Limits, LinkId, TcpOptions, TcpTransport, Transport, TransportEvent};
use crate::trust::{JoinString, MasterIdentity, TOKENS, Token, Trust};
use crate::wire::{PROTOCOL, Purpose, Word};
use crate::{ClusterError, EVENTS_WAITING, prove};

/// Parts that are done or under way, for everybody who computes: those that wait for a slow one are kept in memory.
const AHEAD: usize = 2 * AT_A_TIME;

/// One who helps.
struct Helper {
    name: String,
    /// Whether it has shown that it has the same data.
    is_ready: bool,
    /// Parts that it was given and has not answered, also those that others have done since.
    owes: usize,
    examples: u64,
}

struct Leader<'a> {
    transport: TcpTransport,
    token: Option<Token>,
    door: Door,
    helpers: BTreeMap<LinkId, Helper>,
    joined: usize,
    sequence: u64,
    work: Work,
    outputs: usize,
    /// Of all that is read here; found when the first helper comes.
    proof: Option<DataProof>,
    welcome: Helping,
    model: Bytes,
    parts: Parts<Answer>,
    /// Those that are done.
    examples: u64,
    tell: &'a mut dyn FnMut(&InferenceEvent),
}

/// Runs a model over a source with whoever helps, and hands every batch without its features to `each`, with its outputs and its loss,
/// in the order of the source.
pub fn lead_inference<E: From<ClusterError>>(
    options: LeadInference,
    inference: &ParallelInference,
    tell: &mut dyn FnMut(&InferenceEvent),
    each: impl FnMut(&Batch, &[f32], Loss) -> Result<(), E>,
) -> Result<(), E> {
    let LeadInference { listen, advertise, tls, token, model, data, source, batch, judged } = options;
    let identity = tls.then(MasterIdentity::new).transpose().map_err(ClusterError::from)?;
    let token = match (&identity, token) {
        (Some(_), None) => Some(Token::random().map_err(ClusterError::from)?),
        (_, token) => token,
    };
    let trust = identity.as_ref().map_or(Ok(Trust::Plain), Trust::master).map_err(ClusterError::from)?;
    let (events, inbox) = bounded(EVENTS_WAITING);
    let tcp = TcpOptions {
        listen,
        advertise,
        own_user_only: token.is_none(),
        limits: Limits { send_queue: 4 << 30, ..Limits::default() },
        ..TcpOptions::default()
    };
    let transport = TcpTransport::new(tcp, trust, events).map_err(ClusterError::from)?;
    let address = transport.local_address().to_owned();
    let join = identity
        .zip(token.clone())
        .map(|(identity, token)| JoinString { address: address.clone(), token, key: identity.fingerprint() }.reveal());
    let model = Bytes::from(model);
    let work = Work { source, batch, judged };
    let runners = Runners::start(&work, inference)?;
    let parts = Parts::new(work.parts());
    tell(&InferenceEvent::Listening { address, join });
    let mut leader = Leader {
        transport,
        token,
        door: Door::default(),
        helpers: BTreeMap::new(),
        joined: 0,
        sequence: 0,
        outputs: inference.output_width(),
        work,
        proof: None,
        welcome: Helping::Welcome { data, batch, judged },
        model,
        parts,
        examples: 0,
        tell,
    };
    leader.run(&inbox, &runners, each)
}

impl Leader<'_> {
    fn run<E: From<ClusterError>>(
        &mut self,
        inbox: &Receiver<TransportEvent>,
        runners: &Runners,
        mut each: impl FnMut(&Batch, &[f32], Loss) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut own = 0;
        loop {
            while let Some(answer) = self.parts.hand_on() {
                for answered in answer.batches {
                    each(&answered.batch, &answered.outputs, answered.loss)?;
                }
            }
            if self.parts.is_over() {
                self.end();
                return Ok(());
            }
            self.give_to_helpers();
            while own < AT_A_TIME
                && let Some(part) = self.parts.give(None, self.ahead())
            {
                own += 1;
                runners.give(part);
            }
            select! {
                recv(inbox) -> event => if let Ok(event) = event { self.hear(event)?; },
                recv(runners.done) -> done => if let Ok(done) = done {
                    own -= 1;
                    self.take_own(done)?;
                },
            }
        }
    }

    fn ahead(&self) -> usize {
        AHEAD * (1 + self.helpers.len())
    }

    fn give_to_helpers(&mut self) {
        let ahead = self.ahead();
        // One each in turn: the first must not get all that is left.
        for round in 0..AT_A_TIME {
            let free = |helper: &Helper| helper.is_ready && helper.owes <= round;
            let free: Vec<LinkId> =
                self.helpers.iter().filter(|(_, helper)| free(helper)).map(|(link, _)| *link).collect();
            for link in free {
                let Some(part) = self.parts.give(Some(link), ahead) else { return };
                self.helpers.entry(link).and_modify(|helper| helper.owes += 1);
                self.say(link, Helping::Part(part));
            }
        }
    }

    fn take_own(&mut self, (part, answer): Run) -> Result<(), ClusterError> {
        self.take(part, answer?);
        Ok(())
    }

    fn take(&mut self, part: usize, answer: Answer) {
        if self.parts.take(part, answer) {
            self.examples += self.work.batches(part).iter().map(|examples| u64::from(*examples)).sum::<u64>();
            let of = self.work.source.examples() as u64;
            (self.tell)(&InferenceEvent::Progress { examples: self.examples, of });
        }
    }

    fn hear(&mut self, event: TransportEvent) -> Result<(), ClusterError> {
        match event {
            TransportEvent::Frame { link, frame } => self.hear_word(link, &frame),
            TransportEvent::Closed { link, reason } => {
                self.door.forget(link);
                self.lose(link, &reason);
                Ok(())
            }
            TransportEvent::Accepted { .. }
            | TransportEvent::Opened { .. }
            | TransportEvent::Arriving { .. }
            | TransportEvent::Writable { .. } => Ok(()),
        }
    }

    fn hear_word(&mut self, link: LinkId, frame: &Frame) -> Result<(), ClusterError> {
        let word = Word::read(frame);
        let binding = self.transport.binding(link);
        match word {
            Err(error) => self.transport.close(link, &error.to_string()),
            Ok((Word::Hello { nonce, version, program, host, purpose, .. }, _)) => {
                let refusal = match purpose {
                    Purpose::Infer => PROTOCOL.refusal(version, &program),
                    Purpose::Train => Some(
                        "it runs a trained model and trains nothing: lend it cores with `paceline evaluate --join` or \
                         `paceline predict --join`"
                            .into(),
                    ),
                };
                match (refusal, &self.token) {
                    (Some(reason), _) => self.refuse(link, &reason),
                    (None, None) => self.welcome(link, &host),
                    (None, Some(token)) => {
                        let of_master = Token::random()?.reveal();
                        let word = self.door.challenge(link, token, (nonce, host), of_master, &binding);
                        self.send(link, &word, &Bulk::default());
                    }
                }
            }
            Ok((Word::Prove { proof }, _)) => {
                let machine = self.token.as_ref().and_then(|token| self.door.lets_in(link, token, &proof, &binding));
                match machine {
                    Some(machine) => self.welcome(link, &machine),
                    None => self.refuse(link, TOKENS),
                }
            }
            Ok((Word::Helping(said), numbers)) if self.helpers.contains_key(&link) => {
                self.hear_helper(link, said, &numbers)?;
            }
            Ok(_) => self.transport.close(link, "expected what a helper says"),
        }
        Ok(())
    }

    fn hear_helper(&mut self, link: LinkId, said: Helping, numbers: &Bulk) -> Result<(), ClusterError> {
        match said {
            Helping::Ready(found) => {
                let expected = match &mut self.proof {
                    Some(proof) => proof,
                    none => none.insert(prove(&*self.work.source)?),
                };
                if found == *expected {
                    let name = self.helpers.get_mut(&link).map(|helper| {
                        helper.is_ready = true;
                        helper.name.clone()
                    });
                    let helpers = self.helpers.values().filter(|helper| helper.is_ready).count();
                    name.into_iter().for_each(|helper| (self.tell)(&InferenceEvent::Joined { helper, helpers }));
                } else {
                    let reason = format!(
                        "its data is not that of the leader, which has {} examples: it has {}{}; bring the same file to both",
                        expected.examples,
                        found.examples,
                        if expected.examples == found.examples { " with other values" } else { "" },
                    );
                    self.refuse(link, &reason);
                    self.lose(link, &reason);
                }
            }
            Helping::Answer { part, head } => {
                if let Err(reason) = self.take_answer(link, part, &head, numbers) {
                    self.transport.close(link, &reason);
                    self.lose(link, &reason);
                }
            }
            Helping::Failed { error } => {
                self.transport.close(link, "it cannot go on");
                self.lose(link, &error);
            }
            Helping::Welcome { .. } | Helping::Part(_) | Helping::Over => {
                self.transport.close(link, "expected what a helper says");
            }
        }
        Ok(())
    }

    fn take_answer(
        &mut self,
        link: LinkId,
        part: usize,
        head: &super::answer::AnswerHead,
        numbers: &Bulk,
    ) -> Result<(), String> {
        if !self.parts.was_given(part) {
            return Err(format!("it answers for part {part}, which nobody was asked for"));
        }
        let numbers = numbers.to_bytes().map_err(|error| error.to_string())?;
        let expected = self.work.batches(part);
        let answer = Answer::read(head, &numbers, &expected, self.work.targets(), self.outputs)?;
        if let Some(helper) = self.helpers.get_mut(&link) {
            helper.owes = helper.owes.saturating_sub(1);
            helper.examples += expected.iter().map(|examples| u64::from(*examples)).sum::<u64>();
        }
        self.take(part, answer);
        Ok(())
    }

    fn welcome(&mut self, link: LinkId, machine: &str) {
        self.transport.admit(link);
        self.joined += 1;
        let (machine, number) = (host_name(machine), self.joined);
        let name = if machine.is_empty() { number.to_string() } else { format!("{machine}/{number}") };
        self.helpers.insert(link, Helper { name, is_ready: false, owes: 0, examples: 0 });
        let (word, model) = (Word::Helping(self.welcome.clone()), self.model.clone());
        self.send(link, &word, &model.into());
    }

    /// A helper has gone, or is not wanted any more.
    fn lose(&mut self, link: LinkId, reason: &str) {
        let Some(helper) = self.helpers.remove(&link) else { return };
        if !helper.is_ready {
            return (self.tell)(&InferenceEvent::Refused { helper: helper.name, reason: reason.to_owned() });
        }
        let again = self.parts.gone(Some(link));
        (self.tell)(&InferenceEvent::Lost { helper: helper.name, reason: reason.to_owned(), parts_again: again });
    }

    fn end(&mut self) {
        let helpers = std::mem::take(&mut self.helpers);
        for (link, Helper { name, examples, .. }) in helpers {
            self.say(link, Helping::Over);
            (self.tell)(&InferenceEvent::Helped { helper: name, examples });
        }
    }

    fn refuse(&mut self, link: LinkId, reason: &str) {
        self.send(link, &Word::Refused { reason: reason.to_owned() }, &Bulk::default());
        self.transport.close(link, reason);
    }

    fn say(&mut self, link: LinkId, what: Helping) {
        self.send(link, &Word::Helping(what), &Bulk::default());
    }

    fn send(&mut self, link: LinkId, word: &Word, numbers: &Bulk) {
        self.sequence += 1;
        // One that takes nothing any more is told as closed.
        let _ = self.transport.send(link, word.frame(0, 0, 0, self.sequence, numbers));
    }
}
