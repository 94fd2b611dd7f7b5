/// Which elements are sent and which of those are negative: two bits an element, 64 elements a word.
///
/// The encoder fills them in its one pass over the residual, before it is known how many elements are sent and hence
/// which form and which Rice parameter are best. They cost a sixteenth of the residual, whatever the sparsity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Planes {
    pub(crate) sent: Vec<u64>,
    /// Only set where `sent` is.
    pub(crate) negative: Vec<u64>,
}

/// Some words of the planes, to be written.
pub(crate) struct Words<'a> {
    pub(crate) sent: &'a mut [u64],
    pub(crate) negative: &'a mut [u64],
}

/// Elements of one word.
pub(crate) const BLOCK: usize = 64;

impl Planes {
    /// Planes of `elements` elements of which none is sent.
    pub(crate) fn new(elements: usize) -> Self {
        let words = elements.div_ceil(BLOCK);
        Self { sent: vec![0; words], negative: vec![0; words] }
    }

    /// None is sent any more.
    pub(crate) fn clear(&mut self) {
        self.sent.fill(0);
        self.negative.fill(0);
    }

    /// The words of these blocks.
    pub(crate) fn words(&mut self, blocks: std::ops::Range<usize>) -> Words<'_> {
        Words { sent: &mut self.sent[blocks.clone()], negative: &mut self.negative[blocks] }
    }

    /// Calls `visit` with the index of every sent element, in order, and whether it is negative. None is sent any more then.
    #[inline(always)]
    pub(crate) fn take_sent(&mut self, mut visit: impl FnMut(usize, bool)) {
        for (block, sent) in self.sent.iter_mut().enumerate().filter(|(_, sent)| **sent != 0) {
            let negative = std::mem::take(&mut self.negative[block]);
            let mut rest = std::mem::take(sent);
            while rest != 0 {
                let lane = rest.trailing_zeros();
                rest &= rest - 1;
                visit(block * BLOCK + lane as usize, negative >> lane & 1 == 1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Planes;

    #[test]
    fn sent_elements_come_in_order_with_their_signs() {
        let mut planes = Planes::new(130);
        assert_eq!(planes.sent.len(), 3);
        planes.sent = vec![1 << 63 | 1, 0, 0b10];
        planes.negative = vec![1 << 63, 0, 0];
        let mut found = Vec::new();
        planes.take_sent(|index, is_negative| found.push((index, is_negative)));
        assert_eq!(found, [(0, false), (63, true), (129, false)]);
        assert_eq!(planes, Planes::new(130));
    }
}
