use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, Sender, bounded};
use paceline_model::{Batch, Targets, slice_of};

use crate::source::for_each_piece;
use crate::{Error, Normaliser, Order, Shuffle, Source, TargetShape};

/// How a source is cut into batches.
#[derive(Clone, Debug)]
pub struct LoaderOptions {
    /// Examples in a step; the last one of an epoch may be shorter.
    pub batch: usize,
    /// The part of every step that batches hold.
    pub share: Share,
    /// A new order for every epoch, or from first to last.
    pub shuffle: bool,
    /// Whether sequences of about the same length come together in a step, in an order that is new for every epoch all the same.
    pub by_length: bool,
    /// What the order depends on, together with the epoch.
    pub seed: u64,
    /// Batches that are read ahead; 0 reads them only when asked.
    pub prefetch: usize,
    /// What is done to the features.
    pub normaliser: Option<Normaliser>,
    /// What is done to targets that are numbers.
    pub target_normaliser: Option<Normaliser>,
    /// What an example of each class weighs, times its own weight if it has one.
    pub class_weights: Option<Vec<f32>>,
}

/// One of several equal parts of every step, for one of several readers. In a short last step a part may be empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// How many parts there are.
    pub of: usize,
    /// Which one it is, from 0.
    pub index: usize,
}

impl Default for Share {
    fn default() -> Self {
        Self { of: 1, index: 0 }
    }
}

impl Default for LoaderOptions {
    fn default() -> Self {
        Self {
            batch: 32,
            share: Share::default(),
            shuffle: true,
            by_length: false,
            seed: 0,
            prefetch: 2,
            normaliser: None,
            target_normaliser: None,
            class_weights: None,
        }
    }
}

impl LoaderOptions {
    fn validate(&self, source: &dyn Source) -> Result<(), Error> {
        if self.by_length {
            check_by_length(source, self.shuffle)?;
        }
        if self.batch == 0 {
            let expected = "at least 1".to_owned();
            return Err(Error::BadSetting { setting: "batch", expected, found: "0".to_owned() });
        }
        if self.share.index >= self.share.of {
            let (expected, found) =
                ("one of the parts".to_owned(), format!("{} of {}", self.share.index, self.share.of));
            return Err(Error::BadSetting { setting: "share", expected, found });
        }
        if let Some(normaliser) = &self.normaliser {
            normaliser.check(source.shape().width())?;
        }
        if let (Some(normaliser), TargetShape::Values { names }) = (&self.target_normaliser, &source.shape().targets) {
            normaliser.check(names.len())?;
        }
        let Some(weights) = &self.class_weights else { return Ok(()) };
        let TargetShape::Classes { names } = &source.shape().targets else {
            let message = "need targets that are classes: leave them out for other data".into();
            return Err(Error::Unsuitable { setting: "class_weights", message });
        };
        let fits = weights.len() == names.len() && weights.iter().all(|weight| weight.is_finite() && *weight >= 0.0);
        if !fits || weights.iter().all(|weight| *weight == 0.0) {
            let expected = format!("{} finite numbers of 0 or more, one for each class, not all 0", names.len());
            return Err(Error::BadSetting { setting: "class_weights", expected, found: format!("{weights:?}") });
        }
        Ok(())
    }
}

/// Fails with what keeps the steps of a source from being put together by length.
pub fn check_by_length(source: &dyn Source, shuffle: bool) -> Result<(), Error> {
    let message = match &source.shape().features[..] {
        _ if !shuffle => {
            "cannot hold beside `data.shuffle = false`, which keeps the order of the data: set one of them".into()
        }
        _ if source.partitions().is_some() => {
            "cannot be used for partitions, each of which has an order of its own: leave it out".into()
        }
        _ if source.order() == Order::Sequential => {
            "cannot be used for data that is read from first to last: leave it out".into()
        }
        [_, _] => return Ok(()),
        other => format!("is for sequences of rows, and these examples are of the shape {other:?}: leave it out"),
    };
    Err(Error::Unsuitable { setting: "data.by_length", message })
}

/// Turns a source into batches, read ahead by a thread of its own.
///
/// The order depends on the seed and the epoch only, so that an epoch begun at step `s` gives the very batches that
/// it would have given from there.
pub struct Loader {
    filler: Arc<Filler>,
    /// Batches that came back, to be filled again; kept across epochs. When it is full, a batch is freed instead.
    spare: (Sender<Batch>, Receiver<Batch>),
}

/// What the thread needs to fill a batch.
struct Filler {
    source: Arc<dyn Source>,
    options: LoaderOptions,
    /// Of all examples, where steps hold those of about the same length.
    lengths: Option<Vec<u32>>,
    /// The last order by length, with its epoch.
    listed: Mutex<Option<(u64, Shuffle)>>,
}

