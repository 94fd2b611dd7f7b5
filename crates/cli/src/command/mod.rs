//! One file per command; each has a `run` that gives the exit status.

pub(crate) mod data;
pub(crate) mod doctor;
pub(crate) mod evaluate;
pub(crate) mod generate;
mod helping;
pub(crate) mod init;
pub(crate) mod master;
pub(crate) mod model;
pub(crate) mod predict;
pub(crate) mod runs;
pub(crate) mod shell;
mod spark;
pub(crate) mod status;
pub(crate) mod submit;
pub(crate) mod train;
pub(crate) mod tune;
pub(crate) mod worker;

use std::fmt::Display;
use std::io::{ErrorKind, Write};
use std::sync::Arc;

use anyhow::{Context, Result};
use paceline::data::OpenOptions;
use paceline::nn::ModelFile;
use paceline::train::ParallelInference;

use crate::arguments::{Cache, Workers};
use crate::report::fetch_progress;

/// How sources are opened, by the command line.
fn open_options(cache: &Cache, quiet: bool) -> OpenOptions {
    OpenOptions {
        cache: cache.cache.clone(),
        offline: cache.offline,
        progress: (!quiet).then(|| Arc::new(fetch_progress()) as _),
        ..OpenOptions::default()
    }
}

/// The workers that run a model over whole batches, one at a time each.
fn inference(model: ModelFile, workers: &Workers) -> Result<ParallelInference> {
    let builder = ParallelInference::builder(model).sequential();
    let builder = match workers.workers {
        Some(workers) => builder.workers(workers as usize),
        None => builder,
    };
    Ok(builder.build()?)
}

/// Writes what was asked for to standard output. A reader that has seen enough and went away, as `head` does, is no
/// failure; a full disk is.
fn say(what: &dyn Display) -> Result<()> {
    match writeln!(std::io::stdout(), "{what}") {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written.context("cannot write to standard output"),
    }
}
