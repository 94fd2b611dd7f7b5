//! The engine against PyTorch, by the fixtures of `tests/fixtures/pytorch`; their README says how they are made.
//!
//! - `case`: a small network with what PyTorch finds for it, given to all executors.
//! - `layers`, `activations`, `losses`: the cases, a file of fixtures each.
//! - `updaters`: ten steps of every updater over given gradients.
//! - `twenty_steps`: a whole training run from a parameter file of ours.

mod activations;
mod case;
mod layers;
mod losses;
mod parity;
mod twenty_steps;
mod updaters;

use std::path::PathBuf;

use serde::de::DeserializeOwned;

/// Where the fixtures lie.
fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/pytorch").join(name)
}

/// A fixture in JSON.
fn read<T: DeserializeOwned>(name: &str) -> T {
    let text = std::fs::read_to_string(fixture(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{name}: {e}"))
}

fn root_mean_square(values: &[f64]) -> f64 {
    (values.iter().map(|v| v * v).sum::<f64>() / values.len().max(1) as f64).sqrt()
}

/// Every number within `tolerance` of its own magnitude, or of `scale` where that is larger.
fn close(found: &[f64], expected: &[f64], scale: f64, tolerance: f64, what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}: as many numbers");
    for (at, (f, e)) in found.iter().zip(expected).enumerate() {
        let error = (f - e).abs() / scale.max(e.abs()).max(f64::MIN_POSITIVE);
        assert!(error <= tolerance, "{what}[{at}]: found {f}, PyTorch has {e}, {error:.1e} off");
    }
}
