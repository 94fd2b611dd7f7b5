//! Those who connect to us.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout_at};

use super::link;
use super::stream::Stream;
use super::write::goodbye_frame;
use super::{Shared, after};
use crate::transport::TransportEvent;
use crate::trust::Trust;

/// How long nobody is accepted when the system has no room for another connection.
const PAUSE: Duration = Duration::from_millis(50);

/// Takes in everybody for whom there is a place among the strangers.
pub(super) async fn strangers(shared: Arc<Shared>, listener: TcpListener) {
    let limit = shared.limits.strangers;
    let places = Arc::new(Semaphore::new(limit.min(Semaphore::MAX_PERMITS)));
    // A thousand connections more are told once, not a thousand times.
    let mut told = false;
    loop {
        // It fails when the peer has gone already, or when files run out; then others must go first.
        let Ok((stream, peer)) = listener.accept().await else {
            sleep(PAUSE).await;
            continue;
        };
        match places.clone().try_acquire_owned() {
            Ok(place) => {
                told = false;
                tokio::spawn(stranger(shared.clone(), stream, peer, place));
            }
            Err(_) => {
                let reason = format!("{limit} connections already wait to prove who they are, which is the limit");
                refuse(&shared, &stream, &reason);
                if !std::mem::replace(&mut told, true) {
                    let reason = format!("refused `{peer}` and whoever else comes now: {reason}");
                    tokio::spawn(tell(shared.clone(), reason));
                }
            }
        }
    }
}

/// Tells the owner, in a task of its own: those who connect must not wait until the owner hears of others.
async fn tell(shared: Arc<Shared>, reason: String) {
    let link = shared.new_link();
    shared.end_link(&link, reason).await;
}

/// Says why, if that can be done at once and in a language that the peer understands.
fn refuse(shared: &Shared, stream: &TcpStream, reason: &str) {
    if let Trust::Plain = shared.trust() {
        let mut bytes = Vec::new();
        goodbye_frame(reason).write(&mut bytes);
        let _ = stream.try_write(&bytes);
    }
}

/// Lets one of them prove itself and carries the link to its end.
async fn stranger(shared: Arc<Shared>, stream: TcpStream, peer: SocketAddr, place: OwnedSemaphorePermit) {
    let handshake_ends = after(shared.limits.handshake).into();
    let link = shared.new_link();
    let peer = peer.to_string();
    let reason = match timeout_at(handshake_ends, secure(&shared, stream)).await {
        Ok(Ok(stream)) => {
            link.prove(stream.proof());
            shared.events.emit(TransportEvent::Accepted { link: link.id, peer: peer.clone() }).await;
            link::carry(&shared, &link, &peer, stream, Some(place), handshake_ends).await
        }
        Ok(Err(reason)) => format!("refused `{peer}`: {reason}"),
        Err(_) => format!("`{peer}` gave no proof of who it is within {:?}", shared.limits.handshake),
    };
    shared.end_link(&link, reason).await;
}

async fn secure(shared: &Shared, stream: TcpStream) -> Result<Stream, String> {
    super::socket::set_up(&stream, shared.limits.silence)?;
    match shared.trust() {
        Trust::Plain => Ok(Stream::Plain(stream)),
        Trust::Tls(trust) => Stream::accept(stream, &trust, shared.limits.linger).await,
    }
}
