//! Who may read and order, and under which name.

use crossbeam_channel::bounded;
use paceline_cluster::tracker::{Board, Tracker, TrackerError, TrackerOptions};
use paceline_cluster::trust::Token;
use paceline_exchange::rounds::Operator;

use super::Shown;
use super::http::{ask, send};

const TOKEN: &str = "00112233445566778899aabbccddeeff";

fn shown(trusted: bool) -> Shown {
    let token = Some(Token::parse(TOKEN).expect("a token"));
    Shown::start(TrackerOptions { token, trusted_network: Some(trusted), ..TrackerOptions::default() })
}

#[test]
fn orders_always_need_the_token_and_reading_needs_it_off_loopback() {
    let (right, wrong) =
        (format!("Authorization: Bearer {TOKEN}"), format!("Authorization: Bearer {}", "ab".repeat(16)));
    for trusted in [true, false] {
        let shown = shown(trusted);
        for path in ["/", "/status", "/metrics"] {
            let without = if trusted { 200 } else { 401 };
            assert_eq!(ask(shown.address(), "GET", path, &[]).status, without, "{path}, trusted: {trusted}");
            assert_eq!(ask(shown.address(), "GET", path, &[&wrong]).status, without, "{path}, trusted: {trusted}");
            assert_eq!(ask(shown.address(), "GET", path, &[&right]).status, 200, "{path}, trusted: {trusted}");
        }
        for path in ["/pause", "/resume", "/save", "/stop"] {
            let none = ask(shown.address(), "POST", path, &[]);
            assert_eq!((none.status, none.header("www-authenticate")), (401, Some("Bearer realm=\"paceline\"")));
            assert_eq!(none.body, "This needs the token: send `Authorization: Bearer TOKEN`.\n");
            let wrong = ask(shown.address(), "POST", path, &[&wrong]);
            assert_eq!((wrong.status, wrong.body.contains("is not the one of this master")), (401, true));
            assert!(shown.orders.is_empty(), "{path}");
            assert_eq!(ask(shown.address(), "POST", path, &[&right]).status, 202, "{path}");
            assert!(shown.orders.try_recv().is_ok(), "{path}");
        }
    }
}

#[test]
fn strangers_are_told_from_the_address_if_nobody_says_who_is_trusted() {
    let everywhere = |token| TrackerOptions { listen: "0.0.0.0:0".to_owned(), token, ..TrackerOptions::default() };
    let (commands, _orders) = bounded(1);
    let error = Tracker::start(everywhere(None), Board::default(), commands).err().expect("it needs a token");
    assert!(matches!(error, TrackerError::NoToken { .. }));
    assert!(error.to_string().starts_with("showing the state at `0.0.0.0:0` needs a token"), "{error}");

    let shown = Shown::start(everywhere(Some(Token::parse(TOKEN).expect("a token"))));
    let port = shown.address().strip_prefix("0.0.0.0:").expect("what it listens at");
    let address = format!("127.0.0.1:{port}");
    assert_eq!(ask(&address, "GET", "/status", &[]).status, 401);
    assert_eq!(ask(&address, "GET", "/status", &[&format!("Authorization: bearer {TOKEN}")]).status, 200);

    let shown = Shown::start(TrackerOptions { listen: "localhost:0".to_owned(), ..TrackerOptions::default() });
    assert!(shown.address().starts_with("localhost:"));
    assert_eq!(ask(shown.address(), "GET", "/status", &[]).status, 200);
}

#[test]
fn a_name_that_is_not_ours_is_not_answered() {
    let options = TrackerOptions { advertise: Some("trainer.example".to_owned()), ..TrackerOptions::default() };
    let shown = Shown::start(options);
    let (_, port) = shown.address().split_once(':').expect("a port");
    assert_eq!(shown.address(), format!("trainer.example:{port}"));
    let address = format!("127.0.0.1:{port}");
    let under = |host: &str| send(&address, format!("POST /stop HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes());
    for host in [&address, "localhost", "LOCALHOST:1", "trainer.example", "Trainer.Example:99", "127.0.0.1"] {
        assert_eq!(under(host).status, 202, "{host}");
        assert_eq!(shown.orders.try_recv(), Ok(Operator::Stop));
    }
    for host in ["evil.example", "trainer.example.evil.example", "10.0.0.1", "[::1]", "0.0.0.0", "localhost@evil"] {
        let answer = under(host);
        assert_eq!(answer.status, 421, "{host}");
        let sentence = format!("This is not `{host}`: ask for `localhost`, `127.0.0.1`, `trainer.example`.");
        assert_eq!(answer.body.trim_end(), sentence);
    }
    assert_eq!(send(&address, b"POST /stop HTTP/1.1\r\n\r\n").status, 400);
    assert_eq!(send(&address, b"POST /stop HTTP/1.1\r\nHost: localhost\r\nHost: evil\r\n\r\n").status, 400);
    assert_eq!(send(&address, b"POST http://evil/stop HTTP/1.1\r\nHost: localhost\r\n\r\n").status, 421);
    assert!(shown.orders.is_empty());
}

#[test]
fn a_page_of_another_site_gives_no_orders() {
    let shown = Shown::start(TrackerOptions::default());
    let from = |origin: &str| ask(shown.address(), "POST", "/stop", &[&format!("Origin: {origin}")]).status;
    assert_eq!(from("http://evil.example"), 403);
    assert_eq!(from("null"), 403);
    assert!(shown.orders.is_empty());
    assert_eq!(from(&format!("http://{}", shown.address())), 202);
}

#[test]
fn what_is_no_address_is_named() {
    let error = |listen: &str, advertise: Option<&str>| {
        let options = TrackerOptions {
            listen: listen.to_owned(),
            advertise: advertise.map(str::to_owned),
            ..TrackerOptions::default()
        };
        let (commands, _orders) = bounded(1);
        Tracker::start(options, Board::default(), commands).err().expect("it is refused").to_string()
    };
    for listen in ["", "127.0.0.1", "here:x", ":80", "127.0.0.1:70000"] {
        assert_eq!(error(listen, None), format!("`{listen}` is no address to show the state at, expected `HOST:PORT`"));
    }
    let advertise = "`a:b:c` is no address to advertise, expected `HOST` or `HOST:PORT`";
    assert_eq!(error("127.0.0.1:0", Some("a:b:c")), advertise);
    let shown = Shown::start(TrackerOptions::default());
    let taken = error(shown.address(), None);
    assert!(taken.starts_with(&format!("cannot show the state at `{}`: ", shown.address())), "{taken}");
}
