//! A replica of a run on many machines, without the machines: the same bits as a process that trains alone, and as plain loops
//! over its parts.

use std::ops::Range;
use std::sync::{Arc, Mutex};

use paceline_data::{Loader, LoaderOptions, OpenOptions, Source, Subset, open};
use paceline_exchange::reduce;
use paceline_exchange::rounds::{Assignment, Capacity, Schedule, StepSize, Steps};
use paceline_exchange::sharing::Encodes;
use paceline_model::{Batch, Model, Progress, State};
use paceline_nn::config::{BatchNorm, Conv2d, Dense, Dropout, NetworkConfig, Output};
use paceline_nn::{Activation, Engine, Loss, Network, Optimiser, Updater};
use paceline_train::{
    AveragingOptions, CoreReplica, Mode, Outer, Outlet, Parts, Replica, ReplicaMode, SharedOptions, Sink, SlotShare,
    TrainOptions, Trainer, snapshot_of,
};

/// Examples of which the last step of an epoch is short.
const EXAMPLES: usize = 181;
const STEP: usize = 24;
const EPOCHS: u64 = 2;

fn digits() -> Arc<dyn Source> {
    Arc::new(Subset::first(open("digits:", &OpenOptions::default()).expect("digits"), EXAMPLES))
}

/// Networks with dropout, batch norm, Adam and momentum.
fn networks() -> Vec<Network> {
    let output = || Output::new(10, Loss::CrossEntropy).activation(Activation::Softmax);
    let convolutional = NetworkConfig::image(8, 8, 1)
        .updater(Updater::adam(0.01))
        .layer(Conv2d::new(5, [3, 3]))
        .layer(BatchNorm::default().activation(Activation::Relu))
        .layer(Dropout::new(0.3))
        .layer(Dense::new(20).activation(Activation::Relu))
        .layer(output());
    let dense = NetworkConfig::image(8, 8, 1)
        .updater(Updater::nesterovs(0.05, 0.9))
        .layer(Dense::new(30).activation(Activation::Tanh))
        .layer(Dropout::new(0.2))
        .layer(Dense::new(12).activation(Activation::Relu))
        .layer(output());
    let mut all = Vec::new();
    for config in [convolutional, dense] {
        all.extend([1, 7].map(|seed| Network::new(config.clone().seed(seed)).expect("a network")));
    }
    all
}

fn trainer(network: &Network, workers: usize, mode: Mode) -> Trainer {
    let options = TrainOptions {
        global_batch: Some(STEP),
        workers,
        mode,
        epochs: EPOCHS,
        seed: 3,
        evaluate: false,
        ..TrainOptions::default()
    };
    Trainer::new(network.clone(), digits(), options).expect("they fit")
}

/// What one process comes to.
fn alone(network: &Network, workers: usize, mode: Mode) -> Vec<u8> {
    let outcome = trainer(network, workers, mode).run(&mut |_| {}).expect("a run");
    snapshot_of(&outcome.model.state, &[])
}

fn replica(network: &Network, mode: ReplicaMode, slots: usize) -> CoreReplica {
    let trainer = trainer(network, 1, Mode::Solo);
    let normalisers = trainer.fit_normalisers().expect("digits");
    CoreReplica::new(&trainer, mode, slots, normalisers).expect("a replica")
}

fn rounds(steps: u64, members: usize) -> Vec<Assignment> {
    let mut schedule = Schedule::new(EXAMPLES as u64, EPOCHS, StepSize::Together(STEP as u64)).in_rounds_of(steps);
    std::iter::from_fn(|| schedule.take(&vec![Capacity::of(1); members])).collect()
}

fn of_member(assignment: &Assignment, member: usize) -> Steps {
    let Assignment { epoch, iteration, slices, .. } = assignment;
    Steps { epoch: *epoch, iteration: *iteration, slice: slices[member].clone() }
}

/// Holds a whole contribution.
#[derive(Default)]
struct Whole(Mutex<(f64, Vec<f32>)>);

impl Whole {
    fn of(width: usize) -> Arc<Whole> {
        Arc::new(Self(Mutex::new((0.0, vec![f32::NAN; width]))))
    }

    fn take(&self) -> (f64, Vec<f32>) {
        std::mem::take(&mut *self.0.lock().expect("no panic"))
    }
}

impl Outlet for Whole {
    fn put(&self, part: Range<usize>, values: &[f32]) {
        self.0.lock().expect("no panic").1[part].copy_from_slice(values);
    }
}

impl Sink for Whole {
    fn begin(&self, weight: f64) {
        self.0.lock().expect("no panic").0 = weight;
    }

    fn is_void(&self) -> bool {
        false
    }
}

struct Result(Vec<f32>);

