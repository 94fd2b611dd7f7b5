use std::sync::atomic::{AtomicU64, Ordering};

/// By piece and replica: whether its step was taken there before a round, so that nobody takes it twice.
pub(super) struct Marks {
    replicas: usize,
    /// Twice the number of the round, and one more when it is done.
    marks: Vec<AtomicU64>,
}

impl Marks {
    /// No step was taken in any round; the first has the number 1.
    pub(super) fn new(pieces: usize, replicas: usize) -> Self {
        Self { replicas, marks: (0..pieces * replicas).map(|_| AtomicU64::new(0)).collect() }
    }

    /// Whether the step of a replica in a piece is left to whoever asks, who must take it then.
    pub(super) fn claim(&self, piece: u32, replica: usize, round: u64) -> bool {
        self.of(piece, replica).fetch_max(2 * round, Ordering::SeqCst) < 2 * round
    }

    /// What was claimed is done, and whatever was written can be seen by those who see this.
    pub(super) fn finish(&self, piece: u32, replica: usize, round: u64) {
        self.of(piece, replica).store(2 * round + 1, Ordering::SeqCst);
    }

    pub(super) fn is_done(&self, piece: u32, replica: usize, round: u64) -> bool {
        self.of(piece, replica).load(Ordering::SeqCst) > 2 * round
    }

    fn of(&self, piece: u32, replica: usize) -> &AtomicU64 {
        &self.marks[piece as usize * self.replicas + replica]
    }
}

#[cfg(test)]
mod tests {
    use super::Marks;

    #[test]
    fn a_step_is_left_to_one_in_every_round() {
        let marks = Marks::new(2, 3);
        for round in 1..4 {
            assert!(!marks.is_done(1, 2, round));
            assert_eq!([(); 2].map(|()| marks.claim(1, 2, round)), [true, false]);
            assert!(!marks.is_done(1, 2, round));
            marks.finish(1, 2, round);
            assert!(marks.is_done(1, 2, round) && !marks.claim(1, 2, round));
            assert!(marks.claim(0, 2, round) && marks.claim(1, 1, round), "another piece, another replica");
        }
    }
}
