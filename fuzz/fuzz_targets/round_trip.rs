//! Whatever is put in: every instruction set writes what the plain encoder writes, and a message carries what the residual lost.

#![no_main]

use libfuzzer_sys::fuzz_target;
use paceline_exchange::{Encoder, Instructions, Message, add_into, encode_plain};

fuzz_target!(|bytes: &[u8]| {
    let mut numbers = bytes.chunks_exact(4).map(|four| f32::from_le_bytes(four.try_into().expect("four bytes")));
    let (Some(threshold), Some(length)) = (numbers.next(), numbers.next()) else { return };
    let numbers: Vec<f32> = numbers.collect();
    // One update after another, as long as the numbers last.
    let elements = 1 + length.to_bits() as usize % numbers.len().max(1);
    for instructions in Instructions::available() {
        let mut encoder = Encoder::with_instructions(vec![0.0; elements], instructions).expect("a short residual");
        let mut residual = vec![0.0; elements];
        for update in numbers.chunks_exact(elements) {
            if !step(&mut encoder, &mut residual, update, threshold) {
                break;
            }
        }
    }
});

/// Encodes with both; says whether that was possible.
fn step(encoder: &mut Encoder, residual: &mut [f32], update: &[f32], threshold: f32) -> bool {
    let before = residual.to_vec();
    let (mut message, mut plain_message) = (Vec::new(), Vec::new());
    let sent = encoder.encode(update, threshold, &mut message);
    let plain = encode_plain(residual, update, threshold, &mut plain_message);
    assert_eq!(sent.is_ok(), plain.is_ok(), "{sent:?} and {plain:?}");
    let Ok(sent) = sent else { return false };
    assert_eq!(plain, Ok(sent));
    assert_eq!(message, plain_message);
    let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
    assert_eq!(bits(encoder.residual()), bits(residual));

    let read = Message::read(&message).expect("what was written");
    assert_eq!((read.form(), read.count(), read.elements()), (sent.form, sent.count, update.len()));
    let mut carried = vec![0.0; update.len()];
    add_into(&message, &mut carried).expect("what was written");
    for (index, carried) in carried.iter().enumerate() {
        let put_in = before[index] + update[index];
        let expected = if put_in.abs() >= threshold { threshold.copysign(put_in) } else { 0.0 };
        assert_eq!(*carried, expected, "element {index}");
        assert_eq!(put_in - carried, residual[index], "element {index}");
    }
    true
}
