//! Several hosts on one machine: network namespaces with a switch between them, made and removed here. They need root.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::masters::left_well;
use crate::paceline::{Watched, named};
use crate::zookeeper_server as zookeeper;

/// Hosts on one switch.
struct Hosts {
    name: String,
    count: usize,
}

impl Hosts {
    fn new(count: usize) -> Self {
        let root = Command::new("id").arg("-u").output().expect("there is an `id`").stdout;
        assert_eq!(root.trim_ascii(), b"0", "these tests make network namespaces: run them as root");
        let hosts = Self { name: format!("pl{}{count}", std::process::id() % 100_000), count };
        ip(&["netns", "add", &hosts.switch()]);
        ip(&["-n", &hosts.switch(), "link", "add", "bridge", "type", "bridge"]);
        ip(&["-n", &hosts.switch(), "link", "set", "bridge", "up"]);
        for host in 0..count {
            let (space, port) = (hosts.host(host), format!("port{host}"));
            ip(&["netns", "add", &space]);
            ip(&["-n", &hosts.switch(), "link", "add", &port, "type", "veth", "peer", "name", "eth0", "netns", &space]);
            ip(&["-n", &hosts.switch(), "link", "set", &port, "master", "bridge", "up"]);
            ip(&["-n", &space, "addr", "add", &format!("{}/24", address(host)), "dev", "eth0"]);
            ip(&["-n", &space, "link", "set", "eth0", "up"]);
            ip(&["-n", &space, "link", "set", "lo", "up"]);
        }
        hosts
    }

    fn switch(&self) -> String {
        format!("{}s", self.name)
    }

    fn host(&self, host: usize) -> String {
        format!("{}h{host}", self.name)
    }

    /// Starts the binary on a host.
    fn start(&self, host: usize, folder: &Path, arguments: &[&str]) -> Watched {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.host(host), env!("CARGO_BIN_EXE_paceline")]);
        Watched::watch(command.current_dir(folder).args(arguments))
    }

    /// Pulls the cable of a host, or plugs it in again.
    fn cable(&self, host: usize, state: &str) {
        ip(&["-n", &self.switch(), "link", "set", &format!("port{host}"), state]);
    }

    /// Lets nothing pass from a host to another.
    fn cut(&self, from: usize, to: usize) {
        ip(&["-n", &self.host(from), "route", "add", "blackhole", &format!("{}/32", address(to))]);
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        let spaces = (0..self.count).map(|host| self.host(host)).chain([self.switch()]);
        for space in spaces {
            let _ = Command::new("ip").args(["netns", "del", &space]).stderr(Stdio::null()).status();
        }
    }
}

fn address(host: usize) -> String {
    format!("10.77.0.{}", host + 1)
}

