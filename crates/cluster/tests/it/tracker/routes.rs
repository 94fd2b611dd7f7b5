//! What each route answers.

use std::net::TcpStream;

use crossbeam_channel::bounded;
use paceline_cluster::tracker::{Board, RunStatus, Tracker, TrackerOptions};
use paceline_exchange::rounds::Operator;

use super::http::{ask, connect, send, to_the_end};
use super::{Shown, status};

#[test]
fn the_first_page_names_every_route() {
    let shown = Shown::start(TrackerOptions::default());
    let page = ask(shown.address(), "GET", "/", &[]);
    assert_eq!(page.status, 200);
    assert_eq!(page.header("content-type"), Some("text/plain; charset=utf-8"));
    for route in ["GET  /status", "GET  /metrics", "POST /pause", "POST /resume", "POST /save", "POST /stop"] {
        assert!(page.body.contains(route), "{}", page.body);
    }
    for line in page.body.lines().filter(|line| line.starts_with("GET") || line.starts_with("POST")) {
        let mut words = line.split_whitespace();
        let (method, path) = (words.next().expect("a method"), words.next().expect("a path"));
        assert!(matches!(ask(shown.address(), method, path, &[]).status, 200 | 202), "{line}");
    }
}

#[test]
fn the_state_is_told_as_it_is_now() {
    let shown = Shown::start(TrackerOptions::default());
    let answer = ask(shown.address(), "GET", "/status?pretty", &[]);
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/json")));
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    let mut told: RunStatus = serde_json::from_str(&answer.body).expect("a state");
    let expected = status();
    assert!(told.members[0].heard_ms_ago >= 120, "{told:?}");
    told.members[0].heard_ms_ago = 120;
    told.members[1].heard_ms_ago = 0;
    let checkpoint = told.checkpoint.as_mut().expect("a checkpoint");
    assert!(checkpoint.seconds_ago >= 12.5, "{checkpoint:?}");
    checkpoint.seconds_ago = 12.5;
    // JSON has no word for what is not finite.
    assert!(told.thresholds[0].residual.is_nan());
    told.thresholds[0].residual = f64::INFINITY;
    assert_eq!(told, expected);

    shown.board.update(|status| {
        status.round = 318;
        status.phase = "paused".to_owned();
        status.decisions.push(10.0, "an operator asked for a pause");
    });
    let told: serde_json::Value =
        serde_json::from_str(&ask(shown.address(), "GET", "/status", &[]).body).expect("JSON");
    assert_eq!((&told["round"], &told["phase"]), (&318.into(), &"paused".into()));
    assert_eq!(told["decisions"][2]["what"], "an operator asked for a pause");
    assert_eq!(told["decisions"][2]["seconds_since_start"], 10.0);
}

#[test]
fn a_head_comes_without_its_body() {
    let shown = Shown::start(TrackerOptions::default());
    let answer = ask(shown.address(), "HEAD", "/status", &[]);
    assert_eq!((answer.status, answer.body.as_str()), (200, ""));
    assert!(answer.header("content-length").is_some_and(|length| length != "0"));
}

#[test]
fn orders_reach_the_master() {
    let shown = Shown::start(TrackerOptions::default());
    let orders = [
        ("/pause", Operator::Pause, "No new rounds will be taken until the run is resumed.\n"),
        ("/resume", Operator::Resume, "Rounds will be taken again.\n"),
        ("/save", Operator::Save, "A checkpoint will be written as soon as one can be had.\n"),
        ("/stop", Operator::Stop, "A checkpoint will be written, then the run ends.\n"),
    ];
    for (path, order, sentence) in orders {
        let answer = ask(shown.address(), "POST", path, &["Content-Length: 0"]);
        assert_eq!((answer.status, answer.body.as_str()), (202, sentence));
        assert_eq!(shown.orders.try_recv(), Ok(order), "before whoever gave it is answered");
    }
    let body = "POST /save HTTP/1.1\r\nHost: localhost\r\nContent-Length: 7\r\n\r\nplease!";
    assert_eq!(send(shown.address(), body.as_bytes()).status, 202, "a small body is passed over");
}

#[test]
fn an_order_that_the_master_cannot_take_is_not_promised() {
    let (commands, orders) = bounded(1);
    let tracker = Tracker::start(TrackerOptions::default(), Board::default(), commands).expect("a free port");
    assert_eq!(ask(tracker.address(), "POST", "/pause", &[]).status, 202);
    let full = ask(tracker.address(), "POST", "/resume", &[]);
    assert_eq!((full.status, full.body.contains("try again")), (503, true), "{full:?}");
    assert_eq!(orders.try_iter().collect::<Vec<_>>(), [Operator::Pause]);
    drop(orders);
    let over = ask(tracker.address(), "POST", "/resume", &[]);
    assert_eq!((over.status, over.body.contains("has ended")), (503, true), "{over:?}");
    assert_eq!(ask(tracker.address(), "GET", "/status", &[]).status, 200, "the end can still be seen");
}

#[test]
fn other_paths_and_methods_are_refused_in_words() {
    let shown = Shown::start(TrackerOptions::default());
    for path in ["/stat", "/status/", "//status", "/STATUS", "/%73tatus", "/../status", "*"] {
        let answer = ask(shown.address(), "GET", path, &[]);
        assert!(matches!(answer.status, 400 | 404), "{path}: {answer:?}");
    }
    assert!(ask(shown.address(), "GET", "/none", &[]).body.contains("`/` says what there is"));
    let wrong = [
        ("GET", "/pause", "POST"),
        ("HEAD", "/stop", "POST"),
        ("PUT", "/save", "POST"),
        ("POST", "/status", "GET, HEAD"),
        ("DELETE", "/", "GET, HEAD"),
        ("OPTIONS", "/metrics", "GET, HEAD"),
        ("BREW", "/metrics", "GET, HEAD"),
    ];
    for (method, path, allowed) in wrong {
        let answer = ask(shown.address(), method, path, &[]);
        assert_eq!((answer.status, answer.header("allow")), (405, Some(allowed)), "{method} {path}");
    }
    assert!(shown.orders.is_empty());
}

#[test]
fn nobody_is_answered_when_it_has_been_dropped() {
    let shown = Shown::start(TrackerOptions::default());
    let address = shown.address().to_owned();
    assert_eq!(ask(&address, "GET", "/status", &[]).status, 200);
    let mut idle = connect(&address);
    drop(shown);
    assert_eq!(to_the_end(&mut idle), b"");
    assert!(TcpStream::connect(&address).is_err());
}

#[test]
fn two_trackers_of_one_process_do_not_know_each_other() {
    let (one, other) = (Shown::start(TrackerOptions::default()), Shown::start(TrackerOptions::default()));
    other.board.update(|status| status.run = "other".to_owned());
    assert!(ask(one.address(), "GET", "/status", &[]).body.contains(r#""run":"5f0c""#));
    assert!(ask(other.address(), "GET", "/status", &[]).body.contains(r#""run":"other""#));
    assert_eq!(ask(other.address(), "POST", "/stop", &[]).status, 202);
    assert!(one.orders.is_empty());
}
