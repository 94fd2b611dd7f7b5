use std::ops::Range;

use paceline_model::{Flat, Loss, Progress, State};

use super::Updater;
use super::rule::{Decay, Into, Rule, nadam_momentum};
use crate::{Constraint, GradientNormalisation, Schedule, WeightNoise};

/// The stretch of the flat layout that one parameter takes, with everything that differs by layer.
#[derive(Clone, Debug, PartialEq)]
pub struct Segment {
    /// Where it lies.
    pub range: Range<usize>,
    /// The layer that owns it.
    pub layer: usize,
    /// Entries of the last dimension: what a constraint's norms are counted by.
    pub outputs: usize,
    /// How its gradient becomes an update.
    pub updater: Updater,
    /// Stands in for the updater's own rate, if set.
    pub learning_rate: Option<Schedule>,
    /// Added to the gradient: l1 · sign(w).
    pub l1: f32,
    /// Added to the gradient: l2 · w.
    pub l2: f32,
    /// Added to the update: rate · weight_decay · w.
    pub weight_decay: f32,
    /// Done to the gradient before all of this.
    pub normalisation: GradientNormalisation,
    /// What holds after the update.
    pub constraints: Vec<Constraint>,
    /// What steps of training see of it.
    pub noise: Option<WeightNoise>,
}

impl Segment {
    /// Whether an update looks at all of it, or at all of its layer.
    fn needs_norm(&self) -> bool {
        self.normalisation.needs_norm() || self.updater.needs_norm()
    }
}

/// All segments, in the order of the layout.
#[derive(Clone, Debug, PartialEq)]
pub struct SegmentTable {
    segments: Vec<Segment>,
    /// The share that a mean of the parameters over all steps keeps in one, where there is one; it lies in the last slot.
    moving_average: Option<f64>,
    /// What all learning rates are multiplied by.
    rate: f64,
    /// Nadam's Π μ after this many steps, kept so that a step does not multiply the whole history again.
    nadam: Vec<(u64, f64)>,
}

/// A part of the flat layout: its parameters and gradient, and what the updater remembers of all.
pub(crate) struct UpdaterPart<'a> {
    pub parameters: &'a mut [f32],
    pub gradient: &'a mut [f32],
    pub slots: &'a mut [Flat],
    pub range: Range<usize>,
}

/// Floats of a part: gradient, parameters and slots of it fit the second-level cache together.
const PART: usize = 16 * 1024;

impl SegmentTable {
    /// A table over segments that lie one after the other.
    pub fn new(segments: Vec<Segment>) -> Self {
        let nadam = vec![(0, 1.0); segments.len()];
        Self { segments, moving_average: None, rate: 1.0, nadam }
    }

    /// The same, that keeps a mean of the parameters over all steps.
    pub(crate) fn with_moving_average(self, keeps: Option<f64>) -> Self {
        Self { moving_average: keeps, ..self }
    }

    /// Multiplies all learning rates by this from now on.
    pub(crate) fn scale_rates(&mut self, factor: f64) {
        self.rate = factor;
    }

    /// The segments.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// How many slots a state needs: the most that any segment's updater remembers, and one for a mean of the parameters.
    pub fn slots(&self) -> usize {
        self.updater_slots() + usize::from(self.moving_average.is_some())
    }

    /// The slots that updaters use.
    pub(crate) fn updater_slots(&self) -> usize {
        self.segments.iter().map(|s| s.updater.slots().len()).max().unwrap_or(0)
    }

    /// Takes what so many steps have left into the mean: the first becomes the mean.
    pub(crate) fn move_average(&self, mean: &mut [f32], parameters: &[f32], steps: u64) {
        match self.moving_average {
            None => {}
            Some(_) if steps == 0 => {}
            Some(_) if steps == 1 => mean.copy_from_slice(parameters),
            Some(keeps) => {
                let way = (1.0 - keeps) as f32;
                mean.iter_mut().zip(parameters).for_each(|(mean, now)| *mean += way * (now - *mean));
            }
        }
    }

