//! What people look for on their first day: shapes from the data, a look before the run, folds, and what a run leaves behind.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::paceline::run;

/// Ninety rows of two numbers and a word that tell three kinds apart, five rows of each garden.
fn garden(folder: &Path) {
    let mut table = String::from("garden,length,colour,width,kind\n");
    for row in 0..90 {
        let (kind, colour) = [("alba", "white"), ("rubra", "red"), ("sylva", "white")][row % 3];
        let off = (row * 7 % 11) as f64 / 10.0;
        table += &format!("g{},{:.2},{colour},{:.2},{kind}\n", row / 5, (row % 3) as f64 * 2.0 + off, 2.0 - off);
    }
    fs::write(folder.join("garden.csv"), table).expect("written");
    let job = r#"
        [data]
        train      = "csv:garden.csv?label=kind&drop=garden"
        test_share = 0.3
        batch      = 8
        [network]
        input   = "auto"
        updater = { adam = { learning_rate = 0.02 } }
        layers  = [{ dense = { units = 8, activation = "tanh" } }, { output = { units = "auto", activation = "softmax" } }]
        [train]
        epochs = 6
    "#;
    fs::write(folder.join("garden.toml"), job).expect("written");
}

#[test]
fn the_data_says_what_goes_in_and_comes_out() {
    let folder = tempfile::tempdir().expect("a folder");
    garden(folder.path());
    run(folder.path(), &["train", "garden.toml", "--output", "auto", "--events", "none"]).done();
    let said = ["network.input={ feed_forward = 4 }", "network.layers.1.output.units=3"];
    let stated = ["train", "garden.toml", "--output", "stated", "--events", "none", "--set", said[0], "--set", said[1]];
    run(folder.path(), &stated).done();
    let model = |name: &str| fs::read(folder.path().join(name).join("model.safetensors")).expect("a model");
    assert!(model("auto") == model("stated"), "the same bytes");
    let unlabelled = "data.train=csv:garden.csv?drop=garden,kind";
    run(folder.path(), &["train", "garden.toml", "--set", unlabelled]).refused(2, &["`units`", "no targets"]);
}

#[test]
fn a_dry_run_tells_what_would_be_and_writes_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    garden(folder.path());
    let before = crate::paceline::tree(folder.path());
    let said = run(folder.path(), &["train", "garden.toml", "--dry-run"]).done();
    // 4 · 8 + 8 and 8 · 3 + 3 parameters; 63 rows to learn from are eight steps.
    for part in
        ["dense", "40", "27", "67", "63 examples of 4", "judged on 27", "48 steps", "loss 1.", "nothing was trained"]
    {
        assert!(said.output.contains(part), "`{part}` is not in {}", said.output);
    }
    let said = run(folder.path(), &["train", "garden.toml", "--dry-run", "--events", "json"]).done();
    let told: Value = serde_json::from_str(&said.output).expect("JSON");
    assert_eq!((&told["parameters"], &told["steps_per_epoch"]), (&67.into(), &8.into()));
    let wrong = ["train", "garden.toml", "--dry-run", "--set", "network.layers.0.dense.units=0"];
    run(folder.path(), &wrong).refused(2, &["`units`"]);
    assert!(crate::paceline::tree(folder.path()) == before, "nothing is written");
}

/// The columns of a CSV file without quotes, by name.
fn column(path: &Path, name: &str) -> Vec<String> {
    let text = fs::read_to_string(path).expect("a file");
    let mut lines = text.lines().map(|line| line.split(',').collect::<Vec<&str>>());
    let header = lines.next().expect("a header");
    let at = header.iter().position(|found| *found == name).unwrap_or_else(|| panic!("`{name}` is not in {header:?}"));
    lines.map(|cells| cells[at].to_owned()).collect()
}

