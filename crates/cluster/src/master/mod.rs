//! The master: owns a run, its members, its ledger and its checkpoints.
//!
//! # Layout
//!
//! - [`run_master`]: leads, goes on from the newest checkpoint, and drives the run to its end.
//! - `event_loop`: one term: the loop that carries out what the rules decide.
//! - `telling`: what people hear of it. `ending`, `judging`: how it comes to its end. `keep`: what is on the disk. `board`: what the state tracker shows. `tally`: what is told of how training goes.

mod board;
mod ending;
mod event_loop;
mod judging;
mod keep;
mod tally;
mod telling;

use std::path::PathBuf;
use std::time::Duration;

use crossbeam_channel::bounded;
use paceline_data::OpenOptions;
use paceline_exchange::rounds::{MasterOptions, MemberOptions, Schedule};
use paceline_train::{Event, Job, Scores, Stop};

use crate::coordination::{Coordination, Embedded, RunRecord, ZooKeeper};
use crate::mode::{max_ahead, name_of, overlaps, replica_mode, rounds_of, step_size};
use crate::record::Record;
use crate::tracker::{Board, RunStatus, Tracker, TrackerOptions};
use crate::transport::{TcpOptions, TcpTransport, Transport};
use crate::trust::{JoinString, MasterIdentity, Token, Trust};
use crate::wire::JobText;
use crate::{ClusterError, EVENTS_WAITING, prove};
use event_loop::EventLoop;
use keep::Keep;

/// How a run on many machines is led.
pub struct LeadOptions {
    /// Where it listens: `HOST:PORT` or `HOST:FROM-TO`.
    pub listen: String,
    /// What workers connect to, if that is not where it listens.
    pub advertise: Option<String>,
    /// A ZooKeeper, as `zk://host:port/path`; without one, the output folder says who leads.
    pub coordinator: Option<String>,
    /// What workers must show. Without one, only loopback is open to all.
    pub token: Option<Token>,
    /// Whether links speak TLS; always, when others than this machine can reach it.
    pub tls: bool,
    /// Members that a view needs.
    pub min_workers: usize,
    /// How long it waits for them.
    pub waiting_limit: Duration,
    /// A member that was not heard of for so long is lost.
    pub silence_limit: Duration,
    /// How long a round of `sync` or `averaging` waits for those who are slow before it goes on without them; none: as long as it
    /// takes.
    pub straggler_limit: Option<Duration>,
    /// Whether examples that were lost with two workers end the run.
    pub stops_on_poison: bool,
    /// A file for what the rules were told and decided, to be replayed.
    pub record: Option<PathBuf>,
    /// Where its state is shown over HTTP; none for nowhere.
    pub status: Option<String>,
    /// What those must show who read it from another machine, or give orders: not what workers join with.
    pub status_token: Option<Token>,
    /// Where the model and checkpoints go. With standby masters, a place that all of them can read.
    pub output: PathBuf,
    /// How data is opened.
    pub open: OpenOptions,
}

/// What a run came to.
pub struct Outcome {
    /// How good the model is on the test data.
    pub scores: Option<Scores>,
    /// Whether the run was stopped before its end.
    pub stopped: bool,
}

/// A beat every so often: some are lost before a member is.
const BEATS_WITHIN_LIMIT: u64 = 5;
/// Orders of operators that may wait; more are refused.
const ORDERS_WAITING: usize = 16;
/// How long a standby waits at a time before it looks whether it was asked to stop.
const STANDBY_LOOKS: Duration = Duration::from_millis(500);

