//! A job whose layers are pretrained: one phase after the other, stopped and resumed at any step of any of them.

use std::path::Path;

use paceline_data::OpenOptions;
use paceline_train::{Error, Event, IfFound, Job, PhasedTrainer, SavedModel, phase_folder};

const JOB: &str = r#"
[data]
train = "digits:train?examples=120&seed=3"
test  = "digits:test"
batch = 30

[network]
seed    = 5
input   = { flat_image = [8, 8, 1] }
updater = { adam = { learning_rate = 0.01 } }
layers  = { dbn = { hidden = [24, 12], outputs = 10 } }

[pretrain]
train   = "digits:train?examples=200"
batch   = 50
epochs  = 2
updater = { nesterovs = { learning_rate = 0.1, momentum = 0.5 } }
[pretrain.layers.1]
epochs = 1
learning_rate = 0.05

[train]
epochs = 2
checkpoint = { steps = 1 }
"#;

/// Steps of the phases: two epochs and one of 4 steps each, then two of 4.
const STEPS: [u64; 3] = [8, 4, 8];

fn job(settings: &[&str]) -> Result<Job, Error> {
    let settings: Vec<String> = settings.iter().map(|setting| (*setting).to_owned()).collect();
    Job::from_text(JOB, false, "dbn", "the job", &settings)
}

fn phased(output: &Path, found: IfFound) -> PhasedTrainer {
    let job = job(&[]).expect("a job");
    job.phased(Some(output.to_owned()), found, &OpenOptions::default()).expect("they fit")
}

fn bytes(path: &Path) -> Vec<u8> {
    std::fs::read(path.join("model.safetensors")).expect("a model")
}

/// Runs until this step of this phase, and asks to stop there.
fn run_until(trainer: PhasedTrainer, phase: usize, step: u64) -> bool {
    let (stop, mut at) = (trainer.stop(), 0);
    let outcome = trainer.run(&mut |event| match event {
        Event::Phase { phase, .. } => at = *phase,
        Event::Checkpoint { iteration, .. } if (at, *iteration) == (phase, step) => stop.ask(),
        _ => {}
    });
    outcome.expect("a run").stopped
}

#[test]
fn phases_follow_each_other_and_each_begins_with_what_the_last_came_to() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut told = Vec::new();
    let mut losses = Vec::new();
    let outcome = phased(folder.path(), IfFound::Refuse).run(&mut |event| match event {
        Event::Phase { phase, of, layer } => told.push(format!("{phase} of {of}: {layer:?}")),
        Event::PhaseEnded { phase, score, .. } => told.push(format!("{phase} ended at {}", score.is_finite())),
        Event::Finished { .. } => told.push("finished".into()),
        Event::Epoch { loss, .. } => losses.push(*loss),
        _ => {}
    });
    outcome.expect("a run");
    let expected = [
        "1 of 3: Some(\"0\")",
        "1 ended at true",
        "2 of 3: Some(\"1\")",
        "2 ended at true",
        "3 of 3: None",
        "finished",
    ];
    assert_eq!(told, expected);
    assert!(losses[1] < losses[0], "the reconstruction error falls: {losses:?}");
    // A phase changes its own layer and no other.
    let network = job(&[]).expect("a job").phases()[0].network.clone();
    let first = paceline_nn::Network::new(network).expect("a network").initial_state();
    let load = |folder: &Path| SavedModel::load(&folder.join("model.safetensors")).expect("a model").file;
    let [one, two] = [1, 2].map(|number| load(&phase_folder(folder.path(), number)));
    let layers: Vec<_> = one.network.layers().iter().map(|layer| layer.parameters.clone()).collect();
    let changed = |a: &[f32], b: &[f32]| layers.iter().map(|l| a[l.clone()] != b[l.clone()]).collect::<Vec<_>>();
    assert_eq!(changed(&first.parameters, &one.state.parameters), [true, false, false]);
    assert_eq!(changed(&one.state.parameters, &two.state.parameters), [false, true, false]);
}

#[test]
fn a_run_stopped_in_any_phase_ends_with_the_same_bytes() {
    let folder = tempfile::tempdir().expect("a folder");
    phased(folder.path(), IfFound::Refuse).run(&mut |_| {}).expect("a run");
    let whole = bytes(folder.path());
    for (phase, steps) in STEPS.iter().enumerate() {
        // The first step, the middle, and the last: the phase is over then, and the next one has not begun.
        for step in [1, steps / 2 + 1, *steps] {
            let folder = tempfile::tempdir().expect("a folder");
            let is_end = phase + 1 == STEPS.len() && step == *steps;
            assert_eq!(run_until(phased(folder.path(), IfFound::Refuse), phase + 1, step), !is_end);
            let outcome = phased(folder.path(), IfFound::Resume).run(&mut |_| {}).expect("a run");
            assert!(!outcome.stopped);
            assert!(bytes(folder.path()) == whole, "phase {}, step {step}", phase + 1);
        }
    }
}

