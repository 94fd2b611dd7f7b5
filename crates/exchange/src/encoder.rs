use std::ops::DerefMut;

use crate::form::{Form, bitmap, dense, sparse};
use crate::header::{Header, is_threshold};
use crate::kernel::{Absorbed, Rule, absorb};
use crate::marks::Marks;
use crate::{Clipped, Error, Instructions, Norms, residual};

/// Turns updates into messages, and keeps what they did not carry.
///
/// At any time the sum of all updates is the sum of all messages plus the residual, but for one rounding of each
/// addition and each subtraction, and for what [`Encoder::clip`] says that it took away.
///
/// The residual lies in whatever memory it is given.
#[derive(Clone, Debug)]
pub struct Encoder<R = Vec<f32>> {
    residual: R,
    /// Of the update that comes in parts: what is sent of it.
    marks: Marks,
    /// Of the update that comes in parts: its threshold, and what was found in it so far.
    parts: Option<(f32, Absorbed)>,
    instructions: Instructions,
}

/// What a message carries.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sent {
    /// How it is written.
    pub form: Form,
    /// The number of elements that it is about.
    pub elements: usize,
    /// The number of elements that it sends.
    pub count: usize,
    /// What it sends of each, but for the sign; 0 if it is dense.
    pub threshold: f32,
    /// Its length.
    pub bytes: usize,
}

impl Sent {
    /// The share of all elements that is sent.
    pub fn sparsity(&self) -> f64 {
        self.count as f64 / self.elements.max(1) as f64
    }
}

impl<R: DerefMut<Target = [f32]>> Encoder<R> {
    /// An encoder that goes on from `residual`: zeros at first, or what a checkpoint kept.
    pub fn new(residual: R) -> Result<Self, Error> {
        Self::with_instructions(residual, Instructions::detect())
    }

    /// As [`Encoder::new`], for comparing instruction sets; all of them give the same bits.
    pub fn with_instructions(residual: R, instructions: Instructions) -> Result<Self, Error> {
        if u32::try_from(residual.len()).is_err() {
            return Err(Error::TooManyElements { found: residual.len() });
        }
        finite("residual", &residual)?;
        let marks = Marks::default();
        Ok(Self { residual, marks, parts: None, instructions })
    }

    /// What was put in and not sent yet.
    pub fn residual(&self) -> &[f32] {
        &self.residual
    }

    /// Adds `update` to the residual, and puts every element that has reached `threshold` into `message` as plus or
    /// minus `threshold`. What `message` held before is replaced.
    ///
    /// An element is sent once in a message, even if its residual is several thresholds.
    ///
    /// After [`Error::NotFinite`] the message is empty, and the residual is as meaningless as the update was.
    pub fn encode(&mut self, update: &[f32], threshold: f32, message: &mut Vec<u8>) -> Result<Sent, Error> {
        message.clear();
        same_length(&self.residual, update)?;
        self.begin(threshold)?;
        self.absorb(0, update, 1.0);
        let is_finite = self.parts.is_some_and(|(_, absorbed)| absorbed.is_finite());
        if !is_finite {
            finite("update", update)?;
        }
        self.finish(message)
    }

    /// Begins a message whose update comes in parts, in any order: [`Encoder::absorb`] each of them once, and
    /// [`Encoder::finish`]. The message is that of [`Encoder::encode`]; parts that are in the cache cost less.
    pub fn begin(&mut self, threshold: f32) -> Result<(), Error> {
        if !is_threshold(threshold) {
            return Err(Error::BadThreshold { found: threshold });
        }
        self.marks.clear();
        self.parts = Some((threshold, Absorbed::NOTHING));
        Ok(())
    }

    /// Adds the part of an update that begins at element `start`, times `scale`: each product is rounded, and each sum.
    ///
    /// # Panics
    ///
    /// If no message was begun, or the part goes beyond the end.
    pub fn absorb(&mut self, start: usize, part: &[f32], scale: f32) {
        let (threshold, found) = self.parts.as_mut().expect("a message was begun");
        let rule = Rule { scale, threshold: *threshold };
        found.merge(absorb(self.instructions, start, part, &mut self.residual, rule, &mut self.marks));
    }

