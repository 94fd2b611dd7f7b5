//! Those who connect to us.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout_at};

use super::link::{self, Link};
use super::places::{Place, Places};
use super::stream::Stream;
use super::{Shared, after};
use crate::transport::TransportEvent;
use crate::trust::Trust;
use crate::{descriptors, local_user};

/// How long nobody is accepted when the system has no room for another connection.
const PAUSE: Duration = Duration::from_millis(50);

/// Takes in everybody who comes.
pub(super) async fn strangers(shared: Arc<Shared>, listener: TcpListener) {
    let places = Places::new(shared.limits.strangers);
    loop {
        // It fails when the peer has gone already, or when files run out; then others must go first.
        let Ok((stream, peer)) = listener.accept().await else {
            sleep(PAUSE).await;
            continue;
        };
        if !descriptors::are_left() {
            // The files of the run come first; whoever belongs to it tries again.
            drop(stream);
            sleep(PAUSE).await;
            continue;
        }
        tokio::spawn(stranger(shared.clone(), stream, peer, places.take()));
    }
}

/// Lets one of them prove itself and carries the link to its end.
async fn stranger(shared: Arc<Shared>, stream: TcpStream, peer: SocketAddr, mut place: Place) {
    let handshake_ends = after(shared.limits.handshake).into();
    let link = shared.new_link();
    let peer = peer.to_string();
    let secured = tokio::select! {
        // Without TLS there is hardly anything to wait for, and the peer can be told why it has to go.
        biased;
        secured = timeout_at(handshake_ends, secure(&shared, &link, stream)) => secured,
        () = place.is_taken_away() => Ok(Err(place.reason())),
    };
    let reason = match secured {
        Ok(Ok(stream)) => {
            link.prove(&stream);
            shared.events.emit(TransportEvent::Accepted { link: link.id, peer: peer.clone() }).await;
            link::carry(&shared, &link, &peer, stream, Some(place), handshake_ends).await
        }
        Ok(Err(reason)) => format!("refused `{peer}`: {reason}"),
        Err(_) => format!("`{peer}` gave no proof of who it is within {:?}", shared.limits.handshake),
    };
    shared.end_link(&link, reason).await;
}

async fn secure(shared: &Shared, link: &Link, stream: TcpStream) -> Result<Stream, String> {
    super::socket::set_up(&stream, shared.silence())?;
    if shared.own_user_only && matches!(shared.trust(), Trust::Plain) {
        // To look somebody up takes a while: not before it says something, else those who are silent keep the others out.
        let _ = stream.readable().await;
        if is_of_another_user(&stream) {
            link.close("this master belongs to another user of the machine: let both use the same `--token-file`");
        }
    }
    match shared.trust() {
        Trust::Plain => Ok(Stream::Plain(stream)),
        Trust::Tls(trust) => Stream::accept(stream, &trust, shared.limits.linger).await,
    }
}

fn is_of_another_user(stream: &TcpStream) -> bool {
    let ends = stream.local_addr().ok().zip(stream.peer_addr().ok());
    ends.is_some_and(|(local, peer)| local_user::is_another(local, peer))
}
