//! All errors of a run on many machines, rendered: the list in `messages.txt` is read from top to bottom when one changes.

use std::collections::HashSet;
use std::io::{Error as Io, ErrorKind};
use std::mem::discriminant;
use std::time::Duration;

use paceline_cluster::ClusterError;
use paceline_cluster::coordination::{CoordinationError, Loss, Tried};
use paceline_cluster::tracker::TrackerError;
use paceline_cluster::transport::{LinkId, SendError, TransportError};
use paceline_cluster::trust::{Fingerprint, TrustError};
use paceline_cluster::wire::WireError;
use paceline_train::Holds;

fn denied() -> Io {
    Io::new(ErrorKind::PermissionDenied, "Permission denied")
}

/// The sentences of errors that are all of another kind.
fn told<E: std::error::Error>(errors: Vec<E>) -> Vec<String> {
    let kinds: HashSet<_> = errors.iter().map(discriminant).collect();
    assert_eq!(kinds.len(), errors.len(), "one of each kind");
    errors.iter().map(ToString::to_string).collect()
}

fn of_runs() -> Vec<String> {
    let address = || "10.0.2.4:4711".into();
    told(vec![
        ClusterError::FolderHolds { path: "runs/flowers".into(), holds: Holds::Search },
        ClusterError::NoMaster { address: address(), reason: "connection refused".into() },
        ClusterError::Refused { address: address(), reason: "it speaks protocol 3, and the run 4".into() },
        ClusterError::HelpRefused { address: address(), reason: "it has another model".into() },
        ClusterError::OtherRun { what: "`data.batch` is 30, the job's is 31".into() },
        ClusterError::RunFailed { reason: "the loss became NaN at step 3".into() },
        ClusterError::WorkerBroken { reason: "cannot read `flowers.csv`: Permission denied".into() },
        ClusterError::NotFollowed { setting: "data.micro_batch" },
        ClusterError::StepsOfNoSize,
        ClusterError::StepsOfPartitions,
        ClusterError::OtherNormaliser,
        ClusterError::NoPartition,
        ClusterError::BadCheckpoint {
            path: "runs/flowers/checkpoint-1-20.safetensors".into(),
            expected: "a state of 431080 parameters".into(),
            found: "one of 12".into(),
        },
        ClusterError::Unwritable { what: "the statistics", path: "statistics.html".into(), source: denied() },
        ClusterError::UnknownRun { path: "runs/flowers/checkpoint-1-20.safetensors".into() },
        ClusterError::OtherStorage { path: "runs/flowers/run".into(), run: "17".into(), found: "nothing".into() },
        ClusterError::Thread { source: denied() },
    ])
}

fn of_coordination() -> Vec<String> {
    let tried = vec![
        Tried { address: "10.0.2.4:2181".into(), found: "connection refused".into() },
        Tried { address: "10.0.2.5:2181".into(), found: "no answer".into() },
    ];
    let losses = [
        Loss::NeverLed,
        Loss::Resigned { term: 3 },
        Loss::Fenced { mine: 3, newest: 4 },
        Loss::SessionExpired,
        Loss::NoAnswer { silent: Duration::from_millis(4_000), session: Duration::from_secs(6) },
    ];
    let mut lines = told(vec![
        CoordinationError::BadAddress {
            address: "zk://10.0.2.4".into(),
            expected: "a path, as in `zk://host:2181/path`",
            found: "none".into(),
        },
        CoordinationError::Unreachable { tried, limit: Duration::from_secs(10) },
        CoordinationError::BadNode {
            node: "/paceline/term".into(),
            expected: "a term, as a number",
            found: "`x`".into(),
        },
        CoordinationError::BadFile {
            path: "runs/flowers/record.json".into(),
            expected: "a record of a run",
            found: "nothing".into(),
        },
        CoordinationError::File { action: "read", path: "runs/flowers/record.json".into(), source: denied() },
        CoordinationError::FolderInUse { folder: "runs/flowers".into(), process: Some("4711".into()) },
        CoordinationError::Fenced { mine: 3, newest: 4 },
        CoordinationError::Lost { reason: Loss::NeverLed },
        CoordinationError::OtherTerm { mine: 4, found: 3 },
        CoordinationError::RecordTooLarge { found: 300_000, limit: 262_144 },
        CoordinationError::BadName { name: "a/b".into(), expected: "letters, digits, `-`, `_` and `.`" },
        CoordinationError::Thread { source: denied() },
    ]);
    lines.extend(losses.map(|reason| CoordinationError::Lost { reason }.to_string()));
    lines
}

