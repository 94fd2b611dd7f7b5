//! One bit an element for what is sent, one for what is negative.

use super::Form;
use crate::MessageError;
use crate::bits::words;
use crate::header::Header;
use crate::marks::{BLOCK, Mark, Marks};

/// Appends the payload of what `marks` hold, which is nothing any more then.
pub(crate) fn write(header: &Header, marks: &mut Marks, message: &mut Vec<u8>) {
    let (start, plane) = (message.len(), plane_bytes(header));
    message.resize(start + 2 * plane, 0);
    let (sent_plane, negative_plane) = message[start..].split_at_mut(plane);
    marks.take(|Mark { block, sent, negative }| {
        for (plane, word) in [(&mut *sent_plane, sent), (&mut *negative_plane, negative)] {
            // Two parts may have a mark of the same block.
            let bytes = plane[block * (BLOCK / 8)..].iter_mut().zip(word.to_le_bytes());
            bytes.for_each(|(byte, bits)| *byte |= bits);
        }
    });
}

/// Whether the payload is as the header says.
pub(crate) fn check(header: &Header, payload: &[u8]) -> Result<(), MessageError> {
    let form = Form::Bitmap;
    let (elements, expected) = (header.elements as usize, 2 * plane_bytes(header));
    if payload.len() != expected {
        return Err(MessageError::WrongLength { form, expected: expected as u64, found: payload.len() as u64 });
    }
    let (sent, negative) = payload.split_at(plane_bytes(header));
    let found: usize = words(sent).map(|word| word.count_ones() as usize).sum();
    if found != header.sent as usize {
        return Err(MessageError::WrongSentCount { form, expected: header.sent as usize, found });
    }
    if !elements.is_multiple_of(8) && sent[sent.len() - 1] >> (elements % 8) != 0 {
        return Err(MessageError::BitsInPadding { form });
    }
    for (block, (sent, negative)) in words(sent).zip(words(negative)).enumerate() {
        if negative & !sent != 0 {
            let lane = (negative & !sent).trailing_zeros() as usize;
            return Err(MessageError::SignWithoutElement { index: block * BLOCK + lane });
        }
    }
    Ok(())
}

/// Adds `step` with the sign of each sent element to `target`; the payload must have passed [`check`].
pub(crate) fn add_to(header: &Header, payload: &[u8], target: &mut [f32], step: f32) {
    let (sent, negative) = payload.split_at(plane_bytes(header));
    for (block, (mut sent, negative)) in target.chunks_mut(BLOCK).zip(words(sent).zip(words(negative))) {
        while sent != 0 {
            let lane = sent.trailing_zeros();
            sent &= sent - 1;
            let sign = (negative >> lane & 1) as u32;
            block[lane as usize] += f32::from_bits(step.to_bits() ^ sign << 31);
        }
    }
}

fn plane_bytes(header: &Header) -> usize {
    header.elements.div_ceil(8) as usize
}

#[cfg(test)]
mod tests {
    use super::{add_to, check, write};
    use crate::marks::Marks;
    use crate::{Form, MessageError, header::Header};

    const HEADER: Header = Header { form: Form::Bitmap, rice_parameter: 0, threshold: 1.0, elements: 70, sent: 3 };

    fn payload() -> Vec<u8> {
        let mut marks = Marks::of(&[(0, 0b101, 0b100), (1, 0b10_0000, 0)]);
        let mut payload = Vec::new();
        write(&HEADER, &mut marks, &mut payload);
        payload
    }

    #[test]
    fn two_planes_of_nine_bytes() {
        let payload = payload();
        assert_eq!(payload, [5, 0, 0, 0, 0, 0, 0, 0, 32, 4, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(check(&HEADER, &payload), Ok(()));
        let mut target = [0.0; 70];
        add_to(&HEADER, &payload, &mut target, 0.5);
        assert_eq!((target[0], target[2], target[69]), (0.5, -0.5, 0.5));
        assert_eq!(target.iter().filter(|value| **value != 0.0).count(), 3);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let form = Form::Bitmap;
        let changed = |at: usize, to: u8| {
            let mut payload = payload();
            payload[at] = to;
            check(&HEADER, &payload)
        };
        assert_eq!(changed(0, 1), Err(MessageError::WrongSentCount { form, expected: 3, found: 2 }));
        assert_eq!(changed(8, 64), Err(MessageError::BitsInPadding { form }));
        assert_eq!(changed(17, 1), Err(MessageError::SignWithoutElement { index: 64 }));
        let error = check(&HEADER, &payload()[1..]);
        assert_eq!(error, Err(MessageError::WrongLength { form, expected: 18, found: 17 }));
    }
}
