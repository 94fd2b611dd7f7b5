mod boxes;
mod mixture;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::custom::{CustomLoss, LossFunction};
use crate::{Real, Shape};

/// What the outputs of a network are judged by.
///
/// Each is a sum over the outputs of one example unless it says mean; `t` is the target, `y` the output.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Loss {
    /// Σ −t ln y, for outputs that sum to 1 (softmax)
    #[serde(alias = "mcxent", alias = "negativeloglikelihood", alias = "negative_log_likelihood")]
    #[default]
    CrossEntropy,
    /// The same for class indices; kept because its name is looked for
    #[serde(alias = "sparse_mcxent")]
    SparseCrossEntropy,
    /// Σ −t ln y − (1 − t) ln(1 − y), for outputs between 0 and 1 (sigmoid)
    #[serde(alias = "xent", alias = "reconstruction_crossentropy", alias = "reconstruction_cross_entropy")]
    BinaryCrossEntropy,
    /// mean of (y − t)²
    #[serde(alias = "mean_squared_error")]
    Mse,
    /// Σ (y − t)²
    #[serde(alias = "squared_loss")]
    L2,
    /// mean of |y − t|
    #[serde(alias = "mean_absolute_error")]
    Mae,
    /// Σ |y − t|
    L1,
    /// mean of 100 |(y − t) / t|
    #[serde(alias = "mean_absolute_percentage_error")]
    Mape,
    /// mean of (ln(1 + y) − ln(1 + t))²
    #[serde(alias = "mean_squared_logarithmic_error")]
    Msle,
    /// − t·y / (|t| |y|)
    CosineProximity,
    /// Σ max(0, 1 − t y), targets −1 and 1
    Hinge,
    /// Σ max(0, 1 − t y)², targets −1 and 1
    SquaredHinge,
    /// Σ t ln(t / y)
    #[serde(alias = "kld")]
    KlDivergence,
    /// Σ y − t ln y
    Poisson,
    /// mean of t y
    Wasserstein,
    /// mean of exp(y₀ − y₁) over all pairs of an output whose target is 0 and one whose target is 1 (Zhang and Zhou 2006)
    MultiLabel,
    /// −ln Σ π N(t; μ, σ) for a mixture of so many normal distributions: of each the share (after softmax), the logarithm of its
    /// deviation, and as many means as there are targets; first all shares, then all deviations, then all means
    MixtureDensity {
        /// Distributions.
        gaussians: usize,
    },
    /// Of boxes around things in an image; what a `yolo_output` is judged by.
    Boxes(BoxLoss),
    /// A loss of another crate.
    Custom(NamedLoss),
}

/// How boxes around things are judged.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BoxLoss {
    /// Boxes of a cell.
    pub boxes: usize,
    /// What places and sizes count.
    pub coordinates: f32,
    /// What sureness of boxes counts that answer for nothing.
    pub no_object: f32,
}

/// A loss of another crate, by name until a [`crate::Registry`] has found it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct NamedLoss {
    pub(crate) name: String,
    pub(crate) found: Option<Arc<dyn CustomLoss>>,
}

impl From<String> for NamedLoss {
    fn from(name: String) -> Self {
        Self { name, found: None }
    }
}

impl From<NamedLoss> for String {
    fn from(loss: NamedLoss) -> Self {
        loss.name
    }
}

impl PartialEq for NamedLoss {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Loss {
    /// Every loss of this crate, for tests and listings.
    pub const ALL: [Loss; 16] = [
        Loss::CrossEntropy,
        Loss::SparseCrossEntropy,
        Loss::BinaryCrossEntropy,
        Loss::Mse,
        Loss::L2,
        Loss::Mae,
        Loss::L1,
        Loss::Mape,
        Loss::Msle,
        Loss::CosineProximity,
        Loss::Hinge,
        Loss::SquaredHinge,
        Loss::KlDivergence,
        Loss::Poisson,
        Loss::Wasserstein,
        Loss::MultiLabel,
    ];

