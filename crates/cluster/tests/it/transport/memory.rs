use paceline_cluster::transport::{MemoryHub, MemoryTransport, TransportEvent};

use super::conformance::conformance;
use super::side::{Pair, Side, Wanted, frame};

fn make_on(hub: &MemoryHub, wanted: &Wanted) -> Pair {
    let side =
        |address| Side::new(wanted.events, |events| MemoryTransport::new(hub, address, wanted.limits.clone(), events));
    Pair { a: side("a"), b: side("b"), nobody: "nobody".to_owned() }
}

fn make(wanted: &Wanted) -> Pair {
    make_on(&MemoryHub::new(), wanted)
}

conformance!();

#[test]
fn a_cut_loses_what_is_on_the_way_and_tells_both() {
    let hub = MemoryHub::new();
    let mut pair = make_on(&hub, &Wanted::default());
    let (from, to) = pair.link();
    pair.a.send(from, frame(1, vec![]));
    assert_eq!(pair.b.frame(), frame(1, vec![]));
    hub.stall(to);
    pair.a.send(from, frame(2, vec![]));
    hub.cut(to);
    assert_eq!(pair.b.next(), TransportEvent::Closed { link: to, reason: "the link was cut".to_owned() });
    assert_eq!(pair.a.next(), TransportEvent::Closed { link: from, reason: "the link was cut".to_owned() });
}

#[test]
fn a_stalled_end_hears_nothing_and_then_everything() {
    let hub = MemoryHub::new();
    let mut pair = make_on(&hub, &Wanted::default());
    let (from, to) = pair.link();
    hub.stall(to);
    pair.a.send(from, frame(1, vec![]));
    pair.a.transport.close(from, "tired");
    assert_eq!(pair.a.next_closed(), "closed here: tired");
    // A second link overtakes the first one, on which nothing moves.
    let (other, _) = pair.link();
    pair.a.send(other, frame(2, vec![]));
    assert_eq!(pair.b.frame(), frame(2, vec![]));
    hub.resume(to);
    assert_eq!(pair.b.frame(), frame(1, vec![]));
    assert_eq!(pair.b.next_closed(), "`a` closed: tired");
}

#[test]
fn an_address_can_be_taken_again() {
    let hub = MemoryHub::new();
    let mut pair = make_on(&hub, &Wanted::default());
    for sequence in 0..50 {
        let (from, to) = pair.link();
        pair.a.send(from, frame(sequence, vec![]));
        assert_eq!(pair.b.next(), TransportEvent::Frame { link: to, frame: frame(sequence, vec![]) });
        let Pair { a, b, nobody } = pair;
        drop(b);
        let b = Side::new(100, |events| MemoryTransport::new(&hub, "b", Wanted::default().limits, events));
        assert_eq!(a.next_closed(), "`b` ended the connection without a reason");
        pair = Pair { a, b, nobody };
    }
}

#[test]
fn a_busy_link_lets_others_through() {
    let hub = MemoryHub::new();
    let mut pair = make_on(&hub, &Wanted { events: 1, ..Wanted::default() });
    let (busy, _) = pair.link();
    let (other, other_end) = pair.link();
    for sequence in 0..1000 {
        pair.a.send(busy, frame(sequence, vec![]));
    }
    pair.a.send(other, frame(7, vec![]));
    let before = std::iter::from_fn(|| Some(pair.b.next()))
        .take_while(|event| !matches!(event, TransportEvent::Frame { link, .. } if *link == other_end))
        .count();
    // What the courier and the channel already hold goes first.
    assert!(before < 1000, "{before}");
}
