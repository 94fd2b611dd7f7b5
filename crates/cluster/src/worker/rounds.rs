//! The numbers of rounds under way: what was computed here, what came from peers, what was summed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use paceline_exchange::Paths;
use paceline_exchange::rounds::message::ToPeer;
use paceline_exchange::rounds::{Incarnation, Round, ViewNumber, WorkNumber};
use paceline_train::Layout;

use super::chunks::{Chunk, Cut, Head, RoundKey, Spare, Whole, reduced};

/// What is held; the rules say how long.
pub(super) struct Rounds {
    layout: Layout,
    pub cut: Cut,
    /// The own contribution to a round, by the work that computed it, as far as it is there.
    own: Option<(Round, WorkNumber, Chunks)>,
    /// By view, round and member: what came of its contribution, and how many chunks it sends here.
    contributions: BTreeMap<(ViewNumber, Round, Incarnation), (Chunks, usize)>,
    /// By view and round, in a tree: what was summed here of those below.
    partial: BTreeMap<RoundKey, Chunks>,
    /// By view and round: what was summed, here or by peers.
    sums: BTreeMap<RoundKey, Chunks>,
    /// By view, round and peer: how many chunks of sums have come, and how many it sends.
    sums_came: BTreeMap<(ViewNumber, Round, Incarnation), (BTreeSet<usize>, usize)>,
    result: Option<(Round, Arc<Whole>)>,
    pub fetched_result: Option<(Round, Whole)>,
    pub spare: Spare,
}

type Chunks = Vec<Option<Chunk>>;

impl Rounds {
    pub(super) fn new(layout: Layout) -> Self {
        Self {
            layout,
            cut: Cut::of(layout.width()),
            own: None,
            contributions: BTreeMap::new(),
            partial: BTreeMap::new(),
            sums: BTreeMap::new(),
            sums_came: BTreeMap::new(),
            result: None,
            fetched_result: None,
            spare: Spare::default(),
        }
    }

    fn none(&self) -> Chunks {
        vec![None; self.cut.count()]
    }

    /// A chunk of the own contribution is computed. What was computed for another is not needed any more.
    pub(super) fn take_own(&mut self, round: Round, work: WorkNumber, chunk: Chunk) {
        if self.own.as_ref().is_none_or(|(_, of, _)| *of != work) {
            let none = self.none();
            if let Some((_, _, before)) = self.own.replace((round, work, none)) {
                self.spare.give(before.into_iter().flatten());
            }
        }
        if let Some((_, _, chunks)) = &mut self.own {
            let index = chunk.index;
            chunks[index] = Some(chunk);
        }
    }

    /// Those chunks of the own contribution that the member at a place sums.
    pub(super) fn own_for(&self, round: Round, place: usize, members: usize) -> Result<Vec<Chunk>, String> {
        let own = self.own.as_ref().filter(|(of, ..)| *of == round);
        let chunks = own.and_then(|(_, _, chunks)| {
            self.cut.of_member(place, members).map(|index| chunks[index].clone()).collect::<Option<Vec<Chunk>>>()
        });
        chunks.ok_or_else(|| format!("the own contribution to round {round} is missing"))
    }

    /// A chunk of a contribution has come, one of so many. Says whether they are all here.
    pub(super) fn take(&mut self, key: RoundKey, from: Incarnation, chunk: Option<Chunk>, of: usize) -> bool {
        let count = self.cut.count();
        let (chunks, expected) =
            self.contributions.entry((key.0, key.1, from)).or_insert_with(|| (vec![None; count], of));
        *expected = of;
        if let Some(chunk) = chunk {
            let index = chunk.index;
            chunks[index] = Some(chunk);
        }
        chunks.iter().flatten().count() >= *expected
    }

    /// A chunk of a sum has come, one of so many. Says whether they are all here.
    pub(super) fn take_sum(&mut self, key: RoundKey, from: Incarnation, chunk: Option<Chunk>, of: usize) -> bool {
        let Some(chunk) = chunk else { return true };
        let (came, expected) = self.sums_came.entry((key.0, key.1, from)).or_default();
        came.insert(chunk.index);
        *expected = of;
        let is_whole = came.len() >= of;
        self.put_sum(key, chunk);
        is_whole
    }

