use serde::{Deserialize, Deserializer, Serialize};

use super::table;
use crate::{Activation, Constraint, GradientNormalisation, Schedule, Updater, WeightInit, WeightNoise};

/// What may be set for the whole network and again for one layer, where the layer's word counts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// A name for the layer; names of parameters start with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What goes into the layer: names of layers and inputs. Default: the layer before it.
    #[serde(deserialize_with = "one_or_more", skip_serializing_if = "Option::is_none")]
    pub after: Option<Vec<String>>,
    /// What is done to every number that comes out. Default: `identity`.
    #[serde(deserialize_with = "table::optional", skip_serializing_if = "Option::is_none")]
    pub activation: Option<Activation>,
    /// How weights start. Default: `xavier`.
    #[serde(deserialize_with = "table::optional", skip_serializing_if = "Option::is_none")]
    pub weight_init: Option<WeightInit>,
    /// What biases start with. Default: 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bias_init: Option<f32>,
    /// How gradients become updates. Default: `sgd` with a rate of 0.001.
    #[serde(deserialize_with = "table::optional", skip_serializing_if = "Option::is_none")]
    pub updater: Option<Updater>,
    /// How gradients of biases become updates. Default: as those of weights.
    #[serde(deserialize_with = "table::optional", skip_serializing_if = "Option::is_none")]
    pub bias_updater: Option<Updater>,
    /// Stands in for the updater's own rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub learning_rate: Option<Schedule>,
    /// Added to the gradient of weights: l1 · sign(w). Default: 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub l1: Option<f32>,
    /// Added to the gradient of weights: l2 · w. Default: 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub l2: Option<f32>,
    /// Added to the update of weights: rate · weight_decay · w. Default: 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight_decay: Option<f32>,
    /// Probability that a number that goes into the layer is set to 0 in training. Default: 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dropout: Option<f32>,
    /// What is done to the gradient before the updater. Default: `none`.
    #[serde(deserialize_with = "table::optional", skip_serializing_if = "Option::is_none")]
    pub gradient_normalisation: Option<GradientNormalisation>,
    /// Whether the layer stays as it is: nothing of it is learned, and it works as when predicting. Default: no.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frozen: Option<bool>,
    /// What weights must hold after every update. Default: nothing.
    #[serde(deserialize_with = "table::optional_list", skip_serializing_if = "Option::is_none")]
    pub constraints: Option<Vec<Constraint>>,
    /// What is done to weights for the length of a step of training. Default: nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight_noise: Option<WeightNoise>,
}

impl Settings {
    /// All keys, for splitting a table and for suggestions.
    pub const KEYS: [&'static str; 16] = [
        "name",
        "after",
        "activation",
        "weight_init",
        "bias_init",
        "updater",
        "bias_updater",
        "learning_rate",
        "l1",
        "l2",
        "weight_decay",
        "dropout",
        "gradient_normalisation",
        "frozen",
        "constraints",
        "weight_noise",
    ];

    /// Those that only a layer has.
    pub(crate) const OF_LAYERS: [&'static str; 2] = ["name", "after"];

    /// These settings where they are set, and `defaults` where not. The name and what goes in are the layer's own.
    pub fn or(&self, defaults: &Settings) -> Settings {
        Settings {
            name: self.name.clone(),
            after: self.after.clone(),
            activation: self.activation.or(defaults.activation),
            weight_init: self.weight_init.clone().or(defaults.weight_init.clone()),
            bias_init: self.bias_init.or(defaults.bias_init),
            updater: self.updater.clone().or(defaults.updater.clone()),
            // As with the rate below.
            bias_updater: self.bias_updater.clone().or(match self.updater {
                Some(_) => None,
                None => defaults.bias_updater.clone(),
            }),
            // A layer's own updater brings its own rate: the network's rate was meant for the network's updater.
            learning_rate: self.learning_rate.clone().or(match self.updater {
                Some(_) => None,
                None => defaults.learning_rate.clone(),
            }),
            l1: self.l1.or(defaults.l1),
            l2: self.l2.or(defaults.l2),
            weight_decay: self.weight_decay.or(defaults.weight_decay),
            dropout: self.dropout.or(defaults.dropout),
            gradient_normalisation: self.gradient_normalisation.or(defaults.gradient_normalisation),
            frozen: self.frozen.or(defaults.frozen),
            constraints: self.constraints.clone().or(defaults.constraints.clone()),
            weight_noise: self.weight_noise.or(defaults.weight_noise),
        }
    }

    /// What cannot be, if anything.
    pub fn problem(&self) -> Option<String> {
        let dropout = self.dropout.filter(|p| !(0.0..1.0).contains(p));
        if let Some(p) = dropout {
            return Some(format!(
                "`dropout` is a probability of dropping: expected 0 or more and less than 1, found {p}"
            ));
        }
        if self.name.as_ref().is_some_and(|name| name.contains('.') || name.is_empty()) {
            return Some("`name` must not be empty and must not hold a dot".into());
        }
        if let Some(
            GradientNormalisation::ClipElementWise { threshold }
            | GradientNormalisation::ClipL2PerLayer { threshold }
            | GradientNormalisation::ClipL2PerParameter { threshold },
        ) = self.gradient_normalisation
            && !(threshold > 0.0 && threshold.is_finite())
        {
            return Some(format!("`threshold` of a gradient normalisation must be above 0, found {threshold}"));
        }
        if let Some(bias) = self.bias_init.filter(|bias| !bias.is_finite()) {
            return Some(format!("`bias_init` must be a number, found {bias}"));
        }
        let rate = |rate: &Schedule| rate.problem("learning_rate", f64::INFINITY);
        let of_parts = (self.activation.and_then(Activation::problem))
            .or_else(|| self.weight_init.as_ref().and_then(WeightInit::problem))
            .or_else(|| self.updater.as_ref().and_then(Updater::problem))
            .or_else(|| self.bias_updater.as_ref().and_then(Updater::problem))
            .or_else(|| self.learning_rate.as_ref().and_then(rate));
        if of_parts.is_some() {
            return of_parts;
        }
        if let Some(problem) = self.weight_noise.and_then(WeightNoise::problem) {
            return Some(problem);
        }
        if let Some(problem) = self.constraints.iter().flatten().find_map(|constraint| constraint.problem()) {
            return Some(problem);
        }
        let decays = [("l1", self.l1), ("l2", self.l2), ("weight_decay", self.weight_decay)];
        let bad = decays.into_iter().find_map(|(key, v)| v.filter(|v| !(v.is_finite() && *v >= 0.0)).map(|v| (key, v)));
        bad.map(|(key, v)| format!("`{key}` must be 0 or more, found {v}"))
    }
}

impl Settings {
    /// The keys that are set here.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &'static str> {
        let set = [
            self.name.is_some(),
            self.after.is_some(),
            self.activation.is_some(),
            self.weight_init.is_some(),
            self.bias_init.is_some(),
            self.updater.is_some(),
            self.bias_updater.is_some(),
            self.learning_rate.is_some(),
            self.l1.is_some(),
            self.l2.is_some(),
            self.weight_decay.is_some(),
            self.dropout.is_some(),
            self.gradient_normalisation.is_some(),
            self.frozen.is_some(),
            self.constraints.is_some(),
            self.weight_noise.is_some(),
        ];
        Self::KEYS.into_iter().zip(set).filter_map(|(key, is_set)| is_set.then_some(key))
    }
}

