//! Looking closer at a model and at runs: thresholds, calibration, importance, files of images, several ends, a page for a run.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::paceline::run;

/// Two hundred rows: the first column says the class in nine of ten rows, the date says nothing, and there are two labels.
fn shop(folder: &Path) {
    let mut table = String::from("spent,visited,noise,returns,colour\n");
    for row in 0..200u32 {
        let returns = if (row % 10 == 3) ^ (row % 2 == 0) { "yes" } else { "no" };
        let (day, colour) = (1 + row * 7 % 28, ["red", "green", "blue"][(row / 2 % 3) as usize]);
        let noise = f64::from(row * 37 % 101) / 101.0;
        writeln!(table, "{},2024-02-{day:02},{noise:.3},{returns},{colour}", row % 2 * 10 + row / 2 % 3).expect("text");
    }
    fs::write(folder.join("shop.csv"), table).expect("written");
}

fn job(folder: &Path, name: &str, label: &str, ends: &str) {
    let text = format!(
        r#"
        [data]
        train      = "csv:shop.csv?label={label}"
        test_share = 0.25
        batch      = 16
        [network]
        seed    = 2
        input   = "auto"
        updater = {{ adam = {{ learning_rate = 0.02 }} }}
        layers  = [{{ dense = {{ units = 16, activation = "relu", name = "body" }} }}, {ends}]
        [train]
        epochs = 20
    "#
    );
    fs::write(folder.join(name), text).expect("written");
}

fn trained(folder: &Path) -> &'static str {
    shop(folder);
    job(folder, "shop.toml", "returns&drop=colour", r#"{ output = { units = "auto" } }"#);
    run(folder, &["train", "shop.toml", "--events", "none"]).done();
    "runs/shop/model.safetensors"
}

#[test]
fn a_threshold_decides_between_two_classes_in_evaluations_and_predictions() {
    let folder = tempfile::tempdir().expect("a folder");
    let model = trained(folder.path());
    let data = ["--data", "csv:shop.csv"];
    let evaluate = |more: &[&str]| run(folder.path(), &[&["evaluate", model], &data[..], more].concat());
    let json = |more: &[&str]| -> Value {
        serde_json::from_str(&evaluate(&[&["--json"], more].concat()).done().output).expect("JSON")
    };
    let usual = json(&[]);
    let recall = |told: &Value| told["report"]["classes"][1]["recall"].as_f64().expect("a recall");
    assert_eq!(recall(&json(&["--threshold", "0.01"])), 1.0);
    assert!(usual["pr_auc"].as_f64() > Some(0.8) && usual["calibration"]["error"].as_f64() < Some(0.2), "{usual}");
    let best = usual["best_threshold"]["threshold"].as_f64().expect("a threshold").to_string();
    let at_best = json(&["--threshold", &best]);
    let f1 = at_best["report"]["classes"][1]["f1"].as_f64().expect("an F1");
    assert!((f1 - usual["best_threshold"]["f1"].as_f64().expect("an F1")).abs() < 1e-9, "{at_best}");
    let told = evaluate(&["--calibration"]).done().output;
    for part in
        ["PR-AUC", "calibration error", "Brier score", "probability  confidence  accuracy  examples", "--threshold"]
    {
        assert!(told.contains(part), "{part}: {told}");
    }
    let predicted = |more: &[&str]| {
        let output = ["--output", "-"];
        let said = run(folder.path(), &[&["predict", model], &data[..], &output, more].concat()).done().output;
        said.lines().filter(|line| line.starts_with("yes,")).count()
    };
    assert_eq!((predicted(&["--threshold", "0.01"]), predicted(&["--threshold", "0.999999"])), (200, 0));
    assert!((1..200).contains(&predicted(&[])));
    evaluate(&["--threshold", "1.5"]).refused(2, &["between 0 and 1"]);
    run(folder.path(), &["train", "--epochs", "1", "--output", "digits", "--events", "none"]).done();
    let of_ten = ["evaluate", "digits/model.safetensors", "--data", "digits:test", "--threshold", "0.3"];
    run(folder.path(), &of_ten).refused(2, &["`--threshold 0.3` is for models that tell two classes apart"]);
}

