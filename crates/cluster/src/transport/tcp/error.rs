use std::io;

/// Why a transport does not listen.
#[derive(Debug, thiserror::Error)]
pub enum TransportError {
    /// Text that is no address.
    #[error("`{found}` is no address to listen at, expected `HOST:PORT` or `HOST:FROM-TO`")]
    BadListenAddress {
        /// The text.
        found: String,
    },
    /// Text that is no address.
    #[error("`{found}` is no address to advertise, expected `HOST` or `HOST:PORT`")]
    BadAdvertisedAddress {
        /// The text.
        found: String,
    },
    /// Every port is taken, or the address is not of this machine.
    #[error("cannot listen at `{listen}`: {source}")]
    NoPort {
        /// Where.
        listen: String,
        /// What the system says of the last port tried.
        source: io::Error,
    },
    /// Bytes would leave the machine as they are.
    #[error(
        "listening at `{found}` without TLS would show the run to the whole network: use TLS, or a loopback address"
    )]
    PlainOffLoopback {
        /// Where.
        found: String,
    },
    /// An address that nobody can connect to.
    #[error("`{found}` means every address of this machine: say which one others connect to (`--advertise`)")]
    NothingToAdvertise {
        /// Where it listens.
        found: String,
    },
    /// The system gives no threads or no events.
    #[error("cannot start the threads that carry links: {source}")]
    NoRuntime {
        /// What the system says.
        source: io::Error,
    },
}
