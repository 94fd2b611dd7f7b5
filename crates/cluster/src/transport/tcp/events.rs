//! The way of events from the tasks to the owner's thread.

use std::sync::Arc;

use crossbeam_channel::{Receiver, Sender, TrySendError, select};
use tokio::sync::Semaphore;

use crate::transport::TransportEvent;

pub(super) struct Events {
    channel: Sender<TransportEvent>,
    /// Hears when the transport is dropped.
    stopped: Receiver<()>,
    /// Held while an event is put into the channel, so that none overtakes another that waits for room.
    turn: Arc<Semaphore>,
}

impl Events {
    pub(super) fn new(channel: Sender<TransportEvent>, stopped: Receiver<()>) -> Self {
        Self { channel, stopped, turn: Arc::new(Semaphore::new(1)) }
    }

    /// Puts an event into the channel. While the channel is full, the caller waits, and with it the link that it reads;
    /// so does every other link that has something to tell. If nobody listens any more, the event is dropped.
    pub(super) async fn emit(&self, event: TransportEvent) {
        let turn = self.turn.clone().acquire_owned().await.expect("the semaphore is never closed");
        let event = match self.channel.try_send(event) {
            Ok(()) | Err(TrySendError::Disconnected(_)) => return,
            Err(TrySendError::Full(event)) => event,
        };
        // The channel cannot be awaited, so a thread waits. It keeps the turn even if this task is dropped meanwhile.
        let (channel, stopped) = (self.channel.clone(), self.stopped.clone());
        let waiting = tokio::task::spawn_blocking(move || {
            select! {
                send(channel, event) -> _ => {},
                recv(stopped) -> _ => {},
            }
            drop(turn);
        });
        // It fails only when the runtime ends.
        let _ = waiting.await;
    }
}
