//! Hands the minibatches of a stretch to the replicas, and ends it for all of them after the same step.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use paceline_data::Epoch;
use paceline_model::Batch;

use super::balance::{Balance, InRound};
use crate::Error;
use crate::run::halt::Halt;

/// Which replica gets which part of a step.
#[derive(Clone, Debug)]
pub(crate) enum Deal {
    /// Each its own.
    Own,
    /// Whoever is free the one that is furthest behind: a replica whose core is slow for a while gets fewer.
    Free,
    /// Each its own, which is more of a step or less of it, by how fast it is.
    BySpeed(Arc<Mutex<Balance>>),
}

impl Deal {
    /// More or less for each of so many replicas; as much at first.
    pub(crate) fn by_speed(replicas: usize) -> Self {
        Self::BySpeed(Arc::new(Mutex::new(Balance::equal(replicas))))
    }
}

/// The minibatches of a stretch: as many parts as replicas, each from the first step to the last.
pub(crate) struct Feed {
    deal: Deal,
    halt: Halt,
    from: u64,
    /// Steps in a round. Replicas that are asked to halt do so after a multiple of as many.
    stride: u64,
    order: Mutex<Order>,
    parts: Vec<Mutex<Epoch>>,
    /// By replica: what was cut for it by its speed and not taken yet.
    cut: Mutex<Vec<VecDeque<Batch>>>,
}

/// What is handed out next.
struct Order {
    /// By part: the next step.
    next: Vec<u64>,
    /// The first step that belongs to the stretch no more.
    until: u64,
    /// Whether replicas were asked to halt and it is settled where.
    halts: bool,
}

/// What a replica takes a step with.
pub(crate) struct Minibatch {
    pub step: u64,
    pub batch: Batch,
    part: usize,
}

impl Feed {
    /// Of the steps of an epoch from `from` to before `until`.
    pub(crate) fn new(parts: Vec<Epoch>, [from, until]: [u64; 2], deal: Deal, stride: u64, halt: &Halt) -> Self {
        let order = Order { next: vec![from; parts.len()], until, halts: false };
        let cut = Mutex::new(vec![VecDeque::new(); parts.len()]);
        let parts = parts.into_iter().map(Mutex::new).collect();
        Self { deal, halt: halt.clone(), from, stride: stride.max(1), order: Mutex::new(order), parts, cut }
    }

    /// The next one for a replica; none when there are no more for it. No part is ever left behind: what has been handed
    /// out of one part is handed out of every other before the end.
    pub(crate) fn take(&self, replica: usize) -> Result<Option<Minibatch>, Error> {
        let Some((part, step)) = self.choose(replica) else { return Ok(None) };
        let batch = match &self.deal {
            Deal::BySpeed(balance) => self.take_cut(part, step, &mut lock(balance))?,
            // Two that come to one part at once may get each other's: both are taken, each once, and either may be called
            // first.
            Deal::Own | Deal::Free => lock(&self.parts[part]).next().transpose()?,
        };
        Ok(batch.map(|batch| Minibatch { step, batch, part }))
    }

    /// What was cut for a replica; the next step is cut for all if there is nothing.
    fn take_cut(&self, replica: usize, step: u64, balance: &mut Balance) -> Result<Option<Batch>, Error> {
        balance.end(replica);
        let mut cut = lock(&self.cut);
        if cut[replica].is_empty() {
            let next = self.parts.iter().filter_map(|part| lock(part).next());
            let mut batches = next.collect::<Result<Vec<Batch>, _>>()?;
            if batches.len() < self.parts.len() {
                return Ok(None);
            }
            balance.even_out(&mut batches, self.place(step), Instant::now());
            cut.iter_mut().zip(batches).for_each(|(of, batch)| of.push_back(batch));
        }
        let batch = cut[replica].pop_front();
        if let Some(batch) = &batch {
            balance.begin(replica, batch.examples(), Instant::now());
        }
        Ok(batch)
    }

    /// Where a step lies in its round; the last one may be short.
    fn place(&self, step: u64) -> InRound {
        let before = (step - self.from) % self.stride;
        InRound { is_first: before == 0, left: (self.stride - before).min(self.end() - step) }
    }

    /// A replica says how long it took by itself for so many examples.
    pub(crate) fn tell_time(&self, replica: usize, took: Duration, examples: usize) {
        if let Deal::BySpeed(balance) = &self.deal {
            lock(balance).tell(replica, took, examples);
        }
    }

    /// Gives the buffers of one back.
    pub(crate) fn recycle(&self, Minibatch { batch, part, .. }: Minibatch) {
        lock(&self.parts[part]).recycle(batch);
    }

    /// The step after the last one.
    pub(crate) fn end(&self) -> u64 {
        lock(&self.order).until
    }

