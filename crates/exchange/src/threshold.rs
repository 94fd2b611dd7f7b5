use serde::{Deserialize, Serialize};

use crate::quantile::magnitude_of_share;
use crate::{Error, Sent};

/// How the threshold of a worker is set. A sparsity is the share of all elements that a message sends.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ThresholdPolicy {
    /// The same always.
    Fixed {
        /// The threshold.
        threshold: f32,
    },
    /// Multiplied by `step` after a message that sent more than `maximum_sparsity`, divided by it after one that sent
    /// less than `minimum_sparsity`: the rule of DL4J.
    Adaptive {
        /// The threshold of the first message; found from the first update if it is not given.
        #[serde(default)]
        first: Option<f32>,
        /// The share below which the threshold falls.
        minimum_sparsity: f64,
        /// The share above which it rises.
        maximum_sparsity: f64,
        /// The factor of one change, above 1.
        step: f32,
    },
    /// Moved toward the threshold that sends this share: the further away, the faster, from the first update on.
    TargetSparsity {
        /// The share to send; of a small network more, at least 32 elements.
        sparsity: f64,
    },
}

impl Default for ThresholdPolicy {
    /// One element in a thousand: LeNet on MNIST, 3 epochs, mean of 3 seeds, was at 0.9883 with 4 workers that apply the
    /// mean of their updates and at 0.9884 with 8, where one worker is at 0.9891, on 2,470 times fewer bytes than dense
    /// gradients.
    fn default() -> Self {
        ThresholdPolicy::TargetSparsity { sparsity: 1e-3 }
    }
}

impl ThresholdPolicy {
    /// Fails with the setting that makes no sense.
    pub fn validate(&self) -> Result<(), Error> {
        let share = |setting, found: f64| match found > 0.0 && found <= 1.0 {
            true => Ok(()),
            false => Err(Error::BadSetting { setting, expected: "above 0 and at most 1", found }),
        };
        let above = |setting, expected, least: f32, found: f32| match found.is_finite() && found > least {
            true => Ok(()),
            false => Err(Error::BadSetting { setting, expected, found: f64::from(found) }),
        };
        match *self {
            ThresholdPolicy::Fixed { threshold } => above("threshold", "finite and above 0", 0.0, threshold),
            ThresholdPolicy::Adaptive { first, minimum_sparsity, maximum_sparsity, step } => {
                above("first", "finite and above 0", 0.0, first.unwrap_or(1.0))?;
                share("minimum_sparsity", minimum_sparsity)?;
                share("maximum_sparsity", maximum_sparsity)?;
                above("step", "finite and above 1", 1.0, step)?;
                if minimum_sparsity > maximum_sparsity {
                    let expected = "at most `maximum_sparsity`";
                    return Err(Error::BadSetting { setting: "minimum_sparsity", expected, found: minimum_sparsity });
                }
                Ok(())
            }
            ThresholdPolicy::TargetSparsity { sparsity } => share("sparsity", sparsity),
        }
    }

    /// The share that the first threshold should send: in the middle of a band, by factors.
    fn first_share(&self, elements: usize) -> f64 {
        match *self {
            ThresholdPolicy::Fixed { .. } => 1.0,
            ThresholdPolicy::Adaptive { minimum_sparsity, maximum_sparsity, .. } => {
                (minimum_sparsity * maximum_sparsity).sqrt()
            }
            ThresholdPolicy::TargetSparsity { sparsity } => wanted(sparsity, elements),
        }
    }

    /// What the threshold is multiplied by after a message that sent the share `found`.
    fn factor_after(&self, sent: &Sent) -> f32 {
        let found = sent.sparsity();
        match *self {
            ThresholdPolicy::Fixed { .. } => 1.0,
            ThresholdPolicy::Adaptive { maximum_sparsity, step, .. } if found > maximum_sparsity => step,
            ThresholdPolicy::Adaptive { minimum_sparsity, step, .. } if found < minimum_sparsity => 1.0 / step,
            ThresholdPolicy::Adaptive { .. } => 1.0,
            ThresholdPolicy::TargetSparsity { sparsity } => {
                let sparsity = wanted(sparsity, sent.elements);
                let gain = GAIN.min(LARGEST_FALL / sparsity);
                (1.0 + gain * (found - sparsity)).min(LARGEST_RISE) as f32
            }
        }
    }
}

/// A target asks for at least so many elements of a message, unless they are more than a tenth of all.
///
/// Two workers on digits, 2,410 parameters, were at 0.68 after two epochs with two elements a message, at 0.84 with 16, at
/// 0.85 with 32 and with 64; one worker alone was at 0.86.
const FEWEST: usize = 32;

