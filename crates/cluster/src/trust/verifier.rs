//! Whom we believe: whoever shows a certificate that the run's authority has signed, by the fingerprint of its key.

use std::sync::Arc;

use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, verify_tls13_signature};
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use tokio_rustls::rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, OtherError, PeerIncompatible, SignatureScheme,
};
use webpki::KeyUsage;

use super::certificate::{fingerprint, proof};
use super::{Fingerprint, TrustError};

#[derive(Debug)]
pub(super) struct Verifier {
    authority: Fingerprint,
    algorithms: WebPkiSupportedAlgorithms,
    /// Whether a client may come without a certificate: to the master, as it has none yet; to nobody else.
    strangers_may_connect: bool,
}

impl Verifier {
    pub(super) fn new(authority: Fingerprint, provider: &CryptoProvider, strangers_may_connect: bool) -> Arc<Self> {
        let algorithms = provider.signature_verification_algorithms;
        Arc::new(Self { authority, algorithms, strangers_may_connect })
    }

    /// Checks that the peer's certificate names somebody, is in time, and is signed by the pinned key.
    fn verify(
        &self,
        leaf: &CertificateDer<'_>,
        above: &[CertificateDer<'_>],
        now: UnixTime,
        usage: KeyUsage,
    ) -> Result<(), Error> {
        let [authority] = above else {
            return Err(refused(TrustError::ShortChain { found: 1 + above.len() }));
        };
        let found = fingerprint(authority).map_err(|_| CertificateError::BadEncoding)?;
        if found != self.authority {
            return Err(refused(TrustError::OtherAuthority { expected: self.authority, found }));
        }
        let anchor = webpki::anchor_from_trusted_cert(authority).map_err(|_| CertificateError::BadEncoding)?;
        let certificate = webpki::EndEntityCert::try_from(leaf).map_err(|_| CertificateError::BadEncoding)?;
        certificate.verify_for_usage(self.algorithms.all, &[anchor], &[], now, usage, None, None).map_err(|error| {
            match error {
                webpki::Error::CertExpired { time, not_after } => CertificateError::ExpiredContext { time, not_after },
                webpki::Error::CertNotValidYet { time, not_before } => {
                    CertificateError::NotValidYetContext { time, not_before }
                }
                webpki::Error::InvalidSignatureForPublicKey => CertificateError::BadSignature,
                webpki::Error::UnknownIssuer => CertificateError::UnknownIssuer,
                other => CertificateError::Other(OtherError(Arc::new(other))),
            }
        })?;
        proof(leaf).map_err(refused)?;
        Ok(())
    }
}

fn refused(error: TrustError) -> Error {
    CertificateError::Other(OtherError(Arc::new(error))).into()
}

fn no_tls_1_2<T>() -> Result<T, Error> {
    Err(PeerIncompatible::Tls12NotOffered.into())
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        above: &[CertificateDer<'_>],
        // Members move between addresses: whom a certificate names is checked by those who need one of them.
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.verify(leaf, above, now, KeyUsage::server_auth())?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        no_tls_1_2()
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

impl ClientCertVerifier for Verifier {
    fn client_auth_mandatory(&self) -> bool {
        !self.strangers_may_connect
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        leaf: &CertificateDer<'_>,
        above: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.verify(leaf, above, now, KeyUsage::client_auth())?;
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        no_tls_1_2()
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio_rustls::rustls::crypto::ring;
    use tokio_rustls::rustls::pki_types::UnixTime;
    use webpki::KeyUsage;

    use super::Verifier;
    use crate::trust::MasterIdentity;

    #[test]
    fn only_certificates_of_the_pinned_authority_are_believed() {
        let [ours, theirs] = [(); 2].map(|()| MasterIdentity::new().expect("a key"));
        let verifier = Verifier::new(ours.fingerprint(), &ring::default_provider(), false);
        let verify = |authority: &MasterIdentity, shown: usize| {
            let chain = authority.issue(1, Duration::from_secs(60)).expect("a certificate").chain();
            let verified = verifier.verify(&chain[0], &chain[1..shown], UnixTime::now(), KeyUsage::client_auth());
            verified.map_err(|error| error.to_string())
        };
        assert_eq!(verify(&ours, 2), Ok(()));
        let error = verify(&theirs, 2).expect_err("another authority");
        assert!(error.contains(&ours.fingerprint().to_string()), "{error}");
        assert!(error.contains(&theirs.fingerprint().to_string()), "{error}");
        let error = verify(&ours, 1).expect_err("no authority");
        assert!(error.contains("ShortChain { found: 1 }"), "{error}");
    }

    #[test]
    fn the_authority_itself_is_nobody() {
        let authority = MasterIdentity::new().expect("a key");
        let verifier = Verifier::new(authority.fingerprint(), &ring::default_provider(), false);
        let chain = authority.own().chain();
        assert!(verifier.verify(&chain[1], &chain[1..], UnixTime::now(), KeyUsage::server_auth()).is_err());
    }
}
