//! Networks that begin with weights of others: of a network of PyTorch (`fixtures/pytorch_net.py`), and of models of ours.

use std::path::Path;

use paceline_data::OpenOptions;
use paceline_model::{Batch, Model, Targets};
use paceline_nn::Engine;
use paceline_train::{Event, IfFound, Job, PhasedTrainer, SavedModel};

const NET: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/pytorch-net.safetensors");

/// The network of the fixture in our words, on the digits.
fn job(transfer: &str) -> Result<Job, String> {
    let text = format!(
        r#"
        data = {{ train = "digits:train?examples=60", batch = 20, normaliser = "none" }}
        [network]
        input   = {{ image = [8, 8, 1] }}
        updater = {{ sgd = {{ learning_rate = 0.1 }} }}
        layers  = [
          {{ conv2d = {{ filters = 3, kernel = [3, 3], name = "seen" }} }},
          {{ batch_norm = {{ activation = "relu", name = "bn1" }} }},
          {{ dense = {{ units = 12, activation = "tanh", name = "fc1" }} }},
          {{ reshape = {{ to = {{ sequence = [3, 4] }} }} }},
          {{ gru = {{ units = 5, name = "rnn" }} }},
          {{ last_time_step = {{}} }},
          {{ output = {{ units = 10, name = "told" }} }},
        ]
        [transfer]
        {transfer}
        "#
    );
    Job::from_text(&text, false, "transfer", "the job", &[]).map_err(|error| error.to_string())
}

fn phased(job: &Job, output: Option<&Path>) -> Result<PhasedTrainer, String> {
    let trainer = job.phased(output.map(Path::to_owned), IfFound::Refuse, &OpenOptions::default());
    trainer.map_err(|error| error.to_string())
}

#[derive(serde::Deserialize)]
struct Fixture {
    features: Vec<f32>,
    outputs: Vec<f32>,
}

#[test]
fn a_network_of_pytorch_says_here_what_it_says_there() {
    let text = std::fs::read_to_string(NET.replace(".safetensors", ".json")).expect("a fixture");
    let fixture: Fixture = serde_json::from_str(&text).expect("a fixture");
    let named = format!(r#"from = "{NET}""#) + "\nnames = { seen = \"conv1\", told = \"fc2\" }";
    // Three outputs, as the network of the fixture has.
    let mut job = job(&named).expect("a job");
    let paceline_nn::config::LayerConfig::Output(output) = &mut job.network.layers[6] else { panic!("an output") };
    output.units = 3;
    job.data.train = "digits:train?examples=1".into();
    let network = paceline_nn::Network::new(job.network.clone()).expect("a network");
    let source = paceline_data::Arrays::new(
        fixture.features.clone(),
        paceline_data::ExampleShape {
            features: vec![8, 8, 1],
            targets: paceline_data::TargetShape::Classes { names: vec!["a".into()] },
        },
        Targets::Classes(vec![0; 8]),
    );
    let trainer = paceline_train::Trainer::new(
        network.clone(),
        std::sync::Arc::new(source.expect("images")),
        job.options.clone(),
    );
    let trainer =
        trainer.expect("they fit").transferred(job.transfer.as_ref().expect("a transfer")).expect("all is there");
    let batch = Batch {
        epoch: 0,
        indices: (0..8).collect(),
        width: 64,
        features: fixture.features,
        targets: Targets::None,
        weights: None,
    };
    let (mut engine, mut outputs) = (Engine::new(network), Vec::new());
    engine.predict(&batch, &trainer.first_state(), &mut outputs).expect("outputs");
    for (found, expected) in outputs.iter().zip(&fixture.outputs) {
        assert!((found - expected).abs() < 2e-6, "{found} and {expected}");
    }
}

#[test]
fn a_new_end_learns_on_top_of_layers_that_stay_as_they_are() {
    let folder = tempfile::tempdir().expect("a folder");
    let own = format!("from = \"{NET}\"\nnames = {{ seen = \"conv1\" }}\nfresh = [\"told\"]\nfreeze = \"fc1\"");
    let mut told = Vec::new();
    let trainer = phased(&job(&own).expect("a job"), Some(folder.path())).expect("it fits");
    let outcome = trainer.run(&mut |event| {
        if let Event::Transferred { taken, fresh, unused } = event {
            told.push((taken.clone(), fresh.clone(), unused.clone()));
        }
    });
    let learned = outcome.expect("a run").model;
    let [(taken, fresh, unused)] = &told[..] else { panic!("told once: {told:?}") };
    assert_eq!(taken["rnn.bias"], "rnn.bias_ih_l0 + rnn.bias_hh_l0");
    assert_eq!(fresh[..], ["told.weight", "told.bias"]);
    assert_eq!(unused[..], ["fc2.bias", "fc2.weight"], "a counter of batches is no weight");
    let began = phased(&job(&own).expect("a job"), None).expect("it fits");
    let began = began.first_state();
    for parameter in learned.network.parameters() {
        let is_frozen = parameter.layer <= 2;
        let range = parameter.range.clone();
        let is_same = learned.state.parameters[range.clone()] == began.parameters[range];
        assert_eq!(is_same, is_frozen, "{}", parameter.name);
    }
    // And a model of ours is a file of weights, too: by its own names, without a word on layouts.
    let again = format!("from = \"{}\"", folder.path().join("model.safetensors").display());
    let state = phased(&job(&again).expect("a job"), None).expect("it fits").first_state();
    assert!(state.parameters == learned.state.parameters && state.running == learned.state.running);
    assert!(SavedModel::load(&folder.path().join("model.safetensors")).is_ok());
}

#[test]
fn what_is_missing_is_named_with_what_there_is() {
    let error = |transfer: &str| job(transfer).and_then(|job| phased(&job, None).map(|_| ())).expect_err(transfer);
    let from = format!("from = \"{NET}\"\n");
    let missing = error(&from);
    for part in
        ["`seen.weight` [3, 3, 1, 3]", "`told.weight` [5, 10]", "conv1.weight", "transfer.names", "layer `seen`"]
    {
        assert!(missing.contains(part), "{part}: {missing}");
    }
    assert!(!missing.contains("rnn.weight"), "{missing}");
    assert!(error(&format!("{from}fresh = [\"tol\"]")).contains("did you mean `told`?"));
    assert!(error(&format!("{from}frehs = [\"told\"]")).contains("did you mean `fresh`?"));
    assert!(error("from = \"nowhere.safetensors\"").contains("nowhere.safetensors"));
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("broken.safetensors");
    std::fs::write(&path, [255; 40]).expect("a file");
    assert!(error(&format!("from = \"{}\"", path.display())).contains("expected a `safetensors` file"));
}
