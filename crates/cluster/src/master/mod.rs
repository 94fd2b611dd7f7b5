//! The master: owns a run, its members, its ledger and its checkpoints.
//!
//! # Layout
//!
//! - [`run_master`]: makes a loop and its surroundings, and drives it to its end.
//! - `master_loop`: from standing by to the end. `term`: what it does while it leads. `hearing`: what comes over links.
//!   `saving`: how a checkpoint comes to stand. `ending`, `judging`: how the run comes to its end.
//! - `phases`: a job whose layers are pretrained is several runs, one after the other.
//! - `telling`, `tally`, `board`: what people hear and see of it.
//! - `leading`, `storage`: how it comes to lead, and what proves that all masters of a run see the same folder.
//! - `host`: what the loop needs of the world around it. `surroundings`: the real one, with `disk`.

mod board;
mod disk;
mod ending;
mod hearing;
pub(crate) mod host;
pub(crate) mod judging;
mod leading;
pub(crate) mod master_loop;
mod phases;
mod saving;
mod storage;
mod surroundings;
mod tally;
mod telling;
pub(crate) mod term;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::bounded;
use paceline_data::OpenOptions;
use paceline_exchange::rounds::message::DataProof;
use paceline_exchange::rounds::{MasterOptions, MemberOptions, Schedule, StragglerLimit};
use paceline_nn::{ModelFile, Registry};
use paceline_train::{Event, Holds, Job, Journal, Scores, Stop, Take, Trainer};

use crate::coordination::{Coordination, Embedded, ZooKeeper};
use crate::mode::{max_ahead, overlaps, replica_mode, rounds_of, step_size};
use crate::record::Record;
use crate::tracker::{Board, TrackerOptions};
use crate::transport::{Limits, TcpOptions, TcpTransport, Transport};
use crate::trust::{MasterIdentity, RunIdentity, Token, Trust};
use crate::wire::JobText;
use crate::{ClusterError, EVENTS_WAITING, descriptors, prove};
use disk::Disk;
use host::MasterHost;
use master_loop::{MasterLoop, MasterSetup};
use surroundings::{Issuing, Showing, drive};

/// How a run on many machines is led.
pub struct LeadOptions {
    /// Where it listens: `HOST:PORT` or `HOST:FROM-TO`.
    pub listen: String,
    /// What workers connect to, if that is not where it listens.
    pub advertise: Option<String>,
    /// A ZooKeeper, as `zk://host:port/path`; without one, the output folder says who leads.
    pub coordinator: Option<String>,
    /// What workers must show. Without one, only loopback is open to all; with TLS, the run's identity has one.
    pub token: Option<Token>,
    /// Where the key and the token of the run are kept for all its masters; none: in the output folder.
    pub identity: Option<PathBuf>,
    /// Whether links speak TLS; always, when others than this machine can reach it.
    pub tls: bool,
    /// How long the certificate of a member holds; it gets a new one after half of that.
    pub certificate: Duration,
    /// Members that a view needs.
    pub min_workers: usize,
    /// Members that the first view waits for; it begins without those who do not come.
    pub expected_workers: usize,
    /// How long it waits for them from the first one on.
    pub expected_within: Duration,
    /// So many members are all linked with each other; more of them form a tree.
    pub mesh_limit: usize,
    /// How long it waits for them.
    pub waiting_limit: Duration,
    /// A member that was not heard of for so long is lost.
    pub silence_limit: Duration,
    /// How long a round of `sync` or `averaging` waits for those who are slow before it goes on without them; none: as long as it
    /// takes.
    pub straggler_limit: Option<StragglerLimit>,
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
    /// Whether a run that is there already is begun anew, also one that has ended.
    pub restarts: bool,
    /// Whether it tells at the end where the time of the workers went.
    pub statistics: bool,
    /// A model that the run begins with, and what is taken over of it; all masters of a run need the same.
    pub begin_with: Option<(ModelFile, Take)>,
    /// How data is opened.
    pub open: OpenOptions,
    /// Layers and losses of other crates that the job may name.
    pub registry: Registry,
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
/// The name of the file with the identity of a run.
const IDENTITY: &str = "identity";
/// Orders of operators that may wait; more are refused.
const ORDERS_WAITING: usize = 16;

/// Leads the run of a job to its end: phase after phase, if its layers are pretrained.
pub fn run_master(
    text: JobText,
    options: &LeadOptions,
    stop: &Stop,
    tell: &mut dyn FnMut(&Event),
) -> Result<Outcome, ClusterError> {
    descriptors::raise_limit();
    // A coordinator elsewhere knows whose run it is; a folder tells by its record.
    if options.coordinator.is_none() && !options.restarts {
        match Holds::of(&options.output) {
            Some(Holds::MasterRun) => {}
            Some(holds) => return Err(ClusterError::FolderHolds { path: options.output.clone(), holds }),
            None => paceline_train::expect_free(&options.output)?,
        }
    }
    let mut job = Job::from_text(&text.text, text.is_json, &text.name, &format!("`{}`", text.name), &text.settings)?;
    job.registry = options.registry.clone();
    let phases = job.phases();
    match &phases[..] {
        [only] => run_phase(text, ToLead::of(only, options)?, stop, tell),
        several => phases::run_all(&text, several, options, stop, tell),
    }
}

/// One phase of a run, and how it is led.
struct ToLead<'a> {
    options: &'a LeadOptions,
    listen: String,
    /// Where its state is shown.
    status: Option<String>,
    /// Where its model and checkpoints go.
    folder: PathBuf,
    trainer: Trainer,
    restarts: bool,
    /// Whether another phase follows.
    goes_on: bool,
}

