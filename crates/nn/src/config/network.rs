use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use super::settings::settings_setters;
use super::stack;
use super::wording::explain;
use super::{LayerConfig, Settings, table};
use crate::{Error, InputType, Optimiser};

/// A whole network, as a job file or a Rust program describes it.
#[derive(Clone, Debug, PartialEq)]
pub struct NetworkConfig {
    /// Every random number of the network follows from it.
    pub seed: u64,
    /// What goes in. A row of features is what all of them are, one after the other.
    pub inputs: Vec<InputConfig>,
    /// What holds for every layer that does not say otherwise.
    pub defaults: Settings,
    /// The layers, first to last.
    pub layers: Vec<LayerConfig>,
    /// The layer that learns from what goes into it alone, while all others stay as they are; none: the network learns as a whole.
    pub pretrains: Option<usize>,
    /// How the parameters find their way.
    pub optimiser: Optimiser,
    /// The share that a mean of the parameters over all steps keeps in one step. That mean is what is judged and kept.
    pub moving_average: Option<f64>,
}

settings_setters!(NetworkConfig, defaults);

/// One of the things that go into a network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputConfig {
    /// What layers call it by.
    pub name: String,
    /// What it is.
    #[serde(flatten)]
    pub kind: InputType,
}

/// What the input of a network is called that has only one.
pub(super) const ONLY_INPUT: &str = "input";

/// What a table of a network holds besides the settings.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Own {
    #[serde(default)]
    seed: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    input: Option<InputType>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    inputs: Vec<InputConfig>,
    layers: Vec<LayerConfig>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pretrains: Option<usize>,
    #[serde(default, deserialize_with = "table::required", skip_serializing_if = "is_usual")]
    optimiser: Optimiser,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    moving_average: Option<f64>,
}

fn is_usual(optimiser: &Optimiser) -> bool {
    !optimiser.searches()
}

impl NetworkConfig {
    /// A network over rows of so many numbers.
    pub fn feed_forward(inputs: usize) -> Self {
        Self::new(InputType::FeedForward(inputs))
    }

    /// A network over images.
    pub fn image(height: usize, width: usize, channels: usize) -> Self {
        Self::new(InputType::Image([height, width, channels]))
    }

    /// A network over images that come as rows.
    pub fn flat_image(height: usize, width: usize, channels: usize) -> Self {
        Self::new(InputType::FlatImage([height, width, channels]))
    }

    /// A network over examples of this kind, such as [`InputType::of_shape`] finds in data.
    pub fn new(input: InputType) -> Self {
        Self::with_inputs([(ONLY_INPUT, input)])
    }

