//! Data, job files and command lines that are wrong: what is said, with which status, and that nothing is written.

use std::fs;
use std::io::Write;
use std::path::Path;

use tempfile::TempDir;

use crate::paceline::{run, tree};

/// A network of two inputs and two classes.
const NETWORK: &str = r#"
[network]
input  = { feed_forward = 2 }
layers = [
  { dense = { units = 3, activation = "relu" } },
  { output = { units = 2, activation = "softmax" } },
]
"#;

/// A folder with the job `job.toml` that learns from `train`.
fn folder(train: &str) -> TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let job = format!("[data]\ntrain = \"{train}\"\nbatch = 2\n{NETWORK}");
    fs::write(folder.path().join("job.toml"), job).expect("written");
    folder
}

/// Runs a command that must fail with this status, say all this and leave the folder as it was.
#[track_caller]
fn refuses(folder: &Path, arguments: &[&str], status: i32, parts: &[&str]) {
    let before = tree(folder);
    let said = run(folder, arguments);
    said.refused(status, parts);
    assert_eq!(said.output, "", "nothing was asked for on standard output");
    assert!(before == tree(folder), "something was written: {:?}", tree(folder).keys());
}

fn write(folder: &TempDir, name: &str, content: impl AsRef<[u8]>) {
    fs::write(folder.path().join(name), content).expect("written");
}

/// An IDX file: bytes of these dimensions.
fn idx(dimensions: &[u32], data: &[u8]) -> Vec<u8> {
    let mut file = vec![0, 0, 8, dimensions.len() as u8];
    dimensions.iter().for_each(|dimension| file.extend(dimension.to_be_bytes()));
    file.extend(data);
    file
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).expect("a vector takes everything");
    encoder.finish().expect("a vector takes everything")
}

/// Bytes that do not compress, so that half a file is half of them.
fn noise(count: u32) -> Vec<u8> {
    (0..count).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

#[test]
fn a_good_job_in_the_same_folder_runs() {
    // Without this, every test here could pass because of something else that is wrong.
    let folder = folder("idx:images,labels");
    write(&folder, "images", idx(&[4, 2], &[0, 9, 1, 8, 9, 0, 8, 1]));
    write(&folder, "labels", idx(&[4], &[0, 0, 1, 1]));
    run(folder.path(), &["train", "job.toml"]).done();
    assert!(folder.path().join("runs/job/model.safetensors").exists());
}

#[test]
fn a_truncated_gzip_is_refused() {
    let folder = folder("idx:images.gz,labels");
    let whole = gzip(&idx(&[2000, 2], &noise(4000)));
    write(&folder, "images.gz", &whole[..whole.len() / 2]);
    write(&folder, "labels", idx(&[2000], &[0; 2000]));
    refuses(folder.path(), &["train", "job.toml"], 1, &["`images.gz` is not a whole gzip file", "again"]);
    refuses(folder.path(), &["data", "inspect", "idx:images.gz,labels"], 1, &["`images.gz` is not a whole gzip file"]);
    refuses(folder.path(), &["data", "export", "idx:images.gz,labels", "out"], 1, &["`images.gz`"]);
}

#[test]
fn an_idx_file_with_a_wrong_magic_is_refused() {
    let folder = folder("idx:images,labels");
    write(&folder, "images", b"P5 2 2 255 ....");
    write(&folder, "labels", idx(&[2], &[0, 1]));
    let parts = ["`images` is not an IDX file: expected two zero bytes", "found [50, 35, 20, 32]"];
    refuses(folder.path(), &["train", "job.toml"], 1, &parts);
}

#[test]
fn an_idx_file_with_a_lying_count_is_refused() {
    let folder = folder("idx:images,labels");
    write(&folder, "labels", idx(&[2], &[0, 1]));
    write(&folder, "images", idx(&[1_000_000_000, 2], &[1, 2, 3, 4]));
    refuses(folder.path(), &["train", "job.toml"], 1, &["`images` promises 2000000012 bytes", "but holds 16"]);
    write(&folder, "images", gzip(&idx(&[u32::MAX, u32::MAX], &[1, 2, 3, 4])));
    refuses(folder.path(), &["train", "job.toml"], 1, &["`images` promises 18446744065119617037 bytes", "compressed"]);
    write(&folder, "images", idx(&[3, 2], &[1, 2, 3, 4, 5, 6]));
    refuses(folder.path(), &["train", "job.toml"], 1, &["`images` holds 3 examples, but `labels` holds 2 labels"]);
}

#[test]
fn a_label_that_the_network_has_no_output_for_is_refused() {
    let folder = folder("idx:images,labels");
    write(&folder, "images", idx(&[2, 2], &[1, 2, 3, 4]));
    write(&folder, "labels", idx(&[2], &[0, 7]));
    let parts = ["the training data has 8 classes, but the network expects at most 2"];
    refuses(folder.path(), &["train", "job.toml"], 1, &parts);
    // The classes of the training data hold for the test data, and there the very example can be named.
    write(&folder, "good", idx(&[2], &[0, 1]));
    let arguments =
        ["train", "job.toml", "--set", "data.train=idx:images,good", "--set", "data.test=idx:images,labels"];
    refuses(folder.path(), &arguments, 1, &["example 1 of `labels` has label 7, but labels go from 0 to 1"]);
}

#[test]
fn a_table_with_a_ragged_row_is_refused() {
    let folder = folder("csv:t.csv?label=y");
    write(&folder, "t.csv", "a,b,y\n1,2,x\n1,2,z\n1,2\n1,2,x\n");
    refuses(folder.path(), &["train", "job.toml"], 1, &["`t.csv` line 4: expected 3 fields, found 2"]);
}

#[test]
fn a_table_with_text_in_a_number_column_is_refused() {
    let folder = folder("csv:t.csv?label=y");
    write(&folder, "t.csv", "a,b,y\n1,2,x\n1,2,z\n1,two,z\n1,2,x\n");
    let parts = ["`t.csv` line 4, column `b`: expected a finite number", "found `two`"];
    refuses(folder.path(), &["train", "job.toml"], 1, &parts);
}

#[test]
fn a_table_with_nan_or_infinity_is_refused() {
    let folder = folder("csv:t.csv?label=y");
    write(&folder, "t.csv", "a,b,y\n1,2,x\n1,NaN,z\n1,2,x\n");
    let parts = ["`t.csv` line 3, column `b`: the value is missing (found `NaN`)", "missing="];
    refuses(folder.path(), &["train", "job.toml"], 1, &parts);
    write(&folder, "t.csv", "a,b,y\n1,2,x\n1,3,z\ninf,2,x\n");
    refuses(folder.path(), &["train", "job.toml"], 1, &["`t.csv` line 4, column `a`", "finite", "found `inf`"]);
}

#[test]
fn a_kernel_larger_than_its_input_is_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let settings =
        ["train", "--set", "network.layers.0.conv2d.kernel=[9, 11]", "--set", "network.layers.0.conv2d.padding=valid"];
    let parts = ["layer 0 (conv2d) expects an image of at least 9×11", "kernel of 9×11", "got", "8×8×1"];
    refuses(folder.path(), &settings, 2, &parts);
}

