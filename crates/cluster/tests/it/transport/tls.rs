//! Links with TLS pass the same suite, and let nobody in who does not belong to the run.

use std::io::Read;
use std::net::TcpStream;
use std::time::{Duration, SystemTime};

use paceline_cluster::transport::{Limits, LinkId};
use paceline_cluster::trust::{JoinString, MasterIdentity, MemberIdentity, Proof, Token, Trust};

use super::conformance::conformance;
use super::side::{Pair, Side, Wanted, frame};
use super::tcp::{nobody, side};

const HOUR: Duration = Duration::from_secs(3600);

fn authority() -> MasterIdentity {
    MasterIdentity::new().expect("a key")
}

fn trust_of(identity: &MemberIdentity) -> Trust {
    Trust::member(identity).expect("a key and its certificate")
}

fn member(authority: &MasterIdentity, incarnation: u64) -> Trust {
    trust_of(&authority.issue(incarnation, HOUR).expect("a certificate"))
}

fn master(authority: &MasterIdentity) -> Side {
    side(&Wanted::default(), Trust::master(authority).expect("TLS"))
}

fn make(wanted: &Wanted) -> Pair {
    let authority = authority();
    let (a, b) = (side(wanted, member(&authority, 1)), side(wanted, member(&authority, 2)));
    Pair { a, b, nobody: nobody() }
}

conformance!();

/// Connects two sides with these, where that cannot end well: what `from` and `to` are told.
fn refused(from: Trust, to: Trust) -> (String, String) {
    let (mut from, to) = (side(&Wanted::default(), from), side(&Wanted::default(), to));
    let link = from.connect(to.transport.local_address());
    let heard = to.next_closed();
    (from.closed(link), heard)
}

fn connect(from: &mut Side, to: &Side) -> (LinkId, LinkId) {
    let link = from.connect(to.transport.local_address());
    assert_eq!(from.opened(), link);
    (link, to.accepted())
}

#[test]
fn a_worker_joins_becomes_a_member_and_is_known_as_such() {
    let authority = authority();
    let mut master = master(&authority);
    let token = Token::random().expect("randomness");
    let address = master.transport.local_address().to_owned();
    let join = JoinString { address, token: token.clone(), key: authority.fingerprint() }.reveal();

    // A worker knows the join string and nothing else.
    let join = JoinString::parse(&join).expect("what the master printed");
    let mut worker = side(&Wanted::default(), Trust::joining(join.key).expect("TLS"));
    let link = worker.connect(&join.address);
    assert_eq!(worker.opened(), link);
    assert_eq!(worker.transport.proof(link), Proof::Master, "now the token can be shown");
    worker.send(link, frame(1, join.token.reveal_bytes().to_vec()));
    let accepted = master.accepted();
    assert_eq!(master.transport.proof(accepted), Proof::None);
    assert!(token.matches(master.frame().body.memory()));
    let identity = authority.issue(17, HOUR).expect("a certificate");
    master.send(accepted, frame(2, identity.reveal_bytes()));

    // From now on it can prove itself, to the master and to others.
    let identity = MemberIdentity::from_bytes(worker.frame().body.memory()).expect("what the master sent");
    assert_eq!((identity.proof(), identity.fingerprint()), (Proof::Member { incarnation: 17 }, join.key));
    worker.transport.set_trust(trust_of(&identity));
    let (link, accepted) = connect(&mut worker, &master);
    assert_eq!(worker.transport.proof(link), Proof::Master);
    assert_eq!(master.transport.proof(accepted), Proof::Member { incarnation: 17 });
    let (link, accepted) = connect(&mut master, &worker);
    assert_eq!(master.transport.proof(link), Proof::Member { incarnation: 17 });
    assert_eq!(worker.transport.proof(accepted), Proof::Master);
    let mut other = side(&Wanted::default(), member(&authority, 18));
    let (link, accepted) = connect(&mut other, &worker);
    assert_eq!(other.transport.proof(link), Proof::Member { incarnation: 17 });
    assert_eq!(worker.transport.proof(accepted), Proof::Member { incarnation: 18 });
}

#[test]
fn a_restarted_master_is_the_same_authority() {
    let before = authority();
    let identity = before.issue(1, HOUR).expect("a certificate");
    let after = MasterIdentity::from_bytes(&before.reveal_bytes()).expect("its key");
    assert_eq!(after.fingerprint(), before.fingerprint());
    let master = master(&after);
    let mut worker = side(&Wanted::default(), trust_of(&identity));
    let (link, accepted) = connect(&mut worker, &master);
    assert_eq!(worker.transport.proof(link), Proof::Master);
    assert_eq!(master.transport.proof(accepted), Proof::Member { incarnation: 1 });
}

