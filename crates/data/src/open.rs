use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::fetch::{FetchOptions, Progress};
use crate::spec::{Spec, expect_name};
use crate::{Error, NormaliserKind, Schema, Source, digits, idx, mnist, table};

/// How a source is opened.
#[derive(Clone)]
pub struct OpenOptions {
    /// Where fetched datasets are kept; `None` takes [`cache_folder`](crate::cache_folder).
    pub cache: Option<PathBuf>,
    /// Where relative paths start; `None` takes the current folder.
    pub root: Option<PathBuf>,
    /// The columns, categories and class names of a trained model, to read other data in the same way.
    pub schema: Option<Schema>,
    /// Whether targets are wanted; without, the label column or file may be missing and is not read.
    pub targets: bool,
    /// Whether the network must not be used.
    pub offline: bool,
    /// Told how a fetch gets on.
    pub progress: Option<Progress>,
    /// Bytes that a table may take in memory before it is streamed instead.
    pub memory_limit: usize,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            cache: None,
            root: None,
            schema: None,
            targets: true,
            offline: false,
            progress: None,
            memory_limit: 256 << 20,
        }
    }
}

impl OpenOptions {
    pub(crate) fn path(&self, path: &str) -> PathBuf {
        match &self.root {
            Some(root) => root.join(path),
            None => Path::new(path).to_owned(),
        }
    }

    pub(crate) fn fetch(&self) -> FetchOptions {
        FetchOptions {
            cache: self.cache.clone(),
            offline: self.offline,
            progress: self.progress.clone(),
            ..FetchOptions::default()
        }
    }
}

/// Opens a source by its specification.
///
/// | specification | what it is |
/// |---|---|
/// | `mnist:train`, `mnist:test` | the MNIST digits, fetched into the cache when they are not there |
/// | `digits:`, `digits:train`, `digits:test` | 1,797 digits of 8 × 8 that are part of the program |
/// | `idx:images,labels` | IDX files, `.gz` or not; the labels may be left out when no targets are wanted |
/// | `csv:path?label=species&…` | a table; see [`TableOptions`](crate::TableOptions) for the options |
pub fn open(spec: &str, options: &OpenOptions) -> Result<Arc<dyn Source>, Error> {
    let spec = Spec::parse(spec)?;
    match spec.scheme {
        "mnist" => {
            expect_name("part of `mnist:`", spec.rest, &["train", "test"])?;
            Ok(Arc::new(mnist::open(spec.rest == "train", &options.fetch())?))
        }
        "digits" => {
            expect_name("part of `digits:`", spec.rest, &["", "train", "test"])?;
            digits::open(spec.rest)
        }
        "idx" => {
            let (images, labels) = match spec.rest.split_once(',') {
                Some((images, labels)) => (images, Some(options.path(labels))),
                None => (spec.rest, None),
            };
            if labels.is_none() && options.targets {
                let (expected, found) = ("`images,labels`".to_owned(), format!("`{}`", spec.rest));
                return Err(Error::BadSetting { setting: "idx:", expected, found });
            }
            idx::open(&options.path(images), labels.as_deref(), options.schema.as_ref(), NormaliserKind::Image)
        }
        _ => table::open(&options.path(spec.rest), &spec.options, options),
    }
}
