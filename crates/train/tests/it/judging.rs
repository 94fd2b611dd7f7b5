//! Figures of a model beside its loss: classes of several ends, thresholds, calibration, and the importance of columns.

use std::sync::Arc;

use paceline_data::{Arrays, Column, ColumnKind, ExampleShape, Schema, SchemaTarget, Source, TargetShape};
use paceline_model::Targets;
use paceline_nn::config::{Dense, NetworkConfig, Output};
use paceline_nn::evaluation::Thresholds;
use paceline_nn::{Activation, Loss, Network, Updater};
use paceline_train::{Evaluator, Measures, Metric, ParallelInference, TrainOptions, Trainer};

/// Rows of three columns, of which the first says the class and the second half of it; the third says nothing.
fn rows(targets: impl Fn(usize) -> Vec<f32>, names: &[&str]) -> Arc<dyn Source> {
    let features = |row: usize| [(row % 2) as f32, (row % 2 + row / 2 % 3) as f32 * 0.3, (row * 29 % 65) as f32 / 65.0];
    let values: Vec<f32> = (0..120).flat_map(targets).collect();
    let shape = TargetShape::Values { names: names.iter().map(|name| (*name).to_owned()).collect() };
    let shape = ExampleShape { features: vec![3], targets: shape };
    let targets = Targets::Values { width: names.len(), values };
    Arc::new(Arrays::new((0..120).flat_map(features).collect(), shape, targets).expect("rows"))
}

fn classes() -> Arc<dyn Source> {
    let names = vec!["no".to_owned(), "yes".to_owned()];
    let shape = ExampleShape { features: vec![3], targets: TargetShape::Classes { names: names.clone() } };
    let features = |row: usize| [(row % 2) as f32, (row % 2 + row / 2 % 3) as f32 * 0.3, (row * 29 % 65) as f32 / 65.0];
    // One in ten is of the other class, so that no model is always right.
    let class = |row: usize| ((row + usize::from(row % 10 == 3)) % 2) as u32;
    let targets = Targets::Classes((0..120).map(class).collect());
    let column =
        |name: &str| Column { name: name.into(), kind: ColumnKind::Number { mean: 0.0, shift: 0.0, is_date: false } };
    let schema = Schema {
        columns: ["says", "hints", "noise"].map(column).to_vec(),
        target: SchemaTarget::Classes { column: "kind".into(), names },
        ..Schema::default()
    };
    let arrays = Arrays::new((0..120).flat_map(features).collect(), shape, targets).expect("rows");
    Arc::new(arrays.with_schema(schema).expect("it fits"))
}

fn trained(config: NetworkConfig, data: &Arc<dyn Source>) -> paceline_nn::ModelFile {
    let network = Network::new(config.seed(3).updater(Updater::adam(0.02))).expect("a network");
    let options = TrainOptions { batch: 20, epochs: 40, ..TrainOptions::default() };
    Trainer::new(network, data.clone(), options).expect("they fit").run(&mut |_| {}).expect("a run").model
}

#[test]
fn a_sigmoid_end_among_several_has_accuracy_and_auc_and_soft_targets_have_errors() {
    let ends = || {
        NetworkConfig::feed_forward(3)
            .layer(Dense::new(8).activation(Activation::Tanh).name("body"))
            .layer(
                Output::new(1, Loss::BinaryCrossEntropy).activation(Activation::Sigmoid).name("kind").after(["body"]),
            )
            .layer(Output::new(1, Loss::Mse).activation(Activation::Identity).name("size").after(["body"]))
    };
    let data = rows(|row| vec![(row % 2) as f32, row as f32 / 120.0], &["kind", "size"]);
    let model = trained(ends(), &data);
    let inference = ParallelInference::builder(model.clone()).build().expect("a model");
    let scores = inference.evaluate(data, 16).expect("evaluated").expect("targets");
    let Measures::Classes(kind) = &scores.outputs[0].measures else { panic!("a class: {scores}") };
    assert_eq!((kind.accuracy(), scores.outputs[0].auc()), (1.0, Some(1.0)));
    assert!(matches!(scores.outputs[1].measures, Measures::Values(_)) && scores.outputs[1].auc().is_none());
    let json = serde_json::to_value(&scores).expect("JSON");
    assert_eq!(
        (&json["outputs"]["kind"]["auc"], &json["outputs"]["size"]["auc"]),
        (&1.0.into(), &serde_json::Value::Null)
    );
    // Probabilities as targets are no classes: their errors are told.
    let soft = rows(|row| vec![0.3 + 0.4 * (row % 2) as f32, row as f32 / 120.0], &["kind", "size"]);
    let scores = inference.evaluate(soft, 16).expect("evaluated").expect("targets");
    let Measures::Values(kind) = &scores.outputs[0].measures else { panic!("numbers: {scores}") };
    assert!(kind.average().mae.expect("examples") > 0.2 && scores.outputs[0].auc().is_none(), "{scores}");
}

