//! Layers that stay as they are, and biases that learn by rules of their own.

use paceline_model::{Model, PartwiseModel, Progress};
use paceline_nn::config::{BatchNorm, Conv2d, Dense, Dropout, NetworkConfig, Output, Subsampling};
use paceline_nn::{Activation, Engine, Loss, Network, Updater};

use crate::networks::batch_for;

fn three(frozen: bool) -> Network {
    let middle = Dense::new(7).activation(Activation::Tanh).name("middle");
    let config = NetworkConfig::feed_forward(5)
        .seed(3)
        .l2(0.1)
        .updater(Updater::nesterovs(0.1, 0.9))
        .layer(Dense::new(6).activation(Activation::Tanh).name("first"))
        .layer(if frozen { middle.frozen() } else { middle })
        .layer(Output::new(3, Loss::Mse).activation(Activation::Identity));
    Network::new(config).expect("a network")
}

#[test]
fn a_frozen_layer_lets_slopes_through_and_stays() {
    let (frozen, free) = (three(true), three(false));
    let batch = batch_for(&free, 9, 1);
    let gradient = |network: &Network| {
        let mut engine = Engine::new(network.clone()).poisoned();
        let mut state = engine.initial_state();
        engine.gradient(&batch, &mut state).expect("a batch that fits");
        state.gradient
    };
    let (found, expected) = (gradient(&frozen), gradient(&free));
    for parameter in frozen.parameters() {
        let (own, range) = (parameter.name.starts_with("middle."), parameter.range.clone());
        let is_right =
            if own { found[range].iter().all(|g| *g == 0.0) } else { found[range.clone()] == expected[range] };
        assert!(is_right, "{}", parameter.name);
    }
    let mut engine = Engine::new(frozen.clone());
    let mut state = engine.initial_state();
    for iteration in 0..3 {
        engine.train(&batch, &mut state, Progress { iteration, epoch: 0 }).expect("a batch that fits");
    }
    let first = engine.initial_state();
    for parameter in frozen.parameters() {
        let stays = state.parameters[parameter.range.clone()] == first.parameters[parameter.range.clone()];
        assert_eq!(stays, parameter.name.starts_with("middle."), "{}", parameter.name);
    }
}

#[test]
fn a_frozen_layer_works_in_training_as_when_predicting() {
    let config = NetworkConfig::image(6, 6, 2)
        .layer(Conv2d::new(4, [3, 3]).name("conv"))
        .layer(BatchNorm::default().activation(Activation::RandomRelu { lower: 0.1, upper: 0.3 }).frozen().name("norm"))
        .layer(Dropout::new(0.5).frozen())
        .layer(Output::new(3, Loss::CrossEntropy).activation(Activation::Softmax));
    let network = Network::new(config).expect("a network");
    let mut engine = Engine::new(network.clone()).poisoned();
    let mut state = engine.initial_state();
    state.running.iter_mut().enumerate().for_each(|(at, value)| *value = 0.5 + at as f32);
    let (batch, running) = (batch_for(&network, 8, 1), state.running.clone());
    let trained = engine.gradient(&batch, &mut state).expect("a batch that fits");
    let predicted = engine.predict(&batch, &state, &mut Vec::new()).expect("a batch that fits").expect("targets");
    assert_eq!(trained.sum, predicted.sum);
    assert!(state.running == running, "running statistics stay");
    let conv = network.parameters().iter().find(|parameter| parameter.name == "conv.weight").expect("weights");
    let slopes = state.gradient[conv.range.clone()].to_vec();
    // By differences: what lies before it learns through it.
    for at in [0, 7, 20] {
        let (place, step) = (conv.range.start + at, 1e-2);
        let mut loss = |change: f32| {
            let mut moved = state.clone();
            moved.parameters[place] += change;
            engine.predict(&batch, &moved, &mut Vec::new()).expect("a batch that fits").expect("targets").sum
        };
        let slope = (loss(step) - loss(-step)) / (2.0 * f64::from(step));
        assert!((slope - f64::from(slopes[at])).abs() < 0.02 * slope.abs().max(0.1), "{at}: {slope}, {}", slopes[at]);
    }
}

#[test]
fn biases_may_have_an_updater_of_their_own() {
    let config = NetworkConfig::feed_forward(5).updater(Updater::sgd(0.1)).bias_updater(Updater::sgd(0.0));
    let network = Network::new(config.layer(Output::new(3, Loss::Mse).bias_init(0.5))).expect("a network");
    let mut engine = Engine::new(network.clone());
    let mut state = engine.initial_state();
    let batch = batch_for(&network, 9, 1);
    engine.train(&batch, &mut state, Progress::default()).expect("a batch that fits");
    let first = engine.initial_state();
    for parameter in network.parameters() {
        let stays = state.parameters[parameter.range.clone()] == first.parameters[parameter.range.clone()];
        assert_eq!(stays, parameter.name == "0.bias", "{}", parameter.name);
    }
}

#[test]
fn a_strict_window_refuses_what_it_would_not_see() {
    let of = |layer: paceline_nn::config::LayerConfig| {
        Network::new(NetworkConfig::image(8, 9, 1).layer(layer).layer(Output::by_task(2))).map(|_| ())
    };
    assert!(of(Conv2d::new(2, [3, 3]).stride([2, 2]).into()).is_ok());
    let error = of(Conv2d::new(2, [3, 3]).stride([2, 2]).strict().into()).expect_err("a row is left over").to_string();
    assert!(error.contains("(left over: 1×0)"), "{error}");
    assert!(of(Conv2d::new(2, [2, 3]).stride([2, 2]).strict().into()).is_ok());
    assert!(of(Subsampling::max([2, 2]).strict().into()).is_err());
}
