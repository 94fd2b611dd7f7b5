use paceline_model::State;

use super::{Exchange, Exchanged};
use crate::Error;

/// A replica that is alone: it updates everything, and applies its own update.
#[derive(Clone, Copy, Debug, Default)]
pub struct Solo;

impl Exchange for Solo {
    fn mode(&self) -> &'static str {
        "solo"
    }

    fn steps_alone(&self) -> bool {
        true
    }

    fn reduce(&mut self, _: &mut State, weight: f32) -> Result<Option<f32>, Error> {
        Ok(Some(weight))
    }

    fn finish(&mut self, _state: &mut State, _weight: f32) -> Result<Exchanged, Error> {
        Ok(Exchanged::default())
    }

    fn settle(&mut self, _state: &mut State) -> Result<Exchanged, Error> {
        Ok(Exchanged::default())
    }
}
