use crate::form::{bitmap, dense, sparse};
use crate::header::Header;
use crate::{Form, MessageError};

/// A message that was checked from its first byte to its last: applying it to as many elements cannot fail.
///
/// Checking allocates nothing and costs a small part of applying; a receiver can check at once, and apply later.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    header: Header,
    payload: &'a [u8],
    /// The largest magnitude that is sent.
    largest: f32,
}

impl<'a> Message<'a> {
    /// Checks all of `bytes`: version, form, counts, length, padding, every index, every value.
    pub fn read(bytes: &'a [u8]) -> Result<Self, MessageError> {
        let (header, payload) = Header::read(bytes)?;
        let largest = match header.form {
            Form::Sparse => sparse::check(&header, payload).map(|()| header.threshold),
            Form::Bitmap => bitmap::check(&header, payload).map(|()| header.threshold),
            Form::Dense => dense::check(&header, payload),
        }?;
        Ok(Self { header, payload, largest })
    }

    /// How it is written.
    pub fn form(&self) -> Form {
        self.header.form
    }

    /// The number of elements that it is about.
    pub fn elements(&self) -> usize {
        self.header.elements as usize
    }

    /// The number of elements that it sends.
    pub fn count(&self) -> usize {
        self.header.sent as usize
    }

    /// What is sent of each of them, but for its sign; 0 if the message is dense.
    pub fn threshold(&self) -> f32 {
        self.header.threshold
    }

    /// `target += scale · message`; fails without touching `target` if it has another length, or a step is infinite.
    pub fn add_to(&self, target: &mut [f32], scale: f32) -> Result<(), MessageError> {
        if target.len() != self.elements() {
            return Err(MessageError::WrongElements { expected: target.len(), found: self.elements() });
        }
        if !scale.is_finite() || !(scale * self.largest).is_finite() {
            return Err(MessageError::BadScale { scale, largest: self.largest });
        }
        let step = scale * self.header.threshold;
        match self.header.form {
            Form::Sparse => sparse::add_to(&self.header, self.payload, target, step),
            Form::Bitmap => bitmap::add_to(&self.header, self.payload, target, step),
            Form::Dense => dense::add_to(self.payload, target, scale),
        }
        Ok(())
    }
}
