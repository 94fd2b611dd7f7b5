use std::collections::BTreeMap;
use std::fmt;

use paceline_data::{Loader, LoaderOptions, Normaliser, Schema, Source, TargetShape};
use paceline_model::{Batch, Loss, Model, State, Targets};
use paceline_nn::evaluation::{BestThreshold, Calibration, Classification, MultiClassRoc, Regression, Thresholds};
use paceline_nn::{Loss as LossFunction, Network, OutputInfo, Shape};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use crate::Error;
use crate::normalisers::predict;
use crate::run::metric::figure;

/// How good a model is on some data.
#[derive(Clone, Debug)]
pub struct Scores {
    /// The mean loss.
    pub loss: Loss,
    /// What else can be told, by the kind of targets.
    pub measures: Measures,
    /// For classes: how well each is told from the rest, at every threshold.
    pub roc: Option<MultiClassRoc>,
    /// Its areas, which take a sort of all scores to know.
    areas: Areas,
    /// For probabilities of classes: how well they agree with frequencies.
    pub calibration: Option<Calibration>,
    /// The probability from which the second of two classes is predicted, where it was set.
    pub threshold: Option<f32>,
    /// Where the model has several ends: what each of them is called, and how good it is. All of the above but the loss is of the
    /// first.
    pub outputs: Vec<OutputScores>,
}

/// The areas under the curves of classes.
#[derive(Clone, Copy, Debug, Default)]
struct Areas {
    roc: Option<f64>,
    precision_recall: Option<f64>,
}

impl Areas {
    /// Of two classes the precision-recall curve is that of the second, else both are means over the classes.
    fn of(roc: &MultiClassRoc) -> Self {
        let report = roc.report();
        let precision_recall = match &report.classes[..] {
            [_, second] => second.roc.precision_recall_area,
            _ => report.macro_precision_recall_area,
        };
        Self { roc: report.macro_auc, precision_recall }
    }
}

/// How good one of several ends of a model is.
#[derive(Clone, Debug)]
pub struct OutputScores {
    /// What it is called.
    pub name: String,
    /// How good it is.
    pub measures: Measures,
    /// For classes of whole examples: how well each is told from the rest.
    roc: Option<MultiClassRoc>,
    areas: Areas,
    /// True if some target of a sigmoid unit was neither 0 nor 1: then it is no class.
    soft: bool,
    /// The errors of the numbers, where targets of a sigmoid unit may turn out to be no classes.
    values: Option<Regression>,
    /// Where its outputs are in a row of all, and its targets likewise.
    columns: [std::ops::Range<usize>; 2],
    loss: paceline_nn::Loss,
    shape: Shape,
    /// Steps, if it judges sequences: each that has a target is judged as an example is.
    steps: Option<usize>,
}

/// What can be told besides the loss.
#[derive(Clone, Debug)]
pub enum Measures {
    /// For classes.
    Classes(Classification),
    /// For numbers.
    Values(Regression),
    /// Nothing but the loss: for what is judged by itself and not by targets.
    Nothing,
}

impl Scores {
    /// The mean loss.
    pub fn score(&self) -> f64 {
        self.loss.mean()
    }

    /// The area under the ROC curve, one class against the rest, as the mean over the classes; nothing for numbers.
    pub fn auc(&self) -> Option<f64> {
        self.areas.roc
    }

    /// The area under the precision-recall curve, which is the average precision: of the second of two classes, else the mean over the
    /// classes; nothing for numbers.
    pub fn pr_auc(&self) -> Option<f64> {
        self.areas.precision_recall
    }

    /// Of two classes the probability of the second that is worth predicting it from: that of the highest F1 on this data.
    pub fn best_threshold(&self) -> Option<BestThreshold> {
        let classes = match &self.measures {
            Measures::Classes(classes) => classes.names().len(),
            _ => 0,
        };
        self.roc.as_ref().filter(|_| classes == 2)?.class(1).best_threshold()
    }

    /// The number of thresholds that the area under the ROC curve is an approximation by; nothing where it is exact.
    pub fn auc_thresholds(&self) -> Option<usize> {
        match self.roc.as_ref()?.class(0).thresholds() {
            Thresholds::Exact => None,
            Thresholds::Steps(steps) => Some(steps),
        }
    }

