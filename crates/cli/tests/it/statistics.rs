//! Where the time of the workers went, as a master tells it at the end.

use serde_json::Value;

use crate::masters::{address, ended_well, left_well, master, worker};
use crate::paceline::named;

#[test]
fn a_master_tells_where_the_time_of_its_workers_went_and_keeps_it() {
    let folder = tempfile::tempdir().expect("a folder");
    for mode in ["sync", "averaging", "shared"] {
        let arguments = ["--mode", mode, "--min-workers", "2", "--restart", "--statistics", "--set", "train.epochs=40"];
        let mut master = master(folder.path(), &arguments);
        let address = address(&mut master);
        let workers = [(); 2].map(|()| worker(folder.path(), &["--join", &address]));
        let events = ended_well(master, 40);
        workers.into_iter().for_each(|worker| drop(left_well(worker)));
        let told = named(&events, "statistics");
        let [told] = &told[..] else { panic!("expected statistics once, found {}", told.len()) };
        let of_workers = told["workers"].as_array().expect("workers");
        assert_eq!(of_workers.len(), 2, "{mode}");
        for worker in of_workers {
            let sum = |phase: &str| -> f64 {
                let stretches = worker["stretches"].as_array().expect("stretches");
                stretches.iter().map(|stretch| stretch[phase].as_f64().expect(phase)).sum()
            };
            // To the last: what was not told on the way is told at the end. In other modes each takes its own.
            let steps = if mode == "sync" { 40.0 * 60.0 } else { 10.0 };
            assert!(sum("steps") >= steps && sum("compute") > 0.0, "{mode}: {worker}");
            // In rounds both wait for the other's part; in `shared` nobody waits for a round.
            assert_eq!(sum("network") > 0.0, mode != "shared", "{mode}: {worker}");
            assert_eq!(sum("encode") > 0.0, mode != "sync", "{mode}: {worker}");
            assert!(sum("apply") > 0.0, "{mode}: {worker}");
        }
        let kept = std::fs::read_to_string(folder.path().join("run/statistics.json")).expect("statistics");
        let kept: Value = serde_json::from_str(&kept).expect("JSON");
        assert_eq!(kept["workers"], told["workers"]);
        let page = std::fs::read_to_string(folder.path().join("run/statistics.html")).expect("a page");
        assert!(page.contains("<svg") && page.ends_with("</html>\n"));
    }
}

#[test]
fn a_master_that_is_stopped_tells_it_too_and_a_new_run_removes_what_is_old() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut stopped = master(folder.path(), &["--statistics", "--set", "train.epochs=100000"]);
    let joins = address(&mut stopped);
    let first = worker(folder.path(), &["--join", &joins]);
    stopped.wait_for("epoch");
    stopped.interrupt();
    let (status, events, errors) = stopped.end();
    assert_eq!(status, Some(130), "{errors}");
    assert_eq!(named(&events, "statistics").len(), 1);
    drop(left_well(first));
    let kept = folder.path().join("run/statistics.html");
    assert!(kept.exists());
    let mut again = master(folder.path(), &["--restart", "--set", "train.epochs=20"]);
    let joins = address(&mut again);
    let second = worker(folder.path(), &["--join", &joins]);
    assert!(named(&ended_well(again, 20), "statistics").is_empty());
    drop(left_well(second));
    assert!(!kept.exists());
}
