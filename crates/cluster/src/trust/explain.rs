//! Errors of TLS as sentences about the peer.

use std::io;
use std::time::Duration;

use tokio_rustls::rustls::pki_types::UnixTime;
use tokio_rustls::rustls::{AlertDescription, CertificateError, Error, InvalidMessage};

/// What went wrong on a link, said of the peer: `it …`.
pub(crate) fn explain(error: &io::Error) -> String {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
    match inner {
        Some(Error::InvalidCertificate(problem)) => certificate(problem),
        Some(Error::AlertReceived(alert)) => refused_by_peer(*alert),
        Some(Error::InvalidMessage(InvalidMessage::InvalidContentType)) => {
            "it does not speak TLS, which is needed here: workers connect with the join string that the master printed"
                .to_owned()
        }
        Some(Error::NoCertificatesPresented) => {
            "it showed no certificate, which members must have: it has not joined the run".to_owned()
        }
        Some(other) => format!("TLS failed: {other}"),
        None if error.kind() == io::ErrorKind::UnexpectedEof => "it ended the connection without a reason".to_owned(),
        None => error.to_string(),
    }
}

fn certificate(problem: &CertificateError) -> String {
    match problem {
        CertificateError::ExpiredContext { time, not_after } => {
            format!("its certificate has expired {} ago", span(*not_after, *time))
        }
        CertificateError::NotValidYetContext { time, not_before } => {
            let ahead = span(*time, *not_before);
            format!("its certificate is good only in {ahead}: the clocks of the machines differ too much")
        }
        CertificateError::BadSignature | CertificateError::UnknownIssuer => {
            "its certificate was not signed by the authority of this run".to_owned()
        }
        CertificateError::Other(other) => other.to_string(),
        other => format!("its certificate is no good: {other}"),
    }
}

fn refused_by_peer(alert: AlertDescription) -> String {
    match alert {
        AlertDescription::CertificateUnknown | AlertDescription::UnknownCA | AlertDescription::DecryptError => {
            "it does not believe our certificate: one of us belongs to another run".to_owned()
        }
        AlertDescription::CertificateExpired => {
            "it says that our certificate is out of its time: it has expired, or the clocks of the machines differ"
                .to_owned()
        }
        AlertDescription::CertificateRequired => "it expects a certificate, and we have none: join first".to_owned(),
        other => format!("it refused to speak TLS with us ({other:?})"),
    }
}

fn span(from: UnixTime, to: UnixTime) -> String {
    format!("{:?}", Duration::from_secs(to.as_secs().saturating_sub(from.as_secs())))
}