/// A name, or a list of them.
fn one_or_more<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<String>>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "a name or a list of names")]
    enum Names {
        One(String),
        More(Vec<String>),
    }
    Ok(Some(match Names::deserialize(deserializer)? {
        Names::One(name) => vec![name],
        Names::More(names) => names,
    }))
}

/// Gives a config struct that holds `settings` a setter for each of them.
macro_rules! settings_setters {
    ($type:ty, $field:ident) => {
        impl $type {
            /// What is done to every number that comes out.
            #[must_use]
            pub fn activation(mut self, activation: crate::Activation) -> Self {
                self.$field.activation = Some(activation);
                self
            }
            /// How weights start.
            #[must_use]
            pub fn weight_init(mut self, init: crate::WeightInit) -> Self {
                self.$field.weight_init = Some(init);
                self
            }
            /// What biases start with.
            #[must_use]
            pub fn bias_init(mut self, value: f32) -> Self {
                self.$field.bias_init = Some(value);
                self
            }
            /// How gradients become updates.
            #[must_use]
            pub fn updater(mut self, updater: crate::Updater) -> Self {
                self.$field.updater = Some(updater);
                self
            }
            /// How gradients of biases become updates.
            #[must_use]
            pub fn bias_updater(mut self, updater: crate::Updater) -> Self {
                self.$field.bias_updater = Some(updater);
                self
            }
            /// Leaves it as it is: nothing of it is learned, and it works as when predicting.
            #[must_use]
            pub fn frozen(mut self) -> Self {
                self.$field.frozen = Some(true);
                self
            }
            /// Stands in for the updater's own rate.
            #[must_use]
            pub fn learning_rate(mut self, rate: impl Into<crate::Schedule>) -> Self {
                self.$field.learning_rate = Some(rate.into());
                self
            }
            /// Added to the gradient of weights: l1 · sign(w).
            #[must_use]
            pub fn l1(mut self, l1: f32) -> Self {
                self.$field.l1 = Some(l1);
                self
            }
            /// Added to the gradient of weights: l2 · w.
            #[must_use]
            pub fn l2(mut self, l2: f32) -> Self {
                self.$field.l2 = Some(l2);
                self
            }
            /// Added to the update of weights: rate · weight_decay · w.
            #[must_use]
            pub fn weight_decay(mut self, decay: f32) -> Self {
                self.$field.weight_decay = Some(decay);
                self
            }
            /// Probability that a number that goes in is set to 0 in training.
            #[must_use]
            pub fn dropout(mut self, probability: f32) -> Self {
                self.$field.dropout = Some(probability);
                self
            }
            /// What is done to the gradient before the updater.
            #[must_use]
            pub fn gradient_normalisation(mut self, normalisation: crate::GradientNormalisation) -> Self {
                self.$field.gradient_normalisation = Some(normalisation);
                self
            }
            /// What is done to weights for the length of a step of training.
            #[must_use]
            pub fn weight_noise(mut self, noise: crate::WeightNoise) -> Self {
                self.$field.weight_noise = Some(noise);
                self
            }
            /// What weights must hold after every update.
            #[must_use]
            pub fn constraint(mut self, constraint: crate::Constraint) -> Self {
                self.$field.constraints.get_or_insert_default().push(constraint);
                self
            }
        }
    };
}
pub(crate) use settings_setters;
