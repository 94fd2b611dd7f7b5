//! The crate from outside, one file for each thing that it does.

#[cfg(feature = "shards")]
mod arrow_shards;
#[cfg(all(feature = "shards", feature = "images"))]
mod columns;
mod conformance;
mod exports;
mod fetching;
mod fitting;
mod idx;
#[cfg(feature = "images")]
mod images;
mod json_lines;
mod lines;
mod loader;
mod messages;
mod sequences;
#[cfg(feature = "shards")]
mod shards;
mod sources;
mod tables;
