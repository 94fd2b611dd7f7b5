//! Who may join a run and speak in it.
//!
//! Every run has an authority of its own: a key that only its master has. A worker is given a [`JoinString`]: the
//! master's address, a token, and the fingerprint of that key, as `kubeadm join` has it. It connects, and before it says
//! anything it checks that the certificate it is shown was signed by that key. The token itself is shown to nobody: both
//! sides prove that they know it, on this link only ([`Talk`]). Whoever does gets a short-lived certificate for its incarnation ([`MasterIdentity::issue`]), with which
//! members prove themselves to each other and to the master.
//!
//! Every certificate names whom it was issued to, and a link tells it as its [`Proof`]. A joining worker must see
//! [`Proof::Master`] before it speaks of the token: members, too, have certificates of the authority.
//!
//! Secrets (tokens, keys) are in no `Debug` output and in no error.
//!
//! # Layout
//!
//! - [`JoinString`], [`Token`], [`Fingerprint`]: what a worker is told.
//! - [`MasterIdentity`], [`MemberIdentity`]: keys and certificates. [`RunIdentity`]: what outlives a master.
//! - [`Trust`]: what a transport shows and whom it believes; [`Proof`]: what it has found out.

mod certificate;
mod error;
mod explain;
mod fingerprint;
mod hex;
mod join_string;
mod knowledge;
mod master;
mod member;
mod run_identity;
mod tls;
mod token;
mod verifier;

pub use certificate::Proof;
pub use error::TrustError;
pub use fingerprint::Fingerprint;
pub use join_string::JoinString;
pub use knowledge::{Role, TOKENS, Talk};
pub use master::MasterIdentity;
pub use member::MemberIdentity;
pub use run_identity::RunIdentity;
pub use tls::{TlsTrust, Trust};
pub use token::Token;

pub(crate) use certificate::proof_of;
pub(crate) use explain::explain;
