use std::time::{Duration, SystemTime};

use rcgen::{Issuer, KeyPair, PublicKeyData};
use tokio_rustls::rustls::pki_types::CertificateDer;

use super::certificate::{self, not_made};
use super::{Fingerprint, MemberIdentity, Proof, TrustError};

/// The authority of a run: who holds it decides who is a member.
pub struct MasterIdentity {
    issuer: Issuer<'static, KeyPair>,
    /// The certificate of the authority, which everybody shows beside their own.
    authority: CertificateDer<'static>,
    fingerprint: Fingerprint,
    /// What the master itself shows.
    own: MemberIdentity,
}

/// The master's own certificate outlasts every run; it is made anew whenever a master starts.
const OWN_LIFETIME: Duration = Duration::from_secs(10 * 365 * 86_400);

impl MasterIdentity {
    /// A new authority, for a new run.
    ///
    /// # Errors
    ///
    /// If the system gives no randomness.
    pub fn new() -> Result<Self, TrustError> {
        Self::with_key(KeyPair::generate().map_err(not_made)?)
    }

    /// The authority of a run that goes on: what [`reveal_bytes`](Self::reveal_bytes) gave.
    ///
    /// # Errors
    ///
    /// If the bytes are no key.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, TrustError> {
        let key = KeyPair::try_from(bytes)
            .map_err(|error| TrustError::BadIdentity { what: "key of a master", reason: error.to_string() })?;
        Self::with_key(key)
    }

    fn with_key(key: KeyPair) -> Result<Self, TrustError> {
        let params = certificate::authority();
        let authority = params.self_signed(&key).map_err(not_made)?.der().clone();
        let fingerprint = Fingerprint::of(&key.subject_public_key_info());
        let issuer = Issuer::new(params, key);
        let own = sign(&issuer, &authority, Proof::Master, SystemTime::now(), OWN_LIFETIME)?;
        Ok(Self { issuer, authority, fingerprint, own })
    }

    /// The key of the authority, with which a restarted or standby master goes on. Whoever reads it is the master: keep
    /// it in a file that only its user can read.
    pub fn reveal_bytes(&self) -> Vec<u8> {
        self.issuer.key().serialize_der()
    }

    /// What the join string pins.
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// A certificate and its key for one incarnation, good from now on for `lifetime`.
    ///
    /// # Errors
    ///
    /// If the system gives no randomness, or the end is beyond the year 9999.
    pub fn issue(&self, incarnation: u64, lifetime: Duration) -> Result<MemberIdentity, TrustError> {
        self.issue_from(incarnation, SystemTime::now(), lifetime)
    }

    /// As [`issue`](Self::issue), good from another time on.
    ///
    /// # Errors
    ///
    /// As [`issue`](Self::issue).
    pub fn issue_from(
        &self,
        incarnation: u64,
        from: SystemTime,
        lifetime: Duration,
    ) -> Result<MemberIdentity, TrustError> {
        sign(&self.issuer, &self.authority, Proof::Member { incarnation }, from, lifetime)
    }

    pub(super) fn own(&self) -> &MemberIdentity {
        &self.own
    }
}

fn sign(
    issuer: &Issuer<'_, KeyPair>,
    authority: &CertificateDer<'static>,
    whom: Proof,
    from: SystemTime,
    lifetime: Duration,
) -> Result<MemberIdentity, TrustError> {
    let key = KeyPair::generate().map_err(not_made)?;
    let certificate = certificate::leaf(whom, from, lifetime)?.signed_by(&key, issuer).map_err(not_made)?;
    MemberIdentity::new(certificate.der().clone(), authority.clone(), key.serialize_der())
}

impl std::fmt::Debug for MasterIdentity {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "MasterIdentity {{ fingerprint: {}, … }}", self.fingerprint)
    }
}
