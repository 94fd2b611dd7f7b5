//! A run that begins with what another one has learned.

use std::path::Path;

use paceline_data::Schema;
use paceline_model::{Progress, State};
use paceline_nn::{ModelFile, Network, Parameter};

use crate::run::resume::read_extra;
use crate::{Error, Normalisers, Trainer};

/// What is taken over from a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Take {
    /// What it has learned. The updater begins anew, and steps and epochs are counted from the first: fine-tuning.
    Learned,
    /// Everything: the updater goes on with what it remembers, and steps and epochs are counted on. The epochs of the run come on top.
    Everything,
}

/// What a run begins with.
pub(crate) struct Begins {
    pub state: State,
    pub progress: Progress,
    /// What the model was trained with.
    pub normalisers: Normalisers,
    /// True if the model has only been pretrained.
    pub is_pretrained: bool,
}

impl Trainer {
    /// Begins with what a model has learned, which has the same layers. Features and targets are treated as they were when it was trained.
    pub fn begin_with(mut self, model: &ModelFile, take: Take) -> Result<Self, Error> {
        let (network, origin) = (&self.network, Path::new("the model to begin with"));
        same_arrays(network.parameters(), model.network.parameters())?;
        same_arrays(network.running(), model.network.running())?;
        let schema: Option<Schema> = read_extra(model, origin, "schema")?;
        if let (Some(own), Some(theirs)) = (self.train.schema(), &schema) {
            same_meaning(own, theirs)?;
        }
        let is_finite = |parameter: &&Parameter| {
            model.state.parameters[parameter.range.clone()].iter().all(|value| value.is_finite())
        };
        if let Some(broken) = model.network.parameters().iter().find(|parameter| !is_finite(parameter)) {
            let found = format!("`{}` with one that is not finite", broken.name);
            return Err(Error::OtherModel { expected: "numbers to go on from".into(), found });
        }
        let normalisers = Normalisers::read(model, origin)?;
        let mut state = network.initial_state();
        state.parameters.copy_from_slice(&model.state.parameters);
        state.running.copy_from_slice(&model.state.running);
        let mut progress = Progress::default();
        if take == Take::Everything {
            same_updater(network, &model.network)?;
            state.slots.iter_mut().zip(&model.state.slots).for_each(|(to, from)| to.copy_from_slice(from));
            progress = model.progress;
            self.options.epochs = self.options.epochs.saturating_add(progress.epoch);
        }
        let is_pretrained = model.network.config().pretrains.is_some();
        self.begins = Some(Begins { state, progress, normalisers, is_pretrained });
        self.transferred = None;
        Ok(self)
    }

    /// What the run begins with.
    pub fn first_state(&self) -> State {
        self.begins.as_ref().map_or_else(|| self.network.initial_state(), |begins| begins.state.clone())
    }

    /// Steps and epochs that were taken before it begins.
    pub fn first_progress(&self) -> Progress {
        self.begins.as_ref().map_or_else(Progress::default, |begins| begins.progress)
    }
}

/// Names that a message quotes.
const MOST_NAMED: usize = 5;

/// Fails if features or classes stand in other places than they did when the model was trained: its weights are of places.
fn same_meaning(ours: &Schema, theirs: &Schema) -> Result<(), Error> {
    let other = |expected: String, found: String| Err(Error::OtherModel { expected, found });
    if !ours.columns.is_empty() && !theirs.columns.is_empty() {
        same_features(ours, theirs)?;
        let (own, known) = (ours.shifts(), theirs.shifts());
        if let Some(at) = (0..own.len()).find(|at| own[*at] != known[*at]) {
            let name = &ours.feature_names()[at];
            return other(
                format!("`{name}` less {}, as the training data is read", own[at]),
                format!("less {}", known[at]),
            );
        }
    }
    let classes = |schema: &Schema| schema.class_names().map(<[String]>::to_vec).unwrap_or_default();
    let (own, known) = (classes(ours), classes(theirs));
    same_classes(&own, &known)
}

/// Fails if the outputs of a model stand for other classes than those of the data.
pub(crate) fn same_classes(ours: &[String], theirs: &[String]) -> Result<(), Error> {
    if ours.is_empty() || theirs.is_empty() || ours == theirs {
        return Ok(());
    }
    let named = |names: &[String]| {
        let more =
            if names.len() > MOST_NAMED { format!(" and {} more", names.len() - MOST_NAMED) } else { String::new() };
        format!("`{}`{more}", names[..names.len().min(MOST_NAMED)].join("`, `"))
    };
    Err(Error::OtherModel {
        expected: format!("the classes {}, in this order, as in the training data", named(ours)),
        found: format!(
            "{}: name them in the order of the model, as in `?classes=a,b`, or let the last layer begin anew",
            named(theirs)
        ),
    })
}

/// Fails if the features of two schemas are not the same, in the same order.
pub(crate) fn same_features(ours: &Schema, theirs: &Schema) -> Result<(), Error> {
    let (own, known) = (ours.feature_names(), theirs.feature_names());
    let Some(at) = (0..own.len().max(known.len())).find(|at| own.get(*at) != known.get(*at)) else { return Ok(()) };
    let name = |names: &[String]| names.get(at).map_or("nothing".into(), |name| format!("`{name}`"));
    Err(Error::OtherModel {
        expected: format!("feature {} to be {}, as in the training data", at + 1, name(&own)),
        found: format!("{}: name the columns in the order of the model, as in `?columns=a,b`", name(&known)),
    })
}

fn same_arrays(ours: &[Parameter], theirs: &[Parameter]) -> Result<(), Error> {
    let tell = |parameter: Option<&Parameter>| {
        parameter.map_or_else(|| "nothing more".to_owned(), |found| format!("`{}` {:?}", found.name, found.shape))
    };
    for at in 0..ours.len().max(theirs.len()) {
        let (own, other) = (ours.get(at), theirs.get(at));
        let is_same = own.zip(other).is_some_and(|(own, other)| own.shape == other.shape);
        if !is_same {
            return Err(Error::OtherModel { expected: tell(own), found: tell(other) });
        }
    }
    Ok(())
}

/// What an updater remembers means nothing to another one.
fn same_updater(ours: &Network, theirs: &Network) -> Result<(), Error> {
    let slots = |network: &Network| -> Vec<Vec<&'static str>> {
        network.segments().segments().iter().map(|segment| segment.updater.slots().to_vec()).collect()
    };
    let has_mean = |network: &Network| network.config().moving_average.is_some();
    if has_mean(ours) != has_mean(theirs) {
        let tell = |has| if has { "a `moving_average`" } else { "no `moving_average`" };
        return Err(Error::OtherModel { expected: tell(has_mean(ours)).into(), found: tell(has_mean(theirs)).into() });
    }
    let (ours, theirs) = (slots(ours), slots(theirs));
    match ours.iter().zip(&theirs).find(|(own, other)| own != other) {
        None if ours.len() == theirs.len() => Ok(()),
        found => {
            let tell = |slots: Option<&Vec<&str>>| match slots {
                Some(slots) if !slots.is_empty() => format!("an updater that remembers `{}`", slots.join("`, `")),
                _ => "an updater that remembers nothing".into(),
            };
            let (own, other) = found.unzip();
            Err(Error::OtherModel { expected: tell(own), found: tell(other) })
        }
    }
}
