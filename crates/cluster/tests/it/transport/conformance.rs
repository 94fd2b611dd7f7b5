//! What every transport does, whatever carries it.

use std::time::Duration;

use paceline_cluster::transport::{Limits, SendError, TransportEvent};
use paceline_exchange::Frame;

use super::side::{Pair, Wanted, bytes, frame};

/// Makes a test of every one of these functions, with `make: fn(&Wanted) -> Pair` of the module where it stands.
macro_rules! conformance {
    () => {
        conformance!(
            frames_arrive_in_order_both_ways,
            a_large_frame_arrives_whole,
            what_is_urgent_goes_before_what_waits,
            many_small_frames_arrive,
            frames_sent_before_the_link_stands_arrive,
            a_close_arrives_with_its_reason_after_what_was_sent,
            a_full_queue_says_so_and_when_there_is_room,
            a_frame_larger_than_the_queue_fits_when_nothing_waits,
            a_frame_that_no_peer_takes_is_refused_at_once,
            nobody_there_is_told_with_the_address,
            a_large_first_frame_of_a_stranger_ends_the_link,
            a_large_frame_behind_another_waits_until_it_is_admitted,
            a_full_channel_of_events_loses_nothing,
            a_side_that_goes_is_noticed,
            links_do_not_disturb_each_other,
        );
    };
    ($($name:ident),* $(,)?) => {
        $(
            #[test]
            fn $name() {
                crate::transport::conformance::$name(make);
            }
        )*
    };
}
pub(crate) use conformance;

type Make = fn(&Wanted) -> Pair;

fn limited(limits: Limits) -> Wanted {
    Wanted { limits, ..Wanted::default() }
}

pub(crate) fn frames_arrive_in_order_both_ways(make: Make) {
    let mut pair = make(&Wanted::default());
    let (from, to) = pair.link();
    for sequence in 0..50 {
        pair.a.send(from, frame(sequence, bytes(sequence as usize * 100)));
        pair.b.send(to, frame(1000 + sequence, vec![]));
    }
    for sequence in 0..50 {
        let there = TransportEvent::Frame { link: to, frame: frame(sequence, bytes(sequence as usize * 100)) };
        assert_eq!(pair.b.next(), there);
        let back = TransportEvent::Frame { link: from, frame: frame(1000 + sequence, vec![]) };
        assert_eq!(pair.a.next(), back);
    }
}

pub(crate) fn a_large_frame_arrives_whole(make: Make) {
    let mut pair = make(&Wanted::default());
    let (from, _) = pair.link();
    let large = frame(1, bytes(20 << 20));
    pair.a.send(from, large.clone());
    pair.a.send(from, frame(2, vec![]));
    let found = pair.b.frame();
    assert!(found == large, "{found:?} has other bytes");
    assert_eq!(pair.b.frame(), frame(2, vec![]));
}

pub(crate) fn what_is_urgent_goes_before_what_waits(make: Make) {
    let mut pair = make(&Wanted { events: 1, ..Wanted::default() });
    let (from, _) = pair.link();
    // Nobody takes the events of `b`, so most of this waits.
    for sequence in 1..=3 {
        pair.a.send(from, frame(sequence, vec![]));
    }
    for sequence in 4..=6 {
        pair.a.send(from, frame(sequence, bytes(20 << 20)));
    }
    pair.a.transport.send_first(from, frame(7, b"soon".to_vec())).expect("there is room");
    let came: Vec<Frame> = (0..7).map(|_| pair.b.frame()).collect();
    let order: Vec<u64> = came.iter().map(|frame| frame.sequence).collect();
    let place = |sequence| order.iter().position(|of| *of == sequence).expect("it came");
    assert!(place(7) < place(5), "{order:?}");
    assert!(came[place(6)] == frame(6, bytes(20 << 20)), "and nothing is mixed up by it");
    assert_eq!(order.iter().filter(|sequence| **sequence != 7).copied().collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6]);
}