/// Steps of every sequence up to the last one that is there.
fn lengths(source: &dyn Source) -> Result<Vec<u32>, Error> {
    let steps = source.shape().features.first().copied().unwrap_or(1).max(1);
    let mut lengths = Vec::with_capacity(source.examples());
    for_each_piece(source, |batch| {
        let width = (batch.width / steps).max(1);
        let length = |row: &[f32]| row.iter().rposition(|number| !number.is_nan()).map_or(0, |last| last / width + 1);
        lengths.extend(batch.features.chunks_exact(batch.width.max(1)).map(|row| length(row) as u32));
        Ok(())
    })?;
    Ok(lengths)
}

impl Loader {
    /// Checks the options against the source.
    pub fn new(source: Arc<dyn Source>, options: LoaderOptions) -> Result<Self, Error> {
        options.validate(&*source)?;
        // In use at once: those ready, one being filled, one with the caller.
        let spare = bounded(options.prefetch + 2);
        let lengths = if options.by_length { Some(lengths(&*source)?) } else { None };
        Ok(Self { filler: Arc::new(Filler { source, options, lengths, listed: Mutex::default() }), spare })
    }

    /// The source that batches come from.
    pub fn source(&self) -> &Arc<dyn Source> {
        &self.filler.source
    }

    /// The options in force.
    pub fn options(&self) -> &LoaderOptions {
        &self.filler.options
    }

    /// Batches in an epoch, a short last one included.
    pub fn steps_per_epoch(&self) -> u64 {
        self.filler.steps()
    }

    /// Fills a batch with the examples at these positions of an epoch's order, now and on this thread: for a reader that
    /// is told what comes next.
    pub fn read(&self, epoch: u64, positions: impl IntoIterator<Item = u64>, batch: &mut Batch) -> Result<(), Error> {
        if let Some(partitions) = self.filler.source.partitions() {
            let of = |source: &dyn Source, partition| self.filler.shuffle_of(source, u64::from(partition), epoch);
            let index = |position| partitions.index_at(position, of);
            let indices = positions.into_iter().map(index).collect::<Result<Vec<u64>, Error>>()?;
            return self.filler.fill(&indices, epoch, batch);
        }
        let shuffle = self.filler.shuffle(epoch);
        let examples = shuffle.examples();
        let index = |position| match position < examples {
            true => Ok(shuffle.index_at(position)),
            false => Err(Error::IndexOutOfRange { index: position, examples: examples as usize }),
        };
        let indices = positions.into_iter().map(index).collect::<Result<Vec<u64>, Error>>()?;
        self.filler.fill(&indices, epoch, batch)
    }

    /// The batches of one epoch, from step `from_step` on.
    pub fn epoch(&self, epoch: u64, from_step: u64) -> Epoch {
        let shuffle = self.filler.shuffle(epoch);
        let indices = Vec::with_capacity(self.filler.options.batch.min(self.filler.source.examples()));
        let mut steps = Steps { filler: Arc::clone(&self.filler), shuffle, epoch, next: from_step, indices };
        let (back, spare) = self.spare.clone();
        if self.filler.options.prefetch == 0 {
            return Epoch { feed: Feed::Inline(steps), back, spare };
        }
        // When the channel is full the thread waits in `send`; dropping the receiver wakes and ends it.
        let (sender, ready) = bounded(self.filler.options.prefetch);
        let (refusal, buffers) = (sender.clone(), spare.clone());
        let thread = std::thread::Builder::new().name("paceline-loader".to_owned()).spawn(move || {
            while let Some(result) = steps.next_from(&buffers) {
                let last = result.is_err();
                if sender.send(result).is_err() || last {
                    return;
                }
            }
        });
        let thread = match thread {
            Ok(thread) => Some(thread),
            Err(source) => {
                refusal.send(Err(Error::LoaderThread { source })).expect("the channel is empty and has room for one");
                None
            }
        };
        Epoch { feed: Feed::Thread { ready: Some(ready), thread }, back, spare }
    }
}

impl Filler {
    fn steps(&self) -> u64 {
        self.source.examples().div_ceil(self.options.batch) as u64
    }

    fn shuffle(&self, epoch: u64) -> Shuffle {
        let Some(lengths) = &self.lengths else { return self.shuffle_of(&*self.source, 0, epoch) };
        let mut listed = self.listed.lock().unwrap_or_else(PoisonError::into_inner);
        match &*listed {
            Some((of, shuffle)) if *of == epoch => shuffle.clone(),
            _ => {
                let shuffle = self.shuffle_of(&*self.source, 0, epoch);
                let shuffle = shuffle.by_length(lengths, self.options.batch, self.options.seed, epoch);
                *listed = Some((epoch, shuffle.clone()));
                shuffle
            }
        }
    }

