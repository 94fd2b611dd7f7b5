//! Who takes which examples in which round: the same answer at the master and at every member, without asking.

mod partitions;

use std::collections::VecDeque;
use std::ops::Range;

use paceline_model::slice_of;
use serde::{Deserialize, Serialize};

use super::capacity::Capacity;
use super::message::DataProof;

/// Places `start..end` in the order of an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Span {
    /// The first place.
    pub start: u64,
    /// The place behind the last.
    pub end: u64,
    /// Members that were lost while they held it.
    pub losses: u8,
}

impl Span {
    /// How many places.
    pub fn len(&self) -> u64 {
        self.end - self.start
    }

    /// Whether it holds nothing.
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }
}

/// Workers that one process stands for: a member with two takes twice as much as one with one.
pub type Slots = u32;

/// No process stands for more.
pub const MOST_SLOTS: Slots = 1024;

/// One member's slots, and those of all members of its view.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// Its own.
    pub own: u64,
    /// Those of all.
    pub all: u64,
}

impl Part {
    /// That of the member at a place. One that is nowhere is taken for one that is alone.
    pub fn of(crew: &[Capacity], place: Option<usize>) -> Self {
        let own = place.and_then(|place| crew.get(place));
        own.map_or(Self { own: 1, all: 1 }, |own| Self { own: u64::from(own.slots), all: slots_of(crew) })
    }
}

/// The slots of all of them.
pub(crate) fn slots_of(crew: &[Capacity]) -> u64 {
    crew.iter().map(|capacity| u64::from(capacity.slots)).sum()
}

/// How many examples a step takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StepSize {
    /// So many for each slot.
    Each(u64),
    /// So many for all of them together.
    Together(u64),
}

impl StepSize {
    /// Examples that a member takes.
    pub fn each(&self, part: Part) -> u64 {
        match self {
            StepSize::Each(each) => each.saturating_mul(part.own).max(1),
            StepSize::Together(all) => (all.saturating_mul(part.own) / part.all.max(1)).max(1),
        }
    }

    /// Examples that members with so many slots take together.
    pub fn together(&self, slots: u64) -> u64 {
        match self {
            StepSize::Each(each) => each.saturating_mul(slots).max(1),
            StepSize::Together(all) => (*all).max(1),
        }
    }
}

/// What one member takes in a round: of each of its steps, some spans.
pub type Slice = Vec<Vec<Span>>;

/// What every member takes in one round. All of it is of one epoch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assignment {
    /// The epoch, from 0.
    pub epoch: u64,
    /// Steps of the run before its first one.
    pub iteration: u64,
    /// By member, in the order of the view. All have as many steps.
    pub slices: Vec<Slice>,
    /// Whether nothing of the epoch is left behind it, unless something comes back.
    pub ends_epoch: bool,
}

impl Assignment {
    /// Examples of all members.
    pub fn examples(&self) -> u64 {
        self.spans().map(Span::len).sum()
    }

    /// The spans of all members.
    pub fn spans(&self) -> impl Iterator<Item = &Span> {
        self.slices.iter().flatten().flatten()
    }

    /// Steps of the round: an epoch may end before it is full.
    pub fn steps(&self) -> u64 {
        self.slices.first().map_or(0, |slice| slice.len() as u64)
    }
}

/// What is left to take: a cursor through the epoch, and holes behind it that came back from members that were lost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Schedule {
    examples: u64,
    epochs: u64,
    /// Examples of the last epoch that are taken, if not all.
    #[serde(default)]
    in_the_last: Option<u64>,
    /// Steps that were given out.
    #[serde(default)]
    pace: Pace,
    /// Steps of a round.
    #[serde(default = "one")]
    steps_of_a_round: u64,
    share: StepSize,
    epoch: u64,
    cursor: u64,
    holes: VecDeque<Span>,
    /// Spans before the cursor has come to them that were lost with members, by epoch: they are taken apart from others, or
    /// not at all.
    marks: Vec<(u64, Span)>,
    /// Where data lives with workers: what each partition is. All that is left of the epoch are holes then.
    #[serde(default)]
    partitions: Vec<DataProof>,
}

