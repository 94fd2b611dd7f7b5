//! A network with two inputs and two ends, from a table to predictions, and its picture.

use std::fmt::Write;
use std::fs;

use serde_json::Value;

use crate::paceline::run;

/// The kind follows from the first two columns, the size from the last two.
fn cars(rows: usize) -> String {
    let mut table = String::from("weight,power,length,width,kind,size\n");
    for row in 0..rows {
        let (kind, noise) = (row % 3, (row * 7 % 11) as f64 / 20.0);
        let (length, width) = ((row * 5 % 7) as f64, (row * 3 % 5) as f64);
        let size = length + 2.0 * width;
        writeln!(table, "{:.2},{:.2},{length},{width},{kind},{size}", kind as f64 + noise, noise - kind as f64)
            .expect("a string takes everything");
    }
    table
}

const JOB: &str = r#"
    [data]
    train = "csv:cars.csv?label=kind,size"
    test  = "csv:cars.csv?label=kind,size"
    batch = 16
    [network]
    seed    = 4
    inputs  = [{ name = "engine", feed_forward = 2 }, { name = "body", feed_forward = 2 }]
    updater = { adam = { learning_rate = 0.02 } }
    layers  = [
        { dense = { name = "e", units = 12, activation = "tanh", after = "engine" } },
        { dense = { name = "b", units = 12, activation = "tanh", after = "body" } },
        { output = { name = "kind", units = 3, after = "e" } },
        { output = { name = "size", units = 1, after = ["e", "b"], loss_weight = 0.5 } },
    ]
    [train]
    epochs = 40
"#;

#[test]
fn a_table_is_learned_with_two_inputs_and_two_ends() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path();
    fs::write(path.join("cars.csv"), cars(210)).expect("written");
    fs::write(path.join("cars.toml"), JOB).expect("written");
    let said = run(path, &["train", "cars.toml", "--output", "run"]).done();
    let told = said.output + &said.errors;
    assert!(told.contains(", kind accuracy ") && told.contains(", size RMSE "), "{told}");
    let model = "run/model.safetensors";

    let data = "csv:cars.csv?label=kind,size";
    let scores = run(path, &["evaluate", model, "--data", data, "--json"]).done().output;
    let scores: Value = serde_json::from_str(&scores).expect("JSON");
    let accuracy = scores["outputs"]["kind"]["accuracy"].as_f64().expect("an accuracy");
    assert!(accuracy > 0.95, "{scores}");
    let text = run(path, &["evaluate", model, "--data", data]).done().output;
    assert!(text.contains("output `kind`") && text.contains("output `size`"), "{text}");

    run(path, &["predict", model, "--data", "csv:cars.csv?label=kind,size", "--output", "out.csv"]).done();
    let table = fs::read_to_string(path.join("out.csv")).expect("a file");
    assert_eq!(table.lines().next(), Some("kind.0,kind.1,kind.2,size"));
    let numbers: Vec<f64> =
        table.lines().nth(2).expect("a row").split(',').map(|n| n.parse().expect("a number")).collect();
    assert!((numbers[..3].iter().sum::<f64>() - 1.0).abs() < 1e-4 && numbers[1] > 0.5, "{numbers:?}");

    let shown = run(path, &["model", "show", model, "--svg", "cars.svg"]).done().output;
    assert!(shown.contains("e, b") && shown.contains("loss of kind") && shown.contains("loss of size"), "{shown}");
    let picture = fs::read_to_string(path.join("cars.svg")).expect("a picture");
    for name in ["input · engine", "dense · b", "output · kind", "output · size"] {
        assert!(picture.contains(name), "{name}");
    }
    assert_eq!(picture.matches("<path d=").count(), 1 + 5, "a tip, and an arrow for each that goes in");

    let other = ["train", "cars.toml", "--output", "other", "--set", "data.train=csv:cars.csv?label=kind&drop=size"];
    run(path, &other).refused(1, &["name their columns, as in `?label=a,b`"]);
}
