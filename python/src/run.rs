//! Runs: training, a master or a worker, on a thread of their own.
//!
//! The thread never takes the interpreter's lock. Whoever waits for events does so without it, in short slices, so that Ctrl-C and
//! other threads are heard in between.

use std::any::Any;
use std::collections::BTreeMap;
use std::net::ToSocketAddrs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, unbounded};
use paceline::data::{OpenOptions, PartitionSource};
use paceline::nn::ModelFile;
use paceline::train::{IfFound, Job, Outcome, Stop, Take, panic_message};
use paceline_cluster::trust::{JoinString, Token};
use paceline_cluster::wire::JobText;
use paceline_cluster::{LeadOptions, MOST_SLOTS, StragglerLimit, Target, WorkerOptions, run_master, run_worker};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::failure::{Error, SettingError, of_cluster, of_train, spoken};
use crate::model::Model;
use crate::process::Home;
use crate::source::{Source, options};

/// What a thread has come to.
type Result = std::result::Result<Ended, PyErr>;

/// The end of a run.
struct Ended {
    model: Option<Model>,
    scores: Option<(String, String)>,
    stopped: bool,
}

/// A run that goes on beside the interpreter.
#[pyclass(module = "paceline._native", frozen)]
pub(crate) struct Run {
    home: Home,
    stop: Stop,
    events: Receiver<String>,
    ended: Arc<Mutex<Option<Result>>>,
    /// Set when the result is there, also after it was taken.
    has_ended: Arc<AtomicBool>,
}