/// The share to send of so many elements.
fn wanted(sparsity: f64, elements: usize) -> f64 {
    sparsity.max((FEWEST as f64 / elements.max(1) as f64).min(0.1))
}

/// How much of a threshold is added for a share that was sent too much.
///
/// The residuals of elements that drift lie evenly between 0 and the threshold, so that raising it by a share of itself
/// keeps back about that share of the elements, and lowering it sends them. Hence the change follows the difference of
/// the shares and not their ratio: at a target of 1e-3 a change by 3 % is thirty messages at once, and a rule that
/// makes it sends bursts. By how much less than evenly the residuals lie is the gain; of 1 to 128, tried on layers five
/// times apart behind a momentum, 32 came to its target soonest without bursts.
const GAIN: f64 = 32.0;

/// The most that a threshold loses, and the most that it is multiplied by, after one message.
const LARGEST_FALL: f64 = 1.0 / 16.0;
const LARGEST_RISE: f64 = 2.0;

/// The threshold of one worker as the run goes on; a checkpoint keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Threshold {
    policy: ThresholdPolicy,
    /// `None` until there was an update to find it from.
    current: Option<f32>,
}

/// The share from which on a threshold is no measure of anything: it is then found anew from the next update.
const FAR_TOO_MANY: f64 = 0.5;

impl Threshold {
    /// The threshold before the first update.
    pub fn new(policy: ThresholdPolicy) -> Result<Self, Error> {
        policy.validate()?;
        let current = match policy {
            ThresholdPolicy::Fixed { threshold } => Some(threshold),
            ThresholdPolicy::Adaptive { first, .. } => first,
            ThresholdPolicy::TargetSparsity { .. } => None,
        };
        Ok(Self { policy, current })
    }

    /// The same for a worker that goes on with the threshold that it had; a fixed one stays as the policy says.
    #[must_use]
    pub fn resumed(self, had: Option<f32>) -> Self {
        let is_fixed = matches!(self.policy, ThresholdPolicy::Fixed { .. });
        let had = had.filter(|had| had.is_finite() && *had > 0.0 && !is_fixed);
        Self { current: had.or(self.current), ..self }
    }

    /// The threshold to encode `update` with.
    ///
    /// The first one is the magnitude that the wanted share of the update's elements, zeros left out, would reach. An
    /// update of zeros gives the largest number there is, with which nothing is sent, and the next is asked again.
    pub fn for_update(&mut self, update: &[f32]) -> f32 {
        if self.current.is_none() {
            self.current = magnitude_of_share(update, self.policy.first_share(update.len()));
        }
        self.current.unwrap_or(f32::MAX)
    }

    /// The threshold of the next message, if it is known already.
    pub fn current(&self) -> Option<f32> {
        self.current
    }

    /// Learns from what the last threshold has sent. Dense messages teach nothing.
    pub fn observe(&mut self, sent: &Sent) {
        let (Some(current), true) = (self.current, sent.threshold > 0.0) else { return };
        let factor = self.policy.factor_after(sent);
        let is_lost = sent.sparsity() > FAR_TOO_MANY && factor > 1.0;
        self.current = (!is_lost).then_some((current * factor).clamp(f32::MIN_POSITIVE, f32::MAX));
    }
}

#[cfg(test)]
mod tests {
    use super::{Threshold, ThresholdPolicy};
    use crate::{Form, Sent};

    const ADAPTIVE: ThresholdPolicy =
        ThresholdPolicy::Adaptive { first: Some(0.5), minimum_sparsity: 1e-3, maximum_sparsity: 1e-2, step: 2.0 };

    fn sent(count: usize, threshold: f32) -> Sent {
        Sent { form: Form::Sparse, elements: 10_000, count, threshold, bytes: 0 }
    }

    fn after(policy: ThresholdPolicy, found: &[usize]) -> Option<f32> {
        let mut threshold = Threshold::new(policy).expect("a good policy");
        for found in found {
            let current = threshold.for_update(&[1.0; 4]);
            threshold.observe(&sent(*found, current));
        }
        threshold.current()
    }

    #[test]
    fn a_fixed_threshold_stays() {
        assert_eq!(after(ThresholdPolicy::Fixed { threshold: 0.25 }, &[0, 10_000, 10]), Some(0.25));
    }

    #[test]
    fn an_adaptive_one_moves_only_outside_its_band() {
        assert_eq!(after(ADAPTIVE, &[10, 50, 100]), Some(0.5));
        assert_eq!(after(ADAPTIVE, &[101, 101]), Some(2.0));
        assert_eq!(after(ADAPTIVE, &[9]), Some(0.25));
    }

