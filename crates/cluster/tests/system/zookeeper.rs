//! Coordination by real ZooKeepers: servers that die, links that fall silent, replies that are lost.

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use paceline_cluster::coordination::{CONNECT_LIMIT, Coordination, CoordinationError, Loss, RunRecord, ZooKeeper};
use zookeeper_client::Client;

use crate::link::Link;
use crate::suite::{LONG, led, record};
use crate::zookeeper_server::{Ensemble, Server};

/// A path on the server that all share.
struct Path {
    server: Arc<Server>,
    name: String,
}

impl Path {
    fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("tests/of-a-run-{}", COUNT.fetch_add(1, Ordering::Relaxed));
        Self { server: Server::shared(), name }
    }

    fn candidate(&self) -> Box<dyn Coordination> {
        // Longer than anybody waits here: who leaves must be seen to leave, not to expire.
        Box::new(self.reach(&self.server.address(), "60s"))
    }

    /// Writes what only somebody else would write.
    fn write(&self, node: &str, data: &[u8]) {
        tokio::runtime::Runtime::new().expect("a runtime").block_on(async {
            let client = Client::connect(&self.server.address()).await.expect("a ZooKeeper");
            client.set_data(&format!("/{}/{node}", self.name), data, None).await.expect("a node");
        });
    }

    fn reach(&self, address: &str, session: &str) -> ZooKeeper {
        connected(&format!("zk://{address}/{}?session={session}", self.name))
    }
}

#[track_caller]
fn connected(address: &str) -> ZooKeeper {
    ZooKeeper::connect(address, LONG).unwrap_or_else(|error| panic!("{error}"))
}

/// Checks until the candidate does not lead any more; gives the reason.
#[track_caller]
fn until_lost(leader: &mut dyn Coordination) -> Loss {
    let since = Instant::now();
    while since.elapsed() < LONG {
        match leader.check() {
            Ok(()) => thread::sleep(Duration::from_millis(10)),
            Err(CoordinationError::Lost { reason }) => return reason,
            Err(other) => panic!("{other}"),
        }
    }
    panic!("it still believes that it leads");
}

/// Removes the nodes of all candidates, as if their sessions had ended.
fn remove_candidates(address: &str, path: &str) {
    tokio::runtime::Runtime::new().expect("a runtime").block_on(async {
        let client = Client::connect(address).await.expect("a ZooKeeper");
        let folder = format!("/{path}/candidates");
        for name in client.list_children(&folder).await.expect("candidates") {
            client.delete(&format!("{folder}/{name}"), None).await.expect("a candidate");
        }
    });
}

/// Publishes again as long as nobody answers: a connection that was lost is not back at once.
#[track_caller]
fn published(leader: &mut dyn Coordination, record: &RunRecord) {
    let since = Instant::now();
    while let Err(error) = leader.publish(record) {
        assert!(matches!(error, CoordinationError::Unreachable { .. }) && since.elapsed() < LONG, "{error}");
    }
}

/// Publishes with the first term until it is refused because of the second; fails if it ever succeeds.
#[track_caller]
fn is_fenced(leader: &mut dyn Coordination) {
    let since = Instant::now();
    loop {
        match leader.publish(&record(1)) {
            Err(CoordinationError::Fenced { mine: 1, newest: 2 }) => return,
            // Before it could be asked.
            Err(CoordinationError::Lost { .. }) if since.elapsed() < LONG => {}
            other => panic!("{other:?}"),
        }
    }
}

crate::suite::conformance!(Path::new());

#[test]
fn nobody_there_is_an_error_within_five_seconds_that_names_every_address() {
    let closed =
        || TcpListener::bind(("127.0.0.1", 0)).and_then(|listener| listener.local_addr()).expect("a free port");
    let (one, two) = (closed(), closed());
    let since = Instant::now();
    let error =
        ZooKeeper::connect(&format!("zk://anna:secret@{one},{two}/p"), CONNECT_LIMIT).expect_err("nobody is there");
    // The limit is a promise to who waits, not a measure of speed.
    assert!(since.elapsed() < Duration::from_secs(5), "{:?}", since.elapsed());
    let said = format!("{error} {error:?}");
    for part in [one.to_string(), two.to_string(), "refused".into()] {
        assert!(said.contains(&part), "{said}");
    }
    assert!(!said.contains("secret"), "{said}");
}

