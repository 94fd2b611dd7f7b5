//! Data that lives with its workers: a master without any of it, and workers that each bring some.

use std::path::Path;

use crate::masters::{EXAMPLES, address, ended_well, left_well, master, worker};
use crate::paceline::{named, run};

/// The digits in three tables of unequal length, each with its note.
fn three_partitions(folder: &Path) {
    run(folder, &["data", "export", "digits:train", "whole", "--format", "csv"]).done();
    let file =
        std::fs::read_dir(folder.join("whole")).expect("a folder").next().expect("a file").expect("a file").path();
    let text = std::fs::read_to_string(file).expect("a table");
    let (header, rows) = text.split_once('\n').expect("a header");
    let rows: Vec<&str> = rows.lines().collect();
    assert_eq!(rows.len() as u64, EXAMPLES);
    for (partition, part) in [&rows[..200], &rows[200..700], &rows[700..]].into_iter().enumerate() {
        std::fs::write(folder.join(format!("{partition}.csv")), format!("{header}\n{}\n", part.join("\n")))
            .expect("a table");
        let (spec, number) = (spec(partition), partition.to_string());
        let like: &[&str] = if partition == 0 { &[] } else { &["--like", "notes/partition-0.json"] };
        let usual = ["data", "describe", &spec, "--partition", &number, "--output", "notes"];
        run(folder, &[&usual, like].concat()).done();
    }
}

fn spec(partition: usize) -> String {
    format!("csv:{partition}.csv?label=label&task=classes")
}

fn brings(partition: usize) -> String {
    format!("{partition}={}", spec(partition))
}

/// Of a job whose training data is in the notes of a folder.
const OF_NOTES: [&str; 6] = [
    "--set",
    "data.train=partitions:notes",
    "--set",
    "data.test=csv:2.csv?label=label&task=classes",
    "--set",
    "data.normaliser=min_max",
];

#[test]
fn workers_that_bring_partitions_train_all_of_them() {
    let folder = tempfile::tempdir().expect("a folder");
    three_partitions(folder.path());
    for mode in ["sync", "averaging", "shared"] {
        let arguments = [&OF_NOTES[..], &["--mode", mode, "--min-workers", "2", "--restart"]].concat();
        let mut master = master(folder.path(), &arguments);
        let address = address(&mut master);
        let one = worker(folder.path(), &["--join", &address, "--partition", &brings(0), "--partition", &brings(2)]);
        let other = worker(folder.path(), &["--join", &address, "--partition", &brings(1)]);
        ended_well(master, 20);
        [one, other].into_iter().for_each(|worker| drop(left_well(worker)));
    }
}

#[test]
fn a_partition_that_nobody_has_is_waited_for_and_comes_again_with_another_worker() {
    let folder = tempfile::tempdir().expect("a folder");
    three_partitions(folder.path());
    let mut master = master(folder.path(), &OF_NOTES);
    let address = address(&mut master);
    let first = worker(folder.path(), &["--join", &address, "--partition", &brings(0), "--partition", &brings(1)]);
    let waits = master.wait_for("waiting_for_partitions");
    assert_eq!(waits["partitions"], serde_json::json!([2]));
    let second = worker(folder.path(), &["--join", &address, "--partition", &brings(2)]);
    // Another comes for it when that one is killed, in the middle of an epoch.
    master.wait_for("epoch");
    second.kill();
    let third = worker(folder.path(), &["--join", &address, "--partition", &brings(2)]);
    let events = ended_well(master, 20);
    assert!(!named(&events, "worker_lost").is_empty());
    [first, third].into_iter().for_each(|worker| drop(left_well(worker)));
}

#[test]
fn what_does_not_fit_is_refused_in_a_sentence() {
    let folder = tempfile::tempdir().expect("a folder");
    three_partitions(folder.path());
    let mut master = master(folder.path(), &OF_NOTES);
    let address = address(&mut master);
    let other = format!("1={}", spec(0));
    let refused = |more: &[&str], parts: &[&str]| {
        let usual = ["worker", "--slots", "1", "--join", &address];
        run(folder.path(), &[&usual[..], more].concat()).refused(1, parts);
    };
    refused(&["--partition", &other], &["partition 1", "500 examples", "200"]);
    refused(&[], &["--partition NUMBER=SOURCE"]);
    let missing = run(folder.path(), &["worker", "--join", &address, "--partition", "csv:0.csv"]);
    missing.refused(2, &["NUMBER=SOURCE"]);
    drop(master);
    std::fs::remove_file(folder.path().join("notes/partition-1.json")).expect("it was there");
    let alone = run(folder.path(), &[&["master", "--output", "other"], &OF_NOTES[..]].concat());
    alone.refused(1, &["expected one note of partition 1, found none"]);
}