#[test]
fn a_wrong_fingerprint_shows_the_token_to_nobody() {
    let (ours, theirs) = (authority(), authority());
    let from = Trust::joining(ours.fingerprint()).expect("TLS");
    let (told, heard) = refused(from, Trust::master(&theirs).expect("TLS"));
    let (expected, found) = (ours.fingerprint(), theirs.fingerprint());
    let end = format!(
        "its certificate is of an authority with key {found}, but that of this run has {expected}: it belongs to \
         another run, or the join string does"
    );
    assert!(told.starts_with("cannot connect to `127.0.0.1:") && told.ends_with(&end), "{told}");
    let end = "it does not believe our certificate: one of us belongs to another run";
    assert!(heard.starts_with("refused `127.0.0.1:") && heard.ends_with(end), "{heard}");
}

#[test]
fn a_member_of_another_run_is_refused_by_members_and_master() {
    let (ours, theirs) = (authority(), authority());
    // The one who connects checks first.
    let (told, _) = refused(member(&ours, 1), member(&theirs, 1));
    assert!(told.contains("it belongs to another run"), "{told}");
    // One who shows the authority of the other run beside a certificate that it did not sign is believed by nobody.
    let forged = || trust_of(&forged(&ours, &theirs));
    for to in [Trust::master(&theirs).expect("TLS"), member(&theirs, 2)] {
        let (told, heard) = refused(forged(), to);
        assert!(heard.ends_with("its certificate was not signed by the authority of this run"), "{heard}");
        assert!(told.ends_with("it does not believe our certificate: one of us belongs to another run"), "{told}");
    }
    let (told, _) = refused(member(&theirs, 2), forged());
    assert!(told.ends_with("its certificate was not signed by the authority of this run"), "{told}");
}

/// A certificate and key of one run with the authority of another.
fn forged(own: &MasterIdentity, other: &MasterIdentity) -> MemberIdentity {
    let parts = |authority: &MasterIdentity| parts(&authority.issue(1, HOUR).expect("a certificate").reveal_bytes());
    let ([certificate, _, key], [_, authority, _]) = (parts(own), parts(other));
    MemberIdentity::from_bytes(&[certificate, authority, key].concat()).expect("three parts")
}

/// Certificate, authority and key, each with its length.
fn parts(mut bytes: &[u8]) -> [Vec<u8>; 3] {
    [(); 3].map(|()| {
        let length = u32::from_le_bytes(bytes[..4].try_into().expect("four bytes")) as usize;
        let (part, rest) = bytes.split_at(4 + length);
        bytes = rest;
        part.to_vec()
    })
}

#[test]
fn an_expired_certificate_is_refused_from_either_side() {
    let authority = authority();
    let long_ago = SystemTime::now() - 24 * HOUR;
    let expired = trust_of(&authority.issue_from(3, long_ago, HOUR).expect("a certificate"));
    let (told, heard) = refused(member(&authority, 1), expired.clone());
    assert!(told.contains("its certificate has expired ") && told.ends_with(" ago"), "{told}");
    let end = "it says that our certificate is out of its time: it has expired, or the clocks of the machines differ";
    assert!(heard.ends_with(end), "{heard}");

    let (told, heard) = refused(expired, member(&authority, 1));
    assert!(heard.contains("its certificate has expired "), "{heard}");
    assert!(told.ends_with(end), "{told}");
}

#[test]
fn a_certificate_of_the_future_is_refused() {
    let authority = authority();
    let tomorrow = SystemTime::now() + 24 * HOUR;
    let early = trust_of(&authority.issue_from(3, tomorrow, HOUR).expect("a certificate"));
    let (told, _) = refused(member(&authority, 1), early);
    assert!(told.contains("the clocks of the machines differ too much"), "{told}");
}

#[test]
fn a_plain_client_on_a_port_with_tls_is_told_what_to_do() {
    let authority = authority();
    let mut from = side(&Wanted::default(), Trust::Plain);
    let to = master(&authority);
    let link = from.connect(to.transport.local_address());
    // More than is read before it is refused.
    from.send(link, frame(1, vec![7; 4 << 20]));
    let heard = to.next_closed();
    let end =
        "it does not speak TLS, which is needed here: workers connect with the join string that the master printed";
    assert!(heard.starts_with("refused `127.0.0.1:") && heard.ends_with(end), "{heard}");
    let told = from.closed(link);
    let end = "which is TLS: the peer expects it, so connect with the join string that the master printed";
    assert!(told.ends_with(end), "{told}");
}

