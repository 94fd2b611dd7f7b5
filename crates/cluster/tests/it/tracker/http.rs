//! Plain bytes over a socket: what a library would make of them is not in the way.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// How long to wait for what must happen.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// What came back.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) head: String,
    pub(super) body: String,
}

impl Answer {
    /// The value of a header.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.filter(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value).next()
    }
}

pub(super) fn connect(address: &str) -> TcpStream {
    let stream = TcpStream::connect(address).expect("somebody listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a limit");
    stream.set_nodelay(true).expect("small packets");
    stream
}

/// Everything that comes until the other side closes, in order or not.
pub(super) fn to_the_end(stream: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut part = [0; 4096];
    loop {
        match stream.read(&mut part) {
            Ok(0) => return bytes,
            Ok(read) => bytes.extend_from_slice(&part[..read]),
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return bytes,
            Err(error) => panic!("the other side does not close: {error}"),
        }
    }
}

/// Sends bytes and reads the answer.
pub(super) fn send(address: &str, bytes: &[u8]) -> Answer {
    let mut stream = connect(address);
    stream.write_all(bytes).expect("it takes bytes");
    let text = String::from_utf8(to_the_end(&mut stream)).expect("text");
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer but `{text}`"));
    let status = head.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)).expect("a status line");
    Answer { status: status.parse().expect("a status"), head: head.to_owned(), body: body.to_owned() }
}

/// Asks for a path, with further headers.
pub(super) fn ask(address: &str, method: &str, path: &str, headers: &[&str]) -> Answer {
    let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
    send(address, format!("{method} {path} HTTP/1.1\r\nHost: {address}\r\n{headers}\r\n").as_bytes())
}
