//! The certificates of a run: whom they name, and for how long.

use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, KeyUsagePurpose,
};
use time::OffsetDateTime;
use tokio_rustls::rustls::pki_types::CertificateDer;

use super::{Fingerprint, TrustError};

/// What the certificate of a peer says of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Proof {
    /// Nothing: it has shown none, or the link has no TLS.
    #[default]
    None,
    /// It holds the key of the run's authority.
    Master,
    /// It was issued its certificate by the master.
    Member {
        /// For this incarnation.
        incarnation: u64,
    },
}

const MASTER: &str = "master.paceline";

impl Proof {
    /// The name in the certificate.
    fn name(self) -> String {
        match self {
            Self::None => String::new(),
            Self::Master => MASTER.to_owned(),
            Self::Member { incarnation } => format!("member-{incarnation}.paceline"),
        }
    }

    fn from_name(name: &str) -> Option<Self> {
        if name == MASTER {
            return Some(Self::Master);
        }
        let incarnation = name.strip_prefix("member-")?.strip_suffix(".paceline")?.parse().ok()?;
        Some(Self::Member { incarnation })
    }
}

/// Machines' clocks differ: a certificate is good from this long before it was made.
const CLOCKS_DIFFER_BY: Duration = Duration::from_secs(300);

/// What a certificate for `whom` says.
pub(super) fn leaf(whom: Proof, from: SystemTime, lifetime: Duration) -> Result<CertificateParams, TrustError> {
    let mut params = CertificateParams::new([whom.name()]).map_err(not_made)?;
    params.not_before = from.checked_sub(CLOCKS_DIFFER_BY).and_then(date).ok_or(TrustError::BadDates)?;
    params.not_after = from.checked_add(lifetime).and_then(date).ok_or(TrustError::BadDates)?;
    params.distinguished_name = name(&whom.name());
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    params.use_authority_key_identifier_extension = true;
    Ok(params)
}

fn date(at: SystemTime) -> Option<OffsetDateTime> {
    let since = at.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    OffsetDateTime::UNIX_EPOCH.checked_add(since.try_into().ok()?)
}

/// What the certificate of an authority says: the same for every run, as only its key counts.
pub(super) fn authority() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = name("paceline run");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    params
}

fn name(common: &str) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common);
    name
}

pub(super) fn not_made(error: rcgen::Error) -> TrustError {
    TrustError::NotMade { reason: error.to_string() }
}

/// Whom a certificate was issued to.
pub(super) fn proof(leaf: &CertificateDer<'_>) -> Result<Proof, TrustError> {
    let leaf = webpki::EndEntityCert::try_from(leaf).map_err(|_| TrustError::Unnamed)?;
    let mut names = leaf.valid_dns_names();
    names.find_map(Proof::from_name).ok_or(TrustError::Unnamed)
}

/// Whom the certificates, which were verified, say the peer to be.
pub(crate) fn proof_of(chain: Option<&[CertificateDer<'_>]>) -> Proof {
    chain.and_then(<[_]>::first).and_then(|leaf| proof(leaf).ok()).unwrap_or_default()
}

/// The fingerprint of the key of a certificate.
pub(super) fn fingerprint(certificate: &CertificateDer<'_>) -> Result<Fingerprint, webpki::Error> {
    let certificate = webpki::EndEntityCert::try_from(certificate)?;
    Ok(Fingerprint::of(&certificate.subject_public_key_info()))
}
