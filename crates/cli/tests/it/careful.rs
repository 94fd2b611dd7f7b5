//! Nothing is lost without a word: inputs are not written over, runs not replaced, rows not dropped, failures not hidden.

use std::fs;
use std::fs::File;
use std::path::Path;
use std::process::Stdio;

use tempfile::TempDir;

use crate::paceline::{Said, Watched, command, named, run};

const FLOWERS: &str = "petal,kind\n1,a\n5,b\n1.1,a\n5.2,b\n0.9,a\n4.9,b\n";

/// A folder with a table and a job that learns from it.
fn folder(options: &str, output: &str) -> TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::write(folder.path().join("s.csv"), FLOWERS).expect("written");
    let job = format!(
        "[data]\ntrain = \"csv:s.csv?label=kind{options}\"\nbatch = 2\n[network]\ninput = {{ feed_forward = 1 }}\n\
         updater = {{ adam = {{ learning_rate = 0.05 }} }}\nlayers = [{{ output = {output} }}]\n[train]\nepochs = 30\n"
    );
    fs::write(folder.path().join("iris.toml"), job).expect("written");
    folder
}

fn train(folder: &Path) {
    run(folder, &["train", "iris.toml", "--events", "none"]).done();
}

const MODEL: &str = "runs/iris/model.safetensors";

#[test]
fn what_is_read_is_never_written_over() {
    let folder = folder("", "{ units = 2 }");
    train(folder.path());
    let at = |name: &str| folder.path().join(name);
    fs::hard_link(at("s.csv"), at("hard.csv")).expect("a link");
    #[cfg(unix)]
    std::os::unix::fs::symlink("s.csv", at("soft.csv")).expect("a link");
    for output in ["s.csv", "./s.csv", "hard.csv", "soft.csv"] {
        let said = run(folder.path(), &["predict", MODEL, "--data", "csv:s.csv?label=kind", "--output", output]);
        said.refused(2, &["is read", "another name"]);
    }
    fs::create_dir(at("out")).expect("a folder");
    fs::rename(at("s.csv"), at("out/examples.csv")).expect("renamed");
    let said = run(folder.path(), &["data", "export", "csv:out/examples.csv?label=kind", "out", "--format", "csv"]);
    said.refused(2, &["`out/examples.csv` is read", "another folder"]);
    assert_eq!(fs::read_to_string(at("out/examples.csv")).expect("a table"), FLOWERS);
    // The target keeps its name.
    let said = run(folder.path(), &["data", "export", "csv:out/examples.csv?label=kind", "else", "--format", "csv"]);
    said.done();
    let exported = fs::read_to_string(at("else/examples.csv")).expect("a table");
    assert!(exported.starts_with("petal,kind\n"), "{exported}");
}

#[test]
fn a_run_is_not_replaced_unless_that_is_asked_for() {
    let folder = folder("", "{ units = 2 }");
    train(folder.path());
    let model = || fs::read(folder.path().join(MODEL)).expect("a model");
    let before = model();
    let again = ["train", "iris.toml", "--events", "auto", "--set", "network.seed=7"];
    let said = run(folder.path(), &again);
    said.refused(1, &["`runs/iris` holds a run already", "--resume", "--overwrite", "--set network.seed=7"]);
    assert_eq!(model(), before);
    run(folder.path(), &[&again[..], &["--overwrite"]].concat()).done();
    assert_ne!(model(), before, "another seed gives another model");
    run(folder.path(), &["train", "iris.toml", "--set", "network.seed=7", "--resume"]).done();
    run(folder.path(), &["train", "iris.toml", "--resume", "--overwrite"]).refused(2, &["--overwrite"]);
}

#[test]
fn two_trainings_never_share_a_folder() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut first = Watched::start(folder.path(), &["train", "--events", "json", "--set", "train.epochs=100000"]);
    first.wait_for("step");
    run(folder.path(), &["train", "--overwrite"]).refused(1, &["`runs/digits` is in use by process"]);
    run(folder.path(), &["train", "--resume"]).refused(1, &["in use"]);
    first.interrupt();
    let (status, ..) = first.end();
    assert_eq!(status, Some(130));
    run(folder.path(), &["train", "--overwrite", "--set", "train.epochs=1"]).done();
}

