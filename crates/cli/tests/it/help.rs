//! What the command line says of itself.

use crate::paceline::run;

#[test]
fn every_command_explains_its_options() {
    let commands: [(&[&str], &[&str]); 12] = [
        (&[], &["train", "evaluate", "predict", "data", "model", "status", "doctor", "--version"]),
        (
            &["train"],
            &[
                "[JOB]",
                "--workers",
                "--mode",
                "--device",
                "--set",
                "--output",
                "--resume",
                "--events",
                "--cache",
                "--offline",
            ],
        ),
        (
            &["evaluate"],
            &["[MODEL]", "--data", "--listen", "--join", "--batch", "--json", "--workers", "--cache", "--offline"],
        ),
        (
            &["predict"],
            &["[MODEL]", "--data", "--listen", "--join", "--output", "--batch", "--workers", "--cache", "--offline"],
        ),
        (&["data"], &["fetch", "inspect", "export"]),
        (&["data", "fetch"], &["<NAME>", "--cache", "--offline"]),
        (&["data", "inspect"], &["<SOURCE>", "--cache", "--offline"]),
        (&["data", "export"], &["<SOURCE>", "<FOLDER>", "--format", "idx", "csv"]),
        (&["model"], &["show"]),
        (&["model", "show"], &["<MODEL>", "--json", "--svg <FILE>"]),
        (&["status"], &["<ADDR>", "--token-file", "--json", "--watch"]),
        (&["doctor"], &["--cache", "--offline"]),
    ];
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (command, options) in commands {
        let said = run(folder.path(), &[command, &["--help"]].concat()).done();
        for option in options {
            assert!(said.output.contains(option), "`{option}` is not in the help of {command:?}:\n{}", said.output);
        }
    }
}

#[test]
fn no_arguments_and_unknown_ones_are_misuse() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let status = |arguments: &[&str]| run(folder.path(), arguments).status;
    for arguments in [&[][..], &["data"], &["model"]] {
        assert_eq!(status(arguments), Some(2), "{arguments:?}");
    }
    run(folder.path(), &["trian"]).refused(2, &["'trian'", "'train'"]);
    run(folder.path(), &["train", "--epoches", "3"]).refused(2, &["'--epoches'", "'--epochs'"]);
    run(folder.path(), &["train", "--workers", "two"]).refused(2, &["'two'", "--workers"]);
    run(folder.path(), &["evaluate", "model.safetensors"]).refused(2, &["--data <SPEC>"]);
    run(folder.path(), &["evaluate", "m", "--data", "digits:", "--batch", "0"]).refused(2, &["--batch"]);
    for workers in ["0", "1025", "-1"] {
        let workers = format!("--workers={workers}");
        run(folder.path(), &["evaluate", "m", "--data", "digits:", &workers]).refused(2, &["--workers", "1..=1024"]);
        run(folder.path(), &["predict", "m", "--data", "digits:", "--output", "o.csv", &workers])
            .refused(2, &["--workers", "1..=1024"]);
    }
    run(folder.path(), &["predict", "m", "--data", "digits:", "--output", "o.txt"]).refused(2, &["o.txt", "`.csv`"]);
}

#[test]
fn the_version_is_told() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let said = run(folder.path(), &["--version"]).done();
    let rest =
        said.output.trim().strip_prefix(concat!("paceline ", env!("CARGO_PKG_VERSION"), " (")).expect("the version");
    let parts: Vec<&str> = rest.trim_end_matches(')').split(", ").collect();
    let is_commit =
        parts[0] == "of unknown commit" || parts[0].len() == 12 && u64::from_str_radix(parts[0], 16).is_ok();
    assert!(is_commit && parts[1].ends_with(std::env::consts::OS), "{rest}");
    assert_eq!(parts[2], paceline::nn::Instructions::detect().name());
}

#[test]
fn shells_and_man_know_every_command() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let commands = ["train", "tune", "runs", "evaluate", "predict", "master", "worker", "model show"];
    for shell in ["bash", "zsh", "fish"] {
        let script = run(folder.path(), &["completions", shell]).done().output;
        assert!(
            commands.iter().all(|command| script.contains(command.split(' ').next().unwrap_or_default())),
            "{shell}"
        );
        assert!(script.contains("--keep-columns") || script.contains("keep-columns"), "{shell}");
    }
    run(folder.path(), &["man", "pages"]).done();
    for command in commands {
        let page = folder.path().join(format!("pages/paceline-{}.1", command.replace(' ', "-")));
        let text = std::fs::read_to_string(&page).expect("a page");
        assert!(text.contains(".SH OPTIONS") && text.contains(env!("CARGO_PKG_VERSION")), "{command}: {text}");
    }
    assert!(folder.path().join("pages/paceline.1").exists());
}

#[test]
fn the_doctor_names_what_it_looked_at() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let said = run(folder.path(), &["doctor", "--cache", "cache"]).done();
    for name in ["cores", "instructions", "cache", "mnist", "npm", "output", "ports", "gpu"] {
        assert!(said.output.lines().any(|line| line.split_whitespace().nth(1) == Some(name)), "{}", said.output);
    }
    // A cache that is a file would stop every fetch.
    std::fs::write(folder.path().join("file"), "").expect("written");
    let said = run(folder.path(), &["doctor", "--cache", "file"]);
    assert_eq!(said.status, Some(1), "{said:?}");
    assert!(said.output.contains("problem  cache"), "{}", said.output);
}