    /// Writes the message of an update that came in parts. Errors are those of [`Encoder::encode`].
    ///
    /// # Panics
    ///
    /// If no message was begun, or if an element that is sent came twice.
    pub fn finish(&mut self, message: &mut Vec<u8>) -> Result<Sent, Error> {
        message.clear();
        let (threshold, absorbed) = self.parts.take().expect("a message was begun");
        if !absorbed.is_finite() {
            finite("residual", &self.residual)?;
        }
        let header = header(self.residual.len(), absorbed.count, threshold);
        header.write(message);
        match header.form {
            Form::Bitmap => bitmap::write(&header, &mut self.marks, message),
            _ => sparse::write(&header, &mut self.marks, message),
        }
        Ok(Sent::of(&header, message))
    }

    /// Adds `update` to the residual, and puts all of it into `message`, as it is; the residual is then zero.
    ///
    /// For a peer that must have everything now, whatever it costs. Errors are those of [`Encoder::encode`].
    pub fn encode_dense(&mut self, update: &[f32], message: &mut Vec<u8>) -> Result<Sent, Error> {
        message.clear();
        same_length(&self.residual, update)?;
        finite("update", update)?;
        for (residual, update) in self.residual.iter_mut().zip(update) {
            *residual += update;
        }
        finite("residual", &self.residual)?;
        let elements = self.residual.len() as u32;
        let header = Header { form: Form::Dense, rice_parameter: 0, threshold: 0.0, elements, sent: elements };
        header.write(message);
        dense::write(&self.residual, message);
        self.residual.fill(0.0);
        Ok(Sent::of(&header, message))
    }

    /// Takes from the residual what is beyond `limit` on either side, and says how much that was.
    pub fn clip(&mut self, limit: f32) -> Clipped {
        residual::clip(&mut self.residual, limit)
    }

    /// The norms of the residual.
    pub fn norms(&self) -> Norms {
        Norms::of(self.instructions, &self.residual)
    }
}

impl Sent {
    pub(crate) fn of(header: &Header, message: &[u8]) -> Self {
        let &Header { form, threshold, elements, sent, .. } = header;
        Self { form, elements: elements as usize, count: sent as usize, threshold, bytes: message.len() }
    }
}

/// The header of a message that sends `sent` of `elements` by their signs.
pub(crate) fn header(elements: usize, sent: usize, threshold: f32) -> Header {
    let elements = u32::try_from(elements).expect("the length was checked when the encoder was made");
    let sent = u32::try_from(sent).expect("no more are sent than there are");
    let form = Form::of(elements, sent);
    let rice_parameter = if form == Form::Sparse { sparse::rice_parameter(elements, sent) } else { 0 };
    Header { form, rice_parameter, threshold, elements, sent }
}

pub(crate) fn same_length(residual: &[f32], update: &[f32]) -> Result<(), Error> {
    if residual.len() == update.len() {
        return Ok(());
    }
    Err(Error::WrongLength { expected: residual.len(), found: update.len() })
}