#[pymethods]
impl Run {
    /// Trains a job, given as the JSON of a job file; `given` are sources by the names that the job has for them.
    #[staticmethod]
    #[pyo3(signature = (
        job, *, name, given=None, output=None, found="refuse", start=None, take="learned", force=false, cores=None, cache=None,
        offline=false, root=None
    ))]
    #[expect(clippy::too_many_arguments, reason = "what the command line has as options")]
    fn train(
        py: Python<'_>,
        job: &str,
        name: &str,
        given: Option<&Bound<'_, PyDict>>,
        output: Option<PathBuf>,
        found: &str,
        start: Option<&Model>,
        take: &str,
        force: bool,
        cores: Option<usize>,
        cache: Option<PathBuf>,
        offline: bool,
        root: Option<PathBuf>,
    ) -> PyResult<Self> {
        let found = match found {
            "refuse" => IfFound::Refuse,
            "resume" => IfFound::Resume,
            "overwrite" => IfFound::Overwrite,
            other => {
                return Err(SettingError::new_err(format!("expected refuse, resume or overwrite, found `{other}`")));
            }
        };
        let open = OpenOptions { given: sources(given)?, ..options(cache, offline, root) };
        let mut job = Job::from_text(job, true, name, "the job", &[]).map_err(of_train)?;
        (job.cores, job.options.force) = (cores, force);
        let begins = begins(start, take)?;
        let trainer = py.detach(|| {
            let trainer = job.phased(output, found, &open)?;
            let trainer = match &begins {
                Some((model, take)) => trainer.begin_with(model, *take)?,
                None => trainer,
            };
            trainer.expect_memory()?;
            Ok(trainer)
        });
        let trainer = trainer.map_err(of_train)?;
        let stop = trainer.stop();
        Ok(Self::start(stop, move |events| {
            let outcome = trainer.run(&mut |event| tell(&events, event)).map_err(of_train)?;
            let Outcome { model, scores, stopped, .. } = outcome;
            let scores = scores.map(|scores| (json(&scores), scores.to_string()));
            Ok(Ended { model: Some(Model::new(model)?), scores, stopped })
        }))
    }

    /// Leads the run of a job, given as the text of a job file, that workers on this and other machines train.
    #[staticmethod]
    #[pyo3(signature = (
        job, *, name, output, is_json=true, settings=Vec::new(), given=None, listen="127.0.0.1:0", advertise=None, coordinator=None, token=None,
        identity=None, tls=None, min_workers=1, expected_workers=0, expected_within=10.0, mesh_limit=16, waiting_limit=600.0, silence_limit=5.0, straggler_limit=None,
        stops_on_poison=false, status=None, status_token=None, restart=false, statistics=false, start=None, take="learned", cache=None, offline=false, root=None
    ))]
    #[expect(clippy::too_many_arguments, reason = "what the command line has as options")]
    fn master(
        job: String,
        name: String,
        output: PathBuf,
        is_json: bool,
        settings: Vec<String>,
        given: Option<&Bound<'_, PyDict>>,
        listen: &str,
        advertise: Option<String>,
        coordinator: Option<String>,
        token: Option<&str>,
        identity: Option<PathBuf>,
        tls: Option<bool>,
        min_workers: usize,
        expected_workers: usize,
        expected_within: f64,
        mesh_limit: usize,
        waiting_limit: f64,
        silence_limit: f64,
        straggler_limit: Option<f64>,
        stops_on_poison: bool,
        status: Option<String>,
        status_token: Option<&str>,
        restart: bool,
        statistics: bool,
        start: Option<&Model>,
        take: &str,
        cache: Option<PathBuf>,
        offline: bool,
        root: Option<PathBuf>,
    ) -> PyResult<Self> {
        Job::from_text(&job, is_json, &name, "the job", &settings).map_err(of_train)?;
        let options = LeadOptions {
            tls: tls.unwrap_or(!is_loopback(listen)?),
            listen: listen.to_owned(),
            advertise,
            coordinator,
            token: token.map(read_token).transpose()?,
            identity,
            min_workers: min_workers.max(1),
            expected_workers,
            expected_within: seconds("expected_within", 0.0, expected_within)?,
            mesh_limit: mesh_limit.clamp(1, 1024),
            waiting_limit: seconds("waiting_limit", 0.0, waiting_limit)?,
            silence_limit: seconds("silence_limit", 0.05, silence_limit)?,
            straggler_limit: match straggler_limit {
                Some(limit) => {
                    Some(StragglerLimit::After(seconds("straggler_limit", 0.001, limit)?.as_millis() as u64))
                }
                None => None,
            },
            stops_on_poison,
            status,
            status_token: status_token.map(read_token).transpose()?,
            restarts: restart,
            statistics,
            begin_with: begins(start, take)?,
            open: OpenOptions { given: sources(given)?, ..options(cache, offline, root) },
            ..LeadOptions::new(output.clone())
        };
        let text = JobText { name, text: job, is_json, settings };
        let stop = Stop::default();
        let asked = stop.clone();
        Ok(Self::start(stop, move |events| {
            let outcome = run_master(text, &options, &asked, &mut |event| tell(&events, event)).map_err(of_cluster)?;
            let scores = outcome.scores.map(|scores| (json(&scores), scores.to_string()));
            let model = match outcome.stopped {
                true => None,
                false => Some(Model::read(&output.join("model.safetensors"))?),
            };
            Ok(Ended { model, scores, stopped: outcome.stopped })
        }))
    }

    /// Lends this process to a master, at an address, by its join string, or where a ZooKeeper says.
    #[staticmethod]
    #[pyo3(signature = (
        *, join=None, coordinator=None, given=None, held=None, epoch=None, slots=1, token=None, listen=None, advertise=None, patience=60.0, cache=None,
        offline=false, root=None
    ))]
    #[expect(clippy::too_many_arguments, reason = "what the command line has as options")]
    fn worker(
        join: Option<&str>,
        coordinator: Option<String>,
        given: Option<&Bound<'_, PyDict>>,
        held: Option<&Bound<'_, PyDict>>,
        epoch: Option<u64>,
        slots: u32,
        token: Option<&str>,
        listen: Option<String>,
        advertise: Option<String>,
        patience: f64,
        cache: Option<PathBuf>,
        offline: bool,
        root: Option<PathBuf>,
    ) -> PyResult<Self> {
        let target = match (join, coordinator) {
            (Some(join), None) if join.starts_with("paceline://") => {
                Target::Join(JoinString::parse(join).map_err(|error| SettingError::new_err(error.to_string()))?)
            }
            (Some(address), None) => Target::Address(address.to_owned()),
            (None, Some(coordinator)) => Target::Coordinator(coordinator),
            _ => return Err(SettingError::new_err("expected either `join` or `coordinator`")),
        };
        let options = WorkerOptions {
            listen: listen.unwrap_or_else(|| target.listens_by_default()),
            token: token.map(read_token).transpose()?,
            slots: slots.clamp(1, MOST_SLOTS),
            advertise,
            open: OpenOptions {
                given: sources(given)?,
                held: partitions(held, epoch)?,
                ..options(cache, offline, root)
            },
            patience: seconds("patience", 0.0, patience)?,
            ..WorkerOptions::new(target)
        };
        let stop = Stop::default();
        let asked = stop.clone();
        Ok(Self::start(stop, move |events| {
            run_worker(&options, &asked, &mut |event| tell(&events, event)).map_err(of_cluster)?;
            Ok(Ended { model: None, scores: None, stopped: asked.is_asked() })
        }))
    }

    /// The next event as JSON; none when so many seconds have passed, or the run has ended.
    fn next(&self, py: Python<'_>, seconds: f64) -> PyResult<Option<String>> {
        self.home.expect_here("this run")?;
        let wait = Duration::try_from_secs_f64(seconds).unwrap_or_default();
        Ok(py.detach(|| self.events.recv_timeout(wait)).ok())
    }

    /// Whether it has ended, and all its events were taken.
    #[getter]
    fn is_over(&self) -> PyResult<bool> {
        self.home.expect_here("this run")?;
        // In this order: what is told is told before the end.
        Ok(self.has_ended.load(Ordering::Acquire) && self.events.is_empty())
    }

    /// Asks it to end after the step that it is in, with a checkpoint.
    fn stop(&self) -> PyResult<()> {
        self.home.expect_here("this run")?;
        self.stop.ask();
        Ok(())
    }

    /// The model, the scores as JSON and in words, and whether it was stopped. Raises what the run failed with.
    #[expect(clippy::type_complexity, reason = "all that a run comes to")]
    fn result(&self) -> PyResult<(Option<Model>, Option<(String, String)>, bool)> {
        self.home.expect_here("this run")?;
        match self.ended.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(ended) => ended.map(|Ended { model, scores, stopped }| (model, scores, stopped)),
            None => Err(Error::new_err("this run has not ended yet, or its result was taken")),
        }
    }
}