    fn choose(&self, replica: usize) -> Option<(usize, u64)> {
        let Order { next, until, halts } = &mut *lock(&self.order);
        if !*halts && self.halt.is_asked() {
            *halts = true;
            let taken = next.iter().max().map_or(0, |most| most - self.from);
            let whole = taken.checked_next_multiple_of(self.stride).unwrap_or(taken);
            *until = (*until).min(self.from.saturating_add(whole));
        }
        let part = match &self.deal {
            Deal::Own | Deal::BySpeed(_) => replica,
            Deal::Free => {
                let parts = (0..next.len()).map(|away| (replica + away) % next.len());
                parts.min_by_key(|part| next[*part])?
            }
        };
        let step = next[part];
        (step < *until).then(|| {
            next[part] += 1;
            (part, step)
        })
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic of a source is caught where it happens, and nothing else in here can panic halfway.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use paceline_data::{Arrays, Epoch, ExampleShape, Loader, LoaderOptions, Share, TargetShape};
    use paceline_model::Targets;

    use super::{Deal, Feed, Minibatch};
    use crate::run::halt::Halt;

    const STEPS: u64 = 10;

    /// Steps of four examples, one for each part; a feature is the number of its example.
    fn parts(count: usize) -> Vec<Epoch> {
        let examples = STEPS as usize * 4;
        let features = (0..examples).map(|example| example as f32).collect();
        let shape = ExampleShape { features: vec![1], targets: TargetShape::None };
        let source = Arc::new(Arrays::new(features, shape, Targets::None).expect("good arrays"));
        let part = |index| {
            let share = Share { of: count, index };
            let options = LoaderOptions { batch: 4, share, shuffle: false, prefetch: 0, ..LoaderOptions::default() };
            Loader::new(source.clone(), options).expect("good options").epoch(0, 0)
        };
        (0..count).map(part).collect()
    }

    /// The step and the first example of what a replica takes.
    fn take(feed: &Feed, replica: usize) -> Option<(u64, f32)> {
        let taken = feed.take(replica).expect("examples")?;
        let seen = (taken.step, taken.batch.features[0]);
        feed.recycle(taken);
        Some(seen)
    }

    #[test]
    fn each_replica_gets_its_own_part_of_every_step() {
        let feed = Feed::new(parts(2), [0, 3], Deal::Own, 1, &Halt::default());
        let of = |replica| -> Vec<_> { std::iter::from_fn(|| take(&feed, replica)).collect() };
        assert_eq!(of(1), [(0, 2.0), (1, 6.0), (2, 10.0)]);
        assert_eq!(of(0), [(0, 0.0), (1, 4.0), (2, 8.0)]);
        assert_eq!(feed.end(), 3);
    }

    #[test]
    fn whoever_is_free_gets_what_is_furthest_behind_and_its_own_before_that_of_others() {
        let feed = Feed::new(parts(2), [0, 3], Deal::Free, 1, &Halt::default());
        let takers = [1, 1, 0, 1, 1, 1, 0, 1];
        let taken = takers.map(|replica| take(&feed, replica));
        let expected = [(0, 2.0), (0, 0.0), (1, 4.0), (1, 6.0), (2, 10.0), (2, 8.0)];
        assert_eq!(taken[..6], expected.map(Some));
        assert_eq!(taken[6..], [None; 2]);
    }

    #[test]
    fn who_takes_longer_gets_less_of_a_step_and_nothing_is_lost() {
        let feed = Feed::new(parts(2), [0, STEPS], Deal::by_speed(2), 1, &Halt::default());
        let (mut seen, mut sizes) = (Vec::new(), Vec::new());
        while let Some(of) = [1, 0].map(|replica| feed.take(replica).expect("examples")).into_iter().collect() {
            let of: Vec<Minibatch> = of;
            assert_eq!(of[0].step, of[1].step);
            sizes.push([of[1].batch.examples(), of[0].batch.examples()]);
            seen.extend(of.iter().flat_map(|minibatch| minibatch.batch.indices.clone()));
            of.into_iter().for_each(|minibatch| feed.recycle(minibatch));
            feed.tell_time(0, Duration::from_secs(5), 1);
            feed.tell_time(1, Duration::from_secs(1), 1);
        }
        assert_eq!((sizes[0], sizes.len()), ([2, 2], STEPS as usize));
        assert!(sizes.iter().all(|sizes| sizes[0] + sizes[1] == 4), "{sizes:?}");
        assert!(sizes[5..].iter().map(|sizes| sizes[0]).sum::<usize>() <= 5, "{sizes:?}");
        seen.sort_unstable();
        assert!(seen.into_iter().eq(0..STEPS * 4), "every example once");
    }

    #[test]
    fn a_halt_comes_after_a_step_that_all_parts_have_taken() {
        let deals = [(Deal::Own, [0, 0, 1, 0]), (Deal::Free, [0, 0, 0, 0]), (Deal::by_speed(2), [0, 0, 1, 0])];
        for (deal, takers) in deals {
            for stride in [1, 3, 20] {
                let halt = Halt::default();
                let feed = Feed::new(parts(2), [0, STEPS], deal.clone(), stride, &halt);
                let before = takers.map(|replica| take(&feed, replica).expect("more of them").0);
                halt.pause();
                let mut all = before.to_vec();
                for replica in [1, 0] {
                    all.extend(std::iter::from_fn(|| take(&feed, replica)).map(|(step, _)| step));
                }
                let most = before.iter().max().expect("four of them") + 1;
                let end = most.next_multiple_of(stride).min(STEPS);
                all.sort_unstable();
                assert_eq!(all, (0..end).flat_map(|step| [step; 2]).collect::<Vec<_>>(), "{deal:?}, {stride}");
                assert_eq!(feed.end(), end);
            }
        }
    }
}
