//! The state for Prometheus, read by a small parser of the text format that knows nothing of how it was written.

use std::collections::BTreeMap;

use paceline_cluster::tracker::{RunStatus, TrackerOptions};

use super::Shown;
use super::http::ask;

/// A metric: what it does, and its values by labels.
#[derive(Debug, Default)]
struct Family {
    kind: String,
    samples: BTreeMap<Vec<(String, String)>, f64>,
}

fn is_name(name: &str) -> bool {
    !name.starts_with(|first: char| first.is_ascii_digit())
        && !name.is_empty()
        && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
}

/// Labels and the rest of the line: `{a="b",c="d"} 1` or ` 1`.
fn labels(text: &str) -> (Vec<(String, String)>, &str) {
    let Some(mut rest) = text.strip_prefix('{') else { return (Vec::new(), text) };
    let mut found = Vec::new();
    loop {
        let (name, after) = rest.split_once("=\"").expect("a label");
        assert!(is_name(name), "`{name}`");
        let (mut value, mut letters) = (String::new(), after.char_indices());
        let end = loop {
            match letters.next().expect("the end of a label") {
                (at, '"') => break at,
                (_, '\\') => value.push(match letters.next().expect("what is escaped").1 {
                    'n' => '\n',
                    letter @ ('\\' | '"') => letter,
                    letter => panic!("`{letter}` is never escaped"),
                }),
                (_, letter) => value.push(letter),
            }
        };
        found.push((name.to_owned(), value));
        rest = &after[end + 1..];
        match rest.split_at(1) {
            (",", more) => rest = more,
            ("}", more) => return (found, more),
            (other, _) => panic!("`{other}` after a label"),
        }
    }
}

fn parse(text: &str) -> BTreeMap<String, Family> {
    assert!(text.ends_with('\n'), "the last line has its end");
    let mut families = BTreeMap::new();
    let (mut helped, mut current) = (None, None);
    for line in text.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, help) = help.split_once(' ').expect("a help text");
            assert!(is_name(name) && !help.is_empty(), "{line}");
            helped = Some(name.to_owned());
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').expect("a type");
            assert_eq!(helped.as_deref(), Some(name), "help comes first");
            assert!(matches!(kind, "gauge" | "counter"), "{line}");
            let family = Family { kind: kind.to_owned(), ..Family::default() };
            assert!(families.insert(name.to_owned(), family).is_none(), "`{name}` comes once");
            current = Some(name.to_owned());
        } else {
            let end = line.find(['{', ' ']).expect("a value");
            let (name, rest) = line.split_at(end);
            assert_eq!(current.as_deref(), Some(name), "values stand below their metric");
            let (labels, value) = labels(rest);
            let value = match value.strip_prefix(' ').expect("a value") {
                "NaN" => f64::NAN,
                "+Inf" => f64::INFINITY,
                "-Inf" => f64::NEG_INFINITY,
                value => {
                    assert!(value.ends_with(|last: char| last.is_ascii_digit()), "{line}");
                    value.parse().expect("a number")
                }
            };
            let samples = &mut families.get_mut(name).expect("it has a type").samples;
            assert!(samples.insert(labels, value).is_none(), "{line} comes once");
        }
    }
    families
}

fn scrape(shown: &Shown) -> BTreeMap<String, Family> {
    let answer = ask(shown.address(), "GET", "/metrics", &[]);
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    parse(&answer.body)
}

fn labelled(labels: &[(&str, &str)]) -> Vec<(String, String)> {
    labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn every_number_of_the_state_is_a_metric() {
    let shown = Shown::start(TrackerOptions::default());
    let mut found = scrape(&shown);
    let mut take = |name: &str| found.remove(name).unwrap_or_else(|| panic!("there is no `{name}`"));
    let single = [
        ("paceline_term", "gauge", 2.0),
        ("paceline_view", "gauge", 7.0),
        ("paceline_view_first_round", "gauge", 300.0),
        ("paceline_workers", "gauge", 2.0),
        ("paceline_epoch", "gauge", 2.0),
        ("paceline_epochs", "gauge", 5.0),
        ("paceline_round", "gauge", 317.0),
        ("paceline_epoch_examples_counted", "gauge", 12_800.0),
        ("paceline_epoch_examples", "gauge", 60_000.0),
        ("paceline_rounds_again_total", "counter", 4.0),
        ("paceline_examples_set_aside_total", "counter", 64.0),
        ("paceline_rolled_back_total", "counter", 1.0),
        ("paceline_workers_joined_total", "counter", 6.0),
        ("paceline_workers_lost_total", "counter", 3.0),
        ("paceline_received_bytes_total", "counter", 123_456_789.0),
        ("paceline_checkpoint_round", "gauge", 300.0),
        ("paceline_evaluation_epoch", "gauge", 1.0),
        ("paceline_evaluation_score", "gauge", 0.125),
        ("paceline_evaluation_accuracy", "gauge", 0.975),
    ];
    for (name, kind, value) in single {
        let family = take(name);
        assert_eq!((family.kind.as_str(), family.samples), (kind, BTreeMap::from([(Vec::new(), value)])), "{name}");
    }
    let age = take("paceline_checkpoint_age_seconds").samples[&Vec::new()];
    assert!(age >= 12.5, "{age}");

    let info = labelled(&[("run", "5f0c"), ("mode", "averaging")]);
    assert_eq!(take("paceline_run_info").samples, BTreeMap::from([(info, 1.0)]));
    let phases = ["waiting", "preparing", "running", "paused", "ended", "standby"];
    let phases = phases.map(|phase| (labelled(&[("phase", phase)]), f64::from(u8::from(phase == "running"))));
    assert_eq!(take("paceline_phase").samples, BTreeMap::from(phases));

    let [first, second] = [("node7/3", "10.0.0.2:4711"), ("5", "a \"b\" \\ c\nd")]
        .map(|(worker, address)| labelled(&[("worker", worker), ("address", address)]));
    let heard = take("paceline_worker_heard_seconds").samples;
    assert!(heard[&first] >= 0.12 && heard[&first] > heard[&second], "{heard:?}");
    let by_worker = |one, other| BTreeMap::from([(first.clone(), one), (second.clone(), other)]);
    assert_eq!(take("paceline_worker_round").samples, by_worker(318.0, 317.0));
    assert_eq!(take("paceline_worker_slots").samples, by_worker(2.0, 1.0));

    for (name, value) in [
        ("paceline_threshold", 0.001),
        ("paceline_threshold_sparsity", 0.002),
        ("paceline_threshold_residual", f64::INFINITY),
    ] {
        assert_eq!(take(name).samples, BTreeMap::from([(labelled(&[("worker", "node7/3")]), value)]), "{name}");
    }
    assert!(found.is_empty(), "not expected: {found:?}");
}

#[test]
fn what_is_not_there_is_no_metric() {
    let shown = Shown::start(TrackerOptions::default());
    shown.board.update(|status| *status = RunStatus { phase: "dreaming".to_owned(), ..RunStatus::default() });
    let found = scrape(&shown);
    for absent in ["checkpoint", "evaluation", "threshold", "worker_"] {
        let absent = format!("paceline_{absent}");
        assert!(!found.keys().any(|name| name.starts_with(&absent)), "{found:?}");
    }
    assert_eq!(found["paceline_workers"].samples[&Vec::new()], 0.0);
    let phases = &found["paceline_phase"].samples;
    assert_eq!(phases[&labelled(&[("phase", "dreaming")])], 1.0, "a phase that is new is shown");
    assert_eq!((phases.len(), phases.values().sum::<f64>()), (7, 1.0));
}
