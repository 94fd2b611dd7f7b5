//! Chance that works on weights while a network is trained: a step sees them disturbed, and what it learns goes to the weights themselves.

use serde::{Deserialize, Serialize};

use crate::random::Counted;
use crate::{Network, Real};

/// What is done to weights for the length of a step.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum WeightNoise {
    /// Some are 0, and the others larger, so that their mean stays (Wan et al. 2013).
    DropConnect {
        /// Probability that a weight is 0.
        rate: f32,
    },
    /// Normal numbers of mean 0 are added.
    Added {
        /// Their standard deviation.
        deviation: f32,
    },
    /// They are multiplied by normal numbers of mean 1.
    Multiplied {
        /// Their standard deviation.
        deviation: f32,
    },
}

impl WeightNoise {
    /// What cannot be, if anything.
    pub(crate) fn problem(self) -> Option<String> {
        match self {
            WeightNoise::DropConnect { rate } if !(0.0..1.0).contains(&rate) => {
                Some(format!("`rate` of `drop_connect` must be 0 or more and less than 1, found {rate}"))
            }
            WeightNoise::Added { deviation } | WeightNoise::Multiplied { deviation }
                if !(deviation >= 0.0 && deviation.is_finite()) =>
            {
                Some(format!("`deviation` of `weight_noise` must be 0 or more, found {deviation}"))
            }
            _ => None,
        }
    }

    /// What a weight is multiplied by, and what is added to it.
    fn at<R: Real>(self, stream: Counted, at: usize) -> [R; 2] {
        let normal = |deviation: f32| R::of(f64::from(deviation) * stream.normal(at as u32));
        match self {
            WeightNoise::DropConnect { rate } if stream.uniform(at as u32) < rate => [R::ZERO, R::ZERO],
            WeightNoise::DropConnect { rate } => [R::of(1.0 / (1.0 - f64::from(rate))), R::ZERO],
            WeightNoise::Added { deviation } => [R::ONE, normal(deviation)],
            WeightNoise::Multiplied { deviation } => [R::ONE + normal(deviation), R::ZERO],
        }
    }
}

/// Keeps the streams apart from those of initial weights and of layers.
const WEIGHT_STREAMS: u64 = 1 << 33;

/// The weights of a network as the steps of training see them.
pub(crate) struct Disturbed<R> {
    parameters: Vec<R>,
    /// What each was multiplied by.
    factors: Vec<R>,
}

impl<R: Real> Disturbed<R> {
    /// Nothing if no layer has noise.
    pub(crate) fn new(network: &Network) -> Option<Self> {
        let has_noise = network.segments().segments().iter().any(|segment| segment.noise.is_some());
        has_noise.then(|| Self { parameters: Vec::new(), factors: Vec::new() })
    }

    /// The parameters that a step sees: all who take part in it see the same, however its examples are shared out.
    pub(crate) fn draw(&mut self, network: &Network, iteration: u64, parameters: &[R]) -> &[R] {
        self.parameters.clear();
        self.parameters.extend_from_slice(parameters);
        self.factors.resize(parameters.len(), R::ONE);
        for segment in network.segments().segments() {
            let Some(noise) = segment.noise else { continue };
            let range = segment.range.clone();
            let stream = Counted::new(network.config().seed, WEIGHT_STREAMS + range.start as u64, iteration, 0);
            let disturbed = self.parameters[range.clone()].iter_mut().zip(&mut self.factors[range]);
            for (at, (weight, kept)) in disturbed.enumerate() {
                let [factor, added] = noise.at(stream, at);
                (*weight, *kept) = (*weight * factor + added, factor);
            }
        }
        &self.parameters
    }

    /// From the gradient by the weights that the step saw to that by the weights themselves.
    pub(crate) fn pull_back(&self, gradient: &mut [R]) {
        gradient.iter_mut().zip(&self.factors).for_each(|(slope, factor)| *slope *= *factor);
    }
}
