//! Runs on many processes: they join, die, stand still and come back, and the run ends as one process would have ended it.

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::path::Path;

use serde_json::Value;

use crate::masters::{EXAMPLES, address, ended_well, left_well, master, text, worker};
use crate::paceline::{Watched, named, run};

/// Averaging that goes on while it averages.
const OVERLAPPED: [&str; 6] =
    ["--mode", "averaging", "--set", "train.mode.averaging.overlap=true", "--set", "train.mode.averaging.frequency=5"];

#[test]
fn two_workers_train_what_one_process_trains() {
    let modes = ["sync", "averaging", "shared"].map(|mode| vec!["--mode", mode]);
    for mode in modes.into_iter().chain([OVERLAPPED.to_vec()]) {
        let folder = tempfile::tempdir().expect("a folder");
        let mut master = master(folder.path(), &[&mode[..], &["--min-workers", "2"]].concat());
        let mode = mode[1];
        let address = address(&mut master);
        let workers = ["0", "1"].map(|state| worker(folder.path(), &["--join", &address, "--keep-state", state]));
        let events = ended_well(master, 20);
        workers.into_iter().for_each(|worker| drop(left_well(worker)));
        same_parameters(folder.path(), mode);
        assert_eq!(named(&events, "worker_joined").len(), 2, "{mode}");
        assert!(named(&events, "finished")[0]["bytes_sent"].as_u64() > Some(0), "they reduce among themselves");
        let model = folder.path().join("run/model.safetensors");
        run(folder.path(), &["evaluate", &model.display().to_string(), "--data", "digits:test"]).done();
    }
}

#[test]
fn a_worker_with_three_slots_takes_three_times_as_much() {
    for (mode, steps) in [("sync", 1), ("averaging", 3), ("shared", 1)] {
        let folder = tempfile::tempdir().expect("a folder");
        let arguments = ["--mode", mode, "--min-workers", "2"];
        let mut master = master(folder.path(), &arguments);
        let address = address(&mut master);
        let workers = ["1", "3"].map(|slots| {
            let record = format!("{slots}.jsonl");
            let state = if slots == "1" { "0" } else { "1" };
            let asked = ["--slots", slots, "--join", &address, "--record", &record, "--keep-state", state];
            Watched::start(folder.path(), &[&["worker", "--events", "json"], &asked[..]].concat())
        });
        ended_well(master, 20);
        workers.into_iter().for_each(|worker| drop(left_well(worker)));
        same_parameters(folder.path(), mode);
        let most = ["1.jsonl", "3.jsonl"].map(|record| most_at_once(&folder.path().join(record)));
        assert_eq!(most, [6 * steps, 18 * steps], "{mode}: of a global batch of 24");
    }
}

/// The most examples that a worker was told to compute in one go.
fn most_at_once(record: &Path) -> u64 {
    fn most(value: &Value) -> u64 {
        let inner = match value {
            Value::Array(values) => values.iter().map(most).max(),
            Value::Object(fields) => fields.values().map(most).max(),
            _ => None,
        };
        let work = value.get("Compute").map(|work| &work["steps"]["slice"]);
        let own = work.or(value.get("Step").map(|work| &work["spans"])).map_or(0, places);
        inner.unwrap_or(0).max(own)
    }
    fn places(spans: &Value) -> u64 {
        match spans {
            Value::Array(spans) => spans.iter().map(places).sum(),
            span => span["end"].as_u64().zip(span["start"].as_u64()).map_or(0, |(end, start)| end - start),
        }
    }
    let record = std::fs::read_to_string(record).expect("a record");
    let lines = record.lines().map(|line| serde_json::from_str(line).expect("a line of a record"));
    lines.map(|line: Value| most(&line)).max().unwrap_or(0)
}

/// What two workers held when the run had ended: the same bits, or in `shared` the same but for the order of additions.
#[track_caller]
fn same_parameters(folder: &Path, mode: &str) {
    let model = paceline::nn::ModelFile::load(&folder.join("run/model.safetensors")).expect("a model");
    let states = ["0", "1"].map(|state| std::fs::read(folder.join(state)).expect("a state"));
    let parameters = states.map(|bytes| {
        let values = bytes.as_chunks::<4>().0.iter().map(|four| f32::from_le_bytes(*four));
        values.take(model.state.parameters.len()).collect::<Vec<f32>>()
    });
    let apart = parameters[0].iter().zip(&parameters[1]).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    let allowed = if mode == "shared" { 1e-5 } else { 0.0 };
    assert!(!parameters[0].is_empty() && apart <= allowed, "{mode}: apart by {apart}");
}

