//! Whether a leader may still believe that it leads.
//!
//! Its session lasts a given time from the last moment at which ZooKeeper heard of it, and nobody else leads before it has
//! ended. So a task asks for the term again and again, and the moment *before* the last question that was answered is when
//! ZooKeeper heard of us at the earliest. From there the leader counts on its own clock, and stops in time whatever happened:
//! a cut link, servers that are gone, or a process that was stopped and goes on.
//!
//! A server that is cut off from the others still answers what it knows by itself, for a while. So it is made to ask the one that
//! leads the ensemble (`sync`). That one hears of sessions from the others only every half tick, and a session lasts at least two
//! ticks: hence a leader counts on no more than three quarters of its session.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::super::Loss;
use super::connection::Connection;
use super::nodes::Nodes;

/// The term of a leader, and what it knows of its session.
pub(super) struct Belief {
    pub(super) term: u64,
    /// The version of the term's node since it was taken: another one means another term.
    pub(super) version: i32,
    session: Duration,
    heard: Arc<Mutex<Heard>>,
    task: Option<JoinHandle<()>>,
}

struct Heard {
    /// ZooKeeper heard of us then or later.
    at: Instant,
    /// The newest term that we heard of.
    newest: u64,
    /// The session has ended.
    is_over: bool,
}

impl Belief {
    /// That of a leader whose question of the moment `heard` was answered with this term.
    pub(super) fn new(
        term: u64,
        version: i32,
        heard: Instant,
        connection: &Connection,
        nodes: &Nodes,
        runtime: &Runtime,
    ) -> Self {
        let session = connection.client.session_timeout();
        let heard = Arc::new(Mutex::new(Heard { at: heard, newest: term, is_over: false }));
        let task = runtime.spawn(ask(connection.clone(), nodes.clone(), term, session, Arc::clone(&heard)));
        Self { term, version, session, heard, task: Some(task) }
    }

    /// Why the leader must stop, if it must.
    pub(super) fn loss(&self) -> Option<Loss> {
        let (newest, is_over, silent) = {
            let heard = locked(&self.heard);
            (heard.newest, heard.is_over, heard.at.elapsed())
        };
        if newest > self.term {
            return Some(Loss::Fenced { mine: self.term, newest });
        }
        if is_over {
            return Some(Loss::SessionExpired);
        }
        (silent >= self.session * 3 / 4).then_some(Loss::NoAnswer { silent, session: self.session })
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

fn locked(heard: &Mutex<Heard>) -> MutexGuard<'_, Heard> {
    heard.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn ask(connection: Connection, nodes: Nodes, term: u64, session: Duration, heard: Arc<Mutex<Heard>>) {
    let client = &connection.client;
    let pause = session / 10;
    while !connection.is_over() {
        let asked = Instant::now();
        // Both are sent at once, and answered in this order.
        let (synced, read) = (client.sync(&nodes.term), client.get_data(&nodes.term));
        let answered = timeout(session, async {
            synced.await?;
            read.await
        });
        if let Ok(Ok((data, _))) = answered.await {
            // A node that was made anew, or that holds no term, is nothing that we could rule by.
            let newest = nodes.decode_term(&data).ok().map(|found| found.term).filter(|newest| *newest >= term);
            if let Some(newest) = newest {
                *locked(&heard) = Heard { at: asked, newest, is_over: false };
            }
            // What was asked long before it was answered says little of now: it is asked again at once.
            sleep(pause.saturating_sub(asked.elapsed())).await;
        } else {
            sleep(pause).await;
        }
    }
    locked(&heard).is_over = true;
}
