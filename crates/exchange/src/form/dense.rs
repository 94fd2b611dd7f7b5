//! The residual as it is.

use super::Form;
use crate::MessageError;
use crate::header::Header;

/// Appends `values`.
pub(crate) fn write(values: &[f32], message: &mut Vec<u8>) {
    let start = message.len();
    message.resize(start + values.len() * 4, 0);
    for (bytes, value) in message[start..].as_chunks_mut::<4>().0.iter_mut().zip(values) {
        *bytes = value.to_le_bytes();
    }
}

/// The largest magnitude, if the payload is as the header says and every value is finite.
pub(crate) fn check(header: &Header, payload: &[u8]) -> Result<f32, MessageError> {
    let (expected, found) = (u64::from(header.elements) * 4, payload.len() as u64);
    if found != expected {
        return Err(MessageError::WrongLength { form: Form::Dense, expected, found });
    }
    // The bits of magnitudes are in their order, and what is not finite is above all that is.
    let largest = f32::from_bits(values(payload).map(|value| value.abs().to_bits()).fold(0, u32::max));
    if !largest.is_finite() {
        let (index, found) =
            values(payload).enumerate().find(|(_, value)| !value.is_finite()).expect("the largest is one of them");
        return Err(MessageError::NotFinite { index, found });
    }
    Ok(largest)
}

/// Adds every value times `scale` to `target`; the payload must have passed [`check`].
pub(crate) fn add_to(payload: &[u8], target: &mut [f32], scale: f32) {
    for (target, value) in target.iter_mut().zip(values(payload)) {
        *target += scale * value;
    }
}

fn values(payload: &[u8]) -> impl Iterator<Item = f32> {
    payload.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::{add_to, check, write};
    use crate::{Form, MessageError, header::Header};

    const HEADER: Header = Header { form: Form::Dense, rice_parameter: 0, threshold: 0.0, elements: 2, sent: 2 };

    #[test]
    fn values_come_back_scaled() {
        let mut payload = Vec::new();
        write(&[1.5, -2.0], &mut payload);
        assert_eq!(check(&HEADER, &payload), Ok(2.0));
        let mut target = [1.0, 1.0];
        add_to(&payload, &mut target, -0.5);
        assert_eq!(target, [0.25, 2.0]);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let mut payload = Vec::new();
        write(&[1.5, f32::NEG_INFINITY], &mut payload);
        assert_eq!(check(&HEADER, &payload), Err(MessageError::NotFinite { index: 1, found: f32::NEG_INFINITY }));
        let error = check(&HEADER, &payload[..7]);
        assert_eq!(error, Err(MessageError::WrongLength { form: Form::Dense, expected: 8, found: 7 }));
    }
}
