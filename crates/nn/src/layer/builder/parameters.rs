//! What layers ask for to be learned.

use std::ops::Range;

use super::{Builder, MOST};
use crate::config::Settings;
use crate::network::{Parameter, Start};
use crate::updater::Segment;
use crate::{Error, Fan, GradientNormalisation, Schedule, Shape, Updater};

/// Names of what `bias_updater` is for.
const BIASES: [&str; 3] = ["bias", "reverse_bias", "visible_bias"];

/// What updates a parameter, and at which rate: that of a network was meant for the updater of the network.
fn updater_of(settings: &Settings, is_bias: bool) -> (Updater, Option<Schedule>) {
    match &settings.bias_updater {
        Some(own) if is_bias => (own.clone(), None),
        _ => (settings.updater.clone().unwrap_or_default(), settings.learning_rate.clone()),
    }
}

impl Builder<'_> {
    pub(super) fn parameter_count(&self) -> usize {
        self.parameters.last().map_or(0, |(p, _)| p.range.end)
    }

    /// Asks for weights; decay, constraints and dropout of the settings are theirs.
    pub(in crate::layer) fn weights(&mut self, name: &str, shape: Vec<usize>, fan: Fan) -> Result<Range<usize>, Error> {
        let init = self.settings.weight_init.clone().unwrap_or_default();
        let columns = *shape.last().expect("weights have a dimension");
        let counted = shape.iter().try_fold(1usize, |n, d| n.checked_mul(*d));
        if counted.is_none_or(|n| n > MOST) {
            return Err(self.wrong(format!("its weights of shape {shape:?} are more than {MOST} numbers")));
        }
        if init == crate::WeightInit::Identity && shape.iter().product::<usize>() != columns * columns {
            return Err(self.wrong(format!("`weight_init = \"identity\"` expects square weights, found {shape:?}")));
        }
        Ok(self.parameter(name, shape, Start::Weights(init, fan), true))
    }

    /// Asks for biases.
    pub(in crate::layer) fn bias(&mut self, name: &str, count: usize) -> Range<usize> {
        self.parameter(name, vec![count], Start::Constant(self.bias_start()), false)
    }

    /// Asks for biases that start with runs of numbers, each so long.
    pub(in crate::layer) fn biases(&mut self, name: &str, runs: Vec<(usize, f32)>) -> Range<usize> {
        let count = runs.iter().map(|(len, _)| len).sum();
        self.parameter(name, vec![count], Start::Constants(runs), false)
    }

    /// Asks for the biases of what is visible, which only pretraining learns.
    pub(in crate::layer) fn visible_bias(&mut self, count: usize) -> Range<usize> {
        let range = self.parameter("visible_bias", vec![count], Start::Constant(0.0), false);
        if !self.is_pretrained()
            && let Some((_, segment)) = self.parameters.last_mut()
        {
            (segment.updater, segment.learning_rate) = (Updater::Noop, None);
        }
        range
    }

    /// The parameters of a layer that is there already, by its name, and the shape of what goes into it.
    pub(in crate::layer) fn parameters_of<const N: usize>(
        &mut self,
        layer: &str,
        names: [&str; N],
    ) -> Option<([Range<usize>; N], Shape)> {
        let input = self.built.iter().flatten().find(|(info, _)| info.name == layer)?.0.input;
        let mut found = [(); N].map(|()| 0..0);
        for (range, name) in found.iter_mut().zip(names) {
            *range = self.parameters.iter().find(|(p, _)| p.name == format!("{layer}.{name}"))?.0.range.clone();
        }
        Some((found, input))
    }

    /// Lets biases of what is visible be learned outside of pretraining, too, as other biases are.
    pub(in crate::layer) fn learn_visible_bias(&mut self, range: &Range<usize>) {
        let layer = self.parameters.iter().find(|(p, _)| p.range == *range).map(|(p, _)| p.layer);
        let Some(layer) = layer.filter(|_| self.config.pretrains.is_none()) else { return };
        let settings = self.config.layers[layer].settings().or(&self.config.defaults);
        let (updater, learning_rate) = updater_of(&settings, true);
        if settings.frozen != Some(true)
            && let Some((_, segment)) = self.parameters.iter_mut().find(|(p, _)| p.range == *range)
        {
            (segment.updater, segment.learning_rate) = (updater, learning_rate);
        }
    }

    /// How many parameters were asked for so far.
    pub(in crate::layer) fn asked(&self) -> usize {
        self.parameters.len()
    }

    /// Lets the parameters that were asked for from here on be learned only while the layer is pretrained.
    pub(in crate::layer) fn only_pretrained(&mut self, from: usize) {
        if self.is_pretrained() {
            return;
        }
        for (_, segment) in &mut self.parameters[from..] {
            (segment.updater, segment.learning_rate) = (Updater::Noop, None);
            (segment.l1, segment.l2, segment.weight_decay) = (0.0, 0.0, 0.0);
            segment.constraints.clear();
            segment.noise = None;
        }
    }

    /// Asks for trained numbers that start alike and know no decay.
    pub(in crate::layer) fn constant(&mut self, name: &str, count: usize, value: f32) -> Range<usize> {
        self.parameter(name, vec![count], Start::Constant(value), false)
    }

    /// Asks for points, so many of so many numbers, that start at 0 and go this part of the way that their gradient says.
    pub(in crate::layer) fn points(&mut self, name: &str, [count, size]: [usize; 2], step: f32) -> Range<usize> {
        let range = self.parameter(name, vec![count, size], Start::Constant(0.0), false);
        if !self.is_frozen()
            && let Some((_, segment)) = self.parameters.last_mut()
        {
            (segment.updater, segment.learning_rate) = (Updater::Sgd { learning_rate: f64::from(step).into() }, None);
            segment.normalisation = GradientNormalisation::None;
        }
        range
    }

    fn parameter(&mut self, name: &str, shape: Vec<usize>, start: Start, weights: bool) -> Range<usize> {
        let begin = self.parameter_count();
        let range = begin..begin + shape.iter().product::<usize>();
        let settings = &self.settings;
        let is_frozen = settings.frozen == Some(true);
        let only_weights = |value: Option<f32>| if weights && !is_frozen { value.unwrap_or(0.0) } else { 0.0 };
        let (updater, learning_rate) = match is_frozen {
            true => (Updater::Noop, None),
            false => updater_of(settings, BIASES.contains(&name)),
        };
        let segment = Segment {
            range: range.clone(),
            layer: self.index,
            outputs: *shape.last().expect("a parameter has a dimension"),
            updater,
            learning_rate,
            l1: only_weights(settings.l1),
            l2: only_weights(settings.l2),
            weight_decay: only_weights(settings.weight_decay),
            normalisation: settings.gradient_normalisation.filter(|_| !is_frozen).unwrap_or_default(),
            constraints: settings.constraints.clone().filter(|_| weights && !is_frozen).unwrap_or_default(),
            noise: settings.weight_noise.filter(|_| weights && !is_frozen),
        };
        let name = format!("{}.{name}", self.name);
        self.parameters.push((Parameter { name, shape, range: range.clone(), layer: self.index, start }, segment));
        range
    }

    /// What biases start with.
    pub(in crate::layer) fn bias_start(&self) -> f32 {
        self.settings.bias_init.unwrap_or(0.0)
    }

    /// Asks for numbers that are learned but not trained; calls of one operation lie one after the other.
    pub(in crate::layer) fn running(&mut self, name: &str, count: usize, value: f32) -> Range<usize> {
        let begin = self.running.last().map_or(0, |p| p.range.end);
        let range = begin..begin + count;
        self.running.push(Parameter {
            name: format!("{}.{name}", self.name),
            shape: vec![count],
            range: range.clone(),
            layer: self.index,
            start: Start::Constant(value),
        });
        range
    }
}
