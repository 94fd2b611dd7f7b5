//! Who may do what.

use std::net::IpAddr;

use hyper::header::{AUTHORIZATION, HOST, ORIGIN};
use hyper::http::request::Parts;
use hyper::http::uri::Authority;
use hyper::{HeaderMap, StatusCode};

use crate::trust::Token;

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    /// To see the state.
    Read,
    /// To change what the run does.
    Order,
}

/// Why not, for a person.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    pub(super) sentence: String,
}

fn refuse(status: StatusCode, sentence: impl Into<String>) -> Result<(), Refusal> {
    Err(Refusal { status, sentence: sentence.into() })
}

/// Who may do what.
pub(super) struct Access {
    pub(super) token: Option<Token>,
    /// Whether everybody who can connect may read.
    pub(super) trusted: bool,
    /// What this machine is called.
    pub(super) names: Vec<String>,
}

impl Access {
    /// Whether a request was meant for us. A page of another site can make a browser here connect to us under the name of
    /// that site, and would then read the answer (DNS rebinding); what it cannot do is to choose the name.
    ///
    /// Ports are not compared: whoever forwards another port to ours asks under that port, and a site gains nothing by one.
    pub(super) fn meant_for_us(&self, request: &Parts, local: IpAddr) -> Result<(), Refusal> {
        let mut hosts = request.headers.get_all(HOST).iter();
        let asked = match (request.uri.authority(), hosts.next(), hosts.next()) {
            (_, _, Some(_)) => {
                return refuse(StatusCode::BAD_REQUEST, "A request has one `Host`, this one has several.");
            }
            (Some(authority), _, _) => authority.as_str(),
            (None, Some(host), None) => host.to_str().unwrap_or_default(),
            (None, None, None) => return refuse(StatusCode::BAD_REQUEST, "A request needs a `Host`."),
        };
        if host_and_port(asked).is_some_and(|(host, _)| self.is_us(&host, local)) {
            return Ok(());
        }
        let mut names = vec!["localhost".to_owned(), local.to_string()];
        names.extend(self.names.iter().filter(|name| !names.contains(name)).cloned().collect::<Vec<_>>());
        let sentence = format!("This is not `{}`: ask for `{}`.", asked.escape_debug(), names.join("`, `"));
        refuse(StatusCode::MISDIRECTED_REQUEST, sentence)
    }

    fn is_us(&self, host: &str, local: IpAddr) -> bool {
        let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        host.eq_ignore_ascii_case("localhost")
            || self.names.iter().any(|name| name.eq_ignore_ascii_case(host))
            || address.is_ok_and(|address| address.to_canonical() == local.to_canonical())
    }

    /// Whether whoever asks may have what it wants.
    /// `is_stranger`: it is another user of this machine.
    pub(super) fn allows(&self, wish: Wish, headers: &HeaderMap, is_stranger: bool) -> Result<(), Refusal> {
        // Any site may make a browser send us an order, even if it cannot read the answer; but then the browser says so.
        if wish == Wish::Order
            && let Some(origin) = headers.get(ORIGIN)
            && headers.get(HOST).is_none_or(|host| origin.as_bytes() != [b"http://", host.as_bytes()].concat())
        {
            return refuse(StatusCode::FORBIDDEN, "A page of another site must not give orders here.");
        }
        let Some(token) = &self.token else {
            return if self.trusted && wish == Wish::Order && is_stranger {
                let sentence = "This run belongs to another user: orders need its token (`--status-token-file`).";
                refuse(StatusCode::FORBIDDEN, sentence)
            } else if self.trusted {
                Ok(())
            } else {
                refuse(StatusCode::FORBIDDEN, "This is allowed on the machine of the master only.")
            };
        };
        if wish == Wish::Read && self.trusted {
            return Ok(());
        }
        let Some(shown) = headers.get(AUTHORIZATION) else {
            return refuse(StatusCode::UNAUTHORIZED, "This needs the token: send `Authorization: Bearer TOKEN`.");
        };
        match bearer(shown.as_bytes()) {
            Some(shown) if token.matches(shown.reveal_bytes()) => Ok(()),
            _ => refuse(StatusCode::UNAUTHORIZED, "The token that came is not the one of this master."),
        }
    }
}

fn bearer(shown: &[u8]) -> Option<Token> {
    let (scheme, token) = std::str::from_utf8(shown).ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| Token::parse(token.trim()).ok())?
}

