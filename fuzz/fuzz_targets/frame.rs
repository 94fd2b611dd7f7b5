//! Bytes from anywhere never panic, give the same frames however they are cut, and only frames that say what was sent.

#![no_main]

use libfuzzer_sys::fuzz_target;
use paceline_exchange::{Frame, FrameError, FrameReader};

fuzz_target!(|bytes: &[u8]| {
    let Some((&[low, high, piece], stream)) = bytes.split_first_chunk::<3>() else { return };
    let limit = usize::from(u16::from_le_bytes([low, high]));
    let piece = usize::from(piece).max(1);
    judge(stream, limit, piece);
    // A fuzzer hardly guesses a checksum, so that what it has found is also sent properly, and damaged afterwards.
    let mut sent = Vec::new();
    for (sequence, body) in stream.chunks(limit.max(1)).enumerate() {
        Frame { kind: low.into(), run: 1, term: 2, origin: 3, sequence: sequence as u64, body: body.to_vec().into() }.write(&mut sent);
    }
    judge(&sent, limit.max(1), piece);
    if let Some(byte) = sent.len().checked_sub(1).and_then(|last| sent.get_mut(usize::from(high) % (last + 1))) {
        *byte ^= 1 << (low % 8);
        judge(&sent, limit, piece);
    }
});

fn judge(stream: &[u8], limit: usize, piece: usize) {
    let (frames, end) = read(stream.chunks(stream.len().max(1)), limit);
    let (same, same_end) = read(stream.chunks(piece), limit);
    assert_eq!(frames, same);
    let kind = |end: &Result<(), FrameError>| end.as_ref().err().map(std::mem::discriminant);
    assert_eq!(kind(&end), kind(&same_end), "{end:?} and {same_end:?}");

    let mut again = Vec::new();
    for frame in &frames {
        assert!(frame.body.len() <= limit as u64);
        let start = again.len();
        frame.write(&mut again);
        // The minor version may be newer, and the checksum with it.
        again[start + 5] = stream[start + 5];
        again[start + 12..start + 16].copy_from_slice(&stream[start + 12..start + 16]);
    }
    assert!(stream.starts_with(&again));
    assert_eq!(end.is_ok(), stream.len() == again.len());
}

fn read<'a>(pieces: impl Iterator<Item = &'a [u8]>, limit: usize) -> (Vec<Frame>, Result<(), FrameError>) {
    let mut reader = FrameReader::new(limit);
    let mut frames = Vec::new();
    for piece in pieces {
        reader.push(piece);
        loop {
            match reader.next() {
                Ok(Some(frame)) => frames.push(frame),
                Ok(None) => break,
                Err(error) => return (frames, Err(error)),
            }
        }
    }
    let end = reader.finish();
    (frames, end)
}
