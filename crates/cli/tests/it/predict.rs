//! A table from training to prediction: classes and columns keep their names all the way.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use serde_json::Value;
use tempfile::TempDir;

use crate::paceline::run;

/// Three kinds of flowers that petals and colour tell apart; every third number is a little off, by no chance at all.
fn flowers(rows: usize, with_label: bool) -> String {
    let kinds = [("alba", 1.0, "white"), ("rubra", 3.0, "red"), ("sylvestris", 5.0, "white")];
    let mut table = String::from(if with_label { "petal,colour,width,kind\n" } else { "petal,colour,width\n" });
    for row in 0..rows {
        let (kind, petal, colour) = kinds[row % 3];
        let off = (row * 7 % 11) as f64 / 20.0;
        let label = if with_label { format!(",{kind}") } else { String::new() };
        writeln!(table, "{:.2},{colour},{:.2}{label}", petal + off, 2.0 - off).expect("a string takes everything");
    }
    table
}

/// A folder with flowers and the model `run/model.safetensors` of them.
fn trained() -> TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::write(folder.path().join("flowers.csv"), flowers(240, true)).expect("written");
    let job = r#"
        [data]
        train      = "csv:flowers.csv?label=kind"
        test_share = 0.25
        batch      = 16
        [network]
        seed    = 4
        input   = { feed_forward = 4 }
        updater = { adam = { learning_rate = 0.02 } }
        layers  = [
            { dense = { name = "hidden", units = 12, activation = "tanh" } },
            { output = { units = 3, activation = "softmax" } },
        ]
        [train]
        epochs = 20
    "#;
    fs::write(folder.path().join("flowers.toml"), job).expect("written");
    run(folder.path(), &["train", "flowers.toml", "--output", "run", "--events", "none"]).done();
    folder
}

/// The rows of a CSV file without quotes.
fn table(path: &Path) -> Vec<Vec<String>> {
    let text = fs::read_to_string(path).expect("a file");
    text.lines().map(|line| line.split(',').map(str::to_owned).collect()).collect()
}

const MODEL: &str = "run/model.safetensors";

#[test]
fn flowers_are_judged_by_name() {
    let folder = trained();
    let said = run(folder.path(), &["evaluate", MODEL, "--data", "csv:flowers.csv?label=kind", "--json"]).done();
    let judged: Value = serde_json::from_str(&said.output).expect("JSON");
    assert!(judged["score"].as_f64().is_some_and(|score| score < 0.2), "{judged}");
    assert!(judged["report"]["accuracy"].as_f64().is_some_and(|accuracy| accuracy > 0.98), "{judged}");
    let said = run(folder.path(), &["evaluate", MODEL, "--data", "csv:flowers.csv?label=kind"]).done();
    for name in ["alba", "rubra", "sylvestris", "accuracy", "precision", "recall"] {
        assert!(said.output.contains(name), "`{name}` is not in {}", said.output);
    }
}

#[test]
fn predictions_carry_the_names_of_the_classes() {
    let folder = trained();
    // Neither a label column nor the order of the columns of the training file is needed.
    let shuffled: String = flowers(9, false)
        .lines()
        .map(|line| {
            let cells: Vec<&str> = line.split(',').collect();
            format!("{},{},{}\n", cells[2], cells[1], cells[0])
        })
        .collect();
    fs::write(folder.path().join("new.csv"), flowers(9, false)).expect("written");
    fs::write(folder.path().join("shuffled.csv"), shuffled).expect("written");
    let predict = |data: &str, output: &str| {
        let said = run(folder.path(), &["predict", MODEL, "--data", data, "--output", output, "--batch", "4"]).done();
        assert!(said.errors.contains("wrote"), "{}", said.errors);
        assert_eq!(said.output, "");
        table(&folder.path().join(output))
    };
    let rows = predict("csv:new.csv", "out.csv");
    let header = ["prediction", "probability of alba", "probability of rubra", "probability of sylvestris"];
    assert_eq!(rows[0], header);
    let names: Vec<&str> = rows[1..].iter().map(|row| row[0].as_str()).collect();
    assert_eq!(names, ["alba", "rubra", "sylvestris"].repeat(3));
    for row in &rows[1..] {
        let sum: f64 = row[1..].iter().map(|cell| cell.parse::<f64>().expect("a probability")).sum();
        assert!((sum - 1.0).abs() < 1e-5, "{row:?}");
    }
    assert_eq!(predict("csv:shuffled.csv", "shuffled-out.csv"), rows, "columns go by name");
    // With its label, the label has no say.
    fs::write(folder.path().join("labelled.csv"), flowers(9, true).replace("alba", "unheard of")).expect("written");
    assert_eq!(predict("csv:labelled.csv?label=kind", "labelled-out.csv"), rows);
}

