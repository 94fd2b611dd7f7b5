//! Real ZooKeeper servers for tests: one alone, or an ensemble of three, on loopback, with temporary folders.
//!
//! They end with the value that stands for them, also when a test panics, and with the process of the tests, also when that
//! is killed. Debian's package `zookeeper` has what is needed; it is installed if it can be.
//!
//! Other crates include this file: `#[path = "../../../cluster/tests/support/zookeeper.rs"] mod zookeeper;`. It needs `tempfile`.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

const JAR: &str = "/usr/share/java/zookeeper.jar";
/// A start takes a second or two; a machine that is busy with other tests gets much more.
const START: Duration = Duration::from_secs(60);
/// Another program may take a port between the moment that it is found free and the moment that it is used.
const ATTEMPTS: usize = 5;

/// One server, alone or of an ensemble.
pub(crate) struct Server {
    port: u16,
    /// The network namespace that it runs in, and its address there.
    place: Option<(String, String)>,
    folder: TempDir,
    process: Option<Process>,
}

/// A running server, and a shell that ends it when this process is gone.
struct Process {
    java: Child,
    guard: Child,
}

impl Drop for Process {
    fn drop(&mut self) {
        // The guard first: later it could meet another process of that number.
        for child in [&mut self.guard, &mut self.java] {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Server {
    /// A server of its own, in service.
    pub(crate) fn start() -> Self {
        let started = (0..ATTEMPTS).find_map(|_| {
            let port = free_ports(1)[0];
            let mut server = Self::new(port, "");
            server.run();
            server.is_in_service().then_some(server)
        });
        started.expect("a ZooKeeper that starts: see whether `java` and the package `zookeeper` are whole")
    }

    /// A server in a network namespace that is the caller's own, at an address of it.
    #[allow(dead_code, reason = "not every crate that includes this has namespaces")]
    pub(crate) fn start_in(space: &str, address: &str) -> Self {
        let mut server = Self::new(2181, "");
        let settings = server.folder.path().join("zoo.cfg");
        let text = fs::read_to_string(&settings).expect("its settings");
        let text = text.replace("clientPortAddress=127.0.0.1", &format!("clientPortAddress={address}"));
        fs::write(&settings, text).expect("a writable folder");
        server.place = Some((space.to_owned(), address.to_owned()));
        server.run();
        assert!(server.is_in_service(), "a ZooKeeper that starts");
        server
    }

    /// A server that all tests of this process share as long as one of them uses it. Each takes a path of its own.
    pub(crate) fn shared() -> Arc<Self> {
        static SHARED: Mutex<Weak<Server>> = Mutex::new(Weak::new());
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        shared.upgrade().unwrap_or_else(|| {
            let server = Arc::new(Self::start());
            *shared = Arc::downgrade(&server);
            server
        })
    }

    /// Host and port.
    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Ends it as a crash does.
    pub(crate) fn kill(&mut self) {
        self.process = None;
    }

    /// Lets it stand still, or go on.
    pub(crate) fn stand_still(&self, still: bool) {
        let id = self.process.as_ref().expect("it runs").java.id().to_string();
        let done = Command::new("kill").args([if still { "-STOP" } else { "-CONT" }, &id]).status();
        assert!(done.expect("the program `kill`").success());
    }

    /// Starts it again with what it had; returns when it is in service.
    pub(crate) fn restart(&mut self) {
        let is_back = (0..ATTEMPTS).any(|_| {
            self.kill();
            self.run();
            self.is_in_service()
        });
        let log = fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
        assert!(is_back, "the ZooKeeper at {} does not start again: {log}", self.address());
    }

    /// A server that does not run yet. `ensemble` is what its settings say of the others.
    fn new(port: u16, ensemble: &str) -> Self {
        install();
        let folder = tempfile::tempdir().expect("a temporary folder");
        let settings = format!(
            "tickTime=500\ninitLimit=20\nsyncLimit=10\nmaxSessionTimeout=60000\ndataDir={}\nclientPort={port}\n\
             clientPortAddress=127.0.0.1\nadmin.enableServer=false\n4lw.commands.whitelist=*\n{ensemble}",
            folder.path().display(),
        );
        fs::write(folder.path().join("zoo.cfg"), settings).expect("a writable folder");
        Self { port, place: None, folder, process: None }
    }

    fn run(&mut self) {
        let log = File::create(self.folder.path().join("log")).expect("a writable folder");
        let mut command = match &self.place {
            None => Command::new("java"),
            Some((space, _)) => {
                let mut command = Command::new("ip");
                command.args(["netns", "exec", space, "java"]);
                command
            }
        };
        let mut java = command
            .args(["-Xmx96m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", JAR])
            .arg("org.apache.zookeeper.server.quorum.QuorumPeerMain")
            .arg(self.folder.path().join("zoo.cfg"))
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a second handle"))
            .stderr(log)
            .spawn()
            .expect("the program `java`, which the package `zookeeper` asks for");
        let guard = Command::new("sh")
            .args(["-c", &format!("read -r _; kill -9 {}", java.id())])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        match guard {
            Ok(guard) => self.process = Some(Process { java, guard }),
            Err(error) => {
                let _ = java.kill();
                panic!("no shell to guard the server: {error}");
            }
        }
    }

    /// Waits until it serves clients; false when it has ended.
    fn is_in_service(&mut self) -> bool {
        let since = Instant::now();
        loop {
            if self.mode().is_some() {
                return true;
            }
            let process = self.process.as_mut().expect("it was started");
            if process.java.try_wait().expect("a process of ours").is_some() || since.elapsed() > START {
                return false;
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// `standalone`, `leader` or `follower`, when it is in service.
    fn mode(&self) -> Option<String> {
        let mut said = String::new();
        if let Some((space, address)) = &self.place {
            let ask = format!("exec 3<>/dev/tcp/{address}/{}; printf srvr >&3; timeout 2 cat <&3", self.port);
            let output = Command::new("ip").args(["netns", "exec", space, "bash", "-c", &ask]).output().ok()?;
            said = String::from_utf8_lossy(&output.stdout).into_owned();
        } else {
            let mut stream = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
            stream.set_read_timeout(Some(Duration::from_secs(2))).ok()?;
            stream.write_all(b"srvr").ok()?;
            stream.read_to_string(&mut said).ok()?;
        }
        said.lines().find_map(|line| line.strip_prefix("Mode: ")).map(str::to_owned)
    }
}

/// Three servers that go on when one of them is gone.
pub(crate) struct Ensemble {
    servers: Vec<Server>,
}

impl Ensemble {
    /// Three servers in service.
    pub(crate) fn start() -> Self {
        let started = (0..ATTEMPTS).find_map(|_| {
            let ports = free_ports(9);
            let listed: String = (1..=3)
                .map(|id| format!("server.{id}=127.0.0.1:{}:{}\n", ports[3 + id - 1], ports[6 + id - 1]))
                .collect();
            let mut servers: Vec<_> = ports[..3].iter().map(|port| Server::new(*port, &listed)).collect();
            for (server, id) in servers.iter_mut().zip(1..) {
                fs::write(server.folder.path().join("myid"), format!("{id}\n")).expect("a writable folder");
                server.run();
            }
            servers.iter_mut().all(Server::is_in_service).then_some(Self { servers })
        });
        started.expect("three ZooKeepers that start: see whether `java` and the package `zookeeper` are whole")
    }

    /// Host and port of each.
    pub(crate) fn addresses(&self) -> Vec<String> {
        self.servers.iter().map(Server::address).collect()
    }

    /// Kills the server that leads the others, as a crash does. They choose another one.
    pub(crate) fn kill_leader(&mut self) {
        let leads = |server: &&mut Server| server.mode().as_deref() == Some("leader");
        self.servers.iter_mut().find(leads).expect("one of them leads").kill();
    }
}

/// Ports that nobody uses now, all different.
fn free_ports(count: usize) -> Vec<u16> {
    let bound: Vec<_> = (0..count).map(|_| TcpListener::bind(("127.0.0.1", 0)).expect("a free port")).collect();
    bound.iter().map(|listener| listener.local_addr().expect("it is bound").port()).collect()
}

/// Makes sure that the package is there, once.
fn install() {
    static INSTALLING: Mutex<()> = Mutex::new(());
    let _only = INSTALLING.lock().unwrap_or_else(PoisonError::into_inner);
    if Path::new(JAR).exists() {
        return;
    }
    let apt = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        command.args(["-qq", "-o", "DPkg::Lock::Timeout=300"]).args(arguments).env("DEBIAN_FRONTEND", "noninteractive");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    let get = ["install", "-y", "--no-install-recommends", "zookeeper"];
    let is_there = apt(&get) || (apt(&["update"]) && apt(&get));
    assert!(
        is_there && Path::new(JAR).exists(),
        "these tests need a real ZooKeeper (`{JAR}`): install Debian's package `zookeeper`, or run them as root where `apt-get` can"
    );
}