impl Parts for Result {
    fn copy(&self, from: usize, to: &mut [f32]) {
        to.copy_from_slice(&self.0[from..from + to.len()]);
    }
}

/// All members contribute to a round and commit what it came to, as members of a view do.
fn take_round(members: &mut [CoreReplica], assignment: &Assignment) {
    let layout = members[0].layout();
    let contributions: Vec<(f64, Vec<f32>)> = members
        .iter_mut()
        .enumerate()
        .map(|(index, member)| {
            let whole = Whole::of(layout.width());
            let sink: Arc<dyn Sink> = whole.clone();
            member.contribute(&of_member(assignment, index), &sink).expect("a round").expect("wanted");
            whole.take()
        })
        .collect();
    let weights: Vec<f32> = contributions.iter().map(|(weight, _)| *weight as f32).collect();
    let mut result = vec![f32::NAN; layout.width()];
    let (summed, averaged) = result.split_at_mut(layout.summed);
    reduce::sum(contributions.iter().map(|(_, values)| values[..layout.summed].iter().copied()), summed);
    let values = contributions.iter().map(|(_, values)| values[layout.summed..].iter().copied());
    reduce::mean(reduce::shares(&weights).into_iter().zip(values), averaged);
    let result: Arc<dyn Parts> = Arc::new(Result(result));
    let at = Progress { iteration: assignment.iteration, epoch: assignment.epoch };
    for member in members {
        member.commit(at, &result, f64::from(weights.iter().sum::<f32>()), None).expect("a commit");
    }
}

fn averaging(frequency: u64) -> AveragingOptions {
    AveragingOptions { frequency, ..AveragingOptions::default() }
}

fn expect_same(found: &[u8], expected: &[u8], what: &str) {
    let differ = found.chunks(4).zip(expected.chunks(4)).filter(|(a, b)| a != b).count();
    assert!(found.len() == expected.len() && differ == 0, "{what}: {differ} of {} numbers differ", found.len() / 4);
}

#[test]
fn one_member_is_a_process_that_trains_alone() {
    for network in networks() {
        for (slots, mode) in [(1, Mode::Solo), (2, Mode::Sync), (3, Mode::Sync)] {
            let expected = alone(&network, slots, mode);
            for mode in [ReplicaMode::Sync, ReplicaMode::Averaging(averaging(3))] {
                let mut member = replica(&network, mode.clone(), slots);
                let rounds = rounds(mode.steps(), 1);
                for (assignment, next) in rounds.iter().zip(rounds.iter().skip(1).map(Some).chain([None])) {
                    let steps = of_member(assignment, 0);
                    member.expect(&steps);
                    next.iter().for_each(|next| member.expect(&of_member(next, 0)));
                    member.step_alone(&steps).expect("steps");
                }
                expect_same(&bytes_of(&member), &expected, &format!("{slots} slots, {mode:?}"));
            }
        }
    }
}

#[test]
fn one_member_that_shares_is_a_process_that_shares_alone() {
    for network in networks() {
        let options = SharedOptions::default();
        let expected = alone(&network, 1, Mode::Shared(options.clone()));
        let mut member = replica(&network, ReplicaMode::Shared(options), 1);
        for assignment in rounds(1, 1) {
            let part = SlotShare { own: 1, all: 1 };
            let step = member.share(&of_member(&assignment, 0), part, Encodes::Large).expect("a step");
            assert!(step.message.is_some());
        }
        expect_same(&bytes_of(&member), &expected, "shared");
    }
}

#[test]
fn two_members_that_are_averaged_are_two_workers_of_a_process() {
    for network in networks() {
        for average_updater in [None, Some(false)] {
            let options = AveragingOptions { average_updater, ..averaging(3) };
            let outcome = trainer(&network, 2, Mode::Averaging(options)).run(&mut |_| {}).expect("a run");
            let expected = snapshot_of(&outcome.model.state, &[]);
            let mut members = [(); 2].map(|()| replica(&network, ReplicaMode::Averaging(options), 1));
            rounds(3, 2).iter().for_each(|assignment| take_round(&mut members, assignment));
            let found = bytes_of(&members[0]);
            expect_same(&found, &expected, &format!("{options:?}"));
            if average_updater.is_none() {
                expect_same(&bytes_of(&members[1]), &found, "the other member");
            }
        }
    }
}