/// The parts of `HOST` or `HOST:PORT`; a host of version 6 stands in brackets.
pub(super) fn host_and_port(text: &str) -> Option<(String, Option<u16>)> {
    let authority: Authority = text.parse().ok()?;
    let (host, port) = (authority.host(), authority.port_u16());
    // Neither `user@host` nor a port that is no number, which would otherwise be passed over.
    let whole = match port {
        Some(_) => text.rsplit_once(':').is_some_and(|(before, _)| before == host),
        None => text == host,
    };
    (whole && !host.is_empty()).then(|| (host.to_owned(), port))
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use hyper::Request;
    use hyper::http::request::Parts;

    use super::{Access, Refusal, Wish, host_and_port};
    use crate::trust::Token;

    const TOKEN: &str = "00112233445566778899aabbccddeeff";

    fn request(uri: &str, headers: &[(&str, &str)]) -> Parts {
        let request = headers.iter().fold(Request::get(uri), |request, (name, value)| request.header(*name, *value));
        request.body(()).expect("a request").into_parts().0
    }

    fn status(answer: Result<(), Refusal>) -> u16 {
        answer.map_or_else(|refusal| refusal.status.as_u16(), |()| 200)
    }

    #[test]
    fn the_token_is_asked_for_as_the_rules_say() {
        let (right, wrong) = (format!("Bearer {TOKEN}"), format!("Bearer {}", TOKEN.replace('0', "1")));
        let short = format!("Bearer {}", &TOKEN[..30]);
        let basic = format!("Basic {TOKEN}");
        let lower = format!("bearer {TOKEN}");
        let shown = [None, Some(right), Some(lower), Some(wrong), Some(short), Some(basic), Some(TOKEN.to_owned())];
        let expected = [
            // there is a token, the network is trusted, what is wished; with none, right, right, wrong, short, basic, bare
            (false, true, Wish::Read, [200, 200, 200, 200, 200, 200, 200]),
            (false, true, Wish::Order, [200, 200, 200, 200, 200, 200, 200]),
            (false, false, Wish::Read, [403, 403, 403, 403, 403, 403, 403]),
            (false, false, Wish::Order, [403, 403, 403, 403, 403, 403, 403]),
            (true, true, Wish::Read, [200, 200, 200, 200, 200, 200, 200]),
            (true, true, Wish::Order, [401, 200, 200, 401, 401, 401, 401]),
            (true, false, Wish::Read, [401, 200, 200, 401, 401, 401, 401]),
            (true, false, Wish::Order, [401, 200, 200, 401, 401, 401, 401]),
        ];
        for (has_token, trusted, wish, expected) in expected {
            let token = has_token.then(|| Token::parse(TOKEN).expect("a token"));
            let access = Access { token, trusted, names: Vec::new() };
            let found = shown.each_ref().map(|shown| {
                let headers: Vec<(&str, &str)> = shown.iter().map(|shown| ("authorization", shown.as_str())).collect();
                status(access.allows(wish, &request("/", &headers).headers, false))
            });
            assert_eq!(found, expected, "a token: {has_token}, trusted: {trusted}, {wish:?}");
        }
    }

    #[test]
    fn another_user_reads_and_gives_no_orders_without_a_token() {
        let access = |token| Access { token, trusted: true, names: Vec::new() };
        let ask = |access: &Access, wish, shown: &str| {
            let headers = request("/", &[("authorization", &format!("Bearer {shown}"))]).headers;
            status(access.allows(wish, &headers, true))
        };
        let open = access(None);
        assert_eq!([ask(&open, Wish::Read, TOKEN), ask(&open, Wish::Order, TOKEN)], [200, 403]);
        let closed = access(Token::parse(TOKEN).ok());
        assert_eq!([ask(&closed, Wish::Order, TOKEN), ask(&closed, Wish::Order, "aa")], [200, 401]);
    }

    #[test]
    fn a_page_of_another_site_gives_no_orders() {
        let access = Access { token: None, trusted: true, names: Vec::new() };
        let ask = |wish, origin| {
            let headers = [("host", "127.0.0.1:80"), ("origin", origin)];
            status(access.allows(wish, &request("/", &headers).headers, false))
        };
        assert_eq!(ask(Wish::Order, "http://127.0.0.1:80"), 200);
        for origin in ["http://evil.example", "null", "", "http://127.0.0.1:81", "https://127.0.0.1:80"] {
            assert_eq!(ask(Wish::Order, origin), 403, "{origin}");
            assert_eq!(ask(Wish::Read, origin), 200, "{origin}: the browser keeps the answer from it");
        }
    }

    #[test]
    fn only_names_of_this_machine_are_answered() {
        let access =
            Access { token: None, trusted: true, names: vec!["trainer".to_owned(), "Big.Example.org".to_owned()] };
        let ask = |host: &str, local: &str| {
            let local: IpAddr = local.parse().expect("an address");
            status(access.meant_for_us(&request("/status", &[("host", host)]), local))
        };
        for host in ["localhost", "LocalHost:9", "trainer:80", "big.example.ORG", "10.0.0.7", "10.0.0.7:81"] {
            assert_eq!(ask(host, "10.0.0.7"), 200, "{host}");
        }
        assert_eq!(ask("[::1]:80", "::1"), 200);
        assert_eq!(ask("127.0.0.1:80", "::ffff:127.0.0.1"), 200);
        let strangers =
            ["evil.example", "localhost.evil.example", "10.0.0.8", "127.0.0.1", "a@localhost", "", "localhost:x"];
        for host in strangers {
            assert_eq!(ask(host, "10.0.0.7"), 421, "{host}");
        }
        let local = "127.0.0.1".parse().expect("an address");
        let ask = |parts: Parts| status(access.meant_for_us(&parts, local));
        assert_eq!(ask(request("/status", &[])), 400);
        assert_eq!(ask(request("/status", &[("host", "localhost"), ("host", "evil.example")])), 400);
        // What stands in the first line goes before what stands below it.
        assert_eq!(ask(request("http://evil.example/status", &[("host", "localhost")])), 421);
        assert_eq!(ask(request("http://localhost/status", &[("host", "localhost")])), 200);
    }

    #[test]
    fn hosts_and_ports_are_told_apart() {
        let parts = |text| host_and_port(text).map(|(host, port)| (host, port.unwrap_or(0)));
        assert_eq!(parts("a.b:80"), Some(("a.b".to_owned(), 80)));
        assert_eq!(parts("[::1]:0"), Some(("[::1]".to_owned(), 0)));
        assert_eq!(parts("a"), Some(("a".to_owned(), 0)));
        for text in ["", ":80", "a:", "a:x", "a:70000", "u@a:80", "a b", "::1:80"] {
            assert_eq!(parts(text), None, "{text}");
        }
    }
}