/// Leads the run of a job to its end.
pub fn run_master(
    text: JobText,
    options: &LeadOptions,
    stop: &Stop,
    tell: &mut dyn FnMut(&Event),
) -> Result<Outcome, ClusterError> {
    let job = Job::from_text(&text.text, text.is_json, &text.name, &format!("`{}`", text.name), &text.settings)?;
    let trainer = job.cluster_trainer(Some(options.output.clone()), &options.open)?;
    let train = trainer.options();
    trainer.can_stop_early()?;
    let mode = replica_mode(train)?;
    let normaliser = trainer.fit_normaliser()?;
    let data = prove(&**trainer.train_source())?;
    let keep = Keep::new(&options.output)?;

    let mut coordination: Box<dyn Coordination> = match &options.coordinator {
        Some(address) => Box::new(ZooKeeper::connect(address, crate::coordination::CONNECT_LIMIT)?),
        None => Box::new(Embedded::new(&options.output)),
    };
    let identity = if options.tls { Some(MasterIdentity::new()?) } else { None };
    let (events, inbox) = bounded(EVENTS_WAITING);
    let tcp =
        TcpOptions { listen: options.listen.clone(), advertise: options.advertise.clone(), ..TcpOptions::default() };
    let trust = match &identity {
        Some(identity) => Trust::master(identity)?,
        None => Trust::Plain,
    };
    let transport = TcpTransport::new(tcp, trust, events)?;
    let address = transport.local_address().to_owned();

    let mut told_standby = false;
    let leadership = loop {
        if let Some(leadership) = coordination.lead(STANDBY_LOOKS)? {
            break leadership;
        }
        if !told_standby {
            tell(&Event::Standby { address: address.clone() });
            told_standby = true;
        }
        if stop.is_asked() {
            return Ok(Outcome { scores: None, stopped: true });
        }
    };

    let share = step_size(train);
    let job_key = serde_json::to_string(&text).expect("words can be written");
    // A run of the same job that did not end goes on; any other begins anew.
    let found = leadership.found.filter(|record| record.job == job_key && !record.has_ended);
    let begun = match found.as_ref().and_then(|record| record.checkpoint.as_ref().map(|path| (record.run, path))) {
        Some((run, path)) => keep.load(&trainer, run, path.as_ref())?,
        None => None,
    };
    let work = Schedule::new(data.examples, train.epochs, share).in_rounds_of(mode.steps());
    let work = match train.steps {
        Some(steps) => work.at_most(steps, train.global_batch.ok_or(ClusterError::StepsOfNoSize)? as u64),
        None => work,
    };
    let begun = begun.unwrap_or_else(|| keep.fresh(&trainer, &mode, work));

    let record = RunRecord {
        run: begun.run,
        term: leadership.term,
        address: address.clone(),
        key: identity.as_ref().map(|identity| identity.fingerprint().to_string()),
        job: job_key,
        checkpoint: begun.path.as_ref().map(|path| path.display().to_string()),
        has_ended: false,
    };
    coordination.publish(&record)?;
    let join = match (&identity, &options.token) {
        (Some(identity), Some(token)) => {
            let join = JoinString { address: address.clone(), token: token.clone(), key: identity.fingerprint() };
            Some(join.reveal())
        }
        _ => None,
    };
    let board = Board::new(RunStatus {
        run: format!("{:016x}", begun.run),
        term: leadership.term,
        mode: name_of(&mode).into(),
        epochs: begun.rest.epochs(),
        examples: data.examples,
        ..RunStatus::default()
    });
    let (orders, operators) = bounded(ORDERS_WAITING);
    let tracker = match &options.status {
        None => None,
        Some(listen) => {
            // It speaks plain HTTP: what workers join with must not be read on the wire.
            let is_local =
                listen.starts_with("127.") || listen.starts_with("[::1]") || listen.starts_with("localhost:");
            let token = options.status_token.clone().or_else(|| options.token.clone().filter(|_| is_local));
            let host = |address: &String| address.rsplit_once(':').map_or(address.clone(), |(host, _)| host.to_owned());
            let advertise = options.advertise.as_ref().map(host);
            let tracked = TrackerOptions { listen: listen.clone(), advertise, token, ..TrackerOptions::default() };
            Some(Tracker::start(tracked, board.clone(), orders.clone())?)
        }
    };
    let status = tracker.as_ref().map(|tracker| tracker.address().to_owned());
    tell(&Event::Listening { address, join, status, term: leadership.term });

    let silence_limit = options.silence_limit.as_millis() as u64;
    let member = MemberOptions {
        save_every: train.checkpoint.steps.map(|steps| rounds_of(&mode, steps, train)),
        overlap: overlaps(&mode),
        straggler_limit: options.straggler_limit.map(|limit| limit.as_millis() as u64),
        share,
        max_ahead: max_ahead(&mode),
        ..MemberOptions::within(silence_limit, BEATS_WITHIN_LIMIT)
    };
    let rules = MasterOptions {
        min_workers: options.min_workers,
        silence_limit,
        waiting_limit: options.waiting_limit.as_millis() as u64,
        waiting_told_every: 5000,
        stops_on_poison: options.stops_on_poison,
        overlap: overlaps(&mode),
        data,
    };
    let event_loop = EventLoop {
        trainer: &trainer,
        text: &text,
        token: options.token.as_ref(),
        identity: identity.as_ref(),
        normaliser,
        mode,
        member,
        keep,
        coordination,
        record,
        events: Record::new(options.record.as_deref())?,
        transport,
        inbox,
        operators: &operators,
        board: &board,
        stop,
    };
    let outcome = event_loop.run(rules, begun, tell);
    // Until here: the tracker goes with the run, and its orders with it.
    drop((tracker, orders));
    outcome
}
