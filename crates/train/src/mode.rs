use std::sync::Arc;

use paceline_exchange::Clipping;
use paceline_model::{Model, State};
use serde::{Deserialize, Serialize};

use crate::exchange::{Averaging, AveragingOptions, Exchange, Shared, SharedOptions, Solo, Synchronous};
use crate::gate::Gate;
use crate::{Error, Stop};

/// How replicas stay together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// One replica, alone.
    #[default]
    Solo,
    /// Every step together: gradients are summed, one update.
    Sync,
    /// Steps on their own; every few steps all become their mean.
    Averaging(AveragingOptions),
    /// Hardly ever waiting: what has grown large in an update is sent, and applied as it comes.
    Shared(SharedOptions),
}

impl Mode {
    /// The name in job files and events.
    pub fn name(&self) -> &'static str {
        match self {
            Mode::Solo => "solo",
            Mode::Sync => "sync",
            Mode::Averaging(_) => "averaging",
            Mode::Shared(_) => "shared",
        }
    }

    /// Whether it makes sense for so many replicas.
    pub(crate) fn check(&self, workers: usize) -> Result<(), Error> {
        let bad = |setting, expected, found: String| Err(Error::BadSetting { setting, expected, found });
        match self {
            _ if workers == 0 => bad("train.workers", "at least 1", "0".into()),
            Mode::Solo if workers != 1 => bad("train.workers", "1 in mode `solo`", workers.to_string()),
            Mode::Averaging(AveragingOptions { frequency: 0, .. }) => {
                bad("train.mode.averaging.frequency", "at least 1", "0".into())
            }
            Mode::Shared(options) => {
                options.threshold.validate()?;
                Ok(options.clipping.as_ref().map_or(Ok(()), Clipping::validate)?)
            }
            _ => Ok(()),
        }
    }

    /// The exchanges of so many replicas of a model, and the gate where they wait for each other.
    pub(crate) fn team(
        &self,
        workers: usize,
        model: &dyn Model,
        state: &State,
        stop: &Stop,
    ) -> Result<(Exchanges, Arc<Gate>), Error> {
        let gate = Arc::new(Gate::new(workers));
        let team = match self {
            Mode::Solo => boxed(vec![Solo::new(stop.clone())]),
            Mode::Sync => boxed(Synchronous::team(workers, model, state, &gate, stop)),
            Mode::Averaging(options) => boxed(Averaging::team(workers, *options, state, &gate, stop)),
            Mode::Shared(options) => boxed(Shared::team(workers, options, state, &gate, stop)?),
        };
        Ok((team, gate))
    }
}

/// One for every replica.
type Exchanges = Vec<Box<dyn Exchange>>;

fn boxed<E: Exchange + 'static>(team: Vec<E>) -> Exchanges {
    team.into_iter().map(|exchange| Box::new(exchange) as Box<dyn Exchange>).collect()
}
