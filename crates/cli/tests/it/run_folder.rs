//! What a master makes of the folder that it finds, and of what it is told on the command line.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::masters::{address, ended_well, left_well, master, text, worker};
use crate::paceline::{Watched, command, named, run};

/// The checkpoints of a run, oldest first.
fn checkpoints(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder.join("run")).expect("the folder of a run").flatten().map(|entry| entry.path());
    let round = |path: &PathBuf| {
        let name = path.file_stem()?.to_str()?.strip_prefix("checkpoint-")?.rsplit_once('-')?.1.parse::<u64>();
        name.ok()
    };
    let mut found: Vec<_> = entries.filter_map(|path| Some((round(&path)?, path))).collect();
    found.sort();
    found.into_iter().map(|(_, path)| path).collect()
}

/// A run that no machine gets through before it is killed.
const LONG: [&str; 2] = ["--set", "train.epochs=50000"];
/// The same from the start, as somebody types it.
const SAME: [&str; 7] = ["master", "--output", "run", "--set", "data.global_batch=24", "--set", "train.epochs=50000"];

/// A folder with a run that was killed after a few checkpoints.
fn killed() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let mut master = master(folder.path(), &LONG);
    let address = address(&mut master);
    let worker = worker(folder.path(), &["--join", &address]);
    for _ in 0..3 {
        master.wait_for("checkpoint");
    }
    master.kill();
    worker.kill();
    assert!(checkpoints(folder.path()).len() >= 2, "two stay");
    folder
}

#[test]
fn a_damaged_checkpoint_is_told_and_the_one_before_it_taken() {
    let folder = killed();
    let newest = checkpoints(folder.path()).pop().expect("one");
    let bytes = fs::read(&newest).expect("a checkpoint");
    fs::write(&newest, &bytes[..bytes.len() / 2]).expect("cut short");
    let mut second = master(folder.path(), &LONG);
    let warning = text(&second.wait_for("warning")["message"]);
    let name = newest.file_name().and_then(|name| name.to_str()).expect("a name");
    assert!(warning.contains(name) && warning.contains("going on from"), "{warning}");
    let address = address(&mut second);
    let resumed = second.wait_for("started")["resumed_at"].as_u64();
    assert!(resumed > Some(0));
    let worker = worker(folder.path(), &["--join", &address]);
    assert!(second.wait_for("checkpoint")["iteration"].as_u64() > resumed, "it goes on");
    second.kill();
    worker.kill();
}

#[test]
fn a_checkpoint_that_is_gone_is_told_and_the_one_before_it_taken() {
    let folder = killed();
    let newest = checkpoints(folder.path()).pop().expect("one");
    fs::remove_file(&newest).expect("removed");
    let mut second = master(folder.path(), &LONG);
    let warning = text(&second.wait_for("warning")["message"]);
    let name = newest.file_name().and_then(|name| name.to_str()).expect("a name");
    assert!(warning.contains(name) && warning.contains("going on from"), "{warning}");
    assert!(second.wait_for("started")["resumed_at"].as_u64() > Some(0));
    second.kill();
    // None at all is not taken for a beginning.
    checkpoints(folder.path()).iter().for_each(|path| fs::remove_file(path).expect("removed"));
    run(folder.path(), &SAME).refused(1, &["found nothing", "--restart"]);
    let told = run(folder.path(), &[&SAME[..], &["--events", "json"]].concat());
    assert_eq!(named(&told.events(), "failed")[0]["resumable"], false, "nothing is left to go on from");
}

#[test]
fn masters_keep_as_many_checkpoints_as_the_job_says() {
    for (keep, expected) in [(1, 2), (4, 4)] {
        let folder = tempfile::tempdir().expect("a folder");
        let keep = format!("train.checkpoint.keep={keep}");
        let mut master = master(folder.path(), &["--set", &keep]);
        let worker = worker(folder.path(), &["--join", &address(&mut master)]);
        ended_well(master, 20);
        left_well(worker);
        assert_eq!(checkpoints(folder.path()).len(), expected, "{keep}");
    }
}