#[test]
fn importance_names_the_columns_that_a_model_needs() {
    let folder = tempfile::tempdir().expect("a folder");
    let model = trained(folder.path());
    let evaluate = ["evaluate", model, "--data", "csv:shop.csv", "--importance"];
    let told = run(folder.path(), &evaluate).done().output;
    let table = told.split("Importance: how much accuracy").nth(1).expect("a table");
    let columns: Vec<&str> = table.lines().skip(2).filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!((columns.first(), columns.len()), (Some(&"spent"), 3), "{table}");
    let json = run(folder.path(), &[&evaluate[..], &["--json"]].concat()).done().output;
    let json: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json["importance"]["columns"][0]["column"], "spent");
    assert!(json["importance"]["columns"][0]["mean"].as_f64() > Some(0.2), "{json}");
    run(folder.path(), &["train", "--epochs", "1", "--output", "digits", "--events", "none"]).done();
    let of_pixels = ["evaluate", "digits/model.safetensors", "--data", "digits:test", "--importance"];
    run(folder.path(), &of_pixels).refused(2, &["`--importance` is for data whose columns have names"]);
}

#[test]
fn texts_of_two_labels_are_learned_by_two_ends_and_predicted_by_name() {
    let folder = tempfile::tempdir().expect("a folder");
    shop(folder.path());
    let ends = r#"{ output = { units = "auto", name = "returns", after = "body" } }, { output = { units = "auto", name = "colour", after = "body" } }"#;
    job(folder.path(), "two.toml", "returns,colour", ends);
    let told = run(folder.path(), &["train", "two.toml"]).done();
    assert!(told.output.contains("output `colour`") && told.output.contains("green"), "{}", told.output);
    let predict = ["predict", "runs/two/model.safetensors", "--data", "csv:shop.csv", "--output", "-"];
    let predicted = run(folder.path(), &predict).done().output;
    let mut lines = predicted.lines();
    let header =
        "prediction of returns,prediction of colour,returns.no,returns.yes,colour.blue,colour.green,colour.red";
    assert_eq!(lines.next(), Some(header));
    let first: Vec<&str> = lines.next().expect("a row").split(',').collect();
    assert!(["no", "yes"].contains(&first[0]) && ["red", "green", "blue"].contains(&first[1]), "{first:?}");
    let numbers: Vec<f64> = first[2..].iter().map(|cell| cell.parse().expect("a number")).collect();
    let highest = (0..3).reduce(|best, at| if numbers[2 + at] > numbers[2 + best] { at } else { best }).expect("three");
    assert_eq!(first[1], ["blue", "green", "red"][highest]);
}

#[test]
fn a_stated_sigmoid_among_several_ends_tells_two_classes_apart() {
    let folder = tempfile::tempdir().expect("a folder");
    shop(folder.path());
    let ends = r#"{ output = { units = 1, activation = "sigmoid", name = "returns", after = "body" } }, { output = { units = "auto", name = "colour", after = "body" } }"#;
    job(folder.path(), "pair.toml", "returns,colour", ends);
    let told = run(folder.path(), &["train", "pair.toml"]).done().output;
    let own = told.split("output `colour`").next().expect("the first end");
    assert!(own.contains("accuracy") && own.contains("AUC") && !own.contains("RMSE"), "{told}");
    // Beside an end for a number, too, whose target is as wide.
    let ends = r#"{ output = { units = 1, activation = "sigmoid", name = "returns", after = "body" } }, { output = { units = 1, activation = "identity", name = "noise", after = "body" } }"#;
    job(folder.path(), "mixed.toml", "returns,noise", ends);
    let told = run(folder.path(), &["train", "mixed.toml"]).done().output;
    let (own, other) = told.split_once("output `noise`").expect("two ends");
    assert!(own.contains("accuracy") && !own.contains("RMSE") && other.contains("RMSE"), "{told}");
}

