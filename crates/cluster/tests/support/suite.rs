//! What every coordinator promises. Each function gets a maker of candidates that share one fresh coordinator.

use std::collections::BTreeSet;
use std::thread;
use std::time::Duration;

use paceline_cluster::coordination::{Coordination, CoordinationError, Loss, RECORD_LIMIT, RunRecord};

/// One test for every promise of the trait, with candidates that `$maker` makes for one coordinator.
macro_rules! conformance {
    ($coordinator:expr, $($promise:ident,)+) => {
        $(
            #[test]
            fn $promise() {
                let coordinator = $coordinator;
                crate::suite::$promise(&|| coordinator.candidate());
            }
        )+
    };
    ($coordinator:expr) => {
        crate::suite::conformance!(
            $coordinator,
            terms_grow_from_leader_to_leader,
            a_leader_that_leads_again_takes_a_new_term,
            a_second_candidate_waits_and_leads_after_the_first_resigned,
            a_second_candidate_waits_and_leads_after_the_first_was_dropped,
            a_candidate_that_leaves_the_queue_does_not_let_the_next_one_lead,
            candidates_in_a_hurry_never_share_a_term,
            an_old_leader_cannot_publish,
            who_does_not_lead_is_told_so,
            what_was_published_survives_its_leader,
            a_record_of_another_term_or_too_large_is_refused_and_the_old_one_stays,
            find_waits_for_a_newer_term,
            nobody_is_found_when_nobody_leads,
            a_leader_that_has_not_published_is_not_found,
            workers_appear_and_vanish,
        );
    };
}
pub(crate) use conformance;

pub(crate) type Maker<'a> = &'a (dyn Fn() -> Box<dyn Coordination> + Sync);

/// Long enough for everything that happens.
pub(crate) const LONG: Duration = Duration::from_secs(30);
/// For what must not happen.
const SHORT: Duration = Duration::from_millis(150);

/// The record of a term.
pub(crate) fn record(term: u64) -> RunRecord {
    RunRecord {
        run: 0xfeed_5eed_0000_0001,
        term,
        address: format!("127.0.0.1:{}", 4000 + term),
        key: Some("5f:a0".into()),
        job: "[data]\ntrain = \"digits:train\"\n".into(),
        checkpoint: Some(format!("runs/a/checkpoint-{term}.safetensors")),
        stage: paceline_cluster::coordination::RunStage::Running,
    }
}

/// Leads; fails unless it does.
#[track_caller]
pub(crate) fn led(candidate: &mut dyn Coordination) -> u64 {
    candidate.lead(LONG).expect("no error").expect("to lead").term
}

#[track_caller]
fn is_fenced(result: Result<(), CoordinationError>, expected: (u64, u64)) {
    match result {
        Err(CoordinationError::Fenced { mine, newest }) => assert_eq!((mine, newest), expected),
        other => panic!("expected to be fenced, got {other:?}"),
    }
}

#[track_caller]
fn is_lost(result: Result<(), CoordinationError>, expected: Loss) {
    match result {
        Err(CoordinationError::Lost { reason }) => assert_eq!(reason, expected),
        other => panic!("expected {expected:?}, got {other:?}"),
    }
}

pub(crate) fn terms_grow_from_leader_to_leader(candidate: Maker<'_>) {
    let mut first = candidate();
    assert_eq!(led(&mut *first), 1);
    first.resign();
    let mut second = candidate();
    assert_eq!(led(&mut *second), 2);
    drop(second);
    assert_eq!(led(&mut *first), 3, "one that resigned may lead again");
    drop(first);
    assert_eq!(led(&mut *candidate()), 4);
}

pub(crate) fn a_leader_that_leads_again_takes_a_new_term(candidate: Maker<'_>) {
    let mut leader = candidate();
    assert_eq!(led(&mut *leader), 1);
    assert_eq!(led(&mut *leader), 2);
    leader.check().expect("it leads term 2");
    leader.publish(&record(2)).expect("it leads term 2");
}

pub(crate) fn a_second_candidate_waits_and_leads_after_the_first_resigned(candidate: Maker<'_>) {
    waits_until(candidate, |first| first.resign());
}

pub(crate) fn a_second_candidate_waits_and_leads_after_the_first_was_dropped(candidate: Maker<'_>) {
    let mut first = Some(candidate());
    waits_until_gone(candidate, &mut first, |first| drop(first.take()));
}

