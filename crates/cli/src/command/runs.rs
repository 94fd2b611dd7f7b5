mod page;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};
use paceline::nn::{ModelOnDisk, Registry};
use paceline::train::picture::curves;
use paceline::train::{End, KeptEpoch, Metric, Row, figure, panels, read_end, read_epochs};
use serde_json::{Value, json};

use super::say;
use crate::arguments;
use crate::failure::{DONE, Exit, Misuse};
use crate::outputs::{Kind, expect_free_file, write_beside};

const MODEL: &str = "model.safetensors";
const CHECKPOINT: &str = "checkpoint.safetensors";
const TRIALS: &str = "trials.jsonl";
const FOLDS: &str = "cross-validation.json";

/// What a folder holds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// A run that has come to its model.
    Ended,
    /// One that was stopped and can go on.
    Stopped,
    /// One that has failed.
    Failed,
    /// One that is under way, or was killed.
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
            State::Stopped => "stopped",
            State::Failed => "failed",
            State::Unfinished => "unfinished",
            State::Search => "search",
            State::Folds => "folds",
        }
    }
}

/// What is known of a run by its folder.
struct Run {
    name: String,
    folder: PathBuf,
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
    /// The epoch of its model, where early stopping has kept the best.
    kept: Option<u64>,
    /// Why it has failed.
    error: Option<String>,
}

pub(crate) fn run(arguments: &arguments::Runs) -> Result<Exit> {
    let arguments::Runs { folders, svg, html, sort, overwrite, json } = arguments;
    let mut runs = match &folders[..] {
        [folder] => match read(folder)? {
            Some(run) => vec![run],
            None => all_in(folder)?,
        },
        several => {
            several.iter().map(|folder| read(folder)?.with_context(no_run(folder))).collect::<Result<Vec<Run>>>()?
        }
    };
    if let Some(by) = sort {
        sort_by(&mut runs, by)?;
    }
    if svg.is_some() && svg == html {
        return Err(Misuse("`--svg` and `--html` name the same file: choose another for one of them".into()).into());
    }
    for (option, path, kind) in [("--svg", svg, Kind::Svg), ("--html", html, Kind::Html)] {
        let Some(path) = path else { continue };
        let own = [
            MODEL,
            CHECKPOINT,
            TRIALS,
            FOLDS,
            "epochs.csv",
            "log.jsonl",
            "curves.svg",
            "confusion.svg",
            "best.safetensors",
        ];
        let folder = path.parent().unwrap_or(Path::new("."));
        if path.exists() && own.iter().any(|name| path.ends_with(name)) && read(folder)?.is_some() {
            let message = format!("`{option} {}` is a file of a run: choose another name", path.display());
            return Err(Misuse(message).into());
        }
        expect_free_file(option, path, kind, *overwrite)?;
        let metrics: Vec<Vec<&str>> = runs.iter().map(|run| run.metrics.iter().map(String::as_str).collect()).collect();
        let drawn: Vec<(&str, &[&str], &[Row])> =
            runs.iter().zip(&metrics).map(|(run, metrics)| (run.name.as_str(), &metrics[..], &run.rows[..])).collect();
        let picture = curves(&panels(&drawn), "epoch");
        let text = if option == "--html" { page::page(&runs, &picture) } else { picture };
        write_beside(path, |out| Ok(out.write_all(text.as_bytes())?))?;
    }
    if *json {
        let told: Vec<Value> = runs.iter().map(Run::told).collect();
        say(&serde_json::to_string_pretty(&told)?)?;
        return Ok(DONE);
    }
    table(&runs)?;
    if folders.len() > 1 {
        compare(&runs)?;
    }
    Ok(DONE)
}

