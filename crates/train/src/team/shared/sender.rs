//! Makes messages of updates: what has grown large is sent, the rest stays.

use std::ops::Range;

use paceline_exchange::sharing::Encodes;
use paceline_exchange::{Clipping, Encoder, Sent, Threshold, add_into, decode_into};
use paceline_model::Flat;

use super::traffic::{Tally, Traffic};
use super::{Memory, Shake, SharedOptions};
use crate::Error;

/// A threshold that nothing reaches.
const UNREACHED: f32 = f32::MAX;

/// Names of what a checkpoint keeps of a replica.
pub(crate) const RESIDUAL: &str = "residual";
const THRESHOLD: &str = "threshold";

/// The residual of a replica, and how much of it is sent.
///
/// The sum of all updates is that of all messages, of the residual and of what clipping took and told.
pub(crate) struct UpdateSender {
    encoder: Encoder<Flat>,
    threshold: Threshold,
    clipping: Option<Clipping>,
    shake: Option<Shake>,
    /// What an update counts for in the message that is being made.
    share: f32,
    /// The first update, as long as there is no threshold: it is found from the whole.
    first: Vec<f32>,
    message: Vec<u8>,
    /// Messages that were made.
    steps: u64,
    tally: Tally,
}

impl UpdateSender {
    /// That of a replica with so many parameters.
    pub(crate) fn new(options: &SharedOptions, parameters: usize) -> Result<Self, Error> {
        Ok(Self {
            encoder: Encoder::new(Flat::zeros(parameters))?,
            threshold: Threshold::new(options.threshold)?,
            clipping: options.clipping,
            shake: options.shake,
            share: 1.0,
            first: Vec::new(),
            message: Vec::new(),
            steps: 0,
            tally: Tally::default(),
        })
    }

    /// Begins a message; the update comes in parts and counts for a share of what it is.
    pub(crate) fn begin(&mut self, share: f32, encodes: Encodes) -> Result<(), Error> {
        self.share = share;
        let reached = match encodes {
            Encodes::Nothing => Some(UNREACHED),
            _ => self.threshold.current().map(|threshold| threshold / self.shaken().unwrap_or(1.0)),
        };
        match reached {
            Some(reached) => self.encoder.begin(reached)?,
            None => self.first = vec![0.0; self.encoder.residual().len()],
        }
        Ok(())
    }

    /// What is read when a part of the update is taken.
    pub(crate) fn residual_of(&self, part: Range<usize>) -> &[f32] {
        &self.encoder.residual()[part]
    }

    /// Takes a part of the update.
    pub(crate) fn take(&mut self, part: Range<usize>, update: &[f32]) {
        match self.first.is_empty() {
            true => self.encoder.absorb(part.start, update, self.share),
            false => {
                let share = self.share;
                self.first[part].iter_mut().zip(update).for_each(|(first, update)| *first = *update * share);
            }
        }
    }

    /// The update is whole: makes the message, and says what it sends; none if it was to send nothing.
    pub(crate) fn end(&mut self, encodes: Encodes) -> Result<Option<Sent>, Error> {
        let sent = match std::mem::take(&mut self.first) {
            first if first.is_empty() => self.encoder.finish(&mut self.message)?,
            first => self.encoder.encode(&first, self.threshold.for_update(&first), &mut self.message)?,
        };
        match encodes {
            Encodes::Nothing => return Ok(None),
            // What a smaller threshold sends teaches nothing of the usual one.
            Encodes::Large if self.shaken().is_some() => {}
            Encodes::Large => self.threshold.observe(&sent),
            Encodes::Everything => return self.send_the_rest(encodes).map(Some),
        }
        Ok(Some(self.note(sent)))
    }

    /// A message without an update: of what has grown large, or of everything.
    pub(crate) fn send_the_rest(&mut self, encodes: Encodes) -> Result<Sent, Error> {
        let nothing = vec![0.0; self.encoder.residual().len()];
        let sent = match (encodes, self.threshold.current()) {
            (Encodes::Everything, _) => self.encoder.encode_dense(&nothing, &mut self.message)?,
            (_, threshold) => self.encoder.encode(&nothing, threshold.unwrap_or(UNREACHED), &mut self.message)?,
        };
        Ok(self.note(sent))
    }

    /// What the threshold of the next message is divided by, if it is one that lets small updates through.
    fn shaken(&self) -> Option<f32> {
        self.shake.filter(|shake| self.steps % shake.every == shake.every - 1).map(|shake| shake.by)
    }

    fn note(&mut self, sent: Sent) -> Sent {
        self.tally.add(&sent);
        let usual = sent.threshold * self.shaken().unwrap_or(1.0);
        if let Some(limit) = self.clipping.and_then(|clipping| clipping.limit_after(self.steps, usual)) {
            self.tally.clip(self.encoder.clip(limit));
        }
        self.steps += 1;
        sent
    }

