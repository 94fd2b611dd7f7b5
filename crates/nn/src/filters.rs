//! What the units of a layer look for, as pictures.

use crate::{Error, Network, Shape};

/// A picture for every unit of a layer: its weights, as they lie over what goes into the network.
#[derive(Clone, Debug, PartialEq)]
pub struct Filters {
    /// Rows of a picture.
    pub height: usize,
    /// Columns of a picture.
    pub width: usize,
    /// A number for every pixel, picture after picture; of several channels their mean.
    pub pictures: Vec<Vec<f32>>,
}

impl Filters {
    /// The pictures of a layer. Those of dense layers above the first are what comes of their weights through those below, as if nothing
    /// lay between: unit by unit the sum of the pictures below, each times its weight.
    pub fn of(network: &Network, parameters: &[f32], layer: usize) -> Result<Self, Error> {
        let weights = |index: usize| {
            let own = network.parameters().iter().filter(|parameter| parameter.layer == index);
            own.into_iter().find(|parameter| parameter.name.ends_with(".weight"))
        };
        let wrong = |index: usize, message: &str| {
            let kind = network.layers().get(index).map_or("", |info| info.kind).into();
            Error::Layer { index, kind, message: message.into() }
        };
        let Some(first) = network.layers().get(layer) else {
            let message = format!("expected a layer from 0 to {}, found {layer}", network.layers().len() - 1);
            return Err(Error::Config { path: "filters".into(), message });
        };
        let own = weights(layer).ok_or_else(|| wrong(layer, "it has no weights to draw"))?;
        if let [height, width, channels, filters] = own.shape[..] {
            let all = &parameters[own.range.clone()];
            let at = |pixel: usize, channel: usize, filter: usize| all[(pixel * channels + channel) * filters + filter];
            let mean = |pixel, filter| (0..channels).map(|c| at(pixel, c, filter)).sum::<f32>() / channels as f32;
            let picture = |filter| (0..height * width).map(|pixel| mean(pixel, filter)).collect();
            return Ok(Self { height, width, pictures: (0..filters).map(picture).collect() });
        }
        let Shape::Image { height, width, channels } = network.input() else {
            return Err(wrong(layer, "what goes into the network are no images"));
        };
        // By unit, a number for everything that goes into the network.
        let mut units = columns(&parameters[own.range.clone()], &own.shape);
        let (mut index, mut info) = (layer, first);
        while info.input.len() != network.input().len() || index > 0 && info.after != [input_name(network)] {
            let below = network.layers().iter().position(|other| info.after == [other.name.clone()]);
            let Some((below, own)) = below.and_then(|below| weights(below).map(|own| (below, own))) else {
                return Err(wrong(index, "only dense layers that lie right upon each other can be drawn"));
            };
            if own.shape.len() != 2 || own.shape[1] != units[0].len() {
                return Err(wrong(below, "only dense layers that lie right upon each other can be drawn"));
            }
            let pictures = columns(&parameters[own.range.clone()], &own.shape);
            units = units.iter().map(|unit| weighted_sum(unit, &pictures)).collect();
            (index, info) = (below, &network.layers()[below]);
        }
        let mean = |pixel: &[f32]| pixel.iter().sum::<f32>() / channels as f32;
        let pictures = units.iter().map(|unit| unit.chunks_exact(channels).map(mean).collect()).collect();
        Ok(Self { height, width, pictures })
    }

    /// All pictures side by side in rows, a dark line between them: width, height and a byte of grey for every pixel. The largest weight
    /// of a picture, up or down, is white or black in it, and 0 is grey.
    pub fn grid(&self) -> (usize, usize, Vec<u8>) {
        let across = (self.pictures.len() as f64).sqrt().ceil().max(1.0) as usize;
        let down = self.pictures.len().div_ceil(across);
        let (width, height) = (across * (self.width + 1) + 1, down * (self.height + 1) + 1);
        let mut grey = vec![0; width * height];
        for (number, picture) in self.pictures.iter().enumerate() {
            let top = picture.iter().fold(f32::MIN_POSITIVE, |top, value| top.max(value.abs()));
            let corner = (number / across * (self.height + 1) + 1) * width + number % across * (self.width + 1) + 1;
            for (row, pixels) in picture.chunks_exact(self.width).enumerate() {
                for (column, value) in pixels.iter().enumerate() {
                    grey[corner + row * width + column] = (127.5 + 127.5 * value / top) as u8;
                }
            }
        }
        (width, height, grey)
    }
}