#[test]
fn a_misspelt_key_is_refused_with_its_line_and_the_nearest_key() {
    let folder = folder("digits:train");
    let job = fs::read_to_string(folder.path().join("job.toml")).expect("readable");
    let cases = [
        ("batch = 2", "bach = 2", "`job.toml`, line 3: in `data`: unknown key `bach`; did you mean `batch`?"),
        ("[network]", "[netwrok]", "`job.toml`, line 5: unknown key `netwrok`; did you mean `network`?"),
        ("input ", "imput ", "`job.toml`, line 6: unknown key `imput`; did you mean `input`?"),
        ("units = 3", "unit = 3", "`job.toml`, line 8: layer 0 (dense): unknown key `unit`; did you mean `units`?"),
        ("\"relu\"", "\"rleu\"", "line 8: layer 0 (dense): `activation`: unknown name `rleu`; did you mean `relu`?"),
        ("{ output", "{ ouptut", "line 9: layer 1 (ouptut): there is no such kind of layer; did you mean `output`?"),
        ("batch = 2", "batch = 0", "`job.toml`, line 3: `data.batch`: expected at least 1, found 0"),
        (
            "batch = 2",
            "batch = \"two\"",
            "`job.toml`, line 3: `data.batch`: expected a whole number, 0 or more, found the text \"two\"",
        ),
    ];
    for (good, bad, expected) in cases {
        assert!(job.contains(good));
        write(&folder, "bad.toml", job.replace(good, bad));
        refuses(folder.path(), &["train", "bad.toml"], 2, &[&expected.replace("job.toml", "bad.toml")]);
    }
}

