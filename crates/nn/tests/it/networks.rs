//! Networks and batches that several tests share.

use paceline_model::{Batch, Targets};
use paceline_nn::config::NetworkConfig;
use paceline_nn::random::Counted;
use paceline_nn::{Loss, Network};

/// A batch of `examples` with normal features and targets that suit the network's loss.
pub(crate) fn batch_for(network: &Network, examples: usize, seed: u64) -> Batch {
    let (inputs, outputs) = (network.input().len(), network.output().len());
    let stream = Counted::new(seed, 1, 0, 0);
    let targets = Counted::new(seed, 2, 0, 0);
    let classes =
        matches!(network.loss(), Loss::CrossEntropy | Loss::SparseCrossEntropy | Loss::Hinge | Loss::SquaredHinge);
    Batch {
        epoch: 3,
        indices: (0..examples as u64).map(|i| i * 7 + 1).collect(),
        width: inputs,
        features: (0..examples * inputs).map(|i| stream.normal(i as u32) as f32).collect(),
        targets: if network.outputs().count() > 1 {
            several(network, examples, targets)
        } else if classes && outputs > 1 {
            Targets::Classes((0..examples).map(|i| targets.bits(i as u32) % outputs as u32).collect())
        } else {
            // Between 0.1 and 0.9: a target that every loss can take a logarithm of.
            let values = (0..examples * outputs).map(|i| 0.1 + 0.8 * targets.uniform(i as u32)).collect();
            Targets::Values { width: outputs, values }
        },
        weights: Some((0..examples).map(|i| 0.5 + i as f32 % 3.0).collect()),
    }
}

/// Targets for several ends: the number of a class where one is told, numbers else.
fn several(network: &Network, examples: usize, stream: Counted) -> Targets {
    let (mut drawn, mut values) = (0, Vec::new());
    let mut next = || {
        drawn += 1;
        drawn
    };
    for _ in 0..examples {
        for output in network.outputs() {
            match output.loss {
                Loss::CrossEntropy => values.push((stream.bits(next()) % output.columns.len() as u32) as f32),
                _ => values.extend(output.columns.map(|_| 0.1 + 0.8 * stream.uniform(next()))),
            }
        }
    }
    Targets::Values { width: values.len() / examples, values }
}

/// The network of a description in JSON.
pub(crate) fn network(json: &str) -> Network {
    let config = NetworkConfig::from_json(json).unwrap_or_else(|e| panic!("{e}\n{json}"));
    Network::new(config).unwrap_or_else(|e| panic!("{e}\n{json}"))
}
