use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

use super::certificate::{fingerprint, proof};
use super::{Fingerprint, Proof, TrustError};

/// A certificate of the run and its key: what a member shows to others.
pub struct MemberIdentity {
    certificate: CertificateDer<'static>,
    authority: CertificateDer<'static>,
    key: Vec<u8>,
    whom: Proof,
    fingerprint: Fingerprint,
}

const WHAT: &str = "member's identity";

impl MemberIdentity {
    pub(super) fn new(
        certificate: CertificateDer<'static>,
        authority: CertificateDer<'static>,
        key: Vec<u8>,
    ) -> Result<Self, TrustError> {
        let whom = proof(&certificate)?;
        let fingerprint = fingerprint(&authority)
            .map_err(|error| TrustError::BadIdentity { what: WHAT, reason: error.to_string() })?;
        Ok(Self { certificate, authority, key, whom, fingerprint })
    }

    /// Whom it was issued to.
    pub fn proof(&self) -> Proof {
        self.whom
    }

    /// The fingerprint of the authority that issued it, and whose other members it trusts.
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// The bytes that travel to the member, and only over a link with TLS: the key is among them.
    ///
    /// ```text
    ///  ┌────────┬─────────────┬────────┬───────────┬────────┬───────────────┐
    ///  │ length │ certificate │ length │ authority │ length │ key (PKCS #8) │
    ///  └────────┴─────────────┴────────┴───────────┴────────┴───────────────┘
    ///    u32 LE                 u32 LE               u32 LE
    /// ```
    pub fn reveal_bytes(&self) -> Vec<u8> {
        let parts = [self.certificate.as_ref(), self.authority.as_ref(), &self.key];
        let mut bytes = Vec::with_capacity(parts.iter().map(|part| 4 + part.len()).sum());
        for part in parts {
            let length = u32::try_from(part.len()).expect("certificates and keys have some hundred bytes");
            bytes.extend(length.to_le_bytes());
            bytes.extend(part);
        }
        bytes
    }

    /// The identity that [`reveal_bytes`](Self::reveal_bytes) wrote.
    ///
    /// # Errors
    ///
    /// If the bytes are anything else. Whether key and certificates fit each other shows when they are used.
    pub fn from_bytes(mut bytes: &[u8]) -> Result<Self, TrustError> {
        let mut part = || {
            let (length, rest) = bytes.split_first_chunk::<4>()?;
            let (part, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
            bytes = rest;
            Some(part.to_vec())
        };
        let (Some(certificate), Some(authority), Some(key)) = (part(), part(), part()) else {
            return Err(TrustError::BadIdentity { what: WHAT, reason: "they end too early".to_owned() });
        };
        if !bytes.is_empty() {
            return Err(TrustError::BadIdentity { what: WHAT, reason: format!("{} are left over", bytes.len()) });
        }
        Self::new(certificate.into(), authority.into(), key)
    }

    pub(super) fn chain(&self) -> Vec<CertificateDer<'static>> {
        vec![self.certificate.clone(), self.authority.clone()]
    }

    pub(super) fn key(&self) -> PrivateKeyDer<'static> {
        PrivatePkcs8KeyDer::from(self.key.clone()).into()
    }
}

impl std::fmt::Debug for MemberIdentity {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "MemberIdentity {{ whom: {:?}, fingerprint: {}, … }}", self.whom, self.fingerprint)
    }
}
