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