fn one() -> u64 {
    1
}

/// Steps, in parts of [`Pace::STEP`]: in `shared` members take them one by one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Pace(u64);

impl Pace {
    /// A step is so many parts.
    const STEP: u64 = 1 << 20;

    fn of(steps: u64) -> Self {
        Self(steps.saturating_mul(Self::STEP))
    }

    fn parts(examples: u64, step: u64) -> u64 {
        examples.saturating_mul(Self::STEP) / step.max(1)
    }

    /// By so many examples, of steps of so many.
    pub(crate) fn go_on(&mut self, examples: u64, step: u64) {
        self.0 = self.0.saturating_add(Self::parts(examples, step));
    }

    pub(crate) fn slow_down(&mut self, examples: u64, step: u64) {
        self.0 = self.0.saturating_sub(Self::parts(examples, step));
    }

    /// Steps that are whole.
    fn whole(self) -> u64 {
        self.0 / Self::STEP
    }

    /// Steps, where one that was short is one, too.
    pub(crate) fn begun(self) -> u64 {
        self.0.div_ceil(Self::STEP)
    }
}

/// A span that was lost with so many members is set aside: it may be what kills them.
pub const LOSSES_UNTIL_SET_ASIDE: u8 = 2;

impl Schedule {
    /// All epochs, from the first example on.
    pub fn new(examples: u64, epochs: u64, share: StepSize) -> Self {
        let (holes, marks) = (VecDeque::new(), Vec::new());
        let (pace, steps_of_a_round, partitions) = (Pace::default(), 1, Vec::new());
        let in_the_last = None;
        Self {
            examples,
            epochs,
            in_the_last,
            pace,
            steps_of_a_round,
            share,
            epoch: 0,
            cursor: 0,
            holes,
            marks,
            partitions,
        }
    }

    /// The same epochs, after others with so many steps that were taken before.
    pub fn after(self, epochs: u64, steps: u64) -> Self {
        Self { epoch: epochs, epochs: self.epochs.saturating_add(epochs), pace: Pace::of(steps), ..self }
    }

    /// Examples of an epoch.
    pub fn examples(&self) -> u64 {
        self.examples + self.partitions.iter().map(|proof| proof.examples).sum::<u64>()
    }

    /// Rounds of so many steps; that at the end of an epoch may have fewer.
    pub fn in_rounds_of(self, steps: u64) -> Self {
        Self { steps_of_a_round: steps.max(1), ..self }
    }

    /// No more than so many steps of so many examples, of which the last of an epoch may have fewer.
    pub fn at_most(mut self, steps: u64, step: u64) -> Self {
        let (steps, step) = (steps.max(1), step.max(1));
        let in_an_epoch = self.examples.div_ceil(step).max(1);
        let (whole, more) = (steps / in_an_epoch, steps % in_an_epoch);
        if whole < self.epochs {
            (self.epochs, self.in_the_last) = if more == 0 { (whole, None) } else { (whole + 1, Some(more * step)) };
        }
        self
    }

    /// Epochs that there are, the last one perhaps in part.
    pub fn epochs(&self) -> u64 {
        self.epochs
    }

    /// Whether nothing of the epoch was taken.
    pub fn is_at_its_start(&self) -> bool {
        match self.is_partitioned() {
            true => self.left() == self.examples(),
            false => self.left() == self.in_this_epoch(),
        }
    }

    /// Examples of the epoch that are taken sooner or later.
    fn in_this_epoch(&self) -> u64 {
        if self.is_partitioned() {
            // All of it lies in holes.
            return 0;
        }
        let is_last = self.epoch + 1 == self.epochs;
        self.in_the_last.filter(|_| is_last).map_or(self.examples, |some| some.min(self.examples))
    }