impl Run {
    fn start(stop: Stop, work: impl FnOnce(Sender<String>) -> Result + Send + 'static) -> Self {
        let (sender, events) = unbounded();
        let (ended, has_ended) = (Arc::new(Mutex::new(None)), Arc::new(AtomicBool::new(false)));
        let (result, is_there) = (ended.clone(), has_ended.clone());
        let thread = std::thread::Builder::new().name("paceline-run".into()).spawn(move || {
            let panicked = |panic: Box<dyn Any + Send>| {
                Err(Error::new_err(format!("this run has panicked: {}", panic_message(&*panic))))
            };
            let done = catch_unwind(AssertUnwindSafe(|| work(sender))).unwrap_or_else(panicked);
            *result.lock().unwrap_or_else(PoisonError::into_inner) = Some(done);
            is_there.store(true, Ordering::Release);
        });
        if let Err(error) = thread {
            let failed = Err(Error::new_err(format!("no thread could be started: {error}")));
            *ended.lock().unwrap_or_else(PoisonError::into_inner) = Some(failed);
            has_ended.store(true, Ordering::Release);
        }
        Self { home: Home::here(), stop, events, ended, has_ended }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        // Nobody can take its result any more. In a forked child there is nothing to stop.
        if self.home.is_here() {
            self.stop.ask();
        }
    }
}

fn seconds(name: &str, least: f64, limit: f64) -> PyResult<Duration> {
    if !(least..=1e7).contains(&limit) {
        return Err(SettingError::new_err(format!("expected `{name}` in seconds, at least {least}, found {limit}")));
    }
    Ok(Duration::from_secs_f64(limit))
}

fn read_token(text: &str) -> PyResult<Token> {
    Token::parse(text.trim()).map_err(|error| SettingError::new_err(error.to_string()))
}

/// Whether only this machine can connect to an address.
fn is_loopback(listen: &str) -> PyResult<bool> {
    let host = listen.rsplit_once(':').map_or(listen, |(host, _)| host).trim_matches(['[', ']']);
    let unknown = |error| SettingError::new_err(format!("`{listen}` is no address to listen at: {error}"));
    Ok((host, 0).to_socket_addrs().map_err(unknown)?.all(|address| address.ip().is_loopback()))
}

fn tell(events: &Sender<String>, event: &impl serde::Serialize) {
    // Nobody may be listening any more.
    let line = json(event);
    let _ = events.send(if line.contains('`') { spoken(&line) } else { line });
}

fn json(what: &impl serde::Serialize) -> String {
    serde_json::to_string(what).expect("names and numbers can be written")
}

fn sources(given: Option<&Bound<'_, PyDict>>) -> PyResult<BTreeMap<String, Arc<dyn paceline::data::Source>>> {
    let Some(given) = given else { return Ok(BTreeMap::new()) };
    given
        .iter()
        .map(|(name, source)| {
            let source = source.cast::<Source>()?.get().inner.clone();
            Ok((name.extract::<String>()?, source))
        })
        .collect()
}

/// Partitions by their numbers; all of them for one epoch, or for good.
fn partitions(
    held: Option<&Bound<'_, PyDict>>,
    epoch: Option<u64>,
) -> PyResult<BTreeMap<u32, (PartitionSource, Option<u64>)>> {
    let Some(held) = held else { return Ok(BTreeMap::new()) };
    let partition = |(number, source): (Bound<'_, PyAny>, Bound<'_, PyAny>)| {
        let source = source.cast::<Source>()?.get().inner.clone();
        Ok((number.extract::<u32>()?, (PartitionSource::Open(source), epoch)))
    };
    held.iter().map(partition).collect()
}

/// What a run begins with, and what is taken over of it.
fn begins(start: Option<&Model>, take: &str) -> PyResult<Option<(ModelFile, Take)>> {
    let take = match take {
        "learned" => Take::Learned,
        "everything" => Take::Everything,
        other => return Err(SettingError::new_err(format!("expected learned or everything, found `{other}`"))),
    };
    Ok(start.map(|model| (model.file().clone(), take)))
}
