//! The commands in the guide for those who come from DL4J, run one after the other in one folder.

use std::path::Path;

use crate::paceline::run;

/// What the guide's commands read instead of MNIST: images of noise.
const IMAGES: &str = "idx:images.idx,labels.idx";

const FLOWERS: &str =
    "sepal_length,sepal_width,petal_length,petal_width,species\n5.1,3.5,1.4,0.2,setosa\n7.0,3.2,4.7,1.4,versicolor\n";

fn write_images(folder: &Path) {
    let (examples, side) = (64u32, 28u32);
    let mut images = [0x0803, examples, side, side].map(u32::to_be_bytes).concat();
    images.extend((0..examples * side * side).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8));
    let mut labels = [0x0801, examples].map(u32::to_be_bytes).concat();
    labels.extend((0..examples).map(|n| (n % 10) as u8));
    std::fs::write(folder.join("images.idx"), images).expect("a temporary file");
    std::fs::write(folder.join("labels.idx"), labels).expect("a temporary file");
}

/// Commands between backticks and commands in blocks, in the order of the guide.
fn commands(guide: &str) -> Vec<&str> {
    let in_blocks = |line: &&str| line.starts_with("paceline ");
    let mut found: Vec<&str> = Vec::new();
    for line in guide.lines() {
        found.extend(Some(line).filter(in_blocks));
        found.extend(line.split('`').skip(1).step_by(2).filter(in_blocks));
    }
    found
}

#[test]
fn every_command_of_the_guide_for_those_who_come_from_dl4j_does_what_it_says() {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/coming-from-dl4j.md");
    let guide = std::fs::read_to_string(guide).expect("the guide");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let job = guide.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a job");
    let job = job.replace("mnist:train", IMAGES).replace("mnist:test", IMAGES);
    std::fs::write(folder.path().join("lenet.toml"), job).expect("a temporary file");
    std::fs::write(folder.path().join("flowers.csv"), FLOWERS).expect("a temporary file");
    write_images(folder.path());
    let mut done = 0;
    for command in commands(&guide) {
        if command == "paceline data fetch mnist" {
            // Needs a network; the tests of `fetch` have a server of their own.
            continue;
        }
        let command = command.replace("mnist:test", IMAGES);
        let mut arguments: Vec<&str> = command.split(' ').skip(1).collect();
        if arguments[0] == "train" && !arguments.contains(&"--resume") {
            // The guide has many ways to begin the same run.
            arguments.push("--overwrite");
        }
        let said = run(folder.path(), &arguments);
        assert_eq!(said.status, Some(0), "`{command}`: {said:#?}");
        done += 1;
    }
    assert!(done >= 18, "only {done} commands were found");
    for written in ["said.csv", "answers.csv", "runs/five/model.safetensors", "exported"] {
        assert!(folder.path().join(written).exists(), "no `{written}`");
    }
}
