//! Masters and workers as processes, and what must hold when they end.

use std::path::Path;

use serde_json::Value;

use crate::paceline::Watched;

/// Examples of the digits that are trained on.
pub(crate) const EXAMPLES: u64 = 1438;

pub(crate) fn master(folder: &Path, more: &[&str]) -> Watched {
    let usual =
        ["master", "--events", "json", "--output", "run", "--waiting-limit", "30", "--set", "data.global_batch=24"];
    Watched::start(folder, &[&usual, more].concat())
}

pub(crate) fn worker(folder: &Path, arguments: &[&str]) -> Watched {
    Watched::start(folder, &[&["worker", "--slots", "1", "--events", "json"], arguments].concat())
}

pub(crate) fn address(master: &mut Watched) -> String {
    text(&master.wait_for("listening")["address"])
}

pub(crate) fn text(value: &Value) -> String {
    value.as_str().expect("a text").to_owned()
}

/// The master ended well; every example of every epoch was counted once.
#[track_caller]
pub(crate) fn ended_well(master: Watched, epochs: u64) -> Vec<Value> {
    let (status, events, errors) = master.end();
    assert_eq!(status, Some(0), "{errors}\n{:?}", events.last());
    let finished = events.last().expect("events");
    assert_eq!(finished["event"], "finished", "{events:?}");
    assert_eq!(finished["examples"], epochs * EXAMPLES, "each example of each epoch once");
    assert!(finished["accuracy"].as_f64().expect("a number") > 0.95, "{finished}");
    events
}

#[track_caller]
pub(crate) fn left_well(worker: Watched) -> Vec<Value> {
    let (status, events, errors) = worker.end();
    assert_eq!(status, Some(0), "{errors}");
    events
}
