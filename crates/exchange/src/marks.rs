/// Which elements are sent, and which of those are negative.
///
/// The encoder notes them in its one pass over the residual, before it is known how many they are and hence which form and
/// which Rice parameter are best. A block of elements of which none is sent leaves no mark, and most leave none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Marks {
    marks: Vec<Mark>,
    /// Parts in the order in which they came; those that lie one after the other are one.
    runs: Vec<Run>,
}

/// What is sent of a block: a bit for each of its elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) block: usize,
    /// Not 0.
    pub(crate) sent: u64,
    /// Only set where `sent` is.
    pub(crate) negative: u64,
}

/// Elements whose marks are in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    start: usize,
    end: usize,
    /// Where its marks begin.
    marks: usize,
}

/// Elements of one mark.
pub(crate) const BLOCK: usize = 64;

impl Marks {
    /// None is sent any more.
    pub(crate) fn clear(&mut self) {
        self.marks.clear();
        self.runs.clear();
    }

    /// Where the marks of a part go, which must be noted in order; they may share a block with the part before and after it.
    pub(crate) fn of_part(&mut self, part: std::ops::Range<usize>) -> &mut Vec<Mark> {
        match self.runs.last_mut() {
            Some(run) if run.end == part.start => run.end = part.end,
            _ => self.runs.push(Run { start: part.start, end: part.end, marks: self.marks.len() }),
        }
        &mut self.marks
    }

    /// Calls `visit` with all marks, in order. There are none any more then.
    #[inline(always)]
    pub(crate) fn take(&mut self, mut visit: impl FnMut(Mark)) {
        let ends = self.runs.iter().skip(1).map(|run| run.marks).chain([self.marks.len()]);
        let mut runs: Vec<(Run, usize)> = self.runs.iter().copied().zip(ends).collect();
        runs.sort_unstable_by_key(|(run, _)| run.start);
        for (run, end) in runs {
            self.marks[run.marks..end].iter().for_each(|mark| visit(*mark));
        }
        self.clear();
    }

    /// Calls `visit` with the index of every sent element, in order, and whether it is negative. None is sent any more then.
    #[inline(always)]
    pub(crate) fn take_sent(&mut self, mut visit: impl FnMut(usize, bool)) {
        self.take(
            #[inline(always)]
            |Mark { block, sent, negative }| {
                let mut rest = sent;
                while rest != 0 {
                    let lane = rest.trailing_zeros();
                    rest &= rest - 1;
                    visit(block * BLOCK + lane as usize, negative >> lane & 1 == 1);
                }
            },
        );
    }
}

#[cfg(test)]
mod tests {
    use super::{BLOCK, Mark, Marks};

    impl Marks {
        /// Blocks in order, with what is sent of each and what of it is negative.
        pub(crate) fn of(blocks: &[(usize, u64, u64)]) -> Self {
            let mut marks = Self::default();
            for (block, sent, negative) in blocks.iter().copied() {
                marks.of_part(block * BLOCK..(block + 1) * BLOCK).push(Mark { block, sent, negative });
            }
            marks
        }
    }

    #[test]
    fn sent_elements_come_in_order_with_their_signs_whatever_part_came_first() {
        let mut marks = Marks::default();
        marks.of_part(128..192).push(Mark { block: 2, sent: 0b10, negative: 0 });
        marks.of_part(0..10).push(Mark { block: 0, sent: 1, negative: 0 });
        marks.of_part(10..64).push(Mark { block: 0, sent: 1 << 63 | 1 << 10, negative: 1 << 63 });
        marks.of_part(64..128);
        marks.of_part(192..200).push(Mark { block: 3, sent: 1, negative: 1 });
        let mut found = Vec::new();
        marks.take_sent(|index, is_negative| found.push((index, is_negative)));
        assert_eq!(found, [(0, false), (10, false), (63, true), (129, false), (192, true)]);
        assert_eq!(marks, Marks::default());
    }
}
