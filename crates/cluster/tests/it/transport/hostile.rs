//! Strangers on the port: garbage, half frames, huge lengths, a thousand idle connections. Nobody else notices.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use paceline_cluster::transport::{Limits, LinkId, TransportEvent};
use paceline_cluster::trust::Trust;
use paceline_exchange::{Frame, FrameReader};

use super::side::{PATIENCE, Side, Wanted, bytes, frame};
use super::tcp::side;

fn stranger(side: &Side) -> TcpStream {
    let stream = TcpStream::connect(side.transport.local_address()).expect("somebody listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a limit");
    stream.set_nodelay(true).expect("small packets");
    stream
}

fn plain() -> Side {
    side(&Wanted::default(), Trust::Plain)
}

fn wire(frame: &Frame) -> Vec<u8> {
    let mut bytes = Vec::new();
    frame.write(&mut bytes);
    bytes
}

/// What the other side says before it closes.
fn last_words(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).expect("the other side closes");
    let mut reader = FrameReader::new(10_000);
    reader.push(&bytes);
    let goodbye = reader.next().expect("a frame").expect("all of it");
    assert_eq!(goodbye.kind, Frame::GOODBYE);
    String::from_utf8(goodbye.body.memory().to_vec()).expect("text")
}

/// Sends bytes, hears why they are refused, and checks that a good peer gets in nevertheless.
fn refused(bytes: &[u8]) -> String {
    let mut master = plain();
    let mut stream = stranger(&master);
    let link = master.accepted();
    stream.write_all(bytes).expect("it takes bytes");
    let reason = master.closed(link);
    let said = last_words(&mut stream);
    let peer = stream.local_addr().expect("our address");
    assert_eq!(reason, format!("refused what `{peer}` sent: {said}"));
    good_peer(&mut master);
    said
}

/// A peer that joins, and the end of its link at the master.
fn good_peer(master: &mut Side) -> (Side, LinkId) {
    let mut peer = plain();
    let link = peer.connect(master.transport.local_address());
    assert_eq!(peer.opened(), link);
    let accepted = loop {
        match master.next() {
            TransportEvent::Accepted { link, .. } => break link,
            TransportEvent::Closed { .. } => {} // A stranger that has gone.
            other => panic!("expected that a link is accepted, found {other:?}"),
        }
    };
    peer.send(link, frame(1, b"let me in".to_vec()));
    assert_eq!(master.frame(), frame(1, b"let me in".to_vec()));
    master.transport.admit(accepted);
    peer.transport.admit(link);
    master.send(accepted, frame(2, bytes(100_000)));
    assert!(peer.frame() == frame(2, bytes(100_000)));
    (peer, accepted)
}

