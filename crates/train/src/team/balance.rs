//! How many examples of a step each replica gets, where replicas wait for each other and are not equally fast.

use std::time::{Duration, Instant};

use paceline_model::Batch;

/// Cuts steps so that all replicas come to the end of their round at the same time, as far as can be told.
///
/// Cores differ, and a core that is shared with others can be slower than the next one for a tenth of a second or for
/// minutes; replicas that get as much as each other all go at the pace of the slowest.
#[derive(Debug)]
pub(crate) struct Balance {
    replicas: Vec<Pace>,
}

/// What is known of a replica.
#[derive(Clone, Debug, Default)]
struct Pace {
    /// Seconds that an example takes, once it has told.
    pace: Option<f64>,
    /// What it works on: since when, and how many examples.
    works: Option<(Instant, usize)>,
    /// Examples that were cut for it and that it has not begun.
    ahead: usize,
}

/// Where a step lies in its round.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InRound {
    /// Whether it is the first: all begin it at the same time.
    pub is_first: bool,
    /// Steps to the end of the round, itself included.
    pub left: u64,
}

/// How much of the last step goes into the pace of a replica. Less follows too late: by how much a core is slower now than
/// at other times changes within some tens of steps.
const GAIN: f64 = 0.5;

/// A step that took more than so many times as long as expected, or less, is a hiccup, and counts as so many times.
const HICCUP: f64 = 2.0;

/// No share is smaller than this part of an equal one: nobody is left out, whatever happened to it.
const LEAST: f64 = 0.2;

/// The most examples that go together. Kernels take as many at once, and a minibatch of another size costs them more an example
/// than an even end of the round gains.
const TOGETHER: usize = 16;

impl Pace {
    /// Seconds until it has done all that was cut for it.
    fn is_busy_for(&self, pace: f64, now: Instant) -> f64 {
        let left = |(since, examples): (Instant, usize)| {
            let passed = now.saturating_duration_since(since).as_secs_f64();
            (pace * examples as f64 - passed).max(0.0)
        };
        self.works.map_or(0.0, left) + pace * self.ahead as f64
    }
}

impl Balance {
    /// As much for each of so many replicas, until they tell how long they take.
    pub(crate) fn equal(replicas: usize) -> Self {
        Self { replicas: vec![Pace::default(); replicas.max(1)] }
    }

    /// A replica says how long it took by itself for a minibatch.
    pub(crate) fn tell(&mut self, replica: usize, took: Duration, examples: usize) {
        if examples == 0 {
            return;
        }
        let now = took.max(Duration::from_nanos(1)).as_secs_f64() / examples as f64;
        let pace = &mut self.replicas[replica].pace;
        *pace = Some(pace.map_or(now, |pace| pace * (now / pace).clamp(1.0 / HICCUP, HICCUP).powf(GAIN)));
    }

    /// A replica has done what it began.
    pub(crate) fn end(&mut self, replica: usize) {
        self.replicas[replica].works = None;
    }

    /// A replica begins a minibatch that was cut for it.
    pub(crate) fn begin(&mut self, replica: usize, examples: usize, now: Instant) {
        let replica = &mut self.replicas[replica];
        replica.ahead -= examples;
        replica.works = Some((now, examples));
    }

    /// Cuts a step of so many examples: how many each gets.
    fn cut(&mut self, examples: usize, place: InRound, now: Instant) -> Vec<usize> {
        if place.is_first {
            self.replicas.iter_mut().for_each(|replica| replica.works = None);
        }
        let count = self.replicas.len();
        let together = (examples / count / 4).checked_ilog2().map_or(1, |log| TOGETHER.min(1 << log));
        let (mut wanted, mut given) = (0.0, 0);
        let shares = self.wanted(examples as f64, place.left as f64, now);
        let cut = |(number, share): (usize, f64)| {
            wanted += share;
            // Groups move; who is as fast as the others gets exactly as much.
            let equal = examples * (number + 1) / count;
            let moved = ((wanted - equal as f64) / together as f64).round() as isize * together as isize;
            let end = match number + 1 == count {
                true => examples,
                false => equal.saturating_add_signed(moved).clamp(given, examples),
            };
            let gets = end - given;
            given = end;
            gets
        };
        let sizes: Vec<usize> = shares.into_iter().enumerate().map(cut).collect();
        self.replicas.iter_mut().zip(&sizes).for_each(|(replica, size)| replica.ahead += size);
        sizes
    }

