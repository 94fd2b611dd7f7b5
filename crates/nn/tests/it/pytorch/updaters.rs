//! Ten steps of every updater over given gradients: alone, with decay, with normalisations, with schedules, and a mean of what they
//! come to.

use std::collections::BTreeSet;

use paceline_model::{Model, Progress};
use paceline_nn::{Engine, Network, NetworkConfig};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{close, read, root_mean_square};

/// Of a parameter, which `f32` rounds ten times; the updates are up to as large as it.
const TOLERANCE: f64 = 2e-6;

#[derive(Deserialize)]
#[serde(untagged, deny_unknown_fields)]
enum Entry {
    /// What is the same for all runs: gradients are sums over so many examples.
    Shared { examples: f32, start: Vec<f32>, gradients: Vec<Vec<f32>> },
    /// The settings of a network and its parameters after every step.
    Run { settings: Value, after: Vec<Vec<f64>> },
}

#[test]
fn updaters_agree_with_pytorch() {
    let entries: Vec<Entry> = read("updaters.json");
    let (Entry::Shared { examples, start, gradients }, runs) = entries.split_first().expect("a first entry") else {
        panic!("the first entry is what all runs share");
    };
    let mut names = BTreeSet::new();
    for run in runs {
        let Entry::Run { settings, after } = run else { panic!("what all runs share is written once") };
        names.extend(settings["updater"].as_object().expect("an updater with settings").keys());
        let mut engine = Engine::new(network(settings));
        let mut state = engine.initial_state();
        state.parameters.copy_from_slice(start);
        assert_eq!(gradients.len(), after.len(), "{settings}: steps");
        for (step, (gradient, expected)) in gradients.iter().zip(after).enumerate() {
            state.gradient.copy_from_slice(gradient);
            let all = 0..start.len();
            engine.update(&mut state, all.clone(), *examples, Progress { iteration: step as u64, epoch: 0 });
            engine.apply(&mut state, all);
            let presented = engine.network().presented(&state, Progress { iteration: step as u64 + 1, epoch: 0 });
            let found: Vec<f64> = presented.parameters.iter().map(|v| f64::from(*v)).collect();
            let what = format!("{settings}: parameters after step {step}");
            close(&found, expected, root_mean_square(expected), TOLERANCE, &what);
        }
    }
    let has_mean =
        |run: &&Entry| matches!(run, Entry::Run { settings, .. } if settings.get("moving_average").is_some());
    assert_eq!(runs.iter().filter(has_mean).count(), 2);
    // What is missing is what PyTorch has not: `adabelief` and `noop`.
    let compared =
        ["adadelta", "adagrad", "adam", "adamax", "adamw", "amsgrad", "lamb", "nadam", "nesterovs", "rmsprop", "sgd"];
    assert!(names.iter().map(|n| n.as_str()).eq(compared), "compared {names:?}");
}

/// Two layers with weights and biases, so that what counts for weights alone or per layer is seen.
pub(super) fn network(settings: &Value) -> Network {
    let mut config = settings.clone();
    config["input"] = json!({ "feed_forward": 3 });
    config["layers"] = json!([{ "dense": { "units": 4 } }, { "output": { "units": 2 } }]);
    let config = NetworkConfig::from_value(config).unwrap_or_else(|e| panic!("{settings}: {e}"));
    Network::new(config).unwrap_or_else(|e| panic!("{settings}: {e}"))
}
