//! The sixteen bytes that every message begins with.

use crate::{Form, MessageError};

/// The version that is written, and the only one that is read.
pub(crate) const VERSION: u8 = 1;

/// The largest Rice parameter: with the sign, a field has at most 32 bits.
pub(crate) const LARGEST_RICE_PARAMETER: u8 = 31;

/// What a message says of itself; [`Form`] shows its bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Header {
    pub(crate) form: Form,
    pub(crate) rice_parameter: u8,
    pub(crate) threshold: f32,
    pub(crate) elements: u32,
    pub(crate) sent: u32,
}

impl Header {
    /// Bytes of a header.
    pub(crate) const BYTES: usize = 16;

    /// Appends the bytes of the header.
    pub(crate) fn write(&self, message: &mut Vec<u8>) {
        message.extend([VERSION, self.form.byte(), self.rice_parameter, 0]);
        message.extend(self.threshold.to_bits().to_le_bytes());
        message.extend(self.elements.to_le_bytes());
        message.extend(self.sent.to_le_bytes());
    }

    /// The header of a message, if it agrees with itself, and the payload that follows.
    pub(crate) fn read(message: &[u8]) -> Result<(Self, &[u8]), MessageError> {
        let Some((header, payload)) = message.split_first_chunk::<{ Self::BYTES }>() else {
            return Err(MessageError::NoHeader { expected: Self::BYTES, found: message.len() });
        };
        let word = |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        if header[0] != VERSION {
            return Err(MessageError::UnknownVersion { expected: VERSION, found: header[0] });
        }
        let form = Form::from_byte(header[1]).ok_or(MessageError::UnknownForm { found: header[1] })?;
        if header[3] != 0 {
            return Err(MessageError::NotReserved { found: header[3] });
        }
        let header = Self {
            form,
            rice_parameter: header[2],
            threshold: f32::from_bits(word(4)),
            elements: word(8),
            sent: word(12),
        };
        header.check()?;
        Ok((header, payload))
    }

    fn check(&self) -> Result<(), MessageError> {
        let Self { form, rice_parameter, threshold, elements, sent } = *self;
        let largest_parameter = if form == Form::Sparse { LARGEST_RICE_PARAMETER } else { 0 };
        if rice_parameter > largest_parameter {
            let (expected, found) = (largest_parameter, rice_parameter);
            return Err(MessageError::BadRiceParameter { form, expected, found });
        }
        let (good_threshold, expected) = match form {
            Form::Dense => (threshold.to_bits() == 0, "0"),
            Form::Sparse | Form::Bitmap => (is_threshold(threshold), "a finite one above 0"),
        };
        if !good_threshold {
            return Err(MessageError::BadThreshold { form, expected, found: threshold });
        }
        if sent > elements || (form == Form::Dense && sent != elements) {
            return Err(MessageError::BadSentCount { form, elements: elements as usize, found: sent as usize });
        }
        Ok(())
    }
}

/// Whether elements can be compared with `threshold`, and be sent by it.
pub(crate) fn is_threshold(threshold: f32) -> bool {
    threshold.is_finite() && threshold > 0.0
}

#[cfg(test)]
mod tests {
    use super::Header;
    use crate::{Form, MessageError};

    const HEADER: Header = Header { form: Form::Sparse, rice_parameter: 9, threshold: 0.25, elements: 1000, sent: 3 };

    fn bytes(header: Header) -> Vec<u8> {
        let mut message = Vec::new();
        header.write(&mut message);
        message
    }

    #[test]
    fn is_read_as_it_was_written() {
        let message = bytes(HEADER);
        assert_eq!(message, [1, 0, 9, 0, 0, 0, 0x80, 0x3e, 0xe8, 3, 0, 0, 3, 0, 0, 0]);
        assert_eq!(Header::read(&message), Ok((HEADER, &[][..])));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let error = |header: Header| Header::read(&bytes(header)).expect_err("a bad header").to_string();
        assert_eq!(
            error(Header { threshold: f32::NAN, ..HEADER }),
            "the sparse message has threshold NaN, expected a finite one above 0"
        );
        assert_eq!(
            error(Header { form: Form::Dense, rice_parameter: 0, threshold: 0.0, ..HEADER }),
            "the dense message says that 3 of 1000 elements were sent"
        );
        assert_eq!(
            error(Header { form: Form::Bitmap, ..HEADER }),
            "the bitmap message has Rice parameter 9, expected at most 0"
        );
        assert_eq!(
            error(Header { sent: 1001, ..HEADER }),
            "the sparse message says that 1001 of 1000 elements were sent"
        );
        assert_eq!(Header::read(&[1; 15]), Err(MessageError::NoHeader { expected: 16, found: 15 }));
        for (at, expected) in [
            (0, MessageError::UnknownVersion { expected: 1, found: 7 }),
            (1, MessageError::UnknownForm { found: 7 }),
            (3, MessageError::NotReserved { found: 7 }),
        ] {
            let mut message = bytes(HEADER);
            message[at] = 7;
            assert_eq!(Header::read(&message), Err(expected));
        }
    }
}