#[test]
fn every_example_is_judged_once_by_a_model_that_has_not_seen_it() {
    let folder = tempfile::tempdir().expect("a folder");
    garden(folder.path());
    let job = ["train", "garden.toml", "--cv", "4", "--output", "cv"];
    let said = run(folder.path(), &[&job[..], &["--events", "json", "--set", "data.stratified=true"]].concat()).done();
    let events = said.events();
    assert_eq!(events.iter().filter(|event| event["event"] == "fold").count(), 4);
    let told = events.last().expect("events");
    assert_eq!(told["event"], "cross_validated");
    let mean = told["summary"][1]["mean"].as_f64().expect("a mean");
    assert_eq!(told["summary"][1]["metric"], "accuracy");
    let at = folder.path().join("cv/out-of-fold.csv");
    let examples: Vec<String> = (1..=90).map(|example: u32| example.to_string()).collect();
    assert_eq!(column(&at, "example"), examples);
    let [folds, targets, predictions] = ["fold", "target", "prediction"].map(|name| column(&at, name));
    for fold in ["1", "2", "3", "4"] {
        let of_kind = |kind: &str| (0..90).filter(|row| folds[*row] == fold && targets[*row] == kind).count();
        assert!(["alba", "rubra", "sylva"].iter().all(|kind| [7, 8].contains(&of_kind(kind))), "fold {fold}");
    }
    // The mean over the folds of what the rows say is the mean that is told.
    let share = |fold: &str| {
        let rows: Vec<usize> = (0..90).filter(|row| folds[*row] == fold).collect();
        rows.iter().filter(|row| targets[**row] == predictions[**row]).count() as f64 / rows.len() as f64
    };
    let by_hand = ["1", "2", "3", "4"].map(share).iter().sum::<f64>() / 4.0;
    assert!((mean - by_hand).abs() < 1e-12, "{mean} and {by_hand}");
    // The model of a fold is the one of a run over the rest, to the bit: here over a table without the rows of the first fold.
    let text = fs::read_to_string(folder.path().join("garden.csv")).expect("a table");
    let kept = |wanted: bool| {
        let rows = text
            .lines()
            .skip(1)
            .zip(&folds)
            .filter(|(_, fold)| (*fold == "1") == wanted)
            .map(|(row, _)| format!("{row}\n"));
        format!("{}\n{}", text.lines().next().expect("a header"), rows.collect::<String>())
    };
    fs::write(folder.path().join("rest.csv"), kept(false)).expect("written");
    let job_file = fs::read_to_string(folder.path().join("garden.toml")).expect("a job");
    fs::write(folder.path().join("rest.toml"), job_file.replace("test_share = 0.3", "")).expect("written");
    let rest = "data.train=csv:rest.csv?label=kind&drop=garden";
    run(folder.path(), &["train", "rest.toml", "--output", "rest", "--events", "none", "--set", rest]).done();
    let parameters = |name: &str| {
        let path = folder.path().join(name).join("model.safetensors");
        let model = paceline_train::SavedModel::load(&path).expect("a model");
        (model.normalisers, model.file.state.parameters)
    };
    assert_eq!(parameters("rest"), parameters("cv/fold-1"));
    // What is there is not replaced without a word, and goes on where it was interrupted.
    run(folder.path(), &job).refused(1, &["`cv` holds a cross-validation", "--cv 4", "--resume"]);
    fs::remove_dir_all(folder.path().join("cv/fold-3")).expect("removed");
    let again = [&job[..], &["--events", "none", "--resume", "--set", "data.stratified=true"]].concat();
    let before = fs::read(&at).expect("a table");
    run(folder.path(), &again).done();
    assert!(fs::read(&at).expect("a table") == before, "the same folds, and the same models");
}

#[test]
fn rows_out_of_folds_are_numbered_in_the_whole_table() {
    let folder = tempfile::tempdir().expect("a folder");
    garden(folder.path());
    let text = fs::read_to_string(folder.path().join("garden.csv")).expect("a table");
    let columns = text.lines().next().expect("a header").split(',').count();
    let hole = ",".repeat(columns - 1);
    // Rows that lack every value: the second, and the two last.
    let (header, rows) = text.split_once('\n').expect("rows");
    let (first, others) = rows.split_once('\n').expect("rows");
    fs::write(folder.path().join("holes.csv"), format!("{header}\n{first}\n{hole}\n{others}{hole}\n{hole}\n"))
        .expect("written");
    let source = "data.train=csv:holes.csv?label=kind&drop=garden&missing=drop";
    run(folder.path(), &["train", "garden.toml", "--cv", "2", "--output", "cv", "--events", "none", "--set", source])
        .done();
    let numbers = column(&folder.path().join("cv/out-of-fold.csv"), "example");
    let expected: Vec<String> = (1..=91).filter(|row| *row != 2).map(|row: u32| row.to_string()).collect();
    assert_eq!(numbers, expected);
}

