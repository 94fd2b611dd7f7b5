//! Model files that cannot be trusted: what is said, and that nothing is allocated or written for them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::paceline::{finish, run, tree};

/// A folder with a model of the digits that was trained for two steps.
fn trained() -> (TempDir, Vec<u8>) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let job = r#"
        [data]
        train = "digits:train"
        [network]
        input   = { image = [8, 8, 1] }
        updater = { adam = { learning_rate = 0.01 } }
        layers  = [
            { dense = { units = 8, activation = "relu" } },
            { batch_norm = {} },
            { output = { units = 10, activation = "softmax" } },
        ]
        [train]
        steps = 2
    "#;
    fs::write(folder.path().join("small.toml"), job).expect("written");
    run(folder.path(), &["train", "small.toml", "--output", "run"]).done();
    let model = fs::read(folder.path().join("run/model.safetensors")).expect("a model");
    (folder, model)
}

/// Looks at a model with little memory to spare: a file of a few kilobytes is no reason to ask for more.
#[track_caller]
fn refuses(folder: &Path, model: &[u8], parts: &[&str]) {
    fs::write(folder.join("bad.safetensors"), model).expect("written");
    let before = tree(folder);
    let mut command = Command::new("sh");
    let line = "ulimit -v 1000000 && exec \"$0\" model show bad.safetensors";
    command.current_dir(folder).args(["-c", line, env!("CARGO_BIN_EXE_paceline")]);
    let said = finish(&mut command);
    said.refused(1, parts);
    said.refused(1, &["`bad.safetensors`"]);
    assert_eq!(said.output, "");
    let arguments = ["predict", "bad.safetensors", "--data", "digits:test", "--output", "out.csv"];
    run(folder, &arguments).refused(1, &["`bad.safetensors`"]);
    run(folder, &["evaluate", "bad.safetensors", "--data", "digits:test"]).refused(1, &["`bad.safetensors`"]);
    assert!(before == tree(folder), "something was written: {:?}", tree(folder).keys());
}

/// The file with another header.
fn with_header(model: &[u8], change: impl FnOnce(&mut Value)) -> Vec<u8> {
    let length = u64::from_le_bytes(model[..8].try_into().expect("eight bytes")) as usize;
    let mut header: Value = serde_json::from_slice(&model[8..8 + length]).expect("a header");
    change(&mut header);
    let mut header = serde_json::to_vec(&header).expect("JSON");
    header.resize(header.len().next_multiple_of(8), b' ');
    [&(header.len() as u64).to_le_bytes()[..], &header, &model[8 + length..]].concat()
}

/// The file with another description of its network.
fn with_network(model: &[u8], change: impl FnOnce(&mut Value)) -> Vec<u8> {
    with_header(model, |header| {
        let text = &mut header["__metadata__"]["network"];
        let mut network: Value = serde_json::from_str(text.as_str().expect("a text")).expect("a network");
        change(&mut network);
        *text = Value::String(network.to_string());
    })
}

#[test]
fn the_model_itself_and_a_header_that_was_only_rewritten_are_good() {
    let (folder, model) = trained();
    fs::write(folder.path().join("again.safetensors"), with_network(&model, |_| {})).expect("written");
    let said = run(folder.path(), &["model", "show", "again.safetensors"]).done();
    assert!(said.output.contains("batch_norm"), "{}", said.output);
}

#[test]
fn a_model_file_cut_short_is_refused() {
    let (folder, model) = trained();
    let header = u64::from_le_bytes(model[..8].try_into().expect("eight bytes")) as usize;
    refuses(folder.path(), &[], &["is not a whole Paceline model", "found 0 bytes"]);
    refuses(folder.path(), &model[..5], &["is not a whole Paceline model", "found 5 bytes"]);
    refuses(folder.path(), &model[..header / 2], &["expected a header inside the file", "in a file of"]);
    let whole = model.len() - 8 - header;
    let parts = [format!("expected {whole} bytes of numbers, found {} bytes", whole - 1), "cut short".into()];
    refuses(folder.path(), &model[..model.len() - 1], &parts.each_ref().map(String::as_str));
    refuses(folder.path(), &[&model[..], &[0]].concat(), &["has grown"]);
}

#[test]
fn a_model_file_that_lies_about_its_header_is_refused() {
    let (folder, model) = trained();
    let with_length = |length: u64| [&length.to_le_bytes()[..], &model[8..]].concat();
    refuses(folder.path(), &with_length(u64::MAX), &["a header of 18446744073709551615 bytes in a file of"]);
    refuses(folder.path(), &with_length(model.len() as u64), &["expected a header inside the file"]);
    refuses(folder.path(), &with_length(10), &["expected a header of the safetensors format"]);
    let mut garbage = model.clone();
    garbage[8..40].fill(0xff);
    refuses(folder.path(), &garbage, &["expected a header of the safetensors format"]);
}