#[test]
fn something_else_at_the_address_is_said() {
    let other = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    let address = other.local_addr().expect("it is bound");
    let limit = Duration::from_millis(300);
    let said = ZooKeeper::connect(&format!("zk://{address}/p"), limit).expect_err("no ZooKeeper").to_string();
    assert!(said.contains(&address.to_string()) && said.contains("does not answer as a ZooKeeper"), "{said}");
}

#[test]
fn an_address_that_is_none_is_refused_before_anybody_is_asked() {
    let error = ZooKeeper::connect("zk://127.0.0.1:port/p", LONG).expect_err("no port");
    assert!(matches!(error, CoordinationError::BadAddress { .. }), "{error:?}");
}

#[test]
fn a_server_that_is_killed_and_comes_back_within_the_session_changes_nothing() {
    let mut server = Server::start();
    let address = format!("zk://{}/a/b/c?session=20s", server.address());
    let (mut leader, mut standby, mut worker) = (connected(&address), connected(&address), connected(&address));
    led(&mut leader);
    leader.publish(&record(1)).expect("it leads");
    worker.register("seven").expect("a good name");
    assert_eq!(standby.lead(Duration::ZERO).expect("no error"), None);

    server.kill();
    leader.check().expect("the session lasts for a while");
    server.restart();

    published(&mut leader, &record(1));
    leader.check().expect("it still leads");
    for other in [&mut standby, &mut worker] {
        assert_eq!(other.find(0, LONG).expect("no error"), Some(record(1)));
    }
    assert_eq!(standby.lead(Duration::from_millis(300)).expect("no error"), None);
    assert_eq!(leader.workers().expect("no error"), ["seven"]);
    thread::scope(|scope| {
        let waiting = scope.spawn(|| led(&mut standby));
        leader.resign();
        assert_eq!(waiting.join().expect("no panic"), 2);
    });
}

#[test]
fn a_leader_stops_when_the_server_is_gone_for_longer_than_the_session() {
    let mut server = Server::start();
    let address = format!("zk://{}/run?session=2s", server.address());
    let (mut leader, mut standby) = (connected(&address), connected(&address));
    led(&mut leader);
    leader.publish(&record(1)).expect("it leads");

    server.kill();
    let reason = until_lost(&mut leader);
    assert!(matches!(reason, Loss::NoAnswer { .. } | Loss::SessionExpired), "{reason:?}");
    let error = leader.publish(&record(1)).expect_err("nobody is there");
    assert!(matches!(error, CoordinationError::Lost { .. }), "{error}");
    let error = standby.lead(Duration::ZERO).expect_err("nobody is there");
    assert!(matches!(error, CoordinationError::Unreachable { .. }), "{error}");

    server.restart();
    let leadership = standby.lead(LONG).expect("no error").expect("to lead");
    assert_eq!((leadership.term, leadership.found), (2, Some(record(1))));
    is_fenced(&mut leader);
    standby.resign();
    assert_eq!(led(&mut leader), 3, "the old one may lead again, in a new term");
}

