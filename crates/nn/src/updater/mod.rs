//! What turns a gradient into an update: the rules, and the segment table that says which rule holds where.
//!
//! # Layout
//!
//! - `rule`: one loop per updater over slices of gradient and slots.
//! - `segment`: the table over the flat layout: updater, rates, decay, normalisation and constraint of each parameter.

mod rule;
mod segment;

pub(crate) use segment::UpdaterPart;
pub use segment::{Segment, SegmentTable};

use serde::{Deserialize, Serialize};

use crate::Schedule;

/// How a gradient becomes an update. Formulas are those of the papers, as PyTorch has them where it has the updater.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Updater {
    /// rate · g
    Sgd {
        /// How far a step goes.
        #[serde(default = "rate::<1>")]
        learning_rate: Schedule,
    },
    /// Momentum that looks ahead (Nesterov 1983): v ← μ v + rate · g; rate · g + μ v. The velocity holds the rate of its
    /// own steps, so a falling rate does not shrink what was gathered before (PyTorch's does).
    Nesterovs {
        /// How far a step goes.
        #[serde(default = "rate::<100>")]
        learning_rate: Schedule,
        /// Share of the last velocity that is kept.
        #[serde(default = "fixed::<900>")]
        momentum: Schedule,
    },
    /// Kingma and Ba 2014.
    Adam {
        /// How far a step goes.
        #[serde(default = "rate::<1>")]
        learning_rate: Schedule,
        /// Decay of the mean.
        #[serde(default = "beta1")]
        beta1: f64,
        /// Decay of the squares.
        #[serde(default = "beta2")]
        beta2: f64,
        /// Kept from dividing by zero.
        #[serde(default = "tiny")]
        epsilon: f64,
    },
    /// Adam with a decay beside the gradient (Loshchilov and Hutter 2017).
    #[serde(alias = "adam_w")]
    Adamw {
        /// How far a step goes.
        #[serde(default = "rate::<1>")]
        learning_rate: Schedule,
        /// Decay of the mean.
        #[serde(default = "beta1")]
        beta1: f64,
        /// Decay of the squares.
        #[serde(default = "beta2")]
        beta2: f64,
        /// Kept from dividing by zero.
        #[serde(default = "tiny")]
        epsilon: f64,
        /// The share of every parameter, biases included, that a step takes away, times the rate.
        #[serde(default = "hundredth")]
        weight_decay: f64,
    },
    /// Adam whose step is as long for each parameter as the parameter is, for large batches (You et al. 2019).
    Lamb {
        /// How far a step goes.
        #[serde(default = "rate::<1>")]
        learning_rate: Schedule,
        /// Decay of the mean.
        #[serde(default = "beta1")]
        beta1: f64,
        /// Decay of the squares.
        #[serde(default = "beta2")]
        beta2: f64,
        /// Kept from dividing by zero.
        #[serde(default = "small")]
        epsilon: f64,
        /// The share of every parameter, biases included, that a step takes away, times the rate.
        #[serde(default = "hundredth")]
        weight_decay: f64,
    },
    /// Adam with the largest magnitude instead of squares.
    #[serde(alias = "ada_max")]
    Adamax {
        /// How far a step goes.
        #[serde(default = "rate::<1>")]
        learning_rate: Schedule,
        /// Decay of the mean.
        #[serde(default = "beta1")]
        beta1: f64,
        /// Decay of the largest magnitude.
        #[serde(default = "beta2")]
        beta2: f64,
        /// Kept from dividing by zero.
        #[serde(default = "tiny")]
        epsilon: f64,
    },
    /// Adam whose squares never fall (Reddi et al. 2018).
    #[serde(alias = "ams_grad")]
    Amsgrad {
        /// How far a step goes.
        #[serde(default = "rate::<1>")]
        learning_rate: Schedule,
        /// Decay of the mean.
        #[serde(default = "beta1")]
        beta1: f64,
        /// Decay of the squares.
        #[serde(default = "beta2")]
        beta2: f64,
        /// Kept from dividing by zero.
        #[serde(default = "tiny")]
        epsilon: f64,
    },
    /// Adam that divides by the surprise (Zhuang et al. 2020).
    #[serde(alias = "ada_belief")]
    Adabelief {
        /// How far a step goes.
        #[serde(default = "rate::<1>")]
        learning_rate: Schedule,
        /// Decay of the mean.
        #[serde(default = "beta1")]
        beta1: f64,
        /// Decay of the squared surprise.
        #[serde(default = "beta2")]
        beta2: f64,
        /// Kept from dividing by zero.
        #[serde(default = "tinier")]
        epsilon: f64,
    },
    /// Steps as large as the last ones (Zeiler 2012).
    #[serde(alias = "ada_delta")]
    Adadelta {
        /// Scale of the step.
        #[serde(default = "fixed::<1000>")]
        learning_rate: Schedule,
        /// Decay of both averages.
        #[serde(default = "rho")]
        rho: f64,
        /// Kept from dividing by zero.
        #[serde(default = "small")]
        epsilon: f64,
    },
    /// Divides by the root of all squares so far (Duchi et al. 2011).
    #[serde(alias = "ada_grad")]
    Adagrad {
        /// How far a step goes.
        #[serde(default = "rate::<100>")]
        learning_rate: Schedule,
        /// Kept from dividing by zero.
        #[serde(default = "small")]
        epsilon: f64,
    },
    /// Adam with Nesterov's look ahead (Dozat 2016).
    Nadam {
        /// How far a step goes.
        #[serde(default = "rate::<1>")]
        learning_rate: Schedule,
        /// Decay of the mean.
        #[serde(default = "beta1")]
        beta1: f64,
        /// Decay of the squares.
        #[serde(default = "beta2")]
        beta2: f64,
        /// Kept from dividing by zero.
        #[serde(default = "tiny")]
        epsilon: f64,
        /// How the momentum grows over the first steps.
        #[serde(default = "momentum_decay")]
        momentum_decay: f64,
    },
    /// Divides by the root of a running mean of squares (Hinton 2012).
    #[serde(alias = "rms_prop")]
    Rmsprop {
        /// How far a step goes.
        #[serde(default = "rate::<100>")]
        learning_rate: Schedule,
        /// Decay of the mean.
        #[serde(default = "rho")]
        decay: f64,
        /// Kept from dividing by zero.
        #[serde(default = "tiny")]
        epsilon: f64,
    },
    /// Nothing is learned.
    #[serde(alias = "no_op", alias = "none")]
    Noop,
}