fn ip(arguments: &[&str]) {
    let done = Command::new("ip").args(arguments).output().expect("there is an `ip` (Debian's package `iproute2`)");
    assert!(done.status.success(), "ip {arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
}

#[test]
fn a_run_over_three_hosts_survives_pulled_cables_and_a_link_that_is_cut() {
    let hosts = Hosts::new(4);
    let folder = tempfile::tempdir().expect("a folder");
    let listen = format!("{}:0", address(0));
    let mut master = hosts.start(
        0,
        folder.path(),
        &[
            "master",
            "--events",
            "json",
            "--output",
            "run",
            "--listen",
            &listen,
            "--silence-limit",
            "3",
            "--min-workers",
            "2",
            "--set",
            "train.epochs=100000",
            "--set",
            "data.global_batch=24",
            "--waiting-limit",
            "40",
        ],
    );
    let listening = master.wait_for("listening");
    let join = listening["join"].as_str().expect("off loopback there is a join string").to_owned();
    let worker = |host: usize| {
        hosts.start(host, folder.path(), &["worker", "--slots", "1", "--events", "json", "--join", &join])
    };
    let workers = [1, 2, 3].map(worker);
    let three = |event: &Value| event["workers"].as_array().is_some_and(|workers| workers.len() == 3);
    while !three(&master.wait_for("view")) {}
    master.wait_for("step");

    // A cable is pulled: silence, until the master says so; when it is back, so is the worker.
    hosts.cable(1, "down");
    let lost = master.wait_for("worker_lost");
    let reason = lost["reason"].as_str().expect("a reason");
    assert!(reason.contains("nothing was heard") || reason.contains("connection ended"), "{lost}");
    master.wait_for("step");
    hosts.cable(1, "up");
    while !three(&master.wait_for("view")) {}
    master.wait_for("step");

    // Two workers reach the master, but not each other: it carries what they say, and nobody goes.
    hosts.cut(1, 2);
    let relayed = loop {
        let view = master.wait_for("view");
        if view["reason"].as_str().is_some_and(|reason| reason.contains("goes through the master")) {
            break view;
        }
    };
    assert!(three(&relayed), "{relayed}");
    let epoch = master.wait_for("epoch")["epoch"].as_u64().expect("a number");
    assert!(master.wait_for("epoch")["epoch"].as_u64() > Some(epoch), "it goes on");
    master.interrupt();
    let (status, events, errors) = master.end();
    assert_eq!(status, Some(130), "{errors}");
    assert!(named(&events, "set_aside").is_empty(), "{events:?}");
    workers.into_iter().for_each(|worker| drop(worker.kill()));
}

/// The network of the master is away for less than the limit of silence: nobody is lost, and no step is taken again.
#[test]
fn a_master_whose_cable_is_pulled_for_less_than_the_limit_loses_nobody() {
    let hosts = Hosts::new(3);
    let folder = tempfile::tempdir().expect("a folder");
    let listen = format!("{}:0", address(0));
    let usual = ["master", "--events", "json", "--output", "run", "--listen", &listen, "--silence-limit", "20"];
    let job = ["--min-workers", "2", "--set", "train.epochs=100000", "--set", "data.global_batch=24"];
    let mut master = hosts.start(0, folder.path(), &[&usual[..], &job].concat());
    let listening = master.wait_for("listening");
    let join = listening["join"].as_str().expect("off loopback there is a join string").to_owned();
    let worker = |host: usize| {
        hosts.start(host, folder.path(), &["worker", "--slots", "1", "--events", "json", "--join", &join])
    };
    let workers = [1, 2].map(worker);
    master.wait_for("checkpoint");
    hosts.cable(0, "down");
    // Links end after the silence that they are allowed, whatever happens meanwhile: there is no event to wait for.
    std::thread::sleep(Duration::from_secs(7));
    hosts.cable(0, "up");
    let epoch = master.wait_for("epoch")["epoch"].as_u64().expect("a number");
    while master.wait_for("epoch")["epoch"].as_u64() <= Some(epoch + 2) {}
    master.interrupt();
    let (status, events, errors) = master.end();
    assert_eq!(status, Some(130), "{errors}");
    for name in ["worker_lost", "rolled_back", "set_aside"] {
        assert!(named(&events, name).is_empty(), "{name}: {:?}", named(&events, name));
    }
    assert_eq!(named(&events, "worker_joined").len(), 2, "nobody had to join again");
    workers.into_iter().for_each(|worker| drop(worker.kill()));
}

/// Three workers on each of two hosts that lose each other: nine links are broken at once, and mended together.
#[test]
fn many_links_that_break_at_once_are_mended_together() {
    let hosts = Hosts::new(3);
    let folder = tempfile::tempdir().expect("a folder");
    let listen = format!("{}:0", address(0));
    let usual = ["master", "--events", "json", "--output", "run", "--listen", &listen, "--silence-limit", "3"];
    let settings = ["--min-workers", "6", "--set", "train.epochs=100000", "--set", "data.global_batch=24"];
    let mut master = hosts.start(0, folder.path(), &[&usual[..], &settings].concat());
    let join = master.wait_for("listening")["join"].as_str().expect("a join string").to_owned();
    let workers = [1, 1, 1, 2, 2, 2]
        .map(|host| hosts.start(host, folder.path(), &["worker", "--slots", "1", "--events", "json", "--join", &join]));
    master.wait_for("epoch");
    hosts.cut(1, 2);
    let mut views = Vec::new();
    while !views.iter().any(|view: &Value| view["reason"].as_str().is_some_and(|why| why.contains("the master"))) {
        views.push(master.wait_for("view"));
    }
    let pairs = |view: &Value| view["reason"].as_str().map_or(0, |why| why.matches("do not reach each other").count());
    assert!(views.iter().map(pairs).max() > Some(4), "{views:?}");
    // Whatever is left to mend, it goes on.
    let epoch = master.wait_for("epoch")["epoch"].as_u64().expect("a number");
    while master.wait_for("epoch")["epoch"].as_u64() <= Some(epoch) {}
    master.interrupt();
    let (status, events, errors) = master.end();
    assert_eq!(status, Some(130), "{errors}");
    assert!(named(&events, "worker_lost").is_empty(), "{events:?}");
    let again = named(&events, "view").iter().filter(|view| pairs(view) > 0).count();
    assert!(again < 9, "nine pairs took {again} views");
    workers.into_iter().for_each(|worker| drop(worker.kill()));
}

/// Nobody gives an address: a ZooKeeper on one host says where the master is on another, and workers reach each other.
#[test]
fn workers_on_several_hosts_find_their_master_and_each_other_through_a_zookeeper() {
    let hosts = Hosts::new(5);
    let _server = zookeeper::Server::start_in(&hosts.host(0), &address(0));
    let folder = tempfile::tempdir().expect("a folder");
    let token = folder.path().join("token");
    std::fs::write(&token, "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\n").expect("a file");
    let (token, coordinator) = (token.display().to_string(), format!("zk://{}:2181/run", address(0)));
    let shared = ["--events", "json", "--coordinator", &coordinator, "--token-file", &token];
    let of_master = ["--output", "run", "--listen", &format!("{}:0", address(1)), "--min-workers", "3"];
    let settings = ["--set", "data.global_batch=24", "--set", "train.epochs=20", "--waiting-limit", "40"];
    let mut master = hosts.start(1, folder.path(), &[&["master"][..], &shared, &of_master, &settings].concat());
    master.wait_for("listening");
    let workers =
        [2, 3, 4].map(|host| hosts.start(host, folder.path(), &[&["worker", "--slots", "1"][..], &shared].concat()));
    let (status, events, errors) = master.end();
    assert_eq!(status, Some(0), "{errors}");
    for joined in named(&events, "worker_joined") {
        assert!(joined["address"].as_str().is_some_and(|at| at.starts_with("10.77.0.")), "{joined}");
    }
    let views = named(&events, "view");
    assert!(!views.iter().any(|view| view["reason"].as_str().is_some_and(|why| why.contains("master"))), "{views:?}");
    // What two of them say to each other does not go through the master.
    assert!(named(&events, "finished")[0]["bytes_sent"].as_u64() > Some(0));
    workers.into_iter().for_each(|worker| drop(left_well(worker)));
}
