//! The state of a run on many machines, as a person sees it.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::process::Stdio;

use crossbeam_channel::bounded;
use paceline_cluster::tracker::{
    Board, CheckpointStatus, EvaluationStatus, MemberStatus, RunStatus, ThresholdStatus, Tracker, TrackerOptions,
};
use paceline_cluster::trust::Token;
use tempfile::TempDir;

use crate::paceline::{Said, command, run};

const TOKEN: &str = "00112233445566778899aabbccddeeff";

fn folder() -> TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

fn tracker(options: TrackerOptions, board: &Board) -> Tracker {
    Tracker::start(options, board.clone(), bounded(4).0).expect("a free port")
}

fn status() -> RunStatus {
    let worker = |number: u64, address: &str, heard_ms_ago| MemberStatus {
        name: format!("node7/{number}"),
        address: address.to_owned(),
        heard_ms_ago,
        round: 310 + number,
        slots: 2,
        leases: 1,
    };
    let mut status = RunStatus {
        run: "5f0c".to_owned(),
        term: 2,
        phase: "running".to_owned(),
        reason: "2 workers are there".to_owned(),
        mode: "averaging".to_owned(),
        view: 7,
        view_first_round: 300,
        members: vec![worker(3, "10.0.0.2:4711", 300_000), worker(12, "trainer.example:99\x1b[2J", 14_000_000)],
        epoch: 2,
        epochs: 5,
        round: 313,
        examples_counted: 15_000,
        examples: 60_000,
        rounds_again: 4,
        examples_set_aside: 64,
        rolled_back: 1,
        workers_joined: 6,
        workers_lost: 4,
        bytes_received: 3 << 20,
        checkpoint: Some(CheckpointStatus { round: 300, path: "runs/x/c".to_owned(), seconds_ago: 600.0 }),
        last_evaluation: Some(EvaluationStatus { epoch: 1, score: f64::NAN, accuracy: Some(0.975) }),
        thresholds: vec![ThresholdStatus {
            worker: "node7/3".to_owned(),
            threshold: 0.001,
            sparsity: 0.0025,
            residual: 12.5,
        }],
        ..RunStatus::default()
    };
    (1..=12).for_each(|number| status.decisions.push(f64::from(number) / 2.0, &format!("decision {number}")));
    status
}

#[test]
fn the_state_is_a_table() {
    let board = Board::new(status());
    let tracker = tracker(TrackerOptions::default(), &board);
    let folder = folder();
    let said = run(folder.path(), &["status", tracker.address()]).done();
    let expected = "\
run         5f0c, term 2, mode averaging
phase       running: 2 workers are there
epoch       2 of 5, 15000 of 60000 examples (25 %)
round       313, view 7 since round 300
workers     2 there, 6 joined, 4 lost
repeated    4 rounds again, 64 examples set aside, 1 times back to a checkpoint
received    3.00 MiB
checkpoint  round 300, 10 min ago, `runs/x/c`
evaluation  epoch 1, score NaN, accuracy 0.9750

worker    address                     heard  round  slots
node7/3   10.0.0.2:4711           5 min ago    313      2
node7/12  trainer.example:99\u{fffd}[2J    4 h ago    322      2

worker   threshold  sparsity  residual
node7/3   1.000e-3  2.500e-3   1.250e1

   at  decision
1.5 s  decision 3
2.0 s  decision 4
2.5 s  decision 5
3.0 s  decision 6
3.5 s  decision 7
4.0 s  decision 8
4.5 s  decision 9
5.0 s  decision 10
5.5 s  decision 11
6.0 s  decision 12
";
    assert_eq!(said.output, expected);
    assert_eq!(said.errors, "");
    let url = format!("http://{}/", tracker.address());
    assert_eq!(run(folder.path(), &["status", &url]).done().output, expected);
    // The master is asked itself, whatever stands between this machine and the world.
    let mut behind = command(folder.path(), &["status", tracker.address()]);
    behind.env("http_proxy", "http://127.0.0.1:1").env("all_proxy", "http://127.0.0.1:1");
    assert_eq!(crate::paceline::finish(&mut behind).done().output, expected);
}

#[test]
fn a_run_that_has_just_begun_has_a_short_table() {
    let tracker = tracker(TrackerOptions::default(), &Board::default());
    let said = run(folder().path(), &["status", tracker.address()]).done();
    assert!(said.output.contains("phase       waiting\n"), "{}", said.output);
    assert!(said.output.contains("(0 %)") && said.output.ends_with("received    0 B\n"), "{}", said.output);
}

#[test]
fn json_is_printed_as_it_came() {
    // With a field that this version does not know.
    let body = "{\"run\": \"ab\",   \"of_the_future\": 1}\n";
    let address = answers(&format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len()));
    let said = run(folder().path(), &["status", &address, "--json"]).done();
    assert_eq!(said.output, body);

    let board = Board::new(status());
    let tracker = tracker(TrackerOptions::default(), &board);
    let said = run(folder().path(), &["status", tracker.address(), "--json"]).done();
    let told: RunStatus = serde_json::from_str(&said.output).expect("a state");
    assert_eq!((told.run.as_str(), told.decisions.iter().len()), ("5f0c", 12));
}

