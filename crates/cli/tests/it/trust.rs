//! Who may join a run, give orders to it and listen to it.

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use crate::cluster::free_port;
use crate::masters::{address, ended_well, left_well, master, text, worker};
use crate::paceline::{named, run};

#[test]
fn with_tls_a_worker_needs_the_join_string_and_nothing_else() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut master = master(folder.path(), &["--tls", "--min-workers", "2"]);
    let join = text(&master.wait_for("listening")["join"]);
    let plain = join.strip_prefix("paceline://").and_then(|j| j.split('?').next()).expect("an address").to_owned();
    run(folder.path(), &["worker", "--join", &plain, "--patience", "1"]).refused(1, &["no master answered", &plain]);
    let last = join.chars().next_back().expect("a digit");
    let wrong = format!("{}{}", &join[..join.len() - 1], if last == '0' { '1' } else { '0' });
    run(folder.path(), &["worker", "--join", &wrong, "--patience", "1"]).refused(1, &["no master answered"]);
    let workers = [(); 2].map(|()| worker(folder.path(), &["--join", &join]));
    ended_well(master, 20);
    workers.into_iter().for_each(|worker| drop(left_well(worker)));
}

#[test]
fn with_tls_a_master_that_was_killed_is_known_again_by_its_workers() {
    let folder = tempfile::tempdir().expect("a folder");
    let listen = free_port();
    let usual = ["--tls", "--listen", &listen, "--set", "train.epochs=200"];
    let mut first = master(folder.path(), &usual);
    let join = text(&first.wait_for("listening")["join"]);
    let mut worker = worker(folder.path(), &["--join", &join]);
    first.wait_for("checkpoint");
    first.kill();
    worker.wait_for("left");
    let mut again = master(folder.path(), &usual);
    assert_eq!(text(&again.wait_for("listening")["join"]), join, "the key and the token are those of the run");
    worker.wait_for("joined");
    again.wait_for("checkpoint");
    again.interrupt();
    assert_eq!(again.end().0, Some(130));
    worker.kill();
}

#[test]
fn certificates_are_renewed_before_they_run_out() {
    let folder = tempfile::tempdir().expect("a folder");
    // They hold for 6 s.
    let usual = ["--tls", "--certificate-hours", "0.00167", "--min-workers", "2", "--set", "train.epochs=100000"];
    let mut master = master(folder.path(), &usual);
    let join = text(&master.wait_for("listening")["join"]);
    let old = [(); 2].map(|()| worker(folder.path(), &["--join", &join]));
    master.wait_for("step");
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(8) {
        master.wait_for("epoch");
    }
    let young = worker(folder.path(), &["--join", &join]);
    while master.wait_for("view")["workers"].as_array().map(Vec::len) != Some(3) {}
    for _ in 0..20 {
        master.wait_for("epoch");
    }
    let events = master.kill();
    let reasons: Vec<&str> = named(&events, "view").iter().filter_map(|view| view["reason"].as_str()).collect();
    assert!(reasons.iter().all(|reason| !reason.contains("reach")), "the old ones can be connected to: {reasons:?}");
    drop((old, young));
}

#[test]
fn strangers_with_garbage_are_shown_out_while_training_goes_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut master = master(folder.path(), &["--set", "train.epochs=60"]);
    let address = address(&mut master);
    let worker = worker(folder.path(), &["--join", &address]);
    master.wait_for("step");
    let mut length = b"PCLN\x01\x00\x01\x00\xff\xff\xff\xff".to_vec();
    length.resize(48, 0);
    let garbage = b"GET / HTTP/1.1\r\n\r\n".to_vec();
    let mut strangers: Vec<TcpStream> = Vec::new();
    for n in 0..300 {
        let Ok(mut stranger) = TcpStream::connect(&address) else { continue };
        let _ = match n % 3 {
            0 => stranger.write_all(&garbage),
            1 => stranger.write_all(&length),
            _ => stranger.write_all(&length[..20]),
        };
        strangers.push(stranger);
    }
    master.wait_for("step");
    ended_well(master, 60);
    left_well(worker);
}

#[test]
fn another_user_of_the_machine_neither_joins_nor_gives_orders_without_a_token() {
    use std::os::unix::process::CommandExt;
    // Only root can act as somebody else; for others, the own user must still be let in.
    let is_root = std::fs::metadata("/proc/self").is_ok_and(|itself| std::os::unix::fs::MetadataExt::uid(&itself) == 0);
    let folder = tempfile::tempdir().expect("a folder");
    let mut master = master(folder.path(), &["--set", "train.epochs=60"]);
    let listening = master.wait_for("listening");
    let (address, status) = (text(&listening["address"]), text(&listening["status"]));
    let asks = |to: &str, what: &str| {
        let script = format!("exec 3<>/dev/tcp/{}; printf '{what}' >&3; cat <&3", to.replace(':', "/"));
        let mut bash = std::process::Command::new("bash");
        bash.args(["-c", &script]).current_dir("/");
        if is_root {
            bash.uid(65534);
        }
        String::from_utf8_lossy(&bash.output().expect("there is a `bash`").stdout).into_owned()
    };
    let order = format!("POST /pause HTTP/1.1\\r\\nHost: {status}\\r\\nContent-Length: 0\\r\\n\\r\\n");
    let said = asks(&status, &order);
    assert_eq!(said.contains("HTTP/1.1 403") && said.contains("belongs to another user"), is_root, "{said}");
    if is_root {
        let said = asks(&address, "hello");
        assert!(said.contains("belongs to another user of the machine"), "{said}");
    }
    let read = asks(&status, &order.replace("POST /pause", "GET /status"));
    assert!(read.contains("HTTP/1.1 200"), "{read}");
    if is_root {
        let own = worker(folder.path(), &["--join", &address]);
        ended_well(master, 60);
        left_well(own);
    }
}

/// Somebody stands where the master should be. It learns nothing that it could use, and is given no work.
#[test]
fn a_token_is_shown_to_nobody_not_even_to_one_who_stands_in_for_the_master() {
    use std::io::Read;

    use paceline_cluster::wire::Word;
    let token = "00112233445566778899aabbccddeeff";
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("token"), token).expect("written");
    let bogus = Word::Challenge { nonce: "ab".repeat(16), proof: "cd".repeat(32) };
    let empty = Word::Challenge { nonce: String::new(), proof: String::new() };
    let careless = Word::Refused { reason: "say it again, and this time with your token".into() };
    for (said, expected) in
        [(bogus, "its token is another one"), (empty, "its token is another one"), (careless, "say it again")]
    {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let worker = worker(folder.path(), &["--join", &address, "--token-file", "token"]);
        let (mut stream, _) = listener.accept().expect("a worker");
        let mut heard = vec![0; 1024];
        let first = stream.read(&mut heard).expect("it says hello");
        heard.truncate(first);
        let mut bytes = Vec::new();
        said.frame(1, 1, 0, 1, &Default::default()).write(&mut bytes);
        stream.write_all(&bytes).expect("it listens");
        // It has said all that it says when it has gone.
        let _ = stream.read_to_end(&mut heard);
        let (status, _, errors) = worker.end();
        assert_eq!(status, Some(1), "{errors}");
        assert!(errors.contains(expected), "{errors}");
        let raw: Vec<u8> =
            (0..token.len()).step_by(2).map(|at| u8::from_str_radix(&token[at..at + 2], 16).expect("hex")).collect();
        for secret in [token.as_bytes(), &raw] {
            assert!(!heard.windows(secret.len()).any(|part| part == secret), "{}", String::from_utf8_lossy(&heard));
        }
    }
}
