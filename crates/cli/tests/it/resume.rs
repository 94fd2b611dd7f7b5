//! Runs that end too early and go on: the model is the one of a run that was never stopped, byte by byte.

use std::fs;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use crate::paceline::{Watched, finish, named, run, tree};

/// Everything that has a memory: Adam, batch norm, dropout, a short last batch, an order by seed.
const JOB: &str = r#"
[data]
train = "digits:train"
test  = "digits:test"
batch = 10

[network]
seed    = 9
input   = { image = [8, 8, 1] }
updater = { adam = { learning_rate = 0.003 } }
layers  = [
  { conv2d = { filters = 6, kernel = [3, 3] } },
  { batch_norm = { activation = "relu" } },
  { dense = { units = 24, activation = "relu", dropout = 0.3 } },
  { output = { units = 10, activation = "softmax" } },
]

[train]
epochs = 6
checkpoint = { steps = 7 }
"#;

/// A folder with the job, and the bytes of the model that a run without a stop gives.
fn folder() -> (TempDir, Vec<u8>) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::write(folder.path().join("job.toml"), JOB).expect("written");
    run(folder.path(), &["train", "job.toml", "--output", "whole", "--events", "none"]).done();
    let model = fs::read(folder.path().join("whole/model.safetensors")).expect("a model");
    (folder, model)
}

fn model(folder: &Path, output: &str) -> Vec<u8> {
    fs::read(folder.join(output).join("model.safetensors")).expect("a model")
}

#[test]
fn a_run_that_was_interrupted_goes_on_as_if_it_never_was() {
    let (folder, whole) = folder();
    // A space in the name: what is said must be fit to be typed.
    let mut run = Watched::start(folder.path(), &["train", "job.toml", "--output", "a run", "--events", "json"]);
    run.wait_for("checkpoint");
    run.interrupt();
    let (status, events, errors) = run.end();
    assert_eq!(status, Some(130), "{errors}");
    let last = events.last().expect("events");
    assert_eq!((&last["event"], &last["resumable"]), (&"failed".into(), &true.into()), "{last}");
    let paused = named(&events, "paused");
    assert_eq!(paused.len(), 1);
    assert_eq!(paused[0]["checkpoint"], "a run/checkpoint.safetensors");
    let iteration = paused[0]["iteration"].as_u64().expect("a number");
    assert!((7..6 * 144).contains(&iteration), "it stopped after the end, at step {iteration}");
    assert!(!folder.path().join("a run/model.safetensors").exists(), "a stopped run has no model yet");

    // What it said is what is typed next.
    let advice = errors.lines().find_map(|line| line.strip_prefix("stopped; go on with: ")).expect(&errors);
    assert!(advice.starts_with("paceline train job.toml ") && advice.contains("--resume"), "{advice}");
    let line = advice.replacen("paceline", "\"$0\"", 1);
    let mut shell = Command::new("sh");
    let said = finish(shell.current_dir(folder.path()).args(["-c", &line, env!("CARGO_BIN_EXE_paceline")])).done();
    let events = said.events();
    assert_eq!(events[0]["resumed_at"], iteration);
    assert_eq!(events.last().expect("events")["event"], "finished");
    assert!(model(folder.path(), "a run") == whole, "the resumed run has another model");
}

#[test]
fn a_run_that_was_killed_goes_on_from_its_last_checkpoint() {
    let (folder, whole) = folder();
    let arguments = ["train", "job.toml", "--output", "killed", "--events", "json"];
    let mut first = Watched::start(folder.path(), &arguments);
    first.wait_for("checkpoint");
    first.wait_for("checkpoint");
    first.kill();
    let said = run(folder.path(), &[&arguments[..], &["--resume"]].concat()).done();
    let resumed_at = said.events()[0]["resumed_at"].as_u64().expect("a number");
    assert!(resumed_at >= 14, "{resumed_at}");
    assert!(model(folder.path(), "killed") == whole, "the resumed run has another model");
}

#[test]
fn a_finished_run_may_be_resumed_and_stays_what_it_is() {
    let (folder, whole) = folder();
    let said = run(folder.path(), &["train", "job.toml", "--output", "whole", "--resume", "--events", "json"]).done();
    let events = said.events();
    assert_eq!(events.last().expect("events")["examples"], 0);
    assert!(model(folder.path(), "whole") == whole);
}

#[test]
fn a_resume_with_another_job_is_refused_with_both_values() {
    let (folder, _) = folder();
    let before = tree(folder.path());
    let refused = |setting: &str, parts: &[&str]| {
        let said = run(folder.path(), &["train", "job.toml", "--output", "whole", "--resume", "--set", setting]);
        said.refused(1, parts);
        said.refused(1, &["`whole/checkpoint.safetensors` is a checkpoint of another run"]);
        assert!(before == tree(folder.path()), "something was written");
    };
    refused("data.batch=16", &["its `data.batch` is 10, the job's is 16"]);
    refused("data.seed=5", &["its `data.seed` is 9, the job's is 5"]);
    refused("data.shuffle=false", &["its `data.shuffle` is true, the job's is false"]);
    refused("data.train=digits:", &["its `data.examples` is 1438, the job's is 1797"]);
    refused("network.layers.2.dense.units=25", &["its `network.layers.2.dense.units` is 24, the job's is 25"]);
    refused(
        "network.updater={ sgd = { learning_rate = 0.1 } }",
        &["its `network.updater` is {\"adam\"", "the job's is {\"sgd\""],
    );
}

#[test]
fn a_resume_with_nothing_there_is_refused_and_makes_no_folder() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let said = run(folder.path(), &["train", "--output", "nothing", "--resume", "--events", "json"]);
    said.refused(1, &["there is no checkpoint `nothing/checkpoint.safetensors`", "without `--resume`"]);
    assert_eq!(said.events().last().expect("events")["resumable"], false);
    assert!(tree(folder.path()).is_empty(), "{:?}", tree(folder.path()).keys());
}

#[test]
fn a_resume_from_a_checkpoint_cut_short_is_refused() {
    let (folder, _) = folder();
    let path = folder.path().join("whole/checkpoint.safetensors");
    let bytes = fs::read(&path).expect("a checkpoint");
    fs::write(&path, &bytes[..bytes.len() - 100]).expect("written");
    let said = run(folder.path(), &["train", "job.toml", "--output", "whole", "--resume"]);
    said.refused(1, &["`whole/checkpoint.safetensors` is not a whole Paceline model", "cut short"]);
}
