//! What goes wrong, and when.

use paceline_exchange::MESH_LIMIT;
use paceline_exchange::rounds::{Now, Round, Slots, Span, StragglerLimit};

use crate::network::Pid;
use crate::random::Random;

/// The faults of one history.
#[derive(Clone, Debug)]
pub struct Faults {
    /// Nothing goes wrong after this.
    pub(crate) until: Now,
    pub(crate) workers: u64,
    pub(crate) min_workers: usize,
    pub(crate) expected_workers: usize,
    pub(crate) save_every: Option<Round>,
    /// How long a round waits for those who are slow.
    pub(crate) straggler_limit: Option<StragglerLimit>,
    /// Whether computing takes very long now and then.
    has_stragglers: bool,
    /// Whether some workers stand for more than one.
    has_unequal_slots: bool,
    /// Whether rounds overlap.
    pub(crate) overlap: bool,
    /// Steps that a worker of `shared` may be ahead: a few, or so many that it sends nothing when somebody is slow.
    pub(crate) max_ahead: u64,
    every: Now,
    /// An example that kills whoever computes it.
    killer: Option<(u64, u64)>,
    fragile_donors: bool,
    fragile_masters: bool,
    fragile_savers: bool,
    /// Whether two workers do not reach each other from the end of all other faults on.
    leaves_a_bad_edge: bool,
    /// Whether computing fails now and then.
    has_clumsy_workers: bool,
    /// Whether states take long to arrive.
    has_slow_links: bool,
    /// Views of more members are trees.
    pub(crate) mesh_limit: usize,
}

impl Faults {
    pub(crate) fn new(random: &mut Random) -> Self {
        let workers = match random.within(0, 200) {
            0 => random.within(20, 65),
            1..=15 => random.within(6, 20),
            _ => random.within(1, 6),
        };
        Self {
            until: random.within(3000, 20_000),
            workers,
            min_workers: random.within(1, workers + 1) as usize,
            // One of five waits for more than will come.
            expected_workers: if workers == 5 { 7 } else { 0 },
            save_every: if random.one_in(3) { None } else { Some(random.within(3, 30)) },
            max_ahead: if random.one_in(2) { 3 } else { 1000 },
            every: random.within(100, 3000),
            killer: random.one_in(6).then(|| (random.within(0, 2), random.within(0, 40))),
            fragile_donors: random.one_in(3),
            fragile_masters: random.one_in(4),
            fragile_savers: random.one_in(3),
            leaves_a_bad_edge: random.one_in(4),
            overlap: random.one_in(2),
            straggler_limit: match random.within(0, 4) {
                0 | 1 => None,
                2 => Some(StragglerLimit::Auto),
                _ => Some(StragglerLimit::After(random.within(100, 2000))),
            },
            has_stragglers: random.one_in(3),
            has_unequal_slots: random.one_in(2),
            has_clumsy_workers: random.one_in(4),
            has_slow_links: random.one_in(3),
            mesh_limit: if random.one_in(2) { random.within(1, 4) as usize } else { MESH_LIMIT },
        }
    }

    /// Nothing goes wrong; a view of more than so many of these workers is a tree.
    pub(crate) fn none(workers: u64, mesh_limit: usize) -> Self {
        Self {
            until: 0,
            workers,
            min_workers: 1,
            expected_workers: 0,
            save_every: None,
            max_ahead: 3,
            every: Now::MAX / 4,
            killer: None,
            fragile_donors: false,
            fragile_masters: false,
            fragile_savers: false,
            leaves_a_bad_edge: false,
            overlap: false,
            straggler_limit: None,
            has_stragglers: false,
            has_unequal_slots: false,
            has_clumsy_workers: false,
            has_slow_links: false,
            mesh_limit,
        }
    }

    /// Whether two workers do not reach each other from the end of all other faults on.
    pub(crate) fn leaves_a_bad_edge(&self) -> bool {
        self.leaves_a_bad_edge
    }

    /// Whether workers die of giving their state to others now and then.
    pub(crate) fn has_fragile_workers(&self) -> bool {
        self.fragile_donors || self.fragile_savers
    }

    /// Whether states take long to arrive now.
    pub(crate) fn has_slow_links(&self, now: Now) -> bool {
        self.has_slow_links && now < self.until
    }

    /// How often something goes wrong, about.
    pub(crate) fn every(&self) -> Now {
        self.every
    }

    /// Whether one of these examples kills its worker.
    pub(crate) fn kills(&self, epoch: u64, spans: &[Span]) -> bool {
        self.killer.is_some_and(|(in_epoch, place)| {
            epoch == in_epoch && spans.iter().any(|span| (span.start..span.end).contains(&place))
        })
    }

    /// How many workers a process stands for.
    pub(crate) fn slots(&self, pid: Pid) -> Slots {
        if self.has_unequal_slots { 1 + (pid % 3) as Slots } else { 1 }
    }

    /// How long computing takes.
    pub(crate) fn computes_for(&self, random: &mut Random, now: Now) -> Now {
        match self.has_stragglers && now < self.until && random.one_in(30) {
            true => random.within(500, 6000),
            false => random.within(5, 60),
        }
    }

    /// Whether what is computed now fails.
    pub(crate) fn stumbles(&self, random: &mut Random, now: Now) -> bool {
        self.has_clumsy_workers && now < self.until && random.one_in(200)
    }

    pub(crate) fn donor_dies(&self, random: &mut Random, now: Now) -> bool {
        self.fragile_donors && now < self.until && random.one_in(4)
    }

    pub(crate) fn saver_dies(&self, random: &mut Random, now: Now) -> bool {
        self.fragile_savers && now < self.until && random.one_in(4)
    }

    pub(crate) fn crashes_between_actions(&self, random: &mut Random, now: Now) -> bool {
        self.fragile_masters && now < self.until && random.one_in(2000)
    }
}