#[test]
fn the_token_comes_from_a_file() {
    let token = Some(Token::parse(TOKEN).expect("a token"));
    let options = TrackerOptions { token, trusted_network: Some(false), ..TrackerOptions::default() };
    let tracker = tracker(options, &Board::new(status()));
    let folder = folder();
    fs::write(folder.path().join("token"), format!("{TOKEN}\n")).expect("written");
    fs::write(folder.path().join("other"), "ab".repeat(16)).expect("written");
    fs::write(folder.path().join("short"), "abc").expect("written");
    let ask = |arguments: &[&str]| run(folder.path(), &[&["status", tracker.address()], arguments].concat());
    assert!(ask(&["--token-file", "token"]).done().output.starts_with("run "));
    ask(&[]).refused(1, &["tells its state to those who know its token", "`--token-file`", tracker.address()]);
    ask(&["--token-file", "other"]).refused(1, &["is not the one of the master", tracker.address()]);
    ask(&["--token-file", "short"]).refused(1, &["`short` holds no token", "3 characters"]);
    ask(&["--token-file", "absent"]).refused(1, &["cannot read `absent`"]);
}

#[test]
fn a_watch_goes_on_until_the_run_ends() {
    let board = Board::new(status());
    let tracker = tracker(TrackerOptions::default(), &board);
    let folder = folder();
    let mut watch = command(folder.path(), &["status", tracker.address(), "--watch", "1"]);
    let mut child = watch.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("starts");
    let mut output = BufReader::new(child.stdout.take().expect("piped"));
    let mut line = String::new();
    while !line.starts_with("phase ") {
        line.clear();
        assert_ne!(output.read_line(&mut line).expect("text"), 0, "it ended before it told the phase");
    }
    assert_eq!(line, "phase       running: 2 workers are there\n");
    board.update(|status| (status.phase, status.reason) = ("ended".to_owned(), "all epochs are done".to_owned()));
    let mut rest = String::new();
    output.read_to_string(&mut rest).expect("text");
    assert!(rest.contains("phase       ended: all epochs are done\n"), "{rest}");
    Said::at_the_end_of(child).done();
}

#[test]
fn a_watch_ends_when_nobody_reads_it() {
    let tracker = tracker(TrackerOptions::default(), &Board::new(status()));
    let folder = folder();
    let mut watch = command(folder.path(), &["status", tracker.address(), "--watch", "1", "--json"]);
    let mut child = watch.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("starts");
    drop(child.stdout.take());
    Said::at_the_end_of(child).done();
}

/// Somebody who reads a request's head and answers with this, once for each who comes.
fn answers(with: &str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound").to_string();
    let with = with.to_owned();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut head = Vec::new();
            let mut byte = [0];
            while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|read| read > 0) {
                head.push(byte[0]);
            }
            // Whoever has gone does not hear it.
            let _ = stream.write_all(with.as_bytes());
        }
    });
    address
}

#[test]
fn whoever_is_no_master_is_named() {
    let folder = folder();
    let ask = |address: &str| -> Said { run(folder.path(), &["status", address]) };
    let free = {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        listener.local_addr().expect("bound").to_string()
    };
    ask(&free).refused(1, &[&format!("nobody shows the state of a run at `{free}`"), "refused"]);

    for garbage in ["", "SSH-2.0-OpenSSH_9.2\r\n", "\x15\x03\x01\x00\x02\x02", &"x".repeat(100_000)] {
        let address = answers(garbage);
        ask(&address).refused(1, &[&format!("`{address}` does not speak HTTP"), "where workers join"]);
    }
    let others = [
        "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]",
    ];
    for answer in others {
        let address = answers(answer);
        ask(&address).refused(1, &[&format!("`{address}` speaks HTTP, but not as the master of a run does")]);
    }
    let busy = answers("HTTP/1.1 503 Busy\r\nContent-Length: 13\r\n\r\nCome\x1b[2Jback!");
    ask(&busy).refused(1, &[&format!("`{busy}` answers with status 503: Come\u{fffd}[2Jback!")]);
    let elsewhere = answers("HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n");
    ask(&elsewhere).refused(1, &["302"]);
    let wrong = answers("HTTP/1.1 200 OK\r\nContent-Length: 22\r\n\r\n{\"run\":\"a\",\"term\":\"b\"}");
    ask(&wrong).refused(1, &["cannot be understood", "expected u64"]);
}

#[test]
fn silence_is_not_waited_for() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound").to_string();
    run(folder().path(), &["status", &address]).refused(1, &[&format!("`{address}` did not answer within 4 s")]);
}

#[test]
fn what_is_no_address_is_misuse() {
    let folder = folder();
    for address in ["here", "here:", "here:x", "here:0", "https://here:80", "here:80/status", "a@here:80", ""] {
        let expected = format!("`{address}` is no address of a master, expected `HOST:PORT`");
        run(folder.path(), &["status", address]).refused(2, &[&expected]);
    }
    run(folder.path(), &["status"]).refused(2, &["<ADDR>"]);
    run(folder.path(), &["status", "here:80", "--watch", "0"]).refused(2, &["--watch"]);
}