#[test]
fn what_is_in_the_folder_is_left_alone_resumed_or_replaced() {
    let folder = tempfile::tempdir().expect("a folder");
    let nothing = phased(folder.path(), IfFound::Resume).run(&mut |_| {}).expect_err("nothing is there");
    assert!(matches!(nothing, Error::NothingToResume { .. }), "{nothing}");
    assert!(run_until(phased(folder.path(), IfFound::Refuse), 2, 1));
    let found = phased(folder.path(), IfFound::Refuse).run(&mut |_| {}).expect_err("a run is there");
    assert!(matches!(found, Error::RunExists { .. }), "{found}");
    // One that replaces it and is stopped in its first phase goes on with its own first phase, not with that of the other.
    let job = job(&["network.seed=6"]).expect("a job");
    let other =
        |folder: &Path, found| job.phased(Some(folder.to_owned()), found, &OpenOptions::default()).expect("they fit");
    assert!(run_until(other(folder.path(), IfFound::Overwrite), 1, 2));
    assert!(!phase_folder(folder.path(), 1).join("model.safetensors").exists());
    other(folder.path(), IfFound::Resume).run(&mut |_| {}).expect("a run");
    let alone = tempfile::tempdir().expect("a folder");
    other(alone.path(), IfFound::Refuse).run(&mut |_| {}).expect("a run");
    assert!(bytes(folder.path()) == bytes(alone.path()));
    // A phase of another job is not taken for one of this.
    std::fs::remove_file(folder.path().join("model.safetensors")).expect("it was there");
    let error = phased(folder.path(), IfFound::Resume).run(&mut |_| {}).expect_err("another seed").to_string();
    assert!(error.contains("its `network.seed` is 6, the job's is 5"), "{error}");
}

#[test]
fn a_lone_machine_is_a_job() {
    let folder = tempfile::tempdir().expect("a folder");
    let job = Job::from_text(
        r#"
        data = { train = "digits:", batch = 50 }
        network = { input = { flat_image = [8, 8, 1] }, updater = { sgd = { learning_rate = 0.1 } }, layers = [{ rbm = { units = 30 } }] }
        pretrain = { epochs = 3 }
        "#,
        false,
        "rbm",
        "the job",
        &[],
    );
    let job = job.expect("a job");
    assert_eq!(job.phases().len(), 1);
    let mut losses = Vec::new();
    let trainer = job.phased(Some(folder.path().to_owned()), IfFound::Refuse, &OpenOptions::default());
    let outcome = trainer.expect("they fit").run(&mut |event| {
        if let Event::Epoch { loss, .. } = event {
            losses.push(*loss);
        }
    });
    assert!(outcome.expect("a run").scores.is_none());
    assert!(losses.len() == 3 && losses.is_sorted_by(|a, b| a > b), "{losses:?}");
}

#[test]
fn teams_pretrain_to_the_same_bits_as_one() {
    let model = |workers: usize, mode: &str| {
        let workers = format!("train.workers={workers}");
        let job = job(&[&workers, &format!("train.mode={mode}"), "data.global_batch=30"]).expect("a job");
        let trainer = job.phased(None, IfFound::Refuse, &OpenOptions::default()).expect("they fit");
        trainer.run(&mut |_| {}).expect("a run").model.state.parameters
    };
    // With one replica every mode is a run alone. What several do is theirs, and ends with numbers.
    let alone = model(1, "solo");
    assert!(model(1, "sync") == alone && model(1, "averaging") == alone);
    for mode in ["sync", "averaging", "shared"] {
        assert!(model(2, mode).iter().all(|value| value.is_finite()), "{mode}");
    }
}

#[test]
fn wrong_settings_are_named_with_their_line() {
    let cases = [
        ("epochs  = 2", "epoch  = 2", "line 16", "unknown key `epoch`; did you mean `epochs`?"),
        ("epochs  = 2", "epochs  = 0", "line 16", "`pretrain.epochs`: expected a number from 1 on, found 0"),
        ("layers.1]", "layers.one]", "line 18", "no layer `one` can be pretrained"),
        ("learning_rate = 0.05", "learning_rat = 0.05", "line 20", "did you mean `learning_rate`?"),
        ("{ dbn =", "{ dbm =", "line 11", "there is no such kind of network as `dbm`; did you mean `dbn`?"),
        ("hidden =", "hiden =", "line 11", "in `dbn`: unknown key `hiden`; did you mean `hidden`?"),
        (
            "{ dbn = { hidden = [24, 12], outputs = 10 } }",
            "[{ output = { units = 10 } }]",
            "line 13",
            "expected a layer that can learn from what goes into it",
        ),
    ];
    for (good, bad, line, part) in cases {
        assert!(JOB.contains(good), "{good}");
        let error =
            Job::from_text(&JOB.replacen(good, bad, 1), false, "dbn", "the job", &[]).expect_err(bad).to_string();
        assert!(error.contains(part) && error.contains(line), "{error}");
    }
    let error = job(&["pretrain.phase=4"]).expect_err("three phases").to_string();
    assert!(error.contains("expected one of the 3 phases, found 4"), "{error}");
    assert_eq!(job(&["pretrain.phase=2"]).expect("a phase").network.pretrains, Some(1));
}
