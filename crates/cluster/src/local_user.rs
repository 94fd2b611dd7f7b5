//! Whether somebody who connects from this machine is another user of it. Without a token, only the own user is let in.

use std::net::{IpAddr, SocketAddr};

/// Whether a peer is known to be a process of another user of this machine, who is not root. Where the system does not tell, nobody
/// is.
pub(crate) fn is_another(local: SocketAddr, peer: SocketAddr) -> bool {
    if !peer.ip().to_canonical().is_loopback() {
        return false;
    }
    match (owner(local, peer), own()) {
        (Some(owner), Some(own)) => owner != own && owner != 0,
        _ => false,
    }
}

/// True if a user of this machine who is neither the own one nor root listens at this address. The other end of
/// a connection has no user before it is accepted, so the listener is asked for.
pub(crate) fn is_listener_another(at: SocketAddr) -> bool {
    if !at.ip().to_canonical().is_loopback() {
        return false;
    }
    match (listener(at), own()) {
        (Some(owner), Some(own)) => owner != own && owner != 0,
        _ => false,
    }
}

#[cfg(target_os = "linux")]
fn own() -> Option<u32> {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").ok().map(|itself| itself.uid())
}

/// The user of the socket at the other end of a connection.
#[cfg(target_os = "linux")]
fn owner(local: SocketAddr, peer: SocketAddr) -> Option<u32> {
    user_of(|from, to, _| is_same(from, peer) && is_same(to, local))
}

/// The user of the socket that listens at an address, by itself or with all others of the machine.
#[cfg(target_os = "linux")]
fn listener(at: SocketAddr) -> Option<u32> {
    const LISTENS: &str = "0A";
    user_of(|from, _, state| {
        state == LISTENS && from.port() == at.port() && (is_same(from, at) || from.ip().to_canonical().is_unspecified())
    })
}

/// The user of the first socket of this machine that is the one looked for, by its two ends and its state.
#[cfg(target_os = "linux")]
fn user_of(is_it: impl Fn(SocketAddr, SocketAddr, &str) -> bool) -> Option<u32> {
    let of_table = |table: &str| {
        let text = std::fs::read_to_string(table).ok()?;
        text.lines().skip(1).find_map(|line| {
            let mut words = line.split_whitespace().skip(1);
            let (from, to, state) = (socket(words.next()?)?, socket(words.next()?)?, words.next()?);
            // Behind the state come queues, timers and retransmissions.
            let user = words.nth(3)?.parse().ok()?;
            is_it(from, to, state).then_some(user)
        })
    };
    of_table("/proc/self/net/tcp").or_else(|| of_table("/proc/self/net/tcp6"))
}

#[cfg(not(target_os = "linux"))]
fn own() -> Option<u32> {
    None
}

#[cfg(not(target_os = "linux"))]
fn listener(_: SocketAddr) -> Option<u32> {
    None
}

#[cfg(not(target_os = "linux"))]
fn owner(_: SocketAddr, _: SocketAddr) -> Option<u32> {
    None
}

fn is_same(a: SocketAddr, b: SocketAddr) -> bool {
    (a.ip().to_canonical(), a.port()) == (b.ip().to_canonical(), b.port())
}

/// An address as the tables write it: words of 32 bits in the order of this machine, then the port.
fn socket(text: &str) -> Option<SocketAddr> {
    let (address, port) = text.split_once(':')?;
    let words: Option<Vec<u32>> =
        (0..address.len()).step_by(8).map(|at| u32::from_str_radix(address.get(at..at + 8)?, 16).ok()).collect();
    let bytes: Vec<u8> = words?.into_iter().flat_map(u32::to_ne_bytes).collect();
    let address = match bytes.len() {
        4 => IpAddr::from(<[u8; 4]>::try_from(bytes).ok()?),
        16 => IpAddr::from(<[u8; 16]>::try_from(bytes).ok()?),
        _ => return None,
    };
    Some(SocketAddr::new(address, u16::from_str_radix(port, 16).ok()?))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn the_own_user_is_found_at_the_other_end() {
        for listen in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listening) = TcpListener::bind(listen) else { continue };
            let address = listening.local_addr().expect("an address");
            let _client = TcpStream::connect(address).expect("it listens");
            let (_, peer) = listening.accept().expect("somebody connects");
            assert_eq!(owner(address, peer), own());
            assert!(own().is_some() && !is_another(address, peer));
            assert_eq!(listener(address), own());
            assert!(!is_listener_another(address));
        }
    }

    #[test]
    fn addresses_are_read_as_the_tables_write_them() {
        let expected = if cfg!(target_endian = "little") { "127.0.0.1:8080" } else { "1.0.0.127:8080" };
        assert_eq!(socket("0100007F:1F90"), expected.parse().ok());
        assert_eq!(socket("0100007F"), None);
        assert_eq!(socket("01:1F90"), None);
    }
}
