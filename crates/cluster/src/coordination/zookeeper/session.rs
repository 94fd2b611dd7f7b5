//! A session with ZooKeeper that is made anew when it has ended, and calls that end in time.
//!
//! The calls of `zookeeper-client` wait for as long as nobody is there, and what was asked in vain is sent later all the
//! same. So every call here has a deadline, and everything that is asked may happen twice or late without harm.

use std::time::{Duration, Instant};

use tokio::net::TcpStream;
use tokio::runtime::{Handle, Runtime};
use tokio::time::{timeout, timeout_at};
use zookeeper_client as zk;
use zookeeper_client::{Acl, Acls, AuthId, Client, CreateMode, Permission};

use super::super::nonce::nonce;
use super::super::{CoordinationError, Tried};
use super::address::ZooKeeperAddress;
use super::connection::Connection;
use super::nodes::{Nodes, Term};

/// The least time that a call gets, however short the limit of what it is a part of.
const CALL: Duration = Duration::from_secs(3);
/// How long it may take to see what is wrong with an address.
const PROBE: Duration = Duration::from_millis(300);
/// How long it may take to say farewell.
const FAREWELL: Duration = Duration::from_secs(1);

pub(super) struct Session {
    address: ZooKeeperAddress,
    nodes: Nodes,
    /// Gone only while this is dropped.
    runtime: Option<Runtime>,
    connection: Option<Connection>,
    /// The ephemeral nodes of this session begin with it; another session has another one.
    nonce: String,
    names: Vec<String>,
}

/// The moment at which a limit has passed. Nobody waits for more than a year.
pub(super) fn deadline_of(limit: Duration) -> Instant {
    Instant::now() + limit.min(Duration::from_secs(365 * 24 * 3600))
}

/// When a call must have ended: the caller's deadline, but never so soon that an answer could not come.
fn until(deadline: Instant) -> Instant {
    deadline.max(Instant::now() + CALL)
}

impl Session {
    pub(super) fn connect(address: ZooKeeperAddress, limit: Duration) -> Result<Self, CoordinationError> {
        let runtime = runtime("zookeeper")?;
        let nodes = Nodes::below(&address.path);
        let mut session =
            Self { address, nodes, runtime: Some(runtime), connection: None, nonce: nonce(), names: Vec::new() };
        session.connection(deadline_of(limit))?;
        Ok(session)
    }

    pub(super) fn address(&self) -> &ZooKeeperAddress {
        &self.address
    }

    pub(super) fn nodes(&self) -> &Nodes {
        &self.nodes
    }

    pub(super) fn nonce(&self) -> &str {
        &self.nonce
    }

    pub(super) fn runtime(&self) -> &Runtime {
        self.runtime.as_ref().expect("the runtime goes last")
    }

    /// What a future comes to, or nothing when the deadline has passed.
    pub(super) fn within<T>(&self, deadline: Instant, future: impl Future<Output = T>) -> Option<T> {
        self.runtime().block_on(async { timeout_at(deadline.into(), future).await.ok() })
    }

    /// A connection whose session has not ended, as far as is known. Makes a new one if need be, until `deadline`.
    fn connection(&mut self, deadline: Instant) -> Result<Connection, CoordinationError> {
        self.connection = self.connection.take().filter(|connection| !connection.is_over());
        if let Some(connection) = &self.connection {
            return Ok(connection.clone());
        }
        let since = Instant::now();
        let Some(connection) = Connection::open(&self.address, self.runtime(), deadline)? else {
            return Err(self.unreachable(since.elapsed()));
        };
        self.connection = Some(connection.clone());
        self.nonce = nonce();
        for name in self.names.clone() {
            // To be seen is good, but nobody has asked for it now.
            let _ = self.show(&name, deadline);
        }
        Ok(connection)
    }

    /// Asks until there is an answer, be it a refusal. `action` may be carried out more than once.
    pub(super) fn call<T>(
        &mut self,
        deadline: Instant,
        action: impl AsyncFn(&Client) -> Result<T, zk::Error>,
    ) -> Result<Result<T, zk::Error>, CoordinationError> {
        let (since, deadline) = (Instant::now(), until(deadline));
        loop {
            let connection = self.connection(deadline)?;
            let asked = self.within(deadline, async {
                match action(&connection.client).await {
                    Err(error) if !is_answer(&error) => {
                        connection.back_or_over().await;
                        None
                    }
                    answer => Some(answer),
                }
            });
            match asked {
                Some(Some(answer)) => return Ok(answer),
                Some(None) => {}
                None => return Err(self.unreachable(since.elapsed())),
            }
        }
    }

    /// As [`call`](Session::call), for what ZooKeeper has no reason to refuse.
    pub(super) fn must<T>(
        &mut self,
        deadline: Instant,
        what: &'static str,
        node: &str,
        action: impl AsyncFn(&Client) -> Result<T, zk::Error>,
    ) -> Result<T, CoordinationError> {
        self.call(deadline, action)?.map_err(|source| CoordinationError::Refused {
            action: what,
            node: node.to_owned(),
            source,
        })
    }

    /// The connection that the last call used.
    pub(super) fn current(&self) -> Option<&Connection> {
        self.connection.as_ref()
    }

    /// Waits until what is watched has changed, or the session has ended; false when the deadline has passed.
    pub(super) fn has_changed(&self, watcher: zk::OneshotWatcher, deadline: Instant) -> bool {
        let Some(connection) = &self.connection else { return true };
        self.within(deadline, connection.changed(watcher)).is_some()
    }

