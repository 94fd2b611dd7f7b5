//! The first pass over all images, by several threads: which can be read, and their pixels where these are kept.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::thread::{Builder, available_parallelism, scope};

use super::decoding::{Layout, decode};
use super::files::below;
use crate::BoxError;

/// Every thread may hold one large image.
const MOST_THREADS: usize = 8;
/// Files that are named with what is wrong with them.
const MOST_LISTED: usize = 5;

/// Why an image cannot be an example.
pub(super) enum Failure {
    Unreadable(BoxError),
    /// It has another size than the first, and nobody has said what to do about it.
    OtherSize((u32, u32)),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(why) => write!(f, "{why}"),
            Self::OtherSize((width, height)) => write!(f, "it has {width} × {height} pixels"),
        }
    }
}

/// Decodes all images, into `pixels` unless that is empty; returns the places of those that fail, in their order.
pub(super) fn survey(files: &[PathBuf], layout: &Layout, scaled: bool, pixels: &mut [u8]) -> Vec<(usize, Failure)> {
    let mut rooms = pixels.chunks_exact_mut(layout.width());
    let work = Mutex::new(files.iter().enumerate().map(|(at, file)| (at, file, rooms.next())));
    let failures = Mutex::new(Vec::new());
    let fail = |at, failure| failures.lock().unwrap_or_else(PoisonError::into_inner).push((at, failure));
    let take = || work.lock().unwrap_or_else(PoisonError::into_inner).next();
    let decode_all = || {
        while let Some((at, file, room)) = take() {
            match decode(file, layout) {
                Err(why) => fail(at, Failure::Unreadable(why)),
                Ok((_, size)) if !scaled && size != layout.size => fail(at, Failure::OtherSize(size)),
                Ok((bytes, _)) => {
                    if let Some(room) = room {
                        room.copy_from_slice(&bytes);
                    }
                }
            }
        }
    };
    let threads = available_parallelism().map_or(1, usize::from).min(MOST_THREADS).min(files.len());
    scope(|scope| {
        for _ in 1..threads {
            // Those that can be started share the work; this thread does the rest.
            let _ = Builder::new().name("paceline-images".to_owned()).spawn_scoped(scope, decode_all);
        }
        decode_all();
    });
    let mut failures = failures.into_inner().unwrap_or_else(PoisonError::into_inner);
    failures.sort_by_key(|(at, _)| *at);
    failures
}

/// The first failures in words.
pub(super) fn listed(folder: &Path, files: &[PathBuf], failures: &[(usize, Failure)]) -> String {
    let named = failures.iter().take(MOST_LISTED).map(|(at, why)| format!("`{}` ({why})", below(folder, &files[*at])));
    let mut text = named.collect::<Vec<_>>().join(", ");
    if failures.len() > MOST_LISTED {
        text.push_str(&format!(" and {} more", failures.len() - MOST_LISTED));
    }
    text
}
