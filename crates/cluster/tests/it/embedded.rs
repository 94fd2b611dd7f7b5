//! Coordination by the files of a folder.

use std::fs;
use std::time::Duration;

use paceline_cluster::coordination::{Coordination, CoordinationError, Embedded};
use tempfile::TempDir;

use crate::suite::{LONG, led, record};

struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary folder"))
    }

    fn candidate(&self) -> Box<dyn Coordination> {
        Box::new(Embedded::standby(self.0.path()))
    }
}

crate::suite::conformance!(Folder::new());

#[test]
fn a_second_master_in_one_folder_is_refused_with_the_folder() {
    let folder = Folder::new();
    let mut first = Embedded::new(folder.0.path());
    led(&mut first);
    let error = Embedded::new(folder.0.path()).lead(LONG).expect_err("the folder is in use");
    assert!(matches!(error, CoordinationError::FolderInUse { .. }), "{error:?}");
    let said = error.to_string();
    assert!(said.contains(&folder.0.path().display().to_string()), "{said}");
    assert!(said.contains(&std::process::id().to_string()), "{said}");
    first.check().expect("the first one still leads");
    drop(first);
    assert_eq!(led(&mut Embedded::new(folder.0.path())), 2);
}

#[test]
fn those_who_look_for_a_master_do_not_keep_one_from_leading() {
    let folder = Folder::new();
    led(&mut Embedded::new(folder.0.path()));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| Embedded::new(folder.0.path()).find(40, Duration::from_millis(200)));
        }
        for expected in 2..=40 {
            assert_eq!(led(&mut Embedded::new(folder.0.path())), expected);
        }
    });
}

#[test]
fn the_folder_is_made() {
    let folder = Folder::new();
    assert_eq!(led(&mut Embedded::new(folder.0.path().join("runs/a"))), 1);
    assert_eq!(fs::read_to_string(folder.0.path().join("runs/a/term")).expect("a term"), "1\n");
}

#[test]
fn a_torn_term_is_an_error_that_names_the_file_and_nothing_is_written_over_it() {
    for torn in ["", "7", "x\n", "-1\n", "+7\n", "99999999999999999999999\n", "7\n7\n"] {
        let folder = Folder::new();
        let path = folder.0.path().join("term");
        fs::write(&path, torn).expect("a writable folder");
        let said = Embedded::new(folder.0.path()).lead(LONG).expect_err("no term").to_string();
        assert!(said.contains(&path.display().to_string()), "{torn:?}: {said}");
        assert_eq!(fs::read_to_string(&path).expect("a file"), torn);
    }
}

#[test]
fn a_torn_record_is_an_error_that_names_the_file() {
    let folder = Folder::new();
    let path = folder.0.path().join("record.json");
    fs::write(&path, "{").expect("a writable folder");
    let said = Embedded::new(folder.0.path()).lead(LONG).expect_err("no record").to_string();
    assert!(said.contains(&path.display().to_string()), "{said}");
}

#[test]
fn a_term_file_that_was_removed_does_not_bring_old_terms_back() {
    let folder = Folder::new();
    let mut leader = Embedded::new(folder.0.path());
    for _ in 0..3 {
        led(&mut leader);
    }
    leader.publish(&record(3)).expect("it leads");
    drop(leader);
    fs::remove_file(folder.0.path().join("term")).expect("there is one");
    assert_eq!(led(&mut Embedded::new(folder.0.path())), 4);
}

#[test]
fn a_leader_sees_that_a_newer_term_was_taken_without_its_lock() {
    let folder = Folder::new();
    let mut leader = Embedded::new(folder.0.path());
    led(&mut leader);
    leader.publish(&record(1)).expect("it leads");
    // As on a file system whose locks do not hold.
    fs::write(folder.0.path().join("term"), "5\n").expect("a writable folder");
    assert!(matches!(leader.publish(&record(1)), Err(CoordinationError::Fenced { mine: 1, newest: 5 })));
    assert!(matches!(leader.check(), Err(CoordinationError::Lost { .. })));
}

#[test]
fn a_worker_whose_process_died_is_not_shown() {
    let folder = Folder::new();
    let workers = folder.0.path().join("workers");
    fs::create_dir(&workers).expect("a writable folder");
    fs::write(workers.join("00ff~gone"), "").expect("a writable folder");
    assert_eq!(Embedded::new(folder.0.path()).workers().expect("no error"), [""; 0]);
    assert!(!workers.join("00ff~gone").exists(), "it is cleaned up");
}