/// Thousandths, because a default function takes no float.
fn rate<const THOUSANDTHS: u32>() -> Schedule {
    fixed::<THOUSANDTHS>()
}
fn fixed<const THOUSANDTHS: u32>() -> Schedule {
    Schedule::Fixed(f64::from(THOUSANDTHS) / 1000.0)
}
fn beta1() -> f64 {
    0.9
}
fn beta2() -> f64 {
    0.999
}
fn rho() -> f64 {
    0.95
}
fn tiny() -> f64 {
    1e-8
}
fn tinier() -> f64 {
    1e-14
}
fn small() -> f64 {
    1e-6
}
fn hundredth() -> f64 {
    0.01
}
fn momentum_decay() -> f64 {
    0.004
}

impl Default for Updater {
    fn default() -> Self {
        Updater::Sgd { learning_rate: rate::<1>() }
    }
}

impl Updater {
    /// Plain gradient descent.
    pub fn sgd(learning_rate: impl Into<Schedule>) -> Self {
        Updater::Sgd { learning_rate: learning_rate.into() }
    }

    /// Nesterov's momentum.
    pub fn nesterovs(learning_rate: impl Into<Schedule>, momentum: f64) -> Self {
        Updater::Nesterovs { learning_rate: learning_rate.into(), momentum: Schedule::Fixed(momentum) }
    }

    /// Adam with its usual settings.
    pub fn adam(learning_rate: impl Into<Schedule>) -> Self {
        Updater::Adam { learning_rate: learning_rate.into(), beta1: beta1(), beta2: beta2(), epsilon: tiny() }
    }

    /// Adam with a decay beside the gradient.
    pub fn adamw(learning_rate: impl Into<Schedule>, weight_decay: f64) -> Self {
        let learning_rate = learning_rate.into();
        Updater::Adamw { learning_rate, beta1: beta1(), beta2: beta2(), epsilon: tiny(), weight_decay }
    }

    /// Adam whose steps are as long as the parameters are.
    pub fn lamb(learning_rate: impl Into<Schedule>, weight_decay: f64) -> Self {
        let learning_rate = learning_rate.into();
        Updater::Lamb { learning_rate, beta1: beta1(), beta2: beta2(), epsilon: small(), weight_decay }
    }

