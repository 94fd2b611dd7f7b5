//! Where to listen, and what to tell others.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::ops::RangeInclusive;

use tokio::net::{TcpListener, TcpSocket};

use super::TransportError;

/// A host and its ports.
struct Listen<'a> {
    host: &'a str,
    ports: RangeInclusive<u16>,
}

fn parse(text: &str) -> Option<Listen<'_>> {
    let (host, ports) = text.rsplit_once(':')?;
    let (from, to) = ports.split_once('-').unwrap_or((ports, ports));
    let (from, to) = (from.parse().ok()?, to.parse().ok()?);
    (is_host(host) && from <= to).then_some(Listen { host, ports: from..=to })
}

/// Whether text can be a host: one of version 6 stands in brackets.
fn is_host(host: &str) -> bool {
    match host.strip_prefix('[') {
        Some(host) => host.ends_with(']'),
        None => !host.is_empty() && !host.contains(':'),
    }
}

/// Connections that the system keeps until they are accepted: a flood of strangers must not keep good peers from being
/// heard at all.
const BACKLOG: u32 = 1024;

/// Listens at the first free port. Must be called within a runtime.
pub(super) fn bind(listen: &str) -> Result<(TcpListener, SocketAddr), TransportError> {
    let wanted = parse(listen).ok_or_else(|| TransportError::BadListenAddress { found: listen.to_owned() })?;
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    for port in wanted.ports {
        match bind_at(wanted.host, port) {
            Ok(bound) => return Ok(bound),
            Err(error) => last = error,
        }
    }
    Err(TransportError::NoPort { listen: listen.to_owned(), source: last })
}

fn bind_at(host: &str, port: u16) -> io::Result<(TcpListener, SocketAddr)> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    for address in format!("{host}:{port}").to_socket_addrs()? {
        match listen_at(address) {
            Ok(listener) => {
                let address = listener.local_addr()?;
                return Ok((listener, address));
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn listen_at(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // A restarted master takes its port again although old connections are still fading. Not so on Windows, where this
    // would let two listen at once.
    #[cfg(unix)]
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// What others connect to.
pub(super) fn advertised(listen: &str, bound: SocketAddr, advertise: Option<&str>) -> Result<String, TransportError> {
    let port = bound.port();
    match advertise {
        Some(host) if is_host(host) => Ok(format!("{host}:{port}")),
        Some(address) => match parse(address) {
            Some(Listen { ports, .. }) if *ports.start() > 0 && ports.start() == ports.end() => Ok(address.to_owned()),
            _ => Err(TransportError::BadAdvertisedAddress { found: address.to_owned() }),
        },
        None if bound.ip().is_unspecified() => Err(TransportError::NothingToAdvertise { found: listen.to_owned() }),
        // A name stays a name: certificates do not hold addresses, and machines may move.
        None => Ok(format!("{}:{port}", listen.rsplit_once(':').map_or(listen, |(host, _)| host))),
    }
}

#[cfg(test)]
mod tests {
    use super::{advertised, bind};
    use std::net::SocketAddr;

    #[tokio::test]
    async fn the_first_free_port_of_a_range_is_taken() {
        let (taken, address) = bind("127.0.0.1:0").expect("a free port");
        let port = address.port();
        let error = bind(&format!("127.0.0.1:{port}")).expect_err("it is taken").to_string();
        assert!(error.starts_with(&format!("cannot listen at `127.0.0.1:{port}`: ")), "{error}");
        let (_, next) = bind(&format!("127.0.0.1:{port}-65535")).expect("one of them is free");
        assert!(next.port() > port);
        drop(taken);
        let (_, again) = bind(&format!("127.0.0.1:{port}-65535")).expect("it is free again");
        assert!(again.port() >= port);
    }

    #[test]
    fn what_is_no_address_is_named() {
        for text in ["", "127.0.0.1", ":80", "host:", "host:x", "host:9-8", "host:1-70000", "::1:80", "[::1:80"] {
            let error = bind(text).expect_err(text).to_string();
            let expected = format!("`{text}` is no address to listen at, expected `HOST:PORT` or `HOST:FROM-TO`");
            assert_eq!(error, expected);
        }
    }

    #[test]
    fn others_are_told_the_real_port() {
        let bound: SocketAddr = "127.0.0.1:4711".parse().expect("an address");
        let told = |listen, advertise| advertised(listen, bound, advertise).map_err(|error| error.to_string());
        assert_eq!(told("127.0.0.1:0", None), Ok("127.0.0.1:4711".to_owned()));
        assert_eq!(told("localhost:4000-5000", None), Ok("localhost:4711".to_owned()));
        assert_eq!(told("127.0.0.1:0", Some("trainer.example")), Ok("trainer.example:4711".to_owned()));
        assert_eq!(told("127.0.0.1:0", Some("[2001:db8::1]")), Ok("[2001:db8::1]:4711".to_owned()));
        assert_eq!(told("127.0.0.1:0", Some("10.0.0.1:80")), Ok("10.0.0.1:80".to_owned()));
        let error = Err("`10.0.0.1:1-2` is no address to advertise, expected `HOST` or `HOST:PORT`".to_owned());
        assert_eq!(told("127.0.0.1:0", Some("10.0.0.1:1-2")), error);
        let everywhere = "0.0.0.0:4711".parse().expect("an address");
        let error = advertised("0.0.0.0:0", everywhere, None).expect_err("nobody connects to that").to_string();
        assert_eq!(
            error,
            "`0.0.0.0:0` means every address of this machine: say which one others connect to (`--advertise`)"
        );
        assert_eq!(advertised("0.0.0.0:0", everywhere, Some("me")).ok(), Some("me:4711".to_owned()));
    }
}
