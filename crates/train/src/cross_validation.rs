//! A job trained again and again, each time judged on another part of its data.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use paceline_data::{OpenOptions, Source, TargetShape, open};
use paceline_model::{Batch, Targets};
use serde::Serialize;

use crate::job::DataConfig;
use crate::run::checkpoint::Checkpoints;
use crate::run::event::Once;
use crate::run::folder::{FOLDS, begun_anew, clear, expect_free, expect_own};
use crate::run::journal::write_beside;
use crate::{Error, Event, Holds, IfFound, Job, Metric, SavedModel, Scores, Stop, figure};

/// What a cross-validation came to.
#[derive(Clone, Debug, Serialize)]
pub struct CrossValidation {
    /// How good the model of each fold is on the examples that it has not seen.
    pub folds: Vec<Scores>,
    /// Every figure over the folds.
    pub summary: Vec<Summary>,
    #[serde(skip)]
    told: Told,
}

/// One figure over all folds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// Which.
    pub metric: Metric,
    /// Its mean.
    pub mean: f64,
    /// Its standard deviation, of these folds and not of a sample.
    pub deviation: f64,
}

/// What was told of every example by the model that has not seen it.
#[derive(Clone, Debug, Default)]
struct Told {
    /// The names of outputs, by fold: a fold may lack a class.
    names: Vec<Vec<String>>,
    is_of_classes: bool,
    /// By the number that an example has in its source, which may be a part of another one: the fold from 1, and the outputs.
    rows: BTreeMap<u64, (usize, Vec<f64>)>,
}

/// What is known of a fold while it is trained: its number from 1, and an event.
pub type FoldListener<'a> = dyn FnMut(usize, &Event) + 'a;

impl Job {
    /// Trains it once for each of so many folds of its training data, which fall as the job's seed, classes or groups say, and judges each
    /// model on its fold. Each fold is a run in a folder of its own, `fold-1` and so on. None if it was stopped.
    pub fn cross_validate(
        &self,
        folds: usize,
        (output, found): (Option<&Path>, IfFound),
        options: &OpenOptions,
        stop: &Stop,
        listener: &mut FoldListener<'_>,
    ) -> Result<Option<CrossValidation>, Error> {
        let source = open(&self.data.train, options)?;
        if folds < 2 || folds > source.examples() {
            return Err(Error::Folds { folds, examples: source.examples() });
        }
        let division = self.division(source)?;
        let parts = division.folds(folds)?;
        let folder = |number: usize| output.map(|output| output.join(format!("fold-{number}")));
        if let Some(output) = output {
            match found {
                IfFound::Refuse => expect_free(output)?,
                IfFound::Overwrite => clear(output)?,
                IfFound::Resume => expect_own(output, Holds::Folds)?,
            }
        }
        let (mut scores, mut told, mut once) = (Vec::with_capacity(folds), Told::default(), Once::default());
        for (number, parts) in (1..).zip(parts) {
            let (learned, judged) = parts?;
            let mut options = options.clone();
            options.given.insert("learned".into(), learned);
            options.given.insert("judged".into(), judged.clone());
            let mut job = Self {
                data: DataConfig {
                    train: "given:learned".into(),
                    test: Some("given:judged".into()),
                    test_share: None,
                    stratified: false,
                    split_seed: None,
                },
                ..self.clone()
            };
            job.options.evaluate = true;
            let folder = folder(number);
            // A fold whose turn had not come has nothing to go on from.
            let found = match &folder {
                Some(folder) if found == IfFound::Resume && !Checkpoints::newest_in(folder).exists() => {
                    begun_anew(folder)
                }
                _ => found,
            };
            let trainer = job.phased(folder, found, &options)?.stopped_by(stop);
            let outcome = trainer.run(&mut |event| {
                if once.is_new(event) {
                    listener(number, event)
                }
            })?;
            if outcome.stopped {
                return Ok(None);
            }
            scores.push(outcome.scores.ok_or(Error::NothingToJudge)?);
            told.add(number, SavedModel::new(outcome.model)?, judged)?;
        }
        let summary = Metric::ALL.into_iter().filter_map(|metric| Summary::of(metric, &scores)).collect();
        Ok(Some(CrossValidation { folds: scores, summary, told }))
    }
}

impl Summary {
    fn of(metric: Metric, folds: &[Scores]) -> Option<Self> {
        let values: Vec<f64> = folds.iter().map(|scores| metric.of(scores)).collect::<Option<_>>()?;
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let deviation = (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count).sqrt();
        Some(Self { metric, mean, deviation })
    }
}

impl Told {
    /// The names of all outputs: those of all classes, or those that every fold has.
    fn all_names(&self, targets: &TargetShape) -> Vec<String> {
        match targets {
            TargetShape::Classes { names } if self.names.iter().any(|own| *own != self.names[0]) => names.clone(),
            _ => self.names.first().cloned().unwrap_or_default(),
        }
    }

