//! The binary under test: starts it, waits for it, reads what it said.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Lines, Read};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

use serde_json::Value;

/// Longer than anything that a test starts may take, however busy the machine: who lives longer hangs, and is ended, so that its
/// test fails by name and the others go on.
const LIFETIME: Duration = Duration::from_secs(300);

/// What a process said, and how it ended.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) status: Option<i32>,
    pub(crate) output: String,
    pub(crate) errors: String,
}

/// Runs the binary in a folder, to its end.
pub(crate) fn run(folder: &Path, arguments: &[&str]) -> Said {
    finish(command(folder, arguments).stdin(Stdio::null()))
}

/// Runs the binary in a folder, to its end, with this on its standard input.
pub(crate) fn run_with_input(folder: &Path, arguments: &[&str], input: &str) -> Said {
    let mut file = tempfile::tempfile().expect("a file");
    std::io::Write::write_all(&mut file, input.as_bytes()).expect("written");
    std::io::Seek::rewind(&mut file).expect("a file");
    let mut packed = Command::new("cat").stdin(file).stdout(Stdio::piped()).spawn().expect("cat");
    let said = finish(command(folder, arguments).stdin(packed.stdout.take().expect("a pipe")));
    packed.wait().expect("cat ends");
    said
}

/// Runs any command to its end.
pub(crate) fn finish(command: &mut Command) -> Said {
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary can be started");
    Said::at_the_end_of(child)
}

pub(crate) fn command(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_paceline"));
    command.current_dir(folder).args(arguments);
    command
}

impl Said {
    /// What a child says on those of its outputs that are pipes, until it ends.
    pub(crate) fn at_the_end_of(child: Child) -> Self {
        let _limit = Limit::of(&child);
        let output = child.wait_with_output().expect("it ends");
        let text = |bytes| String::from_utf8(bytes).expect("it writes UTF-8");
        Self { status: output.status.code(), output: text(output.stdout), errors: text(output.stderr) }
    }

    /// Fails unless the process did what was asked.
    #[track_caller]
    pub(crate) fn done(self) -> Self {
        assert_eq!(self.status, Some(0), "{self:#?}");
        self
    }

    /// Fails unless the process ended with this status and said all these things on standard error.
    #[track_caller]
    pub(crate) fn refused(&self, status: i32, parts: &[&str]) {
        assert_eq!(self.status, Some(status), "{self:#?}");
        for part in parts {
            assert!(self.errors.contains(part), "`{part}` is not in {}", self.errors);
        }
        assert!(self.errors.lines().any(|line| line.starts_with("error: ")), "{}", self.errors);
    }

    /// The events of `--events json`; fails on a line that is none.
    #[track_caller]
    pub(crate) fn events(&self) -> Vec<Value> {
        self.output.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
    }
}

/// The events of this name.
pub(crate) fn named<'a>(events: &'a [Value], name: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| event["event"] == name).collect()
}

/// Every file and folder below a folder, with the content of the files: what a command that fails must not change.
pub(crate) fn tree(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("it has a name").to_string_lossy().into_owned();
        if path.is_dir() {
            found.extend(tree(&path).into_iter().map(|(below, content)| (format!("{name}/{below}"), content)));
            found.insert(format!("{name}/"), Vec::new());
        } else {
            found.insert(name, std::fs::read(&path).expect("a file"));
        }
    }
    found
}

/// Ends a child that outlives [`LIFETIME`]; dropped when the child has ended.
struct Limit {
    /// Its end is noticed when it is dropped.
    _ended: Sender<()>,
}

impl Limit {
    fn of(child: &Child) -> Self {
        let (_ended, end) = channel::<()>();
        let pid = child.id().to_string();
        std::thread::spawn(move || {
            if end.recv_timeout(LIFETIME) == Err(RecvTimeoutError::Timeout) {
                let _ = Command::new("kill").args(["-KILL", &pid]).status();
            }
        });
        Self { _ended }
    }
}

/// A run that is watched by its events while it goes on.
pub(crate) struct Watched {
    child: Child,
    _limit: Limit,
    lines: Lines<BufReader<ChildStdout>>,
    events: Vec<Value>,
}

impl Watched {
    /// Starts a run; the arguments must ask for `--events json`.
    pub(crate) fn start(folder: &Path, arguments: &[&str]) -> Self {
        Self::watch(&mut command(folder, arguments))
    }

    /// The same for a command that starts the binary in its own way.
    pub(crate) fn watch(command: &mut Command) -> Self {
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts");
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        Self { _limit: Limit::of(&child), child, lines, events: Vec::new() }
    }

    /// Waits for the next event of this name.
    pub(crate) fn wait_for(&mut self, name: &str) -> Value {
        loop {
            let Some(line) = self.lines.next() else {
                panic!("the run ended before it told `{name}`: {:#?}", self.events);
            };
            let line = line.expect("readable");
            let event: Value = serde_json::from_str(&line).expect("an event");
            let found = event["event"] == name;
            self.events.push(event.clone());
            if found {
                return event;
            }
        }
    }

    /// The workers that have joined and were not lost, as far as events were waited for.
    pub(crate) fn those_who_are_there(&self) -> Vec<&Value> {
        let lost: Vec<&Value> = named(&self.events, "worker_lost").iter().map(|event| &event["worker"]).collect();
        let joined = named(&self.events, "worker_joined").into_iter().map(|event| &event["worker"]);
        joined.filter(|worker| !lost.contains(worker)).collect()
    }

    /// Presses Ctrl-C.
    pub(crate) fn interrupt(&self) {
        self.signal("-INT");
    }

    /// Sends a signal, as `-STOP`.
    pub(crate) fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().expect("there is a `kill`").success());
    }

    /// Ends the process with SIGKILL, and waits until it is gone; gives all events that it could tell.
    pub(crate) fn kill(mut self) -> Vec<Value> {
        self.child.kill().expect("it can be killed");
        self.child.wait().expect("it ends");
        // The last line may be cut short.
        self.events.extend(self.lines.by_ref().map_while(|line| serde_json::from_str(&line.ok()?).ok()));
        std::mem::take(&mut self.events)
    }

    /// Waits for the end; gives the status, all events and what was said on standard error.
    pub(crate) fn end(mut self) -> (Option<i32>, Vec<Value>, String) {
        for line in self.lines.by_ref() {
            self.events.push(serde_json::from_str(&line.expect("readable")).expect("an event"));
        }
        let mut errors = String::new();
        self.child.stderr.take().expect("piped").read_to_string(&mut errors).expect("UTF-8");
        (self.child.wait().expect("it ends").code(), std::mem::take(&mut self.events), errors)
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        // A test that fails leaves nobody behind; one that ended is gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
