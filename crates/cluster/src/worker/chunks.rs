//! Contributions, sums and results in chunks: a chunk leaves as soon as it is final, is summed as soon as all have sent
//! theirs, and is never copied on the way.
//!
//! ```text
//! body of a frame with a chunk
//! +--------------------+-------+---------+--------+---------------------------+
//! | length and word    | u32   | u32     | f64    | f32 LE, the values of     |
//! | (see `wire`)       | index | of      | weight | the chunk                 |
//! +--------------------+-------+---------+--------+---------------------------+
//! index: which chunk of the whole; of: how many the sender sends to this receiver, and 0 in a frame that says that there are none
//! weight: that of the contribution, or of all that were summed
//! ```

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use bytes::Bytes;
use crossbeam_channel::Sender;
use paceline_exchange::reduce;
use paceline_exchange::rounds::message::ToPeer;
use paceline_exchange::rounds::{Incarnation, Round, ViewNumber, WorkNumber};
use paceline_train::{Layout, Outlet, Parts, Sink};

use super::compute::{Done, ReplicaDone};
use crate::wire::Word;

/// Bytes between the word and the values.
const PREFIX: usize = 16;

/// How numbers of a contribution are cut into chunks. It depends on nothing but their count, so that a contribution can be
/// sent to the members of another view as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cut {
    width: usize,
    length: usize,
}

impl Cut {
    /// Chunks that go out in one frame, and enough of them that several members can share them.
    pub(super) fn of(width: usize) -> Self {
        Self { width, length: width.div_ceil(16).clamp(1024, 60 << 10) }
    }

    /// How many chunks there are.
    pub(super) fn count(&self) -> usize {
        self.width.div_ceil(self.length)
    }

    /// The numbers of a chunk.
    pub(super) fn range(&self, chunk: usize) -> Range<usize> {
        chunk * self.length..self.width.min((chunk + 1) * self.length)
    }

    /// The chunks that the member at a place sums; none if there are fewer chunks than members. They are dealt one by one, so
    /// that all members have something to sum whenever parts become final, and in the end, when nothing else is to be done.
    pub(super) fn of_member(&self, place: usize, members: usize) -> impl ExactSizeIterator<Item = usize> + use<> {
        (place..self.count().max(place)).step_by(members.max(1))
    }

    /// The place of the member that sums a chunk.
    pub(super) fn place(&self, chunk: usize, members: usize) -> usize {
        chunk % members.max(1)
    }
}

/// A chunk that came from a wire, or goes there: where its values lie.
#[derive(Clone, Debug)]
pub(super) struct Chunk {
    pub index: usize,
    pub weight: f64,
    /// Little-endian values.
    pub values: Bytes,
    /// The whole body of a frame that they lie in, if it is one to be sent.
    framed: Option<(Head, Bytes)>,
}

/// What is said beside a chunk when it is sent.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Head {
    pub word: ToPeer,
    /// How many chunks the receiver gets.
    pub of: usize,
}

impl Head {
    /// The bytes before the values.
    fn write(&self, index: usize, weight: f64) -> Vec<u8> {
        let mut body = Vec::with_capacity(256);
        Word::ToPeer(self.word.clone()).begin_body(&mut body);
        body.extend((index as u32).to_le_bytes());
        body.extend((self.of as u32).to_le_bytes());
        body.extend(weight.to_le_bytes());
        body
    }
}

impl Chunk {
    /// Reads what came beside a word; checks that it is a chunk of such numbers, or says that there are none. Also says how many
    /// the sender sends.
    pub(super) fn read(numbers: &Bytes, cut: Cut) -> Result<(Option<Self>, usize), String> {
        let Some((prefix, values)) = numbers.split_first_chunk::<PREFIX>() else {
            return Err(format!("expected a part of a contribution, found {} bytes", numbers.len()));
        };
        let number = |at: usize| u32::from_le_bytes([prefix[at], prefix[at + 1], prefix[at + 2], prefix[at + 3]]);
        let (index, of) = (number(0) as usize, number(4) as usize);
        let weight = f64::from_le_bytes(prefix[8..].try_into().expect("eight bytes"));
        if of == 0 && values.is_empty() {
            return Ok((None, 0));
        }
        let expected = if index < cut.count() { 4 * cut.range(index).len() } else { 0 };
        if values.len() != expected || of == 0 || of > cut.count() || !weight.is_finite() || weight < 0.0 {
            let (count, found) = (cut.count(), values.len());
            return Err(format!(
                "expected a chunk of {count} with {expected} bytes, found chunk {index} of {of} with {found}"
            ));
        }
        Ok((Some(Self { index, weight, values: numbers.slice(PREFIX..), framed: None }), of))
    }

