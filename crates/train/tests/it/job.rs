//! Job files: two languages, one meaning; and where in them something is wrong.

use std::path::PathBuf;

use paceline_data::OpenOptions;
use paceline_train::{AveragingOptions, Combine, Error, IfFound, Job, Mode, SharedOptions};
use tempfile::TempDir;

const TOML: &str = r#"# a comment
[data]
train = "digits:train"
test  = "digits:test"
batch = 16
class_weights = [1, 1, 1, 1, 1, 1, 1, 1, 1, 2]

[network]
seed    = 5
input   = { image = [8, 8, 1] }
l2      = 0.001
updater = { adam = { learning_rate = { step = { initial = 0.01, decay = 0.5, every = 3, per = "epoch" } } } }
layers = [
  { conv2d = { filters = 4, kernel = [3, 3], padding = "same", activation = "relu" } },
  { output = { units = 10, activation = "softmax", loss = "negative_log_likelihood" } },
]

[train]
epochs = 4
checkpoint = { steps = 10 }
"#;

const JSON: &str = r#"{
  "data": { "train": "digits:train", "test": "digits:test", "batch": 16,
            "class_weights": [1, 1, 1, 1, 1, 1, 1, 1, 1, 2] },
  "network": {
    "seed": 5, "input": { "image": [8, 8, 1] }, "l2": 0.001,
    "updater": { "adam": { "learning_rate":
      { "step": { "initial": 0.01, "decay": 0.5, "every": 3, "per": "epoch" } } } },
    "layers": [
      { "conv2d": { "filters": 4, "kernel": [3, 3], "padding": "same", "activation": "relu" } },
      { "output": { "units": 10, "activation": "softmax", "loss": "negative_log_likelihood" } }
    ] },
  "train": { "epochs": 4, "checkpoint": { "steps": 10 } }
}"#;

fn written(name: &str, text: &str) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join(name);
    std::fs::write(&path, text).expect("written");
    (folder, path)
}

fn read(name: &str, text: &str, settings: &[&str]) -> Result<Job, Error> {
    let (_folder, path) = written(name, text);
    Job::read(&path, &settings.iter().map(|&setting| setting.to_owned()).collect::<Vec<_>>())
}

#[test]
fn json_and_toml_say_the_same() {
    let (toml, json) = (read("job.toml", TOML, &[]), read("job.json", JSON, &[]));
    let toml = toml.expect("readable");
    assert_eq!(toml, json.expect("readable"));
    assert_eq!((toml.name.as_str(), toml.options.batch, toml.options.epochs), ("job", 16, 4));
}

#[test]
fn settings_reach_numbers_texts_tables_and_lists() {
    let settings = [
        "data.batch=8",
        "data.train=digits:",
        "data.normaliser=\"min_max\"",
        "network.layers.1.output.units=12",
        "network.updater={ sgd = { learning_rate = 0.5 } }",
        "network.layers.0={ dense = { units = 7 } }",
        "train.steps=3",
    ];
    let job = read("job.toml", TOML, &settings).expect("readable");
    let expected = TOML
        .replace("batch = 16", "batch = 8\nnormaliser = \"min_max\"")
        .replace("digits:train", "digits:")
        .replace("units = 10", "units = 12")
        .replace("epochs = 4", "epochs = 4\nsteps = 3");
    let expected: String = expected
        .lines()
        .map(|line| match line.trim_start() {
            rest if rest.starts_with("updater") => "updater = { sgd = { learning_rate = 0.5 } }\n".to_owned(),
            rest if rest.starts_with("{ conv2d") => "{ dense = { units = 7 } },\n".to_owned(),
            _ => format!("{line}\n"),
        })
        .collect();
    assert_eq!(job, read("job.toml", &expected, &[]).expect("readable"));
    assert_eq!(job, read("job.json", JSON, &settings).expect("readable"));
}

