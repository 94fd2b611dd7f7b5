//! What goes wrong on one machine is that machine's matter: its worker leaves, named, and the run goes on.

#![expect(clippy::result_large_err, reason = "errors end a run; nobody waits for them to be moved")]

use std::fmt::Write;
use std::fs::OpenOptions as File;
use std::path::Path;
use std::sync::mpsc::channel;
use std::time::Duration;

use paceline_cluster::wire::JobText;
use paceline_cluster::{ClusterError, LeadOptions, Target, WorkerOptions, run_master, run_worker};
use paceline_data::OpenOptions;
use paceline_train::{Event, Stop};

const ROWS: usize = 20 * 1024;
const EPOCHS: u64 = 12;

const JOB: &str = r#"
[data]
train = "csv:points.csv?label=side"
global_batch = 256

[network]
seed = 3
input = { feed_forward = 2 }
updater = { sgd = { learning_rate = 0.1 } }
layers = [{ output = { units = 2, activation = "softmax", loss = "negative_log_likelihood" } }]

[train]
epochs = 12
"#;

/// More blocks of rows than are held in memory, so that they are read again and again.
fn write_points(folder: &Path) {
    let mut text = String::from("x,y,side\n");
    for row in 0..ROWS {
        let (x, y) = ((row as f32 * 0.37).sin(), (row as f32 * 0.11).cos());
        writeln!(text, "{x},{y},{}", if x > y { "left" } else { "right" }).expect("memory");
    }
    std::fs::write(folder.join("points.csv"), text).expect("a file");
}

/// Reads below a folder, never more than a few blocks at a time.
fn open(folder: &Path) -> OpenOptions {
    OpenOptions { root: Some(folder.to_owned()), memory_limit: 1, ..OpenOptions::default() }
}

fn leads(folder: &Path, min_workers: usize) -> LeadOptions {
    LeadOptions {
        min_workers,
        waiting_limit: Duration::from_secs(30),
        open: open(folder),
        ..LeadOptions::new(folder.join("run"))
    }
}

fn works(address: &str, folder: &Path) -> WorkerOptions {
    WorkerOptions {
        open: open(folder),
        patience: Duration::from_secs(5),
        ..WorkerOptions::new(Target::Address(address.to_owned()))
    }
}

#[test]
fn a_file_that_one_worker_cannot_read_any_more_ends_that_worker_and_not_the_run() {
    for mode in ["sync", "averaging", "shared"] {
        let folders = [(); 3].map(|()| tempfile::tempdir().expect("a folder"));
        folders.iter().for_each(|folder| write_points(folder.path()));
        let [master, good, bad] = folders.each_ref().map(|folder| folder.path());
        let (heard, events) = channel();
        std::thread::scope(|scope| {
            let leading = scope.spawn(move || {
                let settings = vec![format!("train.mode={mode}")];
                let job = JobText { name: "points".into(), text: JOB.into(), is_json: false, settings };
                run_master(job, &leads(master, 1), &Stop::default(), &mut |event| drop(heard.send(event.clone())))
            });
            let mut told: Vec<Event> = Vec::new();
            let mut wait_for = |what: &str, is_it: &dyn Fn(&Event) -> bool| loop {
                let event =
                    events.recv_timeout(Duration::from_secs(60)).unwrap_or_else(|_| panic!("{mode}: no {what}"));
                told.push(event.clone());
                if is_it(&event) {
                    return event;
                }
            };
            let Event::Listening { address, .. } =
                wait_for("address", &|event| matches!(event, Event::Listening { .. }))
            else {
                unreachable!("it was waited for")
            };
            let run = |folder| {
                let options = works(&address, folder);
                move || run_worker(&options, &Stop::default(), &mut |_| {})
            };
            let (good, broken) = (scope.spawn(run(good)), scope.spawn(run(bad)));
            wait_for("step of two", &|event| matches!(event, Event::View { workers, .. } if workers.len() == 2));
            // Shorter in place: the file that is open is the one that changes.
            File::new().write(true).open(bad.join("points.csv")).expect("the file").set_len(100).expect("it is ours");
            let Event::WorkerLost { reason, .. } = wait_for("loss", &|event| matches!(event, Event::WorkerLost { .. }))
            else {
                unreachable!("it was waited for")
            };
            assert!(reason.contains("points.csv") && reason.contains("fewer rows"), "{mode}: {reason}");
            let error = broken.join().expect("no panic").expect_err("its file is gone");
            assert!(matches!(error, ClusterError::WorkerBroken { .. }), "{mode}: {error}");
            good.join().expect("no panic").unwrap_or_else(|error| panic!("{mode}: {error}"));
            let outcome = leading.join().expect("no panic").unwrap_or_else(|error| panic!("{mode}: {error}"));
            assert!(!outcome.stopped, "{mode}");
            let Event::Finished { examples, .. } = wait_for("end", &|event| matches!(event, Event::Finished { .. }))
            else {
                unreachable!("it was waited for")
            };
            assert_eq!(examples, EPOCHS * ROWS as u64, "{mode}: every example of every epoch once");
        });
    }
}

#[test]
fn a_worker_without_the_data_is_told_what_is_missing_and_the_run_waits_for_another() {
    let folders = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
    let [good, empty] = folders.each_ref().map(|folder| folder.path());
    write_points(good);
    let (heard, addresses) = channel();
    std::thread::scope(|scope| {
        let leading = scope.spawn(move || {
            let job = JobText { name: "points".into(), text: JOB.into(), is_json: false, settings: Vec::new() };
            run_master(job, &leads(good, 1), &Stop::default(), &mut |event| {
                if let Event::Listening { address, .. } = event {
                    drop(heard.send(address.clone()));
                }
            })
        });
        let address = addresses.recv_timeout(Duration::from_secs(30)).expect("an address");
        let error = run_worker(&works(&address, empty), &Stop::default(), &mut |_| {}).expect_err("no data");
        assert!(error.to_string().contains("points.csv"), "{error}");
        run_worker(&works(&address, good), &Stop::default(), &mut |_| {}).expect("it has the data");
        leading.join().expect("no panic").expect("the run goes on");
    });
}
