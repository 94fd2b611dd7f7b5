//! `paceline train`: what it shows, what it writes, and how good the model is.

use std::fs;
use std::path::Path;

use crate::paceline::{named, run, tree};

/// A short run of the digits job.
const SHORT: [&str; 5] = ["train", "--set", "train.epochs=2", "--set", "network.layers.2.dense.units=16"];

#[test]
fn without_a_job_file_the_digits_are_trained() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let said = run(folder.path(), &["train", "--offline", "--cache", "no-cache"]).done();
    let written: Vec<String> = tree(folder.path()).into_keys().filter(|name| !name.ends_with('/')).collect();
    let expected =
        ["checkpoint.safetensors", "confusion.svg", "curves.svg", "epochs.csv", "log.jsonl", "model.safetensors"];
    assert_eq!(written, expected.map(|name| format!("runs/digits/{name}")));
    // The confusion matrix: a row for each of the ten digits, with ten counts.
    let rows = |line: &&str| {
        let cells: Vec<&str> =
            line.split(|c: char| c.is_whitespace() || c == '|' || c == '│').filter(|c| !c.is_empty()).collect();
        cells.len() >= 11 && cells[..11].iter().all(|cell| cell.parse::<u32>().is_ok())
    };
    assert!(said.output.lines().filter(rows).count() >= 10, "{}", said.output);
    assert!(said.output.contains("accuracy"), "{}", said.output);
    // Standard error is not a terminal here: plain lines, no bar.
    assert!(said.errors.contains("epoch 1/20: loss "), "{}", said.errors);
    assert!(said.errors.contains("epoch 20/20: test loss "), "{}", said.errors);
    assert!(said.errors.contains("; model: runs/digits/model.safetensors"), "{}", said.errors);
    assert!(!said.errors.contains(['\r', '\u{1b}']), "a terminal's codes in plain lines: {:?}", said.errors);
}

#[test]
fn json_events_begin_with_started_and_end_with_finished() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let said = run(folder.path(), &["train", "--mode", "solo", "--events", "json"]).done();
    assert_eq!(said.errors, "", "everything that was said is an event");
    let events = said.events();
    let started = events.first().expect("events");
    assert_eq!(started["event"], "started");
    assert_eq!((&started["examples"], &started["steps_per_epoch"]), (&1438.into(), &45.into()), "{started}");
    assert_eq!(named(&events, "step")[0]["iteration"], 1, "the first step is told, whatever comes then");
    assert_eq!((named(&events, "epoch").len(), named(&events, "evaluation").len()), (20, 20));
    assert_eq!(named(&events, "checkpoint").len(), 20);
    let finished = events.last().expect("events");
    assert_eq!(named(&events, "finished").len(), 1);
    for (key, expected) in [
        ("event", "finished".into()),
        ("mode", "solo".into()),
        ("workers", 1.into()),
        ("epochs", 20.into()),
        ("examples", (20 * 1438).into()),
        ("bytes_sent", 0.into()),
        ("model", serde_json::Value::from("runs/digits/model.safetensors")),
    ] {
        assert_eq!(finished[key], expected, "{key} in {finished}");
    }
    for key in ["seconds", "examples_per_second", "score"] {
        assert!(finished[key].as_f64().is_some_and(|number| number > 0.0), "{key} in {finished}");
    }
    let accuracy = finished["accuracy"].as_f64().expect("digits are classes");
    assert!((0.95..=1.0).contains(&accuracy), "{finished}");
    assert_eq!(named(&events, "evaluation")[19]["accuracy"], accuracy);
}

#[test]
fn several_workers_learn_as_well_in_every_mode() {
    let options = ["train.epochs=20", "train.mode.averaging.frequency=5", "train.mode.shared.combine=\"mean\""];
    for (mode, more) in ["sync", "averaging", "shared"].into_iter().zip(options) {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let team = ["train", "--workers", "2", "--mode", mode, "--set", "data.batch=16", "--set", more];
        let said = run(folder.path(), &[&team[..], &["--events", "json"]].concat()).done();
        let finished = said.events().pop().expect("events");
        assert_eq!((&finished["event"], &finished["mode"]), (&"finished".into(), &mode.into()));
        assert_eq!((&finished["workers"], &finished["examples"]), (&2.into(), &(20 * 1438).into()));
        let accuracy = finished["accuracy"].as_f64().expect("digits are classes");
        assert!(accuracy >= 0.95, "{finished}");
        assert_eq!(finished["bytes_sent"].as_u64().is_some_and(|bytes| bytes > 0), mode == "shared", "{finished}");
    }
}

#[test]
fn every_epoch_says_what_a_worker_sends_whoever_took_its_last_step() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let said = run(folder.path(), &[&SHORT[..], &["--workers", "3", "--mode", "shared"]].concat()).done();
    let lines: Vec<&str> = said.errors.lines().filter(|line| line.contains("a worker sends ")).collect();
    assert_eq!(lines.len(), 2, "{}", said.errors);
}

#[test]
fn events_none_says_nothing_at_all() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let said = run(folder.path(), &[&SHORT[..], &["--events", "none"]].concat()).done();
    assert_eq!((said.output.as_str(), said.errors.as_str()), ("", ""));
    assert!(folder.path().join("runs/digits/model.safetensors").exists());
}

