//! Integration tests of the engine, in one binary.

mod capsules;
mod centre_loss;
mod conformance;
mod convolutional_rbm;
mod decoding;
mod factors;
mod freezing;
mod gradient_check;
mod graphs;
mod messages;
mod networks;
mod one_go;
mod pretraining;
mod pytorch;
mod sequences;
mod targets_of_another_width;
mod weight_noise;
