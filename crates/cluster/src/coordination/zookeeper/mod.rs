//! Coordination by a real ZooKeeper: standby masters wait in a queue, each for the one before it.

mod address;
mod belief;
mod connection;
mod nodes;
mod session;

use std::fmt;
use std::time::{Duration, Instant};

use zookeeper_client as zk;
use zookeeper_client::{Acls, Client, CreateMode, MultiWriteError, MultiWriteResult};

pub use address::ZooKeeperAddress;
use belief::Belief;
use nodes::{Position, Term, position};
use session::{Session, deadline_of};

use super::record::check_name;
use super::{Coordination, CoordinationError, Leadership, Loss, RunRecord};

/// How long to wait for a ZooKeeper to be there, where nobody has another wish: an error follows within 5 s.
pub const CONNECT_LIMIT: Duration = Duration::from_secs(3);

/// Coordination by a ZooKeeper. It has threads of its own; its calls must not be made from within an async runtime.
///
/// A call that nobody answers fails with [`CoordinationError::Unreachable`] after its limit, or after 3 s where the limit is
/// shorter. It may be made again: a session that has ended meanwhile is replaced by a new one.
pub struct ZooKeeper {
    session: Session,
    belief: Option<Belief>,
    /// The last term that this one had, and why it has it no more.
    past: Option<(u64, Loss)>,
}

/// How it went to take a term.
enum TermTaken {
    /// The term's node has this version now.
    Yes { version: i32 },
    /// Somebody else took one, or we did and were not told.
    Overtaken,
    /// The node of the candidate has gone.
    NoCandidate,
}

/// How it went to lead for one that is first among those who wait.
enum First {
    Leads(Leadership),
    /// Whoever leads has regained its term, with a node behind those of others.
    Waits {
        leader: String,
    },
    /// Its node has gone meanwhile.
    IsGone,
}

/// How it went to publish.
enum Published {
    Yes,
    Fenced,
}

impl ZooKeeper {
    /// Connects to `zk://[user:password@]host[:port],…/path[?session=4s]`; fails when nobody is there within `limit`
    /// (see [`CONNECT_LIMIT`]), with every address that was tried.
    pub fn connect(address: &str, limit: Duration) -> Result<Self, CoordinationError> {
        Ok(Self { session: Session::connect(address.parse()?, limit)?, belief: None, past: None })
    }

    fn step_down(&mut self, reason: impl FnOnce(u64) -> Loss) {
        if let Some(belief) = self.belief.take() {
            self.past = Some((belief.term, reason(belief.term)));
            belief.end(self.session.runtime());
        }
    }

    /// The newest term, with the version of its node.
    fn newest(&mut self, deadline: Instant) -> Result<(Term, i32), CoordinationError> {
        let node = self.session.nodes().term.clone();
        let (data, stat) = self.session.must(deadline, "read", &node, async |client| client.get_data(&node).await)?;
        Ok((self.session.nodes().decode_term(&data)?, stat.version))
    }

    fn record(&mut self, deadline: Instant) -> Result<Option<RunRecord>, CoordinationError> {
        let node = self.session.nodes().record.clone();
        let (data, _) = self.session.must(deadline, "read", &node, async |client| client.get_data(&node).await)?;
        self.session.nodes().decode_record(&data)
    }

    /// Where this candidate stands; makes its node if it has none.
    fn stand(&mut self, deadline: Instant) -> Result<Position, CoordinationError> {
        let folder = self.session.nodes().candidates.clone();
        let acls = self.session.acls();
        let options = CreateMode::EphemeralSequential.with_acls(Acls::new(&acls));
        loop {
            let names =
                self.session.must(deadline, "list", &folder, async |client| client.list_children(&folder).await)?;
            let prefix = format!("{}-", self.session.nonce());
            match position(&names, &prefix) {
                Position::Absent => {
                    // Should the reply be lost, there will be two: the lower one counts, and both go with the session.
                    let node = format!("{folder}/{prefix}");
                    self.session
                        .must(deadline, "make", &node, async |client| client.create(&node, b"", &options).await)?;
                    if !prefix.starts_with(self.session.nonce()) {
                        // Another session may have made it, under a name that it does not know as its own.
                        self.session.close();
                    }
                }
                standing => return Ok(standing),
            }
        }
    }

