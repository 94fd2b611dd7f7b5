//! Bodies of frames from anywhere never panic, and words that are read are written as what is read again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use paceline_cluster::wire::{Word, read_values, write_values};
use paceline_exchange::Frame;

fuzz_target!(|bytes: &[u8]| {
    judge(bytes);
    // A fuzzer hardly guesses a length, so that what it has found is also tried as a word of the right one.
    let mut body = (bytes.len() as u32).to_le_bytes().to_vec();
    body.extend(bytes);
    judge(&body);

    if let Ok(values) = read_values(bytes) {
        assert_eq!(write_values(&values), bytes);
    }
});

fn judge(body: &[u8]) {
    let frame = Frame { kind: 1, run: 1, term: 2, origin: 3, sequence: 4, body: body.to_vec().into() };
    let Ok((word, numbers)) = Word::read(&frame) else { return };
    assert!(frame.body.memory().ends_with(numbers.memory()));
    let again = word.frame(1, 2, 3, 4, &numbers);
    let (same, same_numbers) = Word::read(&again).expect("what was written can be read");
    assert_eq!(format!("{same:?}"), format!("{word:?}"), "numbers that are none differ from themselves");
    assert_eq!(same_numbers, numbers);
}