/// A network with dropout, batch norm and Adam; the last step of an epoch is short.
const EXACT_JOB: &str = r#"
[data]
train = "digits:train"
test = "digits:test"
global_batch = 50

[network]
seed = 11
input = { image = [8, 8, 1] }
updater = { adam = { learning_rate = 0.003 } }
layers = [
  { conv2d = { filters = 6, kernel = [3, 3] } },
  { batch_norm = { activation = "relu" } },
  { dropout = { rate = 0.2 } },
  { dense = { units = 32, activation = "relu" } },
  { output = { units = 10, activation = "softmax", loss = "negative_log_likelihood" } },
]

[train]
epochs = 2
"#;

/// What a run has made: everything in its model file but the settings.
fn model_of(folder: &Path) -> paceline::nn::ModelFile {
    paceline::nn::ModelFile::load(&folder.join("model.safetensors")).expect("a model")
}

#[test]
fn a_run_on_one_machine_is_a_run_alone_to_the_bit_in_every_mode() {
    // What one process does, then the mode of the master, the number of workers and the slots of each.
    let cases = [
        (["--mode", "solo", "--workers", "1"], "sync", 1, "1"),
        (["--mode", "solo", "--workers", "1"], "averaging", 1, "1"),
        (["--mode", "shared", "--workers", "1"], "shared", 1, "1"),
        (["--mode", "sync", "--workers", "2"], "sync", 1, "2"),
        (["--mode", "sync", "--workers", "2"], "averaging", 1, "2"),
        (["--mode", "averaging", "--workers", "2"], "averaging", 2, "1"),
    ];
    // And with an optimiser that searches, which remembers more than an updater does.
    let searches = [cases[4], cases[5]].map(|case| (case, "network.optimiser={ lbfgs = { memory = 2 } }"));
    for ((alone, mode, workers, slots), more) in cases.map(|case| (case, "train.epochs=2")).into_iter().chain(searches)
    {
        for seed in ["network.seed=11", "network.seed=5"] {
            let folder = tempfile::tempdir().expect("a folder");
            std::fs::write(folder.path().join("exact.toml"), EXACT_JOB).expect("a job");
            let usual = ["exact.toml", "--set", seed, "--set", more, "--events", "json"];
            run(folder.path(), &[&["train", "--output", "alone"], &usual[..], &alone].concat()).done();
            let needed = workers.to_string();
            let leads = ["--output", "run", "--mode", mode, "--min-workers", &needed, "--waiting-limit", "30"];
            let mut master = Watched::start(folder.path(), &[&["master"], &usual[..], &leads].concat());
            let address = address(&mut master);
            let start = |_| Watched::start(folder.path(), &["worker", "--slots", slots, "--join", &address]);
            let workers: Vec<Watched> = (0..workers).map(start).collect();
            let (status, events, errors) = master.end();
            assert_eq!(status, Some(0), "{errors}\n{:?}", events.last());
            workers.into_iter().for_each(|worker| drop(left_well(worker)));
            let [alone, found] = ["alone", "run"].map(|run| model_of(&folder.path().join(run)));
            let is_same = alone.state.parameters == found.state.parameters
                && alone.state.slots == found.state.slots
                && alone.state.running == found.state.running;
            assert!(is_same, "{mode}, {slots} slots, {seed}: other bits than one process");
            assert_eq!((found.progress, found.progress.iteration), (alone.progress, 58), "29 steps in an epoch");
        }
    }
}

/// So small that there is nothing to sum for most members.
const SMALL_JOB: &str = r#"
[data]
train = "digits:train"
test = "digits:test"
global_batch = 50

[network]
seed = 11
input = { image = [8, 8, 1] }
updater = { sgd = { learning_rate = 0.1 } }
layers = [{ output = { units = 10, activation = "softmax", loss = "negative_log_likelihood" } }]

[train]
epochs = 2
"#;

#[test]
fn a_network_with_fewer_parts_than_members_trains_on_all_of_them() {
    for mode in ["sync", "averaging"] {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("small.toml"), SMALL_JOB).expect("a job");
        let leads =
            ["master", "small.toml", "--output", "run", "--mode", mode, "--min-workers", "3", "--events", "json"];
        let mut master = Watched::start(folder.path(), &leads);
        let address = address(&mut master);
        let states = ["0", "1", "2"];
        let workers = states.map(|state| worker(folder.path(), &["--join", &address, "--keep-state", state]));
        let (status, events, errors) = master.end();
        assert_eq!(status, Some(0), "{mode}: {errors}");
        assert_eq!(events.last().expect("events")["examples"], 2 * EXAMPLES, "{mode}");
        workers.into_iter().for_each(|worker| drop(left_well(worker)));
        same_parameters(folder.path(), mode);
    }
}

