//! What the documents promise, run.

mod documents;
mod example;