    /// The order of one of several partitions; that of the first is the order of data that is seen whole.
    fn shuffle_of(&self, source: &dyn Source, partition: u64, epoch: u64) -> Shuffle {
        let (examples, seed) = (source.examples(), self.options.seed ^ partition.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        match self.options.shuffle {
            true => Shuffle::new(examples, source.order(), seed, epoch),
            false => Shuffle::none(examples),
        }
    }

    fn fill(&self, indices: &[u64], epoch: u64, batch: &mut Batch) -> Result<(), Error> {
        // A source without weights clears them; holding on to the vector saves an allocation per batch.
        let held = if self.source.weighted() { None } else { batch.weights.take() };
        self.source.read(indices, batch)?;
        batch.epoch = epoch;
        if let Some(normaliser) = &self.options.normaliser {
            normaliser.apply(&mut batch.features, batch.width)?;
        }
        if let (Some(normaliser), Targets::Values { width, values }) =
            (&self.options.target_normaliser, &mut batch.targets)
        {
            normaliser.apply(values, *width)?;
        }
        if let (Some(of_class), Targets::Classes(classes)) = (&self.options.class_weights, &batch.targets) {
            let weights = batch.weights.get_or_insert_with(|| {
                let mut weights = held.unwrap_or_default();
                weights.clear();
                weights.resize(indices.len(), 1.0);
                weights
            });
            weights.iter_mut().zip(classes).for_each(|(weight, class)| *weight *= of_class[*class as usize]);
        }
        Ok(())
    }
}

/// The steps of one epoch that are still to be filled.
struct Steps {
    filler: Arc<Filler>,
    shuffle: Shuffle,
    epoch: u64,
    next: u64,
    indices: Vec<u64>,
}

impl Steps {
    /// Fills the next batch, a spare one if there is any; after an error there is no next one.
    fn next_from(&mut self, spare: &Receiver<Batch>) -> Option<Result<Batch, Error>> {
        let step = self.next;
        if step >= self.filler.steps() {
            return None;
        }
        self.next += 1;
        let mut batch = spare.try_recv().unwrap_or_else(|_| Batch::empty());
        let LoaderOptions { batch: size, share: Share { of, index }, .. } = self.filler.options;
        let (start, index) = (step * size as u64, index as u64);
        let total = (self.shuffle.examples() - start).min(size as u64);
        self.indices.clear();
        let positions = slice_of(total, index..index + 1, of as u64);
        self.indices.extend(positions.map(|position| self.shuffle.index_at(start + position)));
        // A panic in a source must reach the caller as an error, not as an epoch that silently ends early.
        let filled = catch_unwind(AssertUnwindSafe(|| self.filler.fill(&self.indices, self.epoch, &mut batch)));
        let result = filled.unwrap_or_else(|panic| {
            let message = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
            let message = message.or_else(|| panic.downcast_ref::<String>().cloned());
            let message = message.unwrap_or_else(|| "no message".to_owned());
            Err(Error::LoaderPanicked { epoch: self.epoch, step, message })
        });
        if result.is_err() {
            self.next = u64::MAX;
        }
        Some(result.map(|()| batch))
    }
}

/// The batches of one epoch, in order. Dropping it midway stops and joins its thread.
pub struct Epoch {
    feed: Feed,
    back: Sender<Batch>,
    spare: Receiver<Batch>,
}

enum Feed {
    Inline(Steps),
    Thread { ready: Option<Receiver<Result<Batch, Error>>>, thread: Option<JoinHandle<()>> },
}

impl Epoch {
    /// The next batch, `None` at the end of the epoch; after an error comes the end.
    #[expect(clippy::should_implement_trait, reason = "a borrowed batch goes back by `recycle` between two calls")]
    pub fn next(&mut self) -> Option<Result<Batch, Error>> {
        match &mut self.feed {
            Feed::Inline(steps) => steps.next_from(&self.spare),
            Feed::Thread { ready, .. } => ready.as_ref().expect("taken only by drop").recv().ok(),
        }
    }

    /// Gives a batch back, so that its vectors are filled again.
    pub fn recycle(&mut self, batch: Batch) {
        // A full channel means that more batches came back than were lent; freeing one is all there is to do.
        let _ = self.back.try_send(batch);
    }
}

impl Drop for Epoch {
    fn drop(&mut self) {
        let Feed::Thread { ready, thread } = &mut self.feed else { return };
        let ready = ready.take().expect("taken only here");
        // No more than wait there now: every slot that is freed lets the thread read one more.
        for batch in ready.try_iter().take(ready.len()).flatten() {
            let _ = self.back.try_send(batch);
        }
        drop(ready);
        if let Some(thread) = thread.take() {
            // Panics inside a batch were caught and sent; one outside has nobody left to tell.
            let _ = thread.join();
        }
    }
}
