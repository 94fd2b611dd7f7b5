//! Descriptions of networks.

use paceline::nn::{self, NetworkConfig};
use pyo3::prelude::*;

use crate::failure::of_network;

/// A network that makes sense.
#[pyclass(module = "paceline._native", frozen)]
pub(crate) struct Network {
    config: NetworkConfig,
    network: nn::Network,
}

#[pymethods]
impl Network {
    /// Reads a description in JSON, as the table `network` of a job file has it.
    #[new]
    fn new(json: &str) -> PyResult<Self> {
        let config = NetworkConfig::from_json(json).map_err(|error| of_network(&error))?;
        let network = nn::Network::new(config.clone()).map_err(|error| of_network(&error))?;
        Ok(Self { config, network })
    }

    /// The description, with all that was left out.
    fn to_json(&self) -> String {
        self.config.to_json()
    }

    #[getter]
    fn parameter_count(&self) -> usize {
        self.network.parameter_count()
    }

    /// Numbers that come in for an example.
    #[getter]
    fn inputs(&self) -> usize {
        self.network.input().len()
    }

    /// True if training needs targets.
    #[getter]
    fn wants_targets(&self) -> bool {
        self.network.wants_targets()
    }

    /// Steps of the sequences that come out; none if no sequences do.
    #[getter]
    fn steps(&self) -> Option<usize> {
        self.network.output().steps()
    }

    /// Numbers that come out.
    #[getter]
    fn outputs(&self) -> usize {
        self.network.output().len()
    }

    /// Names and shapes of all parameters, in their order.
    fn parameters(&self) -> Vec<(String, Vec<usize>)> {
        let parameters = self.network.parameters().iter();
        parameters.map(|parameter| (parameter.name.clone(), parameter.shape.clone())).collect()
    }
}
