//! Where the time of the workers of a run on many machines went.
//!
//! # Layout
//!
//! - [`Phases`]: seconds by what they were spent on. [`Spent`]: those of some steps.
//! - [`TrainingStatistics`]: those of all workers, in stretches of time. `table`: as a table. `page`: as a page with a timeline.

mod page;
mod table;

use serde::{Deserialize, Serialize};

use crate::ReplicaMode;

/// Seconds of a worker, by what they were spent on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Phases {
    /// Waiting for examples to be read.
    pub split: f64,
    /// Running the network forwards and backwards.
    pub compute: f64,
    /// Making what is sent of what was computed.
    pub encode: f64,
    /// With nothing to do: others are not as far, or there was no work.
    pub wait: f64,
    /// All that this worker adds up is here, and what others add up is on its way.
    pub network: f64,
    /// Taking in what others have sent, and copying states.
    pub apply: f64,
}

impl Phases {
    /// The names of the phases, in the order of a step.
    pub const NAMES: [&'static str; 6] = ["split", "compute", "encode", "wait", "network", "apply"];

    /// Seconds of each, in the order of their names.
    pub fn values(&self) -> [f64; 6] {
        let Self { split, compute, encode, wait, network, apply } = *self;
        [split, compute, encode, wait, network, apply]
    }

    /// All of them.
    pub fn total(&self) -> f64 {
        self.values().iter().sum()
    }

    fn add(&mut self, other: &Self) {
        self.split += other.split;
        self.compute += other.compute;
        self.encode += other.encode;
        self.wait += other.wait;
        self.network += other.network;
        self.apply += other.apply;
    }
}

/// What some steps of a worker took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spent {
    /// Steps.
    pub steps: u64,
    /// Seconds.
    #[serde(flatten)]
    pub phases: Phases,
}

impl Spent {
    /// Adds what others took.
    pub fn add(&mut self, other: &Self) {
        self.steps = self.steps.saturating_add(other.steps);
        self.phases.add(&other.phases);
    }

    /// Whether it can be: somebody else has measured it.
    fn is_sane(&self) -> bool {
        self.phases.values().iter().all(|seconds| (0.0..1e9).contains(seconds))
    }
}

/// A stretch of time of one worker.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stretch {
    /// When it began, in seconds since the master began.
    pub from: f64,
    /// When it ended.
    pub to: f64,
    /// What it was spent on.
    #[serde(flatten)]
    pub spent: Spent,
}

/// What a worker did, from first to last.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkerTime {
    /// Who.
    pub worker: String,
    /// Its time, in stretches that follow each other.
    pub stretches: Vec<Stretch>,
}

impl WorkerTime {
    /// All of it.
    pub fn spent(&self) -> Spent {
        self.stretches.iter().fold(Spent::default(), |mut all, stretch| {
            all.add(&stretch.spent);
            all
        })
    }
}

/// Where the time of all workers went.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TrainingStatistics {
    /// A worker each, in the order in which they were first heard of.
    pub workers: Vec<WorkerTime>,
}

/// Stretches of one worker that are kept: when there are more, each two of them become one.
const MOST: usize = 400;
/// Steps of all workers that must be known before they are judged.
const JUDGED_AFTER_STEPS: u64 = 100;
/// Seconds of all workers that must be known.
const JUDGED_AFTER: f64 = 2.0;

impl TrainingStatistics {
    /// A worker has told of some steps that ended now. What cannot be is not heard.
    pub fn take(&mut self, worker: &str, now: f64, spent: &Spent) {
        if !spent.is_sane() {
            return;
        }
        let known = self.workers.iter().position(|known| known.worker == worker).unwrap_or_else(|| {
            self.workers.push(WorkerTime { worker: worker.to_owned(), stretches: Vec::new() });
            self.workers.len() - 1
        });
        let stretches = &mut self.workers[known].stretches;
        // What it was spent on began where that was told of last, or as long ago as it took.
        let from = stretches.last().map_or((now - spent.phases.total()).max(0.0), |last| last.to);
        stretches.push(Stretch { from, to: now.max(from), spent: *spent });
        if stretches.len() > MOST {
            *stretches = stretches.chunks(2).map(join).collect();
        }
    }

    /// All workers together.
    pub fn spent(&self) -> Spent {
        self.workers.iter().fold(Spent::default(), |mut all, worker| {
            all.add(&worker.spent());
            all
        })
    }