    /// Turns a summed gradient into that of the mean loss with its decay, l2 / 2 · |w|², and returns that loss.
    pub(crate) fn as_mean(&self, state: &mut State, loss: Loss) -> f64 {
        let State { parameters, gradient, .. } = state;
        let mut mean = loss.mean();
        let share = if loss.weight > 0.0 { 1.0 / loss.weight } else { 0.0 };
        gradient.iter_mut().for_each(|g| *g = (f64::from(*g) * share) as f32);
        for segment in self.segments.iter().filter(|segment| segment.l2 != 0.0) {
            let l2 = f64::from(segment.l2);
            for (g, w) in gradient[segment.range.clone()].iter_mut().zip(&parameters[segment.range.clone()]) {
                mean += 0.5 * l2 * f64::from(*w).powi(2);
                *g += segment.l2 * w;
            }
        }
        mean
    }

    /// Where a part that starts at `start` ends: at the end of a stretch that fits the cache, and never within a layer
    /// that needs to be seen as a whole, for its norm or its constraint.
    pub fn part_end(&self, start: usize) -> usize {
        let mut end = start + PART;
        for segment in &self.segments {
            let whole = segment.needs_norm() || !segment.constraints.is_empty();
            if whole && segment.range.start < end && segment.range.end > start {
                let layer = self.segments.iter().filter(|s| s.layer == segment.layer).map(|s| s.range.end).max();
                // What comes before the layer goes first.
                end = if segment.range.start > start { segment.range.start } else { layer.unwrap_or(end) };
                break;
            }
        }
        end
    }

    /// Turns the summed gradient in `range` into an update, in place.
    ///
    /// Norms are taken over whole parameters and layers, so all of `state.gradient` must be reduced before this, and
    /// `range` must not cut them where there is a norm: [`Self::part_end`] tells.
    pub fn update(&mut self, state: &mut State, range: Range<usize>, weight: f32, progress: Progress) {
        let mean = if weight > 0.0 { 1.0 / weight } else { 0.0 };
        let mut layer_scale: Option<(usize, f64)> = None;
        for index in 0..self.segments.len() {
            let segment = &self.segments[index];
            let cut = segment.range.start.max(range.start)..segment.range.end.min(range.end);
            if cut.is_empty() {
                continue;
            }
            let scale = if segment.normalisation.per_layer() {
                // All segments of a layer share one norm, taken before the first of them is changed.
                match layer_scale {
                    Some((layer, scale)) if layer == segment.layer => scale,
                    _ => {
                        let parts = self.segments.iter().filter(|s| s.layer == segment.layer);
                        let squares: f64 = parts.map(|s| squares(&state.gradient[s.range.clone()])).sum();
                        let scale = segment.normalisation.scale(squares.sqrt() * f64::from(mean));
                        layer_scale = Some((segment.layer, scale));
                        scale
                    }
                }
            } else if segment.normalisation.needs_norm() {
                let norm = squares(&state.gradient[segment.range.clone()]).sqrt() * f64::from(mean);
                segment.normalisation.scale(norm)
            } else {
                1.0
            };
            let State { parameters, gradient, slots, .. } = state;
            let parameters = parameters.part_mut(cut.clone());
            let place = UpdaterPart { parameters, gradient: &mut gradient[cut.clone()], slots, range: cut };
            self.run(index, place, mean, scale as f32, progress, Into::Gradient);
        }
    }

    /// Whether every element can be updated without a look at the others, as soon as its gradient is there: no norms, no constraints, and
    /// no weights that a step sees otherwise than they are.
    pub(crate) fn is_element_wise(&self) -> bool {
        let is_alone = |s: &Segment| !s.needs_norm() && s.constraints.is_empty() && s.noise.is_none();
        self.segments.iter().all(is_alone)
    }