    /// Steps of all members that were given out, each counted as one however short it was.
    pub fn steps(&self) -> u64 {
        if self.left() == 0 { self.pace.begun() } else { self.pace.whole() }
    }

    pub(crate) fn pace(&self) -> Pace {
        self.pace
    }

    /// So many examples were given out, of steps of so many.
    pub fn go_on(&mut self, examples: u64, step: u64) {
        self.pace.go_on(examples, step);
    }

    /// They came back.
    pub fn slow_down(&mut self, examples: u64, step: u64) {
        self.pace.slow_down(examples, step);
    }

    /// Examples of a step.
    pub fn share(&self) -> StepSize {
        self.share
    }

    /// Whether nothing is left of any epoch.
    pub fn is_done(&self) -> bool {
        self.left() == 0 && self.epoch + 1 >= self.epochs
    }

    /// The epoch that is being taken.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Examples of the epoch that nobody has taken.
    pub fn left(&self) -> u64 {
        let aside = |span: &Span| match span.losses >= LOSSES_UNTIL_SET_ASIDE && !self.is_partitioned() {
            true => span.end.saturating_sub(span.start.max(self.cursor)),
            false => 0,
        };
        let aside: u64 = self.marks.iter().filter(|(epoch, _)| *epoch == self.epoch).map(|(_, span)| aside(span)).sum();
        self.in_this_epoch() - self.cursor - aside + self.holes.iter().map(Span::len).sum::<u64>()
    }

    /// Examples of all epochs that nobody has taken.
    pub fn left_of_all(&self) -> u64 {
        let behind = self.epochs.saturating_sub(self.epoch + 1);
        let examples = self.examples();
        let of_the_last = self.in_the_last.map_or(examples, |some| some.min(examples));
        let whole = behind.saturating_sub(1).saturating_mul(examples);
        let is_aside = |(epoch, span): &&(u64, Span)| *epoch > self.epoch && span.losses >= LOSSES_UNTIL_SET_ASIDE;
        let aside: u64 = self.marks.iter().filter(is_aside).map(|(_, span)| span.len()).sum();
        let later = if behind > 0 { whole.saturating_add(of_the_last) } else { 0 };
        self.left().saturating_add(later).saturating_sub(aside)
    }

    /// What the members of a view take in the next round; none when all epochs are done, or nobody holds what is left.
    pub fn take(&mut self, crew: &[Capacity]) -> Option<Assignment> {
        if self.left() == 0 && !self.next_epoch() {
            return None;
        }
        let (all, epoch, iteration) = (slots_of(crew), self.epoch, self.steps());
        let mut slices = vec![Slice::new(); crew.len()];
        for step in 0..self.steps_of_a_round {
            let wanted = self.wanted(crew, all);
            if wanted.iter().all(|wanted| *wanted == 0) {
                if step == 0 {
                    return None;
                }
                break;
            }
            for ((slice, capacity), wanted) in slices.iter_mut().zip(crew).zip(wanted) {
                slice.push(self.cut(wanted, capacity));
            }
            self.pace.0 += Pace::STEP;
        }
        Some(Assignment { epoch, iteration, slices, ends_epoch: self.left() == 0 })
    }

    /// How much each member takes of the next step: of what everybody sees so much that all take the same; of partitions as much as
    /// they hold. Two that hold the same partition share what is left of it when it is cut.
    fn wanted(&self, crew: &[Capacity], all: u64) -> Vec<u64> {
        if self.is_partitioned() {
            let of = |place| self.share.each(Part::of(crew, Some(place))).min(self.left_for(&crew[place]));
            return (0..crew.len()).map(of).collect();
        }
        let total = self.share.together(all).min(self.left());
        let mut before = 0;
        let of = |capacity: &Capacity| {
            let workers = before..before + u64::from(capacity.slots);
            before = workers.end;
            let Range { start, end } = slice_of(total, workers, all);
            end - start
        };
        crew.iter().map(of).collect()
    }