    /// The share of examples whose class was told right; nothing for numbers.
    pub fn accuracy(&self) -> Option<f64> {
        match &self.measures {
            Measures::Classes(classes) => Some(classes.accuracy()),
            Measures::Values(_) | Measures::Nothing => None,
        }
    }
}

impl fmt::Display for Scores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "loss {}", figure(self.score()))?;
        for OutputScores { name, measures, areas, .. } in &self.outputs {
            writeln!(f, "\noutput `{name}`")?;
            if let Some(area) = areas.roc {
                writeln!(f, "AUC  {area:.5}")?;
            }
            match measures {
                Measures::Classes(classes) => classes.fmt(f)?,
                Measures::Values(values) => values.fmt(f)?,
                Measures::Nothing => {}
            }
        }
        if !self.outputs.is_empty() {
            return Ok(());
        }
        match &self.measures {
            Measures::Classes(classes) => {
                let areas = [("AUC", self.auc()), ("PR-AUC", self.pr_auc())];
                for (name, area) in areas.into_iter().filter_map(|(name, area)| Some((name, area?))) {
                    match self.auc_thresholds() {
                        None => writeln!(f, "{name}  {area:.5}")?,
                        Some(steps) => writeln!(f, "{name}  about {area:.3} ({steps} thresholds)")?,
                    }
                }
                if let Some(calibration) = &self.calibration {
                    let report = calibration.report();
                    writeln!(f, "calibration error  {:.4}, Brier score  {:.4}", report.error, report.brier)?;
                }
                if let Some(threshold) = self.threshold {
                    writeln!(f, "`{}` is predicted from a probability of {threshold} on", classes.names()[1])?;
                }
                classes.fmt(f)
            }
            Measures::Values(values) => values.fmt(f),
            Measures::Nothing => Ok(()),
        }
    }
}

impl Serialize for Scores {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("score", &self.score())?;
        if !self.outputs.is_empty() {
            let outputs: BTreeMap<&str, &OutputScores> =
                self.outputs.iter().map(|output| (output.name.as_str(), output)).collect();
            map.serialize_entry("outputs", &outputs)?;
            return map.end();
        }
        self.measures.serialize_into(&mut map)?;
        if matches!(self.measures, Measures::Classes(_)) {
            map.serialize_entry("auc", &self.auc())?;
            map.serialize_entry("pr_auc", &self.pr_auc())?;
            if let Some(steps) = self.auc_thresholds() {
                map.serialize_entry("auc_thresholds", &steps)?;
            }
        }
        map.end()
    }
}

impl Serialize for OutputScores {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        self.measures.serialize_into(&mut map)?;
        if self.roc.is_some() {
            map.serialize_entry("auc", &self.areas.roc)?;
        }
        map.end()
    }
}

impl OutputScores {
    /// The area under the ROC curve; nothing for numbers, and for classes of every step.
    pub fn auc(&self) -> Option<f64> {
        self.areas.roc
    }
}

impl Measures {
    fn of(targets: &TargetShape, outputs: usize) -> Option<Self> {
        Some(match targets {
            TargetShape::None => return None,
            TargetShape::Classes { names } => {
                let names = name_outputs(names, outputs);
                Measures::Classes(Classification::new(names.clone()).with_top_n(top(&names)))
            }
            TargetShape::Values { names } => Measures::Values(Regression::new(names.clone())),
        })
    }

    fn serialize_into<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        match self {
            Measures::Classes(classes) => {
                let average = classes.macro_average();
                map.serialize_entry("accuracy", &classes.accuracy())?;
                map.serialize_entry("precision", &average.precision)?;
                map.serialize_entry("recall", &average.recall)?;
                map.serialize_entry("f1", &average.f1)?;
                map.serialize_entry("mcc", &classes.mcc())
            }
            Measures::Values(values) => {
                let average = values.average();
                map.serialize_entry("mse", &average.mse)?;
                map.serialize_entry("mae", &average.mae)?;
                map.serialize_entry("rmse", &average.rmse)?;
                map.serialize_entry("r2", &average.r2)
            }
            Measures::Nothing => Ok(()),
        }
    }
}