#[test]
fn what_is_wrong_is_told_with_its_line() {
    let cases = [
        ("batch = 16", "batch = -1", 5, "`data.batch`"),
        ("batch = 16", "bacth = 16", 5, "did you mean `batch`?"),
        ("test  = ", "test_share = 2.0 #", 4, "`data.test_share` must be between 0 and 1, found 2"),
        ("[network]", "[nteworks]", 8, "unknown key `nteworks`"),
        ("seed    = 5", "seed    = \"five\"", 9, "`seed`"),
        ("l2      =", "l_2     =", 11, "did you mean `l2`?"),
        ("{ adam", "{ addam", 12, "did you mean `adam`?"),
        ("filters = 4", "filter = 4", 14, "layer 0 (conv2d): unknown key `filter`; did you mean `filters`?"),
        ("units = 10", "units = 1.5", 15, "layer 1 (output)"),
        ("epochs = 4", "workers = 0", 19, "`train.workers`: expected at least 1, found 0"),
        (
            "epochs = 4",
            "workers = 2\nmode = { averaging = { frequency = 0 } }",
            20,
            "frequency`: expected at least 1, found 0",
        ),
        ("epochs = 4", "epochs 4", 19, ""),
    ];
    for (good, bad, line, part) in cases {
        assert!(TOML.contains(good), "{good}");
        match read("job.toml", &TOML.replace(good, bad), &[]) {
            Err(Error::Job { line: Some(found), message, origin }) => {
                assert!(origin.contains("job.toml"), "{origin}");
                assert_eq!(found, line, "{bad}: {message}");
                assert!(message.contains(part), "{bad}: {message}");
            }
            other => panic!("{bad}: {other:?}"),
        }
    }
}

#[test]
fn a_mode_is_a_name_or_a_table_and_what_is_left_out_is_filled_in() {
    let team = |train: &str, settings: &[&str]| {
        let job = read("job.toml", &TOML.replace("epochs = 4", train), settings).expect("readable");
        let trainer = job.trainer(None, IfFound::Refuse, &OpenOptions::default()).expect("a trainer");
        (trainer.options().workers, trainer.options().mode.clone())
    };
    let averaging = |frequency, average_updater| {
        Mode::Averaging(AveragingOptions { frequency, average_updater, ..AveragingOptions::default() })
    };
    let cores = std::thread::available_parallelism().expect("cores").get();
    assert_eq!(team("epochs = 4", &[]), (1, Mode::Solo), "16 examples are too few for two cores");
    let spread = team("epochs = 4", &["data.batch=64"]);
    assert_eq!(spread, if cores > 1 { (cores.min(4), Mode::Sync) } else { (1, Mode::Solo) });
    assert_eq!(team("workers = 1", &["data.batch=64"]), (1, Mode::Solo));
    assert_eq!(team("mode = \"solo\"", &["data.batch=64"]), (1, Mode::Solo));
    assert_eq!(team("workers = 3", &[]), (3, Mode::Sync));
    assert_eq!(team("mode = \"sync\"", &[]), (cores, Mode::Sync));
    assert_eq!(team("mode = \"sync\"", &["data.global_batch=1"]), (1, Mode::Sync), "no more than there are examples");
    assert_eq!(team("mode = \"averaging\"\nworkers = 2", &[]), (2, averaging(3, None)));
    let table = "mode = { averaging = { frequency = 9, average_updater = false } }\nworkers = 2";
    assert_eq!(team(table, &[]), (2, averaging(9, Some(false))));
    assert_eq!(
        team(table, &["train.mode=averaging"]),
        (2, averaging(9, Some(false))),
        "the same mode keeps its options"
    );
    assert_eq!(team(table, &["train.mode.averaging.frequency=4"]), (2, averaging(4, Some(false))));
    assert_eq!(team(table, &["train.mode=sync"]), (2, Mode::Sync));
    let named = "mode = \"averaging\"\nworkers = 2";
    assert_eq!(team(named, &["train.mode.averaging.frequency=4"]), (2, averaging(4, None)));
    let shared = SharedOptions { combine: Combine::Sum, ..SharedOptions::default() };
    let text =
        "mode = { shared = { combine = \"sum\", threshold = { target_sparsity = { sparsity = 1e-3 } } } }\nworkers = 2";
    assert_eq!(team(text, &[]), (2, Mode::Shared(shared)));
    assert_eq!(team("mode = \"shared\"\nworkers = 2", &[]), (2, Mode::Shared(SharedOptions::default())));
    let wrong = read("job.toml", &TOML.replace("epochs = 4", "mode = \"averagin\""), &[]).expect_err("no such mode");
    assert!(wrong.to_string().contains("averaging"), "{wrong}");
    let both = read("job.toml", &TOML.replace("batch = 16", "batch = 16\nglobal_batch = 32"), &[]).expect_err("both");
    assert!(both.to_string().contains("set one of them"), "{both}");
    let over = read("job.toml", TOML, &["data.global_batch=32"]).expect("readable").options;
    assert_eq!((over.batch, over.global_batch), (128, Some(32)), "what is laid over counts");
}