#[test]
fn the_same_members_and_seed_give_the_same_bits() {
    let models = [(); 2].map(|()| {
        let folder = tempfile::tempdir().expect("a folder");
        let mut master = master(folder.path(), &["--mode", "sync", "--min-workers", "2", "--set", "train.epochs=3"]);
        let address = address(&mut master);
        let workers = [(); 2].map(|()| worker(folder.path(), &["--join", &address]));
        assert_eq!(master.end().0, Some(0));
        workers.into_iter().for_each(|worker| drop(left_well(worker)));
        paceline::nn::ModelFile::load(&folder.path().join("run/model.safetensors"))
            .expect("a model")
            .state
            .parameters
            .to_vec()
    });
    assert_eq!(models[0], models[1]);
}

#[test]
fn a_killed_worker_is_named_and_what_it_held_comes_later() {
    let modes = ["sync", "averaging", "shared"].map(|mode| vec!["--mode", mode]);
    for mode in modes.into_iter().chain([OVERLAPPED.to_vec()]) {
        let folder = tempfile::tempdir().expect("a folder");
        let arguments = ["--min-workers", "3", "--set", "train.epochs=30", "--record", "master.jsonl"];
        let mut master = master(folder.path(), &[&mode[..], &arguments].concat());
        let (overlaps, mode) = (mode.len() > 2, mode[1]);
        let address = address(&mut master);
        let records = ["1.jsonl", "2.jsonl", "3.jsonl"];
        let joins = |record: &&str| worker(folder.path(), &["--join", &address, "--record", record]);
        let mut workers: Vec<Watched> = records.iter().map(joins).collect();
        master.wait_for("step");
        workers.remove(0).kill();
        let lost = master.wait_for("worker_lost");
        assert!(text(&lost["reason"]).contains("connection ended"), "{lost}");
        // It waits below three, and goes on with one that comes.
        master.wait_for("waiting");
        workers.push(worker(folder.path(), &["--join", &address]));
        let events = ended_well(master, 30);
        workers.into_iter().for_each(|worker| drop(left_well(worker)));
        assert_eq!(named(&events, "worker_lost").len(), 1, "{mode}");
        assert_eq!(named(&events, "worker_joined").len(), 4, "{mode}");
        let replay = |name: &str| {
            let file = std::fs::File::open(folder.path().join(name)).expect("a record");
            paceline_sim::replay(std::io::BufReader::new(file)).unwrap_or_else(|wrong| panic!("{name}: {wrong}"))
        };
        let replayed = replay("master.jsonl");
        assert!(replayed.counted >= 30 && replayed.machines == 1, "{replayed:?}");
        assert!(replay("2.jsonl").events > 30);
        let record = std::fs::read_to_string(folder.path().join("2.jsonl")).expect("a record");
        assert_eq!(record.contains("\"course\":\"Ahead\""), overlaps, "{mode}");
    }
}

/// Four processes on a few cores are never equally fast.
#[test]
fn rounds_go_on_without_what_is_not_done_in_time_and_nothing_is_lost() {
    for mode in ["sync", "averaging"] {
        let folder = tempfile::tempdir().expect("a folder");
        let arguments = ["--mode", mode, "--min-workers", "4", "--straggler-limit", "0.001"];
        let mut master = master(folder.path(), &arguments);
        let address = address(&mut master);
        // They would tell of more views than fit into a pipe that nobody reads.
        let quiet = ["worker", "--slots", "1", "--events", "none", "--join", &address];
        let workers = [(); 4].map(|()| Watched::start(folder.path(), &quiet));
        let events = ended_well(master, 20);
        workers.into_iter().for_each(|worker| drop(left_well(worker)));
        let repeated = named(&events, "lease_repeated");
        assert!(repeated.iter().any(|event| event["worker"].is_string()), "{mode}: {repeated:?}");
        assert!(named(&events, "worker_lost").is_empty(), "{mode}: whoever is slow stays");
    }
}

