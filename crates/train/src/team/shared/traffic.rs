use paceline_exchange::{Clipped, Encoder, Form, Sent};
use paceline_model::Flat;
use serde::{Deserialize, Serialize};

/// What a replica has sent in the steps since it was last asked, and what it keeps back.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Traffic {
    /// The share of the parameters that a step sent, in the mean.
    pub sparsity: f64,
    /// From what size on the last step sent an element.
    pub threshold: f32,
    /// The square root of the sum of the squares of what was not sent yet.
    pub residual_norm: f64,
    /// The sum of the magnitudes of what was not sent yet: what would be lost with the replica.
    pub residual_mass: f64,
    /// Bytes that a step sent, in the mean.
    pub bytes_per_step: f64,
    /// How the last message was written, if there was any.
    pub form: Option<Form>,
    /// The sum of the magnitudes that clipping took from the residual, and that are lost.
    pub clipped: f64,
}

/// What the steps since the last report add up to.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    steps: u64,
    sparsity: f64,
    bytes: u64,
    threshold: f32,
    form: Option<Form>,
    clipped: f64,
}

impl Tally {
    /// A step. What sends no element is no message.
    pub(crate) fn add(&mut self, sent: &Sent) {
        self.steps += 1;
        self.threshold = sent.threshold;
        if sent.count > 0 {
            self.sparsity += sent.sparsity();
            self.bytes += sent.bytes as u64;
            self.form = Some(sent.form);
        }
    }

    /// What was taken from the residual.
    pub(crate) fn clip(&mut self, clipped: Clipped) {
        self.clipped += clipped.mass;
    }

    /// The report, and a new beginning; nothing to report without a step.
    pub(crate) fn take(&mut self, encoder: &Encoder<Flat>) -> Option<Traffic> {
        let Self { steps, sparsity, bytes, threshold, form, clipped } = std::mem::take(self);
        let norms = if steps > 0 { encoder.norms() } else { return None };
        Some(Traffic {
            sparsity: sparsity / steps as f64,
            threshold,
            residual_norm: norms.l2,
            residual_mass: norms.l1,
            bytes_per_step: bytes as f64 / steps as f64,
            form,
            clipped,
        })
    }
}

#[cfg(test)]
mod tests {
    use paceline_exchange::{Encoder, Form};
    use paceline_model::Flat;

    use super::{Tally, Traffic};

    #[test]
    fn a_report_is_the_mean_since_the_last_one() {
        let (mut tally, mut message) = (Tally::default(), Vec::new());
        let mut encoder = Encoder::new(Flat::zeros(4)).expect("a short residual");
        assert_eq!(tally.take(&encoder), None);
        let mut bytes = 0;
        for (update, threshold) in [([1.0, 0.0, -1.0, 0.0], 0.5), ([0.0, 0.0, 0.0, 0.1], 2.0)] {
            let sent = encoder.encode(&update, threshold, &mut message).expect("a finite update");
            bytes += if sent.count > 0 { message.len() } else { 0 };
            tally.add(&sent);
        }
        let traffic = tally.take(&encoder).expect("two steps");
        let residual_norm = (0.5f64 + f64::from(0.1f32).powi(2)).sqrt();
        let residual_mass = 1.0 + f64::from(0.1f32);
        let (bytes_per_step, form) = (bytes as f64 / 2.0, Some(Form::Sparse));
        assert_eq!(
            traffic,
            Traffic {
                sparsity: 0.25,
                threshold: 2.0,
                residual_norm,
                residual_mass,
                bytes_per_step,
                form,
                clipped: 0.0
            }
        );
        assert_eq!(tally.take(&encoder), None);
    }
}
