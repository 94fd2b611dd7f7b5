//! Placeholder.
/// Placeholder.
pub struct ModelFile;
