use super::Fingerprint;

/// Why a join string, a token, a key or a certificate is of no use. Never holds a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TrustError {
    /// Text that is no join string at all.
    #[error("a join string is `paceline://HOST:PORT?token=…&key=…`, but this one {found}")]
    NotAJoinString {
        /// What is wrong with it.
        found: &'static str,
    },
    /// An address that nothing can be connected to.
    #[error("the join string has address `{found}`, expected `HOST:PORT` with a port from 1 to 65535")]
    BadAddress {
        /// The address.
        found: String,
    },
    /// A part that the join string needs and has not.
    #[error(
        "the join string has no `{part}=…`: copy all of what the master printed, in quotes if the shell needs them"
    )]
    MissingPart {
        /// The part.
        part: &'static str,
    },
    /// A part that join strings do not have, or have once.
    #[error("the join string has a part that is not expected: only `token=…` and `key=…`, each once")]
    UnexpectedPart,
    /// A number of bytes written in hexadecimal that is too short or too long.
    #[error("the {what} has {found} characters, expected {expected}")]
    BadLength {
        /// What it is.
        what: &'static str,
        /// How long it may be.
        expected: &'static str,
        /// How long it is.
        found: usize,
    },
    /// A character that is no hexadecimal digit.
    #[error("character {position} of the {what} is no hexadecimal digit")]
    NotHexadecimal {
        /// What it is in.
        what: &'static str,
        /// Which character, from 1 on.
        position: usize,
    },
    /// The machine gives no randomness.
    #[error("the system gave no randomness")]
    NoRandomness,
    /// A certificate for times that nobody can write down.
    #[error("a certificate cannot hold these dates, expected some between 1970 and 9999")]
    BadDates,
    /// A certificate could not be made.
    #[error("the certificate could not be made: {reason}")]
    NotMade {
        /// What the library says.
        reason: String,
    },
    /// A file for the identity of a run that cannot be used.
    #[error("the identity of the run in `{path}`: expected {expected}, found {found}")]
    BadIdentityFile {
        /// The file.
        path: String,
        /// What it should be.
        expected: String,
        /// What it is.
        found: String,
    },
    /// Bytes that hold no identity.
    #[error("these bytes are no {what}: {reason}")]
    BadIdentity {
        /// What was expected.
        what: &'static str,
        /// What is wrong.
        reason: String,
    },
    /// A certificate of another run, or of nobody.
    #[error(
        "its certificate is of an authority with key {found}, but that of this run has {expected}: it belongs to another run, or the join string does"
    )]
    OtherAuthority {
        /// The fingerprint of the authority that is trusted.
        expected: Fingerprint,
        /// The fingerprint of the authority that was shown.
        found: Fingerprint,
    },
    /// A certificate without the one of its authority.
    #[error("expected two certificates, its own and that of its authority, found {found}")]
    ShortChain {
        /// How many there are.
        found: usize,
    },
    /// A certificate that names neither a master nor a member.
    #[error("its certificate names neither a master nor a member")]
    Unnamed,
}
