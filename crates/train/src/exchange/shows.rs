//! What replicas show each other of a step in place of gradients.

use std::sync::{PoisonError, RwLock};

use paceline_model::{Factors, SharedFactors};

/// One place per replica. Writers and readers keep apart by other means, so the locks are always free.
pub(super) struct Shows {
    places: Vec<RwLock<Show>>,
}

/// What a replica shows.
#[derive(Default)]
struct Show {
    /// That of its examples.
    weight: f32,
    factors: Option<SharedFactors>,
}

/// What a replica has shown, while it may be read.
pub(super) struct Shown {
    /// That of its examples.
    pub weight: f32,
    /// None of them if it has none.
    pub factors: Factors,
}

impl Shows {
    pub(super) fn new(replicas: usize) -> Self {
        Self { places: (0..replicas).map(|_| RwLock::default()).collect() }
    }

    pub(super) fn show(&self, me: usize, weight: f32, factors: Option<&SharedFactors>) {
        let mut show = self.places[me].write().unwrap_or_else(PoisonError::into_inner);
        *show = Show { weight, factors: factors.cloned() };
    }

    /// What all have shown, in their order.
    ///
    /// # Safety
    ///
    /// Factors of a part may be read after their replica has passed it, and must be given up before it computes again.
    #[expect(unsafe_code, reason = "the promise is the caller's")]
    pub(super) unsafe fn all(&self) -> impl Iterator<Item = Shown> {
        // SAFETY: as promised.
        (0..self.places.len()).map(|replica| unsafe { self.of(replica) })
    }

    /// What one has shown.
    ///
    /// # Safety
    ///
    /// As for [`Self::all`].
    #[expect(unsafe_code, reason = "the promise is the caller's")]
    pub(super) unsafe fn of(&self, replica: usize) -> Shown {
        let Show { weight, factors } = &*self.places[replica].read().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: as promised.
        let read = |SharedFactors { examples, values }: &SharedFactors| unsafe {
            Factors { examples: *examples, values: values.view() }
        };
        Shown { weight: *weight, factors: factors.as_ref().map(read).unwrap_or_default() }
    }
}