    /// Makes the nodes that a run needs, those that are not there.
    pub(super) fn prepare(&mut self, deadline: Instant) -> Result<(), CoordinationError> {
        // Others may have runs beside this one.
        let above: Vec<_> =
            self.nodes.root.match_indices('/').skip(1).map(|(at, _)| self.nodes.root[..at].to_owned()).collect();
        for node in above {
            self.make(&node, b"", Acls::anyone_all(), deadline)?;
        }
        let acls = self.acls();
        let nodes = self.nodes.clone();
        let first = Term::default().encode();
        for (node, data) in [
            (&nodes.root, &b""[..]),
            (&nodes.term, &first),
            (&nodes.record, b""),
            (&nodes.candidates, b""),
            (&nodes.workers, b""),
        ] {
            self.make(node, data, Acls::new(&acls), deadline)?;
        }
        Ok(())
    }

    fn make(&mut self, node: &str, data: &[u8], acls: Acls<'_>, deadline: Instant) -> Result<(), CoordinationError> {
        // Looked for first: who may not make nodes may still use those that are there.
        if self.must(deadline, "look for", node, async |client| client.check_stat(node).await)?.is_some() {
            return Ok(());
        }
        let options = CreateMode::Persistent.with_acls(acls);
        match self.call(deadline, async |client| client.create(node, data, &options).await)? {
            Ok(_) | Err(zk::Error::NodeExists) => Ok(()),
            Err(source) => Err(CoordinationError::Refused { action: "make", node: node.to_owned(), source }),
        }
    }

    /// Everyone may read; with credentials, only who has them may change anything.
    pub(super) fn acls(&self) -> Vec<Acl> {
        match self.address.credentials {
            None => Acls::anyone_all().to_vec(),
            Some(_) => {
                vec![Acl::new(Permission::ALL, AuthId::authed()), Acl::new(Permission::READ, AuthId::anyone())]
            }
        }
    }

    /// Shows a name among the workers, in this session and in those that follow it.
    pub(super) fn register(&mut self, name: &str, deadline: Instant) -> Result<(), CoordinationError> {
        self.prepare(deadline)?;
        // Known before it is shown: should the session end meanwhile, the next one shows it.
        if !self.names.iter().any(|known| known == name) {
            self.names.push(name.to_owned());
        }
        self.show(name, deadline)
    }

    fn show(&mut self, name: &str, deadline: Instant) -> Result<(), CoordinationError> {
        let acls = self.acls();
        let options = CreateMode::Ephemeral.with_acls(Acls::new(&acls));
        let node = format!("{}/{}~{name}", self.nodes.workers, self.nonce);
        match self.call(deadline, async |client| client.create(&node, b"", &options).await)? {
            // There already, as when the reply was lost: the nonce is this session's.
            Ok(_) | Err(zk::Error::NodeExists) => Ok(()),
            Err(source) => Err(CoordinationError::Refused { action: "make", node, source }),
        }
    }

    /// Ends the session, so that its ephemeral nodes go at once.
    pub(super) fn close(&mut self) {
        let Some(mut is_over) = self.connection.take().and_then(Connection::leave) else { return };
        // Nobody waits within somebody else's runtime: the session ends a little later then.
        if Handle::try_current().is_err() {
            // One that is not heard in time expires.
            self.within(Instant::now() + FAREWELL, async { is_over.wait_for(|is_over| *is_over).await.is_ok() });
        }
    }

    fn unreachable(&self, waited: Duration) -> CoordinationError {
        let tried = self.runtime().block_on(async {
            let probes: Vec<_> =
                self.address.servers.iter().map(|server| tokio::spawn(probe(server.clone()))).collect();
            let mut tried = Vec::new();
            for (server, probe) in self.address.servers.iter().zip(probes) {
                let found = probe.await.unwrap_or_else(|error| error.to_string());
                tried.push(Tried { address: server.clone(), found });
            }
            tried
        });
        CoordinationError::Unreachable { tried, limit: waited }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.close();
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// A runtime with one thread.
pub(super) fn runtime(thread: &str) -> Result<Runtime, CoordinationError> {
    let built = tokio::runtime::Builder::new_multi_thread().worker_threads(1).thread_name(thread).enable_all().build();
    built.map_err(|source| CoordinationError::Thread { source })
}

/// What is wrong with an address, in words.
async fn probe(server: String) -> String {
    match timeout(PROBE, TcpStream::connect(&server)).await {
        Err(_) => "no answer".to_owned(),
        Ok(Err(error)) => error.to_string(),
        Ok(Ok(_)) => "it accepts connections, but does not answer as a ZooKeeper that is in service".to_owned(),
    }
}

/// Whether ZooKeeper has said so; anything else may be a lost connection, which comes in many forms.
fn is_answer(error: &zk::Error) -> bool {
    matches!(
        error,
        zk::Error::NoNode
            | zk::Error::NoAuth
            | zk::Error::BadVersion
            | zk::Error::NoChildrenForEphemerals
            | zk::Error::NodeExists
            | zk::Error::NotEmpty
            | zk::Error::InvalidAcl
            | zk::Error::AuthFailed
            | zk::Error::QuotaExceeded
            | zk::Error::MarshallingError
            | zk::Error::Unimplemented
            | zk::Error::BadArguments(_)
    )
}
