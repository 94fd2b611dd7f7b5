//! All errors of reading data, rendered: the list in `messages.txt` is read from top to bottom when one changes.

use std::collections::HashSet;
use std::io::{Error as Io, ErrorKind};
use std::mem::discriminant;

use paceline_data::{Advice, Error, Missing, Suggestion};

/// One error of every kind, with values as they occur.
fn all() -> Vec<Error> {
    vec![
        Error::UnknownScheme { spec: "flowers.csv".into(), suggestion: Suggestion(Some("csv:flowers.csv".into())) },
        Error::NoRoomToUnpack {
            path: "data/flowers.csv".into(),
            folder: "/tmp".into(),
            source: Io::new(ErrorKind::PermissionDenied, "Permission denied"),
        },
        Error::NotGiven { name: "mnist".into() },
        Error::Partitions { reason: "expected a partition from 0 to 3, found 7".into() },
        Error::OutsideRoot { path: "data/flowers.csv".into(), root: "data".into() },
        Error::UnknownName {
            what: "option of `csv:`",
            found: "reed".into(),
            expected: "`label`, `drop`".into(),
            suggestion: Suggestion(Some("red".into())),
        },
        Error::RepeatedOption { option: "drop".into(), spec: "csv:flowers.csv?drop=a&drop=b".into() },
        Error::Unsuitable {
            setting: "data.batch",
            message: "needs targets that are numbers: leave it out for classes".into(),
        },
        Error::BadSetting { setting: "batch", expected: "at least 1".into(), found: "0".into() },
        Error::File {
            action: "read",
            path: "data/flowers.csv".into(),
            source: Io::new(ErrorKind::PermissionDenied, "Permission denied"),
        },
        Error::BrokenGzip {
            path: "data/flowers.csv".into(),
            source: Io::new(ErrorKind::PermissionDenied, "Permission denied"),
        },
        Error::IdxMagic { path: "data/flowers.csv".into(), found: vec![0x50, 0x4b] },
        Error::IdxLength { path: "data/flowers.csv".into(), expected: "784".into(), found: "500".into() },
        Error::IdxRank { path: "data/flowers.csv".into(), purpose: "images", expected: "3 or 4", found: 3 },
        Error::LabelCount { features: "images.idx".into(), examples: 100, targets: "labels.idx".into(), labels: 99 },
        Error::LabelOutOfRange { origin: "the targets".into(), example: 4, found: 3, last: 9 },
        Error::NotFinite { origin: "the targets".into(), example: 4, place: 3, found: f64::NAN },
        Error::RaggedRow { path: "data/flowers.csv".into(), line: 7, expected: 5, found: 3, lines: 40 },
        Error::BadCell {
            path: "data/flowers.csv".into(),
            line: 7,
            column: "colour".into(),
            expected: "finite number, as in most of this column",
            found: "reed".into(),
        },
        Error::MissingValue {
            path: "data/flowers.csv".into(),
            line: 7,
            column: "colour".into(),
            found: String::new(),
            rule: Missing::Error,
            advice: "; other rules are `missing=drop`, `missing=mean` and `missing=value:NUMBER`",
            all: "; rows that lack a value, by column: `age` (12)".into(),
        },
        Error::UnknownCategory {
            path: "data/flowers.csv".into(),
            line: 7,
            column: "colour".into(),
            found: "reed".into(),
            known: 3,
            suggestion: Suggestion(Some("red".into())),
            advice: Advice::Ignore,
        },
        Error::TooManyNames { path: "data/flowers.csv".into(), column: "colour".into(), limit: 10_000 },
        Error::StrayQuote { path: "data/flowers.csv".into(), line: 7, end: 9 },
        Error::OpenQuote { path: "data/flowers.csv".into(), line: 7 },
        Error::NoSuchColumns {
            path: "data/flowers.csv".into(),
            found: "`reed`, `blue`".into(),
            columns: "`length`, `colour`".into(),
        },
        Error::NoSuchColumn {
            path: "data/flowers.csv".into(),
            found: "reed".into(),
            columns: "`length`, `colour`".into(),
            suggestion: Suggestion(Some("red".into())),
        },
        Error::DuplicateColumn { path: "data/flowers.csv".into(), column: "colour".into() },
        Error::BadLine { path: "data/flowers.csv".into(), line: 7, reason: "expected `:` at column 9".into() },
        Error::BadKey {
            path: "data/flowers.csv".into(),
            line: 7,
            key: "colour".into(),
            expected: "a list of 3 numbers, as before".into(),
            found: "a list of 2".into(),
        },
        Error::NoSuchKey {
            path: "data/flowers.csv".into(),
            found: "reed".into(),
            keys: "`length`, `colour`".into(),
            suggestion: Suggestion(Some("red".into())),
        },
        Error::NoLabel {
            path: "data/flowers.csv".into(),
            line: 7,
            reason: "expected a label before a tab, as in the first line".into(),
        },
        Error::NoLines { path: "data/flowers.csv".into(), expected: "a JSON object on every line" },
        Error::TooMany { path: "data/flowers.csv".into(), what: "rows", limit: 10_000 },
        Error::EmptyTable { path: "data/flowers.csv".into() },
        Error::OnlyHeader { path: "data/flowers.csv".into() },
        Error::OtherDelimiter { path: "data/flowers.csv".into(), found: "reed".into(), by: "semicolons", option: ";" },
        Error::NumbersInHeader { path: "data/flowers.csv".into(), column: "colour".into(), found: "reed".into() },
        Error::NothingLeft { path: "data/flowers.csv".into(), what: "rows" },
        Error::BadValue {
            path: "data/flowers.csv".into(),
            column: "colour".into(),
            row: 12,
            expected: "a weight that is finite and not negative",
            found: "-1".into(),
        },
        Error::UnknownClass {
            path: "data/flowers.csv".into(),
            column: "colour".into(),
            row: 12,
            found: "reed".into(),
            known: 3,
            suggestion: Suggestion(Some("red".into())),
            advice: Advice::HeldOut,
        },
        Error::TooManyClasses { path: "data/flowers.csv".into(), column: "colour".into(), limit: 10_000 },
        Error::NotParquet { path: "data/flowers.csv".into(), source: "unexpected end".into() },
        Error::DamagedShards { path: "data/flowers.csv".into() },
        Error::NotArrow { path: "data/flowers.csv".into(), source: "unexpected end".into() },
        Error::WithoutShards,
        Error::WithoutImages,
        Error::UnreadableImages { path: "data/flowers.csv".into(), count: 3, of: 3, listed: "a.png (cut off)".into() },
        Error::LostImage { path: "data/flowers.csv".into(), source: "unexpected end".into() },
        Error::NotUtf8 { path: "data/flowers.csv".into(), line: 7 },
        Error::FileChanged { path: "data/flowers.csv".into(), what: "it has fewer rows than before" },
        Error::IndexOutOfRange { index: 3, examples: 100 },
        Error::ShapeMismatch { what: "the number of features", expected: "64".into(), found: "63".into() },
        Error::StreamEnded { expected: 3, found: 2 },
        Error::StreamFailed { example: 4, source: "unexpected end".into() },
        Error::LoaderPanicked { epoch: 3, step: 3, message: "index out of bounds".into() },
        Error::LoaderThread { source: Io::new(ErrorKind::PermissionDenied, "Permission denied") },
        Error::Offline { name: "mnist".into(), cache: "cache".into() },
        Error::DamagedCache { name: "mnist".into(), path: "cache/mnist".into() },
        Error::NoCacheFolder,
        Error::Request { url: "https://example.org/train.gz".into(), source: "unexpected end".into() },
        Error::BrokenDownload { url: "https://example.org/train.gz".into(), expected: Some(512), found: 3 },
        Error::DownloadTooLarge { url: "https://example.org/train.gz".into(), limit: 10_000 },
        Error::Checksum {
            file: "train.gz".into(),
            origin: "https://example.org".into(),
            expected: "9f86".into(),
            found: "60ae".into(),
        },
        Error::NotInPackage { origin: "package.tgz".into(), file: "train.gz".into(), expected: 3 },
        Error::Command { command: "npm".into(), message: "not found".into() },
    ]
}

#[test]
fn every_error_reads_as_one_sentence_with_what_was_found() {
    let errors = all();
    let kinds: HashSet<_> = errors.iter().map(discriminant).collect();
    assert_eq!(kinds.len(), errors.len(), "one of each kind");
    let lines: Vec<String> = errors.iter().map(|error| error.to_string()).collect();
    for line in &lines {
        assert!(
            !line.contains('\n') && !line.ends_with('.') && !line.contains("  "),
            "one line, without a full stop: {line}"
        );
        assert!(!line.contains("but must be") && !line.contains("Some(") && !line.contains("os error"), "{line}");
    }
    let (text, kept) = (lines.join("\n") + "\n", include_str!("messages.txt"));
    assert!(text == kept, "the list in `messages.txt` is what users read; now it is\n{text}");
}
