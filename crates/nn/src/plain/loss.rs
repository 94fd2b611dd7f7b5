//! The end of a network: targets against outputs, example by example.

use paceline_model::{Batch, Targets};

use super::activation::softmax;
use crate::graph::TargetColumns;
use crate::{Activation, Loss, Real};

/// The end of a network: its loss, and the activation before it where both are computed as one.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Judged {
    pub loss: Loss,
    /// Softmax with cross entropy or Kullback-Leibler divergence, or sigmoid with binary cross entropy: stable without a logarithm of a rounded output.
    pub merged: Option<Activation>,
    /// Numbers that are judged together: a row, or a step of a sequence.
    pub width: usize,
    /// Numbers of the target of such a row or step.
    pub targets: usize,
    /// Steps, if it judges sequences: the loss of one is the mean over its steps that are there and have a target.
    pub steps: Option<usize>,
    /// What its loss counts among those of other heads.
    pub weight: f32,
    /// The share of a target that is spread over all classes while something is learned.
    pub smoothing: f32,
    /// Where the targets of this head are in a row of targets, if there are other heads.
    pub columns: Option<TargetColumns>,
}

impl Judged {
    /// Numbers that come out for an example.
    pub(crate) fn row(&self) -> usize {
        self.width * self.steps.unwrap_or(1)
    }

    /// Numbers of scratch: a row of targets and a row of slopes.
    pub(crate) fn scratch(&self) -> usize {
        2 * self.width
    }
}

/// Writes the outputs into `y` and the slopes, times each example's weight, into `dz`; returns the sum of the losses.
///
/// `z` is what comes in, or empty if nothing is merged: then it lies in `y` already. `against` is what it is compared with, or empty
/// if that is the target of the example. `mask` says which steps are there, or is empty if all are. An empty `dz` asks for no slopes.
pub(crate) fn judge<R: Real>(
    judged: &Judged,
    batch: &Batch,
    [z, against, mask]: [&[R]; 3],
    y: &mut [R],
    dz: &mut [R],
    scratch: &mut [R],
) -> f64 {
    let (width, steps) = (judged.width, judged.steps.unwrap_or(1));
    let mut sum = 0.0;
    for example in 0..batch.examples() {
        let share = judged.steps.map_or(1.0, |_| share_of_step(judged, batch, mask, example));
        for step in 0..steps {
            let row = example * steps + step;
            let y = &mut y[row * width..][..width];
            let z = if judged.merged.is_some() { &z[row * width..][..width] } else { &[] };
            match judged.merged {
                Some(Activation::Softmax) => softmax(z, y),
                Some(activation) => z.iter().zip(y.iter_mut()).for_each(|(z, y)| *y = activation.value(*z)),
                None => {}
            }
            // What comes out of a step that is not there is no number; while something is learned it stays as it is.
            if dz.is_empty() && !mask.is_empty() && mask[row] == R::ZERO {
                y.fill(R::of(f64::NAN));
                continue;
            }
            let is_judged = judged.steps.is_none() || is_judged(judged, batch, mask, example, step);
            match against {
                [] if is_judged && write_target(judged, batch, example, step, scratch) => {
                    if judged.smoothing > 0.0 && !dz.is_empty() {
                        smooth(judged, &mut scratch[..judged.targets]);
                    }
                }
                [] => {
                    if judged.steps.is_some() && !dz.is_empty() {
                        dz[row * width..][..width].fill(R::ZERO);
                    }
                    continue;
                }
                values => scratch[..width].copy_from_slice(&values[row * width..][..width]),
            }
            let of_example = batch.weights.as_ref().map_or(1.0, |w| f64::from(w[example]));
            let weight = f64::from(judged.weight) * of_example * share;
            // The scratch has a second row for slopes that nobody asks for.
            let (target, spare) = scratch.split_at_mut(width);
            let slope = if dz.is_empty() { &mut spare[..width] } else { &mut dz[row * width..][..width] };
            let loss = match judged.merged {
                Some(Activation::Softmax) => {
                    let loss = softmax_cross_entropy(target, z, y, slope);
                    if judged.loss == Loss::KlDivergence { loss - Loss::least(target) } else { loss }
                }
                Some(_) => sigmoid_cross_entropy(target, z, y, slope),
                None => judged.loss.row(&target[..judged.targets], y, slope),
            };
            sum += weight * loss.to_f64();
            slope.iter_mut().for_each(|s| *s *= R::of(weight));
        }
    }
    sum
}

