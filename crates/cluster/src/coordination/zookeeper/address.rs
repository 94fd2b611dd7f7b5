use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::super::CoordinationError;

const SCHEME: &str = "zk://";
const PORT: u16 = 2181;
const SESSION: Duration = Duration::from_secs(4);

/// Where a ZooKeeper is and what to use of it: `zk://[user:password@]host[:port],…/path[?session=4s]`.
///
/// User and password may have signs written as `%40`. They are never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct ZooKeeperAddress {
    /// Host and port of every server.
    pub(super) servers: Vec<String>,
    /// The node below which everything lies.
    pub(super) path: String,
    /// How long a session lasts when nobody hears of it; the servers have limits of their own.
    pub(super) session: Duration,
    pub(super) credentials: Option<Credentials>,
}

#[derive(Clone, PartialEq, Eq)]
pub(super) struct Credentials {
    pub(super) user: String,
    pub(super) password: String,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").finish_non_exhaustive()
    }
}

impl ZooKeeperAddress {
    /// Host and port of every server.
    pub fn servers(&self) -> &[String] {
        &self.servers
    }
}

impl fmt::Debug for ZooKeeperAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ZooKeeperAddress({self})")
    }
}

/// Without user and password.
impl fmt::Display for ZooKeeperAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}{}?session={}ms", self.servers.join(","), self.path, self.session.as_millis())
    }
}

impl FromStr for ZooKeeperAddress {
    type Err = CoordinationError;

    fn from_str(text: &str) -> Result<Self, CoordinationError> {
        // What stands before the last `@` may be a password, whatever else is wrong.
        let shown = text.rsplit_once('@').map_or(text.to_owned(), |(_, rest)| format!("{SCHEME}…@{rest}"));
        let bad = |expected, found: &str| CoordinationError::BadAddress {
            address: shown.clone(),
            expected,
            found: if found.is_empty() { "nothing".to_owned() } else { format!("`{found}`") },
        };
        let example = "`zk://host:port,host:port/path`";
        let rest =
            text.strip_prefix(SCHEME).ok_or_else(|| bad(example, shown.split('…').next().unwrap_or_default()))?;
        let (credentials, rest) = match rest.rsplit_once('@') {
            None => (None, rest),
            Some((credentials, rest)) => {
                let parted = credentials.split_once(':').filter(|(user, _)| !user.is_empty());
                let (user, password) = parted.ok_or_else(|| bad("`user:password` before the `@`", "something else"))?;
                let decode =
                    |part| percent_decoded(part).ok_or_else(|| bad("`%` and two hexadecimal digits", "something else"));
                (Some(Credentials { user: decode(user)?, password: decode(password)? }), rest)
            }
        };
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (servers, path) = rest.split_once('/').unwrap_or((rest, ""));
        let servers = servers.split(',').map(|server| with_port(server).map_err(|expected| bad(expected, server)));
        let servers = servers.collect::<Result<Vec<_>, _>>()?;
        let odd =
            |part: &str| part.is_empty() || part == "." || part == ".." || part.chars().any(|c| !c.is_ascii_graphic());
        if path.split('/').any(odd) || path == "zookeeper" || path.starts_with("zookeeper/") {
            return Err(bad("a path for this run, such as `/paceline/lenet`", &format!("/{path}")));
        }
        let mut session = SESSION;
        for setting in query.split('&').filter(|setting| !setting.is_empty()) {
            let value = setting.strip_prefix("session=").ok_or_else(|| bad("no setting but `session=…`", setting))?;
            session = duration(value).ok_or_else(|| bad("a session of 500ms to 300s", value))?;
        }
        Ok(Self { servers, path: format!("/{path}"), session, credentials })
    }
}

/// Host and port of one server, or what was expected.
fn with_port(server: &str) -> Result<String, &'static str> {
    let (host, port) = match server.rfind(']') {
        Some(end) => server.split_at(end + 1),
        None => server.find(':').map_or((server, ""), |colon| server.split_at(colon)),
    };
    let is_name = |host: &str| host.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b));
    let inside = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    match inside {
        Some(inside) if inside.parse::<std::net::Ipv6Addr>().is_ok() => {}
        None if !host.is_empty() && is_name(host) => {}
        _ => return Err("a host name, an IPv4 address, or an IPv6 address in brackets"),
    }
    let port = match port.strip_prefix(':') {
        None if port.is_empty() => Some(PORT),
        None => None,
        Some(port) => port.parse().ok().filter(|port| *port != 0),
    };
    port.map(|port| format!("{host}:{port}")).ok_or("a port from 1 to 65535 after the host")
}

