//! How fast an update is encoded, beside a plain copy-add over the same buffers, and how fast a message is applied.
//!
//! `cargo bench -p paceline-exchange --bench encode`
//!
//! At 64 M elements almost every sent element is on a page of its own, and what is measured is how fast pages are found;
//! hence parameters are on large pages where the system has them.

#![expect(clippy::print_stdout, reason = "a benchmark prints its table")]

use std::hint::black_box;
use std::time::Instant;

use paceline_exchange::{Encoder, Instructions, Message, decode_into};
use paceline_model::Flat;

/// One element in this many is sent.
const ONE_IN: usize = 1000;
const THRESHOLD: f32 = 1.0;

fn main() {
    println!(
        "sparsity 1e-3, one thread; rates in millions of elements a second, best and (median) of interleaved rounds"
    );
    println!("{:<24} {:>16} {:>16} {:>16}", "encode", "copy-add", "encode", "ratio");
    for (elements, rounds) in [(1_400_000, 300), (64_000_000, 15)] {
        for instructions in Instructions::available() {
            encode(elements, rounds, instructions);
        }
    }
    println!(
        "\nrates in millions of sent elements a second; `touch` adds at the same places, known beforehand, and is what"
    );
    println!("the memory allows; `check` is the part of `decode_into` before anything is touched");
    println!("{:<24} {:>16} {:>16} {:>16}", "decode and apply", "decode_into", "touch", "check");
    for (elements, rounds) in [(1_400_000, 300), (64_000_000, 50)] {
        decode(elements, rounds);
    }
}

fn encode(elements: usize, rounds: usize, instructions: Instructions) {
    let updates = [update(elements, 1.0), update(elements, -1.0)];
    let mut sum = vec![0.0; elements];
    let mut encoder = Encoder::with_instructions(vec![0.0; elements], instructions).expect("a residual that fits");
    let mut message = Vec::new();
    let (mut adding, mut encoding, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..rounds {
        let update = &updates[round % 2];
        let before = seconds(|| add(&mut sum, update));
        encoding.push(seconds(|| {
            let sent = encoder.encode(update, THRESHOLD, &mut message).expect("a finite update");
            assert_eq!(sent.count, elements.div_ceil(ONE_IN));
        }));
        let after = seconds(|| add(&mut sum, update));
        adding.extend([before, after]);
        ratios.push((before + after) / 2.0 / encoding[round]);
    }
    black_box(&sum);
    let name = format!("{:.1} M, {}", elements as f64 / 1e6, instructions.name());
    let rates = |times: &[f64]| {
        format!("{:.0} ({:.0})", elements as f64 / best(times) / 1e6, elements as f64 / median(times) / 1e6)
    };
    let ratio = format!("{:.2} ({:.2})", best(&adding) / best(&encoding), median(&ratios));
    println!("{name:<24} {:>16} {:>16} {ratio:>16}", rates(&adding), rates(&encoding));
}

fn decode(elements: usize, rounds: usize) {
    let mut encoder = Encoder::new(vec![0.0; elements]).expect("a residual that fits");
    let mut message = Vec::new();
    let sent = encoder.encode(&update(elements, 1.0), THRESHOLD, &mut message).expect("a finite update").count as f64;
    // What parameters are in a run: on large pages if there are many.
    let mut parameters = Flat::zeros(elements);
    decode_into(&message, &mut parameters, 1.0).expect("a message");
    let places: Vec<u32> = (0..elements as u32).filter(|index| parameters[*index as usize] != 0.0).collect();
    let (mut applying, mut touching, mut checking) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        applying.push(seconds(|| {
            decode_into(&message, &mut parameters, 0.5).expect("a message");
        }));
        touching.push(seconds(|| places.iter().for_each(|index| parameters[*index as usize] += 0.5)));
        checking.push(seconds(|| {
            black_box(Message::read(black_box(&message)).expect("a message"));
        }));
    }
    black_box(&parameters);
    let rates = |times: &[f64]| format!("{:.0} ({:.0})", sent / best(times) / 1e6, sent / median(times) / 1e6);
    let name = format!("{:.1} M", elements as f64 / 1e6);
    println!("{name:<24} {:>16} {:>16} {:>16}", rates(&applying), rates(&touching), rates(&checking));
}

/// An update that sends one element in a thousand, at places that look random, and leaves nothing of it behind.
fn update(elements: usize, sign: f32) -> Vec<f32> {
    let mut update: Vec<f32> = (0..elements).map(|i| sign * 1e-3 * ((i * 7919) % 101) as f32).collect();
    let sent = elements.div_ceil(ONE_IN);
    // Steps of a prime around the buffer never meet twice.
    const PRIME: usize = 15_485_863;
    for place in 0..sent {
        update[(place * PRIME) % elements] = sign * THRESHOLD;
    }
    update
}

/// What the encoder is measured against; compiled as the rest of the program is.
#[inline(never)]
fn add(sum: &mut [f32], update: &[f32]) {
    for (sum, update) in sum.iter_mut().zip(update) {
        *sum += update;
    }
}

fn seconds(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64()
}

fn best(times: &[f64]) -> f64 {
    times.iter().copied().fold(f64::MAX, f64::min)
}

fn median(times: &[f64]) -> f64 {
    let mut times = times.to_vec();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