#[test]
fn settings_are_laid_over_the_job_and_the_last_one_counts() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let more = ["--set", "data.batch=100", "--set", "train.epochs=1", "--output", "elsewhere", "--events", "json"];
    let said = run(folder.path(), &[&SHORT[..], &more].concat()).done();
    let events = said.events();
    assert_eq!((&events[0]["epochs"], &events[0]["steps_per_epoch"]), (&1.into(), &15.into()));
    assert_eq!(events.last().expect("events")["model"], "elsewhere/model.safetensors");
    let shown = run(folder.path(), &["model", "show", "elsewhere/model.safetensors", "--json"]).done();
    let network: serde_json::Value = serde_json::from_str(&shown.output).expect("JSON");
    assert_eq!(network["layers"][2]["dense"]["units"], 16);
    assert!(!folder.path().join("runs").exists());
}

#[test]
fn a_run_of_some_steps_ends_within_an_epoch() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let said = run(folder.path(), &["train", "--set", "train.steps=50", "--events", "json"]).done();
    let finished = said.events().pop().expect("events");
    assert_eq!((&finished["epochs"], &finished["event"]), (&1.into(), &"finished".into()));
    assert_eq!(finished["examples"], 1438 + 5 * 32);
}

#[test]
fn the_same_job_gives_the_same_bytes_and_another_seed_others() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let model = |output: &str, seed: &str| {
        let more = ["--set", seed, "--output", output, "--overwrite", "--events", "none"];
        run(folder.path(), &[&SHORT[..], &more].concat()).done();
        fs::read(folder.path().join(output).join("model.safetensors")).expect("a model")
    };
    assert!(model("a", "network.seed=1") == model("b", "network.seed=1"));
    assert!(model("a", "network.seed=1") != model("c", "network.seed=2"));
}

#[test]
fn a_json_job_gives_the_same_model_as_a_toml_job() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let toml = "[data]\ntrain = \"digits:train\"\nbatch = 64\n[network]\nseed = 3\ninput = { feed_forward = 64 }\n\
                updater = { adam = { learning_rate = 0.01 } }\nlayers = [{ output = { units = 10, activation = \"softmax\" } }]\n";
    let json = r#"{ "data": { "train": "digits:train", "batch": 64 },
        "network": { "seed": 3, "input": { "feed_forward": 64 }, "updater": { "adam": { "learning_rate": 0.01 } },
                     "layers": [{ "output": { "units": 10, "activation": "softmax" } }] } }"#;
    let model = |job: &str, text: &str| {
        fs::write(folder.path().join(job), text).expect("written");
        run(folder.path(), &["train", job, "--output", job.split('.').next_back().expect("an ending")]).done();
        fs::read(folder.path().join(job.split('.').next_back().expect("an ending")).join("model.safetensors"))
    };
    assert!(model("job.toml", toml).expect("a model") == model("job.json", json).expect("a model"));
}

#[test]
fn lenet_learns_from_mnist() {
    // The data is fetched through the usual cache of this user.
    let folder = tempfile::tempdir().expect("a temporary folder");
    let job = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/lenet-mnist.toml");
    let job = job.to_str().expect("a path of this project");
    let said = run(folder.path(), &["train", job, "--set", "train.steps=30", "--events", "json"]).done();
    let events = said.events();
    assert_eq!((&events[0]["examples"], &events[0]["parameters"]), (&60_000.into(), &431_080.into()));
    let finished = events.last().expect("events");
    assert_eq!(finished["examples"], 30 * 128);
    // Chance is 0.1; thirty steps get well above it.
    assert!(finished["accuracy"].as_f64().is_some_and(|accuracy| accuracy > 0.6), "{finished}");
    assert!(folder.path().join("runs/lenet-mnist/model.safetensors").exists());
}

/// On a terminal there is a bar. `script` (util-linux) is a terminal that needs nobody to sit before it.
#[cfg(target_os = "linux")]
#[test]
fn a_terminal_sees_a_progress_bar() {
    use std::process::{Command, Stdio};

    let folder = tempfile::tempdir().expect("a temporary folder");
    let line = format!("'{}' train --workers 1 --set train.epochs=8", env!("CARGO_BIN_EXE_paceline"));
    let mut command = Command::new("script");
    let command = command.args(["--quiet", "--return", "--command", &line, "/dev/null"]);
    command.current_dir(folder.path()).env("TERM", "xterm").stdin(Stdio::null());
    let said = crate::paceline::finish(command).done();
    assert!(said.output.contains("epoch 8/8: test loss "), "{}", said.output);
    let bars: Vec<&str> = said.output.split(['\r', '\n']).filter(|part| part.contains(" left")).collect();
    let whole = |bar: &&str| bar.contains("] loss ") && bar.contains("examples/s · 1 worker · ");
    assert!(!bars.is_empty() && bars.iter().all(whole), "{bars:?}");
    assert!(bars.iter().any(|bar| bar.contains("epoch 1/8 [") && bar.contains("   ]")), "it begins: {bars:?}");
    assert!(bars.iter().any(|bar| bar.contains("epoch 8/8 [==")), "it fills: {bars:?}");
    assert!(!said.output.contains("/360"), "another kind of bar: {:?}", said.output);
}