#[test]
fn a_client_with_tls_on_a_plain_port_is_told() {
    let authority = authority();
    let mut from = side(&Wanted::default(), member(&authority, 1));
    let to = side(&Wanted::default(), Trust::Plain);
    let link = from.connect(to.transport.local_address());
    let accepted = to.accepted();
    let heard = to.closed(accepted);
    assert!(heard.ends_with("which is TLS: one side speaks it and the other does not"), "{heard}");
    let told = from.closed(link);
    assert!(told.starts_with("cannot connect to `127.0.0.1:") && told.contains("it does not speak TLS"), "{told}");
}

#[test]
fn members_do_not_speak_with_strangers() {
    let authority = authority();
    let joining = || Trust::joining(authority.fingerprint()).expect("TLS");
    let (told, heard) = refused(joining(), member(&authority, 1));
    assert!(heard.ends_with("it showed no certificate, which members must have: it has not joined the run"), "{heard}");
    assert!(told.ends_with("it expects a certificate, and we have none: join first"), "{told}");

    let (_, heard) = refused(member(&authority, 1), joining());
    assert!(heard.ends_with("this worker has not joined its run yet, so nobody can connect to it"), "{heard}");
}

#[test]
fn whoever_says_nothing_on_a_port_with_tls_is_given_up() {
    let limits = Limits { handshake: Duration::from_millis(100), ..Limits::default() };
    let wanted = Wanted { limits, ..Wanted::default() };
    let master = side(&wanted, Trust::master(&authority()).expect("TLS"));
    let mut stream = TcpStream::connect(master.transport.local_address()).expect("somebody listens");
    let heard = master.next_closed();
    assert!(heard.ends_with("gave no proof of who it is within 100ms"), "{heard}");
    assert_eq!(stream.read(&mut [0; 100]).expect("the end of the stream"), 0);
}

#[test]
fn a_key_that_is_not_that_of_the_certificate_is_refused() {
    let authority = authority();
    let [one, other] =
        [1, 2].map(|incarnation| parts(&authority.issue(incarnation, HOUR).expect("one").reveal_bytes()));
    let ([certificate, authority, _], [_, _, key]) = (one, other);
    let mixed = MemberIdentity::from_bytes(&[certificate, authority, key].concat()).expect("three parts");
    let error = Trust::member(&mixed).expect_err("another key").to_string();
    assert!(error.starts_with("these bytes are no identity that TLS takes: "), "{error}");
}

#[test]
fn bytes_that_are_no_identity_are_refused() {
    let identity = authority().issue(1, HOUR).expect("a certificate");
    let bytes = identity.reveal_bytes();
    let error = |bytes: &[u8]| MemberIdentity::from_bytes(bytes).expect_err("no identity").to_string();
    for end in [0, 3, 4, 100, bytes.len() - 1] {
        assert_eq!(error(&bytes[..end]), "these bytes are no member's identity: they end too early");
    }
    let longer = [&bytes[..], b"x"].concat();
    assert_eq!(error(&longer), "these bytes are no member's identity: 1 are left over");
    assert!(MasterIdentity::from_bytes(b"no key").is_err());
}

#[test]
fn dates_that_a_certificate_cannot_hold_are_refused() {
    for lifetime in [Duration::from_secs(1_000_000_000_000), Duration::MAX] {
        let error = authority().issue(1, lifetime).expect_err("no such date").to_string();
        assert_eq!(error, "a certificate cannot hold these dates, expected some between 1970 and 9999");
    }
    authority().issue(1, Duration::from_secs(200_000_000_000)).expect("it ends before the year 9999");
}

#[test]
fn a_damaged_identity_does_no_harm() {
    let bytes = authority().issue(1, HOUR).expect("a certificate").reveal_bytes();
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x21;
        let _ = MemberIdentity::from_bytes(&damaged).map(|identity| Trust::member(&identity).map(|_| ()));
    }
}

#[test]
fn secrets_do_not_show() {
    let authority = authority();
    let identity = authority.issue(1, HOUR).expect("a certificate");
    let shown = format!("{authority:?} {identity:?} {:?}", trust_of(&identity));
    let key = authority.fingerprint();
    assert_eq!(
        shown,
        format!(
            "MasterIdentity {{ fingerprint: {key}, … }} MemberIdentity {{ whom: Member {{ incarnation: 1 }}, \
             fingerprint: {key}, … }} Tls(TlsTrust {{ fingerprint: {key}, … }})"
        )
    );
}
