//! A network that begins with what others have learned: weights by name from a file, layers that begin anew, layers that stay as they
//! are.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use paceline_data::Schema;
use paceline_model::Progress;
use paceline_nn::{Layout, NetworkConfig, Parameter, WeightsFile};
use serde::{Deserialize, Serialize};

use crate::run::start_from::{Begins, same_classes, same_features};
use crate::{Error, Trainer};

/// What the table `transfer` of a job says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Transfer {
    /// The file with the weights.
    pub from: PathBuf,
    /// Layers, by name or index, that begin anew.
    #[serde(default)]
    pub fresh: Vec<String>,
    /// This layer and all before it stay as they are.
    #[serde(default)]
    pub freeze: Option<String>,
    /// What layers are called in the file, where that is something else.
    #[serde(default)]
    pub names: BTreeMap<String, String>,
    /// Whose names and layouts the file has; told from the file if it is not said.
    #[serde(default)]
    pub layout: Option<Names>,
}

/// Whose names and layouts a file has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Names {
    /// Ours.
    Paceline,
    /// Those of PyTorch's modules.
    Pytorch,
}

/// What was taken from a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Transferred {
    /// Parameters of the network, and what they are called in the file.
    pub taken: BTreeMap<String, String>,
    /// Parameters that begin anew.
    pub fresh: Vec<String>,
    /// Arrays of the file that nobody has asked for.
    pub unused: Vec<String>,
}

/// What a layer is called: its name, or its index.
fn name_of(network: &NetworkConfig, index: usize) -> String {
    network.layers[index].settings().name.clone().unwrap_or_else(|| index.to_string())
}

impl Transfer {
    /// Fails on names of layers that there are not.
    pub(crate) fn check(&self, network: &NetworkConfig) -> Result<(), String> {
        let known: Vec<String> = (0..network.layers.len()).map(|index| name_of(network, index)).collect();
        let asked = self.fresh.iter().chain(&self.freeze).chain(self.names.keys());
        match asked.into_iter().find(|name| !known.contains(name)) {
            None => Ok(()),
            Some(unknown) => {
                let hint = paceline_nn::config::nearest(unknown, known.iter().map(String::as_str));
                let hint = hint.map_or_else(
                    || "layers without a name are known by their index, from 0".into(),
                    |near| format!("did you mean `{near}`?"),
                );
                Err(format!("`transfer`: there is no layer `{unknown}`; {hint}"))
            }
        }
    }

    /// The same network, of which the layers that are to stay as they are do.
    pub(crate) fn frozen(&self, mut network: NetworkConfig) -> NetworkConfig {
        let last =
            self.freeze.as_ref().and_then(|last| (0..network.layers.len()).find(|at| name_of(&network, *at) == *last));
        for index in last.map_or(0..0, |last| 0..last + 1) {
            let frozen = paceline_nn::config::Settings { frozen: Some(true), ..Default::default() };
            network = network.laid_over(index, &frozen);
        }
        network
    }
}

fn column_names(schema: &Schema) -> BTreeSet<&str> {
    schema.columns.iter().map(|column| column.name.as_str()).collect()
}

impl Trainer {
    /// Begins with the weights of a file. Features are treated as the training data asks for.
    pub fn transferred(mut self, transfer: &Transfer) -> Result<Self, Error> {
        let file = WeightsFile::load(&transfer.from)?;
        let layout = match transfer.layout {
            Some(Names::Paceline) => Layout::Own,
            Some(Names::Pytorch) => Layout::PyTorch,
            None if file.is_own => Layout::Own,
            None => Layout::PyTorch,
        };
        let (network, mut state) = (&self.network, self.network.initial_state());
        let mut told = Transferred::default();
        let mut used: Vec<String> = Vec::new();
        let mut missing: Vec<&Parameter> = Vec::new();
        for (parameters, flat) in
            [(network.parameters(), &mut state.parameters), (network.running(), &mut state.running)]
        {
            for parameter in parameters {
                let layer = &network.layers()[parameter.layer];
                let own = parameter.name.strip_prefix(&format!("{}.", layer.name)).unwrap_or(&parameter.name);
                if transfer.fresh.contains(&layer.name) {
                    told.fresh.push(parameter.name.clone());
                    continue;
                }
                let prefix = transfer.names.get(&layer.name).unwrap_or(&layer.name);
                match file.find(layout, prefix, layer, own, &parameter.shape) {
                    Some((values, names)) if values.iter().all(|value| value.is_finite()) => {
                        flat[parameter.range.clone()].copy_from_slice(&values);
                        told.taken.insert(parameter.name.clone(), names.join(" + "));
                        used.extend(names);
                    }
                    _ => missing.push(parameter),
                }
            }
        }
        // Weights are of places: features and classes of the same names must stand where they stood. Other data may well have others.
        let is_taken = |parameter: Option<&Parameter>| parameter.is_some_and(|own| !told.fresh.contains(&own.name));
        let schema = file.metadata("schema").and_then(|text| serde_json::from_str::<Schema>(text).ok());
        if let (Some(own), Some(theirs)) = (self.train.schema(), schema) {
            if is_taken(network.parameters().first()) && column_names(own) == column_names(&theirs) {
                same_features(own, &theirs)?;
            }
            if is_taken(network.parameters().last()) {
                same_classes(own.class_names().unwrap_or_default(), theirs.class_names().unwrap_or_default())?;
            }
        }
        told.unused = file.names().filter(|name| !used.iter().any(|used| used == name)).map(str::to_owned).collect();
        if let Some(first) = missing.first() {
            let names: Vec<String> = missing.iter().map(|p| format!("`{}` {:?}", p.name, p.shape)).collect();
            let expected = format!("finite numbers for {}", names.join(", "));
            let layer = &network.layers()[first.layer].name;
            let found = format!(
                "none of that name and shape in `{}`, which has {}; say with `transfer.names` what layer `{layer}` is called there, or \
                 with `transfer.fresh` that it begins anew",
                file.path().display(),
                if told.unused.is_empty() { "nothing more".into() } else { told.unused.join(", ") }
            );
            return Err(Error::OtherModel { expected, found });
        }
        let normalisers = self.fit_normalisers()?;
        self.begins = Some(Begins { state, progress: Progress::default(), normalisers, is_pretrained: true });
        self.transferred = Some(told);
        Ok(self)
    }
}