#[test]
fn predictions_go_to_standard_output_beside_the_columns_that_are_kept() {
    let folder = trained();
    // A row without a value is left out of what is predicted, and has its row all the same.
    let table_of = |rows: &str| rows.replace("1.35,red", ",red");
    fs::write(folder.path().join("new.csv"), table_of(&flowers(9, true))).expect("written");
    let data = "csv:new.csv?missing=drop";
    let said =
        run(folder.path(), &["predict", MODEL, "--data", data, "--output", "-", "--keep-columns=kind,colour", "--ids"]);
    let said = said.done();
    let rows: Vec<Vec<&str>> = said.output.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(rows[0][..4], ["row", "kind", "colour", "prediction"]);
    assert_eq!(rows.len(), 10, "{}", said.output);
    for (at, row) in rows[1..].iter().enumerate() {
        assert_eq!((row[0], row.len()), ((at + 1).to_string().as_str(), 7));
        assert!(row[1] == row[3] || row[3].is_empty(), "{row:?}");
    }
    let all = run(folder.path(), &["predict", MODEL, "--data", data, "--output", "-", "--keep-columns"]).done();
    assert!(all.output.starts_with("petal,colour,width,kind,prediction,"), "{}", all.output);
    let refused = |more: &[&str], status, parts: &[&str]| {
        let usual = ["predict", MODEL, "--data", "csv:new.csv?missing=drop", "--output", "out.csv"];
        run(folder.path(), &[&usual, more].concat()).refused(status, parts);
        assert!(!folder.path().join("out.csv").exists());
    };
    refused(&["--keep-columns=knid"], 1, &["`knid`", "did you mean `kind`?"]);
    refused(&["--keep-columns=kind,kind"], 2, &["two columns `kind`"]);
    let text = ["predict", MODEL, "--data", data, "--output", "out.txt"];
    run(folder.path(), &text).refused(2, &["`.csv` or `.parquet`, or `-`"]);
    let digits = ["predict", MODEL, "--data", "digits:test", "--output", "-", "--keep-columns"];
    run(folder.path(), &digits).refused(2, &["whole tables", "`digits:test`"]);
}

