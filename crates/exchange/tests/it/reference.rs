//! A decoder written from the byte diagram alone, one bit after the other; it shares no code with the crate.

use proptest::prelude::*;

/// What a message adds to each element.
pub(crate) fn decode(message: &[u8]) -> Vec<f64> {
    let word = |at: usize| message[at..at + 4].iter().rev().fold(0u32, |word, byte| word << 8 | u32::from(*byte));
    assert_eq!((message[0], message[3]), (1, 0), "version and zero byte");
    let rice_parameter = usize::from(message[2]);
    let threshold = f64::from(f32::from_bits(word(4)));
    let (elements, sent) = (word(8) as usize, word(12) as usize);
    let payload = &message[16..];
    let bit = |at: usize| payload[at / 8] >> (at % 8) & 1 == 1;
    let signed = |is_negative: bool| if is_negative { -threshold } else { threshold };
    let mut values = vec![0.0; elements];
    match message[1] {
        0 => {
            let mut unary = (sent * (rice_parameter + 1)).div_ceil(8) * 8;
            let mut next = 0;
            for field in 0..sent {
                let start = field * (rice_parameter + 1);
                let mut gap = 0;
                while !bit(unary) {
                    gap += 1 << rice_parameter;
                    unary += 1;
                }
                unary += 1;
                gap += (0..rice_parameter).map(|low| usize::from(bit(start + 1 + low)) << low).sum::<usize>();
                let index = next + gap;
                assert_eq!(values[index], 0.0, "element {index} is sent once");
                values[index] = signed(bit(start));
                next = index + 1;
            }
            assert_eq!(unary.div_ceil(8), payload.len(), "nothing follows");
        }
        1 => {
            let signs = elements.div_ceil(8) * 8;
            for (index, value) in values.iter_mut().enumerate().filter(|(index, _)| bit(*index)) {
                *value = signed(bit(signs + index));
            }
            assert_eq!(payload.len(), elements.div_ceil(8) * 2, "nothing follows");
        }
        2 => {
            for (index, value) in values.iter_mut().enumerate() {
                *value = f64::from(f32::from_bits(word(16 + index * 4)));
            }
            assert_eq!(payload.len(), elements * 4, "nothing follows");
        }
        form => panic!("form {form}"),
    }
    if message[1] != 2 {
        assert_eq!(values.iter().filter(|value| **value != 0.0).count(), sent, "as many as the header says");
    }
    values
}

/// One message to come: how the update is spread, and how it is sent.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) update: Vec<f32>,
    /// `None` sends it dense.
    pub(crate) threshold: Option<f32>,
}

/// Steps over one number of elements, with every density from nothing to everything, and a dense message now and then.
pub(crate) fn steps(most_steps: usize) -> impl Strategy<Value = Vec<Step>> {
    (0usize..400).prop_flat_map(move |elements| prop::collection::vec(step(elements), 1..most_steps))
}

pub(crate) fn step(elements: usize) -> impl Strategy<Value = Step> {
    let value = prop_oneof![
        4 => -1.0f32..1.0,
        2 => prop::num::f32::NORMAL.prop_map(|value| value.clamp(-1e30, 1e30)),
        1 => prop::num::f32::SUBNORMAL,
        1 => prop::sample::select(vec![0.0, -0.0, 0.5, -0.5, 1.0, -1.0]),
    ];
    let small = (-1.0f32..1.0).prop_map(|value| value * 0.01);
    let update = prop_oneof![prop::collection::vec(value, elements), prop::collection::vec(small, elements)];
    // The range begins at a multiple of its end's last place: elsewhere `proptest` panics now and then.
    let threshold = prop_oneof![
        5 => (1.0 / 8192.0..2.0f32).prop_map(Some),
        2 => prop::sample::select(vec![0.5, 1.0, 1e-30, 1e30, f32::MAX, f32::MIN_POSITIVE]).prop_map(Some),
        1 => Just(None),
    ];
    (update, threshold).prop_map(|(update, threshold)| Step { update, threshold })
}
