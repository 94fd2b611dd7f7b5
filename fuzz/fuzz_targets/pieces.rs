//! Pieces from anywhere never panic, never hold more than the limit or than has come, and give what was sent.

#![no_main]

use libfuzzer_sys::fuzz_target;
use paceline_exchange::{Frame, FrameReader, Pieces, Spool};

/// Nothing here is too long for memory.
fn nowhere() -> std::io::Result<Box<dyn Spool>> {
    Err(std::io::ErrorKind::StorageFull.into())
}

fuzz_target!(|bytes: &[u8]| {
    let Some((&[low, high, cut], stream)) = bytes.split_first_chunk::<3>() else { return };
    let limit = usize::from(u16::from_le_bytes([low, high]));
    let (mut pieces, mut came) = (Pieces::new(nowhere), 0);
    for body in stream.chunks(usize::from(cut).max(1)) {
        let sequence = u64::from(body[0] & 1);
        came += body.len();
        let piece = Frame { kind: Frame::PIECE, run: 1, term: 2, origin: 3, sequence, body: body.to_vec().into() };
        match pieces.take(piece, limit) {
            Ok(Some(frame)) => assert!(frame.body.len() <= limit.min(came) as u64 && frame.kind < Frame::PIECE),
            Ok(None) => assert!(pieces.is_open()),
            Err(_) => assert!(!pieces.is_open()),
        }
    }

    // A frame that is long because its bytes come again and again.
    let body: Vec<u8> = stream.iter().copied().cycle().take(if stream.is_empty() { 0 } else { Frame::WHOLE + limit }).collect();
    let whole = Frame { kind: u16::from(low), run: 1, term: 2, origin: 3, sequence: u64::from(high), body: body.into() };
    let (mut gone, mut reader, mut pieces) = (0, FrameReader::new(Frame::LONGEST), Pieces::new(nowhere));
    let mut last = None;
    while gone < whole.body.len() {
        let mut wire = Vec::new();
        gone = whole.write_piece(gone, &mut wire).expect("bytes in memory").end;
        reader.push(&wire);
        let piece = reader.next().expect("a frame").expect("all of it");
        last = pieces.take(piece, whole.size()).expect("a piece");
    }
    assert!(whole.body.is_empty() || last.is_some_and(|frame| frame == whole));
});
