use super::Builder;
use crate::config::{CentreLoss, Output};
use crate::graph::ForceKind;
use crate::node::Op;
use crate::{Error, Loss, Registry, Shape};

pub(super) fn build(config: &Output, registry: &Registry, builder: &mut Builder<'_>) -> Result<(), Error> {
    let features = builder.value();
    super::dense::weigh(config.units, config.bias, builder)?;
    builder.activate();
    let loss = config.loss.as_ref().unwrap_or(&Loss::CrossEntropy);
    builder.end_with(loss, config.loss_weight, config.label_smoothing, registry)?;
    let Some(centre_loss) = config.centre_loss else { return Ok(()) };
    if !loss.is_of_classes() && *loss != Loss::BinaryCrossEntropy {
        return Err(builder.wrong("`centre_loss` needs a loss that tells classes apart".into()));
    }
    let outputs = builder.value();
    builder.continue_from(features);
    pull_to_centres(centre_loss, config.units, builder)?;
    builder.continue_from(outputs);
    Ok(())
}

/// Distances to the centres of all classes, of which that to the own one counts in the loss.
fn pull_to_centres(config: CentreLoss, units: usize, builder: &mut Builder<'_>) -> Result<(), Error> {
    if let Some(problem) = config.problem() {
        return Err(builder.wrong(problem));
    }
    if builder.shape.steps().is_some() {
        return Err(builder.wrong("`centre_loss` knows examples of one class, and no sequences of them".into()));
    }
    let CentreLoss { alpha, lambda } = config;
    // One output tells two classes apart.
    let classes = units.max(2);
    let centres = builder.points("centres", [classes, builder.shape.len()], alpha);
    // The mean over a batch holds one part in so many of each class.
    let op = Op::Centres { strength: classes as f32 / lambda };
    builder.push_reading(op, vec![builder.value()], Shape::Flat(classes), centres);
    if !builder.pretrains() {
        builder.force(builder.value(), ForceKind::OfClass { lambda });
    }
    Ok(())
}