impl Serialize for Measures {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        self.serialize_into(&mut map)?;
        map.end()
    }
}

/// Collects scores batch by batch.
pub struct Evaluator {
    scores: Scores,
    /// The only end, if it judges sequences, or what it says of targets is told otherwise than they are.
    apart: Option<OutputScores>,
    outputs: Vec<f32>,
}

impl Evaluator {
    /// For targets of this kind and this network; nothing for data without targets, if the network wants some. The curves of
    /// classes distinguish these thresholds.
    pub fn new(targets: &TargetShape, network: &Network, thresholds: Thresholds) -> Option<Self> {
        if !network.wants_targets() {
            let scores = Scores::new(Measures::Nothing, None, None, Vec::new());
            return Some(Self { scores, apart: None, outputs: Vec::new() });
        }
        let mut outputs = ends(targets, network, thresholds);
        let first = outputs.first();
        let measures = match first {
            Some(first) => first.measures.clone(),
            None => Measures::of(targets, network.output().len())?,
        };
        let roc = match &measures {
            Measures::Classes(classes) if outputs.is_empty() => {
                Some(MultiClassRoc::new(classes.names().to_vec(), thresholds))
            }
            _ => None,
        };
        let apart = if outputs.len() == 1 { outputs.pop() } else { None };
        let classes = roc.as_ref().filter(|_| network.gives_probabilities()).and(match &measures {
            Measures::Classes(classes) => Some(classes.names().len()),
            _ => None,
        });
        let scores = Scores::new(measures, roc, classes.map(Calibration::new), outputs);
        Some(Self { scores, apart, outputs: Vec::new() })
    }

    /// Names the classes of ends as the schema of the data does: the characters of a text, or the texts of several target columns.
    #[must_use]
    pub fn with_schema(mut self, schema: Option<&Schema>) -> Self {
        let Some(schema) = schema else { return self };
        for output in self.scores.outputs.iter_mut().chain(&mut self.apart) {
            // An end that reads one column of classes, or all of them.
            let own = match &output.columns[1] {
                own if own.len() == 1 => schema.target_classes.get(own.start).filter(|names| !names.is_empty()),
                _ => None,
            };
            let names = own.map(Vec::as_slice).or_else(|| schema.class_names());
            if let (Measures::Classes(classes), Some(names)) = (&mut output.measures, names)
                && classes.names().len() >= names.len()
            {
                let names = name_outputs(names, classes.names().len());
                *classes = Classification::new(names.clone()).with_top_n(top(&names));
            }
        }
        self
    }

    /// Predicts the second of two classes from this probability on; none for a model of other targets.
    pub fn with_threshold(mut self, threshold: f32) -> Option<Self> {
        let Measures::Classes(classes) = &mut self.scores.measures else { return None };
        if self.scores.roc.is_none() || classes.names().len() != 2 {
            return None;
        }
        *classes = classes.clone().with_threshold(threshold);
        self.scores.threshold = Some(threshold);
        Some(self)
    }

    /// Runs a model on one batch and judges what comes out. Targets are as the data has them; `normaliser` is what the model learned
    /// them by.
    pub fn add(
        &mut self,
        model: &mut dyn Model,
        state: &State,
        batch: &mut Batch,
        normaliser: Option<&Normaliser>,
    ) -> Result<(), Error> {
        let mut outputs = std::mem::take(&mut self.outputs);
        let loss = predict(model, state, batch, normaliser, &mut outputs)?;
        self.add_outputs(batch, &outputs, loss.unwrap_or_default());
        self.outputs = outputs;
        Ok(())
    }

