//! Every instruction set gives the bytes and the residual of the plain encoder, to the last bit.

use paceline_exchange::{Encoder, Form, Instructions, encode_plain};
use proptest::prelude::*;

use crate::reference;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn all_give_the_bits_of_the_plain_encoder(steps in reference::steps(6)) {
        for instructions in Instructions::available() {
            let elements = steps[0].update.len();
            let mut encoder = Encoder::with_instructions(vec![0.0; elements], instructions).expect("a short residual");
            let mut residual = vec![0.0; elements];
            let (mut message, mut plain_message) = (Vec::new(), Vec::new());
            for (step, threshold) in steps.iter().filter_map(|step| Some((step, step.threshold?))) {
                let sent = encoder.encode(&step.update, threshold, &mut message).expect("a finite update");
                let plain = encode_plain(&mut residual, &step.update, threshold, &mut plain_message);
                prop_assert_eq!(Ok(sent), plain);
                prop_assert_eq!(&message, &plain_message, "{}", instructions.name());
                let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
                prop_assert_eq!(bits(encoder.residual()), bits(&residual), "{}", instructions.name());
            }
        }
    }
}

#[test]
fn sparse_and_bitmap_both_come_up() {
    let update: Vec<f32> = (0..1000).map(|i| (i % 10) as f32).collect();
    for (threshold, form) in [(9.0, Form::Sparse), (3.0, Form::Sparse), (2.0, Form::Bitmap), (100.0, Form::Sparse)] {
        for instructions in Instructions::available() {
            let mut encoder = Encoder::with_instructions(vec![0.0; 1000], instructions).expect("a short residual");
            let sent = encoder.encode(&update, threshold, &mut Vec::new()).expect("a finite update");
            assert_eq!(sent.form, form, "threshold {threshold}");
        }
    }
}

#[test]
fn what_is_not_finite_is_the_same_error() {
    for wrong in [f32::NAN, f32::NEG_INFINITY] {
        let mut update = vec![0.0; 200];
        update[100] = wrong;
        let expected =
            encode_plain(&mut vec![0.0; 200], &update, 1.0, &mut Vec::new()).map_err(|error| error.to_string());
        for instructions in Instructions::available() {
            let mut encoder = Encoder::with_instructions(vec![0.0; 200], instructions).expect("a short residual");
            let found = encoder.encode(&update, 1.0, &mut Vec::new()).map_err(|error| error.to_string());
            assert_eq!(found, expected);
        }
    }
}
