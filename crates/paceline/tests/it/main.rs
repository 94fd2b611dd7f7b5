//! What the documents promise, run.

mod coming_from_dl4j;
mod documents;
mod example;
