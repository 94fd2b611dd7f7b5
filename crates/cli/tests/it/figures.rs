//! Figures that say what they are of: the epoch that was kept, runs that failed, targets far from 0, settings that give way.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::paceline::{named, run};

/// Three hundred rows of two classes that chance decides in part: a large network learns the rows by heart, and its test loss rises.
fn noisy(folder: &Path) {
    let mut table = String::from("a,b,kind\n");
    let mut state = 1u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        f64::from(state >> 8) / f64::from(1 << 24)
    };
    for _ in 0..300 {
        let (a, b, noise) = (next(), next(), next());
        let kind = if a + 0.9 * noise > 0.95 { "yes" } else { "no" };
        writeln!(table, "{a},{b},{kind}").expect("text");
    }
    fs::write(folder.join("noisy.csv"), table).expect("written");
    let job = r#"
        [data]
        train      = "csv:noisy.csv?label=kind"
        test_share = 0.4
        batch      = 8
        [network]
        input   = "auto"
        updater = { adam = { learning_rate = 0.05 } }
        layers  = [{ dense = { units = 60, activation = "relu" } }, { output = { units = "auto" } }]
        [train]
        epochs = 30
        early_stopping = { patience = 6 }
    "#;
    fs::write(folder.join("noisy.toml"), job).expect("written");
}

#[test]
fn the_epoch_that_early_stopping_keeps_is_named_everywhere() {
    let folder = tempfile::tempdir().expect("a folder");
    noisy(folder.path());
    let events = run(folder.path(), &["train", "noisy.toml", "--events", "json"]).done().events();
    let finished = events.last().expect("events");
    let evaluations = named(&events, "evaluation");
    let score = |evaluation: &&&Value| evaluation["score"].as_f64().expect("a score");
    let best = evaluations.iter().min_by(|a, b| score(a).total_cmp(&score(b))).expect("evaluations");
    let (kept, all) = (&finished["kept"], evaluations.len() as u64);
    assert!(best["epoch"].as_u64() < Some(all), "the best is not the last, or this test shows nothing");
    assert_eq!((&kept["epoch"], &kept["metric"], &kept["value"]), (&best["epoch"], &"score".into(), &best["score"]));
    let listed = run(folder.path(), &["runs", "--json"]).done().output;
    let listed: Value = serde_json::from_str(&listed).expect("JSON");
    assert_eq!((&listed[0]["kept_epoch"], &listed[0]["epochs"]), (&best["epoch"], &all.into()));
    let figures = &listed[0]["figures"];
    assert_eq!((&figures["accuracy"], &figures["score"]), (&best["accuracy"], &best["score"]));
    let table = run(folder.path(), &["runs"]).done().output;
    assert!(table.contains(&format!("{} of {all}", best["epoch"])), "{table}");
    // The picture is that of the model, too.
    let drawn = fs::read_to_string(folder.path().join("runs/noisy/confusion.svg")).expect("a picture");
    let right = 100.0 * best["accuracy"].as_f64().expect("an accuracy");
    assert!(drawn.contains(&format!("{right:.2} % are right")), "{right}: {drawn}");
    let shown = run(folder.path(), &["model", "show", "runs/noisy/model.safetensors"]).done().output;
    assert!(shown.contains(&format!("kept as the best of its run: epoch {} (test loss", best["epoch"])), "{shown}");
    assert!(shown.contains("loss: cross_entropy") && shown.contains("normaliser: standardise, mean"), "{shown}");
    let told = run(folder.path(), &["train", "noisy.toml", "--overwrite"]).done().errors;
    assert!(told.contains(&format!("kept epoch {} (test loss", best["epoch"])), "{told}");
}