    /// Judges what came out for one batch, row after row.
    ///
    /// # Panics
    ///
    /// When the targets are not of the kind that it was made for, or outputs and targets do not fit each other.
    pub fn add_outputs(&mut self, batch: &Batch, outputs: &[f32], loss: Loss) {
        let Scores { loss: losses, measures, roc, calibration, outputs: several, .. } = &mut self.scores;
        losses.merge(loss);
        if !several.is_empty() {
            return several.iter_mut().for_each(|output| output.add(batch, outputs));
        }
        if let Some(only) = &mut self.apart {
            return only.add(batch, outputs);
        }
        match (measures, &batch.targets) {
            (Measures::Nothing, _) => {}
            (Measures::Classes(classes), Targets::Classes(wanted)) => {
                classes.add(outputs, wanted, batch.weights.as_deref());
                if let Some(roc) = roc {
                    roc.add(outputs, wanted, batch.weights.as_deref());
                }
                if let Some(calibration) = calibration {
                    calibration.add(outputs, wanted, batch.weights.as_deref());
                }
            }
            (Measures::Values(values), Targets::Values { values: wanted, .. }) => {
                values.add(outputs, wanted, batch.weights.as_deref());
            }
            _ => unreachable!("a source gives targets of the kind that its shape names"),
        }
    }

    /// What was found.
    pub fn scores(mut self) -> Scores {
        let areas = self.scores.roc.as_ref().map(Areas::of).unwrap_or_default();
        self.scores.outputs.iter_mut().for_each(OutputScores::finish);
        if let Some(mut only) = self.apart {
            only.finish();
            self.scores.measures = only.measures;
        } else if let Some(first) = self.scores.outputs.first() {
            self.scores.measures.clone_from(&first.measures);
        }
        Scores { areas, ..self.scores }
    }
}

impl Scores {
    fn new(
        measures: Measures,
        roc: Option<MultiClassRoc>,
        calibration: Option<Calibration>,
        outputs: Vec<OutputScores>,
    ) -> Self {
        let (loss, areas) = (Loss::default(), Areas::default());
        Self { loss, measures, roc, areas, calibration, threshold: None, outputs }
    }
}

/// What is judged of each end, where a network has several, or one that judges sequences.
fn ends(targets: &TargetShape, network: &Network, thresholds: Thresholds) -> Vec<OutputScores> {
    let TargetShape::Values { names } = targets else { return Vec::new() };
    let is_row =
        |output: OutputInfo<'_>| output.shape.steps().is_none() && output.loss.told(output.shape, &[]).is_none();
    let judges_rows = network.outputs().all(is_row);
    let columns = network.targets_of(names.len()).filter(|columns| columns.len() > 1 || !judges_rows);
    let Some(columns) = columns else { return Vec::new() };
    let end = |(output, own): (OutputInfo<'_>, std::ops::Range<usize>)| {
        let steps = output.shape.steps();
        let all = output.loss.targets(output.shape).unwrap_or(output.columns.len());
        let width = all / steps.unwrap_or(1);
        // One sigmoid unit tells two classes apart, by a target of 0 or 1.
        let is_binary = width == 1 && *output.loss == LossFunction::BinaryCrossEntropy;
        let values = TargetShape::Values { names: names[own.clone()][..width.min(own.len())].to_vec() };
        let targets = match own.len() < all || is_binary {
            true => TargetShape::Classes { names: Vec::new() },
            false => values.clone(),
        };
        let measures = Measures::of(&targets, width).expect("targets of a kind");
        let values = match Measures::of(&values, width) {
            Some(Measures::Values(values)) if is_binary => Some(values),
            _ => None,
        };
        let roc = match &measures {
            // The scores of every step of long sequences would fill the memory.
            Measures::Classes(classes) if steps.is_none() => {
                Some(MultiClassRoc::new(classes.names().to_vec(), thresholds))
            }
            _ => None,
        };
        let (loss, shape, name) = (output.loss.clone(), output.shape, output.name.to_owned());
        let (areas, columns) = (Areas::default(), [output.columns, own]);
        OutputScores { name, measures, roc, areas, soft: false, values, columns, loss, shape, steps }
    };
    network.outputs().zip(columns).map(end).collect()
}