#[test]
fn a_worker_that_stood_still_is_told_so_and_joins_again() {
    let folder = tempfile::tempdir().expect("a folder");
    // It is interrupted in the end: no machine gets through all of it before.
    let arguments = ["--mode", "sync", "--silence-limit", "2", "--set", "train.epochs=1000000"];
    let mut master = master(folder.path(), &arguments);
    let address = address(&mut master);
    let workers = [(); 2].map(|()| worker(folder.path(), &["--join", &address]));
    let (mut first, second) = workers.into();
    first.wait_for("view");
    master.wait_for("step");
    first.signal("-STOP");
    let stopped = std::time::Instant::now();
    // On a busy machine both may have been lost before, and have come back.
    while stopped.elapsed() < std::time::Duration::from_secs(3) || master.those_who_are_there().len() > 1 {
        master.wait_for("step");
    }
    first.signal("-CONT");
    while first.wait_for("stood_still")["seconds"].as_f64() < Some(2.5) {}
    first.wait_for("left");
    first.wait_for("joined");
    // Why it was lost. The master may have stood still as well, and on a busy machine whoever has just joined may be lost again.
    let told = |event: &Value| event["worker"].is_string() && event["seconds"].as_f64() >= Some(2.5);
    while !told(&master.wait_for("stood_still")) {}
    master.wait_for("worker_joined");
    master.interrupt();
    let (status, events, errors) = master.end();
    assert_eq!(status, Some(130), "{errors}");
    let silent = |event: &&Value| text(&event["reason"]).contains("nothing was heard");
    assert!(named(&events, "worker_lost").iter().any(silent), "{events:?}");
    // Stopped: the workers look for a master that goes on.
    [first, second].into_iter().for_each(|worker| drop(worker.kill()));
}

#[test]
fn a_worker_that_is_asked_to_go_hands_back_what_it_holds() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut master = master(folder.path(), &["--min-workers", "1", "--set", "train.epochs=80"]);
    let address = address(&mut master);
    let [leaving, staying] = [(); 2].map(|()| worker(folder.path(), &["--join", &address]));
    master.wait_for("step");
    leaving.signal("-TERM");
    let events = left_well(leaving);
    assert_eq!(events.last().expect("events")["event"], "finished", "{events:?}");
    let events = ended_well(master, 80);
    left_well(staying);
    assert!(text(&named(&events, "worker_lost")[0]["reason"]).starts_with("it left, because it was asked to go"));
    assert!(named(&events, "set_aside").is_empty());
}

/// A port that was free a moment ago.
pub(crate) fn free_port() -> String {
    let bound = TcpListener::bind("127.0.0.1:0").expect("a free port");
    bound.local_addr().expect("bound").to_string()
}

#[test]
fn a_master_that_was_killed_goes_on_from_its_checkpoint() {
    let folder = tempfile::tempdir().expect("a folder");
    let address = free_port();
    let arguments = ["--mode", "sync", "--listen", &address, "--set", "train.epochs=60"];
    let mut first = master(folder.path(), &arguments);
    first.wait_for("listening");
    let workers = [(); 2].map(|()| worker(folder.path(), &["--join", &address]));
    first.wait_for("checkpoint");
    let saved = first.wait_for("checkpoint")["iteration"].as_u64().expect("a number");
    first.kill();
    let mut second = master(folder.path(), &arguments);
    let started = second.wait_for("started");
    let resumed = started["resumed_at"].as_u64().expect("a number");
    assert!(resumed >= saved, "resumed at {resumed}, but {saved} was told");
    let (status, events, errors) = second.end();
    assert_eq!(status, Some(0), "{errors}");
    assert_eq!(named(&events, "finished")[0]["examples"], started["examples_left"], "each is counted once");
    assert!(named(&events, "finished")[0]["accuracy"].as_f64() > Some(0.95));
    // What it writes down goes on, too: at most the epoch of the kill is missing, and none is there twice.
    let (_, rows) = paceline::train::read_epochs(&folder.path().join("run")).expect("epochs");
    let epochs: Vec<u64> = rows.iter().map(|row| row.epoch).collect();
    assert!(epochs.is_sorted_by(|one, next| one < next) && epochs.len() >= 58, "{epochs:?}");
    assert_eq!((epochs.first(), epochs.last()), (Some(&1), Some(&60)));
    for worker in workers {
        assert!(!named(&left_well(worker), "left").is_empty(), "it has noticed");
    }
}