#[test]
fn gardens_stay_together_in_folds_and_shares() {
    let folder = tempfile::tempdir().expect("a folder");
    garden(folder.path());
    let grouped = "data.train=csv:garden.csv?label=kind&group=garden";
    run(folder.path(), &["train", "garden.toml", "--cv", "3", "--output", "cv", "--events", "none", "--set", grouped])
        .done();
    let folds = column(&folder.path().join("cv/out-of-fold.csv"), "fold");
    for garden in folds.chunks(5) {
        assert_eq!(garden.iter().collect::<BTreeSet<_>>().len(), 1, "{folds:?}");
    }
    let both = ["train", "garden.toml", "--set", grouped, "--set", "data.stratified=true"];
    run(folder.path(), &both).refused(2, &["`data.stratified`", "`group`"]);
    let many = ["train", "garden.toml", "--cv", "19", "--set", grouped];
    run(folder.path(), &many).refused(2, &["at most 18", "groups"]);
}

#[test]
fn a_run_leaves_its_epochs_a_log_and_pictures_and_a_resume_goes_on_with_them() {
    let folder = tempfile::tempdir().expect("a folder");
    garden(folder.path());
    let train = |output: &str, more: &[&str]| {
        run(folder.path(), &[&["train", "garden.toml", "--output", output, "--events", "none"], more].concat()).done();
    };
    train("whole", &[]);
    train("cut", &["--set", "train.epochs=4"]);
    train("cut", &["--resume"]);
    let of = |run: &str, name: &str| column(&folder.path().join(run).join("epochs.csv"), name);
    let epochs: Vec<String> = (1..=6).map(|epoch: u32| epoch.to_string()).collect();
    for run in ["whole", "cut"] {
        assert_eq!(of(run, "epoch"), epochs, "{run}");
        let log = fs::read_to_string(folder.path().join(run).join("log.jsonl")).expect("a log");
        let events: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        assert_eq!(events.iter().filter(|event| event["event"] == "epoch").count(), 6);
        assert_eq!(events.last().expect("events")["event"], "finished");
        assert!(events.iter().all(|event| event["time"].as_f64().is_some_and(|time| time > 1.7e9)));
        let curves = fs::read_to_string(folder.path().join(run).join("curves.svg")).expect("a picture");
        assert!(curves.contains("Accuracy on the test data") && curves.matches("<circle").count() == 18, "{curves}");
        let confusion = fs::read_to_string(folder.path().join(run).join("confusion.svg")).expect("a picture");
        assert!(confusion.contains(">sylva<"));
    }
    for name in ["loss", "score", "accuracy", "f1", "auc"] {
        assert_eq!(of("whole", name), of("cut", name), "{name}");
    }
    // A run that replaces another one begins all of it anew.
    train("whole", &["--overwrite", "--set", "train.epochs=2", "--set", "train.evaluate=false"]);
    assert_eq!(of("whole", "epoch"), ["1", "2"]);
    assert!(!folder.path().join("whole/confusion.svg").exists());
}

/// The trials that a search has told, by number.
fn trials(said: &crate::paceline::Said) -> Vec<Value> {
    said.events().into_iter().filter(|event| event["event"] == "trial").collect()
}

