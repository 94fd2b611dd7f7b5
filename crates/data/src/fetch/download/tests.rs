//! Downloads from a real little server on the loopback interface, which answers as the test tells it.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::super::FetchProgress;
use super::super::checksum::KnownFile;
use super::from_mirror;
use crate::Error;

/// `bytes(range(256)) * 400`; the checksum is of `hashlib.sha256` over it.
const FILE: KnownFile = KnownFile {
    name: "pattern",
    bytes: 102_400,
    sha256: "27783e87963a4efb6829b531c9ba57b44f45797f6770bd637fbf0d807cbdbae0",
};

fn content() -> Vec<u8> {
    (0..FILE.bytes).map(|at| at as u8).collect()
}

/// Stored, not compressed, so that the packed file is long enough to be broken in the middle.
fn packed(content: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::none());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

/// How the server answers one request.
#[derive(Clone, Copy)]
enum Answer {
    /// The range asked for, or everything.
    Whole,
    /// The same, but the connection ends after this many bytes.
    Cut(usize),
    /// Everything, whatever was asked for.
    IgnoreRange,
    /// No such range.
    NotSatisfiable,
}

/// Answers one request for each item, then hands back the ranges that were asked for.
fn serve(body: Vec<u8>, answers: Vec<Answer>) -> (String, JoinHandle<Vec<Option<usize>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mirror = format!("http://{}/mnist/", listener.local_addr().unwrap());
    let server = std::thread::spawn(move || {
        let mut asked = Vec::new();
        for answer in answers {
            let (stream, _) = listener.accept().unwrap();
            let mut range = None;
            for line in BufReader::new(&stream).lines().map(|line| line.unwrap().to_lowercase()) {
                if let Some(from) = line.strip_prefix("range: bytes=") {
                    range = Some(from.trim_end_matches('-').parse().unwrap());
                }
                if line.is_empty() {
                    break;
                }
            }
            asked.push(range);
            let from = if matches!(answer, Answer::IgnoreRange) { 0 } else { range.unwrap_or(0) };
            let status = match (answer, from) {
                (Answer::NotSatisfiable, _) => "416 Range Not Satisfiable".to_owned(),
                (_, 0) => "200 OK".to_owned(),
                _ => format!("206 Partial Content\r\nContent-Range: bytes {from}-{}/{}", body.len() - 1, body.len()),
            };
            let rest = if matches!(answer, Answer::NotSatisfiable) { &[][..] } else { &body[from..] };
            let sent = if let Answer::Cut(after) = answer { &rest[..after] } else { rest };
            let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", rest.len());
            // A client that has seen enough may hang up first.
            let _ = (&stream).write_all(head.as_bytes()).and_then(|()| (&stream).write_all(sent));
        }
        asked
    });
    (mirror, server)
}

fn names_in(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn a_download_that_breaks_in_the_middle_goes_on_from_there() {
    let folder = tempfile::tempdir().unwrap();
    let (mirror, server) = serve(packed(&content()), vec![Answer::Cut(40_000), Answer::Whole]);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&seen);
    let progress: super::Progress = Arc::new(move |step: FetchProgress| told.lock().unwrap().push(step));
    from_mirror(&FILE, &mirror, folder.path(), Some(&progress)).unwrap();
    assert_eq!(server.join().unwrap(), [None, Some(40_000)]);
    assert_eq!(std::fs::read(folder.path().join("pattern")).unwrap(), content());
    assert_eq!(names_in(folder.path()), ["pattern"], "no part is left");
    let last = seen.lock().unwrap().last().cloned().unwrap();
    assert_eq!(Some(last.received), last.total);
}

#[test]
fn a_part_of_an_earlier_run_is_taken_up() {
    let folder = tempfile::tempdir().unwrap();
    let body = packed(&content());
    std::fs::write(folder.path().join("pattern.gz.part"), &body[..1000]).unwrap();
    let (mirror, server) = serve(body, vec![Answer::Whole]);
    from_mirror(&FILE, &mirror, folder.path(), None).unwrap();
    assert_eq!(server.join().unwrap(), [Some(1000)]);
    assert_eq!(std::fs::read(folder.path().join("pattern")).unwrap(), content());
}