#[test]
fn a_leader_that_heard_nothing_leads_on_in_its_term_unless_somebody_has_taken_another() {
    let mut server = Server::start();
    let address = format!("zk://{}/run?session=2s", server.address());
    let (mut leader, mut standby) = (connected(&address), connected(&address));
    led(&mut leader);
    leader.publish(&record(1)).expect("it leads");
    leader.regain(LONG).expect("one that leads has nothing to regain");

    server.kill();
    until_lost(&mut leader);
    let error = leader.regain(Duration::ZERO).expect_err("nobody is there");
    assert!(matches!(error, CoordinationError::Unreachable { .. }), "{error}");
    server.restart();
    leader.regain(LONG).expect("nobody has taken another term");
    leader.check().expect("it leads");
    published(&mut leader, &record(1));
    assert_eq!(standby.lead(Duration::from_millis(300)).expect("no error"), None, "the first one leads on");
    assert_eq!(standby.find(0, LONG).expect("no error"), Some(record(1)));

    server.stand_still(true);
    until_lost(&mut leader);
    server.stand_still(false);
    // However soon its session ends: whoever stands first waits for one that has regained its term.
    leader.regain(LONG).expect("nobody has taken another term");
    assert_eq!(standby.lead(Duration::from_millis(300)).expect("no error"), None, "the first one leads on");

    server.stand_still(true);
    until_lost(&mut leader);
    server.stand_still(false);
    remove_candidates(&server.address(), "run");
    assert_eq!(led(&mut standby), 2);
    match leader.regain(LONG) {
        Err(CoordinationError::Fenced { mine: 1, newest: 2 }) => {}
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_leader_that_is_cut_off_stops_before_a_standby_leads_and_is_refused_when_it_is_back() {
    let path = Path::new();
    let link = Link::to(&path.server.address());
    let mut leader = path.reach(&link.address(), "2s");
    let mut standby = path.reach(&path.server.address(), "20s");
    led(&mut leader);
    leader.publish(&record(1)).expect("it leads");
    leader.register("beyond the link").expect_err("a name without spaces");
    leader.register("beyond-the-link").expect("a good name");
    assert_eq!(standby.workers().expect("no error"), ["beyond-the-link"]);

    link.silence();
    let leadership = standby.lead(LONG).expect("no error").expect("to lead");
    leader.check().expect_err("it stopped before the other one could lead");
    assert_eq!((leadership.term, leadership.found), (2, Some(record(1))));
    assert_eq!(standby.workers().expect("no error"), [""; 0], "its session has gone with all that it held");

    link.restore();
    is_fenced(&mut leader);
    standby.publish(&record(2)).expect("it leads");
    assert_eq!(leader.find(1, LONG).expect("no error"), Some(record(2)));
    assert_eq!(standby.workers().expect("no error"), ["beyond-the-link"], "a new session shows it again");
}

#[test]
fn a_leader_whose_place_was_taken_while_it_is_connected_cannot_publish() {
    let path = Path::new();
    let address = path.server.address();
    let (mut old, mut new) = (path.candidate(), path.candidate());
    led(&mut *old);
    old.publish(&record(1)).expect("it leads");
    remove_candidates(&address, &path.name);
    assert_eq!(led(&mut *new), 2);
    new.publish(&record(2)).expect("it leads");
    is_fenced(&mut *old);
    assert_eq!(path.candidate().find(0, LONG).expect("no error"), Some(record(2)));

    new.resign();
    assert_eq!(led(&mut *old), 3);
    assert!(old.check().is_ok());
    assert_eq!(path.candidate().find(2, Duration::ZERO).expect("no error"), None, "it has not published");
}

#[test]
fn a_leader_notices_a_newer_term_without_publishing() {
    let path = Path::new();
    let mut leader = path.reach(&path.server.address(), "2s");
    led(&mut leader);
    path.write("term", br#"{"term":9,"candidate":"x-1"}"#);
    assert_eq!(until_lost(&mut leader), Loss::Fenced { mine: 1, newest: 9 });
    assert_eq!(led(&mut leader), 10);
}

#[test]
fn a_term_whose_reply_was_lost_is_taken_once() {
    let path = Path::new();
    let link = Link::to(&path.server.address());
    let mut candidate = path.reach(&link.address(), "20s");
    for term in 1..=3 {
        link.lose_next_transaction();
        assert_eq!(led(&mut candidate), term, "the lost reply was that of this very term");
        assert!(link.has_lost(), "the reply was lost");
        link.lose_next_transaction();
        candidate.publish(&record(term)).expect("it leads");
        assert!(link.has_lost(), "the reply was lost");
        candidate.check().expect("it leads");
    }
    assert_eq!(path.candidate().find(2, LONG).expect("no error"), Some(record(3)));
}

#[test]
fn only_who_has_the_password_may_change_anything() {
    let path = Path::new();
    let with = |credentials: &str| connected(&format!("zk://{credentials}{}/{}", path.server.address(), path.name));
    let mut master = with("anna:se%40cret@");
    assert!(!format!("{master:?}").contains("cret"), "{master:?}");
    led(&mut master);
    master.publish(&record(1)).expect("it leads");
    with("anna:se%40cret@").register("one").expect("it has the password");

    for credentials in ["", "anna:guess@", "bob:se%40cret@"] {
        let mut stranger = with(credentials);
        assert_eq!(stranger.find(0, LONG).expect("everyone may read"), Some(record(1)));
        for error in [stranger.lead(LONG).map(drop), stranger.register("two")] {
            let error = error.expect_err("a stranger may not");
            assert!(matches!(error, CoordinationError::Refused { .. }), "{error:?}");
            let said = format!("{error} {error:?}");
            assert!(said.contains(&path.name) && !said.contains("guess"), "{said}");
        }
    }
    master.check().expect("it still leads");
    master.resign();
    assert_eq!(led(&mut with("anna:se%40cret@")), 2);
}

#[test]
fn what_somebody_else_wrote_is_an_error_that_names_the_node() {
    let path = Path::new();
    led(&mut *path.candidate());
    path.write("record", b"what?");
    let said = path.candidate().lead(LONG).expect_err("no record").to_string();
    assert!(said.contains(&format!("/{}/record", path.name)), "{said}");
    path.write("record", b"");
    path.write("term", b"seven");
    let said = path.candidate().lead(LONG).expect_err("no term").to_string();
    assert!(said.contains(&format!("/{}/term", path.name)), "{said}");
}

#[test]
fn a_term_that_somebody_reset_does_not_bring_old_terms_back() {
    let path = Path::new();
    let mut leader = path.candidate();
    for _ in 0..3 {
        led(&mut *leader);
    }
    leader.publish(&record(3)).expect("it leads");
    drop(leader);
    path.write("term", br#"{"term":0,"candidate":""}"#);
    assert_eq!(led(&mut *path.candidate()), 4);
}

#[test]
fn with_one_of_three_servers_killed_everything_goes_on_and_a_standby_takes_over() {
    let mut ensemble = Ensemble::start();
    let links: Vec<_> = ensemble.addresses().iter().map(|server| Link::to(server)).collect();
    let linked = links.iter().map(Link::address).collect::<Vec<_>>().join(",");
    let direct = ensemble.addresses().join(",");
    let mut master = connected(&format!("zk://{linked}/runs/one?session=10s"));
    let (mut standby, mut worker) = (
        connected(&format!("zk://{direct}/runs/one?session=10s")),
        connected(&format!("zk://{direct}/runs/one?session=10s")),
    );
    led(&mut master);
    master.publish(&record(1)).expect("it leads");
    worker.register("seven").expect("a good name");

    ensemble.kill_leader();
    let newer = RunRecord { checkpoint: None, ..record(1) };
    // Two servers need a moment to agree on who leads them.
    published(&mut master, &newer);
    master.check().expect("it still leads");
    for other in [&mut standby, &mut worker] {
        assert_eq!(other.find(0, LONG).expect("no error"), Some(newer.clone()));
    }
    assert_eq!(master.workers().expect("no error"), ["seven"]);
    assert_eq!(standby.lead(Duration::ZERO).expect("no error"), None);

    links.iter().for_each(Link::silence);
    let leadership = standby.lead(LONG).expect("no error").expect("to lead");
    master.check().expect_err("it stopped before the other one could lead");
    assert_eq!((leadership.term, leadership.found), (2, Some(newer)));
    standby.publish(&record(2)).expect("it leads");
    assert_eq!(worker.find(1, LONG).expect("no error"), Some(record(2)));
    links.iter().for_each(Link::restore);
    is_fenced(&mut master);
}
