use std::sync::Arc;

use tokio_rustls::rustls::client::Resumption;
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::server::NoServerSessionStorage;
use tokio_rustls::rustls::version::TLS13;
use tokio_rustls::rustls::{self, ClientConfig, ServerConfig};

use super::verifier::Verifier;
use super::{Fingerprint, MasterIdentity, MemberIdentity, TrustError};

/// What a transport shows to its peers, and whom it believes.
#[derive(Clone, Debug)]
pub enum Trust {
    /// Bytes travel as they are, and anybody may be anybody: for processes of one machine.
    Plain,
    /// TLS 1.3 with certificates of one run.
    Tls(TlsTrust),
}

/// TLS as one party of a run speaks it.
#[derive(Clone)]
pub struct TlsTrust {
    fingerprint: Fingerprint,
    client: Arc<ClientConfig>,
    server: Option<Arc<ServerConfig>>,
}

impl Trust {
    /// The master's: it shows the run's own certificate and lets strangers connect, who then must know the token.
    ///
    /// # Errors
    ///
    /// If TLS does not take the identity.
    pub fn master(identity: &MasterIdentity) -> Result<Self, TrustError> {
        Self::identified(identity.own(), true)
    }

    /// That of a worker that is about to join: it believes only the run with this fingerprint and has nothing to show.
    /// Nobody can connect to it.
    ///
    /// # Errors
    ///
    /// If TLS cannot be set up.
    pub fn joining(fingerprint: Fingerprint) -> Result<Self, TrustError> {
        let (_, builder) = client_builder(fingerprint)?;
        Ok(Self::Tls(TlsTrust { fingerprint, client: client(builder.with_no_client_auth()), server: None }))
    }

    /// That of a worker that does not know its run yet: it speaks TLS, believes nobody, and nobody can connect to it.
    ///
    /// # Errors
    ///
    /// If TLS cannot be set up.
    pub fn nobody() -> Result<Self, TrustError> {
        Self::joining(Fingerprint::NOBODY)
    }

    /// A member's: it speaks with the master and with other members of its run, and with nobody else.
    ///
    /// # Errors
    ///
    /// If TLS does not take the identity: the key is not that of the certificate.
    pub fn member(identity: &MemberIdentity) -> Result<Self, TrustError> {
        Self::identified(identity, false)
    }

    fn identified(identity: &MemberIdentity, strangers_may_connect: bool) -> Result<Self, TrustError> {
        let fingerprint = identity.fingerprint();
        let (provider, builder) = client_builder(fingerprint)?;
        let client = client(builder.with_client_auth_cert(identity.chain(), identity.key()).map_err(not_taken)?);
        let verifier = Verifier::new(fingerprint, &provider, strangers_may_connect);
        let mut server = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])
            .map_err(not_taken)?
            .with_client_cert_verifier(verifier)
            .with_single_cert(identity.chain(), identity.key())
            .map_err(not_taken)?;
        // Every link proves itself anew: an old session would outlive its certificate.
        server.session_storage = Arc::new(NoServerSessionStorage {});
        server.send_tls13_tickets = 0;
        Ok(Self::Tls(TlsTrust { fingerprint, client, server: Some(Arc::new(server)) }))
    }
}

type ClientBuilder = rustls::ConfigBuilder<ClientConfig, rustls::client::WantsClientCert>;

fn client_builder(fingerprint: Fingerprint) -> Result<(Arc<CryptoProvider>, ClientBuilder), TrustError> {
    let provider = Arc::new(ring::default_provider());
    let verifier = Verifier::new(fingerprint, &provider, false);
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&TLS13])
        .map_err(not_taken)?
        .dangerous()
        .with_custom_certificate_verifier(verifier);
    Ok((provider, builder))
}

fn client(mut config: ClientConfig) -> Arc<ClientConfig> {
    config.resumption = Resumption::disabled();
    config.enable_sni = false;
    Arc::new(config)
}

fn not_taken(error: rustls::Error) -> TrustError {
    TrustError::BadIdentity { what: "identity that TLS takes", reason: error.to_string() }
}

impl TlsTrust {
    pub(crate) fn client(&self) -> &Arc<ClientConfig> {
        &self.client
    }

    /// Nothing before the party has joined.
    pub(crate) fn server(&self) -> Option<&Arc<ServerConfig>> {
        self.server.as_ref()
    }

    /// The fingerprint of the authority that is believed.
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }
}

impl std::fmt::Debug for TlsTrust {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "TlsTrust {{ fingerprint: {}, … }}", self.fingerprint)
    }
}
