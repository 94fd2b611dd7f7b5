//! Helps with a pass that another process leads.

use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, bounded, never, select};
use paceline_data::{OpenOptions, open};
use paceline_exchange::{Bulk, Frame};
use paceline_nn::{ModelFile, Registry};
use paceline_train::{ParallelInference, SavedModel};

use super::runners::{Run, Runners, Work};
use super::words::Helping;
use super::{HelpEvent, HelpOptions};
use crate::names::this_host;
use crate::transport::{Limits, LinkId, TcpOptions, TcpTransport, Transport, TransportEvent};
use crate::trust::{TOKENS, Token, Trust};
use crate::wire::{PROTOCOL, Purpose, Word};
use crate::worker::Target;
use crate::{ClusterError, EVENTS_WAITING, door, prove};

/// Between two tries to find the leader.
const AGAIN_AFTER: Duration = Duration::from_millis(300);

/// How a link came to its end.
enum Ended {
    Over,
    /// Nobody there, or not any more.
    Gone(String),
}

/// Joins whoever leads, computes until all is done, and says how many examples it has computed.
pub fn help_inference(options: &HelpOptions, tell: &mut dyn FnMut(&HelpEvent)) -> Result<u64, ClusterError> {
    let (address, trust, token) = match &options.target {
        Target::Join(join) => (join.address.clone(), Trust::joining(join.key)?, Some(join.token.clone())),
        Target::Address(address) | Target::Coordinator(address) => {
            (address.clone(), Trust::Plain, options.token.clone())
        }
    };
    let (events, inbox) = bounded(EVENTS_WAITING);
    // Nobody connects to a helper.
    let tcp = TcpOptions { limits: Limits { send_queue: 4 << 30, ..Limits::default() }, ..TcpOptions::default() };
    let mut transport = TcpTransport::new(tcp, trust, events)?;
    let (mut computed, mut missing_since, mut is_told) = (0, Instant::now(), false);
    loop {
        let link = transport.connect(&address);
        let nonce = Token::random()?.reveal();
        let mut helper = Helper {
            options,
            address: &address,
            token: token.as_ref(),
            transport: &mut transport,
            link,
            nonce,
            is_proved: false,
            task: None,
            computed: 0,
            sequence: 0,
            tell,
        };
        let ended = helper.run(&inbox);
        computed += helper.computed;
        let was_in = helper.task.is_some();
        match ended? {
            Ended::Over => return Ok(computed),
            Ended::Gone(reason) => {
                if was_in {
                    missing_since = Instant::now();
                }
                if missing_since.elapsed() >= options.patience {
                    return Err(ClusterError::NoMaster { address, reason });
                }
                if was_in || !is_told {
                    is_told = true;
                    tell(&HelpEvent::Waiting { address: address.clone(), reason });
                }
                std::thread::sleep(AGAIN_AFTER);
            }
        }
    }
}

/// What a helper computes.
struct Task {
    work: Work,
    runners: Runners,
}

struct Helper<'a> {
    options: &'a HelpOptions,
    address: &'a str,
    token: Option<&'a Token>,
    transport: &'a mut TcpTransport,
    link: LinkId,
    nonce: String,
    is_proved: bool,
    task: Option<Task>,
    computed: u64,
    sequence: u64,
    tell: &'a mut dyn FnMut(&HelpEvent),
}

