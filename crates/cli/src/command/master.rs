use std::io::Write;
use std::net::ToSocketAddrs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use paceline::train::{Event, Job, JobFile, SavedModel, Stop, Take, TrainingStatistics};
use paceline_cluster::trust::Token;
use paceline_cluster::wire::JobText;
use paceline_cluster::{LeadOptions, StragglerLimit, run_master};

use super::open_options;
use crate::arguments::{self, Events, OnPoison};
use crate::failure::{DONE, Exit, INTERRUPTED, Misuse};
use crate::interrupt::Interrupt;
use crate::outputs::{Kind, expect_own_file};
use crate::report::Reporter;

/// The shortest time after which somebody may be given up, in seconds.
const SHORTEST_SILENCE: f64 = 0.05;
/// The shortest time that a round may wait for somebody, in seconds.
const SHORTEST_WAIT: f64 = 0.001;

pub(crate) fn run(arguments: &arguments::Master) -> Result<Exit> {
    let name =
        arguments.job.as_deref().and_then(Path::file_stem).map_or("digits".into(), |name| name.to_string_lossy());
    let mut reporter = Reporter::new(arguments.events, &name);
    let result = lead(arguments, &mut reporter);
    reporter.conclude(result)
}

fn lead(arguments: &arguments::Master, reporter: &mut Reporter) -> Result<Exit> {
    let text = read_job(arguments)?;
    let output = arguments.output.clone().unwrap_or_else(|| Path::new("runs").join(&text.name));
    let tls = arguments.tls || !is_loopback(&arguments.listen)?;
    let token = arguments.token_file.as_deref().map(read_token).transpose()?;
    let silence_limit = seconds("--silence-limit", SHORTEST_SILENCE, arguments.silence_limit)?;
    let hours = arguments.certificate_hours;
    if !(0.001..=87_600.0).contains(&hours) {
        bail!(Misuse(format!("expected `--certificate-hours` from 0.001 to 87600, found {hours}")));
    }
    let options = LeadOptions {
        listen: arguments.listen.clone(),
        advertise: arguments.advertise.clone(),
        coordinator: arguments.coordinator.clone(),
        token,
        identity: arguments.identity.clone(),
        tls,
        certificate: Duration::from_secs_f64(hours * 3600.0),
        min_workers: arguments.min_workers as usize,
        expected_workers: arguments.expect_workers as usize,
        expected_within: seconds("--expect-within", 0.0, arguments.expect_within)?,
        mesh_limit: arguments.mesh_limit as usize,
        waiting_limit: Duration::from_secs(arguments.waiting_limit),
        silence_limit,
        straggler_limit: arguments.straggler_limit.as_deref().map(straggler_limit).transpose()?,
        status: (arguments.status != "none").then(|| arguments.status.clone()),
        status_token: arguments.status_token_file.as_deref().map(read_token).transpose()?,
        record: arguments.record.clone(),
        stops_on_poison: arguments.on_poison == OnPoison::Stop,
        restarts: arguments.restart,
        statistics: arguments.statistics,
        begin_with: match &arguments.from {
            Some(path) => Some((SavedModel::load(path)?.file, Take::Learned)),
            None => None,
        },
        open: open_options(&arguments.cache, arguments.events != Events::Auto),
        ..LeadOptions::new(output.clone())
    };
    let read: Vec<&Path> = arguments.job.iter().chain(&arguments.from).map(|path| path.as_path()).collect();
    let job = Job::from_text(&text.text, text.is_json, &text.name, &format!("`{}`", text.name), &text.settings)?;
    job.expect_inputs_safe(&output, &read, &options.open)?;
    if let Some(record) = &arguments.record {
        expect_own_file("--record", record, Kind::Record)?;
    }
    job.notes().iter().for_each(|note| reporter.tell(&Event::Note { message: note.clone() }));
    if arguments.restart {
        // Those of the run that is replaced.
        STATISTICS.iter().for_each(|name| drop(std::fs::remove_file(output.join(name))));
    }
    let stop = Stop::default();
    let interrupt = Interrupt::install();
    interrupt.stops(stop.clone());
    let outcome = run_master(text, &options, &stop, &mut |event| {
        if let Event::Statistics(statistics) = event {
            keep_statistics(statistics, &output);
        }
        reporter.tell(event);
    });
    reporter.resumable(!arguments.restart && paceline::train::has_checkpoint(&output));
    let outcome = outcome?;
    if let (Some(scores), Events::Auto, false) = (&outcome.scores, arguments.events, outcome.stopped) {
        let _ = writeln!(std::io::stdout(), "{scores}");
    }
    if outcome.stopped {
        let how = if arguments.restart { ", without `--restart`," } else { "" };
        emit!("stopped; the same command{how} goes on from the checkpoint");
        return Ok(INTERRUPTED);
    }
    Ok(DONE)
}

