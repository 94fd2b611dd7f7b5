//! Thousands of histories of the shipped loops hold, reach every rare state, and notice every planted mistake.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use paceline_exchange::Planted;
use paceline_sim::{Rare, Rules, World};

const SEEDS: u64 = 2000;
/// A planted mistake must show within so many seeds.
const SEEDS_UNTIL_CAUGHT: u64 = 1500;

/// Every one of these must have come about in the seeds of a run, whatever the rules.
const RARE: [&str; 26] = [
    "a checkpoint could not be written",
    "a checkpoint was published",
    "a clock jumped",
    "a donor died",
    "a lease was given again",
    "a master died",
    "a master led on when the coordinator was back",
    "a master stood still and went on",
    "a master was succeeded while it stood still",
    "a run rolled back to its checkpoint",
    "a run waited for workers",
    "a state was on its way for long",
    "a view began",
    "a view was a tree",
    "a worker came back as another incarnation",
    "a worker died when it had sent its state to the master",
    "a worker left for an error of its own",
    "a worker was silent",
    "an example killed its worker",
    "an old master learnt that it was succeeded",
    "an old master was fenced",
    "examples were set aside",
    "one was heard by another, and did not hear it",
    "the coordinator was away",
    "the master carried what two workers say",
    "two workers never reached each other again",
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

fn all_hold(rules: Rules) {
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
        let shared = if rules == Rules::Sharing { " --shared" } else { "" };
        panic!(
            "{} of {SEEDS} seeds failed; seed {seed}: {violation}\nreplay it with: cargo run --release -p paceline-sim --{shared} --seed {seed} --trace",
            violations.len(),
        );
    }
    let rare = rare.into_inner().expect("no panic");
    for what in RARE {
        assert!(rare.get(what).is_some_and(|times| *times > 0), "never reached: {what}; reached: {rare:?}");
    }
}

#[test]
fn every_history_of_rounds_holds_and_all_rare_states_are_reached() {
    all_hold(Rules::Rounds);
}

#[test]
fn every_history_of_sharing_holds_and_all_rare_states_are_reached() {
    all_hold(Rules::Sharing);
}

#[test]
fn the_same_seed_is_the_same_history() {
    for (rules, seed) in (0..10).flat_map(|seed| [(Rules::Rounds, seed), (Rules::Sharing, seed)]) {
        let [once, twice] = [(); 2].map(|()| World::new(rules, seed, None).traced().run());
        assert!(!once.trace.is_empty());
        assert_eq!(once.trace, twice.trace, "seed {seed}");
    }
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

#[test]
fn every_planted_mistake_in_rounds_is_caught() {
    all_are_caught(Rules::Rounds, &Planted::IN_ROUNDS);
    all_are_caught(Rules::Rounds, &Planted::IN_LOOPS);
}

#[test]
fn every_planted_mistake_in_sharing_is_caught() {
    all_are_caught(Rules::Sharing, &Planted::IN_SHARING);
}