    /// The last message.
    pub(crate) fn message(&self) -> &[u8] {
        &self.message
    }

    /// Applies the last message to the replica's own parameters: what is sent is what moves them, here as at the others.
    pub(crate) fn apply(&self, parameters: &mut [f32]) -> Result<(), Error> {
        decode_into(&self.message, parameters, 1.0)?;
        Ok(())
    }

    /// Messages that were made.
    pub(crate) fn steps(&self) -> u64 {
        self.steps
    }

    /// What was sent since this was last asked, and what is kept back.
    pub(crate) fn traffic(&mut self) -> Option<Traffic> {
        self.tally.take(&self.encoder)
    }

    /// What a checkpoint keeps.
    pub(crate) fn memory(&self) -> Memory {
        let threshold = self.threshold.current().into_iter().collect();
        [(RESIDUAL.to_owned(), self.encoder.residual().to_vec()), (THRESHOLD.to_owned(), threshold)].into()
    }

    /// Goes on as one of so many replicas from what all had kept. Fewer than there were take over what the others had not
    /// sent; nothing is lost.
    pub(crate) fn resume(&mut self, kept: &[Memory], me: usize, replicas: usize) -> Result<(), Error> {
        let length = self.encoder.residual().len();
        let mut residual = Flat::zeros(length);
        let mine = kept.iter().skip(me).step_by(replicas).filter_map(|memory| memory.get(RESIDUAL));
        for kept in mine.filter(|kept| kept.len() == length) {
            residual.iter_mut().zip(kept).for_each(|(sum, kept)| *sum += kept);
        }
        self.encoder = Encoder::new(residual)?;
        let threshold = kept.get(me).and_then(|memory| memory.get(THRESHOLD)?.first());
        self.threshold = self.threshold.resumed(threshold.copied());
        Ok(())
    }

    /// Takes messages back that do not count any more; without any list the residual is emptied.
    pub(crate) fn take_back(&mut self, void: Option<&[&[u8]]>) -> Result<(), Error> {
        let mut residual = match void {
            Some(_) => Flat::from_slice(self.encoder.residual()),
            None => Flat::zeros(self.encoder.residual().len()),
        };
        for message in void.unwrap_or_default() {
            add_into(message, &mut residual)?;
        }
        self.encoder = Encoder::new(residual)?;
        Ok(())
    }

    #[cfg(test)]
    pub(crate) fn residual(&self) -> &[f32] {
        self.encoder.residual()
    }

    #[cfg(test)]
    pub(crate) fn has_threshold(&self) -> bool {
        self.threshold.current().is_some()
    }
}

#[cfg(test)]
mod tests {
    use paceline_exchange::ThresholdPolicy;
    use paceline_exchange::sharing::Encodes;

    use super::UpdateSender;
    use crate::{Shake, SharedOptions};

    #[test]
    fn every_so_many_messages_let_small_updates_through() {
        let threshold = ThresholdPolicy::Fixed { threshold: 1.0 };
        let shake = Some(Shake { every: 3, by: 10.0 });
        let options = SharedOptions { threshold, shake, ..SharedOptions::default() };
        let mut sender = UpdateSender::new(&options, 8).expect("a sender");
        let mut counts = Vec::new();
        for _ in 0..6 {
            sender.begin(1.0, Encodes::Large).expect("a message");
            sender.take(0..8, &[0.05; 8]);
            counts.push(sender.end(Encodes::Large).expect("a message").expect("it is sent").count);
        }
        // What was too small for the others has come to more than a tenth of the threshold by then.
        assert_eq!(counts, [0, 0, 8, 0, 0, 8]);
    }

    #[test]
    fn what_a_smaller_threshold_sends_does_not_move_the_usual_one() {
        let after = |shake: Option<Shake>| {
            let threshold = ThresholdPolicy::Adaptive {
                first: Some(1.0),
                minimum_sparsity: 1e-3,
                maximum_sparsity: 0.5,
                step: 2.0,
            };
            let options = SharedOptions { threshold, shake, ..SharedOptions::default() };
            let mut sender = UpdateSender::new(&options, 8).expect("a sender");
            sender.begin(1.0, Encodes::Large).expect("a message");
            sender.take(0..8, &[0.5; 8]);
            sender.end(Encodes::Large).expect("a message");
            sender.threshold.current()
        };
        assert_eq!(after(None), Some(0.5), "nothing was sent");
        assert_eq!(after(Some(Shake { every: 1, by: 4.0 })), Some(1.0));
    }
}
