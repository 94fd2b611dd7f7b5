use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Result, bail};
use paceline::data::PartitionSource;
use paceline::train::Stop;
use paceline_cluster::trust::JoinString;
use paceline_cluster::{MOST_SLOTS, Slots, Target, WorkerEvent, WorkerOptions, run_worker};

use super::master::read_token;
use super::open_options;
use crate::arguments::{self, Events};
use crate::failure::{DONE, Exit, Misuse};
use crate::interrupt::Interrupt;
use crate::json_lines::JsonLines;
use crate::outputs::{Kind, expect_own_file};
use crate::report::stood_still;

pub(crate) fn run(arguments: &arguments::Worker) -> Result<Exit> {
    let target = match (&arguments.join, &arguments.coordinator) {
        (Some(join), _) => target(join)?,
        (None, Some(coordinator)) => Target::Coordinator(coordinator.clone()),
        (None, None) => bail!("expected `--join` or `--coordinator`"),
    };
    let listen = match &arguments.listen {
        Some(listen) => listen.clone(),
        None => target.listens_by_default(),
    };
    if let Some(record) = &arguments.record {
        expect_own_file("--record", record, Kind::Record)?;
    }
    let mut sources = open_options(&arguments.cache, arguments.events != Events::Auto);
    sources.root.clone_from(&arguments.data_root);
    sources.held = held(&arguments.partitions)?;
    let options = WorkerOptions {
        token: arguments.token_file.as_deref().map(read_token).transpose()?,
        slots: arguments.slots.unwrap_or_else(cores),
        listen,
        advertise: arguments.advertise.clone(),
        open: sources,
        record: arguments.record.clone(),
        keep_state: arguments.keep_state.clone(),
        patience: Duration::from_secs(arguments.patience),
        ..WorkerOptions::new(target)
    };
    let stop = Stop::default();
    let interrupt = Interrupt::install();
    interrupt.stops(stop.clone());
    let mut lines = (arguments.events == Events::Json).then(JsonLines::new);
    let result = run_worker(&options, &stop, &mut |event| tell(arguments.events, event, lines.as_mut()));
    let written = lines.map_or(Ok(()), JsonLines::finish);
    result?;
    written?;
    Ok(DONE)
}

/// The partitions that this worker brings, of files of its own.
fn held(partitions: &[String]) -> Result<BTreeMap<u32, (PartitionSource, Option<u64>)>> {
    let mut held = BTreeMap::new();
    for partition in partitions {
        let parts = partition.split_once('=').and_then(|(number, spec)| Some((number.parse::<u32>().ok()?, spec)));
        let Some((number, spec)) = parts else {
            bail!(Misuse(format!(
                "`--partition {partition}`: expected `NUMBER=SOURCE`, as in `0=csv:mine.csv?label=kind`"
            )));
        };
        if held.insert(number, (PartitionSource::Named(spec.to_owned()), None)).is_some() {
            bail!(Misuse(format!("partition {number} is given twice: expected each once")));
        }
    }
    Ok(held)
}

/// Whom `--join` names.
pub(super) fn target(join: &str) -> Result<Target> {
    Ok(match join.starts_with("paceline://") {
        true => Target::Join(JoinString::parse(join).map_err(|error| Misuse(error.to_string()))?),
        false => Target::Address(expect_port(join)?.to_owned()),
    })
}

/// An address without a port is none, however long it is looked for.
fn expect_port(address: &str) -> Result<&str> {
    let port = address.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse::<u16>().ok()?)));
    match port {
        Some((host, 1..)) if !host.is_empty() => Ok(address),
        _ => bail!(Misuse(format!(
            "`--join {address}` is no address of a master: expected `HOST:PORT` or a join string"
        ))),
    }
}

/// As many as this process may use.
fn cores() -> Slots {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    Slots::try_from(cores).unwrap_or(MOST_SLOTS).min(MOST_SLOTS)
}

fn tell(events: Events, event: &WorkerEvent, lines: Option<&mut JsonLines>) {
    if let Some(lines) = lines {
        return lines.say(serde_json::to_string(event).expect("events are names and numbers"));
    }
    match events {
        Events::None | Events::Json => {}
        Events::Auto => match event {
            WorkerEvent::Joined { master, worker, job } => {
                emit!("joined `{job}` at {master} as worker {worker}");
            }
            WorkerEvent::View { members, round, .. } => emit!("from round {round} on: {} workers", members.len()),
            WorkerEvent::Waiting { place, reason, seconds_left } => {
                emit!("waiting for a master at {place} for another {seconds_left} s: {reason}");
            }
            WorkerEvent::OtherRun { master } => {
                emit!("the master at {master} leads another run than this worker was a member of: it joins that one");
            }
            WorkerEvent::StoodStill { seconds } => emit!("this worker {}", stood_still(*seconds)),
            WorkerEvent::Left { reason } => emit!("not a member any more: {reason}; joining again"),
            WorkerEvent::Finished { reason } => emit!("finished: {reason}"),
        },
    }
}
