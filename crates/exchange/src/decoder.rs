use crate::{Form, Message, MessageError};

/// What a message was.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Decoded {
    /// How it was written.
    pub form: Form,
    /// The number of elements that it sent.
    pub count: usize,
    /// What it sent of each, but for the sign; 0 if it was dense.
    pub threshold: f32,
}

/// `parameters[i] -= scale · sign · threshold` for every element that the message sends, or `scale · value` if it is
/// dense.
///
/// The message is checked as a whole before the first parameter is touched, so one that is invalid changes none. The
/// product of scale and threshold is rounded once, and each subtraction once.
pub fn decode_into(message: &[u8], parameters: &mut [f32], scale: f32) -> Result<Decoded, MessageError> {
    // a − b and a + (−b) are the same bits.
    add_scaled(message, parameters, -scale)
}

/// `sum[i] += sign · threshold` for every element that the message sends, or the value itself if it is dense.
///
/// When many messages wait, their sum is applied in one pass over the parameters. An invalid message changes nothing.
pub fn add_into(message: &[u8], sum: &mut [f32]) -> Result<Decoded, MessageError> {
    add_scaled(message, sum, 1.0)
}

fn add_scaled(message: &[u8], target: &mut [f32], scale: f32) -> Result<Decoded, MessageError> {
    let message = Message::read(message)?;
    message.add_to(target, scale)?;
    Ok(Decoded { form: message.form(), count: message.count(), threshold: message.threshold() })
}

#[cfg(test)]
mod tests {
    use super::{add_into, decode_into};
    use crate::{Encoder, MessageError};

    fn message(update: &[f32], threshold: f32) -> Vec<u8> {
        let mut message = Vec::new();
        let mut encoder = Encoder::new(vec![0.0; update.len()]).expect("a short residual");
        encoder.encode(update, threshold, &mut message).expect("a finite update");
        message
    }

    #[test]
    fn parameters_move_against_the_update_and_sums_along_it() {
        let message = message(&[0.0, 1.0, 0.1, -0.6], 0.5);
        let mut parameters = [1.0; 4];
        let decoded = decode_into(&message, &mut parameters, 0.25).expect("a message");
        assert_eq!((decoded.count, decoded.threshold), (2, 0.5));
        assert_eq!(parameters, [1.0, 0.875, 1.0, 1.125]);
        let mut sum = [0.0; 4];
        add_into(&message, &mut sum).expect("a message");
        add_into(&message, &mut sum).expect("a message");
        assert_eq!(sum, [0.0, 1.0, 0.0, -1.0]);
    }

    #[test]
    fn a_message_for_another_network_or_an_endless_scale_is_refused() {
        let message = message(&[1.0; 9], 0.5);
        let mut parameters = [0.0; 9];
        assert_eq!(
            decode_into(&message, &mut parameters[..8], 1.0),
            Err(MessageError::WrongElements { expected: 8, found: 9 })
        );
        for scale in [f32::NAN, f32::INFINITY] {
            assert!(matches!(decode_into(&message, &mut parameters, scale), Err(MessageError::BadScale { .. })));
        }
        assert_eq!(parameters, [0.0; 9]);
    }
}