    /// Updates and applies in one pass, where [`Self::is_element_wise`] holds.
    pub(crate) fn step(&mut self, place: UpdaterPart<'_>, weight: f32, progress: Progress) {
        self.go(place, weight, progress, Into::Parameters);
    }

    /// Turns the gradient of a place into an update, where [`Self::is_element_wise`] holds.
    pub(crate) fn update_place(&mut self, place: UpdaterPart<'_>, weight: f32, progress: Progress) {
        self.go(place, weight, progress, Into::Gradient);
    }

    fn go(&mut self, place: UpdaterPart<'_>, weight: f32, progress: Progress, into: Into) {
        let mean = if weight > 0.0 { 1.0 / weight } else { 0.0 };
        let UpdaterPart { parameters, gradient, slots, range } = place;
        let first = self.segments.partition_point(|s| s.range.end <= range.start);
        for index in first..self.segments.len() {
            let segment = &self.segments[index].range;
            let cut = segment.start.max(range.start)..segment.end.min(range.end);
            if cut.is_empty() {
                break;
            }
            let inner = cut.start - range.start..cut.end - range.start;
            let (parameters, gradient) = (&mut parameters[inner.clone()], &mut gradient[inner]);
            let place = UpdaterPart { parameters, gradient, slots: &mut *slots, range: cut };
            self.run(index, place, mean, 1.0, progress, into);
        }
    }

    /// Runs the rule of one segment over a part of it, which must lie within it.
    fn run(&mut self, index: usize, place: UpdaterPart<'_>, mean: f32, scale: f32, progress: Progress, into: Into) {
        let UpdaterPart { parameters, gradient, slots, range } = place;
        if let (Some(_), Some(mean)) = (self.moving_average, slots.last_mut()) {
            // What the last step has left, whoever has changed it since: exchanges need know nothing of it.
            self.move_average(mean.part_mut(range.clone()), parameters, progress.iteration);
        }
        let segment = &self.segments[index];
        let mut scale = mean * scale;
        if let GradientNormalisation::ClipElementWise { threshold } = segment.normalisation {
            gradient.iter_mut().for_each(|g| *g = (*g * scale).clamp(-threshold, threshold));
            scale = 1.0;
        }
        let rate = segment.learning_rate.as_ref().or(segment.updater.learning_rate()).map_or(0.0, |s| s.at(progress));
        let rate = rate * self.rate;
        let product = match segment.updater {
            Updater::Nadam { beta1, momentum_decay, .. } => {
                advance(&mut self.nadam[index], progress.iteration, beta1, momentum_decay)
            }
            _ => 1.0,
        };
        // A step that will be made as long as the parameter is learns the rate last.
        let (rate, rate_at_last) = if segment.updater.needs_norm() { (1.0, rate) } else { (rate, 1.0) };
        let weight_decay = rate as f32 * (segment.weight_decay + segment.updater.own_decay() as f32);
        let decay = Decay { l1: segment.l1, l2: segment.l2, weight_decay };
        let rule = Rule::at(&segment.updater, progress, rate, product);
        let mut cut: [&mut [f32]; 3] = [&mut [], &mut [], &mut []];
        let used = segment.updater.slots().len();
        for (cut, flat) in cut.iter_mut().zip(slots) {
            *cut = flat.part_mut(range.clone());
        }
        rule.run(gradient, parameters, &mut cut[..used], scale, decay, into);
        if segment.updater.needs_norm() {
            debug_assert!(into == Into::Gradient && range == segment.range, "it is seen as a whole");
            let (length, of_step) = (squares(parameters).sqrt(), squares(gradient).sqrt());
            let ratio = if length > 0.0 && of_step > 0.0 { length / of_step } else { 1.0 };
            let factor = (rate_at_last * ratio) as f32;
            gradient.iter_mut().for_each(|g| *g *= factor);
        }
    }

