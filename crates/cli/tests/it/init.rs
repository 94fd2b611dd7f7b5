//! From a table to predictions without an edit.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use crate::paceline::{run, tree};

/// Two hundred orders with all that real tables have: a key, empty cells, prices with signs, a constant column, categories.
fn orders(folder: &Path) {
    let mut table = String::from("order_id,age,price,city,shop,returned\n");
    for row in 0..200 {
        let age = if row % 9 == 0 { String::new() } else { (20 + row * 7 % 50).to_string() };
        let (city, returned) = (["Bern", "Rome", ""][row % 3], if row * 7 % 50 > 25 { "yes" } else { "no" });
        writeln!(table, "{},{age},${},{city},main,{returned}", 1000 + row, row % 13).expect("text");
    }
    fs::write(folder.join("orders.csv"), table).expect("written");
}

#[test]
fn a_messy_table_becomes_a_job_that_trains_evaluates_and_predicts() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    orders(at);
    let said = run(at, &["init", "orders.csv"]).done();
    assert!(said.errors.contains("paceline train orders.toml"), "{}", said.errors);
    let job = fs::read_to_string(at.join("orders.toml")).expect("a job");
    for part in [
        "# 200 rows; `returned` is learned: 2 classes.",
        "# `order_id` is another number in every row, as keys are: left out.",
        "# `price` holds numbers such as `$0` that cannot be read as numbers: left out.",
        "# `shop` has one value only: left out.",
        "# A missing number becomes the mean of its column, a missing text none of the categories: `age` (23), `city` (66).",
        "stratified = true",
    ] {
        assert!(job.contains(part), "`{part}` is not in {job}");
    }
    run(at, &["train", "orders.toml"]).done();
    let judged = run(at, &["evaluate", "runs/orders/model.safetensors", "--data", "csv:orders.csv", "--json"]).done();
    let judged: serde_json::Value = serde_json::from_str(&judged.output).expect("JSON");
    assert!(judged["report"]["accuracy"].as_f64() > Some(0.8), "{judged}");
    run(at, &["predict", "runs/orders/model.safetensors", "--data", "csv:orders.csv", "--output", "p.csv"]).done();
    assert_eq!(fs::read_to_string(at.join("p.csv")).expect("predictions").lines().count(), 201);
    let before = tree(at);
    run(at, &["init", "orders.csv"]).refused(2, &["`orders.toml` is there already", "--overwrite"]);
    run(at, &["init", "orders.csv", "--label", "retruned"]).refused(2, &["--label retruned", "`returned`"]);
    run(at, &["init", "orders.csv", "--label", "shop", "--output", "x.toml"]).refused(2, &["`shop` has 1 value: name"]);
    run(at, &["init", "notes.txt"]).refused(2, &["expected a table"]);
    assert!(tree(at) == before);
    run(at, &["init", "orders.csv", "--label", "age", "--output", "age.toml"]).done();
    let job = fs::read_to_string(at.join("age.toml")).expect("a job");
    assert!(job.contains("task=regression") && job.contains("missing=drop"), "{job}");
    run(at, &["train", "age.toml", "--epochs", "2", "--batch", "16", "--learning-rate", "0.01", "--seed", "5"]).done();
    let shown = run(at, &["data", "inspect", "csv:orders.csv?label=returned&missing=mean"]).done().output;
    for part in ["age", "number", "23", "holds numbers such as `$0`", "has one value only"] {
        assert!(shown.contains(part), "`{part}` is not in {shown}");
    }
}

#[test]
fn names_with_commas_and_lists_of_json_become_jobs_that_train() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    let rows: String = (0..60).map(|row| format!("{row},7,{},{}\n", row % 5, ["x", "y"][row % 2])).collect();
    fs::write(at.join("t.csv"), format!("\"id,1\",\"c&d %\",z,\"the, label\"\n{rows}")).expect("written");
    run(at, &["init", "t.csv"]).done();
    run(at, &["train", "t.toml", "--epochs", "1"]).done();
    let line =
        |row: usize| format!("{{\"a\": {row}, \"p\": [{}, 5], \"label\": \"{}\"}}\n", row % 3, ["x", "y"][row % 2]);
    fs::write(at.join("l.jsonl"), (0..60).map(line).collect::<String>()).expect("written");
    run(at, &["init", "l.jsonl"]).done();
    run(at, &["train", "l.toml", "--epochs", "1"]).done();
}

#[test]
fn odd_names_in_a_header_become_jobs_that_train() {
    let folder = tempfile::tempdir().expect("a folder");
    let row = |row: usize| format!("{row},{},7,{}\n", row % 5, ["yes", "no"][row % 2]);
    let rows: String = (0..60).map(row).collect();
    std::fs::write(
        folder.path().join("odd.csv"),
        format!("\"income\n(EUR)\",a?b&c=1,\"same\n[train]\",churned?\n{rows}"),
    )
    .expect("written");
    run(folder.path(), &["init", "csv:odd.csv", "--label", "churned?"]).done();
    run(folder.path(), &["train", "odd.toml", "--epochs", "1", "--events", "none"]).done();
    std::fs::write(folder.path().join("semicolons.csv"), format!("a;label\n{}", "1.5;x\n2.5;y\n7;x\n".repeat(9)))
        .expect("written");
    run(folder.path(), &["init", "semicolons.csv", "--output", "s.toml"]).done();
    let job = std::fs::read_to_string(folder.path().join("s.toml")).expect("a job");
    assert!(job.contains("csv:semicolons.csv?delimiter=;&label=label"), "{job}");
    // Whole numbers far beyond 32 bits, and one number in two writings, are classes as any others.
    let row = |row: usize| format!("{},{}\n", row % 7, ["4015550000000", "1", "1.0"][row % 3]);
    std::fs::write(folder.path().join("large.csv"), format!("a,label\n{}", (0..60).map(row).collect::<String>()))
        .expect("written");
    run(folder.path(), &["init", "large.csv"]).done();
    let job = std::fs::read_to_string(folder.path().join("large.toml")).expect("a job");
    assert!(job.contains("2 classes") && job.contains("task=classes"), "{job}");
    run(folder.path(), &["train", "large.toml", "--epochs", "1", "--events", "none"]).done();
    std::fs::write(folder.path().join("two.csv"), "a,b,y\n1,2,x\n3,4,z\n").expect("written");
    run(folder.path(), &["init", "two.csv"]).done();
    run(folder.path(), &["train", "two.toml", "--events", "none"]).done();
    std::fs::write(folder.path().join("spaces.csv"), "a y\n1 x\n2 z\n").expect("written");
    run(folder.path(), &["init", "spaces.csv"]).refused(2, &["the table has one column, `a y`", "delimiter=;"]);
    std::fs::write(folder.path().join("header.csv"), "a,label\n").expect("written");
    run(folder.path(), &["init", "header.csv"]).refused(2, &["`header.csv` has no rows to learn from"]);
    std::fs::write(folder.path().join("empty.csv"), format!("a,label\n{}", "7,x\n7,y\n".repeat(9))).expect("written");
    run(folder.path(), &["init", "empty.csv"])
        .refused(2, &["no column is left that a network could learn from: `a` has one value only"]);
}
