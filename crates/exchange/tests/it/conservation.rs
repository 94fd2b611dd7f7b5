//! What was sent plus the residual is what was put in, for every element, whatever the thresholds and forms.

use paceline_exchange::{Encoder, Instructions, add_into, decode_into, encode_plain};
use proptest::prelude::*;

use crate::reference::{self, Step};

/// What was put in and taken out of one element, exactly enough, and how far rounding may have moved it.
#[derive(Clone, Copy, Default)]
struct Account {
    put_in: f64,
    sent: f64,
    allowance: f64,
}

/// Half a unit in the last place of an f32 near `value`, at least that of the smallest normal number.
fn half_unit(value: f64) -> f64 {
    value.abs().max(f64::from(f32::MIN_POSITIVE)) * f64::from(f32::EPSILON) / 2.0
}

fn encode(encoder: &mut Encoder, step: &Step, message: &mut Vec<u8>) {
    match step.threshold {
        Some(threshold) => encoder.encode(&step.update, threshold, message),
        None => encoder.encode_dense(&step.update, message),
    }
    .expect("a finite update");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn an_update_in_parts_gives_the_plain_message_of_the_whole(
        steps in reference::steps(6),
        (cuts, order) in (0usize..6).prop_flat_map(|cuts| {
            let order: Vec<usize> = (0..=cuts).collect();
            (prop::collection::vec(any::<prop::sample::Index>(), cuts), Just(order).prop_shuffle())
        }),
        scale in prop::sample::select(vec![1.0f32, 0.5, 0.3]),
    ) {
        let elements = steps[0].update.len();
        let mut ends: Vec<usize> = cuts.iter().map(|cut| cut.index(elements + 1)).chain([0, elements]).collect();
        ends.sort_unstable();
        for instructions in Instructions::available() {
            let mut residual = vec![0.0; elements];
            let mut parts = Encoder::with_instructions(residual.clone(), instructions).expect("a short residual");
            let (mut expected, mut message) = (Vec::new(), Vec::new());
            for (step, threshold) in steps.iter().filter_map(|step| Some((step, step.threshold?))) {
                let scaled: Vec<f32> = step.update.iter().map(|update| update * scale).collect();
                let sent = encode_plain(&mut residual, &scaled, threshold, &mut expected).expect("a finite update");
                parts.begin(threshold).expect("a good threshold");
                for part in &order {
                    let range = ends[*part]..ends[part + 1];
                    parts.absorb(range.start, &step.update[range], scale);
                }
                prop_assert_eq!(parts.finish(&mut message).expect("a finite update"), sent);
                prop_assert_eq!(&message, &expected, "{}", instructions.name());
                let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
                prop_assert_eq!(bits(parts.residual()), bits(&residual), "{}", instructions.name());
            }
        }
    }

    #[test]
    fn what_was_sent_plus_the_residual_is_what_was_put_in(steps in reference::steps(12)) {
        let elements = steps[0].update.len();
        let mut encoder = Encoder::new(vec![0.0; elements]).expect("a short residual");
        let mut accounts = vec![Account::default(); elements];
        let mut message = Vec::new();
        for step in &steps {
            let before = encoder.residual().to_vec();
            encode(&mut encoder, step, &mut message);
            let values = reference::decode(&message);
            prop_assert_eq!(values.len(), elements);
            for (index, account) in accounts.iter_mut().enumerate() {
                let sum = f64::from(before[index]) + f64::from(step.update[index]);
                account.put_in += f64::from(step.update[index]);
                account.sent += values[index];
                // One rounding of the sum, one of the difference, and what f64 loses in the account itself.
                account.allowance += 2.0 * half_unit(sum) + 1e-15 * (account.put_in.abs() + account.sent.abs());
                let error = account.put_in - account.sent - f64::from(encoder.residual()[index]);
                prop_assert!(error.abs() <= account.allowance, "element {}: off by {}", index, error);
                // No element is skipped: whatever reached the threshold was sent, and with its sign.
                let rounded = before[index] + step.update[index];
                if let Some(threshold) = step.threshold {
                    let expected = if rounded.abs() >= threshold { threshold.copysign(rounded) } else { 0.0 };
                    prop_assert_eq!(values[index], f64::from(expected), "element {}", index);
                }
            }
        }
    }

    #[test]
    fn replicas_end_where_the_messages_say(steps in reference::steps(6), scale in prop::sample::select(vec![1.0f32, 0.25, 0.3])) {
        let elements = steps[0].update.len();
        let mut encoder = Encoder::new(vec![0.0; elements]).expect("a short residual");
        let mut parameters: Vec<f32> = (0..elements).map(|index| index as f32 / 7.0 - 20.0).collect();
        let mut sum = vec![0.0f32; elements];
        let (mut expected, mut expected_sum) = (parameters.clone(), sum.clone());
        let mut message = Vec::new();
        for step in &steps {
            encode(&mut encoder, step, &mut message);
            for (index, value) in reference::decode(&message).into_iter().enumerate().filter(|(_, value)| *value != 0.0) {
                expected[index] -= scale * value as f32;
                expected_sum[index] += value as f32;
            }
            decode_into(&message, &mut parameters, scale).expect("a message");
            add_into(&message, &mut sum).expect("a message");
        }
        let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
        prop_assert_eq!(bits(&parameters), bits(&expected));
        prop_assert_eq!(sum, expected_sum);
    }

    #[test]
    fn what_is_clipped_is_accounted_for(steps in reference::steps(5), limit in 0.0f32..2.0) {
        let mut encoder = Encoder::new(vec![0.0; steps[0].update.len()]).expect("a short residual");
        for step in &steps {
            encode(&mut encoder, step, &mut Vec::new());
            let before = encoder.norms().l1;
            let clipped = encoder.clip(limit);
            let missing = before - encoder.norms().l1;
            prop_assert!((missing - clipped.mass).abs() <= 1e-12 * before, "{} and {}", missing, clipped.mass);
            prop_assert!(encoder.residual().iter().all(|value| value.abs() <= limit));
        }
    }
}
