use std::io;

/// Why a tracker does not listen.
#[derive(Debug, thiserror::Error)]
pub enum TrackerError {
    /// Text that is no address.
    #[error("`{found}` is no address to show the state at, expected `HOST:PORT`")]
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
    /// The port is taken, or the address is not of this machine.
    #[error("cannot show the state at `{listen}`: {source}")]
    NoPort {
        /// Where.
        listen: String,
        /// What the system says.
        source: io::Error,
    },
    /// Strangers could read the state.
    #[error(
        "showing the state at `{found}` needs a token, because others can reach it: give one, or a loopback address"
    )]
    NoToken {
        /// Where.
        found: String,
    },
    /// The system gives no thread or no events.
    #[error("cannot start the thread that shows the state: {source}")]
    NoThread {
        /// What the system says.
        source: io::Error,
    },
}
