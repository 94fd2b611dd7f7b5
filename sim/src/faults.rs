//! What goes wrong, and when.

use paceline_exchange::rounds::{Now, Round, Slots, Span};

use crate::network::Pid;
use crate::random::Random;
use crate::world::{Happening, World};

/// The faults of one history.
#[derive(Clone, Debug)]
pub struct Faults {
    /// Nothing goes wrong after this.
    pub(crate) until: Now,
    pub(crate) workers: u64,
    pub(crate) min_workers: usize,
    pub(crate) save_every: Option<Round>,
    /// How long a round waits for those who are slow.
    pub(crate) straggler_limit: Option<Now>,
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
}

impl Faults {
    pub(crate) fn new(random: &mut Random) -> Self {
        let workers = random.within(1, 6);
        Self {
            until: random.within(3000, 20_000),
            workers,
            min_workers: random.within(1, workers + 1) as usize,
            save_every: if random.one_in(3) { None } else { Some(random.within(3, 30)) },
            max_ahead: if random.one_in(2) { 3 } else { 1000 },
            every: random.within(100, 3000),
            killer: random.one_in(6).then(|| (random.within(0, 2), random.within(0, 40))),
            fragile_donors: random.one_in(3),
            fragile_masters: random.one_in(4),
            fragile_savers: random.one_in(3),
            leaves_a_bad_edge: random.one_in(4),
            overlap: random.one_in(2),
            straggler_limit: random.one_in(2).then(|| random.within(100, 2000)),
            has_stragglers: random.one_in(3),
            has_unequal_slots: random.one_in(2),
        }
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

impl World {
    pub(crate) fn fail_somehow(&mut self) {
        if self.now >= self.faults.until {
            // From here on everything must come to a good end.
            self.network.heal();
            self.paused.clear();
            let live: Vec<Pid> = self.workers.keys().copied().filter(|pid| !self.dead.contains(pid)).collect();
            if let [first, .., last] = live[..]
                && self.faults.leaves_a_bad_edge
            {
                self.watch.count("two workers never reached each other again");
                self.network.cut(first, last, Now::MAX / 2);
                let between =
                    self.network.of(first).into_iter().filter(|id| self.network.connections[id].other(first) == last);
                between.collect::<Vec<_>>().into_iter().for_each(|id| self.reset(id, "no route"));
            }
            return;
        }
        let delay = self.random.within(1, 2 * self.faults.every);
        self.after(delay, 0, Happening::Fault);
        let live: Vec<Pid> = self.workers.keys().copied().filter(|pid| !self.dead.contains(pid)).collect();
        let Some(worker) = self.random.pick(&live) else { return };
        let length = match self.random.within(0, 3) {
            0 => self.random.within(10, 500),
            1 => self.random.within(500, 3000),
            _ => self.random.within(3000, 12_000),
        };
        let until = (self.now + length).min(self.faults.until);
        let kind = self.random.within(0, 13);
        self.say(|| format!("fault {kind} at worker {worker} until {until}"));
        match kind {
            0..=2 => self.lose_worker(worker),
            3 | 4 => {
                let connections: Vec<_> = self.network.of(worker).into_iter().collect();
                if let Some(id) = self.random.pick(&connections) {
                    self.reset(id, "reset");
                }
            }
            5 => {
                self.paused.insert(worker, until);
            }
            6 => self.network.isolate(worker, until),
            7 | 8 => {
                if let Some(other) = self.random.pick(&live).filter(|other| *other != worker) {
                    self.network.cut(worker, other, until);
                    let between: Vec<_> = self
                        .network
                        .of(worker)
                        .into_iter()
                        .filter(|id| self.network.connections[id].other(worker) == other)
                        .collect();
                    // Some cuts are noticed at once, others are only silence.
                    if self.random.one_in(2) {
                        between.into_iter().for_each(|id| self.reset(id, "no route"));
                    }
                }
            }
            9 => self.ask_to_leave(worker),
            10 => {
                let delay = self.random.within(0, 200);
                self.after(delay, 0, Happening::StartWorker);
            }
            11 => {
                if let Some(master) = self.master_address {
                    self.watch.count("a master died");
                    self.lose_master(master);
                }
            }
            _ => {
                // A master that is stopped for a while is succeeded, and then goes on as if nothing had been.
                if let Some(master) = self.master_address {
                    self.paused.insert(master, until);
                    self.watch.count("a master was succeeded while it stood still");
                    let delay = self.random.within(100, 2000);
                    self.after(delay, 0, Happening::StartMaster);
                }
            }
        }
    }
}