    /// A loss of another crate.
    pub fn custom(loss: impl LossFunction) -> Self {
        let name = LossFunction::name(&loss).to_owned();
        Loss::Custom(NamedLoss { name, found: Some(Arc::new(loss)) })
    }

    /// Numbers of a target for outputs of this shape: most often one for every output. Nothing where no outputs of this shape can be
    /// judged by it.
    pub fn targets(&self, outputs: Shape) -> Option<usize> {
        let steps = outputs.steps().unwrap_or(1);
        match self {
            Loss::MixtureDensity { gaussians } => {
                mixture::targets(*gaussians, outputs.len() / steps).map(|targets| steps * targets)
            }
            Loss::Boxes(BoxLoss { boxes, .. }) => match outputs {
                Shape::Image { height, width, channels } => {
                    boxes::targets(*boxes, channels).map(|targets| height * width * targets)
                }
                _ => None,
            },
            _ => Some(outputs.len()),
        }
    }

    /// What rows of outputs of this shape say of their targets, where they say it in other numbers than those.
    pub fn told(&self, shape: Shape, outputs: &[f32]) -> Option<Vec<f32>> {
        match (self, shape) {
            (Loss::MixtureDensity { gaussians }, _) => {
                let width = shape.len() / shape.steps().unwrap_or(1);
                Some(outputs.chunks_exact(width).flat_map(|row| mixture::told(*gaussians, row)).collect())
            }
            (Loss::Boxes(BoxLoss { boxes, .. }), Shape::Image { height, width, .. }) => {
                let rows = outputs.chunks_exact(shape.len());
                Some(rows.flat_map(|row| boxes::told(*boxes, [height, width], row)).collect())
            }
            _ => None,
        }
    }

    /// Whether it judges which of several classes was told, so that a target may be the number of one.
    pub fn is_of_classes(&self) -> bool {
        matches!(self, Loss::CrossEntropy | Loss::SparseCrossEntropy | Loss::Hinge | Loss::SquaredHinge)
    }

    /// Whether classes are told apart by −1 and 1 instead of 0 and 1.
    pub fn signed_targets(&self) -> bool {
        matches!(self, Loss::Hinge | Loss::SquaredHinge)
    }

    /// The least that it can be for these targets, over all outputs that sum to 1; cross-entropy less this is the
    /// Kullback-Leibler divergence.
    pub(crate) fn least<R: Real>(target: &[R]) -> R {
        let entropy = |t: R| if t > R::ZERO { -t * t.ln() } else { R::ZERO };
        target.iter().fold(R::ZERO, |sum, t| sum + entropy(*t))
    }