    /// Takes up to so many examples of the epoch for one member; none when nothing of it is left that it could take.
    pub fn take_some(&mut self, wanted: u64, capacity: &Capacity) -> Option<Vec<Span>> {
        match wanted.max(1).min(self.left_for(capacity)) {
            0 => None,
            wanted => Some(self.cut(wanted, capacity)),
        }
    }

    /// Goes on to the next epoch, if nothing of this one is left and there is one.
    pub fn next_epoch(&mut self) -> bool {
        if self.left() > 0 || self.epoch + 1 >= self.epochs {
            return false;
        }
        (self.epoch, self.cursor) = (self.epoch + 1, 0);
        self.open_partitions();
        // A step that was short was a step.
        self.pace = Pace::of(self.pace.begun());
        self.marks.retain(|(epoch, _)| *epoch >= self.epoch);
        true
    }

    /// The next examples: what came back goes first.
    fn cut(&mut self, mut wanted: u64, capacity: &Capacity) -> Vec<Span> {
        let mut spans = Vec::new();
        while wanted > 0 {
            let at = match self.is_partitioned() {
                true => self.holes.iter().position(|span| capacity.holds(self.epoch, span)),
                false => (!self.holes.is_empty()).then_some(0),
            };
            let mut span = match at.and_then(|at| self.holes.remove(at)) {
                Some(span) => span,
                // Another who holds the same has taken it.
                None if self.is_partitioned() => break,
                None => match self.advance(wanted) {
                    span if span.losses >= LOSSES_UNTIL_SET_ASIDE => continue,
                    span => span,
                },
            };
            if span.len() > wanted {
                self.holes.insert(at.unwrap_or(0), Span { start: span.start + wanted, ..span });
                span.end = span.start + wanted;
            }
            wanted -= span.len();
            spans.push(span);
        }
        spans
    }

    /// What lies at the cursor: up to so many places that are all marked alike.
    fn advance(&mut self, wanted: u64) -> Span {
        let start = self.cursor;
        let mut span = Span { start, end: self.in_this_epoch().min(start + wanted), losses: 0 };
        for (_, mark) in self.marks.iter().filter(|(epoch, mark)| *epoch == self.epoch && mark.end > start) {
            if mark.start <= start {
                (span.end, span.losses) = (span.end.min(mark.end), mark.losses);
            } else {
                span.end = span.end.min(mark.start);
            }
        }
        if span.losses >= LOSSES_UNTIL_SET_ASIDE {
            // What is left out costs nothing, however long it is.
            let ends = self
                .marks
                .iter()
                .filter(|(epoch, mark)| *epoch == self.epoch && mark.start <= start && mark.end > start);
            span.end = ends.map(|(_, mark)| mark.end).min().unwrap_or(span.end);
        }
        self.cursor = span.end;
        span
    }

    /// Marks what a member held that was lost, before it is taken again from here. Says what will not be taken.
    pub fn mark(&mut self, epoch: u64, spans: &[Span]) -> Vec<Span> {
        let marks = spans.iter().filter(|span| !span.is_empty()).map(|span| Span { losses: span.losses + 1, ..*span });
        let mut aside = Vec::new();
        for mark in marks {
            if mark.losses >= LOSSES_UNTIL_SET_ASIDE {
                aside.push(mark);
            }
            if epoch == self.epoch {
                self.mark_holes(mark);
            }
            self.marks.retain(|(of, old)| *of != epoch || old.end <= mark.start || old.start >= mark.end);
            self.marks.push((epoch, mark));
        }
        aside
    }

