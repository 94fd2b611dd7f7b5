//! Targets that are brought into another range to be learned, and predictions that are taken back from it.

use std::path::Path;
use std::sync::Arc;

use paceline_data::{Arrays, ExampleShape, NormaliserKind, OpenOptions, Source, TargetShape};
use paceline_model::Targets;
use paceline_nn::config::{Dense, NetworkConfig, Output};
use paceline_nn::{Activation, Loss, Network, Updater};
use paceline_train::{Error, IfFound, Job, Mode, Outcome, ParallelInference, SavedModel, TrainOptions, Trainer};

/// Sixty-five rows of two targets, each a whole part of `range` above `least`: brought to 0..1 they are exact.
fn rows(least: [f32; 2], range: [f32; 2]) -> Arc<dyn Source> {
    let place = |row: usize| [(row * 29 % 65) as f32 / 64.0, (row * row % 65) as f32 / 64.0];
    let features = (0..65).flat_map(|row| [(row as f32 / 9.0).sin(), place(row)[0], row as f32 / 65.0]).collect();
    let values = (0..65).flat_map(|row| [0, 1].map(|at| least[at] + range[at] * place(row)[at])).collect();
    let targets = TargetShape::Values { names: vec!["price".into(), "area".into()] };
    let shape = ExampleShape { features: vec![3], targets };
    Arc::new(Arrays::new(features, shape, Targets::Values { width: 2, values }).expect("rows"))
}

fn network(outputs: usize) -> Network {
    let config = NetworkConfig::feed_forward(3)
        .seed(4)
        .updater(Updater::adam(0.01))
        .layer(Dense::new(8).activation(Activation::Tanh))
        .layer(Output::new(outputs, Loss::Mse).activation(Activation::Identity));
    Network::new(config).expect("a network")
}

fn trained(data: &Arc<dyn Source>, kind: Option<NormaliserKind>, output: Option<&Path>) -> Outcome {
    let options = TrainOptions {
        batch: 13,
        epochs: 6,
        workers: 2,
        mode: Mode::Sync,
        normaliser: Some(NormaliserKind::None),
        target_normaliser: kind,
        output: output.map(Path::to_owned),
        ..TrainOptions::default()
    };
    let trainer =
        Trainer::new(network(2), data.clone(), options).expect("they fit").test(data.clone()).expect("they fit");
    trainer.run(&mut |_| {}).expect("a run")
}

fn told(model: &mut SavedModel, data: &Arc<dyn Source>) -> Vec<f32> {
    let mut all = Vec::new();
    let keep = |_: &_, outputs: &[f32]| {
        all.extend_from_slice(outputs);
        Ok::<_, Error>(())
    };
    model.predict(data.clone(), 10, keep).expect("predictions");
    all
}

#[test]
fn it_is_the_training_of_targets_that_were_brought_there_before_and_predictions_are_taken_back() {
    let (least, range) = ([1_000.0, -8.0], [262_144.0, 16.0]);
    let (data, ready) = (rows(least, range), rows([0.0; 2], [1.0; 2]));
    let folder = tempfile::tempdir().expect("a folder");
    let own = trained(&data, Some(NormaliserKind::MinMax), Some(folder.path()));
    let other = trained(&ready, Some(NormaliserKind::None), None);
    assert_eq!(own.model.state.parameters, other.model.state.parameters, "to the bit");
    let (own_scores, other_scores) = (own.scores.expect("scores"), other.scores.expect("scores"));
    assert_eq!(own_scores.score(), other_scores.score(), "the loss is the one that was learned by");
    // From a file: what takes predictions back is kept with the model.
    let mut model = SavedModel::load(&folder.path().join("model.safetensors")).expect("a model");
    let (outputs, apart) = (told(&mut model, &data), told(&mut SavedModel::new(other.model).expect("a model"), &ready));
    let back = |(at, value): (usize, &f32)| value * range[at % 2] + least[at % 2];
    assert_eq!(outputs, apart.iter().enumerate().map(back).collect::<Vec<f32>>());
    // Figures are in the units of the data.
    let Targets::Values { values: wanted, .. } = read(&*data) else { panic!("numbers") };
    let off = outputs.iter().zip(&wanted).map(|(told, wanted)| f64::from((told - wanted).abs()));
    let mae = off.sum::<f64>() / wanted.len() as f64;
    let figure = serde_json::to_value(&own_scores).expect("JSON")["mae"].as_f64().expect("a number");
    assert!((figure - mae).abs() < 1e-6 * mae && mae > 100.0, "{figure} against {mae}");
    // Several workers say and judge the same as one.
    let scores = model.evaluate(data.clone(), 10).expect("judged").expect("targets");
    let inference = ParallelInference::builder(model.file).workers(2).build().expect("a model");
    let mut all = Vec::new();
    let keep = |_: &_, outputs: &[f32]| {
        all.extend_from_slice(outputs);
        Ok::<_, Error>(())
    };
    inference.predict(data.clone(), 7, keep).expect("predictions");
    assert_eq!(all, outputs);
    let parallel = inference.evaluate(data, 10).expect("judged").expect("targets");
    assert_eq!(serde_json::to_string(&parallel).expect("JSON"), serde_json::to_string(&scores).expect("JSON"));
}

fn read(source: &dyn Source) -> Targets {
    let mut batch = paceline_model::Batch::empty();
    source.read(&(0..source.examples() as u64).collect::<Vec<u64>>(), &mut batch).expect("rows");
    batch.targets
}

#[test]
fn it_is_refused_where_it_means_nothing() {
    let refused = |network: Network, data: Arc<dyn Source>, kind| {
        let options = TrainOptions { target_normaliser: Some(kind), ..TrainOptions::default() };
        let trainer = Trainer::new(network, data, options).expect("they fit");
        trainer.run(&mut |_| {}).expect_err("refused").to_string()
    };
    let data = rows([0.0; 2], [1.0; 2]);
    let error = refused(network(2), data, NormaliserKind::Image);
    assert!(error.contains("data.target_normaliser") && error.contains("`min_max`"), "{error}");
    let shape =
        ExampleShape { features: vec![3], targets: TargetShape::Classes { names: vec!["a".into(), "b".into()] } };
    let classes = Arrays::new(vec![0.0; 12], shape, Targets::Classes(vec![0, 1, 0, 1])).expect("rows");
    let error = refused(network(2), Arc::new(classes), NormaliserKind::MinMax);
    assert!(error.contains("task=regression"), "{error}");
}

#[test]
fn layers_are_pretrained_without_it_and_the_network_learns_with_it() {
    let job = r#"
        [data]
        train = "given:rows"
        test = "given:rows"
        target_normaliser = "standardise"
        [network]
        input = { feed_forward = 3 }
        learning_rate = 0.05
        layers = [{ autoencoder = { units = 6 } }, { output = { units = 2, activation = "identity", loss = "mse" } }]
        [pretrain]
        epochs = 1
        [train]
        epochs = 2
    "#;
    let job = Job::from_text(job, false, "rows", "the test", &[]).expect("a job");
    let given = [("rows".to_owned(), rows([1_000.0, -8.0], [262_144.0, 16.0]))].into();
    let options = OpenOptions { given, ..OpenOptions::default() };
    let outcome = job.phased(None, IfFound::Refuse, &options).expect("phases").run(&mut |_| {}).expect("a run");
    let normalisers = SavedModel::new(outcome.model).expect("a model").normalisers;
    assert!(normalisers.targets.is_some() && normalisers.features.is_none(), "{normalisers:?}");
}