#[test]
fn garbage_is_refused() {
    let port = "this is a port of Paceline, and of nothing else";
    let expected = format!("expected a frame, which begins with `PCLN`, found `GET `: {port}");
    assert_eq!(refused(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"), expected);
    let hello = [0x16, 3, 1, 0, 200, 1, 0, 0];
    let tls = "which is TLS: one side speaks it and the other does not";
    let expected = format!("expected a frame, which begins with `PCLN`, found `\\x16\\x03\\x01\\x00`, {tls}");
    assert_eq!(refused(&hello), expected);
}

#[test]
fn a_length_of_4_gib_is_refused_at_once() {
    let mut header = frame(1, vec![]).header();
    header[8..12].fill(0xff);
    let expected = "the frame of kind 7 has a body of 4294967295 bytes, but at most 65536 are allowed here";
    assert_eq!(refused(&header[..12]), expected);
}

#[test]
fn a_length_of_4_gib_of_a_member_is_refused_too() {
    let mut master = plain();
    let mut stream = stranger(&master);
    let link = master.accepted();
    master.transport.admit(link);
    let mut header = frame(1, vec![]).header();
    header[8..12].fill(0xff);
    stream.write_all(&header).expect("it takes bytes");
    let reason = master.closed(link);
    assert!(reason.contains("4294967295 bytes, but at most 262154 are allowed here"), "{reason}");
}

#[test]
fn another_version_is_refused_with_both_versions() {
    let mut bytes = wire(&frame(1, vec![]));
    bytes[4] = 9;
    let expected = "the frame has version 9.0, but this program speaks version 1.0: run the same release on both sides";
    assert_eq!(refused(&bytes), expected);
}

#[test]
fn a_damaged_frame_is_refused() {
    let mut bytes = wire(&frame(1, b"content".to_vec()));
    bytes[50] ^= 1;
    let said = refused(&bytes);
    assert!(
        said.starts_with("the frame of kind 7 carries checksum ") && said.ends_with("damaged on the way"),
        "{said}"
    );
}

#[test]
fn half_a_frame_is_told_as_such() {
    let mut master = plain();
    let sent = wire(&frame(1, b"content".to_vec()));
    for (count, expected) in [
        (20, "the stream ended within the header of a frame, after 20 of 48 bytes"),
        (50, "the stream ended within the body of a frame, after 2 of 7 bytes"),
    ] {
        let mut stream = stranger(&master);
        let link = master.accepted();
        stream.write_all(&sent[..count]).expect("it takes bytes");
        drop(stream);
        let reason = master.closed(link);
        assert!(reason.ends_with(&format!("ended the connection: {expected}")), "{reason}");
    }
    good_peer(&mut master);
}

#[test]
fn bytes_one_by_one_are_frames_like_any_other() {
    let master = plain();
    let mut stream = stranger(&master);
    master.accepted();
    for sequence in 0..5 {
        let sent = frame(sequence, bytes(sequence as usize * 10));
        for byte in wire(&sent) {
            stream.write_all(&[byte]).expect("it takes bytes");
        }
        assert_eq!(master.frame(), sent);
    }
}

#[test]
fn what_a_peer_says_at_its_end_cannot_disturb_a_terminal() {
    let master = plain();
    let mut stream = stranger(&master);
    let link = master.accepted();
    let body = b"\x1b[2J\x1b]0;gone\x07\r\nbye\xff".to_vec();
    stream.write_all(&wire(&Frame { kind: Frame::GOODBYE, ..frame(1, body) })).expect("it takes bytes");
    let reason = master.closed(link);
    assert!(reason.ends_with("closed:  [2J ]0;gone   bye\u{fffd}"), "{reason}");
}

#[test]
fn a_thousand_idle_connections_keep_nobody_out() {
    let limits = Limits { handshake: Duration::from_secs(3), ..Limits::default() };
    let mut master = side(&Wanted { limits, events: 10_000 }, Trust::Plain);
    let (member, link) = good_peer(&mut master);

    let idle: Vec<TcpStream> = (0..1000).map(|_| stranger(&master)).collect();
    master.send(link, frame(3, bytes(1000)));
    assert_eq!(member.frame(), frame(3, bytes(1000)), "members do not notice");
    let mut peer = plain();
    let asked = peer.connect(master.transport.local_address());
    peer.send(asked, frame(4, b"let me in".to_vec()));
    let accepted = loop {
        if let TransportEvent::Frame { link, frame: said } = master.next() {
            assert_eq!(said, frame(4, b"let me in".to_vec()));
            break link;
        }
    };
    master.transport.admit(accepted);
    master.send(accepted, frame(5, bytes(1000)));
    assert_eq!(peer.opened(), asked);
    assert_eq!(peer.frame(), frame(5, bytes(1000)), "nor does who comes now");

    // All but 64 have to go for others; those 64 go when they have proved nothing in time.
    let pushed = "more than 64 connections wait to prove who they are, and this one has waited longest";
    let (mut made_room, mut late) = (0, 0);
    for mut stream in idle {
        match last_words(&mut stream) {
            said if said == pushed => made_room += 1,
            said if said == "no proof of who you are within 3s" => late += 1,
            said => panic!("{said}"),
        }
    }
    assert!(made_room >= 900 && late > 0 && late <= 64, "{made_room} and {late}");
}

#[test]
fn a_long_frame_is_seen_coming_and_a_forged_piece_ends_the_link() {
    let mut master = plain();
    let mut stream = stranger(&master);
    let link = master.accepted();
    stream.write_all(&wire(&frame(1, b"let me in".to_vec()))).expect("it takes bytes");
    assert_eq!(master.frame(), frame(1, b"let me in".to_vec()));
    master.transport.admit(link);
    let long = frame(2, bytes(1 << 30));
    let mut gone = 0;
    let seen = loop {
        let mut piece = Vec::new();
        gone = long.write_piece(gone, &mut piece).expect("bytes in memory").end;
        stream.write_all(&piece).expect("it takes bytes");
        if let Ok(event) = master.events.try_recv() {
            break event;
        }
    };
    assert_eq!(seen, TransportEvent::Arriving { link });
    let mut forged = Vec::new();
    Frame { sequence: 3, ..long }.write_piece(gone, &mut forged).expect("bytes in memory");
    stream.write_all(&forged).expect("it takes bytes");
    assert_eq!(last_words(&mut stream), "expected a piece of a frame: more of the frame that has begun");
}

#[test]
fn a_stranger_cannot_fill_memory_with_pieces() {
    let master = plain();
    let mut stream = stranger(&master);
    let link = master.accepted();
    let body = [&[9, 0][..], &u64::MAX.to_le_bytes(), &[0; 100]].concat();
    let piece = Frame { kind: Frame::PIECE, ..frame(1, body) };
    stream.write_all(&wire(&piece)).expect("it takes bytes");
    let said = last_words(&mut stream);
    assert!(said.contains("at most 65536 are allowed here"), "{said}");
    master.closed(link);
}