    /// Cuts holes at the ends of a mark; what lies in it is as lost as the mark says.
    fn mark_holes(&mut self, mark: Span) {
        for hole in std::mem::take(&mut self.holes) {
            let (start, end) = (hole.start.max(mark.start), hole.end.min(mark.end));
            if start >= end {
                self.holes.push_back(hole);
                continue;
            }
            let pieces =
                [Span { end: start, ..hole }, Span { start, end, losses: mark.losses }, Span { start: end, ..hole }];
            let taken = pieces.into_iter().filter(|span| !span.is_empty() && span.losses < LOSSES_UNTIL_SET_ASIDE);
            self.holes.extend(taken);
        }
    }

    /// What of these spans of an epoch nobody has taken.
    pub fn not_taken(&self, epoch: u64, spans: &[Span]) -> Vec<Span> {
        match epoch.cmp(&self.epoch) {
            std::cmp::Ordering::Less => return Vec::new(),
            std::cmp::Ordering::Greater => return spans.to_vec(),
            std::cmp::Ordering::Equal => {}
        }
        let ahead = Span { start: self.cursor, end: self.in_this_epoch(), losses: 0 };
        let both = |span: &Span, left: &Span| {
            let (start, end) = (span.start.max(left.start), span.end.min(left.end));
            (start < end).then_some(Span { start, end, losses: span.losses })
        };
        let left =
            |span: &Span| self.holes.iter().chain([&ahead]).filter_map(|left| both(span, left)).collect::<Vec<_>>();
        spans.iter().flat_map(left).collect()
    }

    /// What is marked and will not be taken, with its epoch.
    pub fn set_aside(&self) -> Vec<(u64, Span)> {
        self.marks.iter().filter(|(_, span)| span.losses >= LOSSES_UNTIL_SET_ASIDE).copied().collect()
    }

    /// Puts back what was taken last, so that it is taken again in the same order.
    pub fn put_back(&mut self, assignment: &Assignment) {
        let steps = 0..assignment.steps() as usize;
        let of_step = |step: usize| assignment.slices.iter().rev().flat_map(move |slice| slice[step].iter().rev());
        for span in steps.rev().flat_map(of_step).filter(|span| !span.is_empty()) {
            self.holes.push_front(*span);
        }
        self.pace = Pace::of(assignment.iteration);
    }