#[test]
fn a_run_that_failed_is_listed_with_its_reason() {
    let folder = tempfile::tempdir().expect("a folder");
    noisy(folder.path());
    let quick = ["train", "noisy.toml", "--output", "runs/n", "--set", "train.epochs=1"];
    let broken = ["--overwrite", "--set", "network.updater={ sgd = { learning_rate = 1e30 } }"];
    // At once, and over a run that has a model.
    for before in [None, Some(())] {
        if before.is_some() {
            run(folder.path(), &[&quick[..], &["--overwrite"]].concat()).done();
        }
        assert_eq!(run(folder.path(), &[&quick[..], &broken].concat()).status, Some(1));
        let listed: Value = serde_json::from_str(&run(folder.path(), &["runs", "--json"]).done().output).expect("JSON");
        assert_eq!((&listed[0]["state"], &listed[0]["ended"]), (&"failed".into(), &false.into()));
        let table = run(folder.path(), &["runs"]).done().output;
        assert!(table.contains("the largest parameter is 2.") && table.contains("e29,"), "{table}");
        let row = table.lines().nth(1).expect("a row");
        assert!(table.contains("n failed: the loss became") && !row.contains("NaN"), "{table}");
    }
    run(folder.path(), &["runs", "nowhere"]).refused(2, &["no runs yet", "`nowhere`"]);
}

#[test]
fn runs_are_sorted_and_more_than_two_are_compared() {
    let folder = tempfile::tempdir().expect("a folder");
    noisy(folder.path());
    for (name, units) in [("a", "2"), ("b", "8"), ("c", "60")] {
        let (output, units) = (format!("runs/{name}"), format!("network.layers.0.dense.units={units}"));
        let quick = ["train", "noisy.toml", "--set", "train.epochs=2", "--set", &units, "--output", &output];
        run(folder.path(), &quick).done();
    }
    let names = |key: &str| -> Vec<String> {
        let listed = run(folder.path(), &["runs", "--json", "--sort", key]).done().output;
        let listed: Vec<Value> = serde_json::from_str(&listed).expect("JSON");
        let scores: Vec<f64> = listed.iter().map(|run| run["figures"]["score"].as_f64().expect("a score")).collect();
        assert!(key != "score" || scores.is_sorted(), "{scores:?}");
        listed.iter().map(|run| run["name"].as_str().expect("a name").to_owned()).collect()
    };
    assert_eq!(names("name"), ["a", "b", "c"]);
    assert_eq!(names("score").len(), 3);
    run(folder.path(), &["runs", "--sort", "colour"]).refused(2, &["`--sort colour`", "`accuracy`"]);
    let compared = run(folder.path(), &["runs", "runs/a", "runs/b", "runs/c"]).done().output;
    assert!(compared.contains("network.layers.0.dense.units"), "{compared}");
}

#[test]
fn targets_far_from_zero_are_learned_and_predicted_in_their_units() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut table = String::from("x,y\n");
    let target = |row: i64| 1_700_000_000_000 + (row * 37 % 200) * 1000;
    for row in 0..200 {
        writeln!(table, "{},{}", row * 37 % 200, target(row)).expect("text");
    }
    fs::write(folder.path().join("t.csv"), table).expect("written");
    let job = r#"
        [data]
        train = "csv:t.csv?label=y"
        test  = "csv:t.csv?label=y"
        batch = 20
        [network]
        input   = "auto"
        updater = { adam = { learning_rate = 0.02 } }
        layers  = [{ output = { units = "auto" } }]
        [train]
        epochs = 60
    "#;
    fs::write(folder.path().join("t.toml"), job).expect("written");
    let said = run(folder.path(), &["train", "t.toml", "--events", "json"]).done();
    let events = said.events();
    let notes = named(&events, "note");
    assert!(notes[0]["message"].as_str().expect("text").contains("targets are standardised"));
    let evaluation = named(&events, "evaluation").pop().expect("an evaluation").clone();
    let (mse, r2) = (evaluation["mse"].as_f64().expect("a number"), evaluation["r2"].as_f64().expect("a number"));
    assert!(r2 > 0.99, "{evaluation}");
    let predict = ["predict", "runs/t/model.safetensors", "--data", "csv:t.csv", "--output", "p.csv"];
    run(folder.path(), &predict).done();
    let text = fs::read_to_string(folder.path().join("p.csv")).expect("predictions");
    let predicted: Vec<f64> = text.lines().skip(1).map(|line| line.parse().expect("a number")).collect();
    let off = predicted.iter().zip(0..).map(|(found, row)| (found - target(row) as f64).powi(2));
    let by_hand = off.sum::<f64>() / 200.0;
    assert!((mse - by_hand).abs() < 1e-3 * by_hand, "{mse} against {by_hand}, in the units of the data");
    run(folder.path(), &["train", "t.toml", "--cv", "2", "--output", "cv", "--events", "none"]).done();
    let text = fs::read_to_string(folder.path().join("cv/out-of-fold.csv")).expect("predictions");
    let second: Vec<&str> = text.lines().nth(1).expect("a row").split(',').collect();
    assert_eq!((second[0], second[2].parse::<f64>()), ("1", Ok(target(0) as f64)));
    assert!((second[3].parse::<f64>().expect("a number") - target(0) as f64).abs() < 1e5);
    // A loss that is not of differences cannot do without the offset.
    let other = ["train", "t.toml", "--overwrite", "--set", "network.layers.0.output.loss=\"mape\""];
    run(folder.path(), &other).refused(2, &["far from 0"]);
}