    /// Waits until the candidate before us has gone, or our session; false when the deadline has passed.
    fn wait_for(&mut self, nearest: &str, deadline: Instant) -> Result<bool, CoordinationError> {
        let node = self.session.nodes().candidate(nearest);
        let nonce = self.session.nonce().to_owned();
        match self.session.call(deadline, async |client| client.get_and_watch_data(&node).await)? {
            // In a new session we stand nowhere yet.
            _ if self.session.nonce() != nonce => Ok(true),
            Ok((_, _, watcher)) => Ok(self.session.has_changed(watcher, deadline)),
            Err(zk::Error::NoNode) => Ok(true),
            Err(source) => Err(CoordinationError::Refused { action: "watch", node, source }),
        }
    }

    /// Takes the next term for the candidate that is first.
    fn take(&mut self, candidate: &str, deadline: Instant) -> Result<First, CoordinationError> {
        let nodes = self.session.nodes().clone();
        let node = nodes.candidate(candidate);
        let mut attempt = None;
        loop {
            let found = self.record(deadline)?;
            let mut asked = Instant::now();
            let (newest, mut version) = self.newest(deadline)?;
            let mut taken = attempt.as_ref() == Some(&newest);
            if !taken {
                if newest.candidate != candidate && self.is_there(&newest.candidate, deadline)? {
                    return Ok(First::Waits { leader: newest.candidate });
                }
                // Nodes that somebody removed must not bring old terms back.
                let floor = [found.as_ref().map(|record| record.term), self.past.map(|(term, _)| term)];
                let floor = floor.into_iter().flatten().fold(newest.term, u64::max);
                let term = floor.checked_add(1).ok_or_else(|| CoordinationError::BadNode {
                    node: nodes.term.clone(),
                    expected: "a term that another one can follow",
                    found: floor.to_string(),
                })?;
                let next = Term { term, candidate: candidate.to_owned() };
                let data = next.encode();
                attempt = Some(next);
                asked = Instant::now();
                let outcome = self.session.must(deadline, "change", &nodes.term, async |client| {
                    take_once(client, &node, &nodes.term, &data, version).await
                })?;
                match outcome {
                    TermTaken::Yes { version: now } => (taken, version) = (true, now),
                    TermTaken::Overtaken => {}
                    TermTaken::NoCandidate => return Ok(First::IsGone),
                }
            }
            if let (true, Some(Term { term, .. }), Some(connection)) = (taken, &attempt, self.session.current()) {
                // TermTaken, but in another session than the candidate's: nobody would notice if this one ended.
                if !candidate.starts_with(self.session.nonce()) {
                    return Ok(First::IsGone);
                }
                let belief = Belief::new(*term, version, asked, connection, &nodes, self.session.runtime());
                self.belief = Some(belief);
                return Ok(First::Leads(Leadership { term: *term, found }));
            }
        }
    }

    /// Whether a candidate is there.
    fn is_there(&mut self, candidate: &str, deadline: Instant) -> Result<bool, CoordinationError> {
        if candidate.is_empty() {
            return Ok(false);
        }
        let node = self.session.nodes().candidate(candidate);
        let stat = self.session.must(deadline, "look for", &node, async |client| client.check_stat(&node).await)?;
        Ok(stat.is_some())
    }

    /// Rules on in its term as this candidate, unless somebody has taken another one; false when that has to be tried again.
    fn rule_on(&mut self, mine: u64, candidate: &str, deadline: Instant) -> Result<bool, CoordinationError> {
        let nodes = self.session.nodes().clone();
        let asked = Instant::now();
        let (newest, mut version) = self.newest(deadline)?;
        if newest.term > mine {
            let newest = newest.term;
            self.past = Some((mine, Loss::Fenced { mine, newest }));
            return Err(CoordinationError::Fenced { mine, newest });
        }
        let term = Term { term: mine, candidate: candidate.to_owned() };
        if newest != term {
            let (node, data) = (nodes.candidate(candidate), term.encode());
            let taken = self.session.must(deadline, "change", &nodes.term, async |client| {
                take_once(client, &node, &nodes.term, &data, version).await
            })?;
            match taken {
                TermTaken::Yes { version: now } => version = now,
                TermTaken::Overtaken | TermTaken::NoCandidate => return Ok(false),
            }
        }
        // Taken in another session than the candidate's: nobody would notice if this one ended.
        let Some(connection) = self.session.current().filter(|_| candidate.starts_with(self.session.nonce())) else {
            return Ok(false);
        };
        self.belief = Some(Belief::new(mine, version, asked, connection, &nodes, self.session.runtime()));
        Ok(true)
    }