    /// How much of a step each should get, so that all end at the same time if the rest of the round is cut alike.
    fn wanted(&self, examples: f64, steps: f64, now: Instant) -> Vec<f64> {
        let count = self.replicas.len() as f64;
        let paces = self.replicas.iter().map(|replica| replica.pace).collect::<Option<Vec<f64>>>();
        let Some(paces) = paces.filter(|_| examples > 0.0) else {
            return vec![examples / count; self.replicas.len()];
        };
        let free: Vec<f64> =
            self.replicas.iter().zip(&paces).map(|(replica, pace)| replica.is_busy_for(*pace, now)).collect();
        // All end when those who are free before then have done the rest: who is not is left out, and then the end is sooner.
        let mut end = f64::INFINITY;
        loop {
            let (mut work, mut speed) = (examples * steps, 0.0);
            for (free, pace) in free.iter().zip(&paces).filter(|(free, _)| **free < end) {
                work += free / pace;
                speed += 1.0 / pace;
            }
            let next = work / speed;
            if next >= end {
                break;
            }
            end = next;
        }
        let least = LEAST * examples / count;
        let share = |(free, pace): (&f64, &f64)| ((end - free) / pace / steps).max(least);
        let shares: Vec<f64> = free.iter().zip(&paces).map(share).collect();
        let sum: f64 = shares.iter().sum();
        shares.into_iter().map(|share| share * examples / sum).collect()
    }

