use std::path::Path;

use paceline::nn::{Activation, Loss, Network, Updater, WeightInit};
use paceline::train::Job;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().and_then(Path::parent).expect("crates/paceline in the workspace")
}

fn check(path: &Path) {
    let job = Job::read(path, &[]).unwrap_or_else(|e| panic!("{e}"));
    Network::new(job.network).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
}

#[test]
fn every_example_job_and_the_job_of_the_readme_can_be_built() {
    let mut jobs = 0;
    for entry in std::fs::read_dir(root().join("examples")).expect("examples") {
        check(&entry.expect("an entry").path());
        jobs += 1;
    }
    assert!(jobs >= 2, "only {jobs} examples");
    let readme = std::fs::read_to_string(root().join("README.md")).expect("a README");
    let block =
        readme.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a job in the README");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("readme.toml");
    std::fs::write(&path, block).expect("a temporary file");
    check(&path);
}

/// The names in one list of the guide, between its bold heading and the next.
fn listed(guide: &str, heading: &str) -> String {
    let (_, rest) = guide.split_once(&format!("**{heading}**")).unwrap_or_else(|| panic!("no list of {heading}"));
    rest.split("\n- **").next().unwrap_or(rest).to_owned()
}

#[test]
fn the_guide_names_every_activation_loss_and_updater() {
    let guide = std::fs::read_to_string(root().join("docs/job-file.md")).expect("a guide");
    let name = |json: serde_json::Value| match json {
        serde_json::Value::String(name) => name,
        serde_json::Value::Object(map) => map.keys().next().expect("one entry").clone(),
        other => panic!("{other} is no name"),
    };
    let activations = listed(&guide, "Activations");
    for activation in Activation::ALL {
        let name = name(serde_json::to_value(activation).expect("a name"));
        assert!(activations.contains(&format!("`{name}`")), "the guide does not name the activation `{name}`");
    }
    let losses = listed(&guide, "Losses");
    for loss in Loss::ALL {
        let name = name(serde_json::to_value(loss).expect("a name"));
        assert!(losses.contains(&format!("`{name}`")), "the guide does not name the loss `{name}`");
    }
    // And every name that the guide gives is understood.
    let names = |list: &str| -> Vec<String> {
        let bare = |n: &&str| n.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
        list.split('`').skip(1).step_by(2).filter(bare).map(str::to_owned).collect()
    };
    let job = |key: &str, value: &str, loss: &str| {
        let text = format!(
            r#"{{"input": {{"feed_forward": 4}}, "{key}": "{value}", "layers": [{{"dense": {{"units": 4}}}}, {{"output": {{"units": 4, "loss": "{loss}"}}}}]}}"#
        );
        let config = paceline::prelude::NetworkConfig::from_json(&text).unwrap_or_else(|e| panic!("{value}: {e}"));
        Network::new(config).unwrap_or_else(|e| panic!("{value}: {e}"))
    };
    for name in names(&activations) {
        job("activation", &name, "mse");
    }
    for name in names(&losses) {
        job("activation", "tanh", &name);
    }
    for name in names(&listed(&guide, "Updaters")) {
        let network = job("updater", &name, "mse");
        assert!(name == "sgd" || *network.config().defaults.updater.as_ref().expect("set") != Updater::default());
    }
    for name in names(&listed(&guide, "Weight initialisations")).into_iter().take(13) {
        let network = job("weight_init", &name, "mse");
        assert!(
            name == "xavier" || *network.config().defaults.weight_init.as_ref().expect("set") != WeightInit::Xavier
        );
    }
}