#[test]
fn packed_tables_and_standard_input_are_read_as_tables_are() {
    let folder = trained();
    let text = flowers(240, true);
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    std::io::Write::write_all(&mut packed, text.as_bytes()).expect("memory takes everything");
    fs::write(folder.path().join("packed.csv.gz"), packed.finish().expect("memory takes everything")).expect("written");
    let scores = |data: &str| run(folder.path(), &["evaluate", MODEL, "--data", data, "--json"]).done().output;
    let plain = scores("csv:flowers.csv?label=kind");
    assert_eq!(scores("csv:packed.csv.gz?label=kind"), plain);
    let piped = crate::paceline::run_with_input(
        folder.path(),
        &["evaluate", MODEL, "--data", "csv:-?label=kind", "--json"],
        &text,
    );
    assert_eq!(piped.done().output, plain);
    // Columns are kept from what was piped in as well.
    let keep = ["predict", MODEL, "--data", "csv:-", "--output", "-", "--keep-columns=petal"];
    let said = crate::paceline::run_with_input(folder.path(), &keep, &text).done();
    assert!(said.output.starts_with("petal,prediction,") && said.output.lines().count() == 241, "{}", said.output);
    // What is trained from there is the same, too.
    let train = |source: &str| {
        let setting = format!("data.train={source}?label=kind");
        let arguments =
            ["train", "flowers.toml", "--set", &setting, "--overwrite", "--output", "piped", "--events", "none"];
        let run = crate::paceline::run_with_input(folder.path(), &arguments, &text);
        run.done();
        paceline_train::SavedModel::load(&folder.path().join("piped/model.safetensors")).expect("a model").file.state
    };
    assert_eq!(train("csv:-"), train("csv:flowers.csv"));
    fs::write(folder.path().join("cut.csv.gz"), &fs::read(folder.path().join("packed.csv.gz")).expect("bytes")[..99])
        .expect("written");
    run(folder.path(), &["evaluate", MODEL, "--data", "csv:cut.csv.gz?label=kind"])
        .refused(1, &["unpack", "`cut.csv.gz`"]);
}

#[cfg(feature = "shards")]
#[test]
fn predictions_as_parquet_are_those_of_the_table() {
    let folder = trained();
    let usual = ["predict", MODEL, "--data", "csv:flowers.csv", "--keep-columns=kind", "--output"];
    run(folder.path(), &[&usual[..], &["out.parquet"]].concat()).done();
    run(folder.path(), &[&usual[..], &["out.csv"]].concat()).done();
    let inspected = |source: &str| run(folder.path(), &["data", "inspect", source]).done().output;
    assert!(inspected("parquet:out.parquet?label=kind&drop=prediction").contains("240"));
    let columns = "columns=probability of alba,probability of rubra";
    let numbers = |source: &str| {
        let source = paceline_data::open(
            &source.replace("out.", &format!("{}/out.", folder.path().display())),
            &Default::default(),
        );
        let (source, mut batch) = (source.expect("a table"), paceline_model::Batch::empty());
        source.read(&(0..240).collect::<Vec<u64>>(), &mut batch).expect("rows");
        batch.features
    };
    let (parquet, csv) =
        (format!("parquet:out.parquet?label=kind&{columns}"), format!("csv:out.csv?label=kind&{columns}"));
    assert_eq!(numbers(&parquet), numbers(&csv));
}

#[test]
fn categories_that_are_new_are_nothing_where_that_is_said() {
    let folder = trained();
    fs::write(folder.path().join("blue.csv"), "petal,colour,width\n1,blue,2\n").expect("written");
    let predict = |data: &str| run(folder.path(), &["predict", MODEL, "--data", data, "--output", "-"]);
    predict("csv:blue.csv").refused(1, &["`blue` is none of the 2 names", "unknown=ignore"]);
    assert_eq!(predict("csv:blue.csv?unknown=ignore").done().output.lines().count(), 2);
}

#[test]
fn any_number_of_workers_gives_the_same_bytes_in_the_same_order() {
    let folder = trained();
    fs::write(folder.path().join("long.csv"), flowers(1000, true)).expect("written");
    let evaluate = |workers: &[&str]| {
        let data = ["evaluate", MODEL, "--data", "csv:long.csv?label=kind", "--json", "--batch", "7"];
        run(folder.path(), &[&data, workers].concat()).done().output
    };
    let predict = |workers: &[&str]| {
        let data = ["predict", MODEL, "--data", "csv:long.csv", "--output", "out.csv", "--batch", "7"];
        run(folder.path(), &[&data, workers].concat()).done();
        fs::read_to_string(folder.path().join("out.csv")).expect("a file")
    };
    let one = ["--workers", "1"];
    let (scores, rows) = (evaluate(&one), predict(&one));
    let names: Vec<&str> = rows.lines().skip(1).map(|row| row.split(',').next().expect("a name")).collect();
    assert_eq!(names, ["alba", "rubra", "sylvestris"].into_iter().cycle().take(1000).collect::<Vec<_>>());
    for workers in [&["--workers", "3"][..], &[]] {
        assert_eq!(evaluate(workers), scores, "{workers:?}");
        assert!(predict(workers) == rows, "{workers:?}");
    }
}

