use super::*;
use crate::membership::THROUGH_THE_MASTER;
use crate::rounds::StepSize;
use crate::rounds::message::DataProof;

const DATA: DataProof = DataProof { examples: 400, fingerprint: 7 };

fn says(master: &mut Master, member: Incarnation, said: ToMaster, now: Now) -> Vec<MasterAction> {
    master.handle(MasterEvent::Said(member, said), now)
}

fn master(members: u64) -> Master {
    master_that_expects(0, members)
}

fn master_that_expects(expected_workers: usize, members: u64) -> Master {
    let options = MasterOptions {
        mesh_limit: 16,
        min_workers: 1,
        expected_workers,
        expected_within: 5000,
        silence_limit: 100_000,
        waiting_limit: 100_000,
        waiting_told_every: 1000,
        stops_on_poison: false,
        overlap: false,
        data: Some(DATA),
        goes_on: false,
    };
    let mut master = Master::new(options, 1, 0, Schedule::new(400, 1, StepSize::Each(2)), 0);
    for member in 1..=members {
        master.handle(MasterEvent::Joined(member), 0);
        let ready =
            ToMaster::Ready { data: Brings::Whole(DATA), address: format!("host{member}"), was: None, slots: 1 };
        says(&mut master, member, ready, 10 * member);
    }
    master
}

/// Everybody freezes; gives what the members are told of the view.
fn begin(master: &mut Master, members: u64, now: Now) -> Vec<Vec<String>> {
    let view = master.view().0;
    let frozen = |member| {
        let frozen = ToMaster::Frozen { view, completed: Some(0), contributed: Vec::new(), knows: 0 };
        says(master, member, frozen, now)
    };
    let told: Vec<MasterAction> = (1..=members).flat_map(frozen).collect();
    let addresses = |action| match action {
        MasterAction::Send(_, ToMember::View { peers, .. }) => Some(peers.into_iter().map(|(_, at)| at).collect()),
        _ => None,
    };
    told.into_iter().filter_map(addresses).collect()
}

#[test]
fn whoever_joins_within_a_moment_is_in_one_view() {
    let mut master = master(5);
    assert_eq!(master.view().0, 0);
    master.handle(MasterEvent::Tick, 110);
    assert_eq!(master.view().0, 1, "one view for all of them");
    assert_eq!(begin(&mut master, 5, 120).len(), 5);
    assert_eq!(master.view().1.len(), 5);
}

#[test]
fn the_first_view_waits_for_those_who_are_expected() {
    let mut master = master_that_expects(3, 2);
    master.handle(MasterEvent::Tick, 4000);
    assert_eq!(master.view().0, 0, "one more is expected");
    master.handle(MasterEvent::Joined(3), 4000);
    let ready = ToMaster::Ready { data: Brings::Whole(DATA), address: "host3".into(), was: None, slots: 1 };
    says(&mut master, 3, ready, 4010);
    master.handle(MasterEvent::Tick, 4110);
    assert_eq!(master.view().0, 1, "all are here");
    assert_eq!(begin(&mut master, 3, 4120).len(), 3);
}

#[test]
fn the_first_view_begins_without_those_who_do_not_come() {
    let mut master = master_that_expects(3, 2);
    master.handle(MasterEvent::Tick, 5009);
    assert_eq!(master.view().0, 0, "five seconds from the first one on");
    master.handle(MasterEvent::Tick, 5010);
    assert_eq!(master.view().0, 1);
    assert_eq!(begin(&mut master, 2, 5020).len(), 2);
    // Whoever comes later is waited for no longer than others.
    master.handle(MasterEvent::Joined(3), 6000);
    let ready = ToMaster::Ready { data: Brings::Whole(DATA), address: "host3".into(), was: None, slots: 1 };
    says(&mut master, 3, ready, 6010);
    master.handle(MasterEvent::Tick, 6110);
    assert_eq!(master.view().0, 2);
}

#[test]
fn all_links_that_are_broken_are_mended_in_one_view() {
    let mut master = master(6);
    master.handle(MasterEvent::Tick, 110);
    begin(&mut master, 6, 120);
    let mut now = 1000;
    for expected in [2, 3] {
        let view = master.view().0;
        for (member, peer) in (1..=5).flat_map(|member| (member + 1..=6).map(move |peer| (member, peer))) {
            now += 1;
            says(&mut master, member, ToMaster::Unreachable { view, peer }, now);
        }
        now += 100;
        master.handle(MasterEvent::Tick, now);
        assert_eq!(master.view().0, expected);
        let addresses = begin(&mut master, 6, now);
        let relayed = addresses.iter().flatten().filter(|address| *address == THROUGH_THE_MASTER).count();
        // The first time all are tried again, the second time the master carries what they say.
        assert_eq!(relayed, if expected == 2 { 0 } else { 30 });
        now += 1000;
    }
}