fn waits_until(candidate: Maker<'_>, goes: impl FnOnce(&mut Box<dyn Coordination>)) {
    let mut first = Some(candidate());
    waits_until_gone(candidate, &mut first, |first| goes(first.as_mut().expect("it is there")));
}

fn waits_until_gone(
    candidate: Maker<'_>,
    first: &mut Option<Box<dyn Coordination>>,
    goes: impl FnOnce(&mut Option<Box<dyn Coordination>>),
) {
    let term = led(&mut **first.as_mut().expect("it is there"));
    assert_eq!(term, 1);
    let mut second = candidate();
    assert_eq!(second.lead(SHORT).expect("no error"), None, "the first one leads");
    assert_eq!(second.lead(Duration::ZERO).expect("no error"), None, "the first one leads");
    first.as_mut().expect("it is there").check().expect("the first one leads");
    thread::scope(|scope| {
        let waiting = scope.spawn(|| led(&mut *second));
        goes(first);
        assert_eq!(waiting.join().expect("no panic"), 2);
    });
    second.check().expect("the second one leads");
    if let Some(first) = first {
        first.check().expect_err("the first one does not lead");
    }
}

pub(crate) fn a_candidate_that_leaves_the_queue_does_not_let_the_next_one_lead(candidate: Maker<'_>) {
    let (mut first, mut second, mut third) = (candidate(), candidate(), candidate());
    led(&mut *first);
    assert_eq!(second.lead(SHORT).expect("no error"), None);
    assert_eq!(third.lead(SHORT).expect("no error"), None);
    second.resign();
    assert_eq!(third.lead(SHORT).expect("no error"), None, "the first one still leads");
    first.check().expect("it leads");
    drop(first);
    assert_eq!(led(&mut *third), 2);
}

pub(crate) fn candidates_in_a_hurry_never_share_a_term(candidate: Maker<'_>) {
    const CANDIDATES: usize = 4;
    const TIMES: usize = 3;
    let terms = thread::scope(|scope| {
        let hurried: Vec<_> = (0..CANDIDATES)
            .map(|_| {
                scope.spawn(|| {
                    let mut candidate = candidate();
                    let mut terms = Vec::new();
                    for _ in 0..TIMES {
                        let term = led(&mut *candidate);
                        candidate.publish(&record(term)).expect("it leads");
                        candidate.check().expect("it leads");
                        terms.push(term);
                        candidate.resign();
                    }
                    assert!(terms.is_sorted(), "{terms:?}");
                    terms
                })
            })
            .collect();
        hurried.into_iter().flat_map(|candidate| candidate.join().expect("no panic")).collect::<Vec<_>>()
    });
    let distinct: BTreeSet<_> = terms.iter().copied().collect();
    assert_eq!(distinct.len(), CANDIDATES * TIMES, "{terms:?}");
    let next = candidate().lead(LONG).expect("no error").expect("to lead");
    let last = distinct.last().copied().expect("twelve terms");
    assert!(next.term > last, "{} after {distinct:?}", next.term);
    assert_eq!(next.found, Some(record(last)), "the newest record stays");
}

pub(crate) fn an_old_leader_cannot_publish(candidate: Maker<'_>) {
    let (mut old, mut new) = (candidate(), candidate());
    assert_eq!(led(&mut *old), 1);
    old.publish(&record(1)).expect("it leads");
    old.resign();
    is_lost(old.publish(&record(1)), Loss::Resigned { term: 1 });
    assert_eq!(led(&mut *new), 2);
    is_fenced(old.publish(&record(1)), (1, 2));
    new.publish(&record(2)).expect("it leads");
    is_fenced(old.publish(&record(1)), (1, 2));
    assert_eq!(candidate().find(0, LONG).expect("no error"), Some(record(2)));
}

pub(crate) fn who_does_not_lead_is_told_so(candidate: Maker<'_>) {
    let mut one = candidate();
    is_lost(one.check(), Loss::NeverLed);
    is_lost(one.publish(&record(1)), Loss::NeverLed);
    led(&mut *one);
    one.check().expect("it leads");
    one.resign();
    is_lost(one.check(), Loss::Resigned { term: 1 });
    one.resign();
}

