//! What every socket is set to.

use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::net::TcpStream;

/// Sends at once, and notices within a limit that nobody acknowledges any more: with data under way by the limit itself,
/// without any by probes.
pub(super) fn set_up(stream: &TcpStream, silence: Duration) -> Result<(), String> {
    stream.set_nodelay(true).map_err(|error| error.to_string())?;
    let socket = SockRef::from(stream);
    let probe = (silence / 4).max(Duration::from_secs(1));
    let keepalive = TcpKeepalive::new().with_time(probe);
    #[cfg(any(target_os = "linux", target_os = "macos", target_os = "freebsd", target_os = "windows"))]
    let keepalive = keepalive.with_interval(probe);
    #[cfg(any(target_os = "linux", target_os = "macos", target_os = "freebsd"))]
    let keepalive = keepalive.with_retries(3);
    socket.set_tcp_keepalive(&keepalive).map_err(|error| error.to_string())?;
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(silence)).map_err(|error| error.to_string())?;
    Ok(())
}