#[test]
fn a_server_that_ignores_the_range_starts_the_download_over() {
    let folder = tempfile::tempdir().unwrap();
    let (mirror, server) = serve(packed(&content()), vec![Answer::Cut(40_000), Answer::IgnoreRange]);
    from_mirror(&FILE, &mirror, folder.path(), None).unwrap();
    assert_eq!(server.join().unwrap(), [None, Some(40_000)]);
    assert_eq!(std::fs::read(folder.path().join("pattern")).unwrap(), content());
}

#[test]
fn a_part_that_the_server_has_no_rest_for_is_thrown_away() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("pattern.gz.part"), vec![1; 500]).unwrap();
    let (mirror, server) = serve(packed(&content()), vec![Answer::NotSatisfiable, Answer::Whole]);
    from_mirror(&FILE, &mirror, folder.path(), None).unwrap();
    assert_eq!(server.join().unwrap(), [Some(500), None]);
}

#[test]
fn a_part_of_other_bytes_costs_one_more_try_and_no_error() {
    let folder = tempfile::tempdir().unwrap();
    let mut other = packed(&content());
    other[5000] ^= 1;
    std::fs::write(folder.path().join("pattern.gz.part"), &other[..9000]).unwrap();
    let (mirror, server) = serve(packed(&content()), vec![Answer::Whole, Answer::Whole]);
    from_mirror(&FILE, &mirror, folder.path(), None).unwrap();
    assert_eq!(server.join().unwrap(), [Some(9000), None]);
    assert_eq!(std::fs::read(folder.path().join("pattern")).unwrap(), content());
}

#[test]
fn a_wrong_checksum_is_named_and_nothing_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let mut wrong = content();
    wrong[77] ^= 1;
    let (mirror, server) = serve(packed(&wrong), vec![Answer::Whole]);
    let error = from_mirror(&FILE, &mirror, folder.path(), None).unwrap_err();
    server.join().unwrap();
    assert!(matches!(&error, Error::Checksum { .. }), "{error}");
    assert!(error.to_string().contains(FILE.sha256) && error.to_string().contains("deleted"), "{error}");
    assert!(names_in(folder.path()).is_empty());
}

#[test]
fn a_file_that_unpacks_to_more_than_it_should_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(&vec![0; 10_000_000]).unwrap();
    let (mirror, server) = serve(encoder.finish().unwrap(), vec![Answer::Whole]);
    let error = from_mirror(&FILE, &mirror, folder.path(), None).unwrap_err();
    server.join().unwrap();
    assert!(error.to_string().contains("longer file"), "{error}");
    assert!(names_in(folder.path()).is_empty());
}

#[test]
fn an_answer_longer_than_the_file_can_be_is_refused_before_it_is_stored() {
    let folder = tempfile::tempdir().unwrap();
    let (mirror, server) = serve(vec![7; 1_000_000], vec![Answer::Whole]);
    let error = from_mirror(&FILE, &mirror, folder.path(), None).unwrap_err();
    server.join().unwrap();
    assert!(matches!(error, Error::DownloadTooLarge { .. }), "{error}");
    assert!(names_in(folder.path()).is_empty());
}

#[test]
fn a_download_that_never_gets_anywhere_gives_up_and_keeps_its_part() {
    let folder = tempfile::tempdir().unwrap();
    let (mirror, server) = serve(packed(&content()), vec![Answer::Cut(100), Answer::Cut(0)]);
    let error = from_mirror(&FILE, &mirror, folder.path(), None).unwrap_err();
    server.join().unwrap();
    assert!(matches!(error, Error::BrokenDownload { found: 100, .. }), "{error}");
    assert_eq!(names_in(folder.path()), ["pattern.gz.part"]);
}