pub(crate) fn what_was_published_survives_its_leader(candidate: Maker<'_>) {
    let mut first = candidate();
    assert_eq!(first.lead(LONG).expect("no error").expect("to lead").found, None);
    first.publish(&RunRecord { checkpoint: None, ..record(1) }).expect("it leads");
    first.publish(&record(1)).expect("it leads");
    drop(first);
    let mut second = candidate();
    assert_eq!(second.lead(LONG).expect("no error").expect("to lead").found, Some(record(1)));
    drop(second);
    let found = candidate().lead(LONG).expect("no error").expect("to lead").found;
    assert_eq!(found, Some(record(1)), "the second one has published nothing");
}

pub(crate) fn a_record_of_another_term_or_too_large_is_refused_and_the_old_one_stays(candidate: Maker<'_>) {
    let mut leader = candidate();
    led(&mut *leader);
    leader.publish(&record(1)).expect("it leads");
    match leader.publish(&record(2)) {
        Err(CoordinationError::OtherTerm { mine: 1, found: 2 }) => {}
        other => panic!("{other:?}"),
    }
    let large = RunRecord { job: "x".repeat(RECORD_LIMIT), ..record(1) };
    match leader.publish(&large) {
        Err(CoordinationError::RecordTooLarge { limit: RECORD_LIMIT, .. }) => {}
        other => panic!("{other:?}"),
    }
    assert_eq!(candidate().find(0, LONG).expect("no error"), Some(record(1)));
    let largest = RunRecord { job: "x".repeat(RECORD_LIMIT - 1000), ..record(1) };
    leader.publish(&largest).expect("not too large");
    assert_eq!(candidate().find(0, LONG).expect("no error"), Some(largest));
}

pub(crate) fn find_waits_for_a_newer_term(candidate: Maker<'_>) {
    let (mut first, mut second, mut worker) = (candidate(), candidate(), candidate());
    assert_eq!(worker.find(0, SHORT).expect("no error"), None, "nobody has led yet");
    thread::scope(|scope| {
        let finding = scope.spawn(|| worker.find(0, LONG).expect("no error"));
        led(&mut *first);
        first.publish(&record(1)).expect("it leads");
        assert_eq!(finding.join().expect("no panic"), Some(record(1)));
    });
    assert_eq!(worker.find(0, Duration::ZERO).expect("no error"), Some(record(1)), "it is there already");
    assert_eq!(worker.find(1, SHORT).expect("no error"), None, "there is no newer one");
    thread::scope(|scope| {
        let finding = scope.spawn(|| worker.find(1, LONG).expect("no error"));
        first.publish(&record(1)).expect("it leads");
        first.resign();
        led(&mut *second);
        second.publish(&record(2)).expect("it leads");
        assert_eq!(finding.join().expect("no panic"), Some(record(2)));
    });
}

pub(crate) fn nobody_is_found_when_nobody_leads(candidate: Maker<'_>) {
    let (mut leader, mut worker) = (candidate(), candidate());
    led(&mut *leader);
    leader.publish(&record(1)).expect("it leads");
    leader.resign();
    assert_eq!(worker.find(0, SHORT).expect("no error"), None);
}

pub(crate) fn a_leader_that_has_not_published_is_not_found(candidate: Maker<'_>) {
    let (mut first, mut second, mut worker) = (candidate(), candidate(), candidate());
    led(&mut *first);
    first.publish(&record(1)).expect("it leads");
    first.resign();
    led(&mut *second);
    assert_eq!(worker.find(0, SHORT).expect("no error"), None, "the record is that of an old term");
    second.publish(&record(2)).expect("it leads");
    assert_eq!(worker.find(0, Duration::ZERO).expect("no error"), Some(record(2)));
}

pub(crate) fn workers_appear_and_vanish(candidate: Maker<'_>) {
    let (mut master, mut one, mut two) = (candidate(), candidate(), candidate());
    assert_eq!(master.workers().expect("no error"), [""; 0]);
    one.register("one").expect("a good name");
    two.register("two.example:7").expect("a good name");
    two.register("one").expect("a name that two have");
    assert_eq!(master.workers().expect("no error"), ["one", "two.example:7"]);
    match one.register("a/b") {
        Err(CoordinationError::BadName { name, .. }) => assert_eq!(name, "a/b"),
        other => panic!("{other:?}"),
    }
    drop(two);
    assert_eq!(master.workers().expect("no error"), ["one"]);
    drop(one);
    assert_eq!(master.workers().expect("no error"), [""; 0]);
}
