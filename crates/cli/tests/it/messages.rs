//! Errors of the command line, rendered: the list in `messages.txt` is read from top to bottom when one changes.

use std::fs;
use std::path::Path;

use crate::paceline::run;

/// Commands that are refused, in a folder with a table, a model of it, and files that are in the way.
const COMMANDS: &[&[&str]] = &[
    &["init", "-"],
    &["init", "flowers.txt"],
    &["init", "flowers.csv", "--label", "kidn"],
    &["init", "flowers.csv", "--output", "flowers.csv"],
    &["init", "flowers.csv", "--output", "mine.toml"],
    &["init", "gone.csv"],
    &["init", "header.csv"],
    &["train", "gone.toml"],
    &["train", "mine.toml"],
    &["train", "--set", "train.epoch=3"],
    &["train", "--set", "train.epochs"],
    &["train", "--set", "train.epochs=many"],
    &["train", "--set", "network.layers.9.dense.units=3"],
    &["train", "--set", "network.learning_rate=\"0.1\""],
    &["train", "--set", "network.learning_rate=nan"],
    &["train", "--set", "data.train=\"flowers.csv\""],
    &["train", "--set", "data.train=\"sequences:flowers.csv\""],
    &["train", "--set", "data.train=\"csv:flowers.csv?lable=kind\""],
    &["train", "--set", "data.train=\"csv:flowers.csv?label=kidn\""],
    &["train", "--set", "data.batch=0"],
    &["train", "--set", "train.early_stopping={ metric = \"acc\" }"],
    &["train", "--resume"],
    &["train", "--output", "run"],
    &["train", "--output", "mine"],
    &["train", "--output", "flowers.csv"],
    &["train", "--cv", "501", "--set", "data.train=\"csv:flowers.csv?label=kind\""],
    &["train", "--from", "flowers.csv"],
    &["tune", "--vary", "network.lr=1,2"],
    &["tune", "--vary", "network.learning_rate"],
    &["tune", "--vary", "data.test_share=0.1,0.2"],
    &["tune", "--metric", "acc"],
    &["tune", "--set", "data.test_share=0", "--trials", "0"],
    &["runs"],
    &["runs", "empty"],
    &["runs", "run", "empty"],
    &["runs", "run", "--sort", "acc"],
    &["runs", "run", "--svg", "mine.toml"],
    &["model", "show", "flowers.csv"],
    &["model", "show", "run/model.safetensors", "--svg", "run/model.safetensors"],
    &["evaluate", "gone.safetensors", "--data", "digits:test"],
    &["evaluate", "run/model.safetensors", "--data", "csv:flowers.csv"],
    &["evaluate", "run/model.safetensors", "--data", "digits:test", "--threshold", "0.3"],
    &["evaluate", "run/model.safetensors", "--data", "digits:test", "--importance"],
    &["predict", "run/model.safetensors", "--data", "digits:test", "--output", "mine.csv"],
    &["predict", "run/model.safetensors", "--data", "digits:test", "--output", "run/model.safetensors"],
    &["predict", "run/model.safetensors", "--data", "digits:test", "--output", "-", "--keep-columns"],
    &["predict", "run/model.safetensors", "--data", "digits:test", "--output", "gone/said.csv"],
    &["predict", "run/model.safetensors", "--data", "csv:flowers.csv?label=kind", "--output", "-"],
    &["generate", "run/model.safetensors"],
    &["data", "inspect", "flowers.csv"],
    &["data", "inspect", "mnist:tain"],
    &["data", "export", "digits:test", "mine"],
    &["data", "fetch", "mnits"],
    &["master", "--listen", "nowhere"],
    &["master", "--mode", "solo"],
    &["master", "--silence-limit", "1000000"],
    &["master", "--straggler-limit", "soon"],
    &["master", "--coordinator", "zk://nowhere"],
    &["master", "--output", "run"],
    &["worker", "--join", "nowhere"],
    &["worker", "--join", "127.0.0.1:9", "--partition", "x"],
    &["worker", "--join", "paceline://a:1?token=1"],
    &["status", "nowhere"],
];

fn prepared(folder: &Path) {
    let row = |at: usize| format!("{},{}\n", at, ["rose", "lily"][at % 2]);
    fs::write(folder.join("flowers.csv"), format!("length,kind\n{}", (0..500).map(row).collect::<String>()))
        .expect("written");
    fs::write(folder.join("mine.toml"), "[data]\ntrain = \"digits:\"\n[network]\nlayers = 3\n").expect("written");
    fs::write(folder.join("header.csv"), "length,kind\n").expect("written");
    fs::write(folder.join("mine.csv"), "mine\n").expect("written");
    for empty in ["empty", "mine"] {
        fs::create_dir(folder.join(empty)).expect("a folder");
    }
    for name in ["mine/epochs.csv", "mine/features.idx"] {
        fs::write(folder.join(name), "mine\n").expect("written");
    }
    run(folder, &["train", "--epochs", "1", "--output", "run", "--events", "none"]).done();
}

#[test]
fn every_refusal_reads_as_one_sentence_with_a_remedy() {
    let folder = tempfile::tempdir().expect("a folder");
    prepared(folder.path());
    let mut told = String::new();
    for command in COMMANDS {
        let said = run(folder.path(), command);
        assert!(matches!(said.status, Some(1 | 2)), "{command:?}: {said:#?}");
        let error = said.errors.split("error: ").nth(1).unwrap_or_else(|| panic!("{command:?}: {said:#?}"));
        let sentence = error.lines().next().expect("a line");
        for word in ["but must be", "Some(", "Err(", "panicked"] {
            assert!(!sentence.contains(word), "{command:?}: {sentence}");
        }
        told += &format!("$ paceline {}\n  {sentence}\n", command.join(" "));
    }
    let kept = include_str!("messages.txt");
    assert!(told == kept, "the list in `messages.txt` is what users read; now it is\n{told}");
}
