//! Held-out examples have no say in a model: other values in them change not one bit of it, whatever is fitted to data.

use std::fmt::Write;
use std::path::Path;

use paceline_data::{OpenOptions, Source, open};
use paceline_model::Batch;
use paceline_nn::ModelFile;
use paceline_train::{IfFound, Job, Stop};

/// Rows of the table.
const ROWS: u64 = 80;

/// A table with missing numbers, categories, large numbers and a label. Rows that are disturbed hold other numbers, categories and gaps.
fn table(kind: &str, disturbed: &[u64]) -> String {
    let mut text = String::new();
    if kind != "jsonl" {
        text += if kind == "sequences" { "id,when,size,colour,label\n" } else { "when,size,colour,label\n" };
    }
    for row in 0..ROWS {
        let is_disturbed = disturbed.contains(&row);
        let when = 1_700_000_000 + row * if is_disturbed { 1_000_003 } else { 61 };
        let size = match row % 5 {
            0 => String::new(),
            _ => ((row * 7 % 11) * if is_disturbed { 900 } else { 1 }).to_string(),
        };
        let colour = if is_disturbed { "rare" } else { ["red", "blue", "green"][row as usize % 3] };
        // Every class is among the rows that are learned from, in other shares.
        let label = if is_disturbed { 1 } else { u64::from(row % 4 == 0) };
        let amount = 1_000.0 + row as f64 * if is_disturbed { 1e4 } else { 3.0 };
        match kind {
            "csv" => writeln!(text, "{when},{size},{colour},{label}"),
            "numbers" => writeln!(text, "{when},{size},{colour},{amount}"),
            "sequences" => writeln!(text, "s{row},{when},{size},{colour},{label}"),
            _ => {
                let size = if size.is_empty() { "null".to_owned() } else { size };
                writeln!(text, r#"{{"when": {when}, "size": {size}, "colour": "{colour}", "label": {label}}}"#)
            }
        }
        .expect("text");
    }
    text
}

/// A job over it, with everything that is fitted to data.
fn job(kind: &str) -> Job {
    let (spec, more) = match kind {
        "csv" => ("csv:t?label=label&missing=mean", "class_weights = \"balanced\""),
        "jsonl" => ("jsonl:t?label=label&missing=mean", "class_weights = \"balanced\""),
        "sequences" => ("sequences:t?id=id&label=label&missing=mean", ""),
        _ => ("csv:t?label=label&missing=mean&task=regression", "target_normaliser = \"standardise\""),
    };
    let ends = if kind == "numbers" { r#"activation = "identity", loss = "mse""# } else { r#"activation = "softmax""# };
    let hidden = if kind == "sequences" {
        r#"{ lstm = { units = 4 } }, { last_time_step = {} }"#
    } else {
        r#"{ dense = { units = 4, activation = "tanh" } }"#
    };
    let text = format!(
        r#"
        [data]
        train = "{spec}"
        test_share = 0.25
        batch = 16
        normaliser = "standardise"
        {more}
        [network]
        seed = 5
        input = "auto"
        updater = "adam"
        layers = [{hidden}, {{ output = {{ units = "auto", {ends} }} }}]
        [train]
        epochs = 2
        "#
    );
    Job::from_text(&text, false, "leak", "the test's job", &[]).expect("a job")
}

/// The examples that a source gives, by their places in the file.
fn places(source: &dyn Source) -> Vec<u64> {
    let mut batch = Batch::empty();
    source.read(&(0..source.examples() as u64).collect::<Vec<_>>(), &mut batch).expect("read");
    batch.indices
}

fn options(folder: &Path) -> OpenOptions {
    OpenOptions { root: Some(folder.to_owned()), ..OpenOptions::default() }
}

/// All bits that are kept of a model but the description of the data.
fn bits(file: &ModelFile) -> String {
    let numbers: Vec<u32> = file.state.parameters.iter().map(|value| value.to_bits()).collect();
    let config = serde_json::to_string(file.network.config()).expect("a description");
    format!("{numbers:?} {:?} {config}", file.extra)
}

#[test]
fn other_test_rows_change_not_one_bit_of_a_model() {
    for kind in ["csv", "jsonl", "sequences", "numbers"] {
        let folder = tempfile::tempdir().expect("a folder");
        let trained = |disturbed: &[u64], limit: Option<usize>| {
            std::fs::write(folder.path().join("t"), table(kind, disturbed)).expect("written");
            let open = OpenOptions { memory_limit: limit.unwrap_or(1 << 20), ..options(folder.path()) };
            let trainer =
                job(kind).trainer(None, IfFound::Refuse, &open).unwrap_or_else(|error| panic!("{kind}: {error}"));
            bits(&trainer.run(&mut |_| {}).expect("a run").model)
        };
        std::fs::write(folder.path().join("t"), table(kind, &[])).expect("written");
        let job = job(kind);
        let source = open(&job.data.train, &options(folder.path())).expect("a source");
        let held_out = places(&*job.division(source).expect("a division").split(0.75).expect("parts").1);
        assert_eq!(held_out.len(), 20, "{kind}");
        let own = trained(&[], None);
        assert!(own == trained(&held_out, None), "{kind}: the test rows have changed the model");
        assert!(
            own != trained(&[held_out[0] ^ 1], None),
            "{kind}: rows that are learned from change it, or this test shows nothing"
        );
        // Read block by block, as large tables are.
        assert!(kind == "sequences" || own == trained(&held_out, Some(64)), "{kind}: in blocks");
    }
}

#[test]
fn other_rows_of_a_fold_change_not_one_bit_of_its_model() {
    for kind in ["csv", "sequences", "numbers"] {
        let folder = tempfile::tempdir().expect("a folder");
        let models = |disturbed: &[u64]| {
            std::fs::write(folder.path().join("t"), table(kind, disturbed)).expect("written");
            let mut job = job(kind);
            job.data.test_share = None;
            let output = folder.path().join(format!("folds-{}", disturbed.len()));
            let found = (Some(output.as_path()), IfFound::Overwrite);
            let open = options(folder.path());
            job.cross_validate(3, found, &open, &Stop::default(), &mut |_, _| {})
                .expect("folds")
                .expect("it was not stopped");
            let model =
                |fold: usize| ModelFile::load(&output.join(format!("fold-{fold}/model.safetensors"))).expect("a model");
            [1, 2, 3].map(|fold| bits(&model(fold)))
        };
        std::fs::write(folder.path().join("t"), table(kind, &[])).expect("written");
        let source = open(&job(kind).data.train, &options(folder.path())).expect("a source");
        let division = job(kind).division(source).expect("a division");
        let (_, second) = division.folds(3).expect("folds").nth(1).expect("a fold").expect("parts");
        let (own, other) = (models(&[]), models(&places(&*second)));
        assert!(own[1] == other[1], "{kind}: its own rows have changed the model of the second fold");
        assert!(own[0] != other[0] && own[2] != other[2], "{kind}: the other folds have learned from them");
    }
}

#[test]
fn a_seed_of_its_own_keeps_the_split_of_a_job() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("t"), table("csv", &[])).expect("written");
    let held_out = |seed: u64, split_seed: Option<u64>| {
        let mut job = job("csv");
        (job.data.split_seed, job.options.seed) = (split_seed, seed);
        let source = open(&job.data.train, &options(folder.path())).expect("a source");
        places(&*job.division(source).expect("a division").split(0.75).expect("parts").1)
    };
    assert_eq!(held_out(1, Some(9)), held_out(2, Some(9)));
    assert_eq!(held_out(9, None), held_out(2, Some(9)));
    assert_ne!(held_out(1, None), held_out(2, None));
}
