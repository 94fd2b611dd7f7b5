//! What a run leaves beside its model for people to look at: `epochs.csv`, `log.jsonl`, and pictures of both.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::picture::{Panel, Series, confusion, curves};
use crate::{Event, Measures, Metric, Scores};

/// Every epoch, with what the model was judged to be at its end.
const EPOCHS: &str = "epochs.csv";
/// Everything that was told, but for single steps.
pub(crate) const LOG: &str = "log.jsonl";
/// The curves over the epochs.
const CURVES: &str = "curves.svg";
/// Which classes were taken for which.
const CONFUSION: &str = "confusion.svg";
/// All of these.
pub(crate) const FILES: [&str; 4] = [EPOCHS, LOG, CURVES, CONFUSION];

/// Writes down what a run tells. What cannot be written is told once and left: it is no reason to end a run.
pub struct Journal {
    folder: PathBuf,
    metrics: Vec<Metric>,
    rows: Vec<Row>,
    log: Option<File>,
    scores: Option<Scores>,
    has_failed: bool,
    /// True if the last write failed, so that a line may be cut short.
    is_torn: bool,
}

/// One epoch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    /// From 1.
    pub epoch: u64,
    /// Of the training data; not a number where nothing was heard of it.
    pub loss: f64,
    /// What it took.
    pub seconds: f64,
    /// While it was trained.
    pub examples_per_second: f64,
    /// On the test data, in the order of the file's columns; none where it was not judged.
    pub figures: Vec<Option<f64>>,
}

/// The columns before those of the test data.
const COLUMNS: [&str; 4] = ["epoch", "loss", "seconds", "examples_per_second"];

impl Journal {
    /// The journal of a run in this folder that goes on behind so many epochs. `metrics` are what its test data is judged by.
    pub fn begin(folder: &Path, metrics: Vec<Metric>, epochs_done: u64) -> Self {
        let mut rows = Vec::new();
        if epochs_done > 0
            && let Some((names, kept)) = read_epochs(folder)
            && names.iter().eq(metrics.iter().map(|metric| metric.name()))
        {
            rows = kept;
        }
        if epochs_done > 0 {
            // A run that was killed behind its checkpoint has told of more epochs than it has written there.
            let known: Vec<u64> = rows.iter().map(|row| row.epoch).collect();
            rows.extend(read_log(folder, &metrics).into_iter().filter(|row| !known.contains(&row.epoch)));
            rows.retain(|row| row.epoch <= epochs_done);
            rows.sort_by_key(|row| row.epoch);
        }
        let log = match epochs_done {
            0 => File::create(folder.join(LOG)),
            _ => File::options().append(true).create(true).open(folder.join(LOG)).and_then(|mut log| {
                end_torn_line(&folder.join(LOG), &mut log)?;
                Ok(log)
            }),
        };
        if epochs_done == 0 {
            // What a run before has left would be taken for this one's.
            for old in [EPOCHS, CURVES, CONFUSION] {
                let _ = std::fs::remove_file(folder.join(old));
            }
        }
        Self {
            folder: folder.to_owned(),
            metrics,
            rows,
            log: log.ok(),
            scores: None,
            has_failed: false,
            is_torn: false,
        }
    }

    /// Takes an event. Says what could not be written, the first time.
    pub fn tell(&mut self, event: &Event) -> Option<String> {
        let mut written = self.log(event);
        match event {
            Event::Epoch { epoch, loss, seconds, examples_per_second } => {
                let [epoch, loss, seconds, examples_per_second] =
                    [*epoch as f64, *loss, *seconds, *examples_per_second];
                let figures = vec![None; self.metrics.len()];
                // An epoch may come again, where a run goes back to its checkpoint.
                self.rows.retain(|row| (row.epoch as f64) < epoch);
                self.rows.push(Row { epoch: epoch as u64, loss, seconds, examples_per_second, figures });
            }
            Event::Evaluation { epoch, scores } => {
                if let Some(row) = self.rows.iter_mut().rfind(|row| row.epoch == *epoch) {
                    row.figures = self.metrics.iter().map(|metric| metric.of(scores)).collect();
                }
                self.scores = Some(scores.clone());
            }
            Event::Checkpoint { .. } => written = written.and_then(|()| self.write_epochs()),
            Event::Paused { .. } | Event::Finished { .. } | Event::Failed { .. } => {
                written = written.and_then(|()| self.write_epochs()).and_then(|()| self.draw());
            }
            _ => {}
        }
        let error = written.err().filter(|_| !self.has_failed)?;
        self.has_failed = true;
        Some(format!("the journal of the run cannot be written to `{}`: {error}", self.folder.display()))
    }

    /// Draws the confusion matrix of the model that the run has kept, which may be that of an earlier epoch than the last.
    pub fn conclude(&mut self, scores: &Scores) {
        self.scores = Some(scores.clone());
        // A folder that cannot be written to was told of when the run ended.
        let _ = self.draw();
    }

