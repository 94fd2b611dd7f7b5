//! Errors of descriptions of networks and of model files, rendered: the list in `messages.txt` is read from top to bottom when one changes.

use std::path::Path;

use paceline_nn::config::NetworkConfig;
use paceline_nn::{Error, ModelFile, Network};

/// Inputs, and layers behind them: each is refused.
const DESCRIPTIONS: &[(&str, &str)] = &[
    // The table as a whole.
    ("", r#""input": {"feed_forward": 4}"#),
    ("", r#""layers": []"#),
    ("", r#""input": {"feed_forward": 4}, "layers": []"#),
    ("", r#""input": {"feed_forward": 4}, "layers": [{"dense": {"units": 3}}], "sed": 1"#),
    ("", r#""input": {"feed_foward": 4}, "layers": [{"output": {"units": 3}}]"#),
    ("", r#""input": {"feed_forward": 0}, "layers": [{"output": {"units": 3}}]"#),
    ("", r#""input": {"image": [28, 28]}, "layers": [{"output": {"units": 3}}]"#),
    (
        "",
        r#""inputs": [{"name": "a", "feed_forward": 4}, {"name": "a", "feed_forward": 4}], "layers": [{"output": {"units": 3}}]"#,
    ),
    (
        "",
        r#""inputs": [{"name": "a", "feed_forward": 4}, {"name": "b", "feed_forward": 4}], "layers": [{"output": {"units": 3, "after": "a"}}]"#,
    ),
    ("", r#""input": {"feed_forward": 4}, "updater": "sdg", "layers": [{"output": {"units": 3}}]"#),
    ("", r#""input": {"feed_forward": 4}, "learning_rate": "0.1", "layers": [{"output": {"units": 3}}]"#),
    ("", r#""input": {"feed_forward": 4}, "learning_rate": -1, "layers": [{"output": {"units": 3}}]"#),
    ("", r#""input": {"feed_forward": 4}, "learning_rate": true, "layers": [{"output": {"units": 3}}]"#),
    ("", r#""input": {"feed_forward": 4}, "dropout": 1.5, "layers": [{"output": {"units": 3}}]"#),
    ("", r#""input": {"feed_forward": 4}, "bias_init": 1e400, "layers": [{"output": {"units": 3}}]"#),
    ("", r#""input": {"feed_forward": 4}, "weight_init": "xavierr", "layers": [{"output": {"units": 3}}]"#),
    (
        "",
        r#""input": {"feed_forward": 4}, "weight_init": {"distribution": {"uniform": {"lower": 2, "upper": 1}}}, "layers": [{"output": {"units": 3}}]"#,
    ),
    (
        "",
        r#""input": {"feed_forward": 4}, "gradient_normalisation": {"clip_l2_per_layer": {"threshold": 0}}, "layers": [{"output": {"units": 3}}]"#,
    ),
    (
        "",
        r#""input": {"feed_forward": 4}, "constraints": [{"max_norm": {"norm": 0}}], "layers": [{"output": {"units": 3}}]"#,
    ),
    (
        "",
        r#""input": {"feed_forward": 4}, "constraints": [{"min_max_norm": {"min": 2, "max": 1}}], "layers": [{"output": {"units": 3}}]"#,
    ),
    (
        "",
        r#""input": {"feed_forward": 4}, "weight_noise": {"drop_connect": {"rate": 1}}, "layers": [{"output": {"units": 3}}]"#,
    ),
    (
        "",
        r#""input": {"feed_forward": 4}, "weight_noise": {"gaussian": {"deviation": -1}}, "layers": [{"output": {"units": 3}}]"#,
    ),
    ("", r#""input": {"feed_forward": 4}, "moving_average": 1, "layers": [{"output": {"units": 3}}]"#),
    (
        "",
        r#""input": {"feed_forward": 4}, "moving_average": 0.9, "optimiser": "lbfgs", "layers": [{"output": {"units": 3}}]"#,
    ),
    ("", r#""input": {"feed_forward": 4}, "layers": {"dnb": {"hidden": [3]}}"#),
    ("", r#""input": {"feed_forward": 4}, "layers": {"dbn": {"hiden": [3]}}"#),
    ("", r#""input": {"feed_forward": 4}, "layers": {"dbn": {"hidden": [3]}, "sda": {"hidden": [3]}}"#),
    (
        "",
        r#""input": {"image": [8, 8, 1]}, "layers": {"cdbn": {"filters": [3, 4], "kernels": [[2, 2]], "hidden": [3]}}"#,
    ),
    // Layers as they are written.
    ("feed_forward 4", r#"{"dence": {"units": 3}}"#),
    ("feed_forward 4", r#"{"dense": {"unit": 3}}"#),
    ("feed_forward 4", r#"{"dense": {"units": -3}}"#),
    ("feed_forward 4", r#"{"dense": {"units": "many"}}"#),
    ("feed_forward 4", r#"{"dense": 3}"#),
    ("feed_forward 4", r#"{"dense": {"units": 3}, "output": {"units": 2}}"#),
    ("feed_forward 4", r#"{"dense": {}}"#),
    ("feed_forward 4", r#"{"dense": {"units": 0}}"#),
    ("feed_forward 4", r#"{"dense": {"units": 3, "activation": "reluu"}}"#),
    ("feed_forward 4", r#"{"dense": {"units": 3, "activation": {"rrelu": {"lower": 2, "upper": 1}}}}"#),
    ("feed_forward 4", r#"{"dense": {"units": 3, "name": "a.b"}}"#),
    ("feed_forward 4", r#"{"dense": {"units": 3, "name": "input"}}"#),
    ("feed_forward 4", r#"{"dense": {"units": 3, "weight_init": "identity"}}"#),
    ("feed_forward 4", r#"{"dropout": {"rate": 1}}"#),
    ("feed_forward 4", r#"{"dropout": {"rate": 0.5, "activation": "relu"}}"#),
    ("feed_forward 4", r#"{"gaussian_noise": {"deviation": -1}}"#),
    ("feed_forward 4", r#"{"batch_norm": {"decay": 2}}"#),
    ("feed_forward 4", r#"{"conv2d": {"filters": 3, "kernel": 3}}"#),
    ("feed_forward 4", r#"{"lstm": {"units": 3}}"#),
    ("feed_forward 4", r#"{"embedding": {"units": 0, "count": 5}}"#),
    ("feed_forward 4", r#"{"one_hot": {"count": 0}}"#),
    ("feed_forward 4", r#"{"reshape": {"to": {"image": [3, 3, 1]}}}"#),
    ("feed_forward 4", r#"{"subset": {"from": 2, "to": 9}}"#),
    ("feed_forward 4", r#"{"l2_normalise": {"epsilon": 0}}"#),
    ("feed_forward 4", r#"{"l2_distance": {}}"#),
    ("feed_forward 4", r#"{"unstack": {"index": 0, "of": 2}}"#),
    ("feed_forward 4", r#"{"rbm": {"units": 3, "k": 0}}"#),
    ("feed_forward 4", r#"{"autoencoder": {"units": 3, "corruption": 1}}"#),
    ("feed_forward 4", r#"{"rbm": {"units": 3, "sparsity": {"target": 2, "cost": 1}}}"#),
    ("feed_forward 4", r#"{"capsules": {"capsules": 3, "size": 4}}"#),
    ("feed_forward 4", r#"{"custom": {"kind": "mine"}}"#),
    // Images.
    ("image 8 8 1", r#"{"conv2d": {"filters": 0, "kernel": [3, 3]}}"#),
    ("image 8 8 1", r#"{"conv2d": {"filters": 2, "kernel": [0, 3]}}"#),
    ("image 8 8 1", r#"{"conv2d": {"filters": 2, "kernel": [9, 9]}}"#),
    ("image 8 8 1", r#"{"conv2d": {"filters": 2, "kernel": [3, 3, 3]}}"#),
    ("image 8 8 1", r#"{"conv2d": {"filters": 2, "kernel": [3, 3], "padding": "some"}}"#),
    ("image 8 8 1", r#"{"conv2d": {"filters": 2, "kernel": [3, 3], "stride": [4, 4], "strict": true}}"#),
    ("image 8 8 1", r#"{"depthwise_conv2d": {"multiplier": 0, "kernel": [3, 3]}}"#),
    ("image 8 8 1", r#"{"conv2d_transposed": {"filters": 2, "kernel": [3, 3], "padding": [9, 9]}}"#),
    ("image 8 8 1", r#"{"subsampling": {"pool": "max", "kernel": [2, 2], "padding": [2, 2]}}"#),
    ("image 8 8 1", r#"{"subsampling": {"pool": {"p_norm": 0}, "kernel": [2, 2]}}"#),
    ("image 8 8 1", r#"{"subsampling": {"pool": "maximum", "kernel": [2, 2]}}"#),
    ("image 8 8 1", r#"{"local_response_normalisation": {"n": 0}}"#),
    ("image 8 8 1", r#"{"space_to_depth": {"block": 3}}"#),
    ("image 8 8 1", r#"{"upsampling2d": {"size": [0, 2]}}"#),
    ("image 8 8 1", r#"{"cropping2d": {"crop": [4, 4, 0, 0]}}"#),
    ("image 8 8 1", r#"{"augment": {"rotate": 200}}"#),
    ("image 8 8 1", r#"{"augment": {"shift": [9, 0]}}"#),
    ("image 8 8 1", r#"{"augment": {"crop": [9, 9]}}"#),
    ("image 8 8 1", r#"{"convolutional_rbm": {"filters": 2, "kernel": [3, 3], "visible": "softmax"}}"#),
    ("image 8 8 1", r#"{"yolo2_output": {"boxes": []}}"#),
    ("image 8 8 1", r#"{"primary_capsules": {"capsules": 0, "size": 4, "kernel": [3, 3]}}"#),
    ("volume 4 4 4 1", r#"{"conv3d": {"filters": 2, "kernel": [5, 5, 5]}}"#),
    ("volume 4 4 4 1", r#"{"subsampling3d": {"pool": "max", "kernel": [0, 2, 2]}}"#),
    // Sequences.
    ("sequence 5 3", r#"{"conv1d": {"filters": 2, "kernel": 9}}"#),
    ("sequence 5 3", r#"{"lstm": {"units": 0}}"#),
    ("sequence 5 3", r#"{"repeat_vector": {"steps": 0}}"#),
    ("sequence 5 3", r#"{"self_attention": {"units": 4, "heads": 0}}"#),
    ("sequence 5 3", r#"{"self_attention": {"units": 5, "heads": 2}}"#),
    ("sequence 5 3", r#"{"learned_self_attention": {"units": 4, "heads": 2, "queries": 0}}"#),
    // Ends.
    ("feed_forward 4", r#"{"output": {"units": 3, "loss": "mcxentt"}}"#),
    ("feed_forward 4", r#"{"output": {"units": 1, "activation": "softmax"}}"#),
    ("feed_forward 4", r#"{"output": {"units": 3, "activation": "sigmoid", "loss": "cross_entropy"}}"#),
    ("feed_forward 4", r#"{"output": {"units": 3, "activation": "tanh", "loss": "binary_cross_entropy"}}"#),
    ("feed_forward 4", r#"{"output": {"units": 3, "activation": "tanh", "loss": "poisson"}}"#),
    ("feed_forward 4", r#"{"output": {"units": 3, "activation": "relu", "loss": "hinge"}}"#),
    ("feed_forward 4", r#"{"output": {"units": 3, "label_smoothing": 1}}"#),
    ("feed_forward 4", r#"{"output": {"units": 3, "loss": "mse", "label_smoothing": 0.1}}"#),
    ("feed_forward 4", r#"{"output": {"units": 3, "loss_weight": 0}}"#),
    ("feed_forward 4", r#"{"output": {"units": 3, "centre_loss": {"alpha": 2, "lambda": 0.1}}}"#),
    ("feed_forward 4", r#"{"output": {"units": 3, "loss": "mse", "centre_loss": {"alpha": 0.1, "lambda": 0.1}}}"#),
    ("feed_forward 4", r#"{"output": {"units": 3}}, {"dense": {"units": 2}}"#),
    ("feed_forward 4", r#"{"output": {"units": 3}}, {"output": {"units": 2}}"#),
    (
        "feed_forward 4",
        r#"{"dense": {"units": 3, "name": "a"}}, {"dense": {"units": 3, "name": "a"}}, {"output": {"units": 2}}"#,
    ),
    ("feed_forward 4", r#"{"dense": {"units": 3, "after": "inptu"}}, {"output": {"units": 2}}"#),
    ("feed_forward 4", r#"{"dense": {"units": 3, "after": "elsewhere"}}, {"output": {"units": 2}}"#),
    (
        "feed_forward 4",
        r#"{"dense": {"units": 3, "name": "a", "after": "b"}}, {"dense": {"units": 3, "name": "b", "after": "a"}}, {"output": {"units": 2, "after": "b"}}"#,
    ),
    ("feed_forward 4", r#"{"dense": {"units": 3}}, {"output": {"units": 2, "after": "input"}}"#),
    (
        "feed_forward 4",
        r#"{"dense": {"units": 3, "name": "a"}}, {"dense": {"units": 2, "name": "b", "after": "input"}}, {"element_wise": {"op": "add", "after": ["a", "b"]}}, {"output": {"units": 2}}"#,
    ),
    ("feed_forward 4", r#"{"decoder": {"of": "x"}}, {"output": {"units": 2}}"#),
    ("feed_forward 4", r#"{"reconstruction": {}}"#),
    ("feed_forward 4", r#"{"stack": {"after": ["input", "input"]}}, {"output": {"units": 2}}"#),
    (
        "feed_forward 4",
        r#"{"dense": {"units": 4000000000}}, {"dense": {"units": 4000000000}}, {"output": {"units": 2}}"#,
    ),
];

fn described(input: &str, text: &str) -> String {
    match input.split_once(' ') {
        None => format!("{{{text}}}"),
        Some((kind, sizes)) => {
            let sizes: Vec<&str> = sizes.split(' ').collect();
            let sizes = if sizes.len() == 1 { sizes[0].to_owned() } else { format!("[{}]", sizes.join(", ")) };
            // An end behind all that have none, so that only what is written is wrong.
            let end = if text.contains("\"output\"") || text.contains("reconstruction") || text.contains("yolo2") {
                ""
            } else {
                r#", {"output": {"units": 2}}"#
            };
            format!(r#"{{"input": {{"{kind}": {sizes}}}, "layers": [{text}{end}]}}"#)
        }
    }
}

fn refused(json: &str) -> String {
    match NetworkConfig::from_json(json).and_then(Network::new) {
        Ok(_) => format!("ACCEPTED {json}"),
        Err(error) => error.to_string(),
    }
}

/// Errors of files, which no description gives.
fn of_files() -> Vec<Error> {
    let path = || "runs/flowers/model.safetensors".into();
    let denied = std::io::Error::new(std::io::ErrorKind::PermissionDenied, "Permission denied");
    vec![
        Error::File { action: "read", path: path(), source: denied },
        Error::ModelFile { path: path(), expected: "at least a header".into(), found: "3 bytes".into() },
        Error::Version { path: path(), found: "9".into(), known: 3 },
        Error::TooLarge { parameters: 1 << 40, bytes: 1 << 42 },
    ]
}

#[test]
fn every_error_of_a_network_reads_as_one_sentence_with_its_layer() {
    let mut lines: Vec<String> = DESCRIPTIONS.iter().map(|(input, text)| refused(&described(input, text))).collect();
    lines.extend(of_files().iter().map(ToString::to_string));
    for line in &lines {
        assert!(
            !line.contains('\n') && !line.ends_with('.') && !line.contains("  "),
            "one line, without a full stop: {line}"
        );
        for word in ["but must be", "Some(", "os error", "struct ", "variant"] {
            assert!(!line.contains(word), "`{word}`: {line}");
        }
    }
    let (text, kept) = (lines.join("\n") + "\n", include_str!("messages.txt"));
    assert!(text == kept, "the list in `messages.txt` is what users read; now it is\n{text}");
    let nowhere = Path::new("nowhere/model.safetensors");
    let error = ModelFile::load(nowhere).map(drop).expect_err("no file").to_string();
    assert_eq!(error, "cannot read `nowhere/model.safetensors`: No such file or directory (os error 2)");
}