/// Names the first element that is not finite.
pub(crate) fn finite(buffer: &'static str, values: &[f32]) -> Result<(), Error> {
    match values.iter().position(|value| !value.is_finite()) {
        Some(index) => Err(Error::NotFinite { buffer, index, found: values[index] }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::Encoder;
    use crate::{Error, Form};

    #[test]
    fn an_element_is_sent_once_in_a_message_and_again_in_the_next() {
        let mut encoder = Encoder::new(vec![0.0; 3]).expect("a short residual");
        let mut message = Vec::new();
        let sent = encoder.encode(&[0.5, -2.0, 6.5], 2.0, &mut message).expect("a finite update");
        assert_eq!((sent.form, sent.count, sent.bytes), (Form::Sparse, 2, message.len()));
        assert_eq!(encoder.residual(), [0.5, 0.0, 4.5]);
        let sent = encoder.encode(&[0.0; 3], 2.0, &mut message).expect("a finite update");
        assert_eq!(sent.count, 1);
        assert_eq!(encoder.residual(), [0.5, 0.0, 2.5]);
    }

    #[test]
    fn a_message_that_was_not_finished_leaves_nothing_to_the_next() {
        let (first, second) = ([3.0, 0.0, 0.0], [0.0, 0.0, -3.0]);
        let mut encoder = Encoder::new(vec![0.0; 3]).expect("a short residual");
        encoder.begin(2.0).expect("a good threshold");
        encoder.absorb(0, &first, 1.0);
        let (mut found, mut expected) = (Vec::new(), Vec::new());
        encoder.encode(&second, 2.0, &mut found).expect("a finite update");
        let mut fresh = Encoder::new(vec![1.0, 0.0, 0.0]).expect("a short residual");
        fresh.encode(&second, 2.0, &mut expected).expect("a finite update");
        assert_eq!(found, expected);
        let wrong = [3.0, f32::INFINITY, 0.0];
        encoder.encode(&wrong, 2.0, &mut found).expect_err("an update that is not finite");
        let mut encoder = Encoder { residual: vec![1.0, 0.0, 0.0], ..encoder };
        encoder.encode(&second, 2.0, &mut found).expect("a finite update");
        assert_eq!(found, expected);
        encoder.begin(2.0).expect("a good threshold");
        encoder.absorb(0, &wrong, 1.0);
        encoder.finish(&mut found).expect_err("an update that is not finite");
        let mut encoder = Encoder { residual: vec![1.0, 0.0, 0.0], ..encoder };
        encoder.encode(&second, 2.0, &mut found).expect("a finite update");
        assert_eq!(found, expected);
    }

    #[test]
    fn what_is_not_finite_is_named_by_its_index() {
        for wrong in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            for index in [0, 70, 129] {
                let mut update = vec![0.1; 130];
                update[index] = wrong;
                let mut encoder = Encoder::new(vec![0.0; 130]).expect("a short residual");
                let mut message = vec![1];
                let error = encoder.encode(&update, 1.0, &mut message).expect_err("an update that is not finite");
                assert_eq!(
                    error.to_string(),
                    format!("element {index} of the update is {wrong}: expected a finite number")
                );
                assert!(message.is_empty());
                assert!(encoder.encode_dense(&update, &mut message).is_err());
            }
        }
        let mut encoder = Encoder::new(vec![f32::MAX]).expect("a short residual");
        let error = encoder.encode(&[f32::MAX], 1.0, &mut Vec::new());
        assert_eq!(error, Err(Error::NotFinite { buffer: "residual", index: 0, found: f32::INFINITY }));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let mut encoder = Encoder::new(vec![0.0; 3]).expect("a short residual");
        let mut message = Vec::new();
        assert_eq!(encoder.encode(&[0.0; 2], 1.0, &mut message), Err(Error::WrongLength { expected: 3, found: 2 }));
        for threshold in [0.0, -1.0, f32::INFINITY, f32::NAN] {
            assert!(matches!(encoder.encode(&[0.0; 3], threshold, &mut message), Err(Error::BadThreshold { .. })));
        }
        assert!(matches!(Encoder::new(vec![f32::NAN]), Err(Error::NotFinite { .. })));
    }

    #[test]
    fn a_dense_message_empties_the_residual() {
        let mut encoder = Encoder::new(vec![1.0, -2.0]).expect("a short residual");
        let mut message = Vec::new();
        let sent = encoder.encode_dense(&[0.5, 0.5], &mut message).expect("a finite update");
        assert_eq!((sent.form, sent.bytes), (Form::Dense, 16 + 8));
        assert_eq!(message[16..], [1.5f32.to_le_bytes(), (-1.5f32).to_le_bytes()].concat());
        assert_eq!(encoder.residual(), [0.0, 0.0]);
    }
}