    /// The loss of one example; writes its slope by every output into `slope`.
    pub fn row<R: Real>(&self, target: &[R], output: &[R], slope: &mut [R]) -> R {
        let of = R::of;
        let mean = R::ONE / of(output.len() as f64);
        let each = |slope: &mut [R], f: &dyn Fn(R, R) -> (R, R)| {
            let mut sum = R::ZERO;
            for ((&t, &y), s) in target.iter().zip(output).zip(slope) {
                let (value, d) = f(t, y);
                sum += value;
                *s = d;
            }
            sum
        };
        match self {
            Loss::CrossEntropy | Loss::SparseCrossEntropy => each(slope, &|t, y| {
                let p = y.max(R::EDGE);
                (-t * p.ln(), if y >= R::EDGE { -t / p } else { R::ZERO })
            }),
            Loss::BinaryCrossEntropy => each(slope, &|t, y| {
                let (p, q) = (y.max(R::EDGE), (R::ONE - y).max(R::EDGE));
                (-t * p.ln() - (R::ONE - t) * q.ln(), (R::ONE - t) / q - t / p)
            }),
            Loss::Mse => each(slope, &|t, y| (mean * (y - t) * (y - t), of(2.0) * mean * (y - t))),
            Loss::L2 => each(slope, &|t, y| ((y - t) * (y - t), of(2.0) * (y - t))),
            Loss::Mae => each(slope, &|t, y| (mean * (y - t).abs(), mean * (y - t).sign())),
            Loss::L1 => each(slope, &|t, y| ((y - t).abs(), (y - t).sign())),
            Loss::Mape => each(slope, &|t, y| {
                let scale = of(100.0) * mean / t.abs().max(R::EDGE);
                (scale * (y - t).abs(), scale * (y - t).sign())
            }),
            Loss::Msle => each(slope, &|t, y| {
                let up = (R::ONE + y).max(R::EDGE);
                let d = up.ln() - (R::ONE + t).max(R::EDGE).ln();
                (mean * d * d, of(2.0) * mean * d / up)
            }),
            Loss::CosineProximity => {
                let (mut ty, mut tt, mut yy) = (R::ZERO, R::ZERO, R::ZERO);
                for (&t, &y) in target.iter().zip(output) {
                    ty += t * y;
                    tt += t * t;
                    yy += y * y;
                }
                let norms = (tt.sqrt() * yy.sqrt()).max(R::EDGE);
                let cosine = ty / norms;
                for ((&t, &y), s) in target.iter().zip(output).zip(slope) {
                    *s = -(t / norms - cosine * y / yy.max(R::EDGE));
                }
                -cosine
            }
            Loss::Hinge => each(slope, &|t, y| {
                let gap = R::ONE - t * y;
                if gap > R::ZERO { (gap, -t) } else { (R::ZERO, R::ZERO) }
            }),
            Loss::SquaredHinge => each(slope, &|t, y| {
                let gap = (R::ONE - t * y).max(R::ZERO);
                (gap * gap, -of(2.0) * gap * t)
            }),
            Loss::KlDivergence => each(slope, &|t, y| {
                let (ln, slope) = logarithm(y);
                if t > R::ZERO { (t * (t.ln() - ln), -t * slope) } else { (R::ZERO, R::ZERO) }
            }),
            Loss::Poisson => each(slope, &|t, y| {
                let (ln, slope) = logarithm(y);
                (y - t * ln, R::ONE - t * slope)
            }),
            Loss::Wasserstein => each(slope, &|t, y| (mean * t * y, mean * t)),
            Loss::MultiLabel => multi_label(target, output, slope),
            Loss::MixtureDensity { gaussians } => mixture::row(*gaussians, target, output, slope),
            Loss::Boxes(config) => boxes::row(*config, target, output, slope),
            Loss::Custom(NamedLoss { found, .. }) => {
                let loss = found.as_deref().expect("a network resolves its losses when it is made");
                R::custom_row(loss, target, output, slope)
            }
        }
    }
}

/// An output counts as wanted if its target is above a half. Where all or none are, each is held against 0.
fn multi_label<R: Real>(target: &[R], output: &[R], slope: &mut [R]) -> R {
    let half = R::of(0.5);
    let wanted = target.iter().filter(|t| **t > half).count();
    let others = target.len() - wanted;
    let sum = |is_wanted: bool, sign: R| {
        let of = target.iter().zip(output).filter(|(t, _)| (**t > half) == is_wanted);
        of.fold(R::ZERO, |sum, (_, y)| sum + (sign * *y).exp())
    };
    // Σ over pairs of exp(y₀ − y₁) is the product of both sums.
    let below = if others == 0 { R::ONE } else { sum(false, R::ONE) };
    let above = if wanted == 0 { R::ONE } else { sum(true, -R::ONE) };
    let scale = R::ONE / R::of((others.max(1) * wanted.max(1)) as f64);
    for ((t, y), s) in target.iter().zip(output).zip(slope) {
        *s = if *t > half { -scale * below * (-*y).exp() } else { scale * above * y.exp() };
    }
    scale * below * above
}

/// The logarithm of an output that must be positive, and its slope. What is 0 or below, where there is none, is pushed
/// up firmly, but not so hard that the network breaks.
fn logarithm<R: Real>(y: R) -> (R, R) {
    let above = y.max(R::LEAST);
    (above.ln(), R::ONE / if y > R::ZERO { above } else { R::EDGE })
}
