//! Runs that begin with the model of another, in one process and on many.

use crate::masters::{EXAMPLES, address, left_well, text, worker};
use crate::paceline::{Watched, named, run};

#[test]
fn what_was_learned_is_where_the_next_run_begins_alone_and_with_a_master() {
    let folder = tempfile::tempdir().expect("a folder");
    let usual = ["--events", "json", "--set", "data.batch=24", "--set", "train.epochs=3"];
    let alone = [&["train", "--mode", "solo", "--workers", "1"], &usual[..]].concat();
    let first = run(folder.path(), &[&alone[..], &["--output", "first"]].concat()).done().events();
    let from = ["--from", "first/model.safetensors", "--set", "network.seed=77"];
    let tuned = run(folder.path(), &[&alone[..], &from, &["--output", "tuned"]].concat()).done().events();
    let loss = |events: &[serde_json::Value]| named(events, "epoch")[0]["loss"].as_f64().expect("a loss");
    assert!(loss(&tuned) < 0.5 * loss(&first), "{} after {}", loss(&tuned), loss(&first));

    let leads = [&["master", "--mode", "sync", "--output", "run", "--waiting-limit", "30"], &usual[..], &from].concat();
    let mut master = Watched::start(folder.path(), &leads);
    let joins = address(&mut master);
    let worker = worker(folder.path(), &["--join", &joins]);
    let (status, events, errors) = master.end();
    assert_eq!(status, Some(0), "{errors}");
    left_well(worker);
    assert_eq!(events.last().expect("events")["examples"], 3 * EXAMPLES);
    let model = |run: &str| std::fs::read(folder.path().join(run).join("model.safetensors")).expect("a model");
    assert!(model("run") == model("tuned"), "the bits of a run alone");
}

#[test]
fn a_model_that_does_not_fit_is_refused_before_anything_is_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let train = ["train", "--events", "none", "--set", "train.epochs=1"];
    run(folder.path(), &[&train[..], &["--output", "first"]].concat()).done();
    let other = ["--set", "network.layers.2.dense.units=7", "--from", "first/model.safetensors"];
    let refused = run(folder.path(), &[&train[..], &["--output", "other"], &other].concat());
    refused.refused(1, &["the model to begin with does not fit the network", "256, 7]"]);
    assert!(!folder.path().join("other").exists());
    let missing = run(folder.path(), &[&train[..], &["--output", "other", "--from", "nowhere.safetensors"]].concat());
    missing.refused(1, &["nowhere.safetensors"]);
    let lead = ["master", "--events", "json", "--output", "led"];
    let (status, events, _) = Watched::start(folder.path(), &[&lead[..], &other].concat()).end();
    assert_eq!(status, Some(1));
    assert!(text(&events.last().expect("events")["error"]).contains("does not fit the network"));
}