fn of_links() -> Vec<String> {
    let mut lines = told(vec![
        TransportError::BadListenAddress { found: "4711".into() },
        TransportError::BadAdvertisedAddress { found: "a:b:c".into() },
        TransportError::NoPort { listen: "127.0.0.1:4711".into(), source: denied() },
        TransportError::PlainOffLoopback { found: "10.0.2.4:4711".into() },
        TransportError::NothingToAdvertise { found: "0.0.0.0:4711".into() },
        TransportError::NoRuntime { source: denied() },
    ]);
    lines.extend(told(vec![
        SendError::Full { queued: 4096, limit: 4000 },
        SendError::Closed { link: LinkId::new(3) },
        SendError::TooLarge { limit: 65_536, found: 70_000 },
        SendError::ReservedKind,
    ]));
    lines.extend(told(vec![
        WireError::OtherKind { found: 7 },
        WireError::TooLong { room: 2, found: 4 },
        WireError::NoWord { message: "expected value at line 1 column 1".into() },
        WireError::BadNumbers { expected: "whole values", found: 10 },
    ]));
    lines.extend(told(vec![
        TrackerError::BadListenAddress { found: "4711".into() },
        TrackerError::BadAdvertisedAddress { found: "a:b:c".into() },
        TrackerError::NoPort { listen: "127.0.0.1:4711".into(), source: denied() },
        TrackerError::NoToken { found: "10.0.2.4:4711".into() },
        TrackerError::NoThread { source: denied() },
    ]));
    lines
}

fn of_trust() -> Vec<String> {
    let key = |digit: &str| Fingerprint::parse(&digit.repeat(64)).expect("64 digits");
    told(vec![
        TrustError::NotAJoinString { found: "has no `paceline://`" },
        TrustError::BadAddress { found: "10.0.2.4".into() },
        TrustError::MissingPart { part: "token" },
        TrustError::UnexpectedPart,
        TrustError::BadLength { what: "token", expected: "at least 32", found: 7 },
        TrustError::NotHexadecimal { what: "token", position: 3 },
        TrustError::NoRandomness,
        TrustError::BadDates,
        TrustError::NotMade { reason: "the key is of another kind".into() },
        TrustError::BadIdentityFile {
            path: "runs/flowers/identity.json".into(),
            expected: "a file that only its owner reads".into(),
            found: "one that the group reads".into(),
        },
        TrustError::BadIdentity { what: "identity of a run", reason: "they end after 3 bytes".into() },
        TrustError::OtherAuthority { expected: key("a"), found: key("b") },
        TrustError::ShortChain { found: 1 },
        TrustError::Unnamed,
    ])
}

#[test]
fn every_error_reads_as_one_sentence_with_what_was_found() {
    let lines = [of_runs(), of_coordination(), of_links(), of_trust()].concat();
    for line in &lines {
        assert!(
            !line.contains('\n') && !line.ends_with('.') && !line.contains("  "),
            "one line, without a full stop: {line}"
        );
        assert!(!line.contains("but must be") && !line.contains("Some(") && !line.contains("os error"), "{line}");
    }
    let (text, kept) = (lines.join("\n") + "\n", include_str!("messages.txt"));
    assert!(text == kept, "the list in `messages.txt` is what users read; now it is\n{text}");
}