    /// Subtracts the update in `range` and projects the weights that have a constraint.
    ///
    /// A constraint looks at whole columns, so `range` must hold whole segments where there is one.
    pub fn apply(&self, state: &mut State, range: Range<usize>) {
        let State { parameters, gradient, .. } = state;
        let parameters = parameters.part_mut(range.clone());
        crate::cpu::dispatch::subtract(parameters, &gradient[range.clone()]);
        for segment in self.segments.iter().filter(|s| !s.constraints.is_empty()) {
            if range.start <= segment.range.start && segment.range.end <= range.end {
                for constraint in &segment.constraints {
                    let inner = segment.range.start - range.start..segment.range.end - range.start;
                    constraint.project(&mut parameters[inner], segment.outputs);
                }
            }
        }
    }
}

fn squares(values: &[f32]) -> f64 {
    values.iter().map(|v| f64::from(*v) * f64::from(*v)).sum()
}

/// Π μ of the steps before `iteration`; continues from what is kept, or from the start after a resume.
fn advance(kept: &mut (u64, f64), iteration: u64, beta1: f64, decay: f64) -> f64 {
    if kept.0 > iteration {
        *kept = (0, 1.0);
    }
    while kept.0 < iteration {
        kept.0 += 1;
        kept.1 *= nadam_momentum(beta1, decay, kept.0);
    }
    kept.1
}

#[cfg(test)]
mod tests {
    use super::{Constraint, Flat, GradientNormalisation, PART, Progress, Segment, SegmentTable, State, Updater};

    fn table(normalisation: GradientNormalisation, constraints: Vec<Constraint>) -> SegmentTable {
        let segment = |range: std::ops::Range<usize>, layer, special: bool| Segment {
            range,
            layer,
            outputs: 10,
            updater: Updater::nesterovs(0.1, 0.9),
            learning_rate: None,
            l1: 0.0,
            l2: 0.01,
            weight_decay: 0.0,
            normalisation: if special { normalisation } else { GradientNormalisation::None },
            constraints: if special { constraints.clone() } else { Vec::new() },
            noise: None,
        };
        SegmentTable::new(vec![
            segment(0..PART * 2 + 100, 0, false),
            segment(PART * 2 + 100..PART * 5, 1, true),
            segment(PART * 5..PART * 5 + 10, 1, true),
            segment(PART * 5 + 10..PART * 6, 2, false),
        ])
    }

    fn state(count: usize) -> State {
        let wave =
            |phase: f32| Flat::from_slice(&(0..count).map(|i| (i as f32 * 0.37 + phase).sin()).collect::<Vec<_>>());
        State { parameters: wave(0.0), gradient: wave(1.0), slots: vec![wave(2.0)], running: Flat::zeros(0) }
    }

    #[test]
    fn parts_give_the_bits_of_the_whole() {
        for (normalisation, constraints) in [
            (GradientNormalisation::None, vec![]),
            (GradientNormalisation::ClipL2PerLayer { threshold: 0.5 }, vec![]),
            (GradientNormalisation::RenormalizeL2PerParameter, vec![Constraint::MaxNorm { norm: 1.0 }]),
        ] {
            let mut table = table(normalisation, constraints);
            let (mut whole, mut cut) = (state(PART * 6), state(PART * 6));
            let progress = Progress { iteration: 3, epoch: 0 };
            table.update(&mut whole, 0..PART * 6, 4.0, progress);
            table.apply(&mut whole, 0..PART * 6);
            let (mut start, mut parts) = (0, 0);
            while start < PART * 6 {
                let part = start..table.part_end(start).min(PART * 6);
                start = part.end;
                parts += 1;
                table.update(&mut cut, part.clone(), 4.0, progress);
                table.apply(&mut cut, part);
            }
            assert!(parts > 3, "only {parts} parts");
            assert_eq!(whole, cut, "{normalisation:?}");
        }
    }
}
