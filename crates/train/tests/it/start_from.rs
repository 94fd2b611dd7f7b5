//! A run that begins with what another one has learned.

use std::sync::Arc;

use paceline_data::{Normaliser, NormaliserKind, OpenOptions, Source, Subset, open};
use paceline_nn::config::{BatchNorm, Dense, NetworkConfig, Output};
use paceline_nn::{Activation, Loss, ModelFile, Network, Updater};
use paceline_train::{Error, Event, Outcome, Take, TrainOptions, Trainer};

fn network(units: usize, updater: Updater) -> Network {
    let config = NetworkConfig::image(8, 8, 1)
        .seed(3)
        .updater(updater)
        .layer(Dense::new(units))
        .layer(BatchNorm::default().activation(Activation::Relu))
        .layer(Output::new(10, Loss::CrossEntropy).activation(Activation::Softmax));
    Network::new(config).expect("a network")
}

fn digits(examples: usize) -> Arc<dyn Source> {
    Arc::new(Subset::first(open("digits:", &OpenOptions::default()).expect("digits"), examples))
}

fn trainer(epochs: u64, updater: Updater) -> Trainer {
    let normaliser = Some(NormaliserKind::Standardise);
    let options = TrainOptions { batch: 30, epochs, normaliser, ..TrainOptions::default() };
    Trainer::new(network(16, updater), digits(400), options).expect("they fit")
}

fn run(trainer: &Trainer) -> (Outcome, f64) {
    let mut first = None;
    let outcome = trainer.run(&mut |event| {
        if let Event::Epoch { loss, .. } = event {
            first = first.or(Some(*loss));
        }
    });
    (outcome.expect("a run"), first.expect("an epoch"))
}

fn same(one: &ModelFile, two: &ModelFile) -> bool {
    let bits = |file: &ModelFile| -> Vec<u32> {
        let arrays = [&file.state.parameters, &file.state.running].into_iter().chain(&file.state.slots);
        arrays.flat_map(|array| array.iter().map(|value| value.to_bits())).collect()
    };
    bits(one) == bits(two) && one.progress == two.progress
}

#[test]
fn a_run_that_takes_everything_over_goes_on_as_if_it_had_never_ended() {
    let adam = Updater::adam(0.01);
    let (whole, _) = run(&trainer(5, adam.clone()));
    let (first, _) = run(&trainer(2, adam.clone()));
    let rest = trainer(3, adam).begin_with(&first.model, Take::Everything).expect("the same network");
    let (rest, _) = run(&rest);
    assert!(same(&rest.model, &whole.model), "the bits of a run that did not end");
}

#[test]
fn what_was_learned_is_taken_over_and_the_updater_begins_anew() {
    let (first, loss_of_new) = run(&trainer(5, Updater::adam(0.01)));
    // Another updater, which remembers other things.
    let tuned = trainer(1, Updater::sgd(0.001)).begin_with(&first.model, Take::Learned).expect("the same layers");
    assert_eq!(tuned.first_progress(), Default::default());
    assert!(tuned.first_state().parameters == first.model.state.parameters);
    assert!(tuned.first_state().running == first.model.state.running);
    let (tuned, loss) = run(&tuned);
    assert!(loss < 0.5 * loss_of_new, "{loss} after {loss_of_new}");
    assert_eq!(tuned.model.progress.epoch, 1);
}

#[test]
fn features_are_treated_as_they_were() {
    let (first, _) = run(&trainer(1, Updater::adam(0.01)));
    let options = TrainOptions { batch: 30, normaliser: Some(NormaliserKind::MinMax), ..TrainOptions::default() };
    let other = Trainer::new(network(16, Updater::adam(0.01)), digits(50), options).expect("they fit");
    let other = other.begin_with(&first.model, Take::Learned).expect("the same network");
    let expected = Normaliser::fit(NormaliserKind::Standardise, &*digits(400)).expect("numbers");
    assert_eq!(other.fit_normalisers().expect("that of the model").features, expected);
}

#[test]
fn a_model_of_another_network_is_refused_by_what_differs() {
    let (first, _) = run(&trainer(1, Updater::adam(0.01)));
    let refused = |network: Network, take| -> String {
        let trainer = Trainer::new(network, digits(50), TrainOptions::default()).expect("they fit");
        match trainer.begin_with(&first.model, take).err().expect("another network") {
            error @ Error::OtherModel { .. } => error.to_string(),
            other => panic!("{other}"),
        }
    };
    let wide = refused(network(17, Updater::adam(0.01)), Take::Learned);
    assert!(wide.contains("`0.weight` [64, 17]") && wide.contains("`0.weight` [64, 16]"), "{wide}");
    let mut broken = first.model.clone();
    broken.state.parameters[5] = f32::NAN;
    let told = trainer(1, Updater::adam(0.01)).begin_with(&broken, Take::Learned).err().expect("no number").to_string();
    assert!(told.contains("`0.weight` with one that is not finite"), "{told}");
    let other = refused(network(16, Updater::sgd(0.1)), Take::Everything);
    assert!(other.contains("remembers nothing") && other.contains("remembers `mean`, `square`"), "{other}");
}