#[test]
fn a_grid_trains_every_combination_and_the_best_job_trains_again() {
    let folder = tempfile::tempdir().expect("a folder");
    garden(folder.path());
    let vary = ["--vary", "network.layers.0.dense.units=2,8", "--vary", "network.learning_rate=0.001,0.05"];
    let tune =
        [&["tune", "garden.toml", "--method", "grid", "--events", "json", "--output", "tuned"], &vary[..]].concat();
    let said = run(folder.path(), &tune).done();
    let told = trials(&said);
    assert_eq!(told.len(), 5, "the job as it is, and four others");
    let own = told.iter().find(|trial| trial["trial"] == 0).expect("the job as it is");
    assert_eq!(own["values"], serde_json::json!({}));
    let value = |trial: &Value| trial["value"].as_f64().expect("a value");
    let least = told.iter().map(value).fold(f64::INFINITY, f64::min);
    let best = said.events().pop().expect("events");
    assert_eq!((best["event"].as_str(), value(&best["best"])), (Some("tuned"), least));
    // The best job is a job, and comes to what its trial came to: one core, as trials have.
    let again = ["train", "tuned/best.toml", "--mode", "solo", "--output", "again", "--events", "json"];
    let finished = run(folder.path(), &again).done().events().pop().expect("events");
    assert_eq!(finished["score"].as_f64(), Some(least));
    let bytes = |name: &str| paceline_train::SavedModel::load(&folder.path().join(name)).expect("a model").file.state;
    assert_eq!(bytes("again/model.safetensors"), bytes("tuned/model.safetensors"));
    // What has ended is not trained again; what is another search is not mixed with it.
    run(folder.path(), &tune).refused(1, &["--resume", "--overwrite"]);
    assert!(trials(&run(folder.path(), &[&tune[..], &["--resume"]].concat()).done()).is_empty());
    let other = [&tune[..], &["--resume", "--set", "train.epochs=2"]].concat();
    run(folder.path(), &other).refused(1, &["another search", "tuned/trials.jsonl"]);
}

#[test]
fn the_best_job_of_a_search_over_seeds_keeps_the_split_of_the_job() {
    let folder = tempfile::tempdir().expect("a folder");
    garden(folder.path());
    let tune =
        ["tune", "-", "--vary", "network.seed=11,12,13", "--method", "grid", "--output", "tuned", "--events", "json"];
    let job = fs::read_to_string(folder.path().join("garden.toml")).expect("a job");
    let said = crate::paceline::run_with_input(folder.path(), &tune, &job).done();
    let best = said.events().pop().expect("events");
    assert_ne!(best["best"]["trial"], 0, "another seed is the best, or this test shows nothing: {best}");
    let text = fs::read_to_string(folder.path().join("tuned/best.toml")).expect("a job");
    assert!(text.contains("split_seed"), "{text}");
    let again = run(folder.path(), &["train", "tuned/best.toml", "--output", "again", "--events", "json"]).done();
    assert_eq!(again.events().pop().expect("events")["score"], best["best"]["value"]);
}

#[test]
fn a_search_that_is_cut_short_repeats_no_trial_that_has_ended() {
    let folder = tempfile::tempdir().expect("a folder");
    garden(folder.path());
    let tune = ["tune", "garden.toml", "--trials", "6", "--events", "json", "--output", "tuned"];
    let whole = trials(&run(folder.path(), &[&tune[..4], &["--output", "whole", "--events", "json"]].concat()).done());
    let mut first = trials(&run(folder.path(), &tune).done());
    // As a kill in the middle of the fourth line would leave it.
    let book = folder.path().join("tuned/trials.jsonl");
    let text = fs::read_to_string(&book).expect("a book");
    let kept: String = text.split_inclusive('\n').take(4).collect();
    fs::write(&book, &kept[..kept.len() - 9]).expect("written");
    let rest = trials(&run(folder.path(), &[&tune[..], &["--resume"]].concat()).done());
    assert_eq!(rest.len(), 4, "two were known");
    first.truncate(2);
    let results = |trials: &[Value]| {
        let of = |trial: &Value| (trial["trial"].as_u64(), (trial["values"].to_string(), trial["value"].to_string()));
        trials.iter().map(of).collect::<std::collections::BTreeMap<_, _>>()
    };
    assert_eq!(results(&[first, rest].concat()), results(&whole), "each as it would have been");
}