#[test]
fn broken_toml_and_broken_json_are_refused_with_their_line() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    write(&folder, "job.toml", "[data]\ntrain = \"digits:train\"\nbatch = = 2\n");
    refuses(folder.path(), &["train", "job.toml"], 2, &["`job.toml`, line 3: "]);
    write(&folder, "job.json", "{\n  \"data\": { \"train\": \"digits:train\" },\n  \"network\": ]\n}\n");
    refuses(folder.path(), &["train", "job.json"], 2, &["`job.json`, line 3: "]);
    write(&folder, "job.toml", [0xff, 0xfe]);
    refuses(folder.path(), &["train", "job.toml"], 2, &["`job.toml`: cannot be read"]);
}

#[test]
fn a_missing_job_file_is_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    refuses(folder.path(), &["train", "nowhere.toml"], 2, &["`nowhere.toml`: cannot be read (No such file"]);
}

#[test]
fn a_source_that_does_not_exist_is_refused() {
    let folder = folder("csv:nowhere.csv?label=y");
    refuses(folder.path(), &["train", "job.toml"], 1, &["cannot open `nowhere.csv`"]);
    let arguments = ["train", "job.toml", "--set", "data.train=mnits:train"];
    refuses(folder.path(), &arguments, 2, &["`mnits:train` does not name a source", "did you mean `mnist:train`?"]);
}

#[test]
fn a_bad_setting_is_refused_by_its_own_words() {
    let folder = folder("digits:train");
    let cases = [
        ("train.epoch=3", "`--set train.epoch=3`: in `train`: unknown key `epoch`; did you mean `epochs`?"),
        ("network.layers.0.dense.unit=3", "`--set network.layers.0.dense.unit=3`: layer 0 (dense): unknown key `unit`"),
        (
            "network.layers.2.dense.units=3",
            "`--set network.layers.2.dense.units=3`: `2` is not one of the indices 0 to 1",
        ),
        ("data.batch.size=3", "`--set data.batch.size=3`: `size` cannot be looked up in 2"),
        ("train.early_stopping={ metric = \"acc\" }", "did you mean `accuracy`?"),
        ("network.learning_rate=\"0.1\"", "expected a number or a schedule, found the text \"0.1\""),
        ("data.batch=0", "`--set data.batch=0`: `data.batch`: expected at least 1, found 0"),
        (
            "train.prefetch=100000000000",
            "`--set train.prefetch=100000000000`: `train.prefetch`: expected at most 65,536, found 100000000000",
        ),
        ("train.epochs", "`--set train.epochs`: expected `path=value`"),
        ("train.mode=averging", "`--set train.mode=averging`: `train.mode`: unknown name `averging`"),
    ];
    for (setting, expected) in cases {
        // A good setting before it is not to blame.
        let arguments = ["train", "job.toml", "--set", "train.epochs=1", "--set", setting];
        refuses(folder.path(), &arguments, 2, &[expected]);
    }
    write(
        &folder,
        "empty.toml",
        "[data]\ntrain = \"digits:train\"\n[network]\ninput = { feed_forward = 2 }\nlayers = []\n",
    );
    let arguments = ["train", "empty.toml", "--set", "network.layers.0.dense.units=3"];
    refuses(folder.path(), &arguments, 2, &["`0` cannot be looked up in an empty list"]);
}

#[test]
fn a_bad_mode_is_refused() {
    let folder = folder("digits:train");
    refuses(folder.path(), &["train", "job.toml", "--mode", "sollo"], 2, &["'sollo'", "--mode", "solo"]);
    let alone = ["train", "job.toml", "--workers", "2", "--mode", "solo"];
    refuses(folder.path(), &alone, 2, &["`train.workers`: expected 1 in mode `solo`, found 2"]);
}

#[test]
fn data_of_another_width_than_the_network_is_refused() {
    let folder = folder("digits:train");
    refuses(folder.path(), &["train", "job.toml"], 1, &["the training data has 64 features", "expects 2"]);
}

#[test]
fn an_unwritable_output_folder_is_refused() {
    // The tests may run as root, whom no permission stops; a file where a folder should be stops everybody.
    let folder = tempfile::tempdir().expect("a temporary folder");
    write(&folder, "file", "not a folder");
    let output = ["train", "--events", "none", "--output", "file/below"];
    refuses(folder.path(), &output, 1, &["cannot write to the output folder `file/below`", "`--output`"]);
    let export = ["data", "export", "digits:", "file/below"];
    refuses(folder.path(), &export, 1, &["`file/below`"]);
}

#[test]
fn a_network_larger_than_the_memory_is_refused() {
    let folder = folder("digits:");
    let setting = "network.layers.0.dense.units=300000000000";
    refuses(
        folder.path(),
        &["train", "job.toml", "--set", setting],
        2,
        &["parameters", "there is not that much memory"],
    );
}