    /// Why this one does not lead: fenced, if somebody else has taken a term.
    fn lost(&mut self, reason: Loss) -> CoordinationError {
        let lost = CoordinationError::Lost { reason };
        let Some((mine, _)) = self.past else { return lost };
        match self.newest(Instant::now()) {
            Ok((newest, _)) if newest.term > mine => CoordinationError::Fenced { mine, newest: newest.term },
            _ => lost,
        }
    }

    /// What leads now, and something that changes when that may have changed.
    fn look(&mut self, deadline: Instant) -> Result<(Option<RunRecord>, zk::OneshotWatcher), CoordinationError> {
        let nodes = self.session.nodes().clone();
        let (read, watcher) = self.session.must(deadline, "read", &nodes.record, async |client| {
            let (stat, watcher) = client.check_and_watch_stat(&nodes.record).await?;
            if stat.is_none() {
                return Ok((None, watcher));
            }
            let (record, _) = client.get_data(&nodes.record).await?;
            let (term, _) = client.get_data(&nodes.term).await?;
            Ok((Some((record, term)), watcher))
        })?;
        let Some((record, term)) = read else { return Ok((None, watcher)) };
        let term = nodes.decode_term(&term)?;
        let record = nodes.decode_record(&record)?.filter(|record| record.term == term.term);
        if record.is_none() {
            return Ok((None, watcher));
        }
        let node = nodes.candidate(&term.candidate);
        let leader = self.session.must(deadline, "look for", &node, async |client| client.check_stat(&node).await)?;
        Ok((record.filter(|_| leader.is_some()), watcher))
    }
}

/// Takes a term if the candidate's node is there and nobody has changed the term since.
async fn take_once(
    client: &Client,
    candidate: &str,
    node: &str,
    data: &[u8],
    version: i32,
) -> Result<TermTaken, zk::Error> {
    let mut writer = client.new_multi_writer();
    writer.add_check_version(candidate, -1)?;
    writer.add_set_data(node, data, Some(version))?;
    match writer.commit().await {
        Ok(results) => match results.last() {
            Some(MultiWriteResult::SetData { stat }) => Ok(TermTaken::Yes { version: stat.version }),
            // Whatever it says: the node is read again.
            _ => Ok(TermTaken::Overtaken),
        },
        Err(MultiWriteError::OperationFailed { index: 0, source: zk::Error::NoNode }) => Ok(TermTaken::NoCandidate),
        Err(MultiWriteError::OperationFailed { index: 1, source: zk::Error::BadVersion }) => Ok(TermTaken::Overtaken),
        Err(error) => Err(error.into()),
    }
}

/// Writes a record if nobody has taken another term.
async fn publish_once(
    client: &Client,
    term: &str,
    version: i32,
    node: &str,
    data: &[u8],
) -> Result<Published, zk::Error> {
    let mut writer = client.new_multi_writer();
    writer.add_check_version(term, version)?;
    writer.add_set_data(node, data, None)?;
    match writer.commit().await {
        Ok(_) => Ok(Published::Yes),
        Err(MultiWriteError::OperationFailed { index: 0, source: zk::Error::BadVersion }) => Ok(Published::Fenced),
        Err(error) => Err(error.into()),
    }
}

impl Coordination for ZooKeeper {
    fn lead(&mut self, limit: Duration) -> Result<Option<Leadership>, CoordinationError> {
        let deadline = deadline_of(limit);
        self.step_down(|term| Loss::Resigned { term });
        self.session.prepare(deadline)?;
        loop {
            match self.stand(deadline)? {
                Position::Absent => {}
                Position::First { mine } => match self.take(&mine, deadline)? {
                    First::Leads(leadership) => return Ok(Some(leadership)),
                    First::Waits { leader } => {
                        if !self.wait_for(&leader, deadline)? {
                            return Ok(None);
                        }
                    }
                    First::IsGone => {}
                },
                Position::Behind { nearest, .. } => {
                    if !self.wait_for(&nearest, deadline)? {
                        return Ok(None);
                    }
                }
            }
        }
    }