#[test]
fn halving_lets_the_best_third_go_on() {
    let folder = tempfile::tempdir().expect("a folder");
    garden(folder.path());
    let tune =
        ["tune", "garden.toml", "--method", "halving", "--trials", "9", "--events", "json", "--set", "train.epochs=9"];
    let told = trials(&run(folder.path(), &tune).done());
    let at = |epochs: u64| told.iter().filter(|trial| trial["epochs"] == epochs).collect::<Vec<&Value>>();
    // The best third is trained further, and the unchanged job to the end.
    let own = |epochs: u64| at(epochs).iter().any(|trial| trial["trial"] == 0);
    assert!(own(1) && own(3) && own(9));
    assert!(at(1).len() == 9 && [3, 4].contains(&at(3).len()) && [1, 2].contains(&at(9).len()), "{told:?}");
    let value = |trial: &&Value| trial["value"].as_f64().expect("a value");
    let mut first = at(1).iter().map(value).collect::<Vec<f64>>();
    first.sort_by(f64::total_cmp);
    for trial in at(3).into_iter().filter(|trial| trial["trial"] != 0) {
        let before = at(1).into_iter().find(|known| known["trial"] == trial["trial"]).expect("it was there before");
        assert!(value(&before) <= first[2], "{trial} was not among the best third");
    }
    // It went on, and did not begin again.
    let last = at(9)[0]["trial"].as_u64().expect("a number");
    let epochs = column(&folder.path().join(format!("runs/garden-tune/trial-{last}/epochs.csv")), "epoch");
    assert_eq!(epochs.len(), 9);
    // The best is one of those that were trained to the end, and its job trains to its score, to the bit.
    let best = at(9).into_iter().min_by(|a, b| value(a).total_cmp(&value(b))).expect("a trial");
    let job = "runs/garden-tune/best.toml";
    let text = fs::read_to_string(folder.path().join(job)).expect("a job");
    assert!(
        text.starts_with(&format!("# Trial {} of `garden`: score {} after 9 epochs", best["trial"], best["value"])),
        "{text}"
    );
    let again = run(folder.path(), &["train", job, "--output", "again", "--events", "json"]).done().events();
    assert_eq!(again.last().expect("events")["score"], best["value"]);
    let model = |path: &str| fs::read(folder.path().join(path)).expect("a model");
    let parameters =
        |bytes: &[u8]| bytes[8 + u64::from_le_bytes(bytes[..8].try_into().expect("8 bytes")) as usize..].to_vec();
    assert!(parameters(&model("again/model.safetensors")) == parameters(&model("runs/garden-tune/model.safetensors")));
}

#[test]
fn searches_that_make_no_sense_are_refused_before_they_begin() {
    let folder = tempfile::tempdir().expect("a folder");
    garden(folder.path());
    let refused = |more: &[&str], parts: &[&str]| {
        run(folder.path(), &[&["tune", "garden.toml"], more].concat()).refused(2, parts);
        assert!(!folder.path().join("runs").exists());
    };
    refused(&["--vary", "network.learning_rate=log:0..1"], &["above 0"]);
    refused(&["--vary", "network.learning_rate"], &["`--vary network.learning_rate`", "log:"]);
    refused(&["--vary", "network.lerning_rate=0.1,0.2"], &["did you mean `learning_rate`?"]);
    refused(&["--metric", "accurracy"], &["`accuracy`"]);
    refused(&["--trials", "0"], &["at least 1"]);
    refused(&["--seconds=-1"], &["above 0"]);
    refused(&["--method", "grid", "--vary", "network.l2=log:1e-4..1"], &["a list"]);
    let text = fs::read_to_string(folder.path().join("garden.toml")).expect("a job").replace("test_share = 0.3", "");
    fs::write(folder.path().join("blind.toml"), text).expect("written");
    run(folder.path(), &["tune", "blind.toml"]).refused(2, &["test data"]);
}

