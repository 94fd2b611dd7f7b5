//! Files and memory that a command must not take: models, files of users, runs of another kind, more memory than there is.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use crate::masters::{address, ended_well, left_well, master, worker};
use crate::paceline::{command, run, tree};

/// A folder with a model of one epoch of the digits in `run`.
fn trained() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    run(folder.path(), &["train", "--output", "run", "--set", "train.epochs=1", "--events", "none"]).done();
    folder
}

/// Fails unless a command is refused for this reason, and nothing changes.
#[track_caller]
fn refused(folder: &Path, arguments: &[&str], parts: &[&str]) {
    let before = tree(folder);
    let said = run(folder, arguments);
    assert!(said.status == Some(1) || said.status == Some(2), "{said:#?}");
    said.refused(said.status.unwrap_or_default(), parts);
    assert!(tree(folder) == before, "`{}` has changed a file", arguments.join(" "));
}

#[test]
fn a_picture_replaces_pictures_of_its_kind_and_nothing_else() {
    let folder = trained();
    let at = folder.path();
    let model = "run/model.safetensors";
    fs::write(at.join("notes.svg"), "<svg>my own</svg>").expect("written");
    for show in [
        &["model", "show", model, "--svg", model][..],
        &["model", "show", model, "--filters", model],
        &["runs", "--svg", model, "run"],
    ] {
        refused(at, show, &[model]);
    }
    for show in [&["model", "show", model, "--svg", "notes.svg"][..], &["runs", "run", "--svg", "notes.svg"]] {
        refused(at, show, &["`--svg notes.svg`", "--overwrite"]);
    }
    for _ in 0..2 {
        run(at, &["model", "show", model, "--svg", "net.svg", "--filters", "net.png"]).done();
        run(at, &["runs", "run", "--svg", "runs.svg"]).done();
    }
    for name in ["model.safetensors", "log.jsonl", "epochs.csv"] {
        let svg = format!("run/{name}");
        refused(at, &["runs", "run", "--svg", &svg, "--overwrite"], &["is a file of a run"]);
    }
    run(at, &["runs", "run", "--svg", "notes.svg", "--overwrite"]).done();
    assert!(!fs::read_to_string(at.join("notes.svg")).expect("a file").contains("my own"));
}

#[test]
fn predictions_and_exports_replace_their_own_files_and_nothing_else() {
    let folder = trained();
    let at = folder.path();
    fs::write(at.join("features.csv"), "name,phone\nme,123\n").expect("written");
    let predict = ["predict", "run/model.safetensors", "--data", "digits:test", "--output"];
    refused(at, &[&predict[..], &["features.csv"]].concat(), &["`--output features.csv`", "--overwrite"]);
    for _ in 0..2 {
        run(at, &[&predict[..], &["predictions.csv"]].concat()).done();
    }
    run(at, &[&predict[..], &["features.csv", "--overwrite"]].concat()).done();
    fs::create_dir(at.join("out")).expect("a folder");
    fs::write(at.join("out/features.idx"), "mine").expect("written");
    refused(at, &["data", "export", "digits:test", "out"], &["features.idx", "--overwrite"]);
    run(at, &["data", "export", "digits:test", "out", "--overwrite"]).done();
}

#[test]
fn a_run_a_search_and_folds_leave_files_of_users_alone() {
    for (name, arguments) in [
        ("epochs.csv", &["train"][..]),
        ("best.toml", &["tune", "--trials", "1"]),
        ("out-of-fold.csv", &["train", "--cv", "2"]),
        ("curves.svg", &["train", "--cv", "2"]),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir(folder.path().join("mine")).expect("a folder");
        fs::write(folder.path().join("mine").join(name), "mine").expect("written");
        let quick = ["--output", "mine", "--set", "train.epochs=1", "--events", "none"];
        refused(folder.path(), &[arguments, &quick].concat(), &[name, "--overwrite"]);
        run(folder.path(), &[arguments, &quick, &["--overwrite"]].concat()).done();
    }
}