    /// Takes back what a lost member held, `to_blame` if it may have been lost because of it. Says what is set aside.
    pub fn give_back(&mut self, spans: &[Span], to_blame: bool) -> Vec<Span> {
        let blamed = spans.iter().map(|span| Span { losses: span.losses + u8::from(to_blame), ..*span });
        let (aside, holes): (Vec<Span>, Vec<Span>) = blamed.partition(|span| span.losses >= LOSSES_UNTIL_SET_ASIDE);
        self.holes.extend(holes);
        aside
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crew<const N: usize>(slots: [Slots; N]) -> [Capacity; N] {
        slots.map(Capacity::of)
    }

    fn each<const N: usize>() -> [Capacity; N] {
        crew([1; N])
    }

    fn span(start: u64, end: u64) -> Span {
        Span { start, end, losses: 0 }
    }

    #[test]
    fn every_example_of_every_epoch_is_taken_once() {
        let mut schedule = Schedule::new(10, 2, StepSize::Each(2));
        let mut seen = [[0; 10]; 2];
        let mut ends = 0;
        while let Some(round) = schedule.take(&each::<3>()) {
            for at in round.spans().flat_map(|s| s.start..s.end) {
                seen[round.epoch as usize][at as usize] += 1;
            }
            ends += u32::from(round.ends_epoch);
        }
        assert_eq!((seen, ends), ([[1; 10]; 2], 2));
    }

    #[test]
    fn so_many_steps_are_whole_epochs_and_a_part_of_the_last() {
        let taken = |steps| {
            let mut schedule = Schedule::new(10, 3, StepSize::Together(4)).at_most(steps, 4);
            let mut examples = Vec::new();
            while let Some(round) = schedule.take(&each::<2>()) {
                examples.push((round.epoch, round.examples(), round.ends_epoch));
            }
            examples
        };
        let epoch = |epoch| [(epoch, 4, false), (epoch, 4, false), (epoch, 2, true)];
        assert_eq!(taken(3), epoch(0));
        assert_eq!(taken(5), [&epoch(0)[..], &[(1, 4, false), (1, 4, true)]].concat());
        assert_eq!(taken(1), [(0, 4, true)]);
        assert_eq!(taken(100), [epoch(0), epoch(1), epoch(2)].concat(), "no more than there are");
    }

    #[test]
    fn a_short_last_round_is_shared_evenly() {
        let mut schedule = Schedule::new(7, 1, StepSize::Together(4));
        assert_eq!(
            schedule.take(&each::<2>()).map(|r| r.slices),
            Some(vec![vec![vec![span(0, 2)]], vec![vec![span(2, 4)]]])
        );
        let last = schedule.take(&each::<2>()).expect("three are left");
        assert_eq!((last.slices, last.ends_epoch), (vec![vec![vec![span(4, 5)]], vec![vec![span(5, 7)]]], true));
    }

    #[test]
    fn a_round_of_steps_is_cut_step_by_step_and_a_short_step_counts_as_one() {
        let mut schedule = Schedule::new(22, 2, StepSize::Together(4)).in_rounds_of(3);
        let first = schedule.take(&each::<2>()).expect("a round");
        let of_first = vec![vec![span(0, 2)], vec![span(4, 6)], vec![span(8, 10)]];
        let of_second = vec![vec![span(2, 4)], vec![span(6, 8)], vec![span(10, 12)]];
        assert_eq!((first.iteration, first.slices), (0, vec![of_first, of_second]));
        let second = schedule.take(&each::<2>()).expect("a round");
        assert_eq!((second.iteration, second.steps(), second.examples(), second.ends_epoch), (3, 3, 10, true));
        schedule.put_back(&second);
        assert_eq!((schedule.steps(), schedule.take(&each::<2>())), (3, Some(second)));
        let third = schedule.take(&each::<2>()).expect("a round of the next epoch");
        assert_eq!((third.epoch, third.iteration), (1, 6));
        let fourth = schedule.take(&each::<2>()).expect("the last round");
        assert_eq!((fourth.iteration, fourth.steps(), schedule.steps()), (9, 3, 12));
    }

    #[test]
    fn who_has_more_slots_takes_more() {
        let mut schedule = Schedule::new(100, 1, StepSize::Together(8));
        assert_eq!(
            schedule.take(&crew([1, 3])).map(|r| r.slices),
            Some(vec![vec![vec![span(0, 2)]], vec![vec![span(2, 8)]]])
        );
        let mut schedule = Schedule::new(100, 1, StepSize::Each(5));
        assert_eq!(
            schedule.take(&crew([2, 1])).map(|r| r.slices),
            Some(vec![vec![vec![span(0, 10)]], vec![vec![span(10, 15)]]])
        );
        let part = Part::of(&crew([1, 3]), Some(1));
        assert_eq!(
            (StepSize::Together(8).each(part), StepSize::Each(5).each(part), StepSize::Each(5).together(4)),
            (6, 15, 20)
        );
    }

    #[test]
    fn what_comes_back_is_taken_next_and_set_aside_when_it_is_lost_again() {
        let mut schedule = Schedule::new(8, 1, StepSize::Each(3));
        let first = schedule.take(&each::<2>()).expect("a round");
        assert_eq!(schedule.give_back(&first.slices[1][0], true), []);
        let second = schedule.take(&each::<1>()).expect("a round");
        assert_eq!(second.slices, [[[Span { start: 3, end: 6, losses: 1 }]]]);
        assert_eq!(schedule.give_back(&second.slices[0][0], true), [Span { start: 3, end: 6, losses: 2 }]);
        assert_eq!(schedule.give_back(&[span(0, 1)], false), [], "one that left without blame");
        assert_eq!(schedule.take(&each::<1>()).map(|r| r.slices), Some(vec![vec![vec![span(0, 1), span(6, 8)]]]));
        assert_eq!(schedule.take(&each::<1>()), None);
    }

    #[test]
    fn what_is_marked_is_taken_apart_and_then_not_at_all() {
        let mut schedule = Schedule::new(10, 1, StepSize::Each(4));
        let held = [span(2, 4)];
        let mut again = schedule.clone();
        assert_eq!(again.mark(0, &held), []);
        let marked = Span { losses: 1, ..held[0] };
        assert_eq!(again.clone().take(&each::<1>()).map(|r| r.slices), Some(vec![vec![vec![span(0, 2), marked]]]));
        assert_eq!(schedule.mark(0, &[marked]), [Span { losses: 2, ..marked }]);
        assert_eq!(schedule.left(), 8);
        let mut returned = Schedule::new(10, 1, StepSize::Each(8));
        let all = returned.take(&each::<1>()).expect("a round");
        returned.put_back(&all);
        assert_eq!(returned.mark(0, &[marked]).len(), 1);
        assert_eq!(returned.left(), 8);
        assert_eq!(
            returned.take(&each::<1>()).map(|r| r.slices),
            Some(vec![vec![vec![span(0, 2), span(4, 8), span(8, 10)]]])
        );
        assert_eq!(schedule.take(&each::<1>()).map(|r| r.slices), Some(vec![vec![vec![span(0, 2), span(4, 6)]]]));
        assert_eq!(
            schedule.take(&each::<1>()).map(|r| (r.slices, r.ends_epoch)),
            Some((vec![vec![vec![span(6, 10)]]], true))
        );
    }

    #[test]
    fn what_is_not_taken_is_ahead_or_has_come_back() {
        let mut schedule = Schedule::new(20, 2, StepSize::Each(8));
        schedule.take(&each::<1>());
        schedule.give_back(&[span(2, 4)], false);
        assert_eq!(schedule.not_taken(0, &[span(3, 6), span(7, 10)]), [span(3, 4), span(8, 10)]);
        assert_eq!(schedule.not_taken(1, &[span(3, 6)]), [span(3, 6)]);
        schedule.take_some(20, &Capacity::of(1));
        assert!(schedule.next_epoch());
        assert_eq!(schedule.not_taken(0, &[span(3, 6)]), []);
    }

    #[test]
    fn what_is_left_of_all_epochs_is_what_is_taken_until_the_end() {
        let short = Schedule::new(30, 4, StepSize::Each(3)).at_most(14, 6);
        for mut schedule in [Schedule::new(30, 3, StepSize::Together(7)), short] {
            schedule.mark(1, &[Span { start: 4, end: 9, losses: 1 }]);
            let mut taken = Vec::new();
            let mut left = vec![schedule.left_of_all()];
            while let Some(assignment) = schedule.take(&each::<2>()) {
                taken.push(assignment.examples());
                left.push(schedule.left_of_all());
            }
            let behind: Vec<u64> = (0..left.len()).map(|at| taken[at..].iter().sum()).collect();
            assert_eq!(left, behind);
        }
    }

    #[test]
    fn what_is_put_back_is_taken_again_as_before() {
        let mut schedule = Schedule::new(9, 2, StepSize::Each(2));
        schedule.take(&each::<2>());
        let before = schedule.take(&each::<2>()).expect("a round");
        schedule.put_back(&before);
        assert_eq!(schedule.take(&each::<2>()).as_ref(), Some(&before));
        let last = schedule.take(&each::<2>()).expect("a round");
        assert!(last.ends_epoch);
        schedule.put_back(&last);
        assert_eq!(schedule.take(&each::<2>()), Some(last));
        assert_eq!(schedule.take(&each::<2>()).map(|r| r.epoch), Some(1));
    }
}