    /// The share of every parameter that a step takes away, times the rate.
    pub(crate) fn own_decay(&self) -> f64 {
        match self {
            Updater::Adamw { weight_decay, .. } | Updater::Lamb { weight_decay, .. } => *weight_decay,
            _ => 0.0,
        }
    }

    /// Whether a step is as long as the parameter is: it must be seen as a whole.
    pub(crate) fn needs_norm(&self) -> bool {
        matches!(self, Updater::Lamb { .. })
    }

    /// What is wrong with the settings, if anything.
    pub(crate) fn problem(&self) -> Option<String> {
        if let Some(problem) = self.learning_rate().and_then(|rate| rate.problem("learning_rate", f64::INFINITY)) {
            return Some(problem);
        }
        let share = |key, value: f64| {
            (!(0.0..1.0).contains(&value)).then(|| format!("`{key}` must be 0 or more and less than 1, found {value}"))
        };
        // What is 0 as an `f32` would divide by 0 where no gradient has come yet.
        let divisor = |value: f64| {
            let fine = value as f32 > 0.0 && (value as f32).is_finite();
            (!fine).then(|| format!("`epsilon` must be above 0 (as a 32-bit number), found {value}"))
        };
        match self {
            Updater::Sgd { .. } | Updater::Noop => None,
            Updater::Nesterovs { momentum, .. } => momentum.problem("momentum", 1.0),
            Updater::Adam { beta1, beta2, epsilon, .. }
            | Updater::Adamax { beta1, beta2, epsilon, .. }
            | Updater::Amsgrad { beta1, beta2, epsilon, .. }
            | Updater::Adabelief { beta1, beta2, epsilon, .. } => {
                share("beta1", *beta1).or_else(|| share("beta2", *beta2)).or_else(|| divisor(*epsilon))
            }
            Updater::Adamw { beta1, beta2, epsilon, weight_decay, .. }
            | Updater::Lamb { beta1, beta2, epsilon, weight_decay, .. } => share("beta1", *beta1)
                .or_else(|| share("beta2", *beta2))
                .or_else(|| divisor(*epsilon))
                .or_else(|| Schedule::Fixed(*weight_decay).problem("weight_decay", f64::INFINITY)),
            Updater::Nadam { beta1, beta2, epsilon, momentum_decay, .. } => share("beta1", *beta1)
                .or_else(|| share("beta2", *beta2))
                .or_else(|| divisor(*epsilon))
                .or_else(|| Schedule::Fixed(*momentum_decay).problem("momentum_decay", f64::INFINITY)),
            Updater::Adadelta { rho, epsilon, .. } => share("rho", *rho).or_else(|| divisor(*epsilon)),
            Updater::Adagrad { epsilon, .. } => divisor(*epsilon),
            Updater::Rmsprop { decay, epsilon, .. } => share("decay", *decay).or_else(|| divisor(*epsilon)),
        }
    }

    /// The names of what it remembers, one slot each.
    pub fn slots(&self) -> &'static [&'static str] {
        match self {
            Updater::Sgd { .. } | Updater::Noop => &[],
            Updater::Nesterovs { .. } => &["momentum"],
            Updater::Adam { .. } | Updater::Adamw { .. } | Updater::Lamb { .. } | Updater::Nadam { .. } => {
                &["mean", "square"]
            }
            Updater::Adamax { .. } => &["mean", "largest"],
            Updater::Adabelief { .. } => &["mean", "surprise"],
            Updater::Amsgrad { .. } => &["mean", "square", "largest_square"],
            Updater::Adadelta { .. } => &["square", "square_step"],
            Updater::Adagrad { .. } | Updater::Rmsprop { .. } => &["square"],
        }
    }

    /// The learning rate of this updater; what never learns has none.
    pub fn learning_rate(&self) -> Option<&Schedule> {
        match self {
            Updater::Sgd { learning_rate }
            | Updater::Nesterovs { learning_rate, .. }
            | Updater::Adam { learning_rate, .. }
            | Updater::Adamw { learning_rate, .. }
            | Updater::Lamb { learning_rate, .. }
            | Updater::Adamax { learning_rate, .. }
            | Updater::Amsgrad { learning_rate, .. }
            | Updater::Adabelief { learning_rate, .. }
            | Updater::Adadelta { learning_rate, .. }
            | Updater::Adagrad { learning_rate, .. }
            | Updater::Nadam { learning_rate, .. }
            | Updater::Rmsprop { learning_rate, .. } => Some(learning_rate),
            Updater::Noop => None,
        }
    }
}
