//! What went wrong when a loss is no number any more.

use paceline_model::{Batch, Progress, State, Targets};
use paceline_nn::{InputType, Network};

use crate::{Error, Scores};

/// Parameters and features of a run that goes well stay below this.
const WILD: f32 = 1e3;

/// A loss that is no number, with its most likely cause. `kept` is what there is to say of the last checkpoint.
pub(crate) fn not_finite(
    network: &Network,
    state: &State,
    progress: Progress,
    batch: &Batch,
    loss: f64,
    kept: &str,
) -> Error {
    let largest = largest_parameter(state);
    // A step of a sequence that is not there is no number, and that is as it should be.
    let has_steps = network.config().inputs.iter().any(|input| matches!(input.kind, InputType::Sequence(_)));
    let is_wrong = |x: &f32| x.is_infinite() || x.is_nan() && !has_steps;
    let cause = if let Some(at) = batch.features.iter().position(is_wrong) {
        let example = batch.indices[at / batch.width];
        format!("example {example} holds a feature that is not finite: clean the data")
    } else if progress.iteration == 0 && largest >= WILD {
        format!("the largest parameter was {} before the first step: set another `weight_init`", scientific(largest))
    } else if largest.is_nan() || largest >= WILD {
        too_high(largest)
    } else if batch.features.iter().any(|x| x.abs() > WILD) {
        "features go beyond 1,000: set `data.normaliser`".into()
    } else if matches!(&batch.targets, Targets::Values { values, .. } if values.iter().any(|x| x.abs() > WILD)) {
        "targets go beyond 1,000: set `data.target_normaliser`".into()
    } else {
        "the learning rate is most likely too high: lower it, or clip gradients".into()
    };
    let Progress { iteration: step, epoch } = progress;
    Error::NotFinite { loss, step, epoch, cause, checkpoint: kept.to_owned() }
}

/// Parameters that the last update of an epoch ruined must not replace the last good checkpoint. The next loss would
/// show it, but comes too late; the score on the test data shows it in time.
pub(crate) fn expect_sane(
    state: &State,
    progress: Progress,
    scores: Option<&Scores>,
    kept: impl FnOnce() -> String,
) -> Result<(), Error> {
    let Some(loss) = scores.map(Scores::score).filter(|score| !score.is_finite()) else { return Ok(()) };
    let largest = largest_parameter(state);
    // Some losses are infinite for some targets, whatever the network says.
    if loss.is_infinite() && largest < WILD {
        return Ok(());
    }
    let Progress { iteration: step, epoch } = progress;
    let (epoch, cause) = (epoch.saturating_sub(1), too_high(largest));
    Err(Error::NotFinite { loss, step, epoch, cause, checkpoint: kept() })
}

/// Whether every parameter is a number.
pub(crate) fn expect_finite(state: &State, progress: Progress, kept: impl FnOnce() -> String) -> Result<(), Error> {
    if state.parameters.iter().all(|p| p.is_finite()) {
        return Ok(());
    }
    let cause = "the last update made a parameter infinite: the learning rate is most likely too high".into();
    let Progress { iteration: step, epoch } = progress;
    Err(Error::NotFinite { loss: f64::NAN, step, epoch, cause, checkpoint: kept() })
}

/// NaN if any of them is.
fn largest_parameter(state: &State) -> f32 {
    let parameters = state.parameters.iter();
    parameters.fold(0.0, |top: f32, p| if p.is_nan() || top.is_nan() { f32::NAN } else { top.max(p.abs()) })
}

/// A number of any size in a few digits: `1e30`.
fn scientific(number: f32) -> String {
    let text = format!("{number:.2e}");
    text.replacen(".00e", "e", 1)
}

fn too_high(largest: f32) -> String {
    format!(
        "the largest parameter is {}, so the learning rate is most likely too high: lower it, or clip gradients",
        scientific(largest)
    )
}