#[test]
fn a_fold_and_a_trial_begin_over_what_a_kill_has_left_but_over_nothing_else() {
    let folder = tempfile::tempdir().expect("a folder");
    let quick = ["--events", "none", "--set", "train.epochs=1"];
    for (name, arguments, first, last) in [
        ("cv", &["train", "--cv", "2", "--output", "cv"][..], "fold-1", "fold-2"),
        (
            "search",
            &["tune", "--trials", "2", "--vary", "network.seed=1,2", "--output", "search"],
            "trial-0",
            "trial-1",
        ),
    ] {
        let all = [arguments, &quick].concat();
        run(folder.path(), &all).done();
        // As a kill before the first checkpoint of a part leaves it: a log, and no end.
        let part = folder.path().join(name).join(last);
        for entry in fs::read_dir(&part).expect("a folder") {
            let path = entry.expect("a file").path();
            if path.file_name().is_some_and(|name| name != "log.jsonl") {
                fs::remove_file(path).expect("removed");
            }
        }
        let trials = folder.path().join(name).join("trials.jsonl");
        if let Ok(text) = fs::read_to_string(&trials) {
            let kept: String =
                text.lines().filter(|line| !line.contains("\"trial\":1")).map(|line| format!("{line}\n")).collect();
            fs::write(&trials, kept).expect("written");
        }
        run(folder.path(), &[&all[..], &["--resume"]].concat()).done();
        assert!(part.join("model.safetensors").exists(), "{name}");
        // A user's file in the place of one of a part.
        let fresh = format!("fresh-{name}");
        let own = folder.path().join(&fresh).join(first).join("epochs.csv");
        fs::create_dir_all(own.parent().expect("a folder")).expect("a folder");
        fs::write(&own, "mine").expect("written");
        let mut other = all.clone();
        let at = other.iter().position(|word| *word == name).expect("an output");
        other[at] = &fresh;
        let said = run(folder.path(), &other);
        assert!(said.status != Some(0) || name == "search", "{said:?}");
        assert_eq!(fs::read_to_string(&own).expect("it is there"), "mine", "{said:?}");
    }
}

#[test]
fn a_run_of_one_process_and_one_of_a_master_keep_out_of_each_others_folder() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut master = master(folder.path(), &[]);
    let worker = worker(folder.path(), &["--join", &address(&mut master)]);
    ended_well(master, 20);
    left_well(worker);
    let train = ["train", "--output", "run", "--set", "train.epochs=1", "--events", "none"];
    refused(folder.path(), &train, &["a run of `paceline master`", "--overwrite"]);
    run(folder.path(), &[&train[..], &["--overwrite"]].concat()).done();
    let left: Vec<String> = crate::paceline::tree(&folder.path().join("run")).into_keys().collect();
    let of_master = |name: &String| {
        ["term", "record.json", "run-number", "master.lock"].contains(&name.as_str()) || name.starts_with("checkpoint-")
    };
    assert!(!left.iter().any(of_master), "{left:?}");
    refused(
        folder.path(),
        &["master", "--output", "run", "--set", "train.epochs=1", "--events", "none"],
        &["`run` holds a run already", "--restart"],
    );
}

#[test]
fn a_closed_standard_error_stops_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, more) in [
        ("train", &["train", "--set", "train.epochs=2"][..]),
        ("cv", &["train", "--cv", "2", "--set", "train.epochs=1"]),
        ("tune", &["tune", "--trials", "1", "--set", "train.epochs=1"]),
        ("fail", &["train", "--set", "network.learning_rate=1e30", "--set", "network.updater=\"sgd\""]),
    ] {
        let mut command = command(folder.path(), more);
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        command.args(["--output", name]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(writer);
        let status = command.status().expect("it ends");
        assert_eq!(status.code(), Some(if name == "fail" { 1 } else { 0 }), "{name}");
    }
}

#[test]
fn a_network_that_memory_cannot_hold_is_refused_with_both_figures() {
    let folder = tempfile::tempdir().expect("a folder");
    // Nearly all memory of the machine, of which some is taken: 267 numbers for each unit, in four buffers of 4 bytes.
    let text = fs::read_to_string("/proc/meminfo").expect("Linux");
    let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:")).expect("a total");
    let total: u64 = total.trim().trim_end_matches(" kB").parse().expect("a number");
    let units = format!("network.layers.2.dense.units={}", total * 1024 / 100 * 99 / (267 * 16));
    for more in [&["train"][..], &["train", "--dry-run"], &["train", "--cv", "2"], &["tune", "--workers", "1"]] {
        let huge = ["--set", &units, "--events", "none"];
        refused(folder.path(), &[more, &huge].concat(), &["needs at least", "GiB are available", "--force"]);
    }
}

#[test]
fn a_run_that_replaces_another_leaves_no_model_of_it_when_it_fails() {
    let folder = tempfile::tempdir().expect("a folder");
    let quick = ["train", "--output", "run", "--events", "none", "--epochs", "1"];
    run(folder.path(), &quick).done();
    assert!(folder.path().join("run/model.safetensors").exists());
    let fails = [&quick[..], &["--overwrite", "--learning-rate", "1e30"]].concat();
    run(folder.path(), &fails).refused(1, &["the loss became"]);
    assert!(!folder.path().join("run/model.safetensors").exists(), "the model of the run before");
    let told = run(folder.path(), &["runs", "run"]).done().output;
    assert!(told.contains("failed"), "{told}");
}

