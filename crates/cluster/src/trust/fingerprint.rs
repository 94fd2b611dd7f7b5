use sha2::{Digest, Sha256};

use super::{TrustError, hex};

/// SHA-256 of the public key of a run's authority (of its `SubjectPublicKeyInfo`, as `kubeadm` and browsers' pins do it).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// That of no key.
    pub(super) const NOBODY: Self = Self([0; 32]);

    /// The fingerprint of a public key.
    pub(super) fn of(public_key_info: &[u8]) -> Self {
        Self(Sha256::digest(public_key_info).into())
    }

    /// The fingerprint that was written as 64 hexadecimal digits.
    ///
    /// # Errors
    ///
    /// If the text is anything else.
    pub fn parse(text: &str) -> Result<Self, TrustError> {
        let (found, what) = (text.chars().count(), "key fingerprint");
        let wrong_length = TrustError::BadLength { what, expected: "64 hexadecimal digits", found };
        if found != 64 {
            return Err(wrong_length);
        }
        hex::decode(text, what)?.try_into().map(Self).map_err(|_| wrong_length)
    }
}

impl std::fmt::Display for Fingerprint {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&hex::encode(&self.0))
    }
}

impl std::fmt::Debug for Fingerprint {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Fingerprint({self})")
    }
}