/// What the loss of a step counts within its example: one part of those that are judged.
fn share_of_step<R: Real>(judged: &Judged, batch: &Batch, mask: &[R], example: usize) -> f64 {
    let steps = 0..judged.steps.unwrap_or(1);
    let count = steps.filter(|step| is_judged(judged, batch, mask, example, *step)).count();
    1.0 / count.max(1) as f64
}

/// Whether a step is there and has a target.
fn is_judged<R: Real>(judged: &Judged, batch: &Batch, mask: &[R], example: usize, step: usize) -> bool {
    let steps = judged.steps.unwrap_or(1);
    let is_there = mask.is_empty() || mask[example * steps + step] != R::ZERO;
    is_there && target_of(judged, batch, example, step).is_some_and(|target| target.iter().all(|t| !t.is_nan()))
}

/// The target of a step, as numbers or as the number of a class; none where targets are the classes of examples, or not there.
fn target_of<'a>(judged: &Judged, batch: &'a Batch, example: usize, step: usize) -> Option<&'a [f32]> {
    let Targets::Values { width, values } = &batch.targets else { return None };
    let row = &values[example * width..][..*width];
    let own = judged.columns.as_ref().map_or(row, |columns| &row[columns.range(*width)]);
    let of_step = own.len() / judged.steps.unwrap_or(1);
    Some(&own[step * of_step..][..of_step])
}

/// Writes the target of one example, or of a step of it, as `width` numbers; false if there is none.
fn write_target<R: Real>(judged: &Judged, batch: &Batch, example: usize, step: usize, target: &mut [R]) -> bool {
    let target = &mut target[..judged.targets];
    match &batch.targets {
        Targets::None => return false,
        Targets::Classes(classes) => return write_class(judged, classes[example] as usize, target),
        Targets::Values { .. } => {
            let own = target_of(judged, batch, example, step).expect("targets are values");
            if own.len() < target.len() {
                return write_class(judged, own[0] as usize, target);
            }
            target.iter_mut().zip(own).for_each(|(t, v)| *t = R::of(f64::from(*v)));
        }
    }
    true
}

fn write_class<R: Real>(judged: &Judged, class: usize, target: &mut [R]) -> bool {
    let (no, yes) = if judged.loss.signed_targets() { (-R::ONE, R::ONE) } else { (R::ZERO, R::ONE) };
    target.fill(no);
    match target {
        // One output tells two classes apart.
        [only] => *only = if class == 1 { yes } else { no },
        _ => target[class] = yes,
    }
    true
}

/// Takes a share off a target and gives as much of it to each class; a target between 0 and 1 tells two classes apart by itself.
fn smooth<R: Real>(judged: &Judged, target: &mut [R]) {
    let classes = if judged.loss == Loss::BinaryCrossEntropy { 2 } else { target.len() };
    let share = f64::from(judged.smoothing);
    let (rest, each) = (R::of(1.0 - share), R::of(share / classes as f64));
    target.iter_mut().for_each(|t| *t = rest * *t + each);
}

/// Σ t (ln Σ eᶻ − z), whose slope is y Σ t − t.
fn softmax_cross_entropy<R: Real>(target: &[R], z: &[R], y: &[R], slope: &mut [R]) -> R {
    let top = z.iter().fold(R::of(f64::NEG_INFINITY), |top, z| top.max(*z));
    let log_sum = z.iter().fold(R::ZERO, |sum, z| sum + (*z - top).exp()).ln() + top;
    let total = target.iter().fold(R::ZERO, |sum, t| sum + *t);
    let mut loss = R::ZERO;
    for (((t, z), y), slope) in target.iter().zip(z).zip(y).zip(slope) {
        // 0 · ∞ is no loss: a class that is not asked for may be as unlikely as it likes.
        if *t != R::ZERO {
            loss += *t * (log_sum - *z);
        }
        *slope = *y * total - *t;
    }
    loss
}

/// Σ max(z, 0) − z t + ln(1 + e^−|z|), whose slope is y − t.
fn sigmoid_cross_entropy<R: Real>(target: &[R], z: &[R], y: &[R], slope: &mut [R]) -> R {
    let mut loss = R::ZERO;
    for (((t, z), y), slope) in target.iter().zip(z).zip(y).zip(slope) {
        loss += z.max(R::ZERO) - *z * *t + (-z.abs()).exp().ln_1p();
        *slope = *y - *t;
    }
    loss
}
