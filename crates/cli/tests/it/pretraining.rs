//! A job whose layers are pretrained, on a command line and on many processes: they die in every phase, and it ends as it should.

use std::path::Path;

use paceline::nn::ModelFile;
use serde_json::Value;

use crate::masters::{address, left_well, worker};
use crate::paceline::{Watched, named, run};

const JOB: &str = r#"
[data]
train        = "digits:train"
test         = "digits:test"
global_batch = 24

[network]
seed    = 5
input   = { flat_image = [8, 8, 1] }
updater = { adam = { learning_rate = 0.003 } }
layers  = { dbn = { hidden = [64, 32], outputs = 10 } }

[pretrain]
epochs        = 3
learning_rate = 0.01
updater       = { sgd = { learning_rate = 0.1 } }
[pretrain.layers.1]
train  = "digits:train?examples=1000"
epochs = 4

[train]
epochs = 10
"#;

/// Examples of the first and the last phase: those of an epoch, so many times.
const EXAMPLES: [u64; 2] = [3 * 1438, 10 * 1438];

fn job(folder: &Path) {
    std::fs::write(folder.join("job.toml"), JOB).expect("a job");
}

fn master(folder: &Path, more: &[&str]) -> Watched {
    let usual = ["master", "job.toml", "--events", "json", "--output", "run", "--waiting-limit", "60"];
    Watched::start(folder, &[&usual, more].concat())
}

fn model(folder: &Path) -> ModelFile {
    ModelFile::load(&folder.join("model.safetensors")).expect("a model")
}

/// Waits until a phase has begun and a view is at work in it.
fn at_work(master: &mut Watched, phase: u64) -> Value {
    while master.wait_for("phase")["phase"] != phase {}
    master.wait_for("view")
}

#[test]
fn with_one_worker_all_phases_come_to_the_bits_of_a_run_alone() {
    for mode in ["sync", "averaging", "shared"] {
        let folder = tempfile::tempdir().expect("a folder");
        job(folder.path());
        let own = if mode == "shared" { "shared" } else { "solo" };
        let settings = ["--set", "train.epochs=2", "--events", "json"];
        let alone = ["train", "job.toml", "--output", "alone", "--mode", own, "--workers", "1"];
        let told = run(folder.path(), &[&alone[..], &settings].concat()).done().events();
        assert_eq!(named(&told, "phase").len(), 3);
        let mut master = master(folder.path(), &["--mode", mode, "--set", "train.epochs=2"]);
        let worker = worker(folder.path(), &["--join", &address(&mut master)]);
        let (status, events, errors) = master.end();
        assert_eq!(status, Some(0), "{errors}\n{:?}", events.last());
        let told = left_well(worker);
        assert_eq!(named(&told, "joined").len(), 3, "a worker comes again for every phase");
        let layers: Vec<&Value> = named(&events, "phase").iter().map(|phase| &phase["layer"]).collect();
        assert_eq!(layers, [&Value::from("0"), &Value::from("1"), &Value::Null]);
        assert_eq!(named(&events, "phase_ended").len(), 2);
        for place in ["pretrain-1", "pretrain-2", ""] {
            let [alone, found] = ["alone", "run"].map(|run| model(&folder.path().join(run).join(place)));
            assert!(alone.state.parameters == found.state.parameters, "{mode}, `{place}`");
            assert_eq!(alone.progress, found.progress, "{mode}, `{place}`");
        }
        // The same command once more has nothing to do, and says so.
        let settings = ["--set", "train.epochs=2", "--output", "run", "--events", "json", "--mode", mode];
        let again = run(folder.path(), &[&["master", "job.toml"], &settings[..]].concat()).done().events();
        assert_eq!(again.last().map(|event| &event["event"]), Some(&Value::from("already_ended")));
    }
}

#[test]
fn workers_and_the_master_die_in_every_phase_and_nothing_is_lost() {
    let folder = tempfile::tempdir().expect("a folder");
    job(folder.path());
    let usual = ["--mode", "sync", "--min-workers", "2", "--silence-limit", "2"];
    let mut leader = master(folder.path(), &usual);
    let place = address(&mut leader);
    let join = || worker(folder.path(), &["--join", &place]);
    let mut workers = vec![join(), join()];
    for phase in 1..=3 {
        at_work(&mut leader, phase);
        workers.remove(0).kill();
        workers.push(join());
        if phase == 2 {
            // One that comes after it finds where it was, and the workers come again.
            leader.wait_for("view");
            let events = leader.kill();
            let [ended] = named(&events, "phase_ended")[..] else { panic!("one phase has ended: {events:?}") };
            assert_eq!(ended["examples"], EXAMPLES[0], "each example of each epoch once");
            leader = master(folder.path(), &[&usual[..], &["--listen", &place]].concat());
            assert_eq!(leader.wait_for("phase")["phase"], 2, "the first has ended");
        }
    }
    let (status, events, errors) = leader.end();
    assert_eq!(status, Some(0), "{errors}\n{:?}", events.last());
    let finished = events.last().expect("events");
    assert_eq!((&finished["event"], finished["examples"].as_u64()), (&"finished".into(), Some(EXAMPLES[1])));
    assert!(finished["accuracy"].as_f64() > Some(0.9), "{finished}");
    workers.into_iter().for_each(|worker| drop(left_well(worker)));
}

#[test]
fn a_run_that_is_stopped_between_its_ends_goes_on_with_the_same_command() {
    let folder = tempfile::tempdir().expect("a folder");
    job(folder.path());
    let mut first = master(folder.path(), &["--mode", "sync"]);
    let place = address(&mut first);
    let stopped = worker(folder.path(), &["--join", &place]);
    at_work(&mut first, 2);
    first.interrupt();
    let (status, events, _) = first.end();
    assert_eq!(status, Some(130), "{:?}", events.last());
    // Nobody waits for a phase that does not come.
    left_well(stopped);
    let mut second = master(folder.path(), &["--mode", "sync"]);
    let worker = worker(folder.path(), &["--join", &address(&mut second)]);
    let (status, events, errors) = second.end();
    assert_eq!(status, Some(0), "{errors}\n{:?}", events.last());
    let phases: Vec<_> = named(&events, "phase").iter().map(|phase| phase["phase"].as_u64()).collect();
    assert_eq!(phases, [Some(2), Some(3)]);
    left_well(worker);
}
