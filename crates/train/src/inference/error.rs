use paceline_nn::Shape;

/// Why a request was not answered.
#[derive(Debug, thiserror::Error)]
pub enum InferenceError {
    /// Nobody is free and nothing may wait: only `try_…` says so, the others wait.
    #[error("{limit} {what}: ask again later, or allow more")]
    Busy {
        /// How many are allowed.
        limit: usize,
        /// Of what, in words.
        what: &'static str,
    },
    /// Features that are not whole examples.
    #[error(
        "the request has {found} features, but the model expects {expected} for each example, and at least one example"
    )]
    Features {
        /// Numbers per example.
        expected: usize,
        /// Numbers in the request.
        found: usize,
    },
    /// A model that cannot take the place of another one.
    #[error(
        "the new model has the {what} {found}, but the one that it would replace has {expected}: requests of one would not fit the other"
    )]
    OtherShape {
        /// Input or output.
        what: &'static str,
        /// The shape in use.
        expected: Shape,
        /// That of the new model.
        found: Shape,
    },
    /// A replica that panicked over this request, as a layer of another crate may.
    #[error("worker {worker} panicked over this request: {message}")]
    Panicked {
        /// The replica, from 0.
        worker: usize,
        /// What it said.
        message: String,
    },
    /// A pass that the model refused.
    #[error(transparent)]
    Model(#[from] paceline_model::Error),
}

impl From<InferenceError> for crate::Error {
    fn from(error: InferenceError) -> Self {
        match error {
            InferenceError::Model(error) => crate::Error::Model(error),
            InferenceError::Panicked { worker, message } => crate::Error::WorkerPanicked { worker, message },
            other => crate::Error::Inference(other),
        }
    }
}