    /// A sentence if steps are so short that several workers hardly pay in this mode; none while too little is known.
    pub fn too_short(&self, mode: &ReplicaMode) -> Option<String> {
        let Spent { steps, phases } = self.spent();
        if self.workers.len() < 2 || steps < JUDGED_AFTER_STEPS || phases.total() < JUDGED_AFTER {
            return None;
        }
        let Phases { compute, encode, wait, network, apply, .. } = phases;
        let together = encode + wait + network + apply;
        let of_step = |seconds: f64| 1e3 * seconds / steps as f64;
        (together > compute).then(|| {
            format!(
                "a step computes for {:.1} ms and spends {:.1} ms on staying together (encode {:.1}, wait {:.1}, network {:.1}, \
                 apply {:.1}): it is too short for {} workers to pay; give each more examples (`data.batch`), {}or train in one \
                 process",
                of_step(compute),
                of_step(together),
                of_step(encode),
                of_step(wait),
                of_step(network),
                of_step(apply),
                self.workers.len(),
                match mode {
                    ReplicaMode::Sync => "let them meet less often (mode `averaging`), ",
                    ReplicaMode::Averaging(_) => "let them meet less often (`train.mode.averaging.frequency`), ",
                    ReplicaMode::Shared(_) => "",
                },
            )
        })
    }
}

fn join(stretches: &[Stretch]) -> Stretch {
    let (first, rest) = stretches.split_first().expect("a chunk is never empty");
    rest.iter().fold(*first, |mut all, next| {
        all.to = next.to;
        all.spent.add(&next.spent);
        all
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn spent(steps: u64, compute: f64, wait: f64) -> Spent {
        Spent { steps, phases: Phases { compute, wait, ..Phases::default() } }
    }

    #[test]
    fn nothing_is_lost_when_stretches_are_joined() {
        let mut statistics = TrainingStatistics::default();
        for n in 1..=5000u32 {
            statistics.take("node1/1", f64::from(n), &spent(2, 0.5, 0.25));
        }
        let worker = &statistics.workers[0];
        assert!(worker.stretches.len() <= MOST && worker.stretches.len() > MOST / 4, "{}", worker.stretches.len());
        assert_eq!(worker.spent(), spent(10_000, 2500.0, 1250.0));
        assert_eq!((worker.stretches[0].from, worker.stretches.last().map(|last| last.to)), (0.25, Some(5000.0)));
        assert!(worker.stretches.windows(2).all(|two| two[0].to == two[1].from));
    }

    #[test]
    fn short_steps_are_told_with_what_was_measured() {
        let mut statistics = TrainingStatistics::default();
        for worker in ["a/1", "b/2"] {
            statistics.take(worker, 3.0, &spent(500, 0.5, 1.5));
        }
        let told = statistics.too_short(&ReplicaMode::Sync).expect("a sentence");
        assert!(
            told.contains("mode `averaging`") && told.contains("computes for 1.0 ms") && told.contains("wait 3.0"),
            "{told}"
        );
        // Long steps are none, nor few, nor one worker.
        let mut long = TrainingStatistics::default();
        ["a/1", "b/2"].iter().for_each(|worker| long.take(worker, 3.0, &spent(500, 1.5, 0.5)));
        let mut few = TrainingStatistics::default();
        ["a/1", "b/2"].iter().for_each(|worker| few.take(worker, 3.0, &spent(5, 0.5, 1.5)));
        let mut one = TrainingStatistics::default();
        one.take("a/1", 3.0, &spent(500, 0.5, 1.5));
        assert!([long, few, one].iter().all(|other| other.too_short(&ReplicaMode::Sync).is_none()));
    }

    #[test]
    fn what_cannot_be_is_not_heard() {
        let mut statistics = TrainingStatistics::default();
        for wrong in [f64::NAN, -1.0, f64::INFINITY] {
            statistics.take("a/1", 1.0, &spent(1, wrong, 0.0));
        }
        assert_eq!(statistics, TrainingStatistics::default());
    }

    #[test]
    fn statistics_come_back_from_json_as_they_went() {
        let mut statistics = TrainingStatistics::default();
        statistics.take("a/1", 1.5, &spent(3, 0.1, 0.2));
        let text = serde_json::to_string(&statistics).expect("numbers");
        assert!(text.contains(r#""steps":3,"split":0.0,"compute":0.1"#), "{text}");
        assert_eq!(serde_json::from_str::<TrainingStatistics>(&text).expect("the same"), statistics);
    }
}