#[cfg(unix)]
#[test]
fn others_may_read_what_was_predicted_and_exported() {
    use std::os::unix::fs::PermissionsExt;

    let folder = trained();
    fs::write(folder.path().join("plain"), "").expect("written");
    run(folder.path(), &["predict", MODEL, "--data", "csv:flowers.csv", "--output", "out.csv"]).done();
    run(folder.path(), &["data", "export", "digits:", "."]).done();
    let mode = |name: &str| fs::metadata(folder.path().join(name)).expect("a file").permissions().mode();
    // As any other file that this user makes.
    for name in ["out.csv", "features.idx", "labels.idx", MODEL] {
        assert_eq!(mode(name), mode("plain"), "{name}");
    }
}

#[test]
fn a_model_shows_its_layers_and_classes() {
    let folder = trained();
    let said = run(folder.path(), &["model", "show", MODEL]).done();
    // 4 · 12 + 12 and 12 · 3 + 3 parameters; 180 flowers are 12 steps of 16.
    for part in
        ["dense (hidden)", "60", "output", "39", "99", "classes: alba, rubra, sylvestris", "240 steps, 20 epochs"]
    {
        assert!(said.output.contains(part), "`{part}` is not in {}", said.output);
    }
}

#[test]
fn a_number_is_predicted_under_the_name_of_its_column() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut rows = String::from("x,y,price\n");
    (0..200).for_each(|row| {
        let (x, y) = (f64::from(row % 20) / 10.0, f64::from(row / 20) / 10.0);
        writeln!(rows, "{x},{y},{}", 3.0 * x - 2.0 * y + 0.5).expect("a string takes everything");
    });
    fs::write(folder.path().join("prices.csv"), rows).expect("written");
    let job = r#"
        [data]
        train = "csv:prices.csv?label=price"
        test  = "csv:prices.csv?label=price"
        batch = 20
        [network]
        input   = { feed_forward = 2 }
        updater = { adam = { learning_rate = 0.05 } }
        layers  = [{ output = { units = 1, loss = "mse" } }]
        [train]
        epochs = 40
    "#;
    fs::write(folder.path().join("prices.toml"), job).expect("written");
    let said = run(folder.path(), &["train", "prices.toml", "--output", "run", "--events", "json"]).done();
    let finished = said.events().pop().expect("events");
    assert!(finished.get("accuracy").is_none(), "numbers have no accuracy: {finished}");
    assert!(finished["score"].as_f64().is_some_and(|score| score < 0.01), "{finished}");
    let said = run(folder.path(), &["evaluate", MODEL, "--data", "csv:prices.csv?label=price", "--json"]).done();
    assert!(said.output.contains("\"r2\""), "{}", said.output);
    fs::write(folder.path().join("new.csv"), "y,x\n0.5,1.5\n").expect("written");
    run(folder.path(), &["predict", MODEL, "--data", "csv:new.csv", "--output", "out.csv"]).done();
    let rows = table(&folder.path().join("out.csv"));
    assert_eq!(rows[0], ["price"]);
    let price: f64 = rows[1][0].parse().expect("a number");
    assert!((price - 4.0).abs() < 0.2, "{price}");
}

