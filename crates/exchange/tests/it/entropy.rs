//! Sparse messages are close to the shortest that there can be.

use paceline_exchange::{Encoder, Form};
use proptest::prelude::Rng;
use proptest::test_runner::{RngAlgorithm, TestRng};

/// Bits of a sent element, for random places and signs: those of its place, H(p) / p, and one for its sign.
fn entropy(p: f64) -> f64 {
    -(p * p.log2() + (1.0 - p) * (1.0 - p).log2()) / p + 1.0
}

/// Bits of a sent element in a message of `elements` elements of which each is sent with probability `p`; bits of the
/// entropy at the share that was sent.
fn bits(elements: usize, p: f64) -> (f64, f64) {
    let mut random = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let update: Vec<f32> = (0..elements)
        .map(|_| {
            let is_sent = f64::from(random.next_u32()) < p * 4_294_967_296.0;
            let sign = if random.next_u32() & 1 == 0 { 1.0 } else { -1.0 };
            if is_sent { sign } else { 0.0 }
        })
        .collect();
    let mut encoder = Encoder::new(vec![0.0; elements]).expect("a residual that fits");
    let sent = encoder.encode(&update, 1.0, &mut Vec::new()).expect("a finite update");
    assert_eq!(sent.form, Form::Sparse);
    (sent.bytes as f64 * 8.0 / sent.count as f64, entropy(sent.sparsity()))
}

#[test]
fn a_whole_message_is_within_two_percent_of_the_entropy() {
    for p in [1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.2, 0.3] {
        let (found, least) = bits(4_000_000, p);
        assert!(found < least * 1.02, "{p}: {found:.3} bits, entropy {least:.3}");
        assert!(found > least * 0.98, "{p}: {found:.3} bits, entropy {least:.3}");
    }
}

#[test]
fn a_small_network_pays_little_for_the_header() {
    // LeNet has 431,080 parameters.
    for (p, most) in [(1e-3, 1.04), (1e-2, 1.01)] {
        let (found, least) = bits(431_080, p);
        assert!(found < least * most, "{p}: {found:.3} bits, entropy {least:.3}");
    }
}
