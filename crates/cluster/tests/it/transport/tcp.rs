use std::net::TcpListener;
use std::time::Duration;

use paceline_cluster::transport::{Limits, TcpOptions, TcpTransport, TransportEvent};
use paceline_cluster::trust::{Fingerprint, Proof, Trust};

use super::conformance::conformance;
use super::side::{Pair, Side, Wanted, frame};

pub(crate) fn side(wanted: &Wanted, trust: Trust) -> Side {
    let options = TcpOptions { limits: wanted.limits.clone(), ..TcpOptions::default() };
    Side::new(wanted.events, |events| TcpTransport::new(options, trust, events).expect("a free port"))
}

/// A port that was free a moment ago.
pub(crate) fn nobody() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("its address").to_string()
}

fn make(wanted: &Wanted) -> Pair {
    Pair { a: side(wanted, Trust::Plain), b: side(wanted, Trust::Plain), nobody: nobody() }
}

conformance!();

/// A pair of which only `b` gives up strangers soon.
fn impatient(handshake: Duration) -> Pair {
    let limits = Limits { handshake, ..Limits::default() };
    let b = side(&Wanted { limits, ..Wanted::default() }, Trust::Plain);
    Pair { b, ..make(&Wanted::default()) }
}

#[test]
fn whoever_is_not_admitted_in_time_is_closed_on_both_sides() {
    let mut pair = impatient(Duration::from_millis(100));
    let (from, to) = pair.stranger_link();
    let reason = pair.b.closed(to);
    assert!(reason.ends_with("gave no proof of who it is within 100ms"), "{reason}");
    let reason = pair.a.closed(from);
    assert!(reason.ends_with("closed: no proof of who you are within 100ms"), "{reason}");
}

#[test]
fn whoever_is_admitted_stays() {
    let mut pair = impatient(Duration::from_secs(2));
    let (from, to) = pair.link();
    // A link that is not admitted ends; by then the time of the first one has also run out.
    let (_, stranger) = pair.stranger_link();
    pair.b.closed(stranger);
    pair.a.send(from, frame(1, vec![]));
    assert_eq!(pair.b.next(), TransportEvent::Frame { link: to, frame: frame(1, vec![]) });
    assert_eq!(pair.b.transport.proof(to), Proof::None);
}

#[test]
fn a_peer_that_never_answers_is_given_up_with_its_address() {
    // It listens, but as nobody accepts, nobody speaks TLS either.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = silent.local_addr().expect("its address").to_string();
    let limits = Limits { connect: Duration::from_millis(100), ..Limits::default() };
    let trust = Trust::joining(Fingerprint::parse(&"0".repeat(64)).expect("a fingerprint")).expect("TLS");
    let mut side = side(&Wanted { limits, ..Wanted::default() }, trust);
    let link = side.connect(&address);
    assert_eq!(side.closed(link), format!("cannot connect to `{address}`: no answer within 100ms"));
}

#[test]
fn links_without_tls_stay_on_the_machine() {
    let listen = |listen: &str, plain_off_loopback| {
        let advertise = Some("192.0.2.1".to_owned());
        let options = TcpOptions { listen: listen.to_owned(), advertise, plain_off_loopback, ..TcpOptions::default() };
        let (events, _) = crossbeam_channel::bounded(1);
        TcpTransport::new(options, Trust::Plain, events).map(|_| ()).map_err(|error| error.to_string())
    };
    let refused =
        "listening at `0.0.0.0:0` without TLS would show the run to the whole network: use TLS, or a loopback address";
    assert_eq!(listen("0.0.0.0:0", false), Err(refused.to_owned()));
    assert_eq!(listen("0.0.0.0:0", true), Ok(()));
    assert_eq!(listen("127.0.0.1:0", false), Ok(()));

    // Of a network that is for documents only (RFC 5737): nothing is sent there.
    let mut side = side(&Wanted::default(), Trust::Plain);
    let link = side.connect("192.0.2.1:9");
    let expected =
        "cannot connect to `192.0.2.1:9`: 192.0.2.1 is another machine, and this link has no TLS: use a join string";
    assert_eq!(side.closed(link), expected);
}

#[test]
fn others_are_told_the_port_that_was_found() {
    let first = side(&Wanted::default(), Trust::Plain);
    let (host, port) = first.transport.local_address().rsplit_once(':').expect("a port");
    assert!(host == "127.0.0.1" && port.parse::<u16>().expect("a number") > 0);
    let listen = format!("127.0.0.1:{port}-65535");
    let options = TcpOptions { listen, advertise: Some("localhost".to_owned()), ..TcpOptions::default() };
    let mut second = Side::new(10, |events| TcpTransport::new(options, Trust::Plain, events).expect("another port"));
    let address = second.transport.local_address().to_owned();
    assert!(address.starts_with("localhost:") && !address.ends_with(port), "{address}");
    let link = second.connect(&address);
    assert!(matches!(second.next(), TransportEvent::Opened { .. } | TransportEvent::Accepted { .. }));
    assert!(matches!(second.next(), TransportEvent::Opened { .. } | TransportEvent::Accepted { .. }));
    assert_eq!(second.transport.queued(link), 0);
}