#[test]
fn what_is_wrong_is_said_at_once_on_the_side_that_can_act() {
    let folder = tempfile::tempdir().expect("a folder");
    let nobody = free_port();
    run(folder.path(), &["worker", "--join", &nobody, "--patience", "1"]).refused(1, &["no master answered", &nobody]);
    run(folder.path(), &["worker", "--coordinator", &format!("zk://{nobody}/run"), "--patience", "0"])
        .refused(1, &[&nobody]);
    run(folder.path(), &["master", "--coordinator", &format!("zk://{nobody}/run")]).refused(1, &[&nobody]);

    std::fs::write(folder.path().join("token"), "00112233445566778899aabbccddeeff").expect("written");
    std::fs::write(folder.path().join("other"), "ff112233445566778899aabbccddeeff").expect("written");
    let mut master = master(folder.path(), &["--token-file", "token"]);
    let address = address(&mut master);
    run(folder.path(), &["worker", "--join", &address]).refused(1, &["token is wrong or missing"]);
    run(folder.path(), &["worker", "--join", &address, "--token-file", "other"])
        .refused(1, &["token is wrong or missing"]);
    let good = worker(folder.path(), &["--join", &address, "--token-file", "token"]);
    ended_well(master, 20);
    left_well(good);
}

#[test]
fn a_run_that_is_killed_between_its_last_checkpoint_and_its_model_is_finished() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut master = master(folder.path(), &["--set", "train.epochs=3"]);
    let address = address(&mut master);
    let worker = worker(folder.path(), &["--join", &address]);
    while master.wait_for("checkpoint")["iteration"] != 180 {}
    let events = master.kill();
    // It may not have heard that the run is over.
    worker.kill();
    let is_over = named(&events, "finished").len() == 1;
    let (status, events, errors) = self::master(folder.path(), &["--set", "train.epochs=3"]).end();
    assert_eq!(status, Some(0), "{errors}");
    if is_over {
        // It was faster than the signal.
        assert_eq!(named(&events, "already_ended").len(), 1);
    } else {
        assert_eq!(named(&events, "started")[0]["resumed_at"], 180, "no step is taken again");
        assert_eq!(named(&events, "finished").len(), 1, "{events:?}");
    }
    assert!(folder.path().join("run/model.safetensors").exists());
    let other = run(folder.path(), &["master", "--output", "run", "--set", "train.epochs=4"]);
    other.refused(1, &["another run is there already", "train.epochs=4", "--restart"]);
}

#[test]
fn a_run_waits_until_its_last_state_can_be_saved() {
    let folder = tempfile::tempdir().expect("a folder");
    let blocked = folder.path().join("run/checkpoint-1-1200.safetensors");
    std::fs::create_dir_all(&blocked).expect("a folder of that name");
    let mut master = master(folder.path(), &[]);
    let address = address(&mut master);
    let mut worker = worker(folder.path(), &["--join", &address]);
    worker.wait_for("joined");
    for _ in 0..2 {
        master.wait_for("not_saved");
    }
    // The worker stays until its state is safe, so all of it counts when there is room.
    std::fs::remove_dir(&blocked).expect("it is empty");
    ended_well(master, 20);
    left_well(worker);
}

#[test]
fn a_master_that_stood_still_gives_nobody_up() {
    let folder = tempfile::tempdir().expect("a folder");
    let usual = ["--silence-limit", "1.5", "--min-workers", "3", "--mode", "averaging", "--set", "train.epochs=30"];
    let mut master = master(folder.path(), &usual);
    let address = address(&mut master);
    let workers = [(); 3].map(|()| worker(folder.path(), &["--join", &address]));
    master.wait_for("step");
    master.signal("-STOP");
    // Longer than the limit, and shorter than what a worker waits for a master that says nothing.
    std::thread::sleep(std::time::Duration::from_millis(2200));
    master.signal("-CONT");
    let (status, events, errors) = master.end();
    workers.into_iter().for_each(|worker| drop(left_well(worker)));
    assert_eq!(status, Some(0), "{errors}");
    assert!(named(&events, "worker_lost").is_empty() && named(&events, "rolled_back").is_empty());
    assert_eq!(events.last().expect("events")["examples"], 30 * EXAMPLES);
    let still = named(&events, "stood_still");
    assert!(still.iter().any(|event| event["seconds"].as_f64() > Some(1.0) && event["worker"].is_null()), "{still:?}");
}

#[test]
fn a_worker_that_comes_before_its_master_waits_for_it_and_says_so() {
    let folder = tempfile::tempdir().expect("a folder");
    let address = free_port();
    let mut early = worker(folder.path(), &["--join", &address]);
    let waiting = early.wait_for("waiting");
    assert_eq!(text(&waiting["place"]), address);
    assert!(text(&waiting["reason"]).contains("refused"), "{waiting}");
    let master = master(folder.path(), &["--listen", &address]);
    early.wait_for("joined");
    ended_well(master, 20);
    left_well(early);
}