    #[test]
    fn a_target_pulls_from_both_sides_and_harder_from_afar() {
        let policy = ThresholdPolicy::TargetSparsity { sparsity: 1e-2 };
        let [none, right, more, many] = [0, 100, 200, 3000].map(|found| after(policy, &[found]).expect("a threshold"));
        assert!(none < 1.0 && right == 1.0 && more > 1.0 && many > more, "{none} {right} {more} {many}");
        assert_eq!(many, 2.0);
    }

    #[test]
    fn a_small_network_sends_more_than_its_share() {
        let sent = |elements, count| Sent { elements, ..sent(count, 1.0) };
        let policy = ThresholdPolicy::default();
        assert_eq!(policy.factor_after(&sent(100_000, 100)), 1.0);
        assert_eq!(policy.factor_after(&sent(2_000, 32)), 1.0);
        assert!(policy.factor_after(&sent(2_000, 20)) < 1.0);
        assert_eq!(policy.factor_after(&sent(40, 4)), 1.0, "a tenth is enough");
        let update: Vec<f32> = (1..=1000).map(|i| i as f32).collect();
        let first = Threshold::new(policy).expect("a good policy").for_update(&update);
        let reached = update.iter().filter(|value| **value >= first).count();
        assert!((32..=40).contains(&reached), "{reached} reach {first}");
    }

    #[test]
    fn the_first_one_comes_from_the_first_update_that_is_not_zero() {
        let mut threshold = Threshold::new(ThresholdPolicy::default()).expect("a good policy");
        assert_eq!(threshold.for_update(&[0.0; 10]), f32::MAX);
        threshold.observe(&sent(0, f32::MAX));
        assert_eq!(threshold.current(), None);
        assert_eq!(threshold.for_update(&[0.0, -0.25, 0.125]), 0.25);
        assert_eq!(threshold.for_update(&[9.0; 3]), 0.25);
    }

    #[test]
    fn one_that_sends_almost_everything_is_found_anew() {
        assert_eq!(after(ThresholdPolicy::default(), &[9_000]), None);
        assert_eq!(after(ADAPTIVE, &[9_000]), None);
    }

    #[test]
    fn dense_messages_teach_nothing() {
        let mut threshold = Threshold::new(ADAPTIVE).expect("a good policy");
        threshold.observe(&sent(10_000, 0.0));
        assert_eq!(threshold.current(), Some(0.5));
    }

    #[test]
    fn a_checkpoint_keeps_it_to_the_bit() {
        for policy in [ThresholdPolicy::default(), ADAPTIVE, ThresholdPolicy::Fixed { threshold: 0.1 }] {
            let mut threshold = Threshold::new(policy).expect("a good policy");
            let update: Vec<f32> = (1..100).map(|i| 1.0 / i as f32).collect();
            let current = threshold.for_update(&update);
            threshold.observe(&sent(37, current));
            let kept = serde_json::to_string(&threshold).expect("numbers and names");
            assert_eq!(serde_json::from_str::<Threshold>(&kept).expect("what was written"), threshold);
        }
    }

    #[test]
    fn policies_are_written_as_tables() {
        let policy: ThresholdPolicy =
            serde_json::from_str(r#"{"adaptive": {"minimum_sparsity": 1e-4, "maximum_sparsity": 1e-2, "step": 1.05}}"#)
                .expect("a policy");
        let expected =
            ThresholdPolicy::Adaptive { first: None, minimum_sparsity: 1e-4, maximum_sparsity: 1e-2, step: 1.05 };
        assert_eq!(policy, expected);
        assert!(serde_json::from_str::<ThresholdPolicy>(r#"{"fixed": {"treshold": 1}}"#).is_err());
    }

    #[test]
    fn settings_that_make_no_sense_are_named() {
        let error = |policy| Threshold::new(policy).expect_err("a bad policy").to_string();
        assert_eq!(
            error(ThresholdPolicy::Fixed { threshold: 0.0 }),
            "`threshold`: expected finite and above 0, found 0"
        );
        assert_eq!(
            error(ThresholdPolicy::TargetSparsity { sparsity: 2.0 }),
            "`sparsity`: expected above 0 and at most 1, found 2"
        );
        let adaptive = |minimum_sparsity, step| {
            error(ThresholdPolicy::Adaptive { first: None, minimum_sparsity, maximum_sparsity: 0.1, step })
        };
        assert_eq!(adaptive(0.2, 1.5), "`minimum_sparsity`: expected at most `maximum_sparsity`, found 0.2");
        assert_eq!(adaptive(0.01, 1.0), "`step`: expected finite and above 1, found 1");
    }
}