    fn log(&mut self, event: &Event) -> io::Result<()> {
        let Some(log) = self.log.as_mut().filter(|_| !matches!(event, Event::Step { .. } | Event::Threshold { .. }))
        else {
            return Ok(());
        };
        let time = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64());
        let mut line = json!({ "time": (time * 1000.0).round() / 1000.0 });
        let event = serde_json::to_value(event).expect("events are names and numbers");
        if let (Value::Object(line), Value::Object(event)) = (&mut line, event) {
            line.extend(event);
        }
        // A full disk may have cut the line before short.
        let begin = if std::mem::take(&mut self.is_torn) { "\n" } else { "" };
        let written = log.write_all(format!("{begin}{line}\n").as_bytes());
        self.is_torn = written.is_err();
        written
    }

    fn write_epochs(&self) -> io::Result<()> {
        if self.rows.is_empty() {
            return Ok(());
        }
        let names = COLUMNS.into_iter().chain(self.metrics.iter().map(|metric| metric.name()));
        let mut text = names.collect::<Vec<&str>>().join(",") + "\n";
        for Row { epoch, loss, seconds, examples_per_second, figures } in &self.rows {
            // A master may not hear of any step of a short epoch.
            let numbers = [*loss, *seconds, *examples_per_second].map(|number| Some(number).filter(|n| !n.is_nan()));
            let cells = numbers.into_iter().chain(figures.iter().copied());
            let cells = cells.map(|number| number.map_or(String::new(), |number| number.to_string()));
            text += &[vec![epoch.to_string()], cells.collect()].concat().join(",");
            text.push('\n');
        }
        write_beside(&self.folder.join(EPOCHS), &text)
    }

    fn draw(&self) -> io::Result<()> {
        if !self.rows.is_empty() {
            let names: Vec<&str> = self.metrics.iter().map(|metric| metric.name()).collect();
            let panels = panels(&[("", &names, &self.rows)]);
            write_beside(&self.folder.join(CURVES), &curves(&panels, "epoch"))?;
        }
        match self.scores.as_ref().map(|scores| &scores.measures) {
            Some(Measures::Classes(classes)) => match confusion(classes) {
                Some(picture) => write_beside(&self.folder.join(CONFUSION), &picture),
                None => Ok(()),
            },
            _ => Ok(()),
        }
    }
}

/// The curves of runs: of each its name, the names of its figures, and its epochs.
pub fn panels(runs: &[(&str, &[&str], &[Row])]) -> Vec<Panel> {
    let is_one = runs.len() == 1;
    let named = |run: &str, what: &str| if run.is_empty() { what.to_owned() } else { format!("{run}: {what}") };
    let mut loss = Panel { title: "Loss".into(), series: Vec::new() };
    let mut others: Vec<Panel> = Vec::new();
    for (number, (name, metrics, rows)) in runs.iter().enumerate() {
        let curve = |of: &dyn Fn(&Row) -> Option<f64>| -> Vec<(f64, f64)> {
            rows.iter().filter_map(|row| of(row).map(|value| (row.epoch as f64, value))).collect()
        };
        // Of one run each curve has its colour; of several each run, and what is of the training data is broken.
        let (training, test) = if is_one { (0, 1) } else { (number, number) };
        let points = curve(&|row| Some(row.loss));
        loss.series.push(Series { name: named(name, "training"), colour: training, is_dashed: !is_one, points });
        for (at, metric) in metrics.iter().enumerate() {
            let points = curve(&|row| row.figures.get(at).copied().flatten());
            let of_test = |name| Series { name, colour: test, is_dashed: false, points: points.clone() };
            if *metric == Metric::Score.name() {
                loss.series.push(of_test(named(name, "test")));
            } else if let Some(title) = SHOWN.iter().find(|(shown, _)| shown == metric).map(|(_, title)| *title) {
                let series = of_test(if name.is_empty() { "test".into() } else { (*name).to_owned() });
                match others.iter_mut().find(|panel| panel.title == title) {
                    Some(panel) => panel.series.push(series),
                    None => others.push(Panel { title: title.into(), series: vec![series] }),
                }
            }
        }
    }
    std::iter::once(loss).chain(others).collect()
}

/// What besides the loss is worth a picture of its own.
const SHOWN: [(&str, &str); 2] = [("accuracy", "Accuracy on the test data"), ("r2", "R² on the test data")];

/// The epochs of the run in a folder, and the names of the figures of each; none where nothing of that kind can be read.
pub fn read_epochs(folder: &Path) -> Option<(Vec<String>, Vec<Row>)> {
    let text = std::fs::read_to_string(folder.join(EPOCHS)).ok()?;
    let mut lines = text.lines();
    let header: Vec<&str> = lines.next()?.split(',').collect();
    if header.get(..COLUMNS.len())? != COLUMNS {
        return None;
    }
    let row = |line: &str| -> Option<Row> {
        let cells: Vec<&str> = line.split(',').collect();
        let number = |at: usize| cells.get(at)?.parse::<f64>().ok();
        let figures = (COLUMNS.len()..header.len()).map(number).collect();
        Some(Row {
            epoch: cells.first()?.parse().ok()?,
            loss: number(1).unwrap_or(f64::NAN),
            seconds: number(2)?,
            examples_per_second: number(3)?,
            figures,
        })
    };
    let rows = lines.map(row).collect::<Option<Vec<Row>>>()?;
    Some((header[COLUMNS.len()..].iter().map(|name| (*name).to_owned()).collect(), rows))
}