#[test]
fn data_that_does_not_fit_the_model_is_refused_and_nothing_is_written() {
    let folder = trained();
    let refused = |data: &str, parts: &[&str]| {
        run(folder.path(), &["predict", MODEL, "--data", data, "--output", "out.csv"]).refused(1, parts);
        let left: Vec<String> = crate::paceline::tree(folder.path()).into_keys().collect();
        assert!(!left.iter().any(|name| name == "out.csv" || name.ends_with(".part")), "{left:?}");
    };
    refused("digits:test", &["64 features", "the network expects 4"]);
    fs::write(folder.path().join("narrow.csv"), "petal,colour\n1,white\n").expect("written");
    refused("csv:narrow.csv", &["`narrow.csv` has no column `width`", "petal"]);
    // The first batch is fine; what was written of it must go.
    fs::write(folder.path().join("late.csv"), flowers(600, false) + "1,blue,2\n").expect("written");
    refused("csv:late.csv", &["`late.csv` line 602, column `colour`: `blue` is none of the 2 names"]);
    run(folder.path(), &["evaluate", MODEL, "--data", "digits:test"]).refused(1, &["64", "expects 4"]);
    run(folder.path(), &["evaluate", MODEL, "--data", "csv:narrow.csv"]).refused(1, &["`narrow.csv`"]);
}

#[test]
fn an_evaluation_without_targets_says_what_is_missing() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::write(folder.path().join("t.csv"), "a,b\n1,2\n3,4\n").expect("written");
    let job = "[data]\ntrain = \"csv:t.csv\"\n[network]\ninput = { feed_forward = 2 }\nlayers = [{ output = { units = 1 } }]\n";
    fs::write(folder.path().join("job.toml"), job).expect("written");
    run(folder.path(), &["train", "job.toml"]).refused(1, &["no targets", "label"]);
}

#[test]
fn who_lets_others_help_does_not_wait_for_them_and_finds_the_same() {
    let folder = trained();
    let data = ["--data", "csv:flowers.csv?label=kind", "--batch", "4"];
    let helped = ["--listen", "127.0.0.1:0"];
    let evaluate = [&["evaluate", MODEL, "--json"], &data[..]].concat();
    let alone = run(folder.path(), &evaluate).done();
    let led = run(folder.path(), &[&evaluate[..], &helped].concat()).done();
    assert_eq!(led.output, alone.output);
    assert!(led.errors.contains("another machine helps with: paceline evaluate --join 127.0.0.1:"), "{}", led.errors);
    let predict = [&["predict", MODEL, "--output", "alone.csv"], &data[..]].concat();
    run(folder.path(), &predict).done();
    let predict = [&["predict", MODEL, "--output", "led.csv"], &data[..], &helped].concat();
    run(folder.path(), &predict).done();
    assert_eq!(table(&folder.path().join("led.csv")), table(&folder.path().join("alone.csv")));
}

#[test]
fn whoever_cannot_help_is_told_why() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    run(folder.path(), &["evaluate", "--join", "somewhere"]).refused(2, &["`HOST:PORT` or a join string"]);
    run(folder.path(), &["evaluate", "--join", "paceline://127.0.0.1:1?token=x"])
        .refused(2, &["the token has 1 characters"]);
    let alone = ["evaluate", "m.safetensors", "--data", "digits:test", "--data-root", "."];
    run(folder.path(), &alone).refused(2, &["--data-root", "expected `--join`"]);
    let nobody = run(folder.path(), &["predict", "--join", "127.0.0.1:9", "--patience", "0"]);
    nobody.refused(1, &["127.0.0.1:9", "look at the address"]);
    let with_data = run(folder.path(), &["evaluate", "--join", "127.0.0.1:9", "--data", "digits:test"]);
    with_data.refused(2, &["cannot be used with"]);
    run(folder.path(), &["evaluate", "--data", "digits:test"]).refused(2, &["MODEL"]);
    let mut master = crate::masters::master(folder.path(), &[]);
    let address = crate::masters::address(&mut master);
    run(folder.path(), &["evaluate", "--join", &address]).refused(1, &["it trains a network", "paceline worker"]);
}
