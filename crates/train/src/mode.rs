use std::sync::Arc;

use paceline_exchange::Clipping;
use paceline_model::{PartwiseModel, State};
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::team::gate::Gate;
use crate::team::{
    Averaging, AveragingOptions, Exchange, Outer, Searching, Shake, Shared, SharedOptions, Solo, Synchronous,
};

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
            Mode::Averaging(AveragingOptions { average_updater: Some(true), overlap: true, .. }) => {
                let expected = "false with `overlap`: what a replica did while its round was averaged rests on its own";
                bad("train.mode.averaging.average_updater", expected, "true".into())
            }
            Mode::Averaging(AveragingOptions { outer: Outer::Nesterov { learning_rate, momentum }, .. }) => {
                if !(*learning_rate > 0.0 && learning_rate.is_finite()) {
                    let setting = "train.mode.averaging.outer.nesterov.learning_rate";
                    return bad(setting, "above 0", learning_rate.to_string());
                }
                if !(0.0..1.0).contains(momentum) {
                    let setting = "train.mode.averaging.outer.nesterov.momentum";
                    return bad(setting, "at least 0 and below 1", momentum.to_string());
                }
                Ok(())
            }
            Mode::Shared(options) => {
                options.threshold.validate()?;
                options.clipping.as_ref().map_or(Ok(()), Clipping::validate)?;
                Ok(options.shake.as_ref().map_or(Ok(()), Shake::validate)?)
            }
            _ => Ok(()),
        }
    }

    /// Steps of an epoch between two moments when replicas are one anyway, so that saving them there changes nothing.
    pub(crate) fn stride(&self) -> u64 {
        match self {
            Mode::Averaging(options) => options.frequency,
            _ => 1,
        }
    }

    /// The exchanges of so many replicas of a model, and the gate where they wait for each other.
    pub(crate) fn team(
        &self,
        workers: usize,
        model: &dyn PartwiseModel,
        state: &State,
    ) -> Result<(Exchanges, Arc<Gate>), Error> {
        let gate = Arc::new(Gate::new(workers));
        let team = match self {
            Mode::Solo => boxed(vec![Solo::default()]),
            Mode::Sync if model.searches() => boxed(Searching::team(workers, state, &gate)),
            Mode::Sync => boxed(Synchronous::team(workers, model, state, &gate)),
            Mode::Averaging(options) => boxed(Averaging::team(workers, *options, model, state, &gate)),
            Mode::Shared(options) => boxed(Shared::team(workers, options, state, &gate)?),
        };
        Ok((team, gate))
    }
}

/// One for every replica.
type Exchanges = Vec<Box<dyn Exchange>>;

fn boxed<E: Exchange + 'static>(team: Vec<E>) -> Exchanges {
    team.into_iter().map(|exchange| Box::new(exchange) as Box<dyn Exchange>).collect()
}
