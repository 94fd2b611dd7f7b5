//! What goes wrong, and when.

use paceline_exchange::rounds::{Now, Operator};

use crate::network::Pid;
use crate::world::{Happening, NOBODY, World};

/// In milliseconds.
const SHORTEST_JUMP: Now = 700;

impl World {
    /// Whether the disk does not take what is written now.
    pub(crate) fn disk_fails(&mut self) -> bool {
        self.now < self.faults.until && self.random.one_in(8)
    }

    /// The clock of a process is ahead from now on, as after its machine has slept. Shorter jumps are not told from time that
    /// has passed: a master may give somebody up that much too soon.
    fn jump(&mut self, pid: Pid, by: Now) {
        self.clocks.jump(pid, by.max(SHORTEST_JUMP));
        self.watch.count("a clock jumped");
        if self.workers.contains_key(&pid) {
            self.watch.is_faulty(pid, self.now);
        } else {
            self.watch.may_say_that_it_stood_still(pid);
        }
        let wakes = self.workers.get(&pid).map(|worker| worker.wakes);
        if let Some(at) = wakes.or(self.masters.get(&pid).map(|master| master.wakes)) {
            self.after(0, pid, Happening::Wakes(at));
        }
    }

    pub(crate) fn make_trouble(&mut self) {
        if self.now >= self.faults.until {
            // From here on everything must come to a good end.
            self.network.heal();
            self.paused.clear();
            let live: Vec<Pid> = self.workers.keys().copied().filter(|pid| !self.dead.contains(pid)).collect();
            if let [first, .., last] = live[..]
                && self.faults.leaves_a_bad_edge()
            {
                self.watch.count("two workers never reached each other again");
                self.network.cut(first, last, Now::MAX / 2);
                let is_between = |link: &u64| self.network.connections[link].other(first) == last;
                let between: Vec<u64> = self.network.of(first).into_iter().filter(is_between).collect();
                between.into_iter().for_each(|link| self.reset(link, "no route"));
            }
            let resumes: Vec<Pid> = self.masters.keys().copied().filter(|pid| !self.dead.contains(pid)).collect();
            resumes.into_iter().for_each(|pid| self.after(1, pid, Happening::Asked(Operator::Resume)));
            return;
        }
        let delay = self.random.within(1, 2 * self.faults.every());
        self.after(delay, NOBODY, Happening::Trouble);
        let live: Vec<Pid> = self.workers.keys().copied().filter(|pid| !self.dead.contains(pid)).collect();
        let Some(worker) = self.random.pick(&live) else { return };
        let length = match self.random.within(0, 3) {
            0 => self.random.within(10, 500),
            1 => self.random.within(500, 3000),
            _ => self.random.within(3000, 12_000),
        };
        let until = (self.now + length).min(self.faults.until);
        let kind = self.random.within(0, 21);
        self.say(|| format!("trouble {kind} at worker {worker} until {until}"));
        match kind {
            0..=2 => self.lose_worker(worker),
            3 | 4 => {
                let links: Vec<_> = self.network.of(worker).into_iter().collect();
                if let Some(link) = self.random.pick(&links) {
                    self.reset(link, "reset");
                }
            }
            5 => {
                self.paused.insert(worker, until);
                self.watch.is_faulty(worker, until);
            }
            6 => {
                self.network.isolate(worker, until);
                self.watch.is_faulty(worker, until);
            }
            7 | 8 => {
                if let Some(other) = self.random.pick(&live).filter(|other| *other != worker) {
                    self.network.cut(worker, other, until);
                    let is_between = |link: &u64| self.network.connections[link].other(worker) == other;
                    let between: Vec<u64> = self.network.of(worker).into_iter().filter(is_between).collect();
                    // Some cuts are noticed at once, others are only silence.
                    if self.random.one_in(2) {
                        between.into_iter().for_each(|link| self.reset(link, "no route"));
                    }
                }
            }
            9 => {
                self.watch.is_faulty(worker, Now::MAX / 2);
                self.after(0, worker, Happening::AskedToGo);
            }
            10 => {
                let delay = self.random.within(0, 200);
                self.after(delay, NOBODY, Happening::StartWorker);
            }
            11 => {
                if let Some(master) = self.coordinator.leader {
                    self.watch.count("a master died");
                    self.lose_master(master);
                }
            }
            12 => {
                // A master that is stopped for a while is succeeded, and then goes on as if nothing had been.
                if let Some(master) = self.coordinator.leader {
                    self.paused.insert(master, until);
                    self.watch.master_stands_still(self.now, until);
                    self.watch.may_say_that_it_stood_still(master);
                    self.watch.count("a master was succeeded while it stood still");
                    let delay = self.random.within(100, 2000);
                    self.after(delay, NOBODY, Happening::Expires(master));
                    self.after(delay, NOBODY, Happening::StartMaster);
                }
            }
            13 => {
                // A master that is stopped for a while and not succeeded.
                if let Some(master) = self.coordinator.leader {
                    self.paused.insert(master, until);
                    self.watch.master_stands_still(self.now, until);
                    self.watch.may_say_that_it_stood_still(master);
                    self.watch.count("a master stood still and went on");
                }
            }
            14 | 15 => self.go_away(until),
            16 => {
                // Nothing that one says reaches the other, which it hears; one of them may be the master.
                let others: Vec<Pid> = live.iter().copied().chain(self.coordinator.leader).collect();
                if let Some(other) = self.random.pick(&others).filter(|other| *other != worker) {
                    let (from, to) = if self.random.one_in(2) { (worker, other) } else { (other, worker) };
                    self.network.mute(from, to, until);
                    [from, to].into_iter().for_each(|pid| self.watch.is_faulty(pid, until));
                    self.watch.count("one was heard by another, and did not hear it");
                }
            }
            17 => {
                let processes: Vec<Pid> = live.iter().copied().chain(self.coordinator.leader).collect();
                if let Some(pid) = self.random.pick(&processes) {
                    self.jump(pid, length);
                }
            }
            _ => {
                if let Some(master) = self.coordinator.leader {
                    let orders = [Operator::Pause, Operator::Resume, Operator::Save, Operator::Stop];
                    let order = self.random.pick(&orders).unwrap_or(Operator::Save);
                    self.watch.count("an operator gave an order");
                    self.after(0, master, Happening::Asked(order));
                }
            }
        }
    }
}
