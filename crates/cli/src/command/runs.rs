use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};
use paceline::nn::{ModelOnDisk, Registry};
use paceline::train::picture::curves;
use paceline::train::{Row, figure, panels, read_epochs};
use serde_json::{Value, json};

use super::predict::write_beside;
use super::say;
use crate::arguments;
use crate::failure::{DONE, Exit, Misuse};

const MODEL: &str = "model.safetensors";
const CHECKPOINT: &str = "checkpoint.safetensors";
const TRIALS: &str = "trials.jsonl";
const FOLDS: &str = "cross-validation.json";

/// What a folder holds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// A run that has come to its model.
    Ended,
    /// One that has not.
    Unfinished,
    /// The trials of a search, and the model of the best.
    Search,
    /// A cross-validation.
    Folds,
}

impl State {
    fn name(self) -> &'static str {
        match self {
            State::Ended => "ended",
            State::Unfinished => "unfinished",
            State::Search => "search",
            State::Folds => "folds",
        }
    }
}

/// What is known of a run by its folder.
struct Run {
    name: String,
    state: State,
    epochs: u64,
    steps: u64,
    changed: Option<SystemTime>,
    metrics: Vec<String>,
    rows: Vec<Row>,
    /// The means of folds.
    means: BTreeMap<String, f64>,
    /// Its network, as keys and values.
    network: BTreeMap<String, Value>,
}

pub(crate) fn run(arguments: &arguments::Runs) -> Result<Exit> {
    let arguments::Runs { folders, svg, json } = arguments;
    let runs = match &folders[..] {
        [one, other] => vec![read(one)?.with_context(no_run(one))?, read(other)?.with_context(no_run(other))?],
        [folder] => match read(folder)? {
            Some(run) => vec![run],
            None => all_in(folder)?,
        },
        _ => Vec::new(),
    };
    if let Some(path) = svg {
        let metrics: Vec<Vec<&str>> = runs.iter().map(|run| run.metrics.iter().map(String::as_str).collect()).collect();
        let drawn: Vec<(&str, &[&str], &[Row])> =
            runs.iter().zip(&metrics).map(|(run, metrics)| (run.name.as_str(), &metrics[..], &run.rows[..])).collect();
        let picture = curves(&panels(&drawn), "epoch");
        write_beside(path, |out| Ok(out.write_all(picture.as_bytes())?))?;
    }
    if *json {
        let told: Vec<Value> = runs.iter().map(Run::told).collect();
        say(&serde_json::to_string_pretty(&told)?)?;
        return Ok(DONE);
    }
    table(&runs)?;
    if let ([one, other], 2) = (&runs[..], folders.len()) {
        compare(one, other)?;
    }
    Ok(DONE)
}

fn no_run(folder: &Path) -> impl Fn() -> Misuse + '_ {
    move || {
        Misuse(format!("`{}` has no run: expected `{MODEL}`, `{CHECKPOINT}` or `epochs.csv` in it", folder.display()))
    }
}

/// The run in a folder; none if there is nothing of a run in it.
fn read(folder: &Path) -> Result<Option<Run>> {
    let (model, checkpoint) = (folder.join(MODEL), folder.join(CHECKPOINT));
    let written = [&model, &checkpoint].into_iter().find(|path| path.is_file());
    let journal = read_epochs(folder);
    let means = means_of(&folder.join(FOLDS));
    let is_search = folder.join(TRIALS).is_file();
    if written.is_none() && journal.is_none() && means.is_none() && !is_search {
        return Ok(None);
    }
    let state = match () {
        () if is_search => State::Search,
        () if means.is_some() => State::Folds,
        () if model.is_file() => State::Ended,
        () => State::Unfinished,
    };
    let (metrics, rows) = journal.unwrap_or_default();
    let last = rows.last().map_or(0, |row| row.epoch);
    let name =
        folder.file_name().map_or_else(|| folder.display().to_string(), |name| name.to_string_lossy().into_owned());
    let mut run = Run {
        name,
        state,
        epochs: last,
        steps: 0,
        changed: None,
        metrics,
        rows,
        means: means.unwrap_or_default(),
        network: BTreeMap::new(),
    };
    if let Some(path) = written {
        run.changed = path.metadata().and_then(|found| found.modified()).ok();
        // Layers of another crate are not known here; the figures are told all the same.
        if let Ok(file) = ModelOnDisk::open(path, &Registry::default()) {
            (run.epochs, run.steps) = (file.progress.epoch.max(last), file.progress.iteration);
            flatten("network", &serde_json::to_value(file.network.config())?, &mut run.network);
            if let Some(data) = file.extra.get("data").and_then(|data| serde_json::from_str::<Value>(data).ok()) {
                flatten("data", &data, &mut run.network);
            }
        }
    }
    Ok(Some(run))
}

/// The mean of every figure of a cross-validation.
fn means_of(path: &Path) -> Option<BTreeMap<String, f64>> {
    let told: Value = serde_json::from_str(&std::fs::read_to_string(path).ok()?).ok()?;
    let mean = |summary: &Value| Some((summary["metric"].as_str()?.to_owned(), summary["mean"].as_f64()?));
    Some(told["summary"].as_array()?.iter().filter_map(mean).collect())
}

