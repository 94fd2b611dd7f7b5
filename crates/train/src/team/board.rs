//! Buffers that every replica of a process can look at, each written by one of them.

use std::ops::Range;
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use paceline_exchange::reduce;
use paceline_model::Flat;

/// One buffer per replica, and what it weighs. Writers and readers keep apart by other means, so the locks are always free.
#[derive(Debug)]
pub(super) struct Board {
    posts: Vec<RwLock<Post>>,
}

#[derive(Debug, Default)]
pub(super) struct Post {
    pub values: Flat,
    pub weight: f32,
}

impl Board {
    pub(super) fn new(replicas: usize) -> Self {
        Self { posts: (0..replicas).map(|_| RwLock::default()).collect() }
    }

    /// Gives a buffer away for the one that was given last, whose content means nothing.
    pub(super) fn swap(&self, me: usize, values: &mut Flat) {
        let mut post = self.posts[me].write().unwrap_or_else(PoisonError::into_inner);
        if post.values.len() != values.len() {
            post.values = Flat::zeros(values.len());
        }
        std::mem::swap(&mut post.values, values);
    }

    /// Shows a copy.
    pub(super) fn show(&self, me: usize, values: &[f32], weight: f32) {
        let mut post = self.posts[me].write().unwrap_or_else(PoisonError::into_inner);
        if post.values.len() != values.len() {
            post.values = Flat::zeros(values.len());
        }
        post.values.copy_from_slice(values);
        post.weight = weight;
    }

    fn look(&self, replica: usize) -> RwLockReadGuard<'_, Post> {
        self.posts[replica].read().unwrap_or_else(PoisonError::into_inner)
    }

    fn look_at_all(&self) -> Vec<RwLockReadGuard<'_, Post>> {
        (0..self.posts.len()).map(|replica| self.look(replica)).collect()
    }

    /// Writes the sum of a range over all replicas, in their order.
    pub(super) fn sum(&self, range: Range<usize>, sum: &mut [f32]) {
        let posts = self.look_at_all();
        reduce::sum(posts.iter().map(|post| post.values[range.clone()].iter().copied()), sum);
    }

    /// Writes the mean of a range, weighted, in the order of the replicas; those without weight have no say. When nobody
    /// has any, the first one speaks for all.
    pub(super) fn mean(&self, range: Range<usize>, mean: &mut [f32]) {
        let posts = self.look_at_all();
        let shares = reduce::shares(&posts.iter().map(|post| post.weight).collect::<Vec<f32>>());
        let values = posts.iter().map(|post| post.values[range.clone()].iter().copied());
        reduce::mean(shares.into_iter().zip(values), mean);
    }

    /// Copies what one replica shows.
    pub(super) fn copy(&self, replica: usize, to: &mut [f32]) {
        to.copy_from_slice(&self.look(replica).values);
    }
}

#[cfg(test)]
mod tests {
    use paceline_model::Flat;

    use super::Board;

    fn board(posts: &[(f32, [f32; 2])]) -> Board {
        let board = Board::new(posts.len());
        for (me, (weight, values)) in posts.iter().enumerate() {
            board.show(me, values, *weight);
        }
        board
    }

    #[test]
    fn a_mean_counts_examples_not_replicas() {
        let mut mean = [9.0; 2];
        board(&[(3.0, [1.0, 10.0]), (1.0, [5.0, 30.0]), (0.0, [100.0, f32::NAN])]).mean(0..2, &mut mean);
        assert_eq!(mean, [2.0, 15.0]);
        board(&[(0.0, [1.0, 10.0]), (0.0, [5.0, 30.0])]).mean(1..2, &mut mean[1..]);
        assert_eq!(mean, [2.0, 10.0], "nobody has weight");
    }

    #[test]
    fn a_swapped_buffer_is_seen_by_all_and_summed() {
        let board = Board::new(2);
        let mut mine = Flat::from_slice(&[1.0, 2.0, 3.0]);
        board.swap(0, &mut mine);
        assert_eq!(mine.len(), 3);
        board.show(1, &[10.0, 20.0, 30.0], 5.0);
        let mut sum = [0.0; 2];
        board.sum(1..3, &mut sum);
        assert_eq!(sum, [22.0, 33.0]);
    }
}
