//! The networks of `bench/jobs/`, as Burn describes them.

use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::pool::{MaxPool2d, MaxPool2dConfig};
use burn::nn::{Initializer, Linear, LinearConfig};
use burn::prelude::*;
use burn::tensor::activation::relu;

const XAVIER: Initializer = Initializer::XavierNormal { gain: 1.0 };

/// A network from `n × 1 × 28 × 28` pixels to ten scores.
#[derive(Module, Debug)]
pub enum Network {
    Lenet(Lenet),
    Mlp(Mlp),
}

impl Network {
    pub fn new(name: &str, device: &Device) -> Result<Self, String> {
        match name {
            "lenet" => Ok(Self::Lenet(Lenet::new(device))),
            "mlp" => Ok(Self::Mlp(Mlp::new(device))),
            other => Err(format!("expected the network `lenet` or `mlp`, found `{other}`")),
        }
    }

    pub fn forward(&self, pixels: Tensor<4>) -> Tensor<2> {
        match self {
            Self::Lenet(network) => network.forward(pixels),
            Self::Mlp(network) => network.forward(pixels),
        }
    }
}

#[derive(Module, Debug)]
pub struct Lenet {
    first: Conv2d,
    second: Conv2d,
    pool: MaxPool2d,
    hidden: Linear,
    output: Linear,
}

impl Lenet {
    fn new(device: &Device) -> Self {
        let convolution = |channels| Conv2dConfig::new(channels, [5, 5]).with_initializer(XAVIER).init(device);
        Self {
            first: convolution([1, 20]),
            second: convolution([20, 50]),
            pool: MaxPool2dConfig::new([2, 2]).init(),
            hidden: dense(800, 500, device),
            output: dense(500, 10, device),
        }
    }

    fn forward(&self, pixels: Tensor<4>) -> Tensor<2> {
        let images = self.pool.forward(self.first.forward(pixels));
        let images = self.pool.forward(self.second.forward(images));
        let hidden = relu(self.hidden.forward(images.flatten::<2>(1, 3)));
        self.output.forward(hidden)
    }
}

#[derive(Module, Debug)]
pub struct Mlp {
    hidden: Vec<Linear>,
    output: Linear,
}

impl Mlp {
    fn new(device: &Device) -> Self {
        let hidden = [(784, 1000), (1000, 500), (500, 250)];
        Self {
            hidden: hidden.map(|(inputs, units)| dense(inputs, units, device)).into(),
            output: dense(250, 10, device),
        }
    }

    fn forward(&self, pixels: Tensor<4>) -> Tensor<2> {
        let input = pixels.flatten::<2>(1, 3);
        let hidden = (self.hidden.iter()).fold(input, |rows, layer| relu(layer.forward(rows)));
        self.output.forward(hidden)
    }
}

fn dense(inputs: usize, units: usize, device: &Device) -> Linear {
    LinearConfig::new(inputs, units).with_initializer(XAVIER).init(device)
}
