//! Strangers that are silent, slow, many, large or mad. Nobody else notices.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use paceline_cluster::tracker::{TrackerLimits, TrackerOptions};

use super::Shown;
use super::http::{ask, connect, send, to_the_end};

fn shown(limits: TrackerLimits) -> Shown {
    Shown::start(TrackerOptions { limits, ..TrackerOptions::default() })
}

fn is_well(shown: &Shown) {
    assert_eq!(ask(shown.address(), "GET", "/status", &[]).status, 200);
}

#[test]
fn a_connection_that_asks_for_nothing_is_closed() {
    let shown = shown(TrackerLimits { request: Duration::from_millis(100), ..TrackerLimits::default() });
    let beginnings = [
        "",
        "G",
        "GET /status HTTP/1.1\r\nHost: localhost\r\n",
        "POST /stop HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nha",
    ];
    for beginning in beginnings {
        let mut stream = connect(shown.address());
        stream.write_all(beginning.as_bytes()).expect("it takes bytes");
        assert_eq!(to_the_end(&mut stream), b"", "{beginning:?}");
    }
    assert!(shown.orders.is_empty(), "half an order is none");
    is_well(&shown);
}

#[test]
fn a_byte_now_and_then_does_not_keep_a_connection() {
    let shown = shown(TrackerLimits { request: Duration::from_millis(200), ..TrackerLimits::default() });
    let mut stream = connect(shown.address());
    stream.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: ").expect("it takes bytes");
    stream.set_read_timeout(Some(Duration::from_millis(20))).expect("a limit");
    let ended = (0..1_500).any(|_| match stream.read(&mut [0]) {
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
            stream.write_all(b"x").is_err()
        }
        Ok(0) | Err(_) => true,
        Ok(_) => panic!("half a request was answered"),
    });
    assert!(ended, "it goes on for ever");
    is_well(&shown);
}

#[test]
fn two_hundred_idle_connections_make_room_for_one_that_asks() {
    // Without a limit of time worth mentioning: only the number of connections is at work.
    let shown = shown(TrackerLimits { request: Duration::from_secs(3600), ..TrackerLimits::default() });
    let mut idle: Vec<TcpStream> = (0..200).map(|_| connect(shown.address())).collect();
    is_well(&shown);
    // 64 are left, of which one was ours: all others were closed.
    for stream in &mut idle[..137] {
        assert_eq!(to_the_end(stream), b"");
    }
    for stream in &idle[137..] {
        stream.set_nonblocking(true).expect("a socket");
        let error = (&mut &*stream).read(&mut [0]).expect_err("it is open, and silent");
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
    }
}

#[test]
fn many_who_ask_at_once_are_all_answered() {
    let shown = shown(TrackerLimits::default());
    let _idle: Vec<TcpStream> = (0..200).map(|_| connect(shown.address())).collect();
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| (0..10).for_each(|_| is_well(&shown)));
        }
    });
}

#[test]
fn large_requests_are_refused() {
    let shown = shown(TrackerLimits::default());
    let head = format!("GET /status HTTP/1.1\r\nHost: localhost\r\nX: {}", "x".repeat(16 << 10));
    assert_eq!(send(shown.address(), head.as_bytes()).status, 431);
    let path = format!("GET /{}", "x".repeat(16 << 10));
    assert!(matches!(send(shown.address(), path.as_bytes()).status, 414 | 431));
    let headers = format!("GET / HTTP/1.1\r\nHost: localhost\r\n{}\r\n", "X: x\r\n".repeat(200));
    assert_eq!(send(shown.address(), headers.as_bytes()).status, 431);
    for length in ["4097", "4294967296", "9223372036854775807"] {
        let body = format!("POST /stop HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n");
        let answer = send(shown.address(), body.as_bytes());
        assert_eq!((answer.status, answer.body.contains("4096 bytes")), (413, true), "{length}: {answer:?}");
    }
    let chunk = format!("1000\r\n{}\r\n2\r\nxx\r\n", "x".repeat(4096));
    let body = format!("POST /stop HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n{chunk}");
    assert_eq!(send(shown.address(), body.as_bytes()).status, 413);
    assert!(shown.orders.is_empty());
    is_well(&shown);
}

#[test]
fn garbage_closes_its_own_connection() {
    let shown = shown(TrackerLimits::default());
    let noise: Vec<u8> = (0..3000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let garbage: [&[u8]; 7] = [
        &noise,
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 a greeting of TLS",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"POST /stop HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        b"POST /stop HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        b"POST /stop HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nnonsense\r\n",
        b"POST /stop HTTP/9.9\r\nHost: localhost\r\n\r\n",
    ];
    for bytes in garbage {
        let mut stream = connect(shown.address());
        stream.write_all(bytes).expect("it takes bytes");
        let said = to_the_end(&mut stream);
        let refused = said.is_empty() || said.starts_with(b"HTTP/1.1 4") || said.starts_with(b"HTTP/1.1 505");
        assert!(refused, "{}", String::from_utf8_lossy(&said));
    }
    assert!(shown.orders.is_empty());
    is_well(&shown);
}

#[test]
fn a_connection_is_for_one_request() {
    let shown = shown(TrackerLimits::default());
    let two = "POST /save HTTP/1.1\r\nHost: localhost\r\n\r\nPOST /stop HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let answer = send(shown.address(), two.as_bytes());
    assert_eq!((answer.status, answer.header("connection")), (202, Some("close")));
    assert_eq!(shown.orders.try_iter().count(), 1);
}