    /// What says, beside a word, that there are no chunks.
    pub(super) const NONE: [u8; PREFIX] = [0; PREFIX];

    /// The body of a frame that carries it beside a word: where it lies, or a copy if it lies beside another word.
    pub(super) fn body(&self, head: &Head) -> Bytes {
        match &self.framed {
            Some((framed, body)) if framed == head => body.clone(),
            _ => [&head.write(self.index, self.weight)[..], &self.values].concat().into(),
        }
    }

    /// What goes through the master to one that is not reached: the numbers behind the word.
    pub(super) fn numbers(&self, head: &Head) -> Bytes {
        let body = self.body(head);
        body.slice(body.len() - self.values.len() - PREFIX..)
    }

    /// Made of a buffer that begins with the head.
    fn framed(index: usize, weight: f64, head: Head, buffer: Vec<u8>, values_at: usize) -> Self {
        let body = Bytes::from(buffer);
        Self { index, weight, values: body.slice(values_at..), framed: Some((head, body)) }
    }

    /// Its memory, if nobody else uses it.
    fn into_memory(self) -> Option<Vec<u8>> {
        let Self { values, framed, .. } = self;
        let (_, body) = framed?;
        drop(values);
        body.try_into_mut().ok().map(Vec::from)
    }
}

/// A contribution while it is computed: takes its parts from the threads of the replica, and passes on chunks that are full.
pub(super) struct Outgoing {
    /// Who computes it, of which round, and as which work.
    pub key: (Incarnation, Round, WorkNumber),
    cut: Cut,
    /// The members that chunks go to, if that is known.
    gives: Option<(ViewNumber, usize)>,
    is_void: AtomicBool,
    /// Whether a number of it is not finite.
    is_invalid: AtomicBool,
    weight: OnceLock<f64>,
    chunks: Vec<Mutex<Filling>>,
    spare: Mutex<Spare>,
    done: Sender<ReplicaDone>,
}

#[derive(Default)]
struct Filling {
    /// The head, then the values.
    buffer: Vec<u8>,
    values_at: usize,
    filled: usize,
    /// The bits of the largest magnitude so far: what is not finite is above all that is.
    largest: u32,
}

impl Outgoing {
    /// Nothing of it is there yet. Memory of chunks that nobody uses any more is used again.
    pub(super) fn new(
        key: (Incarnation, Round, WorkNumber),
        cut: Cut,
        gives: Option<(ViewNumber, usize)>,
        spare: Spare,
        done: Sender<ReplicaDone>,
    ) -> Arc<Self> {
        let chunks = (0..cut.count()).map(|_| Mutex::default()).collect();
        let (is_void, is_invalid) = (AtomicBool::new(false), AtomicBool::new(false));
        let (weight, spare) = (OnceLock::new(), Mutex::new(spare));
        Arc::new(Self { key, cut, gives, is_void, is_invalid, weight, chunks, spare, done })
    }

    /// Nobody wants it any more.
    pub(super) fn set_void(&self) {
        self.is_void.store(true, Ordering::Relaxed);
    }

    /// Whether it holds a number that is not finite.
    pub(super) fn is_invalid(&self) -> bool {
        self.is_invalid.load(Ordering::Relaxed)
    }

    /// What is said beside a chunk; whoever is sent it in another view hears something else.
    fn head(&self, index: usize) -> Head {
        let (view, members) = self.gives.unwrap_or((0, 1));
        let of = self.cut.of_member(self.cut.place(index, members), members).len();
        Head { word: ToPeer::Contribution { view, round: self.key.1 }, of }
    }

