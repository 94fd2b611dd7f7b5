//! What examples and classes weigh, and what is set aside for the test.

use std::sync::Arc;

use paceline_data::{Arrays, ExampleShape, OpenOptions, Source, TargetShape, open};
use paceline_model::Targets;
use paceline_nn::config::{NetworkConfig, Output};
use paceline_nn::{Activation, Loss, Network, Updater};
use paceline_train::{ClassWeights, Event, IfFound, Job, TrainOptions, Trainer};

/// Six examples of class 0 and two of class 1 that all look alike: what is learned is how often a class comes.
fn lopsided() -> Arc<dyn Source> {
    let names = vec!["often".to_owned(), "seldom".to_owned()];
    let shape = ExampleShape { features: vec![1], targets: TargetShape::Classes { names } };
    let classes = vec![0, 0, 0, 1, 0, 0, 1, 0];
    Arc::new(Arrays::new(vec![1.0; 8], shape, Targets::Classes(classes)).expect("they fit"))
}

/// The loss of the first epoch and the probability of class 1 after many.
fn learned(class_weights: Option<ClassWeights>) -> (f64, f64) {
    let config = NetworkConfig::feed_forward(1)
        .updater(Updater::sgd(0.5))
        .weight_init(paceline_nn::WeightInit::Zero)
        .layer(Output::new(2, Loss::CrossEntropy).activation(Activation::Softmax));
    let options = TrainOptions { batch: 8, epochs: 200, class_weights, ..TrainOptions::default() };
    let trainer = Trainer::new(Network::new(config).expect("a network"), lopsided(), options).expect("they fit");
    let mut first = None;
    let outcome = trainer.run(&mut |event| {
        if let Event::Epoch { epoch: 1, loss, .. } = event {
            first = Some(*loss);
        }
    });
    let parameters = outcome.expect("a run").model.state.parameters;
    // Two weights, then two biases; the input is 1.
    let logit = f64::from(parameters[1] + parameters[3] - parameters[0] - parameters[2]);
    (first.expect("an epoch"), 1.0 / (1.0 + (-logit).exp()))
}

#[test]
fn class_weights_say_what_an_example_counts() {
    let (first, share) = learned(None);
    // Nothing is known yet: ln 2 for everybody, and then two of eight.
    assert!((first - 2f64.ln()).abs() < 1e-6, "{first}");
    assert!((share - 2.0 / 8.0).abs() < 1e-3, "{share}");
    // Two examples that count three times are as many as six: the weighted mean of the loss stays ln 2.
    let balanced = learned(Some(ClassWeights::BALANCED));
    let (first, share) = learned(Some(ClassWeights::Each(vec![1.0, 3.0])));
    // 8 / (2 · 6) and 8 / (2 · 2), which is the same up to a factor that the mean takes out.
    assert!((balanced.0 - first).abs() < 1e-6 && (balanced.1 - share).abs() < 1e-6, "{balanced:?}");
    assert!((first - 2f64.ln()).abs() < 1e-6, "{first}");
    assert!((share - 0.5).abs() < 1e-3, "{share}");
    let (_, share) = learned(Some(ClassWeights::Each(vec![1.0, 0.0])));
    assert!(share < 0.02, "a class that counts nothing is not learned: {share}");
}

#[test]
fn class_weights_change_the_loss_by_the_weighted_mean() {
    // After one epoch the classes differ in their loss; the weighted mean of both is what is told.
    let loss = |class_weights| {
        let mut losses = Vec::new();
        let config = NetworkConfig::feed_forward(1)
            .learning_rate(0.0)
            .updater(Updater::sgd(0.0))
            .bias_init(0.0)
            .seed(5)
            .layer(Output::new(2, Loss::CrossEntropy).activation(Activation::Softmax));
        let class_weights = Some(ClassWeights::Each(class_weights));
        let options = TrainOptions { batch: 3, class_weights, ..TrainOptions::default() };
        let trainer = Trainer::new(Network::new(config).expect("a network"), lopsided(), options).expect("they fit");
        trainer
            .run(&mut |event| {
                if let Event::Epoch { loss, .. } = event {
                    losses.push(*loss);
                }
            })
            .expect("a run");
        losses[0]
    };
    let (only_first, only_second) = (loss(vec![1.0, 0.0]), loss(vec![0.0, 1.0]));
    assert!((only_first - only_second).abs() > 1e-3, "the classes do not differ: {only_first}, {only_second}");
    let expected = (6.0 * 0.5 * only_first + 2.0 * 4.0 * only_second) / (6.0 * 0.5 + 2.0 * 4.0);
    let found = loss(vec![0.5, 4.0]);
    assert!((found - expected).abs() < 1e-6, "expected {expected}, found {found}");
}

#[test]
fn class_weights_of_another_number_are_refused() {
    let config = NetworkConfig::feed_forward(1).layer(Output::new(2, Loss::CrossEntropy));
    let options = TrainOptions { class_weights: Some(ClassWeights::Each(vec![1.0])), ..TrainOptions::default() };
    let trainer = Trainer::new(Network::new(config).expect("a network"), lopsided(), options).expect("they fit");
    let error = trainer.run(&mut |_| {}).expect_err("one weight for two classes").to_string();
    assert!(error.contains("`class_weights`: expected 2 finite numbers"), "{error}");
}

#[test]
fn a_share_of_the_training_data_is_set_aside_for_the_test() {
    let settings = ["data.train=digits:", "data.test_share=0.25", "train.epochs=1"].map(str::to_owned);
    let mut job = Job::digits(&settings).expect("a job");
    job.data.test = None;
    let run = |job: &Job| {
        let trainer = job.trainer(None, IfFound::Refuse, &OpenOptions::default()).expect("a trainer");
        let mut examples = 0;
        let outcome = trainer.run(&mut |event| {
            if let Event::Started { examples: found, .. } = event {
                examples = *found;
            }
        });
        (examples, outcome.expect("a run").scores.expect("test data"))
    };
    let all = open("digits:", &OpenOptions::default()).expect("digits").examples();
    let (examples, scores) = run(&job);
    assert_eq!(examples, 1348, "three quarters of {all}");
    assert_eq!(scores.loss.weight, (all - 1348) as f64);
    // The same seed sets the same examples aside, another one others.
    assert_eq!(run(&job).1.loss, scores.loss);
    job.options.seed = 99;
    assert_ne!(run(&job).1.loss, scores.loss);
}