impl<'a> ToLead<'a> {
    fn of(job: &Job, options: &'a LeadOptions) -> Result<Self, ClusterError> {
        let trainer = job.cluster_trainer(Some(options.output.clone()), &options.open)?;
        trainer.expect_memory_of_master()?;
        let trainer = match &options.begin_with {
            Some((model, take)) => beginning_with(trainer, model, *take)?,
            None => trainer,
        };
        let (listen, status, folder) = (options.listen.clone(), options.status.clone(), options.output.clone());
        Ok(Self { options, listen, status, folder, trainer, restarts: options.restarts, goes_on: false })
    }
}

/// Begins with what a model has learned. Workers must treat features and targets as it was trained with.
fn beginning_with(trainer: Trainer, model: &ModelFile, take: Take) -> Result<Trainer, ClusterError> {
    let of_workers = trainer.fit_normalisers()?;
    let trainer = trainer.begin_with(model, take)?;
    if trainer.fit_normalisers()? != of_workers {
        return Err(ClusterError::OtherNormaliser);
    }
    Ok(trainer)
}

/// Leads one phase to its end.
fn run_phase(
    mut text: JobText,
    leading: ToLead<'_>,
    stop: &Stop,
    tell: &mut dyn FnMut(&Event),
) -> Result<Outcome, ClusterError> {
    let ToLead { options, listen, status, folder, trainer, restarts, goes_on } = leading;
    let trainer = Arc::new(trainer);
    trainer.warn(tell);
    let train = trainer.options();
    trainer.can_stop_early()?;
    let mode = replica_mode(train)?;
    let before = trainer.first_progress().iteration;
    let normalisers = trainer.fit_normalisers()?;
    let mut journal = None;
    let tell = &mut |event: &Event| {
        if let Event::Started { resumed_at, .. } = event {
            // What it has written of epochs that come again is replaced when they do.
            let epochs_done = if *resumed_at == before { 0 } else { u64::MAX };
            journal = Some(Journal::begin(&folder, trainer.told_metrics(), epochs_done));
        }
        if let Some(message) = journal.as_mut().and_then(|journal| journal.tell(event)) {
            tell(&Event::Warning { message });
        }
        tell(event);
    };
    let disk = Disk { folder: folder.clone(), trainer: trainer.clone(), normalisers, mode: mode.clone() };
    disk.make_folder()?;

    let coordination: Box<dyn Coordination> = match &options.coordinator {
        Some(address) => Box::new(ZooKeeper::connect(address, crate::coordination::CONNECT_LIMIT)?),
        None => Box::new(Embedded::new(&options.output)),
    };
    let identity = match options.tls {
        true => {
            let path = options.identity.clone().unwrap_or_else(|| options.output.join(IDENTITY));
            Some(RunIdentity::open(&path, options.token.as_ref())?)
        }
        false => None,
    };
    let token = identity.as_ref().map(|identity| identity.token.clone()).or_else(|| options.token.clone());
    let identity = identity.map(|identity| identity.master);
    let (events, inbox) = bounded(EVENTS_WAITING);
    let tcp = TcpOptions {
        listen,
        advertise: options.advertise.clone(),
        own_user_only: token.is_none(),
        limits: Limits { silence: options.silence_limit, ..Limits::default() },
        ..TcpOptions::default()
    };
    let trust = match &identity {
        Some(identity) => Trust::master(identity)?,
        None => Trust::Plain,
    };
    let transport = TcpTransport::new(tcp, trust, events)?;

    let share = step_size(train);
    let epochs = train.epochs - trainer.first_progress().epoch;
    let (data, work) = match trainer.train_source().partitions() {
        None => {
            let data = prove(&**trainer.train_source())?;
            let work = Schedule::new(data.examples, epochs, share);
            (Some(data), work)
        }
        Some(partitions) => {
            // Workers have partitions, but no notes: they are told what all of them come to.
            let notes = serde_json::to_string(partitions.notes()).expect("words and numbers can be written");
            text.settings.push(format!("data.train=partitions:{notes}"));
            let proof =
                |(examples, fingerprint): &(u64, u64)| DataProof { examples: *examples, fingerprint: *fingerprint };
            let proofs = partitions.notes().partitions.iter().map(proof).collect();
            (None, Schedule::of_partitions(proofs, epochs, share))
        }
    };
    let work = work.in_rounds_of(mode.steps());
    let work = match train.steps {
        Some(_) if data.is_none() => return Err(ClusterError::StepsOfPartitions),
        Some(steps) => work.at_most(steps, train.global_batch.ok_or(ClusterError::StepsOfNoSize)? as u64),
        None => work,
    };
    let before = trainer.first_progress();
    let work = work.after(before.epoch, before.iteration);
    let silence_limit = options.silence_limit.as_millis() as u64;
    let member = MemberOptions {
        save_every: train.checkpoint.steps.map(|steps| rounds_of(&mode, steps, train)),
        overlap: overlaps(&mode),
        straggler_limit: options.straggler_limit,
        mesh_limit: options.mesh_limit,
        share,
        max_ahead: max_ahead(&mode),
        ..MemberOptions::within(silence_limit, BEATS_WITHIN_LIMIT)
    };
    let rules = MasterOptions {
        mesh_limit: options.mesh_limit,
        min_workers: options.min_workers,
        expected_workers: options.expected_workers,
        expected_within: options.expected_within.as_millis() as u64,
        silence_limit,
        waiting_limit: options.waiting_limit.as_millis() as u64,
        waiting_told_every: 5000,
        stops_on_poison: options.stops_on_poison,
        overlap: overlaps(&mode),
        data,
        goes_on,
    };
    let setup = MasterSetup {
        text,
        train: train.clone(),
        mode,
        rules,
        member,
        work,
        parameters: trainer.network().parameter_count(),
        token: token.clone(),
        address: transport.local_address().to_owned(),
        key: identity.as_ref().map(MasterIdentity::fingerprint),
        renews_after: identity.is_some().then(|| (options.certificate / 2).as_millis() as u64),
        restarts,
        statistics: options.statistics,
        planted: None,
    };
    let board = Board::default();
    let (orders, operators) = bounded(ORDERS_WAITING);
    let showing = Showing { tracker: options.tracker(status, token), board: board.clone(), orders };
    let record = Record::new(options.record.as_deref())?;
    let make = |host: &mut dyn MasterHost| MasterLoop::new(setup, board, host);
    let identity = identity.as_ref().map(|authority| Issuing { authority, lifetime: options.certificate });
    let outcome =
        drive(make, transport, &inbox, coordination, identity, disk, record, showing, &operators, stop, tell)?;
    if let (Some(scores), Some(journal)) = (&outcome.scores, &mut journal) {
        journal.conclude(scores);
    }
    Ok(outcome)
}