#[test]
fn a_model_file_that_lies_about_its_arrays_is_refused() {
    let (folder, model) = trained();
    let lie = |change: fn(&mut Value)| with_header(&model, change);
    let beyond = lie(|header| {
        let arrays = header.as_object_mut().expect("a table");
        let last = arrays.values_mut().max_by_key(|info| info["data_offsets"][1].as_u64()).expect("arrays");
        let start = last["data_offsets"][0].as_u64().expect("a number");
        *last = json!({ "dtype": "F32", "shape": [1u64 << 38], "data_offsets": [start, start + (1 << 40)] });
    });
    refuses(folder.path(), &beyond, &["bytes of numbers", "cut short"]);
    let shape = lie(|header| header["0.weight"]["shape"] = json!([8, 64]));
    refuses(folder.path(), &shape, &["expected `0.weight` of shape [64, 8], found F32 of shape [8, 64]"]);
    let huge = lie(|header| header["0.weight"]["shape"] = json!([u64::MAX, u64::MAX]));
    refuses(folder.path(), &huge, &["expected a header of the safetensors format"]);
    let kind = lie(|header| header["0.weight"]["dtype"] = json!("I32"));
    refuses(folder.path(), &kind, &["expected `0.weight` of shape [64, 8], found I32"]);
    let twice = lie(|header| header["0.weight"]["data_offsets"] = header["2.weight"]["data_offsets"].clone());
    refuses(folder.path(), &twice, &["expected a header of the safetensors format"]);
    let renamed = lie(|header| {
        let info = header.as_object_mut().expect("a table").remove("0.weight").expect("an array");
        header["0.weights"] = info;
    });
    refuses(folder.path(), &renamed, &["expected `0.weight` of shape [64, 8], found no such array"]);
}

#[test]
fn a_model_file_that_lies_about_its_network_is_refused() {
    let (folder, model) = trained();
    let units = |units: u64| with_network(&model, |network| network["layers"][0]["dense"]["units"] = json!(units));
    refuses(folder.path(), &units(9), &["expected `0.weight` of shape [64, 9], found F32 of shape [64, 8]"]);
    // Some gigabytes, more than there are bytes in the world, and more than can be counted.
    refuses(folder.path(), &units(1 << 30), &["82678120458 parameters", "not that much memory"]);
    refuses(folder.path(), &units(1 << 45), &["layer 0 (dense)", "more than"]);
    refuses(folder.path(), &units(u64::MAX), &["layer 0 (dense)", "more than"]);
    let kind = with_network(&model, |network| network["layers"][0] = json!({ "dence": {} }));
    refuses(folder.path(), &kind, &["layer 0 (dence): there is no such kind of layer"]);
    let empty = with_network(&model, |network| network["layers"] = json!([]));
    refuses(folder.path(), &empty, &["a network needs"]);
    let unreadable = with_header(&model, |header| header["__metadata__"]["network"] = json!("{"));
    refuses(folder.path(), &unreadable, &["is not a whole Paceline model"]);
}

#[test]
fn a_model_file_that_lies_in_its_other_texts_is_refused() {
    let (folder, model) = trained();
    let lie = |key: &'static str, text: &'static str| {
        with_header(&model, move |header| header["__metadata__"][key] = json!(text))
    };
    refuses(folder.path(), &lie("iteration", "-1"), &["expected a number as `iteration` in its metadata"]);
    refuses(folder.path(), &lie("format", "pt"), &["a file of another program"]);
    refuses(folder.path(), &lie("version", "99"), &["has format version 99, and this program reads up to 1"]);
    refuses(folder.path(), &lie("schema", "[]"), &["expected a readable `schema` in its metadata"]);
    refuses(folder.path(), &lie("normaliser", r#"{"image":{"scale":0}}"#), &["`normaliser`"]);
    let wide = r#"{"standardise":{"mean":[1,2,3],"deviation":[1,2,3]}}"#;
    refuses(folder.path(), &lie("normaliser", wide), &["`normaliser`", "64"]);
    let names = r#"{"columns":[],"target":{"classes":{"column":"","names":["a","b","c","d","e","f","g","h","i","j","k"]}},"weight":null,"missing":"error"}"#;
    refuses(folder.path(), &lie("schema", names), &["`schema`", "11 classes", "10 outputs"]);
}

#[test]
fn a_model_file_that_is_not_there_is_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = PathBuf::from("nowhere.safetensors");
    let said = run(folder.path(), &["model", "show", &path.display().to_string()]);
    said.refused(1, &["cannot read `nowhere.safetensors`", "No such file"]);
}
