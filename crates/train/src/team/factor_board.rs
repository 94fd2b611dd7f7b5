//! What replicas show each other of a step in place of gradients.

use std::sync::{PoisonError, RwLock};

use paceline_model::{Factors, SharedFactors};

/// One post per replica. Writers and readers keep apart by other means, so the locks are always free.
pub(super) struct FactorBoard {
    posts: Vec<RwLock<Post>>,
}

/// What a replica shows.
#[derive(Default)]
struct Post {
    /// That of its examples.
    weight: f32,
    factors: Option<SharedFactors>,
}

/// What a replica has shown, while it may be read.
pub(super) struct WeightedFactors {
    /// That of its examples.
    pub weight: f32,
    /// None of them if it has none.
    pub factors: Factors,
}

impl FactorBoard {
    pub(super) fn new(replicas: usize) -> Self {
        Self { posts: (0..replicas).map(|_| RwLock::default()).collect() }
    }

    pub(super) fn show(&self, me: usize, weight: f32, factors: Option<&SharedFactors>) {
        let mut post = self.posts[me].write().unwrap_or_else(PoisonError::into_inner);
        *post = Post { weight, factors: factors.cloned() };
    }

    /// What all have shown, in their order.
    ///
    /// # Safety
    ///
    /// Factors of a part may be read after their replica has passed it, and must be given up before it computes again.
    #[expect(unsafe_code, reason = "the promise is the caller's")]
    pub(super) unsafe fn all(&self) -> impl Iterator<Item = WeightedFactors> {
        self.posts.iter().map(|post| {
            let Post { weight, factors } = &*post.read().unwrap_or_else(PoisonError::into_inner);
            // SAFETY: as promised.
            let read = |SharedFactors { examples, values }: &SharedFactors| unsafe {
                Factors { examples: *examples, values: values.view() }
            };
            WeightedFactors { weight: *weight, factors: factors.as_ref().map(read).unwrap_or_default() }
        })
    }
}