fn all_in(folder: &Path) -> Result<Vec<Run>> {
    let cannot = || format!("cannot read `{}`", folder.display());
    let mut folders: Vec<PathBuf> = Vec::new();
    for entry in std::fs::read_dir(folder).with_context(cannot)? {
        folders.push(entry.with_context(cannot)?.path());
    }
    folders.sort();
    let mut runs = Vec::new();
    for folder in folders.iter().filter(|path| path.is_dir()) {
        runs.extend(read(folder)?);
    }
    match runs.is_empty() {
        true => Err(Misuse(format!("there are no runs in `{}`", folder.display())).into()),
        false => Ok(runs),
    }
}

fn flatten(path: &str, value: &Value, into: &mut BTreeMap<String, Value>) {
    let mut entries: Vec<(String, &Value)> = Vec::new();
    match value {
        Value::Object(table) => entries.extend(table.iter().map(|(key, value)| (key.clone(), value))),
        Value::Array(list) => entries.extend(list.iter().enumerate().map(|(at, value)| (at.to_string(), value))),
        other => {
            into.insert(path.to_owned(), other.clone());
        }
    }
    entries.into_iter().for_each(|(key, value)| flatten(&format!("{path}.{key}"), value, into));
}

impl Run {
    /// The last figures that are known.
    fn figures(&self) -> BTreeMap<&str, f64> {
        let judged = self.rows.iter().rev().find(|row| row.figures.iter().any(Option::is_some));
        let told = judged.into_iter().flat_map(|row| self.metrics.iter().map(String::as_str).zip(&row.figures));
        let mut figures: BTreeMap<&str, f64> = told.filter_map(|(name, value)| Some((name, (*value)?))).collect();
        figures.extend(self.rows.last().map(|row| ("loss", row.loss)));
        figures.extend(self.means.iter().map(|(name, mean)| (name.as_str(), *mean)));
        figures
    }

    fn seconds(&self) -> f64 {
        self.rows.iter().map(|row| row.seconds).fold(0.0, |sum, seconds| sum + seconds)
    }

    fn told(&self) -> Value {
        let changed = self.changed.and_then(|at| at.duration_since(SystemTime::UNIX_EPOCH).ok()).map(|at| at.as_secs());
        json!({
            "name": self.name, "ended": self.state == State::Ended, "state": self.state.name(), "epochs": self.epochs, "steps": self.steps, "seconds": self.seconds(),
            "changed": changed, "figures": self.figures(),
        })
    }
}

/// Figures that are shown where some run has them.
const SHOWN: [&str; 5] = ["loss", "score", "accuracy", "r2", "mae"];

fn table(runs: &[Run]) -> Result<()> {
    let figures: Vec<BTreeMap<&str, f64>> = runs.iter().map(Run::figures).collect();
    let shown: Vec<&str> = SHOWN.into_iter().filter(|name| figures.iter().any(|of| of.contains_key(name))).collect();
    let widest = runs.iter().map(|run| run.name.chars().count()).max().unwrap_or(0).max(4);
    let header: String =
        shown.iter().map(|name| format!(" {:>11}", if *name == "score" { "test loss" } else { name })).collect();
    say(&format_args!(
        "{:<widest$}  {:<11}{:>7}{:>9}{:>10}{header}  changed",
        "run", "state", "epochs", "steps", "seconds"
    ))?;
    for (run, figures) in runs.iter().zip(&figures) {
        let cell = |name: &&str| {
            figures.get(name).map_or_else(|| format!(" {:>11}", ""), |value| format!(" {:>11}", figure(*value)))
        };
        let cells: String = shown.iter().map(cell).collect();
        let state = run.state.name();
        let changed = run.changed.and_then(|at| at.elapsed().ok()).map(ago).unwrap_or_default();
        let (name, epochs, steps, seconds) = (&run.name, run.epochs, run.steps, run.seconds());
        say(&format_args!("{name:<widest$}  {state:<11}{epochs:>7}{steps:>9}{seconds:>10.1}{cells}  {changed}"))?;
    }
    Ok(())
}

fn ago(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..60 => format!("{seconds} s ago"),
        60..3600 => format!("{} min ago", seconds / 60),
        3600..86_400 => format!("{} h ago", seconds / 3600),
        _ => format!("{} days ago", seconds / 86_400),
    }
}

/// What differs between two runs, but for what they came to.
fn compare(one: &Run, other: &Run) -> Result<()> {
    let keys: std::collections::BTreeSet<&String> = one.network.keys().chain(other.network.keys()).collect();
    let differing: Vec<&String> =
        keys.into_iter().filter(|key| one.network.get(*key) != other.network.get(*key)).collect();
    if differing.is_empty() {
        return say(&"\nboth have the same network and the same data");
    }
    say(&format_args!("\n{:<44}{:>24}{:>24}", "what differs", one.name, other.name))?;
    for key in differing {
        let cell = |run: &Run| run.network.get(key).map_or("not set".to_owned(), ToString::to_string);
        say(&format_args!("{key:<44}{:>24}{:>24}", cell(one), cell(other)))?;
    }
    Ok(())
}
