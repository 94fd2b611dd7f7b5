//! More workers than are all linked with each other: they form a tree.

use serde_json::Value;

use crate::masters::{address, ended_well, left_well, master, worker};
use crate::paceline::{Watched, named};

/// A view of more than three is a tree.
const TREE: [&str; 2] = ["--mesh-limit", "3"];

/// Waits for a view of so many.
fn wait_for_view(master: &mut Watched, workers: usize) -> Value {
    loop {
        let view = master.wait_for("view");
        if view["workers"].as_array().map(Vec::len) == Some(workers) {
            return view;
        }
    }
}

#[test]
fn a_tree_of_workers_trains_what_one_process_trains() {
    for mode in ["sync", "averaging", "shared"] {
        let folder = tempfile::tempdir().expect("a folder");
        let arguments = ["--mode", mode, "--min-workers", "7"];
        let mut master = master(folder.path(), &[&TREE[..], &arguments].concat());
        let address = address(&mut master);
        let names: Vec<String> = (0..7).map(|n| n.to_string()).collect();
        let joins = |name: &String| worker(folder.path(), &["--join", &address, "--keep-state", name]);
        let workers: Vec<Watched> = names.iter().map(joins).collect();
        let events = ended_well(master, 20);
        workers.into_iter().for_each(|worker| drop(left_well(worker)));
        assert!(named(&events, "worker_lost").is_empty(), "{mode}");
        let model = paceline::nn::ModelFile::load(&folder.path().join("run/model.safetensors")).expect("a model");
        let parameters = |name: &String| -> Vec<f32> {
            let bytes = std::fs::read(folder.path().join(name)).expect("a state");
            let values = bytes.as_chunks::<4>().0.iter().map(|four| f32::from_le_bytes(*four));
            values.take(model.state.parameters.len()).collect()
        };
        let first = parameters(&names[0]);
        for name in &names[1..] {
            let apart = first.iter().zip(parameters(name)).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            // In `shared` each applies the messages in an order of its own.
            let allowed = if mode == "shared" { 1e-4 } else { 0.0 };
            assert!(!first.is_empty() && apart <= allowed, "{mode}: worker {name} is apart by {apart}");
        }
    }
}

#[test]
fn a_tree_goes_on_without_half_of_its_workers() {
    for mode in ["sync", "shared"] {
        let folder = tempfile::tempdir().expect("a folder");
        let arguments = ["--mode", mode, "--min-workers", "4", "--set", "train.epochs=40"];
        let mut master = master(folder.path(), &[&TREE[..], &arguments].concat());
        let address = address(&mut master);
        let mut workers: Vec<Watched> = (0..8).map(|_| worker(folder.path(), &["--join", &address])).collect();
        wait_for_view(&mut master, 8);
        master.wait_for("step");
        // Whoever joined first is the root, or near it.
        workers.drain(..4).for_each(|worker| drop(worker.kill()));
        let view = wait_for_view(&mut master, 4);
        let events = ended_well(master, 40);
        workers.into_iter().for_each(|worker| drop(left_well(worker)));
        assert_eq!(named(&events, "worker_lost").len(), 4, "{mode}: {view}");
        assert!(named(&events, "rolled_back").is_empty(), "{mode}");
    }
}