    fn put_sum(&mut self, key: RoundKey, chunk: Chunk) {
        let (count, index) = (self.cut.count(), chunk.index);
        self.sums.entry(key).or_insert_with(|| vec![None; count])[index] = Some(chunk);
    }

    /// Whether a chunk of a sum is here.
    pub(super) fn has_sum(&self, key: RoundKey, index: usize) -> bool {
        self.sums.get(&key).is_some_and(|chunks| chunks[index].is_some())
    }

    /// Sums a chunk of the contributions that fall to this one, if all of them are here and it was not summed.
    pub(super) fn sum(&mut self, key: RoundKey, paths: &Paths, index: usize) -> Option<Chunk> {
        let goes_up = paths.parent().is_some();
        let summed = if goes_up { &self.partial } else { &self.sums };
        if summed.get(&key).is_some_and(|chunks| chunks[index].is_some()) {
            return None;
        }
        let of = |member: &Incarnation| self.contributions.get(&(key.0, key.1, *member))?.0[index].as_ref();
        let contributions = paths.sources().iter().map(of).collect::<Option<Vec<&Chunk>>>()?;
        let (part, parts) = paths.part();
        let of = self.cut.of_member(part, parts).len();
        let (view, round) = key;
        let word = if goes_up { ToPeer::Contribution { view, round } } else { ToPeer::Reduced { view, round } };
        let chunk = match &contributions[..] {
            // Nobody is below: it goes up from where it lies.
            [own] if goes_up => (*own).clone(),
            all => reduced(self.cut, self.layout, index, all, Head { word, of }, &mut self.spare),
        };
        match goes_up {
            true => {
                let count = self.cut.count();
                self.partial.entry(key).or_insert_with(|| vec![None; count])[index] = Some(chunk.clone());
            }
            false => self.put_sum(key, chunk.clone()),
        }
        Some(chunk)
    }

    /// What was summed here and goes up, as far as it is there.
    pub(super) fn partial(&self, key: RoundKey) -> Vec<Chunk> {
        self.partial.get(&key).into_iter().flatten().flatten().cloned().collect()
    }

    /// The sums of some chunks, as far as they are here.
    pub(super) fn sums_of(&self, key: RoundKey, place: usize, members: usize) -> Vec<Chunk> {
        let chunks = self.sums.get(&key).into_iter();
        chunks.flat_map(|chunks| self.cut.of_member(place, members).filter_map(|index| chunks[index].clone())).collect()
    }

    /// Puts the sums together and keeps the result.
    pub(super) fn assemble(&mut self, key: RoundKey) -> Result<Arc<Whole>, String> {
        let whole = self.sums.get(&key).and_then(|chunks| Whole::of(self.cut, chunks));
        let whole = whole.ok_or_else(|| format!("parts of the sum of round {} are missing", key.1))?;
        Ok(self.keep(key.1, whole))
    }

    pub(super) fn keep(&mut self, round: Round, result: Whole) -> Arc<Whole> {
        let result = Arc::new(result);
        self.result = Some((round, result.clone()));
        result
    }

    pub(super) fn result(&self, round: Round) -> Option<&Whole> {
        self.result.as_ref().filter(|(of, _)| *of == round).map(|(_, result)| &**result)
    }

    /// Contributions and sums of older views, and of rounds up to this one, are not needed any more; the own sums of the last
    /// round stay, for peers whose link was down.
    pub(super) fn forget(&mut self, view: ViewNumber, round: Round) {
        self.contributions.retain(|(v, r, _), _| *v >= view && *r > round);
        self.sums_came.retain(|(v, r, _), _| *v >= view && *r > round);
        let gone = self.partial.extract_if(.., |(v, r), _| *v < view || *r <= round);
        self.spare.give(gone.flat_map(|(_, chunks)| chunks).flatten());
        let gone = self.sums.extract_if(.., |(v, r), _| *v < view || *r < round);
        self.spare.give(gone.flat_map(|(_, chunks)| chunks).flatten());
    }
}
