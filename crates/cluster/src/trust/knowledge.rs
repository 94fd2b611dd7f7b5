//! Both sides of a link prove that they know the token, and neither shows it.

use ring::hmac;

use super::{Token, hex};

/// What to do when one side does not know the token.
pub const TOKENS: &str = "the token is wrong or missing: give the one that the master was started with (`--token-file`), or the join \
                          string that it printed";

/// Who proves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The master.
    Master,
    /// A worker that wants to join.
    Worker,
}

/// What a proof holds for: this link, and these two.
#[derive(Clone, Copy, Debug)]
pub struct Talk<'a> {
    /// What the worker has made up.
    pub of_worker: &'a str,
    /// What the master has made up.
    pub of_master: &'a str,
    /// What only the two ends of a link with TLS know; empty without.
    pub binding: &'a [u8],
}

impl Token {
    /// The proof that one of them knows the token, as hexadecimal digits: of no use on any other link.
    pub fn prove(&self, role: Role, talk: &Talk<'_>) -> String {
        hex::encode(hmac::sign(&self.key(), &message(role, talk)).as_ref())
    }

    /// Whether this is such a proof. Takes the same time wherever it differs.
    pub fn is_proved(&self, role: Role, talk: &Talk<'_>, proof: &str) -> bool {
        let Ok(proof) = hex::decode(proof, "proof") else { return false };
        hmac::verify(&self.key(), &message(role, talk), &proof).is_ok()
    }

    fn key(&self) -> hmac::Key {
        hmac::Key::new(hmac::HMAC_SHA256, self.reveal_bytes())
    }
}

fn message(role: Role, talk: &Talk<'_>) -> Vec<u8> {
    let role: &[u8] = match role {
        Role::Master => b"paceline master",
        Role::Worker => b"paceline worker",
    };
    let mut message = Vec::new();
    for part in [role, talk.of_worker.as_bytes(), talk.of_master.as_bytes(), talk.binding] {
        message.extend((part.len() as u64).to_le_bytes());
        message.extend(part);
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_holds_for_one_role_one_link_and_one_talk() {
        let token = Token::random().expect("randomness");
        let talk = Talk { of_worker: "ab", of_master: "c", binding: b"link" };
        let proof = token.prove(Role::Worker, &talk);
        assert!(token.is_proved(Role::Worker, &talk, &proof));
        assert!(!proof.contains(&token.reveal()));
        assert!(!token.is_proved(Role::Master, &talk, &proof), "it is not sent back as the other's");
        for other in [
            Talk { of_worker: "a", of_master: "bc", ..talk },
            Talk { binding: b"another link", ..talk },
            Talk { of_master: "d", ..talk },
        ] {
            assert!(!token.is_proved(Role::Worker, &other, &proof), "{other:?}");
        }
        assert!(!Token::random().expect("randomness").is_proved(Role::Worker, &talk, &proof));
        for nonsense in ["", "zz", &proof[2..]] {
            assert!(!token.is_proved(Role::Worker, &talk, nonsense));
        }
    }
}