    /// Moves rows between the batches of a step, one of each replica, until each has its share.
    pub(crate) fn even_out(&mut self, batches: &mut [Batch], place: InRound, now: Instant) {
        let sizes = self.cut(batches.iter().map(Batch::examples).sum(), place, now);
        for to in 0..batches.len() {
            for from in 0..batches.len() {
                let missing = sizes[to].saturating_sub(batches[to].examples());
                let rows = batches[from].examples().saturating_sub(sizes[from]).min(missing);
                if rows > 0 {
                    let [to, from] = batches.get_disjoint_mut([to, from]).expect("one lacks what the other has");
                    to.take_last(rows, from);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use paceline_model::Batch;

    use super::{Balance, InRound, LEAST};

    /// A round of one step.
    const ONLY: InRound = InRound { is_first: true, left: 1 };

    fn batches(sizes: &[usize]) -> Vec<Batch> {
        let mut next = 0..;
        let batch = |size: &usize| {
            let indices: Vec<u64> = next.by_ref().take(*size).collect();
            let features = indices.iter().map(|index| *index as f32).collect();
            Batch { indices, width: 1, features, ..Batch::empty() }
        };
        sizes.iter().map(batch).collect()
    }

    fn evened(shares: &mut Balance, sizes: &[usize], place: InRound, now: Instant) -> Vec<usize> {
        let mut batches = batches(sizes);
        shares.even_out(&mut batches, place, now);
        let mut all: Vec<u64> = batches.iter().flat_map(|batch| batch.indices.clone()).collect();
        all.sort_unstable();
        assert!(all.into_iter().eq(0..sizes.iter().sum::<usize>() as u64), "every example once");
        batches.iter().map(Batch::examples).collect()
    }

    /// A round of one step: what each gets, all of which is done.
    fn only_step(shares: &mut Balance, sizes: &[usize]) -> Vec<usize> {
        let now = Instant::now();
        let evened = evened(shares, sizes, ONLY, now);
        evened.iter().enumerate().for_each(|(replica, examples)| shares.begin(replica, *examples, now));
        evened
    }

    #[test]
    fn who_is_as_fast_as_the_others_gets_as_much() {
        let mut shares = Balance::equal(3);
        assert_eq!(only_step(&mut shares, &[50, 50, 50]), [50, 50, 50]);
        assert_eq!(only_step(&mut shares, &[50, 10, 0]), [20, 20, 20], "a short last step");
        assert_eq!(only_step(&mut shares, &[0, 0, 0]), [0, 0, 0]);
        (0..3).for_each(|replica| shares.tell(replica, Duration::from_millis(7), 64));
        assert_eq!(only_step(&mut shares, &[64, 64, 64]), [64, 64, 64]);
        assert_eq!(only_step(&mut shares, &[2, 0, 0]).iter().sum::<usize>(), 2);
        assert_eq!(only_step(&mut shares, &[0, 0, 0]), [0, 0, 0]);
    }

    #[test]
    fn a_slow_one_gets_less_so_that_all_take_as_long() {
        // Milliseconds that each takes for an example.
        for paces in [[1, 2, 1], [3, 1, 1], [2, 3, 4]] {
            let mut shares = Balance::equal(3);
            let mut now = Instant::now();
            for round in 0..20 {
                // Each comes back for its next step when it is done, and the first that comes has it cut for all.
                let mut free = [now; 3];
                let mut steps: Vec<Vec<usize>> = Vec::new();
                let mut done = [0; 3];
                while done != [4; 3] {
                    let replica = (0..3).filter(|replica| done[*replica] < 4).min_by_key(|replica| free[*replica]);
                    let replica = replica.expect("one that is not done");
                    shares.end(replica);
                    let step = done[replica];
                    if step == steps.len() {
                        let place = InRound { is_first: step == 0, left: 4 - step as u64 };
                        steps.push(evened(&mut shares, &[64, 64, 64], place, free[replica]));
                    }
                    let examples = steps[step][replica];
                    shares.begin(replica, examples, free[replica]);
                    let took = Duration::from_millis(paces[replica] * examples as u64);
                    shares.tell(replica, took, examples);
                    free[replica] += took;
                    done[replica] += 1;
                }
                let last = *free.iter().max().expect("three of them");
                let whole = (last - now).as_secs_f64();
                let waits: Vec<f64> = free.iter().map(|free| (last - *free).as_secs_f64() / whole).collect();
                assert!(round == 0 || waits.iter().all(|wait| *wait < 0.12), "{paces:?}, round {round}: {waits:?}");
                now = last;
            }
        }
    }

    #[test]
    fn who_is_behind_in_a_round_gets_less_of_its_last_step() {
        let mut shares = Balance::equal(2);
        (0..2).for_each(|replica| shares.tell(replica, Duration::from_millis(64), 64));
        let begin = Instant::now();
        assert_eq!(evened(&mut shares, &[64, 64], InRound { is_first: true, left: 2 }, begin), [64, 64]);
        shares.begin(0, 64, begin);
        shares.begin(1, 64, begin + Duration::from_millis(32));
        shares.end(0);
        let at = begin + Duration::from_millis(64);
        assert_eq!(evened(&mut shares, &[64, 64], InRound { is_first: false, left: 1 }, at), [80, 48]);
    }

    #[test]
    fn nothing_moves_before_all_have_told_and_nobody_is_left_out() {
        let mut shares = Balance::equal(2);
        shares.tell(0, Duration::from_secs(1), 1);
        assert_eq!(only_step(&mut shares, &[64, 64]), [64, 64]);
        for _ in 0..100 {
            shares.tell(1, Duration::ZERO, 1);
            shares.tell(0, Duration::from_secs(1), 1);
        }
        let least = (128.0 * LEAST / 2.0) as usize;
        let sizes = only_step(&mut shares, &[64, 64]);
        assert!(sizes[0].abs_diff(least) <= 8 && sizes[0] + sizes[1] == 128, "{sizes:?}");
    }

    #[test]
    fn one_hiccup_is_soon_forgotten() {
        let mut shares = Balance::equal(2);
        (0..2).for_each(|replica| shares.tell(replica, Duration::from_millis(10), 64));
        shares.tell(0, Duration::from_secs(10), 64);
        assert_eq!(only_step(&mut shares, &[64, 64]), [48, 80]);
        (0..2).for_each(|_| shares.tell(0, Duration::from_millis(10), 64));
        assert_eq!(only_step(&mut shares, &[64, 64]), [64, 64]);
    }
}
