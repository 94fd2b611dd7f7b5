//! Runs that are killed at any moment: no checkpoint is ever unreadable, and a run that goes on has lost nothing but the
//! steps since its last one.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use paceline::nn::ModelFile;

use crate::paceline::{Watched, named, run};

/// Everything that has a memory, and a checkpoint every few milliseconds.
const JOB: &str = r#"
[data]
train = "digits:train"
global_batch = 12

[network]
seed    = 9
input   = { image = [8, 8, 1] }
updater = { adam = { learning_rate = 0.003 } }
layers  = [
  { conv2d = { filters = 6, kernel = [3, 3] } },
  { batch_norm = { activation = "relu" } },
  { dense = { units = 100, activation = "relu", dropout = 0.3 } },
  { output = { units = 10, activation = "softmax" } },
]

[train]
epochs = 15
checkpoint = { steps = 20, keep = 3 }
"#;

const KILLS: usize = 5;
const EPOCHS: u64 = 15;
/// 1,438 examples by 12.
const STEPS: u64 = 120;

/// Numbers that nobody has chosen.
struct Random(u64);

impl Random {
    fn new() -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
        Self(u64::from(now.subsec_nanos()) | 1)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// Every checkpoint of a folder can be read; gives the steps of the newest.
fn checkpoint_of(output: &Path) -> u64 {
    for entry in fs::read_dir(output).expect("an output folder") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|ending| ending == "safetensors") {
            ModelFile::load(&path).unwrap_or_else(|error| panic!("{error}"));
        }
    }
    ModelFile::load(&output.join("checkpoint.safetensors")).expect("a checkpoint").progress.iteration
}

/// Kills a run again and again and lets it end, in one folder; fails if it ever loses more than it may.
fn kill_and_resume(folder: &Path, mode: &[&str]) {
    fs::write(folder.join("job.toml"), JOB).expect("written");
    let train = [&["train", "job.toml", "--events", "json", "--output", "run", "--mode"], mode].concat();
    let mode = mode[0];
    let (mut random, output) = (Random::new(), folder.join("run"));
    let mut saved = 0;
    for kill in 0..KILLS {
        let more: &[&str] = if kill > 0 { &["--resume"] } else { &[] };
        let mut running = Watched::start(folder, &[&train, more].concat());
        running.wait_for("checkpoint");
        // Not to wait for anything: this is the moment.
        std::thread::sleep(Duration::from_micros(random.below(40_000)));
        let events = running.kill();
        if !named(&events, "finished").is_empty() {
            // A fast machine: there was nothing left to kill.
            assert!(kill > 0, "{mode}: the run ended before it could be killed once");
            break;
        }
        let resumed_at = events[0]["resumed_at"].as_u64().expect("a number");
        assert_eq!(resumed_at, saved, "{mode}: it went on from where it was saved");
        let told = named(&events, "checkpoint").last().and_then(|event| event["iteration"].as_u64());
        saved = checkpoint_of(&output);
        assert!(told.is_some_and(|told| saved >= told), "{mode}: {saved} in the file, {told:?} told");
    }
    run(folder, &[&train[..], &["--resume"]].concat()).done();
    let model = ModelFile::load(&output.join("model.safetensors")).expect("a model");
    assert_eq!((model.progress.epoch, model.progress.iteration), (EPOCHS, EPOCHS * STEPS));
}

#[test]
fn runs_that_are_killed_end_with_the_bytes_of_one_that_never_was() {
    let equal_shares = "train.mode.averaging.balance=false";
    let modes: [&[&str]; 3] = [
        &["solo", "--workers", "1"],
        &["sync", "--workers", "2"],
        &["averaging", "--workers", "3", "--set", equal_shares],
    ];
    for mode in modes {
        let folder = tempfile::tempdir().expect("a temporary folder");
        kill_and_resume(folder.path(), mode);
        let whole = [&["train", "job.toml", "--events", "none", "--output", "whole", "--mode"], mode].concat();
        run(folder.path(), &whole).done();
        let model = |output: &str| fs::read(folder.path().join(output).join("model.safetensors")).expect("a model");
        assert!(model("run") == model("whole"), "{mode:?}");
    }
}

#[test]
fn a_run_that_depends_on_speed_and_is_killed_takes_every_step_and_learns() {
    for mode in ["shared", "averaging"] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        kill_and_resume(folder.path(), &[mode, "--workers", "2"]);
        let said = run(folder.path(), &["evaluate", "run/model.safetensors", "--data", "digits:test", "--json"]).done();
        let scores: serde_json::Value = serde_json::from_str(&said.output).expect("scores");
        let accuracy = scores["report"]["accuracy"].as_f64();
        assert!(accuracy.is_some_and(|accuracy| accuracy > 0.85), "{mode}: {scores}");
    }
}