#[test]
fn replicas_that_search_are_those_of_a_process() {
    let config = NetworkConfig::image(8, 8, 1)
        .optimiser(Optimiser::lbfgs())
        .layer(Conv2d::new(5, [3, 3]))
        .layer(BatchNorm::default().activation(Activation::Tanh))
        .layer(Output::new(10, Loss::CrossEntropy).activation(Activation::Softmax));
    let network = Network::new(config).expect("a network");
    let together = alone(&network, 2, Mode::Sync);
    let mut member = [replica(&network, ReplicaMode::Averaging(averaging(3)), 2)];
    rounds(3, 1).iter().for_each(|assignment| take_round(&mut member, assignment));
    expect_same(&bytes_of(&member[0]), &together, "two slots of one");
    let expected = alone(&network, 2, Mode::Averaging(averaging(3)));
    let mut members = [(); 2].map(|()| replica(&network, ReplicaMode::Averaging(averaging(3)), 1));
    rounds(3, 2).iter().for_each(|assignment| take_round(&mut members, assignment));
    expect_same(&bytes_of(&members[0]), &expected, "two of one slot");
}

#[test]
fn an_outer_optimiser_is_that_of_a_process() {
    let options = AveragingOptions { outer: Outer::Nesterov { learning_rate: 0.7, momentum: 0.9 }, ..averaging(4) };
    for network in networks() {
        let expected = alone(&network, 2, Mode::Averaging(options));
        let mut members = [(); 2].map(|()| replica(&network, ReplicaMode::Averaging(options), 1));
        rounds(4, 2).iter().for_each(|assignment| take_round(&mut members, assignment));
        // Behind the state lies what the outer optimiser remembers.
        expect_same(&bytes_of(&members[0])[..expected.len()], &expected, "outer");
    }
}

/// Sums the members' gradients in their order, with the plainest calls that there are.
fn plain_sync(network: &Network, members: usize) -> Vec<u8> {
    let mut models: Vec<Engine> = (0..members).map(|_| Engine::new(network.clone())).collect();
    let mut state = network.initial_state();
    let trainer = trainer(network, 1, Mode::Solo);
    let normalisers = trainer.fit_normalisers().expect("digits");
    let loader =
        Loader::new(digits(), LoaderOptions { seed: 3, normaliser: normalisers.features, ..LoaderOptions::default() });
    let loader = loader.expect("good options");
    for assignment in rounds(1, members) {
        let (mut sum, mut weights) = (vec![0.0f32; state.parameters.len()], Vec::new());
        let mut running: Vec<Vec<f32>> = Vec::new();
        for (member, model) in models.iter_mut().enumerate() {
            let spans = of_member(&assignment, member).slice.concat();
            let mut batch = Batch::empty();
            let places = spans.iter().flat_map(|span| span.start..span.end);
            loader.read(assignment.epoch, places, &mut batch).expect("examples");
            let mut own: State = state.clone();
            if batch.examples() > 0 {
                model.gradient(&batch, &mut own).expect("a batch that fits");
            }
            match member {
                0 => sum.copy_from_slice(&own.gradient),
                _ => sum.iter_mut().zip(own.gradient.iter()).for_each(|(sum, value)| *sum += value),
            }
            weights.push(batch.weight());
            running.push(own.running.to_vec());
        }
        let weight: f32 = weights.iter().sum();
        for at in 0..state.running.len() {
            let mean = |mean: f32, (member, of): (usize, &Vec<f32>)| match member {
                0 => weights[0] / weight * of[at],
                _ => mean + weights[member] / weight * of[at],
            };
            state.running[at] = running.iter().enumerate().fold(0.0, mean);
        }
        state.gradient.copy_from_slice(&sum);
        let all = 0..state.parameters.len();
        let at = Progress { iteration: assignment.iteration, epoch: assignment.epoch };
        models[0].update(&mut state, all.clone(), weight, at);
        models[0].apply(&mut state, all);
    }
    snapshot_of(&state, &[])
}

#[test]
fn members_that_take_every_step_together_are_a_plain_loop_over_their_gradients() {
    for network in networks() {
        for count in [2, 3] {
            let mut members: Vec<CoreReplica> = (0..count).map(|_| replica(&network, ReplicaMode::Sync, 1)).collect();
            rounds(1, count).iter().for_each(|assignment| take_round(&mut members, assignment));
            let expected = plain_sync(&network, count);
            for member in &members {
                expect_same(&bytes_of(member), &expected, &format!("{count} members"));
            }
        }
    }
}

#[test]
fn one_step_together_is_near_that_of_a_process_with_as_many_workers() {
    for network in networks() {
        let mut members = [(); 2].map(|()| replica(&network, ReplicaMode::Sync, 1));
        take_round(&mut members, &rounds(1, 2)[0]);
        let mut team = replica(&network, ReplicaMode::Sync, 2);
        team.step_alone(&of_member(&rounds(1, 1)[0], 0)).expect("a step");
        let [members, team] = [bytes_of(&members[0]), bytes_of(&team)];
        let before = snapshot_of(&network.initial_state(), &[]);
        let far = |a: &[u8], b: &[u8]| {
            let pairs = reduce::values(a).zip(reduce::values(b)).take(network.parameter_count());
            pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
        };
        assert!(far(&members, &before) > 1e-3, "something was learned");
        // The first network has Adam, which divides by what may be almost nothing, and magnifies what rounding left of it.
        let bound = if !network.initial_state().running.is_empty() { 1e-2 } else { 1e-6 };
        assert!(far(&members, &team) < bound, "{} apart", far(&members, &team));
    }
}