    fn lay_out(&self, index: usize, filling: &mut Filling) {
        let head = self.head(index).write(index, self.weight.get().copied().unwrap_or_default());
        let spare = lock(&self.spare).take();
        filling.values_at = head.len();
        filling.buffer = spare;
        filling.buffer.resize(head.len() + 4 * self.cut.range(index).len(), 0);
        filling.buffer[..head.len()].copy_from_slice(&head);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Outlet for Outgoing {
    fn put(&self, part: Range<usize>, values: &[f32]) {
        let mut at = part.start;
        while at < part.end {
            let index = at / self.cut.length;
            let chunk = self.cut.range(index);
            let end = part.end.min(chunk.end);
            let from = &values[at - part.start..end - part.start];
            let filling = &mut *lock(&self.chunks[index]);
            if filling.buffer.is_empty() {
                self.lay_out(index, filling);
            }
            let start = filling.values_at;
            let to = &mut filling.buffer[start + 4 * (at - chunk.start)..start + 4 * (end - chunk.start)];
            let mut largest = filling.largest;
            for (to, value) in to.as_chunks_mut::<4>().0.iter_mut().zip(from) {
                *to = value.to_le_bytes();
                largest = largest.max(value.abs().to_bits());
            }
            filling.largest = largest;
            filling.filled += from.len();
            if filling.filled == chunk.len() {
                let Filling { buffer, values_at, largest, .. } = std::mem::take(filling);
                if largest >= f32::INFINITY.to_bits() {
                    // It is not sent, so that no round can come to it.
                    self.is_invalid.store(true, Ordering::Relaxed);
                    return;
                }
                let weight = self.weight.get().copied().unwrap_or_default();
                let chunk = Chunk::framed(index, weight, self.head(index), buffer, values_at);
                // Nobody listens any more when the process ends.
                let _ = self.done.send(ReplicaDone(Done::Chunk(self.key, chunk)));
            }
            at = end;
        }
    }
}

impl Sink for Outgoing {
    fn begin(&self, weight: f64) {
        let _ = self.weight.set(weight);
    }

    fn is_void(&self) -> bool {
        self.is_void.load(Ordering::Relaxed)
    }
}

/// Memory of chunks that were sent.
#[derive(Default)]
pub(super) struct Spare(Vec<Vec<u8>>);

impl Spare {
    /// Keeps memory that nobody else uses any more.
    pub(super) fn give(&mut self, chunks: impl IntoIterator<Item = Chunk>) {
        self.0.extend(chunks.into_iter().filter_map(Chunk::into_memory));
    }

    /// Memory of what it may have been; empty if there is none left.
    fn take(&mut self) -> Vec<u8> {
        self.0.pop().unwrap_or_default()
    }
}

/// What a round came to, chunk after chunk.
#[derive(Clone, Debug)]
pub(super) struct Whole {
    cut: Cut,
    pub weight: f64,
    chunks: Vec<Bytes>,
}

impl Whole {
    /// Of all chunks, if they are all there.
    pub(super) fn of(cut: Cut, chunks: &[Option<Chunk>]) -> Option<Self> {
        let weight = chunks.first().map_or(Some(0.0), |first| first.as_ref().map(|chunk| chunk.weight))?;
        let chunks = chunks.iter().map(|chunk| Some(chunk.as_ref()?.values.clone())).collect::<Option<_>>()?;
        Some(Self { cut, weight, chunks })
    }

    /// Reads one that a peer sent as a whole.
    pub(super) fn read(cut: Cut, numbers: &Bytes) -> Result<Self, String> {
        let (expected, found) = (8 + 4 * cut.width, numbers.len());
        let weight = numbers.first_chunk::<8>().filter(|_| expected == found);
        let weight = weight.ok_or_else(|| format!("expected a result of {expected} bytes, found {found}"))?;
        let slice = |range: Range<usize>| numbers.slice(8 + 4 * range.start..8 + 4 * range.end);
        let chunks = (0..cut.count()).map(|chunk| slice(cut.range(chunk))).collect();
        Ok(Self { cut, weight: f64::from_le_bytes(*weight), chunks })
    }

    /// The bytes that [`Self::read`] takes.
    pub(super) fn write(&self) -> Vec<u8> {
        let weight = self.weight.to_le_bytes();
        std::iter::once(&weight[..]).chain(self.chunks.iter().map(|chunk| &chunk[..])).flatten().copied().collect()
    }
}

impl Parts for Whole {
    fn copy(&self, from: usize, to: &mut [f32]) {
        let (mut at, end) = (from, from + to.len());
        while at < end {
            let index = at / self.cut.length;
            let chunk = self.cut.range(index);
            let stop = end.min(chunk.end);
            let values = &self.chunks[index][4 * (at - chunk.start)..4 * (stop - chunk.start)];
            to[at - from..stop - from].iter_mut().zip(reduce::values(values)).for_each(|(to, value)| *to = value);
            at = stop;
        }
    }
}

/// Numbers that are summed at a time.
const BLOCK: usize = 1024;

/// What a chunk of all contributions comes to, in the order of the members; it is sent beside this.
pub(super) fn reduced(
    cut: Cut,
    layout: Layout,
    index: usize,
    contributions: &[&Chunk],
    head: Head,
    spare: &mut Spare,
) -> Chunk {
    let range = cut.range(index);
    let weights: Vec<f32> = contributions.iter().map(|chunk| chunk.weight as f32).collect();
    let weight = f64::from(weights.iter().sum::<f32>());
    let (before, mut buffer) = (head.write(index, weight), spare.take());
    buffer.resize(before.len() + 4 * range.len(), 0);
    buffer[..before.len()].copy_from_slice(&before);
    let shares = reduce::shares(&weights);
    let summed = layout.summed.clamp(range.start, range.end) - range.start;
    // Blocks that stay in the cache from the first contribution to the last.
    let mut room = [0.0; BLOCK];
    for stretch in [0..summed, summed..range.len()] {
        for at in stretch.clone().step_by(BLOCK) {
            let end = stretch.end.min(at + BLOCK);
            let room = &mut room[..end - at];
            let values = contributions.iter().map(|chunk| reduce::values(&chunk.values[4 * at..4 * end]));
            match end <= summed {
                true => reduce::sum(values, room),
                false => reduce::mean(shares.iter().copied().zip(values), room),
            }
            let to = buffer[before.len()..][4 * at..4 * end].as_chunks_mut::<4>().0;
            to.iter_mut().zip(room).for_each(|(to, value)| *to = value.to_le_bytes());
        }
    }
    Chunk::framed(index, weight, head, buffer, before.len())
}

/// Of a view and a round.
pub(super) type RoundKey = (ViewNumber, Round);

#[cfg(test)]
mod tests {
    use crossbeam_channel::unbounded;

    use super::*;

    fn chunks_of(cut: Cut, gives: Option<(ViewNumber, usize)>, values: &[f32]) -> Vec<Chunk> {
        let (done, told) = unbounded();
        let out = Outgoing::new((7, 3, 1), cut, gives, Spare::default(), done);
        out.begin(2.5);
        // Parts come in any order, and do not end where chunks do.
        let parts: Vec<Range<usize>> =
            (0..values.len()).step_by(700).map(|at| at..values.len().min(at + 700)).rev().collect();
        parts.into_iter().for_each(|part| out.put(part.clone(), &values[part]));
        let chunk = |ReplicaDone(done)| match done {
            Done::Chunk((7, 3, 1), chunk) => chunk,
            _ => panic!("only chunks are told"),
        };
        told.try_iter().map(chunk).collect()
    }

    #[test]
    fn a_contribution_comes_out_in_whole_chunks_and_is_read_as_it_was() {
        let values: Vec<f32> = (0..20_000).map(|at| (at as f32).sin()).collect();
        let cut = Cut::of(values.len());
        let chunks = chunks_of(cut, Some((4, 3)), &values);
        assert_eq!(chunks.len(), cut.count());
        let mut read: Vec<Option<Chunk>> = vec![None; cut.count()];
        for chunk in chunks {
            let place = cut.place(chunk.index, 3);
            let of = cut.of_member(place, 3).len();
            let head = Head { word: ToPeer::Contribution { view: 4, round: 3 }, of };
            assert!(chunk.body(&head).as_ptr() < chunk.values.as_ptr(), "sent from where it lies");
            let read_back = |head: &Head| {
                let (chunk, of) = Chunk::read(&chunk.numbers(head), cut).expect("good bytes");
                (chunk.expect("a chunk"), of)
            };
            let (came, came_of) = read_back(&head);
            assert_eq!((came.index, came.weight, came_of), (chunk.index, 2.5, of));
            let other = Head { word: ToPeer::Contribution { view: 5, round: 3 }, of: 1 };
            let (again, of_again) = read_back(&other);
            assert_eq!((again.values, of_again), (came.values.clone(), 1), "beside another word it is copied");
            let index = came.index;
            read[index] = Some(came);
        }
        let whole = Whole::of(cut, &read).expect("all chunks");
        let again = Whole::read(cut, &whole.write().into()).expect("a whole result");
        for result in [&whole, &again] {
            let mut found = vec![0.0; 9000];
            result.copy(1234, &mut found);
            assert_eq!(found, values[1234..10_234]);
            assert_eq!(result.weight, 2.5);
        }
        read[1] = None;
        assert!(Whole::of(cut, &read).is_none());
    }

    #[test]
    fn what_is_not_finite_is_not_sent() {
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let (done, told) = unbounded();
            let cut = Cut::of(5000);
            let out = Outgoing::new((7, 3, 1), cut, None, Spare::default(), done);
            out.begin(1.0);
            let mut values = vec![-f32::MAX; 5000];
            values[4321] = bad;
            out.put(0..4000, &values[..4000]);
            assert!(!out.is_invalid());
            out.put(4000..5000, &values[4000..]);
            assert!(out.is_invalid());
            assert_eq!(told.try_iter().count(), cut.count() - 1, "the chunk with {bad} stays here");
        }
    }

    #[test]
    fn every_chunk_falls_to_one_member() {
        for (width, members) in [(20_000, 3), (100, 2), (1_413_010, 16), (1, 5)] {
            let cut = Cut::of(width);
            let own = |place| {
                cut.of_member(place, members).inspect(move |chunk| assert_eq!(cut.place(*chunk, members), place))
            };
            let mut all: Vec<usize> = (0..members).flat_map(own).collect();
            all.sort_unstable();
            assert_eq!(all, (0..cut.count()).collect::<Vec<_>>(), "{width} numbers, {members} members");
            assert_eq!((0..cut.count()).map(|chunk| cut.range(chunk).len()).sum::<usize>(), width);
        }
    }

    #[test]
    fn what_is_no_chunk_is_refused() {
        let cut = Cut::of(5000);
        let good = chunks_of(cut, None, &vec![1.0; 5000]).remove(0);
        let head = Head { word: ToPeer::Contribution { view: 0, round: 3 }, of: 2 };
        let numbers = good.numbers(&head).to_vec();
        let refused = |at: usize, bytes: &[u8]| {
            let mut bad = numbers.clone();
            bad[at..at + bytes.len()].copy_from_slice(bytes);
            Chunk::read(&bad.into(), cut).is_err()
        };
        assert!(!refused(0, &[]), "as it is it is good");
        assert!(refused(0, &u32::MAX.to_le_bytes()) && refused(4, &[0; 4]) && refused(4, &[255; 4]));
        assert!(refused(8, &f64::NAN.to_le_bytes()) && refused(8, &(-1.0f64).to_le_bytes()));
        assert!(Chunk::read(&numbers[..numbers.len() - 4].to_vec().into(), cut).is_err());
        assert!(Chunk::read(&numbers[..9].to_vec().into(), cut).is_err());
    }

    #[test]
    fn sums_and_means_are_those_of_whole_contributions() {
        let [a, b] = [1, 2].map(|seed| (0..3000).map(|at| ((at * 7 + seed) as f32).cos()).collect::<Vec<f32>>());
        let (cut, layout) = (Cut::of(3000), Layout { summed: 1500, averaged: 1500 });
        let of = |values: &[f32], weight: f64| -> Vec<Chunk> {
            let mut chunks = chunks_of(cut, None, values);
            chunks.sort_by_key(|chunk| chunk.index);
            chunks.into_iter().map(|chunk| Chunk { weight, ..chunk }).collect()
        };
        let (first, second) = (of(&a, 3.0), of(&b, 1.0));
        for index in 0..cut.count() {
            let head = Head { word: ToPeer::Reduced { view: 1, round: 3 }, of: 1 };
            let sum = reduced(cut, layout, index, &[&first[index], &second[index]], head, &mut Spare::default());
            assert_eq!(sum.weight, 4.0);
            for (at, found) in cut.range(index).zip(reduce::values(&sum.values)) {
                let expected = if at < 1500 { a[at] + b[at] } else { 0.75 * a[at] + 0.25 * b[at] };
                assert_eq!(found.to_bits(), expected.to_bits(), "number {at}");
            }
        }
    }
}
