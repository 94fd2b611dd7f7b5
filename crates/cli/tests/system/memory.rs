//! A worker that the kernel kills for memory: in a control group, made and removed here. It needs root.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::masters::{address, ended_well, left_well, master, text, worker};
use crate::paceline::Watched;

/// A control group with a limit of memory.
struct Group(PathBuf);

impl Group {
    fn new(limit: &str) -> Self {
        let own = std::fs::read_to_string("/proc/self/cgroup").expect("control groups");
        let of = |line: &str| {
            let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
            match controllers {
                "memory" => {
                    Some((Path::new("/sys/fs/cgroup/memory").join(path.trim_matches('/')), "memory.limit_in_bytes"))
                }
                "" if Path::new("/sys/fs/cgroup/cgroup.controllers").exists() => {
                    Some((Path::new("/sys/fs/cgroup").to_owned(), "memory.max"))
                }
                _ => None,
            }
        };
        let (parent, file) = own.lines().find_map(of).expect("a control group for memory");
        let group = parent.join(format!("paceline-{}", std::process::id()));
        std::fs::create_dir(&group).expect("a control group can be made: run this as root");
        std::fs::write(group.join(file), limit).expect("memory can be limited");
        Self(group)
    }

    /// A command that runs in it, of which the kernel thinks so much worse than of others.
    fn command(&self, what: &str, badness: i32, arguments: &[&str]) -> Command {
        let script = "echo $$ > \"$0\"/cgroup.procs && echo $1 > /proc/self/oom_score_adj && shift && exec \"$@\"";
        let mut command = Command::new("sh");
        command.args(["-c", script]).arg(&self.0).arg(badness.to_string()).arg(what).args(arguments);
        command
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // It can be removed when its last process is gone.
        for _ in 0..100 {
            if std::fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}

#[test]
fn a_worker_that_was_killed_for_memory_is_told_as_such() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut master = master(folder.path(), &["--set", "train.epochs=100"]);
    let address = address(&mut master);
    let other = worker(folder.path(), &["--join", &address]);
    let group = Group::new("200000000");
    let arguments = ["worker", "--slots", "1", "--events", "json", "--join", &address];
    let mut command = group.command(env!("CARGO_BIN_EXE_paceline"), 1000, &arguments);
    let mut big = Watched::watch(command.current_dir(folder.path()));
    big.wait_for("view");
    master.wait_for("step");
    // What `tail` holds of a line without an end grows until the kernel looks for somebody to kill, and that is the worker.
    let mut hog = group.command("tail", 0, &["/dev/zero"]).stdout(Stdio::null()).spawn().expect("there is a `tail`");
    let lost = master.wait_for("worker_lost");
    let _ = hog.kill();
    let _ = hog.wait();
    assert!(text(&lost["reason"]).contains("the kernel has killed it"), "{lost}");
    assert!(text(&lost["reason"]).contains("out of memory"), "{lost}");
    ended_well(master, 100);
    left_well(other);
    drop((big, group));
}