#[test]
fn a_threshold_trades_precision_for_recall_and_probabilities_are_compared_with_frequencies() {
    let data = classes();
    let config =
        NetworkConfig::feed_forward(3).layer(Output::new(2, Loss::CrossEntropy).activation(Activation::Softmax));
    let model = trained(config, &data);
    let network = model.network.clone();
    let inference = ParallelInference::builder(model).build().expect("a model");
    let judged = |threshold: Option<f32>| {
        let evaluator = Evaluator::new(&data.shape().targets, &network, Thresholds::Exact).expect("targets");
        let evaluator = match threshold {
            Some(threshold) => evaluator.with_threshold(threshold).expect("two classes"),
            None => evaluator,
        };
        inference.evaluate_by(evaluator, data.clone(), 16).expect("evaluated")
    };
    let predicted = |threshold: f32| {
        let Measures::Classes(classes) = judged(Some(threshold)).measures else { panic!("classes") };
        classes.confusion(0, 1) + classes.confusion(1, 1)
    };
    let (all, usual, none) = (predicted(0.001), predicted(0.5), predicted(0.999));
    assert!((all, none) == (120.0, 0.0) && usual > 0.0 && usual < 120.0, "{all} {usual} {none}");
    let scores = judged(None);
    assert_eq!(scores.threshold, None);
    let best = scores.best_threshold().expect("two classes");
    let Measures::Classes(at_best) = judged(Some(best.threshold)).measures else { panic!("classes") };
    assert!((at_best.scores(1).f1 - best.f1).abs() < 1e-9, "{best:?} {at_best}");
    let report = scores.calibration.as_ref().expect("probabilities").report();
    assert!(report.error < 0.1 && report.brier > 0.05 && report.brier < 0.25, "{report:?}");
    assert_eq!(report.bins.iter().map(|bin| bin.weight).sum::<f64>(), 120.0);
    let (auc, pr_auc) = (scores.auc().expect("two classes"), scores.pr_auc().expect("two classes"));
    assert_eq!((Metric::Auc.of(&scores), Metric::PrAuc.of(&scores)), (Some(auc), Some(pr_auc)));
    assert!(auc > 0.8 && pr_auc > 0.7, "{scores}");
    let values = rows(|row| vec![row as f32], &["size"]);
    let config = NetworkConfig::feed_forward(3).layer(Output::new(1, Loss::Mse).activation(Activation::Identity));
    let network = Network::new(config).expect("a network");
    let of_numbers = Evaluator::new(&values.shape().targets, &network, Thresholds::Exact).expect("targets");
    assert!(of_numbers.with_threshold(0.5).is_none(), "numbers have no threshold");
}

#[test]
fn columns_are_as_important_as_the_model_needs_them() {
    let data = classes();
    let config = NetworkConfig::feed_forward(3)
        .layer(Dense::new(6).activation(Activation::Tanh))
        .layer(Output::new(2, Loss::CrossEntropy).activation(Activation::Softmax));
    let model = trained(config, &data);
    let network = model.network.clone();
    let inference = ParallelInference::builder(model).workers(2).build().expect("a model");
    let found = inference.importance(&network, &data, 16, 5, 1).expect("columns with names");
    assert_eq!((found.metric, found.columns.len()), (Metric::Accuracy, 3));
    let names: Vec<&str> = found.columns.iter().map(|column| column.column.as_str()).collect();
    assert_eq!(names[0], "says", "{found:?}");
    assert!(found.columns[0].mean > 0.2, "{found:?}");
    let noise = found.columns.iter().find(|column| column.column == "noise").expect("a column");
    assert!(noise.mean.abs() < 0.1, "{found:?}");
    assert_eq!(inference.importance(&network, &data, 50, 5, 1).expect("as before"), found, "whatever the batch is");
    let unnamed = rows(|row| vec![row as f32], &["size"]);
    let error = inference.importance(&network, &unnamed, 16, 1, 1).expect_err("no names").to_string();
    assert_eq!(error, "`--importance` is for data whose columns have names, such as tables");
}