/// What a master says to the first word of somebody, before it closes or when it has answered.
fn answer(address: &str, first: &[u8]) -> String {
    use std::io::Read;
    let mut stream = TcpStream::connect(address).expect("a master");
    stream.set_read_timeout(Some(std::time::Duration::from_secs(5))).expect("a limit");
    stream.write_all(first).expect("it takes bytes");
    let mut said = Vec::new();
    // It closes when it has said why.
    stream.read_to_end(&mut said).expect("within five seconds");
    String::from_utf8_lossy(&said).into_owned()
}

#[test]
fn another_version_is_told_what_both_are() {
    use paceline_cluster::wire::{PROTOCOL, Purpose, Version, Word};
    let folder = tempfile::tempdir().expect("a folder");
    let mut master = master(folder.path(), &[]);
    let address = address(&mut master);
    let mut bytes = Vec::new();
    let newer = Version { minor: PROTOCOL.minor + 1, ..PROTOCOL };
    for version in [newer, Version { major: 99, minor: 0 }] {
        let hello = Word::Hello {
            known_run: 0,
            nonce: String::new(),
            known_term: 0,
            version,
            program: "7.8.9".into(),
            host: String::new(),
            purpose: Purpose::Train,
        };
        bytes.clear();
        hello.frame(0, 0, 0, 1, &Default::default()).write(&mut bytes);
        let said = answer(&address, &bytes);
        let both = format!("version {version} of the protocol (paceline 7.8.9) and the master {PROTOCOL}");
        assert!(said.contains(&both) && said.contains("install the same on both"), "{said}");
    }
    bytes[4] = 9;
    let said = answer(&address, &bytes);
    assert!(said.contains("version 9.0") && said.contains("run the same release on both sides"), "{said}");
    let good = worker(folder.path(), &["--join", &address]);
    ended_well(master, 20);
    left_well(good);
}

#[test]
fn settings_that_would_be_left_aside_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    run(folder.path(), &["master", "nowhere.toml"]).refused(2, &["nowhere.toml"]);
    run(folder.path(), &["master", "--set", "train.epoch=5"]).refused(2, &["did you mean `epochs`"]);
    for bad in ["soon", "0", "-1", "nan", "1e9"] {
        run(folder.path(), &["master", &format!("--straggler-limit={bad}")]).refused(2, &["--straggler-limit"]);
    }
    run(folder.path(), &["master", "--set", "train.steps=5"]).refused(2, &["train.steps", "data.global_batch"]);
    run(folder.path(), &["master", "--set", "data.by_length=true"])
        .refused(2, &["data.by_length", "is for sequences of rows"]);
    let dump = ["master", "--mode", "shared", "--set", "train.mode.shared.dump=\"messages\""];
    run(folder.path(), &dump).refused(2, &["train.mode.shared.dump"]);
}

/// What a master tells whose job two workers finish.
#[track_caller]
fn two_train(folder: &Path, arguments: &[&str]) -> Vec<Value> {
    let mut master = master(folder, arguments);
    let address = address(&mut master);
    let workers = [(); 2].map(|()| worker(folder, &["--join", &address]));
    let (status, events, errors) = master.end();
    workers.into_iter().for_each(|worker| drop(left_well(worker)));
    assert_eq!(status, Some(0), "{errors}");
    events
}

#[test]
fn a_run_ends_after_as_many_steps_as_it_was_told() {
    for mode in ["sync", "averaging", "shared"] {
        let folder = tempfile::tempdir().expect("a folder");
        let events = two_train(folder.path(), &["--mode", mode, "--min-workers", "2", "--set", "train.steps=70"]);
        let finished = events.last().expect("events");
        // An epoch is 60 steps, the last of which has fewer examples.
        assert_eq!(finished["examples"], EXAMPLES + 10 * 24, "{mode}");
        assert_eq!(finished["epochs"], 2, "{mode}");
        assert!(finished["accuracy"].is_number(), "{mode}: {finished}");
    }
}