#[test]
fn runs_are_listed_with_their_figures_and_compared() {
    let folder = tempfile::tempdir().expect("a folder");
    garden(folder.path());
    for (name, rate) in [("slow", "0.002"), ("fast", "0.05")] {
        let setting = format!("network.updater.adam.learning_rate={rate}");
        run(
            folder.path(),
            &["train", "garden.toml", "--output", &format!("runs/{name}"), "--events", "none", "--set", &setting],
        )
        .done();
    }
    fs::create_dir(folder.path().join("runs/nothing")).expect("a folder");
    let said = run(folder.path(), &["runs"]).done().output;
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.len(), 3, "{said}");
    assert!(lines[0].contains("test loss") && lines[0].contains("accuracy"), "{said}");
    assert!(lines[1].starts_with("fast") && lines[1].contains("ended") && lines[1].contains("ago"), "{said}");
    let said = run(folder.path(), &["runs", "runs/slow", "runs/fast", "--svg", "both.svg"]).done().output;
    let differs = said.lines().find(|line| line.starts_with("network.updater")).expect("what differs");
    assert!(differs.contains("0.002") && differs.contains("0.05"), "{said}");
    assert_eq!(
        said.lines().filter(|line| line.starts_with("network.") || line.starts_with("data.")).count(),
        1,
        "{said}"
    );
    let picture = fs::read_to_string(folder.path().join("both.svg")).expect("a picture");
    assert!(picture.contains("slow: training") && picture.contains("fast: test"));
    let told: Value = serde_json::from_str(&run(folder.path(), &["runs", "--json"]).done().output).expect("JSON");
    assert_eq!((&told[1]["name"], &told[1]["epochs"], &told[1]["ended"]), (&"slow".into(), &6.into(), &true.into()));
    run(folder.path(), &["runs", "runs/nothing"]).refused(2, &["no runs"]);
    run(folder.path(), &["runs", "runs/slow", "runs/nothing"]).refused(2, &["`runs/nothing`", "no run"]);
}

#[test]
fn a_part_of_a_source_is_cut_into_folds_like_a_whole_one() {
    let folder = tempfile::tempdir().expect("a folder");
    garden(folder.path());
    let part = "data.train=csv:garden.csv?label=kind&drop=garden&examples=40&seed=3";
    run(folder.path(), &["train", "garden.toml", "--cv", "4", "--set", part, "--output", "part"]).done();
    let folds = column(&folder.path().join("part/out-of-fold.csv"), "fold");
    assert_eq!(folds.len(), 40);
    assert!((1..=4).all(|fold| folds.iter().filter(|found| **found == fold.to_string()).count() == 10), "{folds:?}");
}

#[test]
fn a_folder_is_for_a_run_or_for_folds_or_for_a_search() {
    let folder = tempfile::tempdir().expect("a folder");
    garden(folder.path());
    let train = ["train", "garden.toml", "--events", "none"];
    let folds = ["train", "garden.toml", "--cv", "3", "--events", "none"];
    let tune = ["tune", "garden.toml", "--trials", "2", "--events", "none"];
    let ways: [&[&str]; 3] = [&train, &folds, &tune];
    for (first, way) in ways.iter().enumerate() {
        let output = format!("runs/of-{first}");
        run(folder.path(), &[way, &["--output", &output][..]].concat()).done();
        for other in ways {
            run(folder.path(), &[other, &["--output", &output][..]].concat()).refused(1, &["run", &output]);
        }
    }
    let told: Value = serde_json::from_str(&run(folder.path(), &["runs", "--json"]).done().output).expect("JSON");
    let states: Vec<&Value> = told.as_array().expect("runs").iter().map(|run| &run["state"]).collect();
    assert_eq!(states, ["ended", "folds", "search"]);
    // What only has such a name is nobody's to remove.
    fs::create_dir_all(folder.path().join("own/fold-7")).expect("a folder");
    for name in ["own/best.toml", "own/out-of-fold.csv", "own/fold-7/notes.txt"] {
        fs::write(folder.path().join(name), "mine").expect("written");
    }
    for way in [&train[..], &train, &tune[..], &train] {
        run(folder.path(), &[way, &["--output", "own", "--overwrite"]].concat()).done();
        assert!(["own/out-of-fold.csv", "own/fold-7/notes.txt"].iter().all(|name| folder.path().join(name).exists()));
    }
    // What is replaced leaves nothing that would be taken for the new one's.
    run(folder.path(), &[&folds[..2], &["--cv", "2", "--output", "runs/of-1", "--overwrite"]].concat()).done();
    assert!(!folder.path().join("runs/of-1/fold-3").exists());
    run(folder.path(), &[&tune[..], &["--output", "runs/of-0", "--overwrite"]].concat()).done();
    assert!(!folder.path().join("runs/of-0/epochs.csv").exists());
    run(folder.path(), &[&train[..], &["--output", "runs/of-2", "--overwrite"]].concat()).done();
    assert!(
        !folder.path().join("runs/of-2/trials.jsonl").exists() && !folder.path().join("runs/of-2/trial-1").exists()
    );
}