pub(crate) fn many_small_frames_arrive(make: Make) {
    let mut pair = make(&Wanted::default());
    let (from, _) = pair.link();
    for sequence in 0..20_000 {
        pair.a.send(from, frame(sequence, vec![sequence as u8; 10]));
    }
    for sequence in 0..20_000 {
        assert_eq!(pair.b.frame(), frame(sequence, vec![sequence as u8; 10]));
    }
}

pub(crate) fn frames_sent_before_the_link_stands_arrive(make: Make) {
    let mut pair = make(&Wanted::default());
    let from = pair.a.connect(pair.b.transport.local_address());
    pair.a.send(from, frame(1, b"early".to_vec()));
    pair.b.accepted();
    assert_eq!(pair.b.frame(), frame(1, b"early".to_vec()));
    assert_eq!(pair.a.opened(), from);
}

pub(crate) fn a_close_arrives_with_its_reason_after_what_was_sent(make: Make) {
    let mut pair = make(&Wanted::default());
    let (from, to) = pair.link();
    for sequence in 0..100 {
        pair.a.send(from, frame(sequence, bytes(10_000)));
    }
    pair.a.transport.close(from, "the run has finished");
    assert_eq!(pair.a.transport.send(from, frame(0, vec![])), Err(SendError::Closed { link: from }));
    for sequence in 0..100 {
        assert_eq!(pair.b.frame(), frame(sequence, bytes(10_000)));
    }
    let reason = pair.b.closed(to);
    assert!(reason.ends_with("` closed: the run has finished"), "{reason}");
    assert_eq!(pair.a.closed(from), "closed here: the run has finished");
    assert_eq!(pair.b.transport.send(to, frame(0, vec![])), Err(SendError::Closed { link: to }));
    assert_eq!((pair.a.transport.queued(from), pair.b.transport.queued(to)), (0, 0));
}

pub(crate) fn a_full_queue_says_so_and_when_there_is_room(make: Make) {
    let limit = 1 << 20;
    let limits = Limits { send_queue: limit, ..Limits::default() };
    let mut pair = make(&Wanted { limits, events: 2 });
    let (from, to) = pair.link();
    for round in 0..3 {
        // Nobody takes the events of `b`: it reads no further, and `a` can send no more.
        let mut sent = 0;
        let full = loop {
            match pair.a.transport.send(from, frame(sent, bytes(100_000))) {
                Ok(()) => sent += 1,
                Err(error) => break error,
            }
        };
        let queued = pair.a.transport.queued(from);
        assert!(matches!(full, SendError::Full { queued, limit: 1_048_576 } if queued > limit / 2), "{full}");
        assert!(queued <= limit, "{queued}");
        for sequence in 0..sent {
            let found = pair.b.next();
            assert!(found == TransportEvent::Frame { link: to, frame: frame(sequence, bytes(100_000)) }, "{found:?}");
        }
        // Once for every time that it was full: the queue may have been emptied in between, and filled again.
        assert_eq!(pair.a.next(), TransportEvent::Writable { link: from }, "round {round}");
    }
}

pub(crate) fn a_frame_larger_than_the_queue_fits_when_nothing_waits(make: Make) {
    let mut pair = make(&limited(Limits { send_queue: 1000, ..Limits::default() }));
    let (from, _) = pair.link();
    for sequence in 0..5 {
        while let Err(error) = pair.a.transport.send(from, frame(sequence, bytes(200_000))) {
            assert!(matches!(error, SendError::Full { limit: 1000, .. }), "{error}");
            assert_eq!(pair.a.next(), TransportEvent::Writable { link: from });
        }
        assert!(pair.b.frame() == frame(sequence, bytes(200_000)));
    }
}

pub(crate) fn a_frame_that_no_peer_takes_is_refused_at_once(make: Make) {
    let mut pair = make(&limited(Limits { largest_frame: 1000, ..Limits::default() }));
    let (from, _) = pair.link();
    let too_large = pair.a.transport.send(from, frame(1, vec![0; 1001]));
    assert_eq!(too_large, Err(SendError::TooLarge { found: 1001, limit: 1000 }));
    let reserved = pair.a.transport.send(from, Frame { kind: Frame::GOODBYE, ..frame(1, vec![]) });
    assert_eq!(reserved, Err(SendError::ReservedKind));
    let piece = pair.a.transport.send(from, Frame { kind: Frame::PIECE, ..frame(1, vec![]) });
    assert_eq!(piece, Err(SendError::ReservedKind));
    pair.a.send(from, frame(1, vec![0; 1000]));
    assert_eq!(pair.b.frame(), frame(1, vec![0; 1000]));
}

