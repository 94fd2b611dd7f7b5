use subtle::ConstantTimeEq;
use tokio_rustls::rustls::crypto::ring;

use super::{TrustError, hex};

/// What a worker must know to join: at least 128 random bits.
#[derive(Clone)]
pub struct Token(Vec<u8>);

impl Token {
    /// Bytes of a token that this program makes.
    const BYTES: usize = 16;

    /// A new token, which nobody can guess.
    ///
    /// # Errors
    ///
    /// If the system gives no randomness.
    pub fn random() -> Result<Self, TrustError> {
        let mut bytes = vec![0; Self::BYTES];
        let filled = ring::default_provider().secure_random.fill(&mut bytes);
        filled.map_err(|_| TrustError::NoRandomness)?;
        Ok(Self(bytes))
    }

    /// The token that [`reveal`](Self::reveal) wrote, or that somebody keeps in a file: 32 to 128 hexadecimal digits.
    ///
    /// # Errors
    ///
    /// If the text is too short, too long or not hexadecimal. The error does not hold it.
    pub fn parse(text: &str) -> Result<Self, TrustError> {
        let (found, what) = (text.chars().count(), "token");
        if !(2 * Self::BYTES..=8 * Self::BYTES).contains(&found) {
            return Err(TrustError::BadLength { what, expected: "32 to 128 hexadecimal digits", found });
        }
        Ok(Self(hex::decode(text, what)?))
    }

    /// The token as text, to be told only to those who may join.
    pub fn reveal(&self) -> String {
        hex::encode(&self.0)
    }

    /// The token as bytes.
    pub fn reveal_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Whether these are the token's bytes. Takes the same time wherever they differ, so that nobody can find the token
    /// byte by byte with a clock; only its length shows, which is no secret.
    pub fn matches(&self, bytes: &[u8]) -> bool {
        self.0.ct_eq(bytes).into()
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Token(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::Token;

    #[test]
    fn is_read_as_it_was_written_and_matches_only_itself() {
        let token = Token::random().expect("randomness");
        let text = token.reveal();
        assert_eq!(text.len(), 32);
        let same = Token::parse(&text).expect("a token");
        assert!(token.matches(same.reveal_bytes()));
        assert!(!token.matches(Token::random().expect("randomness").reveal_bytes()));
        assert!(!token.matches(&same.reveal_bytes()[..15]));
        assert!(!token.matches(&[]));
        for bit in 0..128 {
            let mut other = same.reveal_bytes().to_vec();
            other[bit / 8] ^= 1 << (bit % 8);
            assert!(!token.matches(&other));
        }
    }

    #[test]
    fn what_is_wrong_is_said_without_the_secret() {
        let error = |text: &str| Token::parse(text).expect_err("a bad token").to_string();
        assert_eq!(error("abcdef"), "the token has 6 characters, expected 32 to 128 hexadecimal digits");
        assert_eq!(error(&"ab".repeat(65)), "the token has 130 characters, expected 32 to 128 hexadecimal digits");
        assert_eq!(error(&"a".repeat(33)), "the token has 33 characters, expected an even number");
        assert_eq!(error(&format!("{}g", "a".repeat(39))), "character 40 of the token is no hexadecimal digit");
        assert_eq!(format!("{:?}", Token::random()), "Ok(Token(…))");
    }
}
