//! Where data lives: seen by everybody, or in partitions with workers, as long as they live or for one epoch.

use paceline_exchange::rounds::message::DataProof;
use paceline_exchange::rounds::{Brings, Brought, Capacity, Held, Schedule, StepSize};

use crate::masters::DATA;
use crate::random::Random;
use crate::world::World;

/// Where the data of a history lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Placing {
    /// Everybody sees all of it.
    Everywhere,
    /// Each worker has some partitions as long as it lives; a new one brings what nobody has.
    WithWorkers,
    /// Each worker comes with one partition for one epoch, and goes when that is done.
    Passing,
}

impl Placing {
    /// Of a seed, and the work of so many epochs.
    pub(crate) fn of(seed: u64, whole: Schedule) -> (Self, Schedule) {
        // A stream of its own: histories of other seeds stay as they were.
        let mut random = Random::new(seed ^ 0x0091_ace5);
        let placing = match random.within(0, 8) {
            0 => Self::WithWorkers,
            1 => Self::Passing,
            _ => return (Self::Everywhere, whole),
        };
        let of_some = |random: &mut Random| if random.one_in(6) { 0 } else { random.within(1, 60) };
        let partitions = random.within(1, 6);
        // Some are empty, but not all.
        let of = |at: u64, random: &mut Random| if at == 0 { random.within(1, 60) } else { of_some(random) };
        let proofs = (0..partitions).map(|at| DataProof { examples: of(at, &mut random), fingerprint: at }).collect();
        let share: StepSize = whole.share();
        (placing, Schedule::of_partitions(proofs, whole.epochs(), share))
    }
}

impl World {
    /// What a worker that starts now has.
    pub(crate) fn brings(&mut self) -> Vec<Held> {
        let everything: Vec<Held> = self.work.everything().held;
        let of_living: Vec<Held> = self
            .workers
            .iter()
            .filter(|(pid, _)| !self.dead.contains(pid))
            .flat_map(|(_, process)| process.held.clone())
            .collect();
        let is_free = |held: &Held| !of_living.contains(held);
        match self.placing {
            Placing::Everywhere => Vec::new(),
            Placing::WithWorkers => {
                let brings = |held: &Held| is_free(held) || self.random.one_in(3);
                let mut brought: Vec<Held> = everything.iter().copied().filter(brings).collect();
                if brought.is_empty() {
                    brought.extend(self.random.pick(&everything));
                }
                brought
            }
            Placing::Passing => {
                // What whoever starts them knows: the newest state of a master.
                let terms = self.masters.values().filter_map(|master| master.term()).map(|term| term.rules());
                let rest = terms.max_by_key(|rules| rules.term()).map(|rules| rules.newest());
                let rest = rest.unwrap_or_else(|| self.work.clone());
                let (epoch, left) = rest.partitions_left();
                let of_epoch = |partition| Held { partition, epoch: Some(epoch) };
                let left: Vec<Held> = left.into_iter().map(of_epoch).collect();
                let free: Vec<Held> = left.iter().copied().filter(is_free).collect();
                let any = everything.iter().map(|held| of_epoch(held.partition)).collect::<Vec<Held>>();
                let some =
                    self.random.pick(&free).or_else(|| self.random.pick(&left)).or_else(|| self.random.pick(&any));
                some.into_iter().collect()
            }
        }
    }

    /// What it proves.
    pub(crate) fn proves(&self, held: &[Held]) -> Brings {
        if self.placing == Placing::Everywhere {
            return Brings::Whole(DATA);
        }
        let proof = |held: &Held| self.work.proof(held.partition).cloned().expect("there is such a partition");
        Brings::Partitions(held.iter().map(|held| Brought { held: *held, proof: proof(held) }).collect())
    }

    /// What it can take.
    pub(crate) fn capacity(&self, held: &[Held]) -> Option<Capacity> {
        (self.placing != Placing::Everywhere).then(|| Capacity { slots: 1, held: held.to_vec() })
    }
}
