//! However a stream is cut, the same frames come out of it; whatever bit is flipped, no wrong one does.

use paceline_exchange::{Frame, FrameError, FrameReader};
use proptest::prelude::*;

const LIMIT: usize = 500;

prop_compose! {
    fn frame()(
        kind in any::<u16>(),
        run in any::<u64>(),
        term in any::<u64>(),
        origin in any::<u64>(),
        sequence in any::<u64>(),
        body in prop::collection::vec(any::<u8>(), 0..=LIMIT),
    ) -> Frame {
        Frame { kind, run, term, origin, sequence, body: body.into() }
    }
}

fn bytes(frames: &[Frame]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for frame in frames {
        frame.write(&mut bytes);
    }
    bytes
}

/// The frames of a stream that arrives in `pieces`, and how it ends.
fn read<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> (Vec<Frame>, Result<(), FrameError>) {
    let mut reader = FrameReader::new(LIMIT);
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

/// `stream`, cut wherever `cuts` say.
fn pieces<'a>(stream: &'a [u8], cuts: &[prop::sample::Index]) -> Vec<&'a [u8]> {
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
    cuts.extend([0, stream.len()]);
    cuts.sort_unstable();
    cuts.windows(2).map(|cut| &stream[cut[0]..cut[1]]).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn any_cut_of_a_stream_gives_the_same_frames(
        frames in prop::collection::vec(frame(), 0..5),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..20),
    ) {
        let stream = bytes(&frames);
        prop_assert_eq!(read(pieces(&stream, &cuts)), (frames.clone(), Ok(())));
        prop_assert_eq!(read(stream.chunks(1)), (frames, Ok(())));
    }

    #[test]
    fn a_stream_cut_short_gives_a_prefix_and_says_so(
        frames in prop::collection::vec(frame(), 1..5),
        cut in any::<prop::sample::Index>(),
    ) {
        let stream = bytes(&frames);
        let cut = cut.index(stream.len());
        let (found, end) = read([&stream[..cut]]);
        prop_assert!(frames.starts_with(&found) && found.len() < frames.len());
        prop_assert_eq!(end.is_ok(), cut == bytes(&found).len());
    }

    #[test]
    fn a_flipped_bit_is_refused(frame in frame(), bit in any::<prop::sample::Index>(), cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..5)) {
        let mut stream = bytes(std::slice::from_ref(&frame));
        let bit = bit.index(stream.len() * 8);
        stream[bit / 8] ^= 1 << (bit % 8);
        // A longer length waits for bytes that it never gets checked against if nothing follows.
        stream.extend([0; LIMIT]);
        let (frames, end) = read(pieces(&stream, &cuts));
        prop_assert_eq!(frames, vec![]);
        let error = end.expect_err("a flipped bit");
        let as_expected = match bit / 8 {
            0..4 => matches!(error, FrameError::WrongMagic { .. }),
            4 => matches!(error, FrameError::OtherMajor { .. }),
            8..12 => matches!(error, FrameError::BadChecksum { .. } | FrameError::TooLarge { .. }),
            _ => matches!(error, FrameError::BadChecksum { .. }),
        };
        prop_assert!(as_expected, "byte {}: {}", bit / 8, error);
    }

    #[test]
    fn random_bytes_do_no_harm(
        mut stream in prop::collection::vec(any::<u8>(), 0..300),
        good in 0..7usize,
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..5),
    ) {
        let start = b"PCLN\x01\x00";
        let good = good.min(stream.len()).min(start.len());
        stream[..good].copy_from_slice(&start[..good]);
        let (frames, _) = read(pieces(&stream, &cuts));
        prop_assert_eq!(frames, vec![], "a checksum that fits by chance");
    }
}
