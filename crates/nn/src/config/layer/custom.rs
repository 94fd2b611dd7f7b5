use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::super::Settings;
use crate::custom::{CustomLayer, Layer};

/// A layer of another crate, by name until a [`crate::Registry`] has made it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CustomConfig {
    /// The name in the registry.
    #[serde(rename = "kind")]
    pub name: String,
    /// What the registry makes it from.
    #[serde(default)]
    pub options: Value,
    /// What every layer may have.
    #[serde(skip)]
    pub settings: Settings,
    #[serde(skip)]
    pub(crate) made: Option<Arc<dyn CustomLayer>>,
}

impl PartialEq for CustomConfig {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && self.options == other.options && self.settings == other.settings
    }
}

impl CustomConfig {
    /// A layer of another crate.
    pub fn new(layer: impl Layer) -> Self {
        let (name, options) = (Layer::name(&layer).to_owned(), Layer::options(&layer));
        Self { name, options, settings: Settings::default(), made: Some(Arc::new(layer)) }
    }
}