    fn add(&mut self, fold: usize, mut model: SavedModel, judged: Arc<dyn Source>) -> Result<(), Error> {
        self.is_of_classes = model.predicts_classes();
        self.names.push(model.output_names());
        let (width, offsets) = (model.file.network.output().len(), model.output_offsets());
        model.predict(judged, AT_A_TIME, |batch, outputs| {
            for (index, row) in batch.indices.iter().zip(outputs.chunks_exact(width)) {
                // One output tells two classes apart.
                let pair = self.is_of_classes && width == 1;
                let row = if pair { vec![1.0 - row[0], row[0]] } else { row.to_vec() };
                let offset = |at: usize| offsets.get(at).copied().unwrap_or_default();
                let row = row.iter().enumerate().map(|(at, output)| shortest(*output) + offset(at)).collect();
                self.rows.insert(*index, (fold, row));
            }
            Ok::<(), Error>(())
        })
    }
}

/// The number that reads the same with 64 bits: `0.1`, not `0.10000000149`.
fn shortest(value: f32) -> f64 {
    value.to_string().parse().unwrap_or_else(|_| f64::from(value))
}

/// Examples that are predicted, and written, at a time.
const AT_A_TIME: usize = 256;

impl CrossValidation {
    /// Writes the figures as `cross-validation.json`, and the predictions as `out-of-fold.csv`: of every example its number from 1 in the whole data, its fold,
    /// its target, and the outputs of the model that has not seen it. `job` is the job that it is of.
    pub fn save(&self, job: &Job, options: &OpenOptions, folder: &Path) -> Result<(), Error> {
        let fail = |source| Error::Output { path: folder.to_owned(), source };
        let json = serde_json::to_string_pretty(self).expect("names and numbers can be written");
        write_beside(&folder.join(FOLDS), &(json + "\n")).map_err(fail)?;
        let path = folder.join("out-of-fold.csv");
        let unwritten = |error: csv::Error| Error::Output { path: path.clone(), source: std::io::Error::other(error) };
        let mut writer = csv::Writer::from_path(&path).map_err(unwritten)?;
        let source = open(&job.data.train, options)?;
        let targets = &source.shape().targets;
        let mut header: Vec<String> = vec!["example".into(), "fold".into()];
        match targets {
            TargetShape::None => {}
            TargetShape::Classes { .. } => header.push("target".into()),
            TargetShape::Values { names } => header.extend(names.iter().map(|name| format!("target of {name}"))),
        }
        header.extend(self.told.is_of_classes.then(|| "prediction".into()));
        let names = self.told.all_names(targets);
        header.extend(names.iter().map(|name| format!("output of {name}")));
        let offsets = source.schema().map(|schema| schema.target_shifts().to_vec()).unwrap_or_default();
        writer.write_record(&header).map_err(unwritten)?;
        let mut batch = Batch::empty();
        let mut left_out = source.left_out().iter().map(|left_out| left_out.row).peekable();
        let mut before = 0;
        let examples = source.examples() as u64;
        for start in (0..examples).step_by(AT_A_TIME) {
            let places: Vec<u64> = (start..examples.min(start + AT_A_TIME as u64)).collect();
            source.read(&places, &mut batch)?;
            for (row, index) in batch.indices.iter().enumerate() {
                while left_out.next_if(|row| *row <= index + before).is_some() {
                    before += 1;
                }
                let Some((fold, outputs)) = self.told.rows.get(index) else { continue };
                let mut cells = vec![(index + before + 1).to_string(), fold.to_string()];
                match (&batch.targets, targets) {
                    (Targets::Classes(classes), TargetShape::Classes { names }) => {
                        cells.push(names[classes[row] as usize].clone());
                    }
                    (Targets::Values { width, values }, _) => {
                        let offset = |at: usize| offsets.get(at).copied().unwrap_or_default();
                        let values = values[row * width..(row + 1) * width].iter().enumerate();
                        cells.extend(values.map(|(at, value)| (shortest(*value) + offset(at)).to_string()));
                    }
                    _ => {}
                }
                if self.told.is_of_classes {
                    let most = |best, at| if outputs[at] > outputs[best] { at } else { best };
                    cells.push(self.told.names[fold - 1][(0..outputs.len()).reduce(most).unwrap_or(0)].clone());
                }
                let own = &self.told.names[fold - 1];
                match *own == names {
                    true => cells.extend(outputs.iter().map(f64::to_string)),
                    // A class that the training part of this fold lacks has no chance in it.
                    false => cells.extend(names.iter().map(|name| {
                        own.iter().position(|known| known == name).map_or("0".into(), |at| outputs[at].to_string())
                    })),
                }
                writer.write_record(&cells).map_err(unwritten)?;
            }
        }
        writer.flush().map_err(|source| Error::Output { path: path.clone(), source })
    }
}

impl fmt::Display for CrossValidation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<10}", "fold")?;
        self.summary.iter().try_for_each(|summary| write!(f, " {:>12}", summary.metric.name()))?;
        for (number, scores) in (1..).zip(&self.folds) {
            write!(f, "\n{number:<10}")?;
            for summary in &self.summary {
                write!(f, " {:>12}", figure(summary.metric.of(scores).unwrap_or(f64::NAN)))?;
            }
        }
        write!(f, "\n{:<10}", "mean")?;
        self.summary.iter().try_for_each(|summary| write!(f, " {:>12}", figure(summary.mean)))?;
        write!(f, "\n{:<10}", "deviation")?;
        self.summary.iter().try_for_each(|summary| write!(f, " {:>12}", figure(summary.deviation)))
    }
}
