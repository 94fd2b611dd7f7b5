use std::ops::Range;
use std::sync::Arc;

use paceline_model::{PartwiseModel, State, TakePart};

use super::{Exchange, Exchanged, Outlet, Purpose, Step, StepPlan};
use crate::Error;

/// A replica that is alone: it updates everything, and applies its own update.
#[derive(Default)]
pub struct Solo {
    /// Who is handed the gradient or the update of this step, if it is taken for somebody else.
    handed: Option<HandedTo>,
}

struct HandedTo(Arc<dyn Outlet>);

impl TakePart for HandedTo {
    fn take(&mut self, part: Range<usize>, values: &mut [f32]) {
        self.0.put(part, values);
    }
}

impl Exchange for Solo {
    fn begin_step(&mut self, _: &mut State, step: &Step<'_>) -> Result<StepPlan<'_>, Error> {
        Ok(match step.purpose {
            _ if step.examples == 0 => StepPlan::Not,
            Purpose::Train => StepPlan::Alone,
            Purpose::HandOut(handed, outlet) => {
                StepPlan::InParts(*handed, self.handed.insert(HandedTo(outlet.clone())))
            }
        })
    }

    fn end_step(&mut self, _: &mut dyn PartwiseModel, _: &mut State, _: &Step<'_>) -> Result<Exchanged, Error> {
        self.handed = None;
        Ok(Exchanged::default())
    }

    fn settle(&mut self, _state: &mut State) -> Result<(), Error> {
        Ok(())
    }
}