impl OutputScores {
    fn add(&mut self, batch: &Batch, outputs: &[f32]) {
        let Targets::Values { width, values } = &batch.targets else {
            unreachable!("several ends have a row of targets")
        };
        let [own, wanted] = &self.columns;
        let all = outputs.len() / batch.examples();
        let columns = |rows: &[f32], width: usize, own: &std::ops::Range<usize>| -> Vec<f32> {
            rows.chunks_exact(width).flat_map(|row| &row[own.clone()]).copied().collect()
        };
        let (mut outputs, mut wanted) = (columns(outputs, all, own), columns(values, *width, wanted));
        if let Some(told) = self.loss.told(self.shape, &outputs) {
            outputs = told;
        }
        let mut weights = batch.weights.clone();
        if let Some(steps) = self.steps {
            keep_judged(steps * batch.examples(), &mut outputs, &mut wanted, &mut weights);
        }
        match &mut self.measures {
            Measures::Classes(classes) => {
                if let Some(values) = &mut self.values {
                    values.add(&outputs, &wanted, weights.as_deref());
                    self.soft |= wanted.iter().any(|target| *target != 0.0 && *target != 1.0);
                }
                let last = classes.names().len() as f32 - 1.0;
                let wanted: Vec<u32> = wanted.iter().map(|class| class.round().clamp(0.0, last) as u32).collect();
                classes.add(&outputs, &wanted, weights.as_deref());
                if let Some(roc) = &mut self.roc {
                    roc.add(&outputs, &wanted, weights.as_deref());
                }
            }
            Measures::Values(measured) => measured.add(&outputs, &wanted, weights.as_deref()),
            Measures::Nothing => unreachable!("ends with columns of targets are judged by them"),
        }
    }
}

impl OutputScores {
    /// Computes the areas; targets that are no classes are compared as numbers.
    fn finish(&mut self) {
        let values = self.values.take();
        if self.soft
            && let Some(values) = values
        {
            (self.measures, self.roc) = (Measures::Values(values), None);
        }
        self.areas = self.roc.as_ref().map(Areas::of).unwrap_or_default();
    }
}

/// Keeps the steps that have a target, each with the weight of its example.
fn keep_judged(all_steps: usize, outputs: &mut Vec<f32>, wanted: &mut Vec<f32>, weights: &mut Option<Vec<f32>>) {
    let (width, targets) = (outputs.len() / all_steps, wanted.len() / all_steps);
    // Where a step is not there, or has no target, there is nothing to judge.
    let is_judged = |step: &usize| {
        wanted[step * targets..][..targets].iter().all(|target| !target.is_nan())
            && !outputs[step * width..][..width].iter().all(|output| output.is_nan())
    };
    let kept: Vec<usize> = (0..all_steps).filter(is_judged).collect();
    *outputs = kept.iter().flat_map(|step| &outputs[step * width..][..width]).copied().collect();
    *wanted = kept.iter().flat_map(|step| &wanted[step * targets..][..targets]).copied().collect();
    if let Some(weights) = weights {
        let steps = all_steps / weights.len().max(1);
        *weights = kept.iter().map(|step| weights[step / steps]).collect();
    }
}

/// A name for every class that the outputs tell apart: data may lack some. One output tells two classes apart.
pub(crate) fn name_outputs(names: &[String], outputs: usize) -> Vec<String> {
    let mut names = names.to_vec();
    let known = if outputs == 1 { 2 } else { outputs };
    (names.len()..known).for_each(|n| names.push(n.to_string()));
    names
}

/// The usual "top 5", or less where there are not many classes.
fn top(names: &[String]) -> usize {
    (names.len() / 2).clamp(1, 5)
}

/// Judges a model of this network on a whole source; `None` if the source has no targets and the network wants some.
pub fn evaluate(
    model: &mut dyn Model,
    state: &State,
    network: &Network,
    source: std::sync::Arc<dyn Source>,
    options: LoaderOptions,
    thresholds: Thresholds,
) -> Result<Option<Scores>, Error> {
    let Some(evaluator) = Evaluator::new(&source.shape().targets, network, thresholds) else { return Ok(None) };
    let mut evaluator = evaluator.with_schema(source.schema());
    let normaliser = options.target_normaliser;
    let options = LoaderOptions {
        shuffle: false,
        by_length: false,
        class_weights: None,
        // Figures are told in the units of the data.
        target_normaliser: None,
        ..options
    };
    let loader = Loader::new(source, options)?;
    let mut batches = loader.epoch(0, 0);
    while let Some(batch) = batches.next() {
        let mut batch = batch?;
        evaluator.add(model, state, &mut batch, normaliser.as_ref())?;
        batches.recycle(batch);
    }
    Ok(Some(evaluator.scores()))
}