    /// A network into which several things go.
    pub fn with_inputs<'a>(inputs: impl IntoIterator<Item = (&'a str, InputType)>) -> Self {
        let inputs = inputs.into_iter().map(|(name, kind)| InputConfig { name: name.to_owned(), kind }).collect();
        Self {
            seed: 0,
            inputs,
            defaults: Settings::default(),
            layers: Vec::new(),
            pretrains: None,
            optimiser: Optimiser::default(),
            moving_average: None,
        }
    }

    /// Every random number of the network follows from it.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// How the parameters find their way.
    #[must_use]
    pub fn optimiser(mut self, optimiser: Optimiser) -> Self {
        self.optimiser = optimiser;
        self
    }

    /// Keeps a mean of the parameters over all steps, which keeps this share of what it was in each. That mean is what is judged and kept.
    #[must_use]
    pub fn moving_average(mut self, keeps: f64) -> Self {
        self.moving_average = Some(keeps);
        self
    }

    /// Adds a layer at the end.
    #[must_use]
    pub fn layer(mut self, layer: impl Into<LayerConfig>) -> Self {
        self.layers.push(layer.into());
        self
    }

    /// Adds layers at the end.
    #[must_use]
    pub fn layers(mut self, layers: impl IntoIterator<Item = LayerConfig>) -> Self {
        self.layers.extend(layers);
        self
    }

    /// The same network, of which only this layer learns, from what goes into it.
    #[must_use]
    pub fn pretraining(mut self, layer: usize) -> Self {
        self.pretrains = Some(layer);
        // It is a mean over the steps in which the network learns as a whole.
        self.moving_average = None;
        self
    }

    /// The same network, of which one layer has other settings where these are set.
    #[must_use]
    pub fn laid_over(mut self, layer: usize, settings: &Settings) -> Self {
        let own = self.layers[layer].settings_mut();
        let (name, after) = (own.name.clone(), own.after.clone());
        *own = Settings { name, after, ..settings.or(own) };
        self
    }

    /// Whether something that comes out is compared with targets.
    pub fn has_end(&self) -> bool {
        self.layers.iter().any(LayerConfig::is_end)
    }

    /// Reads a description in JSON.
    pub fn from_json(text: &str) -> Result<Self, Error> {
        let value: Value =
            serde_json::from_str(text).map_err(|e| Error::Config { path: String::new(), message: e.to_string() })?;
        Self::from_value(value)
    }

    /// Writes the description in JSON.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("a configuration has only names, numbers and lists")
    }

    /// Reads a description from a tree of values, whatever file it came from.
    pub fn from_value(value: Value) -> Result<Self, Error> {
        let Value::Object(mut table) = value else {
            return Err(Error::Config { path: String::new(), message: format!("expected a table, found {value}") });
        };
        table.get_mut("layers").into_iter().for_each(super::window::spread_numbers);
        let stack = table.get("layers").map(stack::spelt_out).transpose()?.flatten();
        if stack.is_some() {
            table.insert("layers".into(), Value::Array(Vec::new()));
        }
        let (shared, own): (Map<_, _>, Map<_, _>) = table.into_iter().partition(|(key, _)| {
            let key = key.as_str();
            Settings::KEYS.contains(&key) && !Settings::OF_LAYERS.contains(&key)
        });
        let defaults: Settings = read(Value::Object(shared))?;
        let Own { seed, input, mut inputs, layers, pretrains, optimiser, moving_average } = read(Value::Object(own))?;
        let layers = stack.unwrap_or(layers);
        match input {
            Some(kind) if inputs.is_empty() => inputs.push(InputConfig { name: ONLY_INPUT.to_owned(), kind }),
            None if !inputs.is_empty() => {}
            _ => {
                let message = "expected either `input`, or a list of `inputs` with a `name` each".into();
                return Err(Error::Config { path: String::new(), message });
            }
        }
        if let Some(message) = defaults.problem() {
            return Err(Error::Config { path: String::new(), message });
        }
        let of_mean = || {
            let keeps = moving_average?;
            if optimiser.searches() {
                return Some(
                    "`moving_average` is not for an `optimiser` that searches: its steps are few and long".into(),
                );
            }
            (!(0.0..1.0).contains(&keeps)).then(|| {
                format!("`moving_average` must be 0 or more and less than 1, found {keeps}; 0.99 and 0.999 are usual")
            })
        };
        if let Some(message) = optimiser.problem().or_else(of_mean) {
            return Err(Error::Config { path: String::new(), message });
        }
        Ok(Self { seed, inputs, defaults, layers, pretrains, optimiser, moving_average })
    }
}

fn read<T: serde::de::DeserializeOwned>(value: Value) -> Result<T, Error> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let path = error.path().to_string();
        let message = error.into_inner().to_string();
        let layer = path.strip_prefix("layers[").and_then(|rest| rest.split(']').next()?.parse().ok());
        match (layer, message.split_once(": ")) {
            (Some(index), Some((kind, message))) => Error::Layer { index, kind: kind.into(), message: message.into() },
            _ => {
                // Serde names an unknown key in the path too; once is enough.
                let unknown = message.starts_with("unknown field");
                let path = if unknown || path == "." { String::new() } else { path };
                Error::Config { path, message: explain(&message, &Settings::KEYS) }
            }
        }
    })
}