/// Sorts runs by a column or a figure, the best first; runs without it come last.
fn sort_by(runs: &mut [Run], by: &str) -> Result<()> {
    let wants_more = Metric::ALL.into_iter().find(|metric| metric.name() == by).is_some_and(Metric::wants_more);
    let known = runs.iter().any(|run| run.figures().contains_key(by));
    match by {
        "name" => runs.sort_by(|a, b| a.name.cmp(&b.name)),
        "changed" => runs.sort_by_key(|run| std::cmp::Reverse(run.changed)),
        "epochs" => runs.sort_by_key(|run| std::cmp::Reverse(run.epochs)),
        "seconds" => runs.sort_by(|a, b| a.seconds().total_cmp(&b.seconds())),
        _ if known => {
            let figure =
                |run: &Run| run.figures().get(by).copied().map(|value| if wants_more { -value } else { value });
            runs.sort_by(|a, b| figure(a).unwrap_or(f64::INFINITY).total_cmp(&figure(b).unwrap_or(f64::INFINITY)));
        }
        _ => {
            let figures: std::collections::BTreeSet<&str> =
                runs.iter().flat_map(|run| run.figures().into_keys()).collect();
            let figures = figures.into_iter().collect::<Vec<&str>>().join("`, `");
            let known = figures.split("`, `").chain(["name", "changed", "epochs", "seconds"]);
            let near = paceline::nn::config::nearest(by, known);
            let hint = near.map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
            let message = format!(
                "`--sort {by}`: expected `name`, `changed`, `epochs`, `seconds` or a figure of these runs: `{figures}`{hint}"
            );
            return Err(Misuse(message).into());
        }
    }
    Ok(())
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
    let has_folds = folder.join("fold-1").join("log.jsonl").is_file();
    let end = read_end(folder);
    if written.is_none() && journal.is_none() && means.is_none() && end.is_none() && !is_search && !has_folds {
        return Ok(None);
    }
    // The log says how the newest run ended; a model may be that of the run before it.
    let state = match &end {
        _ if is_search => State::Search,
        _ if means.is_some() => State::Folds,
        Some(End::Finished) => State::Ended,
        Some(End::Stopped) => State::Stopped,
        Some(End::Failed { .. }) => State::Failed,
        Some(End::None) => State::Unfinished,
        None if model.is_file() => State::Ended,
        None => State::Unfinished,
    };
    let (metrics, rows) = journal.unwrap_or_default();
    let last = rows.last().map_or(0, |row| row.epoch);
    let name =
        folder.file_name().map_or_else(|| folder.display().to_string(), |name| name.to_string_lossy().into_owned());
    let mut run = Run {
        name,
        folder: folder.to_owned(),
        state,
        epochs: last,
        steps: 0,
        changed: None,
        metrics,
        rows,
        means: means.unwrap_or_default(),
        network: BTreeMap::new(),
        kept: None,
        error: match end {
            Some(End::Failed { error }) => Some(error),
            _ => None,
        },
    };
    if written.is_none() {
        run.changed = folder.join(FOLDS).metadata().and_then(|found| found.modified()).ok();
    }
    if let Some(path) = written {
        run.changed = path.metadata().and_then(|found| found.modified()).ok();
        // Layers of another crate are not known here; the figures are told all the same.
        if let Ok(file) = ModelOnDisk::open(path, &Registry::default()) {
            (run.epochs, run.steps) = (file.progress.epoch.max(last), file.progress.iteration);
            // The figures of a model that early stopping has kept are those of its epoch.
            let kept = KeptEpoch::of(&file.extra).filter(|_| state == State::Ended && path == &model);
            run.kept = kept.map(|kept| kept.epoch).filter(|epoch| *epoch < last);
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
    if !folder.exists() {
        return Err(Misuse(format!("there are no runs yet: the folder `{}` does not exist", folder.display())).into());
    }
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
        let rows = || self.rows.iter().rev().filter(|row| self.kept.is_none_or(|kept| row.epoch <= kept));
        let judged = rows().find(|row| row.figures.iter().any(Option::is_some));
        let told = judged.into_iter().flat_map(|row| self.metrics.iter().map(String::as_str).zip(&row.figures));
        let mut figures: BTreeMap<&str, f64> = told.filter_map(|(name, value)| Some((name, (*value)?))).collect();
        // A master may not hear of the loss of a short epoch.
        figures.extend(rows().find(|row| row.loss.is_finite()).map(|row| ("loss", row.loss)));
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
            "changed": changed, "figures": self.figures(), "kept_epoch": self.kept, "error": self.error,
        })
    }
}

/// Figures that are shown where some run has them.
const SHOWN: [&str; 5] = ["loss", "score", "accuracy", "r2", "mae"];

/// The names of the figures that are shown, and the figures of each run.
fn shown_figures(runs: &[Run]) -> (Vec<&'static str>, Vec<BTreeMap<&str, f64>>) {
    let figures: Vec<BTreeMap<&str, f64>> = runs.iter().map(Run::figures).collect();
    let shown = SHOWN.into_iter().filter(|name| figures.iter().any(|of| of.contains_key(name))).collect();
    (shown, figures)
}

fn table(runs: &[Run]) -> Result<()> {
    let (shown, figures) = shown_figures(runs);
    let widest = runs.iter().map(|run| run.name.chars().count()).max().unwrap_or(0).max(4);
    let header: String =
        shown.iter().map(|name| format!(" {:>11}", if *name == "score" { "test loss" } else { name })).collect();
    say(&format_args!(
        "{:<widest$}  {:<11}{:>9}{:>9}{:>10}{header}  changed",
        "run", "state", "epochs", "steps", "seconds"
    ))?;
    for (run, figures) in runs.iter().zip(&figures) {
        let cell = |name: &&str| {
            figures.get(name).map_or_else(|| format!(" {:>11}", ""), |value| format!(" {:>11}", figure(*value)))
        };
        let cells: String = shown.iter().map(cell).collect();
        let state = run.state.name();
        let changed = run.changed.and_then(|at| at.elapsed().ok()).map(ago).unwrap_or_default();
        let name = &run.name;
        let (epochs, steps, seconds) = match run.state {
            // The folder of each fold has its own.
            State::Folds => Default::default(),
            _ => {
                let epochs =
                    run.kept.map_or_else(|| run.epochs.to_string(), |kept| format!("{kept} of {}", run.epochs));
                (epochs, run.steps.to_string(), format!("{:.1}", run.seconds()))
            }
        };
        say(&format_args!("{name:<widest$}  {state:<11}{epochs:>9}{steps:>9}{seconds:>10}{cells}  {changed}"))?;
    }
    for (name, error) in runs.iter().filter_map(|run| Some((&run.name, run.error.as_ref()?))) {
        say(&format_args!("\n{name} failed: {error}"))?;
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

/// The settings in which runs differ.
fn compare(runs: &[Run]) -> Result<()> {
    let keys: std::collections::BTreeSet<&String> = runs.iter().flat_map(|run| run.network.keys()).collect();
    let is_same = |key: &&String| runs.iter().all(|run| run.network.get(*key) == runs[0].network.get(*key));
    let differing: Vec<&String> = keys.into_iter().filter(|key| !is_same(key)).collect();
    if differing.is_empty() {
        return say(&"\nall have the same network and the same data");
    }
    let row = |cells: Vec<String>| cells.iter().map(|cell| format!("{cell:>24}")).collect::<String>();
    say(&format_args!("\n{:<44}{}", "differing setting", row(runs.iter().map(|run| run.name.clone()).collect())))?;
    for key in differing {
        let cell = |run: &Run| run.network.get(key).map_or("not set".to_owned(), ToString::to_string);
        say(&format_args!("{key:<44}{}", row(runs.iter().map(cell).collect())))?;
    }
    Ok(())
}
