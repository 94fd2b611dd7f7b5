//! All errors of a run, rendered: the list in `messages.txt` is read from top to bottom when one changes.

use std::collections::HashSet;
use std::io::{Error as Io, ErrorKind};
use std::mem::discriminant;

use paceline_train::{Error, Holds};

/// One error of every kind, with values as they occur.
fn all() -> Vec<Error> {
    vec![
        Error::Job { origin: "the targets".into(), line: Some(4), message: "needs targets that are numbers: leave it out for classes".into() },
        Error::Setting { setting: "batch".into(), message: "needs targets that are numbers: leave it out for classes".into() },
        Error::Varied { setting: "batch".into(), message: "needs targets that are numbers: leave it out for classes".into() },
        Error::OtherModel { expected: "at least 1".into(), found: "reed".into() },
        Error::PartitionsAreNotSplit,
        Error::Misfit { what: "rows", found: "reed".into(), expected: "at least 1".into() },
        Error::Output { path: "data/flowers.csv".into(), source: Io::new(ErrorKind::PermissionDenied, "Permission denied") },
        Error::FolderInUse { path: "data/flowers.csv".into(), by: "semicolons".into() },
        Error::RunExists { path: "data/flowers.csv".into(), holds: Holds::MasterRun },
        Error::NotEnoughMemory { needed: 3, available: 3 },
        Error::FileInTheWay { path: "data/flowers.csv".into() },
        Error::Dump { path: "data/flowers.csv".into(), source: Io::new(ErrorKind::PermissionDenied, "Permission denied") },
        Error::OtherTuning { path: "data/flowers.csv".into() },
        Error::NothingToJudge,
        Error::NothingToResume { path: "data/flowers.csv".into() },
        Error::OtherRun { path: "data/flowers.csv".into(), what: "x".into(), expected: "at least 1".into(), found: "reed".into() },
        Error::NotFinite { loss: 2.5, step: 3, epoch: 3, cause: "x".into(), checkpoint: "x".into() },
        Error::Unsuitable { setting: "data.batch", message: "needs targets that are numbers: leave it out for classes".into() },
        Error::BadSetting { setting: "data.batch", expected: "finite number", found: "reed".into() },
        Error::Folds { message: "needs targets that are numbers: leave it out for classes".into() },
        Error::WorkerPanicked { worker: 3, message: "needs targets that are numbers: leave it out for classes".into() },
        Error::ReaderPanicked { message: "needs targets that are numbers: leave it out for classes".into() },
        Error::WorkerThread { source: Io::new(ErrorKind::PermissionDenied, "Permission denied") },
        Error::Abandoned,
    ]
}

#[test]
fn every_error_reads_as_one_sentence_with_what_was_found() {
    let errors = all();
    let kinds: HashSet<_> = errors.iter().map(discriminant).collect();
    assert_eq!(kinds.len(), errors.len(), "one of each kind");
    let lines: Vec<String> = errors.iter().map(|error| error.to_string()).collect();
    for line in &lines {
        assert!(!line.contains('\n') && !line.ends_with('.') && !line.contains("  "), "one line, without a full stop: {line}");
        assert!(!line.contains("but must be") && !line.contains("Some(") && !line.contains("os error"), "{line}");
    }
    assert_eq!(lines.join("\n") + "\n", include_str!("messages.txt"), "the list in `messages.txt` is what users read");
}