#[test]
fn every_row_has_its_prediction_or_its_reason() {
    let folder = folder("&missing=drop", "{ units = 2 }");
    train(folder.path());
    fs::write(folder.path().join("new.csv"), "petal\n\n1\nNA\n5\n?\n").expect("written");
    let said = run(folder.path(), &["predict", MODEL, "--data", "csv:new.csv", "--output", "out.csv"]).done();
    let out = fs::read_to_string(folder.path().join("out.csv")).expect("predictions");
    let first: Vec<&str> = out.lines().map(|line| line.split(',').next().unwrap_or_default()).collect();
    assert_eq!(first, ["prediction", "a", "", "b", ""], "{out}");
    let told = &said.errors;
    assert!(told.contains("2 rows have no prediction") && told.contains("row 2: no value in column `petal`"), "{told}");
}

#[test]
fn outputs_are_called_probabilities_only_where_they_are() {
    for (output, head) in [
        ("{ units = 2 }", "prediction,probability of a,probability of b"),
        ("{ units = 1 }", "prediction,probability of a,probability of b"),
        ("{ units = 2, loss = \"mse\" }", "prediction,output of a,output of b"),
    ] {
        let folder = folder("", output);
        train(folder.path());
        run(folder.path(), &["predict", MODEL, "--data", "csv:s.csv", "--output", "out.csv"]).done();
        let out = fs::read_to_string(folder.path().join("out.csv")).expect("predictions");
        assert_eq!(out.lines().next(), Some(head));
        let right = out
            .lines()
            .skip(1)
            .zip(FLOWERS.lines().skip(1))
            .all(|(out, row)| out.split(',').next() == row.split(',').next_back());
        assert!(right, "{output}: {out}");
    }
    run(
        folder("", "{ units = 2, activation = \"identity\", loss = \"cross_entropy\" }").path(),
        &["train", "iris.toml"],
    )
    .refused(2, &["layer 0 (output)", "`activation = \"softmax\"`"]);
}

#[test]
fn numbers_are_learned_by_their_squared_error_without_a_word() {
    let folder = folder("&task=regression", "{ units = 1 }");
    let table: String = (0..60).map(|row| format!("{row},{}\n", 3 * row + 1)).collect();
    fs::write(folder.path().join("s.csv"), format!("petal,kind\n{table}")).expect("written");
    train(folder.path());
    let said = run(folder.path(), &["model", "show", MODEL, "--json"]).done().output;
    assert!(said.contains("\"mse\"") && said.contains("\"identity\""), "{said}");
}

#[test]
fn other_examples_are_not_gone_on_with() {
    let folder = folder("", "{ units = 2 }");
    train(folder.path());
    fs::write(folder.path().join("s.csv"), FLOWERS.replace("1.1", "1.2")).expect("written");
    let said = run(folder.path(), &["train", "iris.toml", "--resume", "--set", "train.epochs=40"]);
    said.refused(1, &["another run", "examples", "--resume"]);
}

#[test]
fn settings_that_make_no_sense_are_refused_with_their_range() {
    let folder = folder("", "{ units = 2 }");
    for (setting, parts) in [
        ("network.updater={ adam = { learning_rate = nan } }", &["expected a finite number, found NaN"][..]),
        ("network.l2=inf", &["expected a finite number, found inf"]),
        ("network.updater={ adam = { learning_rate = -0.1 } }", &["`learning_rate` must be 0 or more"]),
        ("network.updater={ adam = { beta1 = 1.5 } }", &["`beta1` must be 0 or more and less than 1, found 1.5"]),
        (
            "network.updater={ nesterovs = { momentum = 5 } }",
            &["`momentum` must be 0 or more and less than 1, found 5"],
        ),
        ("data.class_weights=[0, 0]", &["class_weights", "not all 0"]),
        ("train.workers=100000", &["train.workers", "at most 1,024"]),
        ("data.test_share=0.01", &["test data has no examples", "data.test_share"]),
    ] {
        let said = run(folder.path(), &["train", "iris.toml", "--set", setting, "--output", "none"]);
        let status = if setting.starts_with("data") { said.status } else { Some(2) };
        said.refused(status.unwrap_or(-1), parts);
        assert!(!folder.path().join("none").join("checkpoint.safetensors").exists(), "{setting}");
    }
    let job = fs::read_to_string(folder.path().join("iris.toml")).expect("a job");
    let both = job.replace("batch = 2", "batch = 2\ntest = \"csv:s.csv?label=kind\"\ntest_share = 0.5");
    fs::write(folder.path().join("both.toml"), both).expect("written");
    run(folder.path(), &["train", "both.toml"]).refused(2, &["line 5", "set one of them"]);
    let pooled = "network.layers=[{ global_pooling = { activation = \"relu\" } }, { output = { units = 10 } }]";
    let said = run(folder.path(), &["train", "--set", pooled]);
    said.refused(2, &["layer 0 (global_pooling)", "`activation` means nothing to it"]);
}

