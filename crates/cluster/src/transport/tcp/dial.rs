//! Connecting to a peer.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;

use super::link::{self, Link};
use super::stream::Stream;
use super::{Shared, after};
use crate::local_user;
use crate::transport::TransportEvent;
use crate::trust::Trust;

/// Connects and carries the link to its end.
pub(super) async fn peer(shared: Arc<Shared>, link: Arc<Link>, to: String) {
    let limit = shared.limits.connect;
    let connected = tokio::select! {
        connected = timeout(limit, open(&shared, &to)) => connected,
        reason = link.ended_here() => return shared.end_link(&link, reason).await,
    };
    let reason = match connected {
        Ok(Ok(stream)) => {
            link.prove(&stream);
            shared.events.emit(TransportEvent::Opened { link: link.id }).await;
            let handshake_ends = after(shared.limits.handshake).into();
            link::carry(&shared, &link, &to, stream, None, handshake_ends).await
        }
        Ok(Err(reason)) => format!("cannot connect to `{to}`: {reason}"),
        Err(_) => format!("cannot connect to `{to}`: no answer within {limit:?}"),
    };
    shared.end_link(&link, reason).await;
}

async fn open(shared: &Shared, to: &str) -> Result<Stream, String> {
    let addresses: Vec<SocketAddr> = lookup_host(to).await.map_err(|error| error.to_string())?.collect();
    let trust = shared.trust();
    if let Trust::Plain = trust
        && !shared.plain_off_loopback
        && let Some(address) = addresses.iter().find(|address| !address.ip().is_loopback())
    {
        return Err(format!("{} is another machine, and this link has no TLS: use a join string", address.ip()));
    }
    let stream = TcpStream::connect(&*addresses).await.map_err(|error| error.to_string())?;
    super::socket::set_up(&stream, shared.silence())?;
    if shared.own_user_only
        && matches!(trust, Trust::Plain)
        && stream.peer_addr().is_ok_and(local_user::is_listener_another)
    {
        return Err("it belongs to another user of the machine: let both use the same `--token-file`".into());
    }
    match trust {
        Trust::Plain => Ok(Stream::Plain(stream)),
        Trust::Tls(trust) => Stream::connect(stream, &trust, shared.limits.linger).await,
    }
}
