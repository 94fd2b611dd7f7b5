use paceline_model::{Flat, State};
use paceline_nn::{ModelFile, Network};

use super::InferenceError;
use crate::{Error, Normalisers, SavedModel};

/// One version of the model. All replicas read the same parameters; a request keeps the version that it began with.
pub(super) struct Served {
    pub(super) version: u64,
    pub(super) network: Network,
    pub(super) state: State,
    pub(super) normalisers: Normalisers,
}

impl Served {
    pub(super) fn new(model: ModelFile, version: u64) -> Result<Self, Error> {
        let SavedModel { file, normalisers, .. } = SavedModel::new(model)?;
        // Nobody trains here: what the updater remembers can go.
        let state = State { gradient: Flat::default(), slots: Vec::new(), ..file.state };
        Ok(Self { version, network: file.network, state, normalisers })
    }

    /// Numbers that go in per example.
    pub(super) fn inputs(&self) -> usize {
        self.network.input().len()
    }

    /// Numbers that come out per example.
    pub(super) fn outputs(&self) -> usize {
        self.network.output().len()
    }

    /// Whether requests for this model can be answered by another one.
    pub(super) fn can_become(&self, other: &Served) -> Result<(), InferenceError> {
        let shapes = [
            ("input", self.network.input(), other.network.input()),
            ("output", self.network.output(), other.network.output()),
        ];
        match shapes.into_iter().find(|(_, expected, found)| expected != found) {
            Some((what, expected, found)) => Err(InferenceError::OtherShape { what, expected, found }),
            None => Ok(()),
        }
    }
}