#[test]
fn broken_json_is_told_with_its_line() {
    match read("job.json", &JSON.replace("\"seed\": 5,", "\"seed\": 5;"), &[]) {
        Err(Error::Job { line: Some(5), .. }) => {}
        other => panic!("{other:?}"),
    }
    let error = read("job.json", &JSON.replace("epochs", "epoch"), &[]).expect_err("no such key").to_string();
    assert!(error.contains("unknown key `epoch`; did you mean `epochs`?"), "{error}");
}

#[test]
fn missing_tables_and_keys_are_named() {
    let error = |text: &str| read("job.toml", text, &[]).expect_err("not a whole job").to_string();
    assert!(error("").contains("missing table `data`"));
    assert!(error("[data]\ntrain = \"digits:\"\n").contains("missing table `network`"));
    assert!(error("[data]\n[network]\n").contains("missing key `train`"));
    let error = error("[data]\ntrain = \"digits:\"\n[network]\nlayers = []\n");
    assert!(error.contains("expected either `input`, or a list of `inputs`"), "{error}");
}

#[test]
fn times_beyond_all_counting_are_refused_or_never_come() {
    let digits = |setting: &str| Job::digits(&[setting.to_owned()]).map(drop).map_err(|error| error.to_string());
    for setting in ["train.checkpoint.minutes=1e18", "train.checkpoint.minutes=1e300"] {
        let job = Job::digits(&[setting.to_owned(), "train.epochs=1".into()]).expect(setting);
        let trainer = job.trainer(None, IfFound::Refuse, &OpenOptions::default()).expect(setting);
        assert!(trainer.run(&mut |_| {}).is_ok(), "{setting}");
    }
    let error = digits("train.checkpoint.minutes=-1").expect_err("no time");
    assert!(error.contains("minutes"), "{error}");
}

#[test]
fn a_rate_that_falls_at_a_plateau_is_one_of_the_last_phase() {
    let pretrained = r#"
        [data]
        train = "digits:train"
        test = "digits:test"
        [network]
        input = { feed_forward = 64 }
        layers = { sda = { hidden = [8], outputs = 10 } }
        [pretrain]
        epochs = 1
        [train]
        epochs = 1
        plateau = { factor = 0.5, patience = 1 }
    "#;
    let job = Job::from_text(pretrained, false, "pretrained", "the test's job", &[]).expect("a job");
    let phases = job.phases();
    assert_eq!(phases.iter().map(|phase| phase.options.plateau.is_some()).collect::<Vec<_>>(), [false, true]);
    let trainer = job.phased(None, IfFound::Refuse, &OpenOptions::default()).expect("phases");
    assert!(trainer.run(&mut |_| {}).is_ok());
}