#[test]
fn a_pipe_is_read_once_and_looked_at_as_often_as_needed() {
    let folder = tempfile::tempdir().expect("a folder");
    garden(folder.path());
    run(folder.path(), &["train", "garden.toml", "--output", "file", "--events", "none"]).done();
    let pipe = folder.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo");
    assert!(made.success());
    let through = |arguments: &[&str]| {
        let (from, to) = (folder.path().join("garden.csv"), pipe.clone());
        let writer = std::thread::spawn(move || fs::copy(from, to).expect("a reader"));
        let said = run(folder.path(), arguments).done();
        writer.join().expect("written");
        said
    };
    let source = "data.train=csv:pipe?label=kind&drop=garden";
    through(&["train", "garden.toml", "--output", "piped", "--events", "none", "--set", source]);
    let model = |name: &str| fs::read(folder.path().join(name).join("model.safetensors")).expect("a model");
    assert!(model("file") == model("piped"), "the same bytes");
    let predict = ["predict", "file/model.safetensors", "--data", "csv:pipe", "--keep-columns=garden", "--output", "-"];
    assert_eq!(through(&predict).output.lines().count(), 91);
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    let folder = tempfile::tempdir().expect("a folder");
    garden(folder.path());
    run(folder.path(), &["train", "garden.toml", "--output", "run", "--events", "none"]).done();
    // More than a pipe holds.
    let text = fs::read_to_string(folder.path().join("garden.csv")).expect("a table");
    let (header, rows) = text.split_once('\n').expect("a header");
    fs::write(folder.path().join("long.csv"), format!("{header}\n{}", rows.repeat(60))).expect("written");
    let arguments = ["predict", "run/model.safetensors", "--data", "csv:long.csv", "--output", "-"];
    let mut predict = std::process::Command::new(env!("CARGO_BIN_EXE_paceline"));
    let predict = predict.args(arguments).current_dir(folder.path()).stdout(std::process::Stdio::piped());
    let mut predict = predict.stderr(std::process::Stdio::piped()).spawn().expect("it starts");
    drop(predict.stdout.take());
    let said = predict.wait_with_output().expect("it ends");
    assert!(said.status.success() && said.stderr.is_empty(), "{}", String::from_utf8_lossy(&said.stderr));
}

#[test]
fn what_is_predicted_stands_beside_what_was_wanted() {
    let folder = tempfile::tempdir().expect("a folder");
    garden(folder.path());
    let settings = [
        "--set",
        "data.train=csv:garden.csv?label=width&drop=garden,kind",
        "--set",
        "network.layers.1={ output = { units = \"auto\" } }",
        "--set",
        "data.target_normaliser=standardise",
    ];
    let train =
        [&["train", "garden.toml", "--output", "run", "--events", "none", "--set", "train.epochs=150"], &settings[..]];
    run(folder.path(), &train.concat()).done();
    let predict = [
        "predict",
        "run/model.safetensors",
        "--data",
        "csv:garden.csv",
        "--keep-columns",
        "--ids",
        "--output",
        "p.csv",
    ];
    run(folder.path(), &predict).done();
    let path = folder.path().join("p.csv");
    let numbers = |name| column(&path, name).iter().map(|cell| cell.parse().expect("a number")).collect::<Vec<f64>>();
    let off = numbers("width").into_iter().zip(numbers("prediction of width")).map(|(is, told)| (is - told).abs());
    assert!(off.sum::<f64>() / 90.0 < 0.1);
    assert_eq!(numbers("row")[..3], [1.0, 2.0, 3.0]);
    let of_classes = ["train", "garden.toml", "--set", "data.target_normaliser=standardise"];
    run(folder.path(), &of_classes).refused(2, &["data.target_normaliser", "task=regression"]);
}

