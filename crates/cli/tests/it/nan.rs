//! A loss that is no number ends the run, and what was good before is kept.

use std::fs;

use crate::paceline::{named, run};

/// All goes well for 60 steps, then the rate jumps.
fn job(every: u64) -> String {
    format!(
        r#"
        [data]
        train = "digits:train"
        test  = "digits:test"
        batch = 16
        [network]
        seed    = 7
        input   = {{ image = [8, 8, 1] }}
        updater = {{ sgd = {{ learning_rate = {{ map = {{ values = [[0, 0.01], [60, 1e12]] }} }} }} }}
        layers  = [
            {{ dense = {{ units = 16, activation = "relu" }} }},
            {{ dense = {{ units = 16, activation = "relu" }} }},
            {{ output = {{ units = 10, activation = "softmax" }} }},
        ]
        [train]
        epochs = 3
        checkpoint = {{ steps = {every} }}
        "#
    )
}

#[test]
fn a_loss_that_becomes_nan_stops_the_run_and_keeps_the_last_good_checkpoint() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::write(folder.path().join("wild.toml"), job(20)).expect("written");
    let said = run(folder.path(), &["train", "wild.toml", "--events", "json"]);
    let kept = "runs/wild/checkpoint.safetensors";
    said.refused(1, &["the loss became", "at step 6", "(epoch 1)", "learning rate is most likely too high", kept]);
    let events = said.events();
    let failed = events.last().expect("events");
    assert_eq!((&failed["event"], &failed["resumable"]), (&"failed".into(), &true.into()), "{failed}");
    assert!(failed["error"].as_str().expect("a text").contains("the loss became"), "{failed}");
    assert!(named(&events, "epoch").is_empty(), "the run went on to the end of the epoch");
    assert_eq!(named(&events, "checkpoint").last().expect("checkpoints")["iteration"], 60);
    assert!(!folder.path().join("runs/wild/model.safetensors").exists(), "a failed run has no model");
    let shown = run(folder.path(), &["model", "show", kept]).done();
    assert!(shown.output.contains("trained for 60 steps, 0 epochs"), "{}", shown.output);
    let judged = run(folder.path(), &["evaluate", kept, "--data", "digits:test", "--json"]).done();
    let judged: serde_json::Value = serde_json::from_str(&judged.output).expect("JSON");
    assert!(judged["score"].as_f64().expect("the kept checkpoint has a finite loss") < 10.0, "{judged}");
}

#[test]
fn an_update_that_ruins_the_parameters_at_the_end_of_an_epoch_does_not_replace_the_checkpoint() {
    // 1,438 examples are 90 steps of 16; the last one of the first epoch is the one that ruins everything.
    let folder = tempfile::tempdir().expect("a temporary folder");
    let job = job(40).replace("[60, 1e12]", "[89, 1e30]");
    fs::write(folder.path().join("wild.toml"), job).expect("written");
    let said = run(folder.path(), &["train", "wild.toml", "--events", "json"]);
    let kept = "runs/wild/checkpoint.safetensors";
    said.refused(1, &["the loss became", "at step 90 (epoch 1)", "learning rate is most likely too high", kept]);
    assert_eq!(said.events().last().expect("events")["event"], "failed");
    let shown = run(folder.path(), &["model", "show", kept]).done();
    assert!(shown.output.contains("trained for 80 steps, 0 epochs"), "{}", shown.output);
}

#[test]
fn a_loss_that_is_nan_from_the_start_says_that_there_is_no_checkpoint() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let settings = ["train", "--events", "json", "--set", "network.updater={ sgd = { learning_rate = 1e30 } }"];
    let said = run(folder.path(), &settings);
    said.refused(1, &["the loss became", "no checkpoint was written before"]);
    let events = said.events();
    assert_eq!(events.last().expect("events")["event"], "failed");
    assert_eq!(events.last().expect("events")["resumable"], false);
    assert!(named(&events, "epoch").is_empty(), "the run went on to the end of the epoch");
    assert!(!folder.path().join("runs/digits/model.safetensors").exists());
}
