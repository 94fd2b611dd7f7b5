//! Bytes from anywhere never panic, never touch what they are not about, and change nothing unless they are a message.

#![no_main]

use libfuzzer_sys::fuzz_target;
use paceline_exchange::{Decoded, Message, MessageError, add_into, decode_into};

/// More elements than these are only checked, not applied: memory is not what is tested here.
const MOST: usize = 1 << 16;

/// Exact in f32, as is its sum with any small power of two.
const BEFORE: f32 = 0.5;

fuzz_target!(|bytes: &[u8]| {
    let message = Message::read(bytes);
    let claimed = message.as_ref().map(Message::elements).ok().filter(|elements| *elements <= MOST);
    for elements in [0, 1, 63, 64, 65, 1000].into_iter().chain(claimed) {
        for scale in [1.0, -0.25, f32::MAX, f32::NAN] {
            let mut parameters = vec![BEFORE; elements];
            let decoded = decode_into(bytes, &mut parameters, scale);
            judge(&message, &decoded, &parameters);
        }
        let mut sum = vec![BEFORE; elements];
        let added = add_into(bytes, &mut sum);
        judge(&message, &added, &sum);
    }
});

fn judge(message: &Result<Message<'_>, MessageError>, decoded: &Result<Decoded, MessageError>, values: &[f32]) {
    let moved = values.iter().filter(|value| **value != BEFORE).count();
    match (message, decoded) {
        (Ok(message), Ok(decoded)) => {
            assert_eq!((message.elements(), message.form()), (values.len(), decoded.form));
            assert_eq!((message.count(), message.threshold()), (decoded.count, decoded.threshold));
            assert!(moved <= decoded.count, "{moved} of {} elements moved", decoded.count);
        }
        (_, Err(_)) => assert_eq!(moved, 0),
        (Err(error), Ok(_)) => panic!("applied, but refused when it is only read: {error}"),
    }
}
