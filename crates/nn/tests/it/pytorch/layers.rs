//! Every layer, with another one before it where its slope by what goes in must be seen.

use super::case::agree_with_pytorch;

#[test]
fn dense_layers_agree_with_pytorch() {
    agree_with_pytorch("dense.json");
}

#[test]
fn convolutions_agree_with_pytorch() {
    agree_with_pytorch("conv2d.json");
}

#[test]
fn subsampling_agrees_with_pytorch() {
    agree_with_pytorch("subsampling.json");
}

#[test]
fn batch_norm_agrees_with_pytorch() {
    agree_with_pytorch("batch_norm.json");
}

#[test]
fn dropout_agrees_with_pytorch_where_nothing_is_dropped() {
    agree_with_pytorch("dropout.json");
}

#[test]
fn global_pooling_agrees_with_pytorch() {
    agree_with_pytorch("global_pooling.json");
}

#[test]
fn local_response_normalisation_agrees_with_pytorch() {
    agree_with_pytorch("local_response_normalisation.json");
}

#[test]
fn zero_padding_agrees_with_pytorch() {
    agree_with_pytorch("zero_padding.json");
}

#[test]
fn other_convolutions_agree_with_pytorch() {
    agree_with_pytorch("more_convolutions.json");
}

#[test]
fn layers_over_images_and_rows_agree_with_pytorch() {
    agree_with_pytorch("more_layers.json");
}

#[test]
fn layers_over_volumes_agree_with_pytorch() {
    agree_with_pytorch("volumes.json");
}

#[test]
fn graphs_agree_with_pytorch() {
    agree_with_pytorch("graphs.json");
}

#[test]
fn output_layers_agree_with_pytorch() {
    agree_with_pytorch("output.json");
}

#[test]
fn loss_layers_agree_with_pytorch() {
    agree_with_pytorch("loss.json");
}

#[test]
fn layers_over_sequences_agree_with_pytorch() {
    agree_with_pytorch("sequences.json");
}
