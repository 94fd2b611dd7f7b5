//! Thousands of histories hold, reach every rare state, and notice every planted mistake.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use paceline_exchange::Planted;
use paceline_sim::{Rare, Rules, World};

const SEEDS: u64 = 2000;
/// A planted mistake must show within so many seeds.
const SEEDS_UNTIL_CAUGHT: u64 = 600;

/// Every one of these must have come about in the seeds of a run, whatever the rules.
const RARE: [&str; 16] = [
    "a checkpoint was published",
    "a donor died",
    "a master died",
    "a master was succeeded while it stood still",
    "a run rolled back to its checkpoint",
    "a run waited for workers",
    "a view began",
    "a worker came back as another incarnation",
    "a worker died when it had sent its state to the master",
    "a worker was silent",
    "an example killed its worker",
    "an old master learnt that it was succeeded",
    "an old master was fenced",
    "examples were set aside",
    "the master carried what two workers say",
    "two workers never reached each other again",
];
const RARE_IN_ROUNDS: [&str; 6] = [
    "a lease was given again",
    "a result was fetched from a survivor",
    "a round was computed before the one before was summed",
    "a round was taken again",
    "a view waited for steps that were taken alone",
    "what was computed ahead was dropped",
];
const RARE_IN_SHARING: [&str; 5] = [
    "a lease was given again",
    "a step sent nothing because somebody was slow",
    "a survivor relayed a message of a lost worker",
    "an evicted worker brought back what it had not sent",
    "what counted was taken back",
];

/// Runs something for all numbers on all cores.
fn on_all_cores(numbers: u64, work: impl Fn(u64) + Sync) {
    let next = AtomicU64::new(0);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= numbers {
                        break;
                    }
                    work(number);
                }
            });
        }
    });
}

#[test]
fn every_history_of_rounds_holds_and_all_rare_states_are_reached() {
    all_hold(Rules::Rounds, &RARE_IN_ROUNDS);
}

#[test]
fn every_history_of_sharing_holds_and_all_rare_states_are_reached() {
    all_hold(Rules::Sharing, &RARE_IN_SHARING);
}

fn all_hold(rules: Rules, also_rare: &[&str]) {
    let rare = Mutex::new(Rare::new());
    let violations = Mutex::new(Vec::new());
    on_all_cores(SEEDS, |seed| {
        let outcome = World::new(rules, seed, None).run();
        if let Some(violation) = outcome.violation {
            violations.lock().expect("no panic").push((seed, violation));
        }
        let mut rare = rare.lock().expect("no panic");
        outcome.rare.into_iter().for_each(|(what, times)| *rare.entry(what).or_default() += times);
    });
    let mut violations = violations.into_inner().expect("no panic");
    violations.sort();
    if let Some((seed, violation)) = violations.first() {
        panic!(
            "{} of {SEEDS} seeds failed; seed {seed}: {violation}\nreplay it with: cargo run --release -p paceline-sim --{} --seed {seed} --trace",
            violations.len(),
            if rules == Rules::Sharing { " --shared" } else { "" }
        );
    }
    let rare = rare.into_inner().expect("no panic");
    for what in RARE.iter().chain(also_rare) {
        assert!(rare.get(*what).is_some_and(|times| *times > 0), "never reached: {what}; reached: {rare:?}");
    }
}

#[test]
fn the_same_seed_is_the_same_history() {
    for (rules, seed) in (0..20).flat_map(|seed| [(Rules::Rounds, seed), (Rules::Sharing, seed)]) {
        let [once, twice] = [(); 2].map(|()| World::new(rules, seed, None).traced().run());
        assert!(!once.trace.is_empty());
        assert_eq!(once.trace, twice.trace, "seed {seed}");
    }
}

#[test]
fn every_planted_mistake_in_rounds_is_caught() {
    all_are_caught(Rules::Rounds, &Planted::IN_ROUNDS);
}

#[test]
fn every_planted_mistake_in_sharing_is_caught() {
    all_are_caught(Rules::Sharing, &Planted::IN_SHARING);
}

fn all_are_caught(rules: Rules, mistakes: &[Planted]) {
    let missed = Mutex::new(Vec::new());
    on_all_cores(mistakes.len() as u64, |number| {
        let mistake = mistakes[number as usize];
        let is_caught = |seed| World::new(rules, seed, Some(mistake)).run().violation.is_some();
        if !(0..SEEDS_UNTIL_CAUGHT).any(is_caught) {
            missed.lock().expect("no panic").push(mistake);
        }
    });
    assert_eq!(missed.into_inner().expect("no panic"), []);
}
