//! Runs that find their master through a ZooKeeper, and outlive it.

use crate::masters::{ended_well, left_well, master, worker};
use crate::paceline::{named, run};
use crate::zookeeper_server as zookeeper;

#[test]
fn through_a_zookeeper_nobody_needs_an_address() {
    let server = zookeeper::Server::shared();
    let folder = tempfile::tempdir().expect("a folder");
    let coordinator = format!("zk://{}/paceline/through-{}", server.address(), std::process::id());
    let mut master = master(folder.path(), &["--coordinator", &coordinator, "--min-workers", "2"]);
    master.wait_for("listening");
    let open = [
        "worker",
        "--coordinator",
        &coordinator,
        "--listen",
        "0.0.0.0:0",
        "--advertise",
        "127.0.0.1",
        "--patience",
        "1",
    ];
    run(folder.path(), &open).refused(1, &["speaks without TLS", "`--listen`"]);
    let workers = [(); 2].map(|()| worker(folder.path(), &["--coordinator", &coordinator]));
    ended_well(master, 20);
    workers.into_iter().for_each(|worker| drop(left_well(worker)));
}

#[test]
fn a_standby_takes_over_when_the_master_is_killed() {
    let mut ensemble = zookeeper::Ensemble::start();
    let folder = tempfile::tempdir().expect("a folder");
    let coordinator = format!("zk://{}/paceline/standby?session=4s", ensemble.addresses().join(","));
    let arguments = ["--coordinator", coordinator.as_str(), "--set", "train.epochs=200"];
    let mut first = master(folder.path(), &arguments);
    first.wait_for("listening");
    let mut second = master(folder.path(), &arguments);
    second.wait_for("standby");
    let workers = [(); 2].map(|()| worker(folder.path(), &["--coordinator", &coordinator]));
    let saved = first.wait_for("checkpoint")["iteration"].as_u64().expect("a number");
    ensemble.kill_leader();
    first.kill();
    let resumed = second.wait_for("started")["resumed_at"].as_u64().expect("a number");
    assert!(resumed >= saved, "resumed at {resumed}, but {saved} was told");
    let (status, events, errors) = second.end();
    assert_eq!(status, Some(0), "{errors}");
    assert!(named(&events, "finished")[0]["accuracy"].as_f64() > Some(0.95));
    workers.into_iter().for_each(|worker| drop(left_well(worker)));
}

#[test]
fn a_standby_that_sees_another_folder_says_so_at_once() {
    let server = zookeeper::Server::shared();
    let folder = tempfile::tempdir().expect("a folder");
    let coordinator = format!("zk://{}/paceline/folder-{}", server.address(), std::process::id());
    let arguments = ["--coordinator", &coordinator, "--set", "data.global_batch=24"];
    let mut leader = master(folder.path(), &arguments);
    leader.wait_for("listening");
    let elsewhere = [&["master", "--output", "elsewhere"][..], &arguments].concat();
    run(folder.path(), &elsewhere).refused(1, &["elsewhere/run-number", "found nothing", "same `--output` folder"]);
    let mut standby = master(folder.path(), &arguments);
    standby.wait_for("standby");
    leader.kill();
    standby.wait_for("listening");
    standby.kill();
}

/// Whoever leads when it goes on finishes the run, and the other one says that it has ended.
#[test]
fn a_zookeeper_that_stands_still_ends_nothing() {
    for mode in ["sync", "shared"] {
        let server = zookeeper::Server::start();
        let folder = tempfile::tempdir().expect("a folder");
        let coordinator = format!("zk://{}/paceline/still?session=3s", server.address());
        let arguments =
            ["--coordinator", &coordinator, "--mode", mode, "--silence-limit", "2", "--set", "train.epochs=100"];
        let mut first = master(folder.path(), &arguments);
        first.wait_for("listening");
        let mut second = master(folder.path(), &arguments);
        second.wait_for("standby");
        let workers = [(); 2].map(|()| worker(folder.path(), &["--coordinator", &coordinator]));
        first.wait_for("checkpoint");
        server.stand_still(true);
        first.wait_for("coordinator_away");
        second.wait_for("coordinator_away");
        server.stand_still(false);
        let mut finished = 0;
        // Both are read at once: whoever leads has much to tell.
        let ends = [first, second].map(|master| std::thread::spawn(|| master.end()));
        for ended in ends {
            let (status, events, errors) = ended.join().expect("no panic");
            assert_eq!(status, Some(0), "{mode}: {errors}");
            assert!(named(&events, "worker_lost").is_empty(), "{mode}: {events:?}");
            finished += named(&events, "finished").len();
        }
        assert_eq!(finished, 1, "{mode}");
        workers.into_iter().for_each(|worker| drop(left_well(worker)));
    }
}
