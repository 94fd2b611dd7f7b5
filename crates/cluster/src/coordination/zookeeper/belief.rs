//! Whether a leader may still believe that it leads.
//!
//! Its session lasts a given time from the last moment at which ZooKeeper heard of it, and nobody else leads before it has
//! ended. So a task asks for the term again and again, and the moment *before* the last question that was answered is when
//! ZooKeeper heard of us at the earliest. From there the leader counts on its own clock, and stops in time whatever happened:
//! a cut link, servers that are gone, or a process that was stopped and goes on.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use zookeeper_client::{Client, SessionState};

use super::super::Loss;
use super::nodes::Nodes;

/// The term of a leader, and what it knows of its session.
pub(super) struct Belief {
    pub(super) term: u64,
    /// The version of the term's node since it was taken: another one means another term.
    pub(super) version: i32,
    states: zookeeper_client::StateWatcher,
    session: Duration,
    heard: Arc<Mutex<Heard>>,
    task: Option<JoinHandle<()>>,
}

struct Heard {
    /// ZooKeeper heard of us then or later.
    at: Instant,
    /// The newest term that we heard of.
    newest: u64,
}

impl Belief {
    /// That of a leader whose question of the moment `heard` was answered with this term.
    pub(super) fn new(
        term: u64,
        version: i32,
        heard: Instant,
        client: &Client,
        nodes: &Nodes,
        runtime: &Runtime,
    ) -> Self {
        let session = client.session_timeout();
        let heard = Arc::new(Mutex::new(Heard { at: heard, newest: term }));
        let task = runtime.spawn(ask(client.clone(), nodes.clone(), term, session, Arc::clone(&heard)));
        Self { term, version, states: client.state_watcher(), session, heard, task: Some(task) }
    }

    /// Why the leader must stop, if it must.
    pub(super) fn loss(&self) -> Option<Loss> {
        let (newest, silent) = {
            let heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
            (heard.newest, heard.at.elapsed())
        };
        if newest > self.term {
            return Some(Loss::Fenced { mine: self.term, newest });
        }
        if self.states.peek_state().is_terminated() {
            return Some(Loss::SessionExpired);
        }
        (silent >= self.session).then_some(Loss::NoAnswer { silent, session: self.session })
    }

    /// Ends the task, so that nobody but the session holds its client.
    pub(super) fn end(mut self, runtime: &Runtime) {
        if let Some(task) = self.task.take() {
            task.abort();
            if tokio::runtime::Handle::try_current().is_err() {
                // It was told to end: how it did does not matter.
                let _ = runtime.block_on(task);
            }
        }
    }
}

async fn ask(client: Client, nodes: Nodes, term: u64, session: Duration, heard: Arc<Mutex<Heard>>) {
    let pause = session / 5;
    while !client.state().is_terminated() {
        let asked = Instant::now();
        if let Ok(Ok((data, _))) = timeout(session, client.get_data(&nodes.term)).await {
            // A node that was made anew, or that holds no term, is nothing that we could rule by.
            if let Some(newest) = nodes.decode_term(&data).ok().map(|found| found.term).filter(|newest| *newest >= term)
            {
                *heard.lock().unwrap_or_else(PoisonError::into_inner) = Heard { at: asked, newest };
            }
        }
        // What was asked long before it was answered says little of now: it is asked again at once.
        if client.state() != SessionState::SyncConnected {
            sleep(pause / 10).await;
        }
        sleep(pause.saturating_sub(asked.elapsed())).await;
    }
}