#[test]
fn a_worker_of_a_run_that_is_gone_joins_the_next_one_at_the_same_address() {
    let folder = tempfile::tempdir().expect("a folder");
    let port = crate::cluster::free_port();
    let listen = [&LONG[..], &["--listen", &port]].concat();
    let mut first = master(folder.path(), &listen);
    first.wait_for("listening");
    let mut worker = worker(folder.path(), &["--join", &port]);
    first.wait_for("checkpoint");
    first.kill();
    // The second master of the run rules a higher term than the first one of the next run will.
    let mut second = master(folder.path(), &listen);
    second.wait_for("checkpoint");
    second.kill();
    fs::rename(folder.path().join("run"), folder.path().join("gone")).expect("moved");
    let mut third = master(folder.path(), &["--listen", &port]);
    third.wait_for("listening");
    worker.wait_for("other_run");
    ended_well(third, 20);
    left_well(worker);
}

#[test]
fn without_a_checkpoint_that_can_be_read_nothing_begins() {
    let folder = killed();
    let all = checkpoints(folder.path());
    for path in &all {
        fs::write(path, b"no checkpoint").expect("written");
    }
    let name = all.last().and_then(|path| path.file_name()?.to_str()).expect("a name").to_owned();
    run(folder.path(), &SAME).refused(1, &[&name]);
    #[cfg(unix)]
    {
        // A pipe that nobody writes to must not be waited for.
        let newest = all.last().expect("one");
        fs::remove_file(newest).expect("removed");
        let made = std::process::Command::new("mkfifo").arg(newest).status().expect("`mkfifo`");
        assert!(made.success());
        run(folder.path(), &SAME).refused(1, &[&name, "a pipe"]);
        let told = run(folder.path(), &[&SAME[..], &["--events", "json"]].concat());
        assert_eq!(named(&told.events(), "failed")[0]["resumable"], true, "what cannot be read now may be read later");
    }
}

#[test]
fn a_run_whose_record_is_gone_is_not_replaced_by_a_new_one() {
    let folder = killed();
    let before = checkpoints(folder.path());
    fs::remove_file(folder.path().join("run/record.json")).expect("removed");
    run(folder.path(), &SAME).refused(1, &["run/checkpoint-", "record is missing", "--restart"]);
    assert_eq!(checkpoints(folder.path()), before, "nothing is lost");
    let mut anew = master(folder.path(), &["--restart"]);
    let worker = worker(folder.path(), &["--join", &address(&mut anew)]);
    ended_well(anew, 20);
    left_well(worker);
}

#[test]
fn a_run_of_one_process_is_not_replaced_by_a_master() {
    let folder = tempfile::tempdir().expect("a folder");
    run(folder.path(), &["train", "--output", "run", "--set", "train.epochs=1", "--events", "none"]).done();
    let model = fs::read(folder.path().join("run/model.safetensors")).expect("a model");
    run(folder.path(), &["master", "--output", "run"]).refused(1, &["`run` holds a run already", "--restart"]);
    assert_eq!(fs::read(folder.path().join("run/model.safetensors")).expect("a model"), model);
}

#[test]
fn an_ended_run_that_was_moved_names_its_model_where_it_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut first = master(folder.path(), &["--set", "train.epochs=1"]);
    let worker = worker(folder.path(), &["--join", &address(&mut first)]);
    assert_eq!(first.end().0, Some(0));
    left_well(worker);
    fs::rename(folder.path().join("run"), folder.path().join("moved")).expect("moved");
    let settings = ["--set", "data.global_batch=24", "--set", "train.epochs=1"];
    let said = run(folder.path(), &[&["master", "--output", "moved"], &settings[..]].concat());
    let said = said.done().errors;
    assert!(said.contains("`moved/model.safetensors`"), "{said}");
}

#[test]
fn workers_are_called_by_their_host_and_a_small_number() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut master = master(folder.path(), &["--min-workers", "2"]);
    let listening = master.wait_for("listening");
    let address = text(&listening["address"]);
    let workers = [(); 2].map(|()| worker(folder.path(), &["--join", &address]));
    let joined: Vec<String> = (0..2).map(|_| text(&master.wait_for("worker_joined")["worker"])).collect();
    let host = fs::read_to_string("/proc/sys/kernel/hostname").expect("a name");
    let mut sorted = joined.clone();
    sorted.sort();
    assert_eq!(sorted, [1, 2].map(|number| format!("{}/{number}", host.trim())));
    let status = run(folder.path(), &["status", &text(&listening["status"])]).done().output;
    assert!(joined.iter().all(|name| status.contains(name)), "{status}");
    let events = ended_well(master, 20);
    let view = &named(&events, "view")[0]["workers"];
    assert_eq!(view.as_array().map(Vec::len), Some(2));
    for worker in workers {
        let own = text(&named(&left_well(worker), "joined")[0]["worker"]);
        assert!(
            joined.contains(&own) && view.as_array().is_some_and(|all| all.contains(&own.as_str().into())),
            "{own}"
        );
    }
    let epochs: Vec<u64> = named(&events, "epoch").iter().filter_map(|event| event["epoch"].as_u64()).collect();
    assert_eq!(epochs, (1..=20).collect::<Vec<u64>>(), "counted as people count");
}

