//! The native half of the Python package `paceline`: conversions and errors. It trains nothing by itself.
//!
//! # Layout
//!
//! - `source`: data, from arrays or by its specification.
//! - `arrow`: columns of Arrow, read where they lie. `numbers`: arrays and columns, narrowed to 32 bits.
//! - `view`: a source as data of another schema; a source that can be interrupted.
//! - `network`: descriptions of networks.
//! - `run`: training, a master or a worker on a thread of its own; nothing of it takes the lock of the interpreter.
//! - `model`: what came out of it.
//! - `statistics`: where the time of workers went, in words and as a page.
//! - `failure`: errors as exceptions. `process`: what a forked child must not touch.

mod arrow;
mod failure;
mod model;
mod network;
mod numbers;
mod process;
mod run;
mod source;
mod statistics;
mod view;

use std::ffi::OsString;

use pyo3::prelude::*;

/// Does what a command line asks for, and gives the exit status.
#[pyfunction]
fn command(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
    py.detach(|| paceline_cli::run(arguments))
}

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("Error", module.py().get_type::<failure::Error>())?;
    module.add("SettingError", module.py().get_type::<failure::SettingError>())?;
    module.add("LAYER_KINDS", paceline::nn::config::LayerConfig::KINDS)?;
    module.add_class::<source::Source>()?;
    module.add_class::<network::Network>()?;
    module.add_class::<run::Run>()?;
    module.add_class::<model::Model>()?;
    module.add_class::<arrow::ArrowColumn>()?;
    module.add_function(wrap_pyfunction!(arrow::read_arrow, module)?)?;
    module.add_function(wrap_pyfunction!(statistics::statistics_table, module)?)?;
    module.add_function(wrap_pyfunction!(statistics::statistics_page, module)?)?;
    module.add_function(wrap_pyfunction!(command, module)?)?;
    Ok(())
}