#[test]
fn texts_among_labels_of_one_end_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    shop(folder.path());
    job(folder.path(), "one.toml", "returns,colour", r#"{ output = { units = "auto", after = "body" } }"#);
    run(folder.path(), &["train", "one.toml"])
        .refused(1, &["the label `returns`, whose texts are classes", "give each label an end of its own"]);
}

#[test]
fn a_model_to_begin_with_finds_its_columns_by_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = |header: &str, row: &dyn Fn(usize) -> String| {
        format!("{header}\n{}", (0..60).map(|at| row(at) + "\n").collect::<String>())
    };
    let (a, b, y) = (|at: usize| at % 7, |at: usize| 1000 + at * 13 % 50, |at: usize| ["no", "yes"][at % 7 / 4]);
    fs::write(folder.path().join("ab.csv"), text("a,b,y", &|at| format!("{},{},{}", a(at), b(at), y(at))))
        .expect("written");
    fs::write(folder.path().join("ba.csv"), text("b,a,y", &|at| format!("{},{},{}", b(at), a(at), y(at))))
        .expect("written");
    let text = r#"
        [data]
        train = "csv:ab.csv?label=y"
        test = "csv:ab.csv?label=y"
        batch = 10
        [network]
        input  = "auto"
        layers = [{ dense = { units = 5, activation = "tanh", name = "body" } }, { output = { units = "auto", name = "end" } }]
        [train]
        epochs = 3
    "#;
    fs::write(folder.path().join("ab.toml"), text).expect("written");
    run(folder.path(), &["train", "ab.toml", "--events", "none"]).done();
    let loss = |name: &str, data: &str| {
        let model = format!("runs/{name}/model.safetensors");
        let told = run(folder.path(), &["evaluate", &model, "--data", data, "--json"]).done();
        let told: serde_json::Value = serde_json::from_str(&told.output).expect("JSON");
        told["score"].as_f64().expect("a loss")
    };
    let swapped = ["--set", "data.train=\"csv:ba.csv?label=y\"", "--events", "none", "--overwrite"];
    let tuned =
        ["train", "ab.toml", "--from", "runs/ab/model.safetensors", "--learning-rate", "0", "--output", "runs/ba"];
    run(folder.path(), &[&tuned[..], &swapped].concat()).done();
    assert_eq!(loss("ba", "csv:ba.csv"), loss("ab", "csv:ab.csv"));
    // Weights that are transferred by the names of layers are of places, too.
    let transferred = text.to_owned() + "\n[transfer]\nfrom = \"runs/ab/model.safetensors\"\n";
    fs::write(folder.path().join("transfer.toml"), transferred).expect("written");
    let taken = ["train", "transfer.toml", "--output", "runs/taken"];
    run(folder.path(), &[&taken[..], &swapped].concat())
        .refused(1, &["feature 1 to be `b`, as in the training data", "found `a`"]);
    run(folder.path(), &[&taken[..], &swapped, &["--set", "transfer.fresh=[\"body\"]"]].concat()).done();
    run(folder.path(), &[&taken[..], &["--overwrite"]].concat()).done();
    let classes = ["--set", "data.train=\"csv:ab.csv?label=y&classes=yes,no\"", "--events", "none", "--overwrite"];
    run(folder.path(), &[&taken[..], &classes].concat())
        .refused(1, &["the classes `yes`, `no`, in this order", "`no`, `yes`"]);
    // The file that weights are taken from is read, and so is not removed.
    let own = ["train", "transfer.toml", "--output", "runs/ab", "--overwrite"];
    run(folder.path(), &own).refused(1, &["is read by this run"]);
}

