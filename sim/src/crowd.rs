//! Many members and no faults but one: how much is said, how soon all are members, and how soon it goes on without half of them.

use paceline_exchange::rounds::{Now, Round, Schedule, StepSize};

use crate::faults::Faults;
use crate::masters::MasterProcess;
use crate::network::Pid;
use crate::random::Random;
use crate::world::{Rules, World};

/// What a crowd took, in simulated milliseconds and in what was said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Crowd {
    /// From the first worker's start to a view of all.
    pub all_members: Now,
    /// Frames, and their bytes, until then.
    pub to_join: (u64, u64),
    /// Frames and bytes of a round; in `shared` of as many examples.
    pub of_a_round: (u64, u64),
    /// Of those that the master sent or received.
    pub of_the_master: u64,
    /// Links of a member, at most.
    pub links: usize,
    /// One is killed: bytes that the master says to each of the others until their view has begun.
    pub without_one: u64,
    /// From when half were killed to a view of the others.
    pub view_without_half: Now,
    /// And to the next round that counts.
    pub healed: Now,
    /// Frames and bytes until then.
    pub to_heal: (u64, u64),
}

/// Rounds that are looked at.
const ROUNDS: Round = 20;
/// Nothing may take longer.
const PATIENCE: Now = 120_000;

impl Crowd {
    /// So many members of one slot with these rules, all linked with each other up to a limit.
    pub fn of(rules: Rules, members: u64, mesh_limit: usize) -> Result<Self, String> {
        let share = StepSize::Each(2);
        let work = Schedule::new(2 * members * 4000, 1, share);
        let mut world = World::empty(rules, Random::new(7), Faults::none(members, mesh_limit), work);
        world.start_master();
        (0..members).for_each(|_| world.start_worker());
        let began = world.now;
        let unit = if rules == Rules::Sharing { 2 * members } else { 1 };
        world.until("a view of all", |world| world.members().len() as u64 == members)?;
        let (all_members, to_join) = (world.now - began, world.said);
        // The first round brings the state, too.
        world.until("a round", |world| world.counted() > unit)?;
        let (before, counted, of_master) = (world.said, world.counted(), world.said_to_master);
        world.until("rounds", |world| world.counted() >= counted + ROUNDS * unit)?;
        let rounds = (world.counted() - counted).div_ceil(unit);
        let per_round = |now: u64, before: u64| (now - before) / rounds;
        let of_a_round = (per_round(world.said.0, before.0), per_round(world.said.1, before.1));
        let of_the_master = per_round(world.said_to_master, of_master);
        let links = world.workers.keys().map(|pid| world.network.of(*pid).len()).max().unwrap_or(0);
        let (one, before) = (world.workers.keys().copied().max().unwrap_or_default(), world.master_said);
        world.kill(one, false);
        world.until("a view without one of them", |world| world.members().len() as u64 == members - 1)?;
        let without_one = (world.master_said - before) / (members - 1);
        let counted = world.counted();
        world.until("a round without one of them", |world| world.counted() > counted)?;
        let half: Vec<Pid> = world.workers.keys().copied().filter(|pid| !world.dead.contains(pid)).step_by(2).collect();
        let (killed, before, left) = (world.now, world.said, members as usize - 1 - half.len());
        half.into_iter().for_each(|pid| world.kill(pid, false));
        world.until("a view without half of them", |world| world.members().len() == left)?;
        let (view_without_half, counted) = (world.now - killed, world.counted());
        world.until("a round without half of them", |world| world.counted() > counted)?;
        let to_heal = (world.said.0 - before.0, world.said.1 - before.1);
        let healed = world.now - killed;
        Ok(Self {
            all_members,
            to_join,
            of_a_round,
            of_the_master,
            links,
            without_one,
            view_without_half,
            healed,
            to_heal,
        })
    }
}

impl World {
    fn until(&mut self, what: &str, is_there: impl Fn(&Self) -> bool) -> Result<(), String> {
        let limit = self.now + PATIENCE;
        while !is_there(self) {
            if let Some(violation) = &self.watch.violation {
                return Err(violation.clone());
            }
            if !self.advance() || self.now > limit {
                return Err(format!("{what} did not come within {PATIENCE} ms"));
            }
        }
        Ok(())
    }

    fn members(&self) -> &[u64] {
        let term = self.masters.values().find_map(MasterProcess::term);
        term.filter(|term| term.rules().phase() == "running").map_or(&[], |term| term.rules().view().1)
    }

    fn counted(&self) -> Round {
        let term = self.masters.values().find_map(MasterProcess::term);
        term.map_or(0, |term| term.rules().counted())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_says_as_much_for_each_member_however_many_they_are() {
        for rules in [Rules::Rounds, Rules::Sharing] {
            let [few, many] = [20, 80].map(|members| Crowd::of(rules, members, 16).expect("a crowd"));
            // The master, three neighbours, and a few of the last view that are about to close.
            assert!(few.links <= 8 && many.links <= 8, "{few:?} {many:?}");
            let each = |crowd: &Crowd, members: u64| crowd.of_a_round.0 / members;
            let grows = if rules == Rules::Sharing { 5 } else { 1 };
            assert!(each(&many, 80) <= grows * each(&few, 20) + 2, "{few:?} {many:?}");
            let direct = Crowd::of(rules, 20, 64).expect("a crowd");
            assert!(direct.links >= 19, "{direct:?}");
        }
    }
}