    fn publish(&mut self, record: &RunRecord) -> Result<(), CoordinationError> {
        if let Err(error) = self.check() {
            return Err(match error {
                CoordinationError::Lost { reason } => self.lost(reason),
                other => other,
            });
        }
        let Some((mine, version)) = self.belief.as_ref().map(|belief| (belief.term, belief.version)) else {
            return Err(self.lost(Loss::NeverLed));
        };
        if record.term != mine {
            return Err(CoordinationError::OtherTerm { mine, found: record.term });
        }
        let data = record.encode()?;
        let nodes = self.session.nodes().clone();
        let published = self.session.must(Instant::now(), "change", &nodes.record, async |client| {
            publish_once(client, &nodes.term, version, &nodes.record, &data).await
        })?;
        match published {
            Published::Yes => Ok(()),
            Published::Fenced => {
                let newest = self.newest(Instant::now())?.0.term;
                self.step_down(|mine| Loss::Fenced { mine, newest });
                Err(CoordinationError::Fenced { mine, newest })
            }
        }
    }

    fn check(&mut self) -> Result<(), CoordinationError> {
        let Some(belief) = &self.belief else {
            let reason = self.past.map_or(Loss::NeverLed, |(_, reason)| reason);
            return Err(CoordinationError::Lost { reason });
        };
        match belief.loss() {
            None => Ok(()),
            Some(reason) => {
                self.step_down(|_| reason);
                Err(CoordinationError::Lost { reason })
            }
        }
    }

    fn regain(&mut self, limit: Duration) -> Result<(), CoordinationError> {
        let Err(CoordinationError::Lost { reason }) = self.check() else { return Ok(()) };
        let Some((mine, Loss::NoAnswer { .. } | Loss::SessionExpired)) = self.past else {
            return Err(self.lost(reason));
        };
        let deadline = deadline_of(limit);
        self.session.prepare(deadline)?;
        loop {
            match self.stand(deadline)? {
                Position::First { mine: candidate } | Position::Behind { mine: candidate, .. } => {
                    if self.rule_on(mine, &candidate, deadline)? {
                        return Ok(());
                    }
                }
                Position::Absent => {}
            }
        }
    }

    fn find(&mut self, after: u64, limit: Duration) -> Result<Option<RunRecord>, CoordinationError> {
        let deadline = deadline_of(limit);
        loop {
            let (record, watcher) = self.look(deadline)?;
            if let Some(record) = record.filter(|record| record.term > after) {
                return Ok(Some(record));
            }
            if !self.session.has_changed(watcher, deadline) {
                return Ok(None);
            }
        }
    }

    fn register(&mut self, name: &str) -> Result<(), CoordinationError> {
        check_name(name)?;
        self.session.register(name, Instant::now())
    }

    fn workers(&mut self) -> Result<Vec<String>, CoordinationError> {
        let node = self.session.nodes().workers.clone();
        let nodes = match self.session.call(Instant::now(), async |client| client.list_children(&node).await)? {
            Ok(nodes) => nodes,
            Err(zk::Error::NoNode) => Vec::new(),
            Err(source) => return Err(CoordinationError::Refused { action: "list", node, source }),
        };
        let mut names: Vec<_> = nodes.iter().filter_map(|node| Some(node.split_once('~')?.1.to_owned())).collect();
        names.sort_unstable();
        names.dedup();
        Ok(names)
    }

    fn resign(&mut self) {
        self.step_down(|term| Loss::Resigned { term });
        self.session.close();
    }
}

impl Drop for ZooKeeper {
    fn drop(&mut self) {
        // The session is closed after this, when nobody else holds its client.
        self.step_down(|term| Loss::Resigned { term });
    }
}

impl fmt::Debug for ZooKeeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let term = self.belief.as_ref().map(|belief| belief.term);
        f.debug_struct("ZooKeeper")
            .field("address", self.session.address())
            .field("leads", &term)
            .finish_non_exhaustive()
    }
}