fn duration(text: &str) -> Option<Duration> {
    let (digits, unit) = match text.strip_suffix("ms") {
        Some(digits) => (digits, 1),
        None => (text.strip_suffix('s')?, 1000),
    };
    let millis = digits.parse::<u64>().ok()?.checked_mul(unit)?;
    (500..=300_000).contains(&millis).then(|| Duration::from_millis(millis))
}

fn percent_decoded(text: &str) -> Option<String> {
    let mut parts = text.split('%');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        bytes.push(u8::from_str_radix(part.get(..2)?, 16).ok()?);
        bytes.extend_from_slice(&part.as_bytes()[2..]);
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> ZooKeeperAddress {
        text.parse().unwrap_or_else(|error| panic!("{error}"))
    }

    fn refused(text: &str) -> String {
        text.parse::<ZooKeeperAddress>().expect_err(text).to_string()
    }

    #[test]
    fn servers_path_and_session_are_found() {
        let address = parsed("zk://one:2182,two,[::1]:7/a/b?session=1500ms");
        assert_eq!(address.servers, ["one:2182", "two:2181", "[::1]:7"]);
        assert_eq!(address.path, "/a/b");
        assert_eq!(address.session, Duration::from_millis(1500));
        assert_eq!(address.credentials, None);
        assert_eq!(parsed("zk://h/p").session, Duration::from_secs(4));
        assert_eq!(parsed("zk://h/p?session=10s").session, Duration::from_secs(10));
        assert_eq!(parsed(&address.to_string()), address);
    }

    #[test]
    fn credentials_are_decoded_and_never_shown() {
        let address = parsed("zk://anna:se%40cret/x%3A@h/p");
        let credentials = address.credentials.clone().expect("credentials");
        assert_eq!((credentials.user.as_str(), credentials.password.as_str()), ("anna", "se@cret/x:"));
        for shown in [format!("{address}"), format!("{address:?}"), format!("{credentials:?}")] {
            assert!(!shown.contains("cret") && !shown.contains("anna"), "{shown}");
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, expected) in [
            ("", "found nothing"),
            ("http://h/p", "expected `zk://host:port,host:port/path`, found `http://h/p`"),
            ("zk://h:99999/p", "expected a port from 1 to 65535 after the host, found `h:99999`"),
            ("zk://h:0/p", "a port from 1"),
            ("zk://h:/p", "a port from 1"),
            ("zk://h,/p", "found nothing"),
            ("zk:///p", "expected a host name"),
            ("zk://[::g]:1/p", "an IPv6 address in brackets"),
            ("zk://::1/p", "a host name"),
            ("zk://h o/p", "a host name"),
            ("zk://h", "a path for this run, such as `/paceline/lenet`, found `/`"),
            ("zk://h/", "a path for this run"),
            ("zk://h/a//b", "a path for this run"),
            ("zk://h/a/../b", "a path for this run"),
            ("zk://h/zookeeper/quota", "a path for this run"),
            ("zk://h/p?session=4", "a session of 500ms to 300s, found `4`"),
            ("zk://h/p?session=1ms", "a session of 500ms"),
            ("zk://h/p?timeout=4s", "no setting but `session=…`, found `timeout=4s`"),
        ] {
            let error = refused(text);
            assert!(error.contains(expected), "`{text}`: {error}");
        }
    }

    #[test]
    fn a_wrong_address_does_not_show_its_password() {
        for text in [
            "zk://anna:secret@h:x/p",
            "zk://anna:sec/ret@h:x/p",
            "zk://secret@h/p",
            "zk://:secret@h/p",
            "zk://anna:secret%zz@h/p",
            "zk://anna:secret%é@h/p",
            "zookeeper://anna:secret@h/p",
            "zk://anna:secret@h",
        ] {
            let error = refused(text);
            assert!(!error.contains("sec") && !error.contains("anna"), "`{text}`: {error}");
        }
    }
}
