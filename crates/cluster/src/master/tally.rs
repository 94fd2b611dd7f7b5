//! What is told of how training goes: losses and speed, from what members report.

use paceline_exchange::rounds::Now;
use paceline_train::Event;

/// Steps are told at most this often, in milliseconds.
const TELL_EVERY: Now = 100;

/// Sums since something was last told, since the epoch began, and of the whole run.
pub(super) struct Tally {
    began: Now,
    told: Option<Now>,
    counted_since: u64,
    loss: (f64, f64),
    epoch_loss: (f64, f64),
    epoch_began: Now,
    epoch_examples: u64,
    pub examples: u64,
    pub bytes_sent: u64,
}

impl Tally {
    pub(super) fn new(now: Now) -> Self {
        Self {
            began: now,
            told: None,
            counted_since: 0,
            loss: (0.0, 0.0),
            epoch_loss: (0.0, 0.0),
            epoch_began: now,
            epoch_examples: 0,
            examples: 0,
            bytes_sent: 0,
        }
    }

    pub(super) fn report(&mut self, loss: f64, weight: f64, bytes_sent: u64) {
        for (sum, of) in [&mut self.loss, &mut self.epoch_loss].map(|(sum, of)| (sum, of)) {
            *sum += loss;
            *of += weight;
        }
        self.bytes_sent += bytes_sent;
    }

    /// A round counts; says the step that is due to be told.
    pub(super) fn count(&mut self, epoch: u64, step: u64, iteration: u64, examples: u64, now: Now) -> Option<Event> {
        self.examples += examples;
        self.epoch_examples += examples;
        self.counted_since += examples;
        let since = now.saturating_sub(self.told.unwrap_or(self.began));
        if self.told.is_some() && since < TELL_EVERY || self.loss.1 == 0.0 {
            return None;
        }
        let examples_per_second = self.counted_since as f64 / (since as f64 / 1e3).max(1e-3);
        let loss = self.loss.0 / self.loss.1;
        (self.told, self.counted_since, self.loss) = (Some(now), 0, (0.0, 0.0));
        Some(Event::Step { epoch: epoch + 1, step: step + 1, iteration, loss, examples_per_second })
    }

    /// Examples that were counted come again.
    pub(super) fn take_back(&mut self, examples: u64) {
        self.examples -= examples.min(self.examples);
        self.epoch_examples -= examples.min(self.epoch_examples);
    }

    pub(super) fn epoch_ends(&mut self, epoch: u64, now: Now) -> Event {
        let seconds = now.saturating_sub(self.epoch_began) as f64 / 1e3;
        // Not a number if nobody has reported since the last epoch ended: they do so now and then only.
        let loss = self.epoch_loss.0 / self.epoch_loss.1;
        let examples_per_second = self.epoch_examples as f64 / seconds.max(1e-3);
        (self.epoch_began, self.epoch_examples, self.epoch_loss) = (now, 0, (0.0, 0.0));
        Event::Epoch { epoch: epoch + 1, loss, seconds, examples_per_second }
    }

    pub(super) fn seconds(&self, now: Now) -> f64 {
        now.saturating_sub(self.began) as f64 / 1e3
    }
}
