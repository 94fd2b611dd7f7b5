//! `paceline data`: what a source holds, and the same for other tools.

use std::fs;
use std::process::Stdio;

use crate::paceline::{Said, command, run};

#[test]
fn inspect_tells_what_the_digits_are() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let said = run(folder.path(), &["data", "inspect", "digits:"]).done();
    assert!(said.output.starts_with("1797 examples of 8 × 8 × 1 features\n"), "{}", said.output);
    // The UCI set has 178 zeros and 174 eights.
    let count =
        |class: &str| said.output.lines().find(|line| line.starts_with(&format!("{class} "))).map(str::to_owned);
    assert!(count("0").is_some_and(|line| line.contains(" 178 ")), "{}", said.output);
    assert!(count("8").is_some_and(|line| line.contains(" 174 ")), "{}", said.output);
}

#[test]
fn what_was_exported_is_what_is_read_again() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let inspect = |spec: &str| run(folder.path(), &["data", "inspect", spec]).done().output;
    let said = run(folder.path(), &["data", "export", "digits:test", "out", "--format", "idx"]).done();
    assert_eq!(said.output.lines().collect::<Vec<_>>(), ["out/features.idx", "out/labels.idx"]);
    assert_eq!(inspect("idx:out/features.idx,out/labels.idx"), inspect("digits:test"));
    let said = run(folder.path(), &["data", "export", "digits:test", "out", "--format", "csv"]).done();
    assert_eq!(said.output.trim(), "out/examples.csv");
    let table = inspect("csv:out/examples.csv?label=label");
    assert!(table.contains("\n359 examples of 64 features\n"), "{table}");
    // A network does not see where its examples come from.
    let model = |spec: &str, output: &str| {
        let job = format!(
            "[data]\ntrain = \"{spec}\"\nnormaliser = \"min_max\"\n[network]\ninput = {{ feed_forward = 64 }}\n\
             layers = [{{ output = {{ units = 10, activation = \"softmax\" }} }}]\n"
        );
        fs::write(folder.path().join("job.toml"), job).expect("written");
        run(folder.path(), &["train", "job.toml", "--events", "json", "--output", output]).done().events().pop()
    };
    let score = |spec, output| model(spec, output).expect("events")["score"].clone();
    let original = score("digits:test", "a");
    assert_eq!(score("idx:out/features.idx,out/labels.idx", "b"), original);
    assert_eq!(score("csv:out/examples.csv?label=label", "c"), original);
}

#[test]
fn an_unknown_dataset_is_refused_with_the_nearest_name() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let said = run(folder.path(), &["data", "fetch", "mnits", "--cache", "cache"]);
    said.refused(2, &["`mnits`", "did you mean `mnist`?"]);
    assert!(!folder.path().join("cache").exists());
    run(folder.path(), &["data", "inspect", "digist:"]).refused(2, &["`digist:`", "did you mean `digits:`?"]);
    run(folder.path(), &["data", "inspect", "digits:tset"]).refused(2, &["`tset`", "did you mean `test`?"]);
}

#[test]
fn an_empty_cache_without_a_network_says_what_to_do() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let said = run(folder.path(), &["data", "inspect", "mnist:test", "--cache", "cache", "--offline"]);
    said.refused(1, &["`mnist` is not in `cache", "fetching is off", "`paceline data fetch mnist`"]);
    run(folder.path(), &["data", "fetch", "mnist", "--cache", "cache", "--offline"]).refused(1, &["fetching is off"]);
}

#[test]
fn a_reader_that_goes_away_is_no_failure_but_a_full_disk_is() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for arguments in [&["data", "inspect", "digits:"][..], &["doctor", "--cache", "cache"]] {
        let mut child =
            command(folder.path(), arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts");
        drop(child.stdout.take());
        assert_eq!(Said::at_the_end_of(child).done().errors, "");
    }
    #[cfg(target_os = "linux")]
    {
        let full = fs::File::options().write(true).open("/dev/full").expect("Linux has it");
        let mut inspect = command(folder.path(), &["data", "inspect", "digits:"]);
        let child = inspect.stdout(full).stderr(Stdio::piped()).spawn().expect("starts");
        Said::at_the_end_of(child).refused(1, &["cannot write to standard output", "No space left"]);
    }
}