#[test]
fn nothing_that_a_command_reads_is_written_or_removed_even_when_it_may_overwrite() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    let table: String = (0..40).map(|row| format!("{row},{}\n", ["x", "y"][row % 2])).collect();
    for name in ["epochs.csv", "out-of-fold.csv", "fold-1/d.csv"] {
        let path = at.join("mine").join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, format!("a,label\n{table}")).expect("written");
    }
    fs::write(at.join("mine/fold-1/log.jsonl"), "{}\n").expect("written");
    fs::write(at.join("mine/log.jsonl"), "{}\n").expect("written");
    for name in ["epochs.csv", "out-of-fold.csv", "fold-1/d.csv"] {
        let job = format!(
            "[data]\ntrain = \"csv:mine/{name}?label=label\"\ntest_share = 0.2\n[network]\ninput = \"auto\"\nlayers = [{{ output = {{ units = 2 }} }}]\n"
        );
        fs::write(at.join("job.toml"), job).expect("written");
        let into = ["--output", "mine", "--overwrite", "--events", "none"];
        for command in [&["train", "job.toml"][..], &["train", "job.toml", "--cv", "2"], &["tune", "job.toml"]] {
            refused(at, &[command, &into].concat(), &["is read by this run", "--output"]);
        }
        refused(
            at,
            &["master", "job.toml", "--output", "mine", "--restart", "--events", "none"],
            &["is read by this run"],
        );
    }
    fs::rename(at.join("job.toml"), at.join("mine/best.toml")).expect("moved");
    refused(
        at,
        &["tune", "mine/best.toml", "--output", "mine", "--overwrite", "--events", "none"],
        &["best.toml` is read"],
    );
    refused(
        at,
        &["init", "mine/epochs.csv", "--output", "mine/epochs.csv", "--overwrite"],
        &["is the table that is read"],
    );
    refused(at, &["master", "--output", "mine", "--events", "none"], &["`mine` holds"]);
    let own = tempfile::tempdir().expect("a folder");
    fs::write(own.path().join("epochs.csv"), "mine").expect("written");
    refused(own.path(), &["master", "--output", ".", "--events", "none"], &["epochs.csv` is in the way"]);
}

#[test]
fn a_run_is_resumed_only_where_one_of_its_kind_is() {
    let folder = trained();
    let at = folder.path();
    let quick = ["--set", "train.epochs=1", "--events", "none"];
    run(at, &[&["train", "--cv", "2", "--output", "folds"], &quick[..]].concat()).done();
    run(at, &[&["tune", "--trials", "1", "--output", "search"], &quick[..]].concat()).done();
    for (command, output, holds) in [
        (&["train"][..], "folds", "a cross-validation"),
        (&["train"], "search", "a search of `paceline tune`"),
        (&["train", "--cv", "2"], "run", "a run"),
        (&["train", "--cv", "2"], "search", "a search of `paceline tune`"),
    ] {
        refused(at, &[command, &["--output", output, "--resume"], &quick].concat(), &[holds]);
    }
    // The error names `--resume` only where this command can resume.
    let said = run(at, &["train", "--output", "folds", "--set", "train.epochs=1"]);
    said.refused(1, &["holds a cross-validation already", "--overwrite"]);
    assert!(!said.errors.contains("--resume"), "{}", said.errors);
}

#[test]
fn files_of_users_with_the_names_of_a_master_are_their_own() {
    for name in ["record.json", "term", "statistics.html"] {
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir(folder.path().join("mine")).expect("a folder");
        fs::write(folder.path().join("mine").join(name), "mine").expect("written");
        refused(folder.path(), &["master", "--output", "mine", "--events", "none"], &[name]);
        refused(folder.path(), &["train", "--output", "mine", "--events", "none"], &[name, "--overwrite"]);
        run(folder.path(), &["train", "--epochs", "1", "--output", "mine", "--events", "none", "--overwrite"]).done();
        assert_eq!(fs::read_to_string(folder.path().join("mine").join(name)).expect("a file"), "mine", "{name}");
    }
    let folder = trained();
    let at = folder.path();
    fs::write(at.join("notes.txt"), "mine").expect("written");
    for command in ["master", "worker"] {
        let join: &[&str] = if command == "worker" { &["--join", "127.0.0.1:9"] } else { &["--output", "led"] };
        refused(
            at,
            &[&[command, "--record", "notes.txt", "--events", "none"], join].concat(),
            &["`--record notes.txt`", "remove it"],
        );
    }
    fs::create_dir(at.join("notes")).expect("a folder");
    fs::write(at.join("notes/partition-0.json"), "mine").expect("written");
    refused(at, &["data", "describe", "digits:", "--partition", "0", "--output", "notes"], &["partition-0.json"]);
    let model = "run/model.safetensors";
    std::os::unix::fs::symlink(at.join(model), at.join("said.csv")).expect("a link");
    let over_model = ["predict", model, "--data", "digits:test", "--output", "said.csv", "--overwrite"];
    refused(at, &over_model, &["is the model that is read"]);
}