#[test]
fn a_value_that_makes_no_sense_is_misuse() {
    let folder = tempfile::tempdir().expect("a folder");
    for (arguments, told) in [
        (["--silence-limit", "1e-9"], "from 0.05 to a day"),
        (["--silence-limit", "nan"], "from 0.05 to a day"),
        (["--straggler-limit", "soon"], "in seconds or `auto`"),
        (["--certificate-hours", "0"], "from 0.001 to 87600"),
        (["--listen", "nowhere"], "nowhere"),
        (["--status", "nowhere"], "nowhere"),
        (["--advertise", "a:b:c"], "a:b:c"),
        (["--min-workers", "0"], "1..=1000000"),
        (["--mode", "solo"], "paceline train"),
    ] {
        run(folder.path(), &[&["master"], &arguments[..]].concat()).refused(2, &[told]);
    }
    for address in ["nowhere", "host:", ":80", "host:0", "host:99999"] {
        // It does not look for its whole patience.
        run(folder.path(), &["worker", "--join", address]).refused(2, &[address, "`HOST:PORT`"]);
    }
    for (option, file) in [("--record", "no/such/record"), ("--keep-state", "no/such/state")] {
        let mut master = master(folder.path(), &["--restart", "--set", "train.epochs=1"]);
        let address = address(&mut master);
        let said = run(folder.path(), &["worker", "--slots", "1", "--join", &address, option, file]);
        said.refused(1, &[file, option]);
        assert!(!said.errors.contains("--output"), "{}", said.errors);
        master.kill();
    }
}

#[test]
fn a_master_tells_what_in_the_data_was_perhaps_not_meant_so() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("s.csv"), "petal,kind\n1,a\n5,b\n,a\n5.2,b\n0.9,a\n4.9,b\n").expect("written");
    let job = "[data]\ntrain = \"csv:s.csv?label=kind&missing=drop\"\nbatch = 2\n[network]\ninput = { feed_forward = 1 }\n\
               layers = [{ output = { units = 2 } }]\n[train]\nepochs = 2\n";
    fs::write(folder.path().join("iris.toml"), job).expect("written");
    let mut master = crate::paceline::Watched::start(folder.path(), &["master", "iris.toml", "--events", "json"]);
    let told = text(&master.wait_for("warning")["message"]);
    assert!(told.contains("1 of the 6 rows") && told.contains("s.csv"), "{told}");
    master.kill();
}

/// The same command with at most so many files open, and no way to raise that.
fn with_files(command: &Command, files: u32) -> Command {
    let mut limited = Command::new("sh");
    limited.args(["-c", &format!("ulimit -n {files}; exec \"$0\" \"$@\"")]).arg(command.get_program());
    limited.args(command.get_args());
    if let Some(folder) = command.get_current_dir() {
        limited.current_dir(folder);
    }
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => limited.env(name, value),
            None => limited.env_remove(name),
        };
    }
    limited
}

#[test]
fn a_master_short_of_files_leads_its_run_to_the_end_whoever_knocks() {
    let folder = tempfile::tempdir().expect("a folder");
    let usual =
        ["master", "--events", "json", "--output", "run", "--set", "data.global_batch=24", "--set", "train.epochs=20"];
    let mut master = Watched::watch(&mut with_files(&command(folder.path(), &usual), 40));
    let listening = master.wait_for("listening");
    let [members, status] = ["address", "status"].map(|name| text(&listening[name]));
    let worker = worker(folder.path(), &["--join", &members]);
    master.wait_for("worker_joined");
    // They hold what they get for as long as the run lasts.
    let knock = |address: &str| std::net::TcpStream::connect(address).ok();
    let held: Vec<_> = (0..120).flat_map(|_| [knock(&members), knock(&status)]).collect();
    assert!(held.iter().flatten().count() > 40);
    let events = ended_well(master, 20);
    assert!(named(&events, "finished").len() == 1 && named(&events, "failed").is_empty());
    left_well(worker);
}