impl Serialize for NetworkConfig {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::Error;
        let (input, inputs) = match &self.inputs[..] {
            [only] if only.name == ONLY_INPUT => (Some(only.kind), Vec::new()),
            several => (None, several.to_vec()),
        };
        let (layers, optimiser) = (self.layers.clone(), self.optimiser.clone());
        let Self { seed, pretrains, moving_average, .. } = *self;
        let own = Own { seed, input, inputs, layers, pretrains, optimiser, moving_average };
        let mut table = serde_json::to_value(own).map_err(S::Error::custom)?;
        let shared = serde_json::to_value(&self.defaults).map_err(S::Error::custom)?;
        if let (Value::Object(table), Value::Object(shared)) = (&mut table, shared) {
            table.extend(shared);
        }
        table.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for NetworkConfig {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::from_value(Value::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::NetworkConfig;
    use crate::config::{Conv2d, Dense, Output, Subsampling};
    use crate::{Activation, Loss, Updater, WeightInit};

    const JSON: &str = r#"{
        "seed": 123, "input": { "image": [28, 28, 1] }, "weight_init": "xavier",
        "updater": { "nesterovs": { "learning_rate": 0.01, "momentum": 0.9 } },
        "layers": [
            { "conv2d": { "filters": 20, "kernel": [5, 5] } },
            { "subsampling": { "pool": "max", "kernel": [2, 2], "stride": [2, 2] } },
            { "dense": { "units": 500, "activation": "relu", "l2": 0.001, "name": "fc" } },
            { "output": { "units": 10, "activation": "softmax", "loss": "negative_log_likelihood" } }
        ] }"#;

    #[test]
    fn builders_and_files_say_the_same() {
        let built = NetworkConfig::image(28, 28, 1)
            .seed(123)
            .weight_init(WeightInit::Xavier)
            .updater(Updater::nesterovs(0.01, 0.9))
            .layer(Conv2d::new(20, [5, 5]))
            .layer(Subsampling::max([2, 2]).stride([2, 2]))
            .layer(Dense::new(500).activation(Activation::Relu).l2(0.001).name("fc"))
            .layer(Output::new(10, Loss::CrossEntropy).activation(Activation::Softmax));
        assert_eq!(NetworkConfig::from_json(JSON).expect("readable"), built);
        assert_eq!(NetworkConfig::from_json(&built.to_json()).expect("readable"), built);
    }

    #[test]
    fn errors_name_the_layer_and_the_nearest_key() {
        let cases = [
            ("\"units\": 500", "\"unit\": 500", "layer 2 (dense): unknown key `unit`; did you mean `units`?"),
            ("\"l2\": 0.001", "\"l_2\": 0.001", "layer 2 (dense): unknown key `l_2`; did you mean `l2`?"),
            ("\"relu\"", "\"rellu\"", "layer 2 (dense): `activation`: unknown name `rellu`; did you mean `relu`?"),
            (
                "\"subsampling\"",
                "\"subsample\"",
                "layer 1 (subsample): there is no such kind of layer; did you mean `subsampling`?",
            ),
            ("\"seed\"", "\"sede\"", "unknown key `sede`; did you mean `seed`?"),
            ("\"nesterovs\"", "\"nesterov\"", "`updater`: unknown name `nesterov`; did you mean `nesterovs`?"),
            ("\"filters\": 20, ", "", "layer 0 (conv2d): missing key `filters`"),
        ];
        for (good, bad, expected) in cases {
            let error = NetworkConfig::from_json(&JSON.replace(good, bad)).expect_err(bad);
            assert_eq!(error.to_string(), expected);
        }
    }

    #[test]
    fn settings_that_make_no_sense_are_refused() {
        let cases = [
            (r#""gradient_normalisation": {"clip_element_wise": {"threshold": -1}}"#, "`threshold`"),
            (r#""constraints": [{"min_max_norm": {"min": 2, "max": 1}}]"#, "`min` ≤ `max`"),
            (r#""dropout": 1.5"#, "`dropout`"),
            (r#""l2": -1"#, "`l2`"),
            (r#""l1": -1"#, "`l1`"),
        ];
        for (setting, part) in cases {
            let json = JSON.replace("\"l2\": 0.001", setting);
            let config = NetworkConfig::from_json(&json).expect("readable");
            let error = crate::Network::new(config).expect_err(setting).to_string();
            assert!(error.starts_with("layer 2 (dense)") && error.contains(part), "{error}");
        }
        let config = NetworkConfig::from_json(&JSON.replace("\"fc\"", "\"a.b\"")).expect("readable");
        assert!(crate::Network::new(config).expect_err("a dot").to_string().contains("must not hold a dot"));
    }
}