#[test]
fn a_setting_that_displaces_another_key_says_so() {
    let folder = tempfile::tempdir().expect("a folder");
    noisy(folder.path());
    let quick = ["train", "noisy.toml", "--dry-run", "--set"];
    for (setting, note) in [
        ("data.test=csv:noisy.csv?label=kind", "`data.test_share = 0.4` of the job gives way to `data.test="),
        ("data.global_batch=16", "`data.batch = 8` of the job gives way to `data.global_batch=16`"),
    ] {
        let said = run(folder.path(), &[&quick[..], &[setting]].concat()).done();
        assert!(said.errors.contains(note), "{}", said.errors);
    }
    let shared = ["train", "noisy.toml", "--dry-run", "--set", "train.mode=averaging", "--mode", "sync"];
    let said = run(folder.path(), &shared).done();
    assert!(
        said.errors.contains("`train.mode = \"averaging\"` of the job gives way to `train.mode=sync`"),
        "{}",
        said.errors
    );
}

#[test]
fn a_shape_that_cannot_be_names_the_line_of_its_layer() {
    let folder = tempfile::tempdir().expect("a folder");
    let job = "[data]\ntrain = \"digits:train\"\n[network]\ninput = { image = [8, 8, 1] }\nlayers = [\n  { dense = { units = 4 } },\n  { conv2d = { filters = 2, kernel = [3, 3] } },\n  { output = { units = 10 } },\n]\n";
    fs::write(folder.path().join("job.toml"), job).expect("written");
    run(folder.path(), &["train", "job.toml"]).refused(2, &["`job.toml`, line 7: layer 1 (conv2d)"]);
}

#[test]
fn sequences_are_inspected_by_column_and_text_has_an_output_for_each_character() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("s.csv"), "id,x,y,kind\np,1,10,a\nq,2,20,b\np,3,30,a\nq,4,40,b\np,5,60,a\n")
        .expect("written");
    let shown = run(folder.path(), &["data", "inspect", "sequences:s.csv?id=id&label=kind"]).done().output;
    assert!(shown.contains("\nx ") && shown.contains("\ny ") && !shown.contains("NaN"), "{shown}");
    assert!(shown.contains("32.0000"), "the mean of the five steps of `y`: {shown}");
    fs::write(folder.path().join("t.txt"), "abcabcabdabcabc".repeat(10)).expect("written");
    let job = r#"
        [data]
        train = "text:t.txt?steps=20"
        [network]
        input  = { sequence = [20, 1] }
        layers = [{ one_hot = { count = 4 } }, { lstm = { units = 3 } }, { output = { units = "auto" } }]
    "#;
    fs::write(folder.path().join("t.toml"), job).expect("written");
    let shown = run(folder.path(), &["train", "t.toml", "--dry-run"]).done().output;
    assert!(shown.contains("20 steps of 4"), "an output for each of four characters: {shown}");
}
