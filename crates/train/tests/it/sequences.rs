//! Sequences from a file to a model: they train, are judged step by step, and whatever trains alone trains in a team.

use std::path::Path;

use paceline_data::OpenOptions;
use paceline_train::{Event, GenerateOptions, IfFound, Job, SavedModel};

/// Text in which the next character follows from the last two: an `a` or `b` is followed by the other one, then by a dot.
const TEXT: &str = "ab.ba.ab.ab.ba.ba.ab.ba.ba.ab.ab.ba.";

fn job(folder: &Path, settings: &[&str]) -> Job {
    let text = folder.join("text.txt");
    std::fs::write(&text, TEXT.repeat(20)).expect("a text");
    let job = format!(
        r#"
        [data]
        train = "text:{path}?steps=12"
        test  = "text:{path}?steps=12"
        global_batch = 12
        [network]
        seed    = 3
        input   = {{ sequence = [12, 1] }}
        updater = {{ adam = {{ learning_rate = 0.02 }} }}
        layers  = [{{ embedding = {{ count = 3, units = 4 }} }}, {{ lstm = {{ units = 12 }} }}, {{ output = {{ units = 3 }} }}]
        [train]
        epochs = 6
        "#,
        path = text.display()
    );
    let settings: Vec<String> = settings.iter().map(|setting| (*setting).to_owned()).collect();
    Job::from_text(&job, false, "text", "the job", &settings).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn a_model_of_characters_learns_what_follows_and_writes_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = folder.path().join("run");
    let trainer =
        job(folder.path(), &["train.workers=1"]).phased(Some(run.clone()), IfFound::Refuse, &OpenOptions::default());
    let outcome = trainer.expect("they fit").run(&mut |_| {}).expect("a run");
    let accuracy = outcome.scores.as_ref().and_then(|scores| scores.accuracy()).expect("steps that are judged");
    // Of three characters the second and the dot follow, and which comes first after a dot is chance.
    assert!((0.78..0.95).contains(&accuracy), "{accuracy}");
    let model = SavedModel::load(&run.join("model.safetensors")).expect("a model");
    let mut written = String::new();
    let options = GenerateOptions { begin: "ab".into(), length: 30, seed: 5, ..GenerateOptions::default() };
    model.generate(&options, |character| written.push(character)).expect("it goes on");
    let words: Vec<&str> = written.trim_start_matches('.').split('.').filter(|word| word.len() == 2).collect();
    assert!(words.len() >= 8 && words.iter().all(|word| ["ab", "ba"].contains(word)), "{written}");
    let mut again = String::new();
    model.generate(&options, |character| again.push(character)).expect("it goes on");
    assert_eq!(written, again, "what chance says follows from the seed");
    let unknown = GenerateOptions { begin: "x".into(), ..options };
    let error = model.generate(&unknown, |_| {}).expect_err("an unknown character").to_string();
    assert!(error.contains("'x'"), "{error}");
}

#[test]
fn teams_train_sequences_to_the_bits_of_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let parameters = |settings: &[&str]| {
        let trainer =
            job(folder.path(), settings).phased(None, IfFound::Refuse, &OpenOptions::default()).expect("they fit");
        let mut losses = Vec::new();
        let outcome = trainer.run(&mut |event| {
            if let Event::Epoch { loss, .. } = event {
                losses.push(*loss);
            }
        });
        assert!(losses[5] < 0.7 * losses[0], "{settings:?}: {losses:?}");
        outcome.expect("a run").model.state.parameters
    };
    let alone = parameters(&["train.workers=1", "train.mode=solo"]);
    assert!(parameters(&["train.workers=1", "train.mode=sync"]) == alone);
    let two = parameters(&["train.workers=2", "train.mode=sync"]);
    assert!(parameters(&["train.workers=2", "train.mode=sync"]) == two, "the same bits again");
    for (one, other) in alone.iter().zip(two.iter()) {
        assert!((one - other).abs() < 2e-2, "{one} and {other}");
    }
    parameters(&["train.workers=2", "train.mode=averaging"]);
    parameters(&["train.workers=2", "train.mode=shared"]);
}
