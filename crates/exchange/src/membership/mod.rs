//! What the rules of all modes share: who is there, and how a member stays in touch with its master.

mod crew;
mod edges;
mod gathering;
mod hold;
mod roster;
mod saving;
mod touch;
mod tree;

pub use crew::Crew;
pub(crate) use edges::Edges;
pub use edges::THROUGH_THE_MASTER;
pub(crate) use gathering::{Due, GATHERED_FOR, Gathering, add_reason};
pub(crate) use hold::Hold;
pub(crate) use roster::{DONE, Fault, LEFT, Patience, Roster, Waiting};
pub(crate) use saving::Saving;
pub(crate) use touch::Touch;
pub use tree::{MESH_LIMIT, Paths};
pub(crate) use tree::{arrange, donors_of, neighbours, with_those_below};
