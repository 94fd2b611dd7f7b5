//! A client of ZooKeeper on a thread of its own that can be taken away from it.
//!
//! When its session should have ended and every try to connect fails at once, as it does without a route to the servers,
//! `zookeeper-client` 0.11 tries on for ever: it never looks at its deadline, takes a whole core, and its task cannot be
//! cancelled any more. So its tasks have a runtime of their own, and a guard that ends it before that moment.

use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio::time::{sleep, timeout, timeout_at};
use zookeeper_client::{Client, OneshotWatcher, SessionState, StateWatcher};

use super::super::CoordinationError;
use super::address::ZooKeeperAddress;

/// Between two tries to connect, and before a question is put again to a connection that seems to be there.
const PAUSE: Duration = Duration::from_millis(30);

/// A client, and whether its session has ended.
#[derive(Clone)]
pub(super) struct Connection {
    pub(super) client: Client,
    is_over: watch::Receiver<bool>,
}

/// The runtime of one client's tasks.
struct Carrier(Option<Runtime>);

impl Drop for Carrier {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            // Does not wait, so that it may happen within another runtime.
            runtime.shutdown_background();
        }
    }
}

impl Connection {
    /// Tries to connect until the deadline has passed; nothing then.
    pub(super) fn open(
        address: &ZooKeeperAddress,
        runtime: &Runtime,
        deadline: Instant,
    ) -> Result<Option<Self>, CoordinationError> {
        let own = super::session::runtime("zookeeper-client")?;
        let servers = address.servers.join(",");
        let connected = runtime.block_on(async {
            let attempts = async {
                loop {
                    let mut connector = Client::connector().with_session_timeout(address.session).with_fail_eagerly();
                    if let Some(credentials) = &address.credentials {
                        let text = format!("{}:{}", credentials.user, credentials.password);
                        connector = connector.with_auth("digest", text.as_bytes());
                    }
                    let servers = servers.clone();
                    let attempt = own.spawn(async move { connector.connect(&servers).await });
                    if let Ok(Ok(client)) = attempt.await {
                        break client;
                    }
                    sleep(PAUSE).await;
                }
            };
            timeout_at(deadline.into(), attempts).await.ok()
        });
        let carrier = Carrier(Some(own));
        Ok(connected.map(|client| {
            let (tell, is_over) = watch::channel(false);
            runtime.spawn(guard(client.state_watcher(), client.session_timeout(), carrier, tell));
            Self { client, is_over }
        }))
    }

    pub(super) fn is_over(&self) -> bool {
        *self.is_over.borrow() || self.client.state().is_terminated()
    }

    /// Waits until the session has ended.
    pub(super) async fn over(&self) {
        // The guard says so before it goes.
        let _ = self.is_over.clone().wait_for(|is_over| *is_over).await;
    }

    /// Waits until something has changed, or the session has ended.
    pub(super) async fn changed(&self, watcher: OneshotWatcher) {
        tokio::select! {
            // First: a watcher whose client was taken away would panic.
            biased;
            () = self.over() => {}
            _ = watcher.changed() => {}
        }
    }

    /// Waits until it makes sense to ask again: the connection is back, or the session has ended.
    pub(super) async fn back_or_over(&self) {
        sleep(PAUSE).await;
        let mut states = self.client.state_watcher();
        let back = async {
            while self.client.state() == SessionState::Disconnected {
                states.changed().await;
            }
        };
        tokio::select! {
            () = self.over() => {}
            () = back => {}
        }
    }

    /// Leaves the client; gives what tells when its session is closed, if somebody can be told of it.
    pub(super) fn leave(self) -> Option<watch::Receiver<bool>> {
        (self.client.state() == SessionState::SyncConnected).then_some(self.is_over)
    }
}

/// Ends the client's tasks when its session has ended, or when nobody has been there for nearly as long as it lasts.
async fn guard(mut states: StateWatcher, session: Duration, carrier: Carrier, tell: watch::Sender<bool>) {
    let mut state = states.state();
    while !state.is_terminated() {
        state = match state {
            SessionState::Disconnected => match timeout(session * 9 / 10, states.changed()).await {
                Ok(state) => state,
                Err(_) => break,
            },
            _ => states.changed().await,
        };
    }
    tell.send_replace(true);
    drop(carrier);
}