#[test]
fn a_round_that_came_to_nothing_leaves_nothing_behind() {
    let network = &networks()[0];
    for (mode, slots) in [(ReplicaMode::Sync, 1), (ReplicaMode::Sync, 2), (ReplicaMode::Averaging(averaging(3)), 2)] {
        let rounds = rounds(mode.steps(), 2);
        let mut plain = [(); 2].map(|()| replica(network, mode.clone(), slots));
        rounds[..3].iter().for_each(|assignment| take_round(&mut plain, assignment));
        let mut again = [(); 2].map(|()| replica(network, mode.clone(), slots));
        for (index, assignment) in rounds[..3].iter().enumerate() {
            let before = bytes_of(&again[1]);
            let sink: Arc<dyn Sink> = Whole::of(again[1].layout().width());
            again[1].contribute(&of_member(&rounds[5], 1), &sink).expect("a round").expect("wanted");
            expect_same(&bytes_of(&again[1]), &before, "what others get while a round is computed");
            if index == 1 {
                // A joiner takes over what another is.
                let state = bytes_of(&again[0]);
                again[1].adopt(&state.clone().into(), None).expect("a state of this run");
            }
            take_round(&mut again, assignment);
        }
        expect_same(&bytes_of(&again[1]), &bytes_of(&plain[1]), &format!("{mode:?}"));
        assert!(again[1].adopt(&vec![0; 8].into(), None).is_err_and(|error| error.contains("found 8")));
    }
}

#[test]
fn a_replica_moves_by_as_much_as_the_mean_is_away_from_what_it_gave() {
    let network = &networks()[3];
    let of = |overlap| {
        let options = AveragingOptions { overlap, average_updater: Some(false), ..averaging(2) };
        replica(network, ReplicaMode::Averaging(options), 1)
    };
    let rounds = rounds(2, 1);
    let steps = |round: usize| of_member(&rounds[round], 0);
    let width = of(false).layout().width();
    let whole = || {
        let whole = Whole::of(width);
        let sink: Arc<dyn Sink> = whole.clone();
        (whole, sink)
    };
    let result = |values: &[f32]| Arc::new(Result(values.to_vec())) as Arc<dyn Parts>;
    let at = Progress::default();

    let mut plain = of(false);
    let (first, sink) = whole();
    plain.contribute(&steps(0), &sink).expect("a round").expect("wanted");
    let (weight, first) = first.take();
    // Alone, the mean is what it gave: it goes on as if there were no rounds.
    assert!(plain.commit(at, &result(&first), weight, None).expect("a commit").is_none());
    let (second, sink) = whole();
    plain.contribute(&steps(1), &sink).expect("a round").expect("wanted");
    let second = second.take();

    let mut overlapped = of(true);
    let (given, sink) = whole();
    overlapped.contribute(&steps(0), &sink).expect("a round").expect("wanted");
    assert_eq!(given.take().1, first);
    // What was done ahead and is taken back leaves nothing behind.
    overlapped.go_ahead(&steps(3), &|| false).expect("a round");
    overlapped.drop_ahead();
    overlapped.go_ahead(&steps(1), &|| false).expect("a round");
    // Another one, as heavy, is half as large.
    let mean: Vec<f32> = first.iter().map(|value| value * 0.75).collect();
    let (next, sink) = whole();
    let contributed = overlapped.commit(at, &result(&mean), 2.0 * weight, Some(&sink)).expect("a commit");
    assert_eq!(contributed.map(|contributed| contributed.weight), Some(second.0));
    let expected = second.1.iter().zip(&first).map(|(second, first)| second + 0.75 * first - first);
    for (n, (found, expected)) in next.take().1.into_iter().zip(expected).enumerate() {
        assert!((found - expected).abs() <= 1e-5, "value {n}: expected {expected}, found {found}");
    }
    let shown = reduce::values(&bytes_of(&overlapped)).next().expect("a number");
    assert_eq!(shown, mean[0], "what others get is the mean");
}

/// What a replica is.
fn bytes_of(replica: &CoreReplica) -> Vec<u8> {
    let mut bytes = Vec::new();
    replica.snapshot(&mut bytes).expect("memory takes what is written");
    bytes
}
