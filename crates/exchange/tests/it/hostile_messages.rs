//! Bytes from anywhere never panic, and never change a parameter unless they are a message.

use paceline_exchange::{Encoder, Message, MessageError, add_into, decode_into};
use proptest::prelude::*;

use crate::reference::{self, Step};

/// A message of one step.
fn message(step: &Step) -> Vec<u8> {
    let mut encoder = Encoder::new(vec![0.0; step.update.len()]).expect("a short residual");
    let mut message = Vec::new();
    match step.threshold {
        Some(threshold) => encoder.encode(&step.update, threshold, &mut message),
        None => encoder.encode_dense(&step.update, &mut message),
    }
    .expect("a finite update");
    message
}

/// Decodes, and checks what must hold whatever the bytes are.
fn decode(bytes: &[u8], elements: usize) -> Result<(), MessageError> {
    let before = vec![0.5f32; elements];
    let mut parameters = before.clone();
    let result = decode_into(bytes, &mut parameters, 1.0);
    let mut sum = before.clone();
    assert_eq!(add_into(bytes, &mut sum).is_ok(), result.is_ok());
    match result {
        Err(error) => {
            assert_eq!((&parameters, &sum), (&before, &before), "{error}");
            Err(error)
        }
        Ok(decoded) => {
            let values = reference::decode(bytes);
            for ((parameter, value), sum) in parameters.iter().zip(&values).zip(&sum) {
                assert_eq!(*parameter, 0.5 - *value as f32);
                assert_eq!(*sum, 0.5 + *value as f32);
            }
            assert!(decoded.count <= elements);
            Ok(())
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn random_bytes_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..200), elements in 0usize..300) {
        let _ = decode(&bytes, elements);
    }

    #[test]
    fn random_payloads_after_a_good_header_do_no_harm(
        payload in prop::collection::vec(any::<u8>(), 0..120),
        form in 0u8..3,
        rice_parameter in 0u8..40,
        elements in 0u32..300,
        sent in 0u32..300,
    ) {
        let mut bytes = vec![1, form, if form == 0 { rice_parameter } else { 0 }, 0];
        bytes.extend((if form == 2 { 0.0f32 } else { 0.5 }).to_le_bytes());
        bytes.extend(elements.to_le_bytes());
        bytes.extend((if form == 2 { elements } else { sent }).to_le_bytes());
        bytes.extend(payload);
        let _ = decode(&bytes, elements as usize);
    }

    #[test]
    fn a_mutated_message_is_refused_or_means_what_it_says(
        step in (0usize..300).prop_flat_map(reference::step),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut bytes = message(&step);
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        let _ = decode(&bytes, step.update.len());
    }

    #[test]
    fn a_message_cut_short_or_made_longer_is_refused(
        step in (0usize..300).prop_flat_map(reference::step),
        cut in any::<prop::sample::Index>(),
        more in any::<u8>(),
    ) {
        let mut bytes = message(&step);
        let elements = step.update.len();
        prop_assert_eq!(decode(&bytes, elements), Ok(()));
        prop_assert!(decode(&bytes[..cut.index(bytes.len())], elements).is_err());
        bytes.push(more);
        prop_assert!(decode(&bytes, elements).is_err());
    }
}

#[test]
fn the_largest_claims_allocate_nothing_and_are_refused() {
    for form in 0..3u8 {
        for rice_parameter in [0, 31] {
            let mut bytes = vec![1, form, if form == 0 { rice_parameter } else { 0 }, 0];
            bytes.extend((if form == 2 { 0.0f32 } else { 1.0 }).to_le_bytes());
            bytes.extend([0xff; 8]);
            bytes.extend([0xff; 40]);
            let error = Message::read(&bytes).expect_err("a message of 56 bytes about 4 G elements");
            assert!(matches!(error, MessageError::WrongLength { .. }), "{error}");
        }
    }
}

#[test]
fn an_index_out_of_range_is_named() {
    let mut bytes = vec![1, 0, 31, 0];
    bytes.extend(1.0f32.to_le_bytes());
    bytes.extend(u32::MAX.to_le_bytes());
    bytes.extend(2u32.to_le_bytes());
    // Gaps of 2³¹ - 1 and 2³¹ - 2: the last index is the last that there is.
    bytes.extend([0xfe, 0xff, 0xff, 0xff, 0xfc, 0xff, 0xff, 0xff, 0b11]);
    assert_eq!(Message::read(&bytes).map(|message| message.count()), Ok(2));
    bytes[24] = 0b101;
    let error = Message::read(&bytes).expect_err("an index beyond the end").to_string();
    assert_eq!(error, "the message sends element 6442450942, but is about 4294967295 elements");
}