#[test]
fn a_search_compares_like_with_like_and_says_when_it_has_found_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    garden(folder.path());
    let tune = ["tune", "garden.toml", "--events", "json", "--output", "tuned"];
    let with = |more: &[&str]| run(folder.path(), &[&tune[..], more].concat());
    // As many epochs as the trial says.
    let told = trials(&with(&["--method", "grid", "--vary", "train.epochs=1,2"]).done());
    let epochs: Vec<u64> = told.iter().map(|trial| trial["epochs"].as_u64().expect("epochs")).collect();
    assert_eq!(epochs.iter().sum::<u64>(), 6 + 1 + 2);
    // Whatever the seed, the test data is the same: 27 rows that the first trial was judged on.
    with(&["--overwrite", "--method", "grid", "--vary", "network.seed=1,2,3,4,5"]).done();
    // How many there are of each class: the sums of the rows of the confusion matrix.
    let judged = |trial: u64| {
        let path = folder.path().join(format!("tuned/trial-{trial}/confusion.svg"));
        let mut rows = std::collections::BTreeMap::<String, u64>::new();
        for line in fs::read_to_string(path).expect("a picture").lines() {
            let Some((place, rest)) = line.split_once("font-size=").filter(|(_, rest)| rest.contains("middle")) else {
                continue;
            };
            let number = rest.split(['>', '<']).nth(1).and_then(|number| number.parse::<u64>().ok()).expect("a count");
            *rows.entry(place.rsplit_once("y=").expect("a place").1.to_owned()).or_default() += number;
        }
        rows.into_values().collect::<Vec<u64>>()
    };
    assert_eq!((judged(1).len(), judged(1).iter().sum::<u64>()), (3, 27));
    assert!((2..=5).all(|trial| judged(trial) == judged(1)), "{:?}", (1..=5).map(judged).collect::<Vec<_>>());
    // What is drawn twice is trained once.
    let drawn = with(&["--overwrite", "--trials", "30", "--vary", "data.batch=8,16"]);
    assert_eq!(trials(&drawn.done()).len(), 3);
    with(&[
        "--overwrite",
        "--vary",
        "network.layers.0.dense.units=4",
        "--set",
        "train.epochs=2000000",
        "--seconds",
        "0.3",
    ])
    .refused(1, &["no trial has come to its end"]);
    with(&["--overwrite", "--metric", "r2"]).refused(2, &["tune.metric", "`accuracy`"]);
    with(&["--overwrite", "--vary", "network.nope=1,2"]).refused(2, &["the trial with `network.nope=1`"]);
    with(&["--overwrite", "--vary", "network.seed=1", "--vary", "network.seed=2"]).refused(2, &["twice"]);
    with(&["--overwrite", "--vary", "data.test_share=0.1,0.2"])
        .refused(2, &["cannot vary `data.test_share`", "the same test data"]);
    with(&["--overwrite", "--vary", "tune.trials=1,2"]).refused(2, &["`train`"]);
}

#[test]
fn a_job_comes_from_standard_input() {
    let folder = tempfile::tempdir().expect("a folder");
    garden(folder.path());
    let job = fs::read_to_string(folder.path().join("garden.toml")).expect("a job");
    let train = ["train", "-", "--epochs", "1", "--events", "none"];
    crate::paceline::run_with_input(folder.path(), &train, &job).done();
    assert!(folder.path().join("runs/job/model.safetensors").exists());
    let broken = job.replace("epochs = 6", "epochs = 0");
    crate::paceline::run_with_input(folder.path(), &["train", "-"], &broken)
        .refused(2, &["standard input, line 11: `train.epochs`: expected at least 1, found 0"]);
}
