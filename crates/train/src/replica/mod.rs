//! What an exchange between machines needs of whatever computes on one of them, and nothing more.
//!
//! # Layout
//!
//! - [`Replica`]: the trait. [`CoreReplica`]: a team of cores that acts as one.
//! - `crew`: the threads of such a team. `reader`: minibatches that are read ahead. `snapshot`: states as bytes.

mod cores;
mod crew;
mod reader;
mod snapshot;

use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

pub use cores::CoreReplica;
use paceline_exchange::Bulk;
use paceline_exchange::rounds::Steps;
use paceline_exchange::sharing::Encodes;
use paceline_model::{Loss, Progress};
pub use snapshot::{Snapshot, adopt_into, snapshot_of, write_numbers, write_snapshot};

use crate::team::Outlet;
use crate::{AveragingOptions, Error, SharedOptions, Traffic};

/// One machine's part in a run: a team of cores, or one GPU. It acts as one worker that stands for so many.
///
/// What it is after a committed round stays as it was until the next one is committed, whatever it computes meanwhile: it can
/// be given to others, and a round can be taken again.
pub trait Replica: Send {
    /// What a contribution is made of.
    fn layout(&self) -> Layout;

    /// Steps that come next, as far as that is known: their examples can be read ahead.
    fn expect(&mut self, steps: &Steps);

    /// Takes steps that nobody else takes part in; they are committed when this returns.
    fn step_alone(&mut self, steps: &Steps) -> Result<Loss, Error>;

    /// Computes a contribution to a round and puts it into the sink, part by part as parts become final. None if it is not wanted
    /// any more.
    fn contribute(&mut self, steps: &Steps, out: &Arc<dyn Sink>) -> Result<Option<Contributed>, Error>;

    /// Takes the steps of the round behind the one that was last contributed to. The contribution comes out of
    /// [`Self::commit`], when the result of that one is there.
    fn go_ahead(&mut self, steps: &Steps, is_void: &dyn Fn() -> bool) -> Result<(), Error>;

    /// Takes back what was computed ahead.
    fn drop_ahead(&mut self);

    /// Commits what a round came to, with the weight of all contributions; then puts into the sink what was computed ahead, if
    /// anything was.
    fn commit(
        &mut self,
        at: Progress,
        result: &Arc<dyn Parts>,
        weight: f64,
        ahead: Option<&Arc<dyn Sink>>,
    ) -> Result<Option<Contributed>, Error>;

    /// Takes a step whose update is shared: makes a message of it, counting for a share of what it is. Without examples only a
    /// message is made.
    fn share(&mut self, steps: &Steps, part: SlotShare, encodes: Encodes) -> Result<SharedStep, Error>;

    /// Applies another replica's message.
    fn take(&mut self, message: &[u8]) -> Result<(), Error>;

    /// What batch norm has seen here; empty without it.
    fn running(&self) -> &[f32];

    /// Moves toward what batch norm has seen at another replica, which stands for a share of all.
    fn meet_running(&mut self, values: &[f32], part: SlotShare);

    /// How long it waited for examples, and how long it took to make what is sent, since this was last asked.
    fn overhead(&mut self) -> Overhead {
        Overhead::default()
    }

    /// What was sent since this was last asked, and what is kept back.
    fn traffic(&mut self) -> Option<Traffic>;

    /// Writes what the replica is after the last commit, as bytes that [`Self::adopt`] takes: little-endian `f32`.
    fn snapshot(&self, out: &mut dyn Write) -> io::Result<()>;

    /// Becomes what another replica was. In `shared` the residual stays, with messages of its own that do not count any more;
    /// without any list it is emptied. Says what was expected and found if it is not of this run.
    fn adopt(&mut self, state: &Bulk, void: Option<&[&[u8]]>) -> Result<(), String>;
}

/// What a contribution is made of: numbers that are summed over the replicas, then numbers of which the mean counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Those that are summed.
    pub summed: usize,
    /// Those that are averaged, each replica with its weight.
    pub averaged: usize,
}

impl Layout {
    /// All of them.
    pub fn width(&self) -> usize {
        self.summed + self.averaged
    }
}

/// Takes the parts of a contribution, from several threads at once.
pub trait Sink: Outlet {
    /// What the examples of the contribution weigh: told before the first part.
    fn begin(&self, weight: f64);

    /// Whether nobody wants it any more.
    fn is_void(&self) -> bool;
}

/// What a round came to, wherever its parts lie.
pub trait Parts: Send + Sync {
    /// Copies some of it.
    fn copy(&self, from: usize, to: &mut [f32]);
}

/// What a contribution was computed from.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Contributed {
    /// What its examples weigh.
    pub weight: f64,
    /// Their loss.
    pub loss: Loss,
}

/// Time of a replica that is not computing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Overhead {
    /// Waiting for examples to be read.
    pub reading: Duration,
    /// Making what is sent.
    pub encoding: Duration,
}

/// How many of all workers a replica stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotShare {
    /// Its own.
    pub own: u32,
    /// Those of all replicas.
    pub all: u32,
}

/// What a step came to whose update is shared.
#[derive(Clone, Debug, Default)]
pub struct SharedStep {
    /// What others must know of it; none if it was to send nothing.
    pub message: Option<Vec<u8>>,
    /// The loss of its examples.
    pub loss: Loss,
}

/// How replicas on many machines stay together.
#[derive(Clone, Debug, PartialEq)]
pub enum ReplicaMode {
    /// A round is one step that all take together.
    Sync,
    /// A round is a few steps that each takes alone, and then the mean.
    Averaging(AveragingOptions),
    /// Messages of what has grown large.
    Shared(SharedOptions),
}

impl ReplicaMode {
    /// Steps of a round.
    pub fn steps(&self) -> u64 {
        match self {
            ReplicaMode::Averaging(options) => options.frequency.max(1),
            ReplicaMode::Sync | ReplicaMode::Shared(_) => 1,
        }
    }
}