impl LeadOptions {
    /// On a free port of this machine, for one worker or more, as `paceline master` does; what a run leaves goes into a folder.
    pub fn new(output: PathBuf) -> Self {
        Self {
            listen: "127.0.0.1:0".into(),
            advertise: None,
            coordinator: None,
            token: None,
            identity: None,
            tls: false,
            certificate: Duration::from_secs(24 * 3600),
            min_workers: 1,
            expected_workers: 0,
            expected_within: Duration::from_secs(10),
            mesh_limit: 16,
            waiting_limit: Duration::from_secs(600),
            silence_limit: Duration::from_secs(5),
            straggler_limit: None,
            stops_on_poison: false,
            record: None,
            status: None,
            status_token: None,
            output,
            restarts: false,
            statistics: false,
            begin_with: None,
            open: OpenOptions::default(),
            registry: Registry::default(),
        }
    }

    /// Where and to whom its state is shown.
    fn tracker(&self, status: Option<String>, token: Option<Token>) -> Option<TrackerOptions> {
        let listen = status?;
        // It speaks plain HTTP: what workers join with must not be read on the wire.
        let is_local = listen.starts_with("127.") || listen.starts_with("[::1]") || listen.starts_with("localhost:");
        let token = self.status_token.clone().or_else(|| token.filter(|_| is_local));
        let host = |address: &String| address.rsplit_once(':').map_or(address.clone(), |(host, _)| host.to_owned());
        let advertise = self.advertise.as_ref().map(host);
        Some(TrackerOptions { listen, advertise, token, ..TrackerOptions::default() })
    }
}