/// Files that tell where the time of workers went.
const STATISTICS: [&str; 2] = ["statistics.json", "statistics.html"];

/// Beside the model, for a browser and for other programs. What cannot be written does not stop the run.
fn keep_statistics(statistics: &TrainingStatistics, folder: &Path) {
    let title = format!("Where the time went: {}", folder.display());
    let text = serde_json::to_string(statistics).expect("names and numbers");
    for (name, text) in STATISTICS.into_iter().zip([text, statistics.page(&title)]) {
        let path = folder.join(name);
        match std::fs::write(&path, text) {
            Ok(()) => emit!("wrote `{}`", path.display()),
            Err(error) => emit!("warning: cannot write `{}`: {error}", path.display()),
        }
    }
}

fn read_job(arguments: &arguments::Master) -> Result<JobText> {
    let mut settings = arguments.settings.clone();
    if let Some(mode) = arguments.mode {
        if matches!(mode, arguments::Mode::Solo) {
            bail!(Misuse(
                "`--mode solo` is one process: use `paceline train`, or `sync`, `averaging` or `shared` here".into()
            ));
        }
        settings.push(format!("train.mode={}", mode.name()));
    }
    let file = match &arguments.job {
        Some(path) => JobFile::read(path)?,
        None => JobFile::digits(),
    };
    // What is wrong with a job is said here, as `train` says it, and not by those whom it is sent to.
    file.job(&settings)?;
    let JobFile { name, text, is_json, .. } = file;
    Ok(JobText { name, text, is_json, settings })
}

/// The token in a file, which should be readable by its owner alone.
pub(super) fn read_token(path: &Path) -> Result<Token> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read `{}`", path.display()))?;
    Token::parse(text.trim()).with_context(|| format!("`{}`", path.display()))
}

/// Whether only this machine can connect to an address.
pub(super) fn is_loopback(listen: &str) -> Result<bool> {
    let host = listen.rsplit_once(':').map_or(listen, |(host, _)| host).trim_matches(['[', ']']);
    let unknown = |error| Misuse(format!("`--listen {listen}` is no address of this machine: {error}"));
    let mut found = (host, 0).to_socket_addrs().map_err(unknown)?;
    Ok(found.all(|address| address.ip().is_loopback()))
}

fn seconds(name: &str, least: f64, limit: f64) -> Result<Duration> {
    // More than a day says that somebody meant milliseconds.
    if !(least..=86_400.0).contains(&limit) {
        bail!(Misuse(format!("expected `{name}` in seconds, from {least} to a day, found {limit}")));
    }
    Ok(Duration::from_secs_f64(limit))
}

fn straggler_limit(text: &str) -> Result<StragglerLimit> {
    if text == "auto" {
        return Ok(StragglerLimit::Auto);
    }
    let unread = |_| Misuse(format!("expected `--straggler-limit` in seconds or `auto`, found `{text}`"));
    let limit = text.parse().map_err(unread)?;
    Ok(StragglerLimit::After(seconds("--straggler-limit", SHORTEST_WAIT, limit)?.as_millis() as u64))
}
