use super::{Fingerprint, Token, TrustError};

/// All that a worker needs to join a run: `paceline://HOST:PORT?token=…&key=…`.
#[derive(Clone, Debug)]
pub struct JoinString {
    /// Where the master listens: `HOST:PORT`.
    pub address: String,
    /// What proves to the master that the worker may join.
    pub token: Token,
    /// What proves to the worker that it speaks with the master.
    pub key: Fingerprint,
}

impl JoinString {
    const SCHEME: &'static str = "paceline://";

    /// The join string that a master printed.
    ///
    /// # Errors
    ///
    /// If a part is missing or wrong. The error names the part, and never holds the token.
    pub fn parse(text: &str) -> Result<Self, TrustError> {
        let Some(rest) = text.trim().strip_prefix(Self::SCHEME) else {
            return Err(TrustError::NotAJoinString { found: "does not begin with `paceline://`" });
        };
        let Some((address, parts)) = rest.split_once('?') else {
            return Err(TrustError::NotAJoinString { found: "has nothing after its address" });
        };
        if !is_address(address) {
            return Err(TrustError::BadAddress { found: address.to_owned() });
        }
        let (mut token, mut key) = (None, None);
        for part in parts.split('&') {
            let place = match part.split_once('=') {
                Some(("token", value)) => token.replace(value),
                Some(("key", value)) => key.replace(value),
                _ => return Err(TrustError::UnexpectedPart),
            };
            if place.is_some() {
                return Err(TrustError::UnexpectedPart);
            }
        }
        Ok(Self {
            address: address.to_owned(),
            token: Token::parse(token.ok_or(TrustError::MissingPart { part: "token" })?)?,
            key: Fingerprint::parse(key.ok_or(TrustError::MissingPart { part: "key" })?)?,
        })
    }

    /// The join string as text, to be told only to those who may join.
    pub fn reveal(&self) -> String {
        format!("{}{}?token={}&key={}", Self::SCHEME, self.address, self.token.reveal(), self.key)
    }
}

/// Whether text is `HOST:PORT` with a port that can be connected to.
fn is_address(text: &str) -> bool {
    let Some((host, port)) = text.rsplit_once(':') else { return false };
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let good_host = match bare {
        Some(version_6) => version_6.parse::<std::net::Ipv6Addr>().is_ok(),
        None => !host.is_empty() && !host.contains(|c: char| matches!(c, ':' | '/' | '@') || c.is_whitespace()),
    };
    good_host && port.parse::<u16>().is_ok_and(|port| port > 0)
}

#[cfg(test)]
mod tests {
    use super::JoinString;

    const TOKEN: &str = "00112233445566778899aabbccddeeff";
    const KEY: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    #[test]
    fn is_read_as_it_was_written() {
        for address in ["10.0.0.1:7000", "trainer.example:1", "[::1]:65535"] {
            let text = format!("paceline://{address}?token={TOKEN}&key={KEY}");
            let join = JoinString::parse(&format!(" {text}\n")).expect("a join string");
            assert_eq!((join.address.as_str(), join.key.to_string().as_str()), (address, KEY));
            assert_eq!(join.reveal(), text);
            let other_order = format!("paceline://{address}?key={KEY}&token={TOKEN}");
            assert_eq!(JoinString::parse(&other_order).expect("a join string").reveal(), text);
            assert!(!format!("{join:?}").contains(&TOKEN[..8]), "{join:?}");
        }
    }

    #[test]
    fn each_bad_part_is_named_and_the_token_is_not_told() {
        for (text, expected) in [
            (
                format!("http://host:1?token={TOKEN}&key={KEY}"),
                "a join string is `paceline://HOST:PORT?token=…&key=…`, but this one does not begin with `paceline://`",
            ),
            (
                "paceline://host:1".to_owned(),
                "a join string is `paceline://HOST:PORT?token=…&key=…`, but this one has nothing after its address",
            ),
            (
                format!("paceline://host?token={TOKEN}&key={KEY}"),
                "the join string has address `host`, expected `HOST:PORT` with a port from 1 to 65535",
            ),
            (
                format!("paceline://host:0?token={TOKEN}&key={KEY}"),
                "the join string has address `host:0`, expected `HOST:PORT` with a port from 1 to 65535",
            ),
            (
                format!("paceline://::1:70?token={TOKEN}&key={KEY}"),
                "the join string has address `::1:70`, expected `HOST:PORT` with a port from 1 to 65535",
            ),
            (
                format!("paceline://host:1?token={TOKEN}"),
                "the join string has no `key=…`: copy all of what the master printed, in quotes if the shell needs them",
            ),
            (
                format!("paceline://host:1?key={KEY}"),
                "the join string has no `token=…`: copy all of what the master printed, in quotes if the shell needs them",
            ),
            (
                format!("paceline://host:1?token={TOKEN}&token={TOKEN}&key={KEY}"),
                "the join string has a part that is not expected: only `token=…` and `key=…`, each once",
            ),
            (
                format!("paceline://host:1?token={TOKEN}&key={KEY}&run=3"),
                "the join string has a part that is not expected: only `token=…` and `key=…`, each once",
            ),
            (
                format!("paceline://host:1?token={}&key={KEY}", &TOKEN[1..]),
                "the token has 31 characters, expected 32 to 128 hexadecimal digits",
            ),
            (
                format!("paceline://host:1?token={TOKEN}&key={}", &KEY[..60]),
                "the key fingerprint has 60 characters, expected 64 hexadecimal digits",
            ),
            (
                format!("paceline://host:1?token={TOKEN}&key=x{}", &KEY[1..]),
                "character 1 of the key fingerprint is no hexadecimal digit",
            ),
        ] {
            let error = JoinString::parse(&text).expect_err("a bad join string");
            assert_eq!(error.to_string(), expected);
            assert!(!format!("{error:?}").contains(&TOKEN[1..9]));
        }
    }
}
