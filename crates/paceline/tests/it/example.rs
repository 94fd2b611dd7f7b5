use std::path::PathBuf;
use std::process::Command;

/// Cargo builds the examples of a package along with its tests, beside the folder of the test binaries.
fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a running test has a file");
    let folder = test.parent().and_then(|deps| deps.parent()).expect("target/PROFILE/deps");
    folder.join("examples").join(format!("{name}{}", std::env::consts::EXE_SUFFIX))
}

#[test]
fn the_lenet_example_trains_and_writes_its_model() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let output = Command::new(example("lenet")).arg("1").current_dir(&folder).output().expect("the example runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    let accuracy: f64 = text
        .lines()
        .find_map(|line| line.strip_prefix("epoch 1: accuracy "))
        .and_then(|rest| rest.parse().ok())
        .unwrap_or_else(|| panic!("no accuracy in\n{text}"));
    assert!(accuracy > 0.96, "accuracy {accuracy}");
    assert!(text.contains("Confusion matrix"), "{text}");
    paceline::prelude::ModelFile::load(&folder.path().join("lenet.safetensors")).expect("a whole model file");
}

#[test]
fn own_parts_train_on_two_workers_and_on_a_master_with_two() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let output = Command::new(example("own_parts")).arg("run").current_dir(&folder).output().expect("the example runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    let scores: Vec<f64> = ["two workers: ", "a master with two: "]
        .iter()
        .map(|who| {
            let line =
                text.lines().find(|line| line.starts_with(who)).unwrap_or_else(|| panic!("no `{who}` in\n{text}"));
            line.rsplit(' ').next().and_then(|score| score.parse().ok()).unwrap_or_else(|| panic!("no score in {line}"))
        })
        .collect();
    assert!(scores.iter().all(|score| *score < 0.001), "it has learned: {text}");
    // The same steps in another order of sums.
    assert!((scores[0] - scores[1]).abs() < 2e-5, "{text}");
    assert!(folder.path().join("run/curves.svg").exists(), "a master leaves its curves, too");
}
