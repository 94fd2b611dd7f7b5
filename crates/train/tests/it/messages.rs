//! All errors of a run, rendered: the list in `messages.txt` is read from top to bottom when one changes.

use std::collections::HashSet;
use std::io::{Error as Io, ErrorKind};
use std::mem::discriminant;

use paceline_train::{Error, Holds};

/// One error of every kind, with values as they occur.
fn all() -> Vec<Error> {
    vec![
        Error::Job {
            origin: "`job.toml`".into(),
            line: Some(4),
            message: "layer 2 (dense): unknown key `unit`; did you mean `units`?".into(),
        },
        Error::Setting {
            setting: "train.epoch=3".into(),
            message: "in `train`: unknown key `epoch`; did you mean `epochs`?".into(),
        },
        Error::Varied {
            setting: "train.epoch=3".into(),
            message: "in `train`: unknown key `epoch`; did you mean `epochs`?".into(),
        },
        Error::OtherModel { expected: "`0.weight` [64, 16]".into(), found: "`0.weight` [64, 32]".into() },
        Error::PartitionsAreNotSplit,
        Error::Misfit { what: "training", found: "3 classes".into(), expected: "at most 2, as many as it has outputs".into() },
        Error::Output {
            path: "runs/flowers".into(),
            source: Io::new(ErrorKind::PermissionDenied, "Permission denied"),
        },
        Error::FolderInUse { path: "runs/flowers".into(), by: "process 4711, another".into() },
        Error::RunExists { path: "runs/flowers".into(), holds: Holds::MasterRun },
        Error::NotEnoughMemory { needed: 25 << 30, available: 20 << 30, can_force: true },
        Error::InputInTheWay { path: "runs/flowers".into() },
        Error::FileInTheWay { path: "runs/flowers".into() },
        Error::Dump {
            path: "runs/flowers".into(),
            source: Io::new(ErrorKind::PermissionDenied, "Permission denied"),
        },
        Error::OtherTuning { path: "runs/flowers".into() },
        Error::NothingToJudge,
        Error::NothingToResume { path: "runs/flowers".into() },
        Error::OtherRun {
            path: "runs/flowers".into(),
            what: "`data.batch`".into(),
            expected: "31".into(),
            found: "30".into(),
        },
        Error::NotFinite { loss: f64::NAN, step: 3, epoch: 3, cause: "the largest parameter is 1e30, so the learning rate is most likely too high: lower it, or clip gradients".into(), checkpoint: "no checkpoint was written before".into() },
        Error::Unsuitable {
            setting: "tune",
            message: "needs test data: set `data.test` or `data.test_share`".into(),
        },
        Error::BadSetting { setting: "data.batch", expected: "at least 1", found: "0".into() },
        Error::Folds { folds: 501, examples: 500 },
        Error::WorkerPanicked { worker: 3, message: "index out of bounds".into() },
        Error::ReaderPanicked { message: "index out of bounds".into() },
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
        assert!(
            !line.contains('\n') && !line.ends_with('.') && !line.contains("  "),
            "one line, without a full stop: {line}"
        );
        assert!(!line.contains("but must be") && !line.contains("Some(") && !line.contains("os error"), "{line}");
    }
    let (text, kept) = (lines.join("\n") + "\n", include_str!("messages.txt"));
    assert!(text == kept, "the list in `messages.txt` is what users read; now it is\n{text}");
}
