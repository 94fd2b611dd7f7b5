//! The rules by which workers exchange updates, pure: no clock, no socket, no thread, no randomness, only slices.
//!
//! A worker adds each update to its residual and sends, of the elements whose residual has reached the threshold, the
//! sign and the place; what was not sent stays in the residual (Strom 2015, "Scalable distributed DNN training using
//! commodity GPU cloud computing"). Nothing is ever lost: what was put in is what was sent plus the residual.
//!
//! # Layout
//!
//! - [`Encoder`]: owns the residual; an update goes in, a message comes out. [`encode_plain`] says the same simply.
//! - [`Message`]: bytes that were checked; [`decode_into`] applies them to parameters, [`add_into`] sums them.
//! - [`Form`]: the three ways a message is written, and their bytes.
//! - [`ThresholdPolicy`] and [`Threshold`]: how large the threshold is, from the first step on.
//! - [`Clipping`], [`Clipped`] and [`Norms`]: what is done about a residual, and what is told of it.
//! - [`reduce`]: what gradients and states of several replicas come to.
//! - [`rounds`]: the rules of `sync` and `averaging` on many machines: terms, views, commits, checkpoints.
//! - [`sharing`]: those of `shared`: leases, messages, cuts, joining.
//! - [`MasterRules`], [`MemberRules`]: either of them, for those who carry them out.
//! - [`Planted`]: mistakes for the simulator to find.
//! - [`Frame`] and [`FrameReader`]: what every message between machines travels in; [`Pieces`] of it if it is long.
//! - [`Bulk`]: bytes that may be too many for memory, such as a state.
//! - [`Instructions`]: what the encoder is run with on this machine.
//!
//! # Example
//!
//! ```
//! use paceline_exchange::{Encoder, Threshold, ThresholdPolicy, decode_into};
//!
//! let update = [0.5, -0.25, 0.0, -1.0];
//! let mut parameters = [0.0; 4];
//! let mut encoder = Encoder::new(vec![0.0; 4])?;
//! let mut threshold = Threshold::new(ThresholdPolicy::default())?;
//! let mut message = Vec::new();
//!
//! let sent = encoder.encode(&update, threshold.for_update(&update), &mut message)?;
//! threshold.observe(&sent);
//! decode_into(&message, &mut parameters, 1.0)?;
//! assert_eq!(parameters, [0.0, 0.0, 0.0, 1.0]);
//! assert_eq!(encoder.residual(), [0.5, -0.25, 0.0, 0.0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod bits;
mod bulk;
mod decoder;
mod encoder;
mod error;
mod form;
mod frame;
mod header;
mod instructions;
mod kernel;
mod marks;
mod membership;
mod message;
mod pieces;
mod plain;
mod planted;
mod quantile;
pub mod reduce;
mod residual;
pub mod rounds;
mod rules;
pub mod sharing;
mod threshold;

pub use bulk::{Bulk, BulkReader, ReadAt, Spool};
pub use decoder::{Decoded, add_into, decode_into};
pub use encoder::{Encoder, Sent};
pub use error::{Error, MessageError};
pub use form::Form;
pub use frame::{Frame, FrameError, FrameReader};
pub use instructions::Instructions;
pub use membership::{Crew, MESH_LIMIT, Paths, THROUGH_THE_MASTER};
pub use message::Message;
pub use pieces::{OpenSpool, Pieces};
pub use plain::encode_plain;
pub use planted::Planted;
pub use residual::{Clipped, Clipping, Norms};
pub use rules::{MasterRules, MemberRules};
pub use threshold::{Threshold, ThresholdPolicy};