pub(crate) fn nobody_there_is_told_with_the_address(make: Make) {
    let mut pair = make(&Wanted::default());
    let nobody = pair.nobody.clone();
    let link = pair.a.connect(&nobody);
    let TransportEvent::Closed { link: closed, reason } = pair.a.next() else { panic!("a link to nobody") };
    assert_eq!(closed, link);
    assert!(reason.starts_with(&format!("cannot connect to `{nobody}`: ")), "{reason}");
    assert_eq!(pair.a.transport.send(link, frame(1, vec![])), Err(SendError::Closed { link }));
}

pub(crate) fn a_large_first_frame_of_a_stranger_ends_the_link(make: Make) {
    let mut pair = make(&limited(Limits { stranger_frame: 1000, ..Limits::default() }));
    let (from, to) = pair.stranger_link();
    pair.a.send(from, frame(1, vec![0; 1001]));
    let reason = pair.b.next_closed();
    assert!(reason.contains("a body of 1001 bytes, but at most 1000 are allowed here"), "{reason}");
    let reason = pair.a.closed(from);
    assert!(reason.contains("closed: ") && reason.contains("at most 1000 are allowed here"), "{reason}");
    assert_eq!(pair.b.transport.send(to, frame(1, vec![])), Err(SendError::Closed { link: to }));
}

pub(crate) fn a_large_frame_behind_another_waits_until_it_is_admitted(make: Make) {
    let limits = Limits { stranger_frame: 1000, handshake: Duration::MAX, ..Limits::default() };
    let mut pair = make(&limited(limits));
    let (from, to) = pair.stranger_link();
    pair.a.send(from, frame(1, b"let me in".to_vec()));
    pair.a.send(from, frame(2, bytes(300_000)));
    assert_eq!(pair.b.frame(), frame(1, b"let me in".to_vec()));
    pair.b.transport.admit(to);
    assert!(pair.b.frame() == frame(2, bytes(300_000)));
}

pub(crate) fn a_full_channel_of_events_loses_nothing(make: Make) {
    let mut pair = make(&Wanted { events: 1, ..Wanted::default() });
    let (from, to) = pair.link();
    for sequence in 0..500 {
        pair.a.send(from, frame(sequence, bytes(5000)));
        pair.b.send(to, frame(sequence, bytes(5000)));
    }
    pair.a.transport.close(from, "that was all");
    for sequence in 0..500 {
        assert_eq!(pair.b.frame(), frame(sequence, bytes(5000)));
    }
    let reason = pair.b.next_closed();
    assert!(reason.ends_with("closed: that was all"), "{reason}");
}

pub(crate) fn a_side_that_goes_is_noticed(make: Make) {
    let mut pair = make(&Wanted::default());
    let (from, to) = pair.link();
    let Pair { a, mut b, .. } = pair;
    b.send(to, frame(1, bytes(1000)));
    drop(b);
    assert_eq!(a.frame(), frame(1, bytes(1000)), "what was sent before still arrives");
    a.closed(from);
}

pub(crate) fn links_do_not_disturb_each_other(make: Make) {
    let mut pair = make(&Wanted::default());
    let (from, to) = pair.link();
    let (other_from, other_to) = pair.link();
    assert!(from != other_from && to != other_to);
    pair.a.transport.close(from, "only this one");
    pair.b.closed(to);
    pair.a.send(other_from, frame(1, vec![]));
    assert_eq!(pair.b.next(), TransportEvent::Frame { link: other_to, frame: frame(1, vec![]) });
    let back = pair.b.connect(pair.a.transport.local_address());
    assert_eq!(pair.b.opened(), back);
}