#[test]
fn a_run_ends_early_with_its_best_model() {
    for mode in ["averaging", "shared"] {
        let folder = tempfile::tempdir().expect("a folder");
        let stopping = "train.early_stopping={ metric = \"accuracy\", target = 0.96 }";
        let same = ["--mode", mode, "--set", "train.epochs=5000", "--set", stopping];
        let events = two_train(folder.path(), &same);
        let finished = events.last().expect("events");
        assert!(text(&finished["ended_early"]).contains("as good as asked for"), "{finished}");
        let accuracy = finished["accuracy"].as_f64().expect("a number");
        let all = named(&events, "evaluation");
        let best = all.iter().filter_map(|event| event["accuracy"].as_f64()).fold(0.0, f64::max);
        assert!(accuracy >= 0.96 && accuracy == best, "{accuracy} and {best}");
        assert!(folder.path().join("run/best.safetensors").exists());
        // The model says which epoch it is of, as the last event does.
        let model = paceline_train::SavedModel::load(&folder.path().join("run/model.safetensors")).expect("a model");
        let kept = model.kept_epoch().expect("the best epoch is kept");
        assert_eq!(
            (Some(kept.epoch), Some(kept.value)),
            (finished["kept"]["epoch"].as_u64(), Some(accuracy)),
            "{finished}"
        );
        // It has ended: the same command says so, and begins anew only when it is told to.
        let (status, events, errors) = self::master(folder.path(), &same).end();
        assert_eq!((status, named(&events, "already_ended").len()), (Some(0), 1), "{errors}");
        let mut again = self::master(folder.path(), &[&same[..], &["--restart"]].concat());
        assert_eq!(again.wait_for("started")["resumed_at"], 0);
        drop(again.kill());
    }
}

#[test]
fn a_run_is_saved_by_the_clock_in_the_middle_of_an_epoch() {
    for mode in ["averaging", "shared"] {
        let folder = tempfile::tempdir().expect("a folder");
        let often = ["--mode", mode, "--set", "train.epochs=5000", "--set", "train.checkpoint.minutes=0.0005"];
        let mut master = master(folder.path(), &often);
        let address = address(&mut master);
        let worker = worker(folder.path(), &["--join", &address]);
        let steps_per_epoch = master.wait_for("started")["steps_per_epoch"].as_u64().expect("a number");
        let mut saved = 0;
        while saved < 3 {
            let iteration = master.wait_for("checkpoint")["iteration"].as_u64().expect("a number");
            saved += u64::from(!iteration.is_multiple_of(steps_per_epoch));
        }
        master.kill();
        worker.kill();
    }
}

#[test]
fn a_loss_that_is_no_number_ends_the_run_for_all() {
    let folder = tempfile::tempdir().expect("a folder");
    let arguments = ["--set", "network.updater={ sgd = { learning_rate = 1e30 } }"];
    let mut master = master(folder.path(), &arguments);
    let address = address(&mut master);
    let worker = worker(folder.path(), &["--join", &address]);
    let (status, events, errors) = master.end();
    assert_eq!(status, Some(1), "{errors}");
    assert!(errors.contains("learning rate"), "{errors}");
    assert_eq!(events.last().expect("events")["event"], "failed");
    assert_ne!(worker.end().0, Some(130));
}

#[test]
fn two_masters_of_one_folder_are_one_too_many() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut first = master(folder.path(), &[]);
    first.wait_for("listening");
    run(folder.path(), &["master", "--output", "run"]).refused(1, &["run"]);
    first.kill();
}

/// One that stays holds more than the last checkpoint, which is at the end of an epoch.
#[test]
fn a_run_that_waits_for_workers_is_stopped_with_all_that_they_hold() {
    for mode in ["sync", "shared"] {
        let folder = tempfile::tempdir().expect("a folder");
        let settings = ["--set", "train.epochs=100000", "--set", "data.global_batch=2"];
        let arguments = [&["--mode", mode, "--min-workers", "2"][..], &settings].concat();
        let mut first = master(folder.path(), &arguments);
        let address = address(&mut first);
        let mut workers =
            vec![worker(folder.path(), &["--join", &address]), worker(folder.path(), &["--join", &address])];
        let saved = first.wait_for("checkpoint")["iteration"].as_u64().expect("a number");
        let mut step = first.wait_for("step")["iteration"].as_u64().expect("a number");
        while step <= saved {
            step = first.wait_for("step")["iteration"].as_u64().expect("a number");
        }
        workers.remove(0).kill();
        first.wait_for("waiting");
        first.interrupt();
        let (status, events, errors) = first.end();
        assert_eq!(status, Some(130), "{mode}: {errors}");
        let last = named(&events, "checkpoint").last().and_then(|event| event["iteration"].as_u64());
        assert!(last >= Some(step), "{mode}: step {step} was told, and {last:?} saved");
        workers.into_iter().for_each(|worker| drop(worker.end()));
    }
}

