//! The messages of a run are all that its replicas learn from: a program that shares no code with this one rebuilds the
//! model from them.

use std::path::Path;
use std::process::{Command, Output};

use paceline_data::OpenOptions;
use paceline_train::{Event, IfFound, Job};
use serde_json::Value;

/// The decoder that was written from the byte diagrams.
fn rebuild(dump: &Path, model: &Path) -> Output {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/rebuild.py");
    Command::new("python3").arg(script).arg(dump).arg(model).output().expect("python3")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Trains digits; says how many bytes the events tell of.
fn train(folder: &Path, workers: usize, settings: &[&str]) -> u64 {
    let dump = format!("train.mode.shared.dump={}", Value::from(folder.to_string_lossy()));
    let settings = [&dump, &format!("train.workers={workers}"), "train.epochs=3"]
        .into_iter()
        .chain(settings.iter().copied())
        .map(str::to_owned)
        .collect::<Vec<_>>();
    let job = Job::digits(&settings).expect("a job");
    let trainer = job.trainer(Some(folder.to_owned()), IfFound::Refuse, &OpenOptions::default()).expect("they fit");
    let mut sent = None;
    let run = trainer.run(&mut |event| {
        if let Event::Finished { bytes_sent, .. } = event {
            sent = Some(*bytes_sent);
        }
    });
    run.expect("a run");
    sent.expect("an end")
}

#[test]
fn an_independent_decoder_rebuilds_the_model_from_the_messages() {
    let bitmaps = "train.mode.shared.threshold={ fixed = { threshold = 1e-7 } }";
    let sums = "train.mode.shared.sum_beyond=0";
    for (workers, settings) in
        [(4, &[][..]), (3, &[sums, "train.checkpoint={ steps = 7 }"]), (2, &[bitmaps, "train.epochs=1"])]
    {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let sent = train(folder.path(), workers, settings);
        let (dump, model) = (folder.path().join("messages.bin"), folder.path().join("model.safetensors"));
        let found = rebuild(&dump, &model);
        assert!(found.status.success(), "{}{}", text(&found.stdout), text(&found.stderr));
        let report: Value = serde_json::from_slice(&found.stdout).expect("a report");
        assert_eq!(report["bytes"], sent, "{report}");
        assert_eq!(report["workers"], workers, "{report}");
        assert!(report["moved"].as_u64() > Some(100), "{report}");

        // Without its last message it is another model.
        let all = std::fs::read(&dump).expect("a dump");
        let length = |at: usize| u32::from_le_bytes(all[at..at + 4].try_into().expect("four bytes")) as usize;
        let elements = length(16);
        let (mut at, mut last) = (24 + 4 * elements, 0);
        while at < all.len() {
            last = at;
            at += 16 + length(at + 4);
        }
        std::fs::write(&dump, &all[..last]).expect("a dump");
        let found = rebuild(&dump, &model);
        let report: Value = serde_json::from_slice(&found.stdout).expect("a report");
        assert!(!found.status.success() && report["wrong"].as_u64() > Some(0), "{report}");
    }
}

#[test]
fn a_dump_that_cannot_be_written_is_refused_before_the_first_step() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let taken = folder.path().join("taken");
    std::fs::write(&taken, b"").expect("a file");
    let dump = format!("train.mode.shared.dump={}", Value::from(taken.to_string_lossy()));
    let job = Job::digits(&[dump]).expect("a job");
    let trainer = job.trainer(None, IfFound::Refuse, &OpenOptions::default()).expect("they fit");
    let error = trainer.run(&mut |event| assert!(matches!(event, Event::Failed { .. }))).expect_err("no folder");
    assert!(error.to_string().contains("train.mode.shared.dump"), "{error}");
}
