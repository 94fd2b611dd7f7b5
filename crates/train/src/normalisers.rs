//! What is done to the numbers of examples on the way in, and undone on the way out.

use std::collections::BTreeMap;
use std::path::Path;

use paceline_data::{LoaderOptions, Normaliser, NormaliserKind, TargetShape};
use paceline_model::{Batch, Loss, Model, State, Targets};
use paceline_nn::{Loss as LossFunction, ModelFile, Network};

use crate::run::resume::{json, read_extra};
use crate::{Error, Trainer};

const FEATURES: &str = "normaliser";
const TARGETS: &str = "target_normaliser";

/// What a model was trained with.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Normalisers {
    /// Of features; they stay as they are without one.
    pub features: Option<Normaliser>,
    /// Of targets that are numbers: what the model says is taken back to their units.
    pub targets: Option<Normaliser>,
}

impl Normalisers {
    /// Fitted to the training data.
    pub(crate) fn fit(trainer: &Trainer) -> Result<Self, Error> {
        let kind = trainer.options.normaliser.unwrap_or(trainer.fitted_to.default_normaliser());
        Ok(Self { features: Normaliser::fit(kind, &*trainer.fitted_to)?, targets: fit_targets(trainer)? })
    }

    /// The same for a run that begins with a model: one that has only been pretrained has learned no targets; another one goes on learning
    /// them as it has.
    pub(crate) fn or_of_targets(self, trainer: &Trainer, is_pretrained: bool) -> Result<Self, Error> {
        let is_asked_for = trainer.options.target_normaliser.is_some();
        let targets = match self.targets {
            None if is_asked_for || is_pretrained => fit_targets(trainer)?,
            targets => targets,
        };
        Ok(Self { features: self.features, targets })
    }

    /// Of a model file.
    pub(crate) fn read(model: &ModelFile, path: &Path) -> Result<Self, Error> {
        Ok(Self { features: read_extra(model, path, FEATURES)?, targets: read_extra(model, path, TARGETS)? })
    }

    /// For a model file.
    pub(crate) fn keep(&self, extra: &mut BTreeMap<String, String>) {
        for (key, normaliser) in [(FEATURES, &self.features), (TARGETS, &self.targets)] {
            if let Some(normaliser) = normaliser {
                extra.insert(key.into(), json(normaliser));
            }
        }
    }

    /// The key of the one that does not fit a network, and why.
    pub(crate) fn problem(&self, network: &Network) -> Option<(&'static str, paceline_data::Error)> {
        let widths =
            [(FEATURES, &self.features, network.input().len()), (TARGETS, &self.targets, network.output().len())];
        widths.into_iter().find_map(|(key, normaliser, width)| Some((key, normaliser.as_ref()?.check(width).err()?)))
    }

    /// Both, for batches to learn from.
    pub(crate) fn into_options(self, options: LoaderOptions) -> LoaderOptions {
        LoaderOptions { normaliser: self.features, target_normaliser: self.targets, ..options }
    }
}

/// True for losses of the differences of outputs and targets.
fn is_of_differences(loss: &LossFunction) -> bool {
    matches!(loss, LossFunction::Mse | LossFunction::L2 | LossFunction::Mae | LossFunction::L1)
}

/// The normaliser for targets of a job that names none: targets are standardised where a linear output learns numbers by their differences,
/// so that their unit does not decide whether they are learned.
pub(crate) fn suiting_targets(trainer: &Trainer) -> NormaliserKind {
    let (network, source) = (&trainer.network, &*trainer.train);
    let TargetShape::Values { names } = &source.shape().targets else { return NormaliserKind::None };
    let suits = network.wants_targets()
        && source.partitions().is_none()
        && network.ends_linear()
        && names.len() == network.output().len()
        && network.outputs().all(|output| is_of_differences(output.loss));
    if suits { NormaliserKind::Standardise } else { NormaliserKind::None }
}

/// Fails where targets are read less an offset, since they lie far from 0, and the loss is not one of differences.
fn expect_offsets_to_cancel(trainer: &Trainer) -> Result<(), Error> {
    let has_offsets = trainer.train.schema().is_some_and(|schema| !schema.target_shifts().is_empty());
    if !has_offsets || trainer.network.outputs().all(|output| is_of_differences(output.loss)) {
        return Ok(());
    }
    let message = "has targets far from 0, which a loss other than `mse`, `l2`, `mae` and `l1` cannot learn with 32 bits: subtract a number \
                   near their mean in the data";
    Err(Error::Unsuitable { setting: "data.train", message: message.into() })
}

/// Where outputs are of the same kind as targets: one can be taken back as the other was brought.
fn fit_targets(trainer: &Trainer) -> Result<Option<Normaliser>, Error> {
    let (network, source) = (&trainer.network, &*trainer.train);
    if !network.wants_targets() {
        return Ok(None);
    }
    expect_offsets_to_cancel(trainer)?;
    let kind = trainer.options.target_normaliser.unwrap_or_else(|| suiting_targets(trainer));
    if kind == NormaliserKind::None {
        return Ok(None);
    }
    let is_alike = |names: &[String]| {
        let mut outputs = network.outputs();
        let only = outputs.next().filter(|_| outputs.next().is_none());
        only.is_some_and(|only| names.len() == network.output().len() && only.loss.told(only.shape, &[]).is_none())
    };
    if let TargetShape::Values { names } = &source.shape().targets
        && !is_alike(names)
    {
        let message = "is for networks with one end whose outputs are of the kind of its targets: leave it out".into();
        return Err(Error::Unsuitable { setting: "data.target_normaliser", message });
    }
    Ok(Normaliser::fit_targets(kind, source, network.output().steps().unwrap_or(1))?)
}

/// Runs a model on a batch with features as it takes them, and targets as the data has them. What comes out is in the units of the targets;
/// the loss is the one that the model was trained by.
pub(crate) fn predict(
    model: &mut dyn Model,
    state: &State,
    batch: &mut Batch,
    normaliser: Option<&Normaliser>,
    outputs: &mut Vec<f32>,
) -> Result<Option<Loss>, paceline_model::Error> {
    let Some(normaliser) = normaliser else { return model.predict(batch, state, outputs) };
    let own = batch.targets.clone();
    if let Targets::Values { width, values } = &mut batch.targets {
        // As many as the model does not want are refused by the model.
        let _ = normaliser.apply(values, *width);
    }
    let loss = model.predict(batch, state, outputs);
    batch.targets = own;
    let loss = loss?;
    let width = outputs.len() / batch.examples().max(1);
    normaliser.undo(outputs, width).expect("it was checked against the model's outputs");
    Ok(loss)
}
