//! One file per command; each has a `run` that gives the exit status.

pub(crate) mod data;
pub(crate) mod doctor;
pub(crate) mod evaluate;
pub(crate) mod model;
pub(crate) mod predict;
pub(crate) mod train;

use std::sync::Arc;

use paceline::data::OpenOptions;

use crate::arguments::Cache;
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
