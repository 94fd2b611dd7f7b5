use crate::encoder::{finite, header, same_length};
use crate::header::is_threshold;
use crate::{Error, Form, Sent};

/// What [`Encoder::encode`](crate::Encoder::encode) does, element by element and bit by bit: the reference that every
/// instruction set is compared with, message and residual.
pub fn encode_plain(
    residual: &mut [f32],
    update: &[f32],
    threshold: f32,
    message: &mut Vec<u8>,
) -> Result<Sent, Error> {
    message.clear();
    same_length(residual, update)?;
    if !is_threshold(threshold) {
        return Err(Error::BadThreshold { found: threshold });
    }
    let mut sent = Vec::new();
    for (index, (residual, update)) in residual.iter_mut().zip(update).enumerate() {
        *residual += update;
        if residual.abs() >= threshold {
            let is_negative = *residual < 0.0;
            *residual -= if is_negative { -threshold } else { threshold };
            sent.push((index, is_negative));
        }
    }
    finite("update", update)?;
    finite("residual", residual)?;

    let header = header(residual.len(), sent.len(), threshold);
    header.write(message);
    match header.form {
        Form::Bitmap => {
            let mut planes = [vec![false; residual.len()], vec![false; residual.len()]];
            for (index, is_negative) in sent {
                planes[0][index] = true;
                planes[1][index] = is_negative;
            }
            planes.iter().for_each(|plane| push_bits(plane, message));
        }
        _ => {
            let (mut fields, mut quotients) = (Vec::new(), Vec::new());
            let mut next = 0;
            for (index, is_negative) in sent {
                let gap = index - next;
                next = index + 1;
                fields.push(is_negative);
                fields.extend((0..header.rice_parameter).map(|bit| gap >> bit & 1 == 1));
                quotients.extend((0..gap >> header.rice_parameter).map(|_| false));
                quotients.push(true);
            }
            push_bits(&fields, message);
            push_bits(&quotients, message);
        }
    }
    Ok(Sent::of(&header, message))
}

/// Appends the bits, the first as the lowest of the first byte.
fn push_bits(bits: &[bool], message: &mut Vec<u8>) {
    for byte in bits.chunks(8) {
        message.push(byte.iter().enumerate().map(|(at, bit)| u8::from(*bit) << at).sum());
    }
}
