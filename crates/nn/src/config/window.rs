//! Windows that are written as one number: `kernel = 3` is `kernel = [3, 3]`.

use serde_json::Value;

/// Layers with windows of several dimensions, and how many these are.
const LAYERS: [(&str, usize); 13] = [
    ("conv2d", 2),
    ("depthwise_conv2d", 2),
    ("separable_conv2d", 2),
    ("conv2d_transposed", 2),
    ("locally_connected2d", 2),
    ("subsampling", 2),
    ("upsampling2d", 2),
    ("space_to_batch", 2),
    ("batch_to_space", 2),
    ("primary_capsules", 2),
    ("conv3d", 3),
    ("subsampling3d", 3),
    ("upsampling3d", 3),
];
/// Settings that have a number for each dimension; `size` of capsules is another thing.
const KEYS: [&str; 6] = ["kernel", "stride", "dilation", "padding", "size", "block"];

/// Writes a number for each dimension where a list of layers has one for all.
pub(super) fn spread_numbers(layers: &mut Value) {
    for layer in layers.as_array_mut().into_iter().flatten() {
        let Some(table) = layer.as_object_mut() else { continue };
        for (kind, dimensions) in LAYERS {
            let Some(settings) = table.get_mut(kind).and_then(Value::as_object_mut) else { continue };
            for key in KEYS.into_iter().filter(|key| kind != "primary_capsules" || *key != "size") {
                if let Some(number) = settings.get_mut(key).filter(|value| value.is_number()) {
                    *number = Value::Array(vec![number.clone(); dimensions]);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::config::NetworkConfig;

    #[test]
    fn one_number_stands_for_all_dimensions_of_a_window() {
        let network = |kernel: &str, size: &str| {
            let json = format!(
                r#"{{"input": {{"image": [9, 9, 1]}}, "layers": [{{"conv2d": {{"filters": 2, "kernel": {kernel}, "padding": {size}}}}},
                    {{"subsampling": {{"kernel": {size}, "stride": {size}}}}}, {{"output": {{"units": 2}}}}]}}"#
            );
            NetworkConfig::from_json(&json).expect("a network")
        };
        assert_eq!(network("3", "1"), network("[3, 3]", "[1, 1]"));
    }
}
