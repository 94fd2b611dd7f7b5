//! What the rules of all modes share: who is there, and how a member stays in touch with its master.

mod roster;
mod touch;

pub(crate) use roster::{Patience, Roster, Waiting};
pub(crate) use touch::Touch;