/// How the newest run of a folder ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// It did what was asked.
    Finished,
    /// It was asked to stop, and can go on.
    Stopped,
    /// It failed.
    Failed {
        /// Why.
        error: String,
    },
    /// It is under way, or was killed.
    None,
}

/// How the newest run of a folder ended, by its log; none without a log.
pub fn read_end(folder: &Path) -> Option<End> {
    let text = std::fs::read_to_string(folder.join(LOG)).ok()?;
    let mut end = End::None;
    for event in text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
        end = match event["event"].as_str() {
            Some("finished") => End::Finished,
            Some("paused") => End::Stopped,
            // A run that stops as it was asked to is paused first.
            Some("failed") if end != End::Stopped => {
                End::Failed { error: event["error"].as_str().unwrap_or_default().to_owned() }
            }
            Some("started") => End::None,
            _ => end,
        };
    }
    Some(end)
}

/// The epochs that the log tells of.
fn read_log(folder: &Path, metrics: &[Metric]) -> Vec<Row> {
    let text = std::fs::read_to_string(folder.join(LOG)).unwrap_or_default();
    let mut rows: BTreeMap<u64, Row> = BTreeMap::new();
    // The last line may have been cut short.
    for event in text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
        let number = |key: &str| event[key].as_f64();
        let Some(epoch) = event["epoch"].as_u64() else { continue };
        match event["event"].as_str() {
            Some("epoch") => {
                let [loss, seconds, examples_per_second] =
                    ["loss", "seconds", "examples_per_second"].map(|key| number(key).unwrap_or(f64::NAN));
                let figures = vec![None; metrics.len()];
                rows.insert(epoch, Row { epoch, loss, seconds, examples_per_second, figures });
            }
            Some("evaluation") => {
                if let Some(row) = rows.get_mut(&epoch) {
                    row.figures = metrics.iter().map(|metric| number(metric.name())).collect();
                }
            }
            _ => {}
        }
    }
    rows.into_values().collect()
}

/// A full disk may have left the begin of a line: what comes next is a line of its own.
fn end_torn_line(path: &Path, log: &mut File) -> io::Result<()> {
    let mut last = [b'\n'];
    let mut read = File::open(path)?;
    if read.metadata()?.len() > 0 {
        read.seek(SeekFrom::End(-1))?;
        read.read_exact(&mut last)?;
    }
    if last == *b"\n" { Ok(()) } else { log.write_all(b"\n") }
}

pub(crate) fn write_beside(path: &Path, text: &str) -> io::Result<()> {
    let beside = path.with_extension("part");
    let written = std::fs::write(&beside, text).and_then(|()| std::fs::rename(&beside, path));
    if written.is_err() {
        let _ = std::fs::remove_file(&beside);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::{Journal, read_epochs};
    use crate::{Event, Metric};

    #[test]
    fn an_epoch_that_was_told_and_not_yet_written_is_found_in_the_log() {
        let folder = tempfile::tempdir().expect("a folder");
        let epoch =
            |epoch: u64| Event::Epoch { epoch, loss: 1.0 / epoch as f64, seconds: 0.5, examples_per_second: 8.0 };
        let saved = |iteration| Event::Checkpoint { iteration, path: "checkpoint".into() };
        let begin = |epochs_done| Journal::begin(folder.path(), vec![Metric::Score], epochs_done);
        let mut journal = begin(0);
        for event in [epoch(1), saved(5), epoch(2), saved(10), epoch(3)] {
            assert_eq!(journal.tell(&event), None);
        }
        // As a kill behind the third checkpoint, and before anything more was written, leaves it.
        drop(journal);
        let epochs = || {
            read_epochs(folder.path()).expect("epochs").1.iter().map(|row| (row.epoch, row.loss)).collect::<Vec<_>>()
        };
        assert_eq!(epochs(), [(1, 1.0), (2, 0.5)]);
        let mut journal = begin(3);
        journal.tell(&epoch(4));
        journal.tell(&saved(20));
        assert_eq!(epochs(), [(1, 1.0), (2, 0.5), (3, 1.0 / 3.0), (4, 0.25)]);
        // A line that a full disk has cut short does not spoil the next one.
        let mut log = std::fs::File::options().append(true).open(folder.path().join(super::LOG)).expect("a log");
        std::io::Write::write_all(&mut log, b"{\"event\":\"ep").expect("written");
        // What comes again stands there once.
        let mut journal = begin(2);
        journal.tell(&epoch(3));
        journal.tell(&saved(15));
        assert_eq!(epochs().len(), 3);
    }
}
