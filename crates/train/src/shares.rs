//! How many examples of a step each replica gets, where replicas wait for each other and are not equally fast.

use std::time::Duration;

use paceline_model::Batch;

/// By replica: its share of a step. Who was late for the last rounds gets a little less, who was early a little more.
///
/// Cores differ, and a core that is shared with others can be slower than the next one for seconds at a time; replicas
/// that get as much as each other all go at the pace of the slowest.
#[derive(Debug)]
pub(crate) struct Shares {
    /// Together 1.
    of: Vec<f64>,
    /// What each is to get more than it got since the last round, in examples: a step is cut into groups.
    owed: Vec<f64>,
    /// How long each took by itself in this round, once it has said so.
    took: Vec<Option<Duration>>,
}

/// How much of a difference is made up for at once. More would follow every hiccup.
const GAIN: f64 = 0.2;

/// No share is smaller than this part of an equal one: nobody is left out, whatever happened to it.
const LEAST: f64 = 0.2;

/// The most examples that go together. Kernels take as many at once, and a minibatch of another size costs them more an example
/// than an even end of the round gains.
const TOGETHER: usize = 16;

impl Shares {
    /// As much for each of so many replicas.
    pub(crate) fn equal(replicas: usize) -> Self {
        let count = replicas.max(1);
        Self { of: vec![1.0 / count as f64; count], owed: vec![0.0; count], took: vec![None; count] }
    }

    /// A replica says how long it took by itself in this round. When all have said so, shares move.
    pub(crate) fn tell(&mut self, replica: usize, took: Duration) {
        self.took[replica] = Some(took.max(Duration::from_nanos(1)));
        let Some(took) = self.took.iter().copied().collect::<Option<Vec<Duration>>>() else { return };
        self.took.fill(None);
        // What is owed from round to round is a part of a group, and comes of the shares themselves.
        self.owed.fill(0.0);
        let logs: Vec<f64> = took.iter().map(|took| took.as_secs_f64().ln()).collect();
        let mean = logs.iter().sum::<f64>() / logs.len() as f64;
        self.of.iter_mut().zip(logs).for_each(|(share, log)| *share *= (GAIN * (mean - log)).exp());
        self.normalise();
        let least = LEAST / self.of.len() as f64;
        self.of.iter_mut().for_each(|share| *share = share.max(least));
        self.normalise();
    }

    fn normalise(&mut self) {
        let sum: f64 = self.of.iter().sum();
        self.of.iter_mut().for_each(|share| *share /= sum);
    }

    /// Cuts a step of so many examples: how many each gets.
    fn cut(&mut self, examples: usize) -> Vec<usize> {
        let equal = examples / self.of.len();
        let together = (equal / 4).checked_ilog2().map_or(1, |log| TOGETHER.min(1 << log));
        let (mut wanted, mut given) = (0.0, 0);
        let count = self.of.len();
        let cut = |(replica, (share, owed)): (usize, (&f64, &mut f64))| {
            let own = share * examples as f64 + *owed;
            wanted += own;
            // Groups move; who is as fast as the others gets exactly as much.
            let equal = examples * (replica + 1) / count;
            let moved = ((wanted - equal as f64) / together as f64).round() as isize * together as isize;
            let end = match replica + 1 == count {
                true => examples,
                false => equal.saturating_add_signed(moved).clamp(given, examples),
            };
            let gets = end - given;
            (given, *owed) = (end, own - gets as f64);
            gets
        };
        self.of.iter().zip(&mut self.owed).enumerate().map(cut).collect()
    }

    /// Moves rows between the batches of a step, one of each replica, until each has its share.
    pub(crate) fn even_out(&mut self, batches: &mut [Batch]) {
        let sizes = self.cut(batches.iter().map(Batch::examples).sum());
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
    use std::time::Duration;

    use paceline_model::Batch;

    use super::{LEAST, Shares};

    fn batches(sizes: &[usize]) -> Vec<Batch> {
        let mut next = 0..;
        let batch = |size: &usize| {
            let indices: Vec<u64> = next.by_ref().take(*size).collect();
            let features = indices.iter().map(|index| *index as f32).collect();
            Batch { indices, width: 1, features, ..Batch::empty() }
        };
        sizes.iter().map(batch).collect()
    }

    fn evened(shares: &mut Shares, sizes: &[usize]) -> Vec<usize> {
        let mut batches = batches(sizes);
        shares.even_out(&mut batches);
        let mut all: Vec<u64> = batches.iter().flat_map(|batch| batch.indices.clone()).collect();
        all.sort_unstable();
        assert!(all.into_iter().eq(0..sizes.iter().sum::<usize>() as u64), "every example once");
        batches.iter().map(Batch::examples).collect()
    }

    #[test]
    fn who_is_as_fast_as_the_others_gets_as_much() {
        let mut shares = Shares::equal(3);
        assert_eq!(evened(&mut shares, &[50, 50, 50]), [50, 50, 50]);
        assert_eq!(evened(&mut shares, &[50, 10, 0]), [20, 20, 20], "a short last step");
        assert_eq!(evened(&mut shares, &[0, 0, 0]), [0, 0, 0]);
        (0..3).for_each(|replica| shares.tell(replica, Duration::from_millis(7)));
        assert_eq!(evened(&mut shares, &[64, 64, 64]), [64, 64, 64]);
        assert_eq!(evened(&mut shares, &[2, 0, 0]).iter().sum::<usize>(), 2);
    }

    #[test]
    fn a_slow_one_gets_less_until_all_take_as_long() {
        // What each takes for an example.
        for paces in [[1.0, 2.0, 1.0], [3.0, 1.0, 1.0]] {
            let mut shares = Shares::equal(3);
            let mut sums = [0; 3];
            for round in 0..300 {
                let sizes = evened(&mut shares, &[64, 64, 64]);
                let took = |replica: usize| Duration::from_secs_f64(paces[replica] * sizes[replica] as f64);
                (0..3).for_each(|replica| shares.tell(replica, took(replica)));
                if round >= 100 {
                    sums.iter_mut().zip(sizes).for_each(|(sum, size)| *sum += size);
                }
            }
            let times = [0, 1, 2].map(|replica| sums[replica] as f64 * paces[replica]);
            let mean = times.iter().sum::<f64>() / 3.0;
            assert!(times.iter().all(|time| (time / mean - 1.0).abs() < 0.05), "{times:?}");
        }
    }

    #[test]
    fn nothing_moves_before_all_have_told_and_nobody_is_left_out() {
        let mut shares = Shares::equal(2);
        shares.tell(0, Duration::from_secs(1));
        assert_eq!(evened(&mut shares, &[64, 64]), [64, 64]);
        for _ in 0..100 {
            shares.tell(1, Duration::ZERO);
            shares.tell(0, Duration::from_secs(1));
        }
        let least = (128.0 * LEAST / 2.0) as usize;
        let sizes = evened(&mut shares, &[64, 64]);
        assert!(sizes[0].abs_diff(least) <= 8 && sizes[0] + sizes[1] == 128, "{sizes:?}");
    }
}