#[test]
fn predictions_of_sequences_begin_with_their_ids() {
    let folder = tempfile::tempdir().expect("a folder");
    let row = |at: usize| format!("p{},{},{},{}\n", at % 10, at / 10, at % 3, at % 2);
    let rows: String = (0..40).map(row).collect();
    fs::write(folder.path().join("s.csv"), format!("patient,step,x,kind\n{rows}")).expect("written");
    let text = r#"
        [data]
        train = "sequences:s.csv?id=patient&order=step&label=kind&task=classes"
        batch = 4
        [network]
        input  = "auto"
        layers = [{ lstm = { units = 2 } }, "last_time_step", { output = { units = "auto" } }]
        [train]
        epochs = 1
    "#;
    fs::write(folder.path().join("s.toml"), text).expect("written");
    run(folder.path(), &["train", "s.toml", "--events", "none"]).done();
    let predict = ["predict", "runs/s/model.safetensors", "--data", "sequences:s.csv", "--output", "-"];
    let predicted = run(folder.path(), &predict).done().output;
    let first: Vec<&str> = predicted.lines().map(|line| line.split(',').next().expect("a cell")).collect();
    assert_eq!(first, ["patient", "p0", "p1", "p2", "p3", "p4", "p5", "p6", "p7", "p8", "p9"], "{predicted}");
}

#[test]
fn images_are_predicted_with_the_names_of_their_files() {
    let folder = tempfile::tempdir().expect("a folder");
    for (class, level) in [("dark", 20u8), ("light", 230)] {
        fs::create_dir_all(folder.path().join("shots").join(class)).expect("a folder");
        for at in 0..8u8 {
            let pixels = vec![level.wrapping_add(at); 16];
            let path = folder.path().join(format!("shots/{class}/{at}.png"));
            image::save_buffer(path, &pixels, 4, 4, image::ColorType::L8).expect("an image");
        }
    }
    let text = r#"
        [data]
        train = "images:shots?channels=1"
        batch = 8
        [network]
        input  = "auto"
        layers = [{ output = { units = "auto" } }]
        [train]
        epochs = 2
    "#;
    fs::write(folder.path().join("shots.toml"), text).expect("written");
    run(folder.path(), &["train", "shots.toml", "--events", "none"]).done();
    let predict = ["predict", "runs/shots/model.safetensors", "--data", "images:shots", "--output", "-"];
    let predicted = run(folder.path(), &predict).done().output;
    let names: Vec<&str> = predicted.lines().map(|line| line.split(',').next().expect("a cell")).collect();
    assert_eq!((names[0], names[1], names.len()), ("file", "dark/0.png", 17), "{predicted}");
    assert!(names.contains(&"light/7.png"));
}

#[test]
fn a_run_becomes_one_page_that_needs_nothing_else() {
    let folder = tempfile::tempdir().expect("a folder");
    trained(folder.path());
    run(folder.path(), &["runs", "runs/shop", "--html", "shop.html"]).done();
    let page = fs::read_to_string(folder.path().join("shop.html")).expect("a page");
    for part in [
        "<h1>shop</h1>",
        "<h2>Curves</h2>",
        "<h2>Confusion</h2>",
        "<h2>Epochs</h2>",
        "<h2>Settings</h2>",
        "days since 1970",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(
        !page.contains("<script") && !page.contains("src=\"http") && page.matches("data:image/svg").count() == 2,
        "{page}"
    );
    // Its own page is replaced, another file is not.
    run(folder.path(), &["runs", "runs/shop", "--html", "shop.html"]).done();
    fs::write(folder.path().join("mine.html"), "<!doctype html>mine").expect("written");
    run(folder.path(), &["runs", "runs/shop", "--html", "mine.html"])
        .refused(2, &["`--html mine.html`", "--overwrite"]);
    run(folder.path(), &["runs", "--html", "one", "--svg", "one"]).refused(2, &["name the same file"]);
    run(folder.path(), &["runs", "--svg", "runs/shop/curves.svg"]).refused(2, &["is a file of a run"]);
    let some =
        ["predict", "runs/shop/model.safetensors", "--data", "csv:shop.csv?examples=3", "--output", "-", "--ids"];
    run(folder.path(), &some).refused(2, &["`--ids` counts the rows of the whole data"]);
    run(folder.path(), &["runs", "--sort", "acurracy"]).refused(2, &["did you mean `accuracy`?"]);
}
