//! Twenty steps of a whole network against PyTorch, which starts from a safetensors file that we wrote: convolutions,
//! batch norm, max pooling, dense layers, Adam, L2, clipping per layer, and a short last batch in every epoch.

use std::collections::BTreeMap;
use std::path::Path;

use paceline_model::{Batch, Model, Progress, State, Targets};
use paceline_nn::{Engine, Instructions, Network, NetworkConfig, Parameter};
use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use serde::Deserialize;

use super::{close, fixture, read, root_mean_square};

/// Every loss within this share of it.
const LOSS_TOLERANCE: f64 = 3e-5;

/// Every parameter within this share of the root mean square of its array.
const PARAMETER_TOLERANCE: f64 = 1e-4;

#[derive(Deserialize)]
#[serde(untagged, deny_unknown_fields)]
enum Entry {
    Data { features: Vec<f32>, classes: Vec<u32> },
    Step { epoch: u64, indices: Vec<u64>, loss: f64 },
    End { parameters: BTreeMap<String, Vec<f64>>, running: BTreeMap<String, Vec<f64>> },
}

#[test]
fn twenty_steps_from_our_file_agree_with_pytorch() {
    steps_agree("twenty-steps/run.json", None, 20);
}

/// Batches of 16, of which five go through the network at once: each part has the batch norm of its own.
#[test]
fn accumulated_gradients_agree_with_those_of_pytorch() {
    steps_agree("twenty-steps/accumulated.json", Some(5), 12);
}

fn steps_agree(file: &str, micro_batch: Option<usize>, count: usize) {
    let network = network();
    let entries: Vec<Entry> = read(file);
    let [Entry::Data { features, classes }, steps @ .., Entry::End { parameters, running }] = &entries[..] else {
        panic!("the fixture starts with the data and ends with the parameters");
    };
    assert_eq!(steps.len(), count);
    for instructions in Instructions::available() {
        let mut engine = Engine::with_instructions(network.clone(), instructions).micro_batch(micro_batch);
        let mut state = engine.initial_state();
        for (step, entry) in steps.iter().enumerate() {
            let Entry::Step { epoch, indices, loss: expected } = entry else { panic!("entry {step} is no step") };
            let batch = batch(&network, features, classes, *epoch, indices);
            let loss = engine.gradient(&batch, &mut state).expect("a batch that fits");
            close(&[loss.mean()], &[*expected], 0.0, LOSS_TOLERANCE, &format!("loss of step {step}"));
            let all = 0..network.parameter_count();
            engine.update(&mut state, all.clone(), batch.weight(), Progress { iteration: step as u64, epoch: *epoch });
            engine.apply(&mut state, all);
        }
        compare(network.parameters(), &state.parameters, parameters);
        compare(network.running(), &state.running, running);
    }
}

/// PyTorch starts from this file: if it were not ours any more, the other test would compare two different runs.
#[test]
fn the_initial_parameters_of_the_fixture_are_still_ours() {
    let network = network();
    let ours = file_of(&network, &network.initial_state());
    let kept = std::fs::read(fixture("twenty-steps/initial.safetensors")).unwrap_or_default();
    if same_tensors(&ours, &kept) {
        return;
    }
    let now = Path::new(env!("CARGO_TARGET_TMPDIR")).join("initial.safetensors");
    std::fs::write(&now, ours).expect("a writable target folder");
    panic!(
        "`initial.safetensors` is not what the network starts with; if that is meant to be, copy {} over it and run \
         make.py again",
        now.display()
    );
}

fn network() -> Network {
    let config: NetworkConfig = read("twenty-steps/network.json");
    Network::new(config).unwrap_or_else(|e| panic!("{e}"))
}

fn batch(network: &Network, features: &[f32], classes: &[u32], epoch: u64, indices: &[u64]) -> Batch {
    let width = network.input().len();
    let row = |&index: &u64| &features[index as usize * width..][..width];
    Batch {
        epoch,
        indices: indices.to_vec(),
        width,
        features: indices.iter().flat_map(row).copied().collect(),
        targets: Targets::Classes(indices.iter().map(|&index| classes[index as usize]).collect()),
        weights: None,
    }
}

fn compare(arrays: &[Parameter], found: &[f32], expected: &BTreeMap<String, Vec<f64>>) {
    assert_eq!(arrays.len(), expected.len());
    for Parameter { name, range, .. } in arrays {
        let found: Vec<f64> = found[range.clone()].iter().map(|v| f64::from(*v)).collect();
        let expected = &expected[name];
        close(&found, expected, root_mean_square(expected), PARAMETER_TOLERANCE, &format!("`{name}` after 20 steps"));
    }
}

/// Parameters and running statistics by name, little endian.
fn file_of(network: &Network, state: &State) -> Vec<u8> {
    let bytes = |flat: &[f32]| flat.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
    let (parameters, running) = (bytes(&state.parameters), bytes(&state.running));
    let view = |bytes: &'_ [u8], p: &Parameter| -> Vec<u8> { bytes[4 * p.range.start..4 * p.range.end].to_vec() };
    let arrays = network.parameters().iter().map(|p| (p, view(&parameters, p)));
    let arrays: Vec<_> = arrays.chain(network.running().iter().map(|p| (p, view(&running, p)))).collect();
    let views = arrays.iter().map(|(p, bytes)| {
        (
            p.name.clone(),
            TensorView::new(Dtype::F32, p.shape.clone(), bytes).expect("as many numbers as the shape says"),
        )
    });
    safetensors::serialize(views, None).expect("arrays of a known type")
}

/// The same names, shapes and bits, in whatever order.
fn same_tensors(ours: &[u8], kept: &[u8]) -> bool {
    let ours = SafeTensors::deserialize(ours).expect("what was just written");
    let Ok(kept) = SafeTensors::deserialize(kept) else { return false };
    let same = |(name, view): (&str, TensorView<'_>)| {
        kept.tensor(name)
            .is_ok_and(|k| k.dtype() == view.dtype() && k.shape() == view.shape() && k.data() == view.data())
    };
    ours.len() == kept.len() && ours.iter().all(same)
}
