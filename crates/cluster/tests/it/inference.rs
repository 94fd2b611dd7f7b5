//! A trained model over data on many processes: whoever helps and whoever goes, what comes of it has the bits of one process.

use std::sync::{Arc, Condvar, Mutex};
use std::thread::ThreadId;
use std::time::Duration;

use crossbeam_channel::{Receiver, bounded};
use paceline_cluster::inference::{
    AnswerHead, HelpOptions, Helping, InferenceEvent, LeadInference, TargetKind, help_inference, lead_inference,
};
use paceline_cluster::transport::{LinkId, TcpOptions, TcpTransport, Transport, TransportEvent};
use paceline_cluster::trust::{JoinString, Token, Trust};
use paceline_cluster::wire::{PROTOCOL, Purpose, Word};
use paceline_cluster::{Target, prove};
use paceline_data::{Error, ExampleShape, OpenOptions, Source, open};
use paceline_model::{Batch, Loss, Model, Targets};
use paceline_nn::ModelFile;
use paceline_train::{Job, ParallelInference};

const DATA: &str = "digits:test";
/// So few that the digits make many parts.
const BATCH: usize = 2;

/// A network that knows nothing yet: what it says is as good as any.
fn model() -> ModelFile {
    let job = Job::digits(&[]).expect("the built-in job");
    let trainer = job.worker_trainer(&OpenOptions::default()).expect("a trainer");
    let network = trainer.network().clone();
    let state = paceline_nn::Engine::new(network.clone()).initial_state();
    ModelFile::new(network, state)
}

/// Data that only the thread of the test can read until the gate is opened: the leader's own threads wait.
struct Gated {
    inner: Arc<dyn Source>,
    free: ThreadId,
    gate: Arc<Gate>,
}

#[derive(Default)]
struct Gate {
    is_open: Mutex<bool>,
    rung: Condvar,
}

impl Gate {
    fn open(&self) {
        *self.is_open.lock().expect("nobody panics with it") = true;
        self.rung.notify_all();
    }
}

/// Lets the leader end when a stranger found something else than it expected.
struct OpensWithAPanic(Arc<Gate>);

impl Drop for OpensWithAPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.open();
        }
    }
}

impl Source for Gated {
    fn examples(&self) -> usize {
        self.inner.examples()
    }

    fn shape(&self) -> &ExampleShape {
        self.inner.shape()
    }

    fn read(&self, indices: &[u64], batch: &mut Batch) -> Result<(), Error> {
        if std::thread::current().id() != self.free {
            let is_open = self.gate.is_open.lock().expect("nobody panics with it");
            drop(self.gate.rung.wait_while(is_open, |is_open| !*is_open).expect("nobody panics with it"));
        }
        self.inner.read(indices, batch)
    }
}

/// All that comes of a pass, to the bit.
#[derive(Debug, Default, PartialEq)]
struct Came {
    outputs: Vec<u32>,
    losses: Vec<(u64, u64)>,
    classes: Vec<u32>,
}

impl Came {
    fn add(&mut self, batch: &Batch, outputs: &[f32], loss: Loss) {
        self.outputs.extend(outputs.iter().map(|value| value.to_bits()));
        self.losses.push((loss.sum.to_bits(), loss.weight.to_bits()));
        if let Targets::Classes(classes) = &batch.targets {
            self.classes.extend(classes);
        }
    }
}

fn alone() -> Came {
    let (source, mut came) = (open(DATA, &OpenOptions::default()).expect("digits"), Came::default());
    let each = |batch: &Batch, outputs: &[f32], loss: Loss| came.add(batch, outputs, loss);
    inference().predict_with_loss(source, BATCH, each).expect("a pass");
    came
}

fn inference() -> ParallelInference {
    ParallelInference::builder(model()).sequential().workers(2).build().expect("workers")
}

/// Leads a pass; whoever is told of it opens the gate, or nothing is computed here.
fn lead(tls: bool, mut told: impl FnMut(&InferenceEvent, &Arc<Gate>)) -> Came {
    let gate = Arc::new(Gate::default());
    let inner = open(DATA, &OpenOptions::default()).expect("digits");
    let source = Arc::new(Gated { inner, free: std::thread::current().id(), gate: gate.clone() });
    let options = LeadInference {
        listen: "127.0.0.1:0".into(),
        advertise: None,
        tls,
        token: None,
        model: model().to_bytes(),
        data: DATA.into(),
        source,
        batch: BATCH,
        judged: true,
    };
    let mut came = Came::default();
    let mut tell = |event: &InferenceEvent| told(event, &gate);
    let done =
        lead_inference::<Box<dyn std::error::Error>>(options, &inference(), &mut tell, |batch, outputs, loss| {
            came.add(batch, outputs, loss);
            Ok(())
        });
    done.expect("a pass");
    came
}

fn helper(target: Target, token: Option<Token>) -> Result<u64, String> {
    let options =
        HelpOptions { target, token, workers: Some(1), open: OpenOptions::default(), patience: Duration::ZERO };
    help_inference(&options, &mut |_| {}).map_err(|error| error.to_string())
}

#[test]
fn two_helpers_and_the_leader_give_the_bits_of_one_process() {
    for tls in [false, true] {
        let mut helpers = Vec::new();
        let mut helped = 0;
        let came = lead(tls, |event, gate| match event {
            InferenceEvent::Listening { address, join } => {
                assert_eq!(join.is_some(), tls);
                for _ in 0..2 {
                    let target = match join {
                        Some(join) => Target::Join(JoinString::parse(join).expect("a join string")),
                        None => Target::Address(address.clone()),
                    };
                    helpers.push(std::thread::spawn(move || helper(target, None)));
                }
            }
            // Until somebody else has done something, the leader does nothing.
            InferenceEvent::Progress { .. } => gate.open(),
            InferenceEvent::Helped { examples, .. } => helped += examples,
            InferenceEvent::Joined { .. } | InferenceEvent::Refused { .. } | InferenceEvent::Lost { .. } => {}
        });
        assert_eq!(came, alone());
        assert!(helped > 0);
        // One of them may have come too late.
        let computed = helpers.into_iter().map(|helper| helper.join().expect("no panic")).filter_map(Result::ok);
        assert!(computed.sum::<u64>() >= helped);
    }
}

