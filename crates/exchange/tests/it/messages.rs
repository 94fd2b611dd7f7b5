//! All errors of the exchange, rendered: the list in `messages.txt` is read from top to bottom when one changes.

use paceline_exchange::{Error, Form, FrameError, MessageError};

fn all() -> Vec<String> {
    let settings = [
        Error::TooManyElements { found: 5_000_000_000 },
        Error::WrongLength { expected: 100, found: 99 },
        Error::BadThreshold { found: -0.5 },
        Error::NotFinite { buffer: "update", index: 7, found: f32::NAN },
        Error::BadSetting { setting: "train.mode.shared.target", expected: "a number from 0 to 1", found: 2.0 },
    ];
    let messages = [
        MessageError::NoHeader { expected: 16, found: 3 },
        MessageError::UnknownVersion { expected: 1, found: 9 },
        MessageError::UnknownForm { found: 9 },
        MessageError::NotReserved { found: 1 },
        MessageError::BadRiceParameter { form: Form::Sparse, expected: 30, found: 31 },
        MessageError::BadThreshold { form: Form::Bitmap, expected: "a finite number above 0", found: -1.0 },
        MessageError::BadSentCount { form: Form::Dense, elements: 100, found: 101 },
        MessageError::WrongLength { form: Form::Bitmap, expected: 25, found: 24 },
        MessageError::WrongSentCount { form: Form::Sparse, expected: 7, found: 6 },
        MessageError::IndexOutOfRange { elements: 100, found: 100 },
        MessageError::BitsInPadding { form: Form::Bitmap },
        MessageError::SignWithoutElement { index: 7 },
        MessageError::NotFinite { index: 7, found: f32::INFINITY },
        MessageError::WrongElements { expected: 100, found: 99 },
        MessageError::BadScale { scale: 1e30, largest: 1e20 },
    ];
    let frames = [
        FrameError::WrongMagic { found: b"GET ".to_vec() },
        FrameError::OtherMajor { found: (9, 0) },
        FrameError::TooLarge { kind: 3, limit: 65_536, found: 1 << 40 },
        FrameError::BadChecksum { kind: 3, expected: 0x1234_5678, found: 0x8765_4321 },
        FrameError::BadPiece { what: "one of 65536 bytes, found one of 7" },
        FrameError::NotKept { length: 1 << 32, reason: "No space left on device".into() },
        FrameError::CutOff { part: "header", expected: 48, found: 7 },
    ];
    let settings = settings.iter().map(ToString::to_string);
    let messages = messages.iter().map(ToString::to_string);
    settings.chain(messages).chain(frames.iter().map(ToString::to_string)).collect()
}

#[test]
fn every_error_reads_as_one_sentence_with_what_was_found() {
    let lines = all();
    for line in &lines {
        assert!(!line.contains('\n') && !line.ends_with('.'), "one line, without a full stop: {line}");
        assert!(!line.contains("but must be") && !line.contains("Some("), "{line}");
    }
    let (text, kept) = (lines.join("\n") + "\n", include_str!("messages.txt"));
    assert!(text == kept, "the list in `messages.txt` is what users read; now it is\n{text}");
}
