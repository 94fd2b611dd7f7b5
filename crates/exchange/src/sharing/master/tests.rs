use super::*;
use crate::rounds::message::DataProof;

const DATA: DataProof = DataProof { examples: 40, fingerprint: 7 };

fn master() -> Master {
    let options = MasterOptions {
        mesh_limit: 16,
        min_workers: 1,
        expected_workers: 0,
        expected_within: 0,
        silence_limit: 1000,
        waiting_limit: 1000,
        waiting_told_every: 1000,
        stops_on_poison: false,
        overlap: false,
        data: Some(DATA),
        goes_on: false,
    };
    let sharing = SharingOptions { share: StepSize::Each(2), steps_per_lease: 2, save_every: None };
    Master::new(options, sharing, 1, 0, Schedule::new(40, 1, StepSize::Each(2)), 0)
}

fn says(master: &mut Master, member: Incarnation, report: Report) -> Vec<MasterAction> {
    master.handle(MasterEvent::Said(member, ToMaster::Sharing(report)), 1)
}

/// Three members with a state, in a view.
fn three() -> Master {
    let mut master = master();
    for member in 1..=3 {
        master.handle(MasterEvent::Joined(member), 0);
        let ready = ToMaster::Ready { data: Brings::Whole(DATA), address: String::new(), was: None, slots: 1 };
        master.handle(MasterEvent::Said(member, ready), 0);
    }
    master.handle(MasterEvent::Tick, FIRST_GATHERED_FOR);
    let view = master.view().0;
    for member in 1..=3 {
        says(&mut master, member, Report::Holds { view, has_state: false, have: Vec::new(), knows: 0 });
    }
    for member in 1..=3 {
        says(&mut master, member, Report::CaughtUp { view });
        says(&mut master, member, Report::Wants { done: Mark::default() });
    }
    master
}

fn have(sequence: Sequence, lease: LeaseId, examples: u64) -> Have {
    Have { sequence, covered: Mark { lease, examples } }
}

#[test]
fn what_the_messages_up_to_the_cut_cover_counts_and_the_rest_comes_again() {
    let mut master = three();
    let lease = master.holdings[&3].leases[0].id;
    master.handle(MasterEvent::LinkLost(3, "reset".into()), 1);
    let view = master.view().0;
    says(&mut master, 1, Report::Holds { view, has_state: true, have: vec![(3, have(1, lease, 2), 1)], knows: 0 });
    let told =
        says(&mut master, 2, Report::Holds { view, has_state: true, have: vec![(3, Have::default(), 1)], knows: 0 });
    let again = Told::LeaseAgain { member: 3, examples: 2 };
    assert!(told.contains(&MasterAction::Tell(again)), "{told:?}");
    assert_eq!(master.counted(), 2);
    let cut = |action: &MasterAction| match action {
        MasterAction::Send(2, ToMember::Sharing(Order::View(view))) => Some(view.cuts.clone()),
        _ => None,
    };
    assert_eq!(told.iter().find_map(cut), Some(vec![(3, have(1, lease, 2), 1)]), "one holds what two lacks");
}

/// What is told of progress is what counts, not what the newest checkpoint has, and of one length for every member.
#[test]
fn steps_are_told_as_they_count_and_those_that_come_again_are_not_counted() {
    let mut master = three();
    let lease = master.holdings[&3].leases[0].id;
    let told = |actions: Vec<MasterAction>| -> Vec<(u64, u64)> {
        let counted = |action| match action {
            MasterAction::Tell(Told::Shared { counted, steps, .. }) => Some((counted, steps)),
            _ => None,
        };
        actions.into_iter().filter_map(counted).collect()
    };
    // A step of all three is six examples; a lease is two steps of one of them.
    let covered = |lease, examples| Report::Covered { one: Mark { lease, examples }, all: Mark::default() };
    assert_eq!(told(says(&mut master, 3, covered(lease, 2))), [(2, 1)], "a third of a step");
    let other = master.holdings[&1].leases[0].id;
    assert_eq!(told(says(&mut master, 1, covered(other, 4))), [(6, 1)]);
    master.handle(MasterEvent::LinkLost(3, "reset".into()), 1);
    let view = master.view().0;
    says(&mut master, 1, Report::Holds { view, has_state: true, have: vec![(3, have(1, lease, 2), 1)], knows: 0 });
    says(&mut master, 2, Report::Holds { view, has_state: true, have: vec![(3, have(1, lease, 2), 1)], knows: 0 });
    let second = master.holdings[&2].leases[0].id;
    assert_eq!(told(says(&mut master, 2, covered(second, 4))), [(10, 2)], "and what was lost counts for nothing");
    assert!(master.pace.begun() <= master.schedule.pace().begun());
}

#[test]
fn who_lacks_what_nobody_can_give_takes_a_state_instead() {
    let mut master = three();
    let lease = master.holdings[&3].leases[0].id;
    master.handle(MasterEvent::LinkLost(3, "reset".into()), 1);
    let view = master.view().0;
    // One has got the first three messages with a state, and cannot give them to two.
    says(&mut master, 1, Report::Holds { view, has_state: true, have: vec![(3, have(3, lease, 4), 4)], knows: 0 });
    let told =
        says(&mut master, 2, Report::Holds { view, has_state: true, have: vec![(3, have(1, lease, 2), 1)], knows: 0 });
    let stops = |action: &MasterAction| match action {
        MasterAction::Send(2, ToMember::Stop { reason, rejoin: true }) => Some(reason.clone()),
        _ => None,
    };
    let reason = told.iter().find_map(stops).unwrap_or_default();
    assert!(reason.contains("that nobody keeps"), "{told:?}");
}

/// What is in the last checkpoint was lost a second time with its only holder, and set aside.
#[test]
fn a_checkpoint_with_fewer_examples_is_taken_when_no_more_is_left() {
    // What was set aside was the last that was left, or not.
    for less in [2, 0] {
        takes_fewer_examples(less);
    }
}

#[track_caller]
fn takes_fewer_examples(less: u64) {
    let mut master = three();
    let rest_of = |examples| {
        let mut rest = Schedule::new(40, 1, StepSize::Each(2));
        rest.take_some(examples, &Capacity::of(1));
        rest
    };
    let member = 1;
    let vector: Vec<(Incarnation, Have)> = (1..=3)
        .map(|member| (member, have(1, master.holdings[&member].leases.last().map_or(0, |lease| lease.id), 4)))
        .collect();
    let (view, given) = (master.view().0, master.holdings.values().flat_map(|h| &h.leases).map(Lease::examples).sum());
    master.saving = Saving::new(given + 2, rest_of(given - less));
    master.save_wanted = true;
    master.handle(MasterEvent::Tick, 2);
    let state = MasterEvent::SharedStateArrived { member, view, epoch: 0, round: given, vector };
    let told = master.handle(state, 2);
    let is_published = |action: &MasterAction| matches!(action, MasterAction::Persist { round, .. } if *round == given);
    assert!(told.iter().any(is_published), "{told:?}");
}

#[test]
fn nobody_holds_more_than_a_whole_lease() {
    let mut master = three();
    let out = |master: &Master| master.holdings[&1].leases.iter().map(Lease::examples).sum::<u64>();
    assert_eq!(out(&master), 4, "two steps of two examples");
    let lease = master.holdings[&1].leases[0].id;
    // Two of the four are held by another.
    let covered = Mark { lease, examples: 2 };
    says(&mut master, 1, Report::Covered { one: covered, all: Mark::default() });
    says(&mut master, 1, Report::Wants { done: Mark::default() });
    assert_eq!(out(&master) - 2, 4);
}