/// A helper of which a test says every word.
struct Stranger {
    transport: TcpTransport,
    inbox: Receiver<TransportEvent>,
    link: LinkId,
}

impl Stranger {
    fn connect(address: &str, purpose: Purpose) -> Self {
        let (events, inbox) = bounded(100);
        let mut transport = TcpTransport::new(TcpOptions::default(), Trust::Plain, events).expect("a transport");
        let link = transport.connect(address);
        transport.admit(link);
        let mut stranger = Self { transport, inbox, link };
        stranger.say(&Word::Hello {
            known_run: 0,
            nonce: String::new(),
            known_term: 0,
            version: PROTOCOL,
            program: "1".into(),
            host: "far".into(),
            purpose,
        });
        stranger
    }

    fn say(&mut self, word: &Word) {
        self.transport.send(self.link, word.frame(0, 0, 0, 0, &vec![0; 7].into())).expect("room");
    }

    /// The next word, or why there is none any more.
    fn hear(&self) -> Result<Word, String> {
        loop {
            match self.inbox.recv_timeout(Duration::from_secs(60)).expect("an event") {
                TransportEvent::Frame { frame, .. } => return Ok(Word::read(&frame).expect("a word").0),
                TransportEvent::Closed { reason, .. } => return Err(reason),
                _ => {}
            }
        }
    }

    fn is_ready(&mut self) {
        assert!(matches!(self.hear(), Ok(Word::Helping(Helping::Welcome { judged: true, batch: BATCH, .. }))));
        let proof = prove(&*open(DATA, &OpenOptions::default()).expect("digits")).expect("a proof");
        self.say(&Word::Helping(Helping::Ready(proof)));
        assert!(matches!(self.hear(), Ok(Word::Helping(Helping::Part(_)))));
    }
}

/// Leads a pass with one who does this, until it is lost; then the leader computes. Says why it was lost, and what its parts were.
fn lead_with(act: fn(&str)) -> (String, usize) {
    let (mut stranger, mut lost) = (None, None);
    let came = lead(false, |event, gate| match event {
        InferenceEvent::Listening { address, .. } => {
            let (address, gate) = (address.clone(), OpensWithAPanic(gate.clone()));
            stranger = Some(std::thread::spawn(move || {
                let _gate = gate;
                act(&address);
            }));
        }
        InferenceEvent::Lost { reason, parts_again, .. } => {
            lost = Some((reason.clone(), *parts_again));
            gate.open();
        }
        InferenceEvent::Refused { reason, .. } => {
            lost = Some((reason.clone(), 0));
            gate.open();
        }
        _ => {}
    });
    stranger.expect("it was started").join().expect("the stranger found what it expected");
    assert_eq!(came, alone());
    lost.expect("it was lost")
}

#[test]
fn parts_of_a_helper_that_goes_away_are_done_by_the_leader() {
    let (_, parts_again) = lead_with(|address| Stranger::connect(address, Purpose::Infer).is_ready());
    assert!((1..=2).contains(&parts_again), "{parts_again}");
}

#[test]
fn a_helper_that_answers_nonsense_is_not_heard() {
    let (reason, _) = lead_with(|address| {
        let mut stranger = Stranger::connect(address, Purpose::Infer);
        stranger.is_ready();
        let head = AnswerHead { examples: vec![2; 16], targets: TargetKind::Classes(10), weighted: false };
        stranger.say(&Word::Helping(Helping::Answer { part: 0, head }));
        while stranger.hear().is_ok() {}
    });
    assert!(reason.contains("its answer has 7 bytes"), "{reason}");
    let (reason, _) = lead_with(|address| {
        let mut stranger = Stranger::connect(address, Purpose::Infer);
        stranger.is_ready();
        let head = AnswerHead { examples: vec![u32::MAX; 16], targets: TargetKind::Classes(10), weighted: false };
        stranger.say(&Word::Helping(Helping::Answer { part: usize::MAX, head }));
        while stranger.hear().is_ok() {}
    });
    assert!(reason.contains("which nobody was asked for"), "{reason}");
}

#[test]
fn a_helper_with_other_data_is_refused_with_both_counts() {
    let (reason, parts_again) = lead_with(|address| {
        let mut stranger = Stranger::connect(address, Purpose::Infer);
        assert!(matches!(stranger.hear(), Ok(Word::Helping(Helping::Welcome { .. }))));
        let proof = prove(&*open("digits:train", &OpenOptions::default()).expect("digits")).expect("a proof");
        stranger.say(&Word::Helping(Helping::Ready(proof)));
        assert!(matches!(stranger.hear(), Ok(Word::Refused { .. })));
    });
    assert!(
        reason.contains("which has 359 examples: it has 1438") && reason.contains("bring the same file"),
        "{reason}"
    );
    assert_eq!(parts_again, 0);
}

#[test]
fn a_worker_is_told_that_nothing_is_trained_here() {
    lead_with(|address| {
        match Stranger::connect(address, Purpose::Train).hear() {
            Ok(Word::Refused { reason }) => assert!(reason.contains("paceline evaluate --join"), "{reason}"),
            other => panic!("{other:?}"),
        }
        Stranger::connect(address, Purpose::Infer).is_ready();
    });
}
