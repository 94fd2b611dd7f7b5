//! Models that earlier versions wrote are read, and say what they said.

use std::path::Path;

use paceline_data::{OpenOptions, open};
use paceline_train::SavedModel;

#[test]
fn a_list_of_layers_says_what_it_said() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let mut model = SavedModel::load(&fixtures.join("list-of-layers.safetensors")).expect("a model");
    assert_eq!(model.file.progress.epoch, 3);
    let test = open("digits:test", &OpenOptions::default()).expect("data that is built in");
    let mut found = Vec::new();
    model
        .predict::<paceline_train::Error>(test, 64, |_, outputs| {
            found.extend_from_slice(outputs);
            Ok(())
        })
        .expect("outputs");
    let said = std::fs::read_to_string(fixtures.join("list-of-layers.csv")).expect("a fixture");
    let said: Vec<f32> =
        said.lines().skip(1).flat_map(|line| line.split(',').map(|n| n.parse().expect("a number"))).collect();
    assert_eq!(said.len(), 20 * 10);
    for (at, (found, said)) in found.iter().zip(&said).enumerate() {
        // Other instructions round otherwise.
        assert!((found - said).abs() < 1e-5, "example {}, output {}: {found}, not {said}", at / 10, at % 10);
    }
}