#[test]
fn an_operator_sees_a_run_pauses_it_and_lets_it_end() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut master = master(folder.path(), &["--set", "train.epochs=100000"]);
    let listening = master.wait_for("listening");
    let (address, status) = (text(&listening["address"]), text(&listening["status"]));
    let worker = worker(folder.path(), &["--join", &address]);
    master.wait_for("checkpoint");
    let seen = || -> Value {
        let said = run(folder.path(), &["status", &status, "--json"]).done();
        serde_json::from_str(&said.output).expect("JSON")
    };
    assert_eq!(seen()["members"].as_array().map(Vec::len), Some(1));
    let order = |what: &str| {
        let mut stream = TcpStream::connect(&status).expect("the tracker listens");
        write!(stream, "POST /{what} HTTP/1.1\r\nHost: {status}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
            .expect("sent");
        let mut answer = String::new();
        std::io::Read::read_to_string(&mut stream, &mut answer).expect("an answer");
        assert!(answer.starts_with("HTTP/1.1 202"), "{answer}");
    };
    order("pause");
    assert_eq!(master.wait_for("on_hold")["paused"], true);
    assert_eq!(seen()["reason"], "paused by an order");
    order("resume");
    assert_eq!(master.wait_for("on_hold")["paused"], false);
    assert_eq!(seen()["reason"], "resumed by an order");
    master.wait_for("step");
    order("stop");
    let (status, events, _) = master.end();
    assert_eq!(events.last().expect("events")["event"], "failed", "it did not do all that the job says");
    assert_eq!(status, Some(130));
    worker.kill();
}

/// A table that the network of the digits can read.
fn table(rows: usize, seed: usize) -> String {
    let names: Vec<String> = (0..64).map(|column| format!("x{column}")).collect();
    let mut text = format!("{},y\n", names.join(","));
    for row in 0..rows {
        let values: Vec<String> = (0..64).map(|column| ((row * 7 + column * seed) % 17).to_string()).collect();
        text += &format!("{},{}\n", values.join(","), row % 10);
    }
    text
}

#[test]
fn a_worker_with_other_data_is_refused_and_both_sides_say_so() {
    for mode in ["sync", "shared"] {
        let folder = tempfile::tempdir().expect("a folder");
        let other = folder.path().join("other");
        std::fs::create_dir(&other).expect("a folder");
        std::fs::write(folder.path().join("t.csv"), table(60, 3)).expect("a file");
        std::fs::write(other.join("t.csv"), table(60, 5)).expect("a file");
        let data = ["--set", "data.train=csv:t.csv?label=y", "--set", "data.test=csv:t.csv?label=y"];
        let mut master = master(folder.path(), &[&["--mode", mode], &data[..]].concat());
        let address = address(&mut master);
        let stranger = worker(&other, &["--join", &address]);
        let (status, _, errors) = stranger.end();
        assert_eq!(status, Some(1), "{errors}");
        assert!(errors.contains("refuses this worker") && errors.contains("fingerprint"), "{errors}");
        let refused = master.wait_for("worker_refused");
        assert!(text(&refused["reason"]).contains("fingerprint"), "{refused}");
        let good = worker(folder.path(), &["--join", &address]);
        let (status, _, errors) = master.end();
        assert_eq!(status, Some(0), "{mode}: {errors}");
        left_well(good);
    }
}

#[test]
#[cfg(unix)]
fn a_worker_reads_nothing_outside_of_its_data_root() {
    let folder = tempfile::tempdir().expect("a folder");
    let (inside, outside) = (folder.path().join("in"), folder.path().join("t.csv"));
    std::fs::create_dir(&inside).expect("a folder");
    std::fs::write(&outside, table(60, 3)).expect("a file");
    std::os::unix::fs::symlink(&outside, inside.join("link.csv")).expect("a link");
    for spec in ["csv:../t.csv?label=y", "csv:a?/../../t.csv?label=y", "csv:link.csv?label=y"] {
        let (train, test) = (format!("data.train={spec}"), format!("data.test={spec}"));
        // The master may read what it likes.
        std::fs::create_dir_all(inside.join("a?")).expect("a folder");
        let mut master = master(&inside, &["--restart", "--mode", "sync", "--set", &train, "--set", &test]);
        let address = address(&mut master);
        let (status, _, errors) = worker(&inside, &["--join", &address]).end();
        assert_eq!(status, Some(1), "{spec}: {errors}");
        assert!(errors.contains("does not lie below the data root"), "{spec}: {errors}");
        master.kill();
    }
}