#[test]
fn the_last_event_of_whatever_fails_says_so() {
    let folder = folder("", "{ units = 2 }");
    for arguments in [
        &["train", "nothing.toml"][..],
        &["train", "iris.toml", "--set", "data.train=csv:none.csv?label=kind"],
        &["train", "iris.toml", "--resume"],
        &["master", "nothing.toml"],
    ] {
        let said = run(folder.path(), &[arguments, &["--events", "json"]].concat());
        let last = said.events().pop().unwrap_or_else(|| panic!("{arguments:?} says nothing"));
        assert_eq!(last["event"], "failed", "{arguments:?}: {last}");
        assert!(last["error"].as_str().is_some_and(|error| said.errors.contains(error)), "{last}\n{}", said.errors);
    }
}

#[test]
fn an_error_of_the_system_is_told_once() {
    let folder = folder("", "{ units = 2 }");
    let said = run(folder.path(), &["train", "iris.toml", "--set", "data.train=csv:none.csv?label=kind"]);
    said.refused(1, &["No such file"]);
    assert_eq!(said.errors.matches("No such file").count(), 1, "{}", said.errors);
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_standard_output_is_a_failure() {
    let folder = folder("", "{ units = 2 }");
    let full = File::options().write(true).open("/dev/full").expect("a device that is always full");
    let mut training = command(folder.path(), &["train", "iris.toml", "--events", "json"]);
    let child = training.stdout(full).stderr(Stdio::piped()).spawn().expect("starts");
    Said::at_the_end_of(child).refused(1, &["not all events could be written"]);
    assert!(folder.path().join(MODEL).exists(), "what was trained is there all the same");
}

#[test]
fn a_checkpoint_that_cannot_be_written_on_the_way_ends_nothing() {
    let folder = folder("", "{ units = 2 }");
    // A folder of the name that the checkpoint is to have.
    let blocked = folder.path().join("run/checkpoint.safetensors/in the way");
    fs::create_dir_all(&blocked).expect("a folder");
    let arguments = ["train", "iris.toml", "--events", "json", "--output", "run"];
    let mut training = Watched::start(folder.path(), &[&arguments[..], &["--set", "train.epochs=2000000"]].concat());
    training.wait_for("not_saved");
    training.wait_for("not_saved");
    fs::remove_dir_all(folder.path().join("run/checkpoint.safetensors")).expect("removed");
    training.wait_for("checkpoint");
    training.interrupt();
    let (status, events, errors) = training.end();
    assert_eq!(status, Some(130), "{errors}");
    assert!(named(&events, "paused").len() == 1 && folder.path().join("run/checkpoint.safetensors").is_file());
}

#[test]
fn an_area_by_thresholds_is_told_to_be_one() {
    let folder = folder("", "{ units = 2 }");
    train(folder.path());
    let evaluate = |more: &[&str]| {
        run(folder.path(), &[&["evaluate", MODEL, "--data", "csv:s.csv?label=kind"], more].concat()).done().output
    };
    assert!(evaluate(&[]).contains("AUC  1.00000\n"), "{}", evaluate(&[]));
    assert!(evaluate(&["--auc-thresholds", "10"]).contains("(10 thresholds)"));
    assert!(evaluate(&["--auc-thresholds", "10", "--json"]).contains("\"auc_thresholds\":10"));
    assert!(!evaluate(&["--json"]).contains("auc_thresholds"));
}

#[test]
fn data_that_was_perhaps_meant_otherwise_is_told() {
    let folder = folder("", "{ units = 2 }");
    let mut table = String::from("petal,id,kind\n");
    (0..300).for_each(|row| table += &format!("{row},name{row},{}\n", ["a", "b"][row % 2]));
    fs::write(folder.path().join("s.csv"), table).expect("written");
    let said = run(folder.path(), &["train", "iris.toml", "--set", "network.input={ feed_forward = 301 }"]).done();
    assert!(said.errors.contains("warning: column `id` of `s.csv` has 300 different texts"), "{}", said.errors);
}
