//! Bytes to and from a peer, plain or through TLS.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::{TlsAcceptor, TlsConnector, TlsStream};

use crate::trust::{Proof, TlsTrust, explain, proof_of};

pub(super) enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

pub(super) type Input = Box<dyn AsyncRead + Send + Unpin>;
pub(super) type Output = Box<dyn AsyncWrite + Send + Unpin>;

impl Stream {
    /// Lets whoever has connected prove itself, if it can.
    pub(super) async fn accept(stream: TcpStream, trust: &TlsTrust, linger: Duration) -> Result<Self, String> {
        let Some(config) = trust.server() else {
            return Err("this worker has not joined its run yet, so nobody can connect to it".to_owned());
        };
        match TlsAcceptor::from(config.clone()).accept(stream).into_fallible().await {
            Ok(stream) => Ok(Self::Tls(Box::new(stream.into()))),
            Err((error, stream)) => Err(failed(&error, stream, linger).await),
        }
    }

    /// Lets the peer prove that it belongs to the run.
    pub(super) async fn connect(stream: TcpStream, trust: &TlsTrust, linger: Duration) -> Result<Self, String> {
        // The name is sent to nobody and compared with nothing: the certificate says who the peer is.
        let name = ServerName::try_from("paceline").expect("a good name");
        match TlsConnector::from(trust.client().clone()).connect(name, stream).into_fallible().await {
            Ok(stream) => Ok(Self::Tls(Box::new(stream.into()))),
            Err((error, stream)) => Err(failed(&error, stream, linger).await),
        }
    }

    /// What the peer has proved.
    pub(super) fn proof(&self) -> Proof {
        match self {
            Self::Plain(_) => Proof::None,
            Self::Tls(stream) => proof_of(stream.get_ref().1.peer_certificates()),
        }
    }

    /// What only the two ends know.
    pub(super) fn binding(&self) -> Vec<u8> {
        let (output, label) = ([0; 32], b"EXPORTER-paceline-token");
        let exported = match self {
            Self::Plain(_) => return Vec::new(),
            Self::Tls(stream) => match &**stream {
                TlsStream::Client(stream) => stream.get_ref().1.export_keying_material(output, label, None),
                TlsStream::Server(stream) => stream.get_ref().1.export_keying_material(output, label, None),
            },
        };
        // It is there as soon as the handshake is over, as it is here.
        exported.map_or_else(|_| Vec::new(), Vec::from)
    }

    pub(super) fn split(self) -> (Input, Output) {
        match self {
            Self::Plain(stream) => {
                let (input, output) = stream.into_split();
                (Box::new(input), Box::new(output))
            }
            Self::Tls(stream) => {
                let (input, output) = tokio::io::split(*stream);
                (Box::new(input), Box::new(output))
            }
        }
    }
}

/// Gives the peer time to hear why TLS failed: to close while it is still sending would reset the connection, and with it
/// the alert that is on its way.
async fn failed(error: &io::Error, mut stream: TcpStream, linger: Duration) -> String {
    let heard = async {
        if stream.shutdown().await.is_ok() {
            let _ = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
        }
    };
    let _ = timeout(linger, heard).await;
    explain(error)
}