impl Helper<'_> {
    fn run(&mut self, inbox: &Receiver<TransportEvent>) -> Result<Ended, ClusterError> {
        let idle = never();
        loop {
            let done = self.task.as_ref().map_or(&idle, |task| &task.runners.done);
            let ended = select! {
                recv(inbox) -> event => match event {
                    Ok(event) => self.hear(event)?,
                    Err(_) => Some(Ended::Gone("its network has ended".into())),
                },
                recv(done) -> done => {
                    if let Ok(done) = done {
                        self.answer(done)?;
                    }
                    None
                }
            };
            if let Some(ended) = ended {
                return Ok(ended);
            }
        }
    }

    fn hear(&mut self, event: TransportEvent) -> Result<Option<Ended>, ClusterError> {
        match event {
            TransportEvent::Opened { link } if link == self.link => {
                // The model may be large.
                self.transport.admit(link);
                let hello = Word::Hello {
                    nonce: self.nonce.clone(),
                    known_run: 0,
                    known_term: 0,
                    version: PROTOCOL,
                    program: env!("CARGO_PKG_VERSION").to_owned(),
                    host: this_host(),
                    purpose: Purpose::Infer,
                };
                self.send(&hello, &Bulk::default());
                Ok(None)
            }
            TransportEvent::Frame { link, frame } if link == self.link => self.hear_word(&frame),
            TransportEvent::Closed { link, reason } if link == self.link => Ok(Some(Ended::Gone(reason))),
            _ => Ok(None),
        }
    }

    fn hear_word(&mut self, frame: &Frame) -> Result<Option<Ended>, ClusterError> {
        let (word, numbers) = match Word::read(frame) {
            Ok(read) => read,
            Err(error) => return Ok(Some(Ended::Gone(error.to_string()))),
        };
        match word {
            Word::Challenge { nonce, proof } => {
                let binding = self.transport.binding(self.link);
                let (answer, is_proved) =
                    door::answer(self.token, &self.nonce, &nonce, &proof, &binding).map_err(|why| self.refused(why))?;
                self.is_proved = is_proved;
                self.send(&answer, &Bulk::default());
            }
            Word::Refused { reason } => return Err(self.refused(reason)),
            Word::Helping(Helping::Welcome { .. }) if self.token.is_some() && !self.is_proved => {
                return Err(self.refused(format!("it has no token, but this helper has one; {TOKENS}")));
            }
            Word::Helping(Helping::Welcome { data, batch, judged }) => {
                if let Err(error) = self.begin(&data, batch, judged, &numbers) {
                    self.say(Helping::Failed { error: error.to_string() });
                    return Err(error);
                }
            }
            Word::Helping(Helping::Part(part)) => {
                if let Some(task) = self.task.as_ref().filter(|task| part < task.work.parts()) {
                    task.runners.give(part);
                }
            }
            Word::Helping(Helping::Over) => return Ok(Some(Ended::Over)),
            _ => {}
        }
        Ok(None)
    }

    /// Reads the model and the data.
    fn begin(&mut self, data: &str, batch: usize, judged: bool, model: &Bulk) -> Result<(), ClusterError> {
        let bytes = model.to_bytes().map_err(|source| ClusterError::RunFailed {
            reason: format!("the model of the leader cannot be read: {source}"),
        })?;
        let file = ModelFile::from_bytes(bytes.to_vec(), "the leader's model", &Registry::default())?;
        let model = SavedModel::new(file)?;
        // The leader names files; only what lies below the data root is read.
        let open_options =
            OpenOptions { schema: model.schema.clone(), targets: judged, confined: true, ..self.options.open.clone() };
        let source = open(data, &open_options)?;
        let examples = source.examples();
        let builder = ParallelInference::builder(model.file).sequential();
        let inference = match self.options.workers {
            Some(workers) => builder.workers(workers).build()?,
            None => builder.build()?,
        };
        let proof = prove(&*source)?;
        let work = Work { source, batch: batch.clamp(1, 1 << 20), judged };
        let runners = Runners::start(&work, &inference)?;
        self.task = Some(Task { work, runners });
        (self.tell)(&HelpEvent::Joined { address: self.address.to_owned(), data: data.to_owned(), examples });
        self.say(Helping::Ready(proof));
        Ok(())
    }

    fn answer(&mut self, (part, answer): Run) -> Result<(), ClusterError> {
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => {
                self.say(Helping::Failed { error: error.to_string() });
                return Err(error);
            }
        };
        let Some(task) = &self.task else { return Ok(()) };
        let (head, numbers) = answer.write(task.work.targets());
        self.computed += head.examples.iter().map(|examples| u64::from(*examples)).sum::<u64>();
        self.send(&Word::Helping(Helping::Answer { part, head }), &numbers.into());
        Ok(())
    }

    fn refused(&self, reason: String) -> ClusterError {
        ClusterError::HelpRefused { address: self.address.to_owned(), reason }
    }

    fn say(&mut self, what: Helping) {
        self.send(&Word::Helping(what), &Bulk::default());
    }

    fn send(&mut self, word: &Word, numbers: &Bulk) {
        self.sequence += 1;
        // A link that takes nothing any more is told as closed.
        let _ = self.transport.send(self.link, word.frame(0, 0, 0, self.sequence, numbers));
    }
}