fn input_name(network: &Network) -> String {
    network.config().inputs[0].name.clone()
}

/// The columns of a matrix that lies row after row.
fn columns(values: &[f32], shape: &[usize]) -> Vec<Vec<f32>> {
    let count = shape.last().copied().unwrap_or(1);
    (0..count).map(|column| values.iter().skip(column).step_by(count).copied().collect()).collect()
}

fn weighted_sum(weights: &[f32], pictures: &[Vec<f32>]) -> Vec<f32> {
    let mut sum = vec![0.0; pictures[0].len()];
    for (weight, picture) in weights.iter().zip(pictures) {
        sum.iter_mut().zip(picture).for_each(|(sum, value)| *sum += weight * value);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::Filters;
    use crate::config::{Conv2d, Dense, NetworkConfig, Output, Rbm};
    use crate::{Network, Shape};

    #[test]
    fn a_unit_is_drawn_as_it_lies_over_the_image_through_the_layers_below() {
        let config = NetworkConfig::flat_image(2, 3, 1).layer(Rbm::new(2)).layer(Rbm::new(2)).layer(Output::by_task(3));
        let network = Network::new(config).expect("a network");
        assert_eq!(network.input(), Shape::Image { height: 2, width: 3, channels: 1 });
        let mut state = network.initial_state();
        let weights: Vec<_> = network.parameters().iter().filter(|p| p.name.ends_with(".weight")).collect();
        // Unit 0 looks for what grows from pixel to pixel, unit 1 for the last one.
        for pixel in 0..6 {
            state.parameters[weights[0].range.start + 2 * pixel] = pixel as f32;
            state.parameters[weights[0].range.start + 2 * pixel + 1] = f32::from(u8::from(pixel == 5));
        }
        let first = Filters::of(&network, &state.parameters, 0).expect("pictures");
        assert_eq!((first.height, first.width, first.pictures.len()), (2, 3, 2));
        assert_eq!(first.pictures[0], [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
        state.parameters[weights[1].range.clone()].copy_from_slice(&[1.0, 0.0, 2.0, -1.0]);
        let second = Filters::of(&network, &state.parameters, 1).expect("pictures");
        assert_eq!(second.pictures, [[0.0, 1.0, 2.0, 3.0, 4.0, 7.0], [0.0, 0.0, 0.0, 0.0, 0.0, -1.0]]);
        let (width, height, grey) = second.grid();
        assert_eq!((width, height, grey.len()), (9, 4, 36));
        assert_eq!(
            [grey[10], grey[21], grey[14], grey[25]],
            [127, 255, 127, 0],
            "0 is grey, the largest white or black"
        );
    }

    #[test]
    fn convolutions_are_drawn_and_what_cannot_be_is_told() {
        let config = NetworkConfig::image(8, 8, 2).layer(Conv2d::new(5, [3, 3])).layer(Output::by_task(3));
        let network = Network::new(config).expect("a network");
        let state = network.initial_state();
        let filters = Filters::of(&network, &state.parameters, 0).expect("pictures");
        assert_eq!((filters.height, filters.width, filters.pictures.len()), (3, 3, 5));
        let error = |network: &Network, layer| {
            Filters::of(network, &network.initial_state().parameters, layer).expect_err("no pictures").to_string()
        };
        assert!(error(&network, 1).contains("only dense layers"), "{}", error(&network, 1));
        assert!(error(&network, 9).contains("expected a layer from 0 to 1, found 9"));
        let flat = NetworkConfig::feed_forward(6).layer(Dense::new(2)).layer(Output::by_task(3));
        let flat = Network::new(flat).expect("a network");
        assert!(error(&flat, 0).contains("no images"), "{}", error(&flat, 0));
    }
}
