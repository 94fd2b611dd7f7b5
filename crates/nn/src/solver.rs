//! Steps over a whole batch: a direction, and a search along it for how far to go (Nocedal and Wright 2006, chapters 3, 5 and 7).
//!
//! What a method remembers lies in the slots of the state, as what updaters remember does, so that checkpoints carry it. Chance and
//! running statistics stand still while one step searches.

use paceline_model::{Flat, State};
use serde::{Deserialize, Serialize};

/// How the parameters find their way.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Optimiser {
    /// A step for every batch, as the updater says.
    #[default]
    StochasticGradientDescent,
    /// Against the gradient, as far as a search finds it good.
    LineGradientDescent(LineSearch),
    /// Directions that do not undo what the last ones did (Polak and Ribière 1969), begun anew where they do not go down.
    ConjugateGradient(LineSearch),
    /// Directions by the curvature that the last steps have shown (Liu and Nocedal 1989).
    Lbfgs {
        /// Steps that are remembered.
        #[serde(default = "ten")]
        memory: usize,
        /// How far to go.
        #[serde(default)]
        line_search: LineSearch,
    },
}

/// How far a step goes along its direction: until the loss has fallen enough, and its slope, too.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LineSearch {
    /// Times that the loss is looked at, at most.
    pub max_steps: usize,
    /// A gradient shorter than this ends the search: nothing changes any more.
    pub tolerance: f64,
}

impl Default for LineSearch {
    fn default() -> Self {
        Self { max_steps: 20, tolerance: 1e-7 }
    }
}

fn ten() -> usize {
    10
}

/// Of the fall that the slope promises, so much must come.
const ENOUGH: f64 = 1e-4;
/// Of the slope, so much may be left.
const FLAT: f64 = 0.4;
const FLAT_FOR_CURVATURE: f64 = 0.9;
/// What rounding may add to a loss that is as good as another.
const ROUNDING: f64 = 1e-7;

impl Optimiser {
    /// L-BFGS that remembers ten steps.
    pub fn lbfgs() -> Self {
        Self::Lbfgs { memory: ten(), line_search: LineSearch::default() }
    }

    /// Whether it needs whole batches.
    pub fn searches(&self) -> bool {
        *self != Self::StochasticGradientDescent
    }

    /// Buffers that it remembers: for all but the first kind the last gradient and the last direction or place.
    pub(crate) fn slots(&self) -> usize {
        match self {
            Self::StochasticGradientDescent | Self::LineGradientDescent(_) => 0,
            Self::ConjugateGradient(_) => 2,
            Self::Lbfgs { memory, .. } => 2 + 2 * memory,
        }
    }

    pub(crate) fn problem(&self) -> Option<String> {
        let search = self.line_search()?;
        if search.max_steps == 0 || matches!(self, Self::Lbfgs { memory, .. } if !(1..=1000).contains(memory)) {
            return Some("`optimiser`: `max_steps` and `memory` must be at least 1, and `memory` at most 1000".into());
        }
        (!(search.tolerance >= 0.0 && search.tolerance.is_finite()))
            .then(|| format!("`optimiser`: `tolerance` must be 0 or more, found {}", search.tolerance))
    }

    fn line_search(&self) -> Option<LineSearch> {
        match self {
            Self::StochasticGradientDescent => None,
            Self::LineGradientDescent(search) | Self::ConjugateGradient(search) => Some(*search),
            Self::Lbfgs { line_search, .. } => Some(*line_search),
        }
    }

    /// Takes one step from a state whose gradient and loss, both means, are known. `evaluate` writes the gradient at the parameters of
    /// the state and returns the loss. What is left of the state is the best place that was found.
    pub(crate) fn step<E>(
        &self,
        state: &mut State,
        loss: f64,
        iteration: u64,
        evaluate: &mut dyn FnMut(&mut State) -> Result<f64, E>,
    ) -> Result<(), E> {
        let Some(search) = self.line_search() else { return Ok(()) };
        if norm(&state.gradient) <= search.tolerance {
            return Ok(());
        }
        let mut direction = self.direction(state, iteration);
        let mut slope = dot(&direction, &state.gradient);
        if slope >= 0.0 || !slope.is_finite() {
            direction = state.gradient.iter().map(|g| -g).collect();
            slope = dot(&direction, &state.gradient);
        }
        self.remember(state, &direction);
        let is_scaled = matches!(self, Self::Lbfgs { .. }) && iteration > 0;
        let first = if is_scaled { 1.0 } else { 1.0 / norm(&direction).max(1.0) };
        let flat = if matches!(self, Self::Lbfgs { .. }) { FLAT_FOR_CURVATURE } else { FLAT };
        let from = state.parameters.to_vec();
        let go = |state: &mut State, length: f64| {
            let places = state.parameters.iter_mut().zip(&from).zip(&direction);
            places.for_each(|((x, from), d)| *x = (f64::from(*from) + length * f64::from(*d)) as f32);
        };
        let mut look = |length: f64| -> Result<Point, E> {
            go(state, length);
            let loss = evaluate(state)?;
            Ok(Point { length, loss, slope: dot(&direction, &state.gradient) })
        };
        let start = Point { length: 0.0, loss, slope };
        let best = Search { start, flat, looks: search.max_steps }.run(first, &mut look)?;
        go(state, best.length);
        Ok(())
    }

    /// Where to go, by the gradient of the state and what is remembered.
    fn direction(&self, state: &State, iteration: u64) -> Vec<f32> {
        let gradient = &state.gradient;
        let down = || gradient.iter().map(|g| -g).collect::<Vec<f32>>();
        match self {
            _ if iteration == 0 => down(),
            Self::StochasticGradientDescent | Self::LineGradientDescent(_) => down(),
            Self::ConjugateGradient(_) => {
                let (last, direction) = (&state.slots[0], &state.slots[1]);
                let change = dot(gradient, gradient) - dot(gradient, last);
                let share = (change / dot(last, last).max(f64::MIN_POSITIVE)).max(0.0);
                gradient
                    .iter()
                    .zip(direction.iter())
                    .map(|(g, d)| (share * f64::from(*d) - f64::from(*g)) as f32)
                    .collect()
            }
            Self::Lbfgs { memory, .. } => by_curvature(state, *memory, iteration),
        }
    }

    /// Puts what the next step needs into the slots.
    fn remember(&self, state: &mut State, direction: &[f32]) {
        let State { parameters, gradient, slots, .. } = state;
        match self {
            Self::ConjugateGradient(_) => {
                slots[0].copy_from_slice(gradient);
                slots[1].copy_from_slice(direction);
            }
            Self::Lbfgs { .. } => {
                slots[0].copy_from_slice(gradient);
                slots[1].copy_from_slice(parameters);
            }
            _ => {}
        }
    }

    /// Notes the last step of a method that learns curvature, before its direction is asked for.
    pub(crate) fn learn_curvature(&self, state: &mut State, iteration: u64) {
        let Self::Lbfgs { memory, .. } = self else { return };
        if iteration == 0 {
            return state.slots.iter_mut().for_each(|slot| slot.fill(0.0));
        }
        let State { parameters, gradient, slots, .. } = state;
        let at = 2 + 2 * ((iteration as usize - 1) % memory);
        let ([last_gradient, last_place, ..], _) = slots.split_at(2) else { return };
        let difference = |now: &Flat, last: &Flat| now.iter().zip(last.iter()).map(|(now, last)| now - last).collect();
        let (moved, changed): (Vec<f32>, Vec<f32>) =
            (difference(parameters, last_place), difference(gradient, last_gradient));
        // A step that shows no curvature would spoil what others have shown.
        let is_curved = dot(&moved, &changed) > 1e-10 * dot(&changed, &changed);
        for (slot, values) in [(at, moved), (at + 1, changed)] {
            if is_curved { slots[slot].copy_from_slice(&values) } else { slots[slot].fill(0.0) }
        }
    }
}

/// The two-loop recursion over the steps that are remembered, newest first.
fn by_curvature(state: &State, memory: usize, iteration: u64) -> Vec<f32> {
    let count = memory.min(iteration as usize);
    let places = (0..count).map(|age| 2 + 2 * ((iteration as usize - 1 - age) % memory));
    let pairs: Vec<(&Flat, &Flat, f64)> = places
        .map(|at| (&state.slots[at], &state.slots[at + 1], dot(&state.slots[at], &state.slots[at + 1])))
        .filter(|(_, _, product)| *product > 0.0)
        .collect();
    let mut q: Vec<f64> = state.gradient.iter().map(|g| f64::from(*g)).collect();
    let along = |q: &[f64], of: &Flat| q.iter().zip(of.iter()).map(|(q, v)| q * f64::from(*v)).sum::<f64>();
    let add = |q: &mut [f64], factor: f64, of: &Flat| {
        q.iter_mut().zip(of.iter()).for_each(|(q, v)| *q += factor * f64::from(*v));
    };
    let mut shares = Vec::with_capacity(pairs.len());
    for (s, y, product) in &pairs {
        let share = along(&q, s) / product;
        add(&mut q, -share, y);
        shares.push(share);
    }
    if let Some((_, y, product)) = pairs.first() {
        let scale = product / dot(y, y);
        q.iter_mut().for_each(|q| *q *= scale);
    }
    for ((s, y, product), share) in pairs.iter().zip(&shares).rev() {
        let back = along(&q, y) / product;
        add(&mut q, share - back, s);
    }
    q.into_iter().map(|q| -q as f32).collect()
}

/// A place along the direction.
#[derive(Clone, Copy, Debug)]
struct Point {
    length: f64,
    loss: f64,
    slope: f64,
}

/// A search for a place that is low and flat enough.
struct Search {
    start: Point,
    flat: f64,
    looks: usize,
}

impl Search {
    fn is_low(&self, point: &Point) -> bool {
        let promised = ENOUGH * point.length * self.start.slope;
        point.loss.is_finite() && point.loss <= self.start.loss + promised + ROUNDING * self.start.loss.abs()
    }

    fn is_flat(&self, point: &Point) -> bool {
        point.slope.abs() <= -self.flat * self.start.slope
    }

    fn run<E>(mut self, first: f64, look: &mut dyn FnMut(f64) -> Result<Point, E>) -> Result<Point, E> {
        let (mut low, mut length) = (self.start, first);
        // Outwards, until the place lies behind the lowest one.
        while self.looks > 0 {
            self.looks -= 1;
            let point = look(length)?;
            if !self.is_low(&point) || (point.loss >= low.loss && low.length > 0.0) {
                return self.between(low, point, look);
            }
            if self.is_flat(&point) {
                return Ok(point);
            }
            if point.slope >= 0.0 {
                return self.between(point, low, look);
            }
            (low, length) = (point, 2.5 * point.length);
        }
        Ok(low)
    }

    /// Between a place that is low and another one, beyond which it goes up again.
    fn between<E>(
        mut self,
        mut low: Point,
        mut high: Point,
        look: &mut dyn FnMut(f64) -> Result<Point, E>,
    ) -> Result<Point, E> {
        while self.looks > 0 {
            self.looks -= 1;
            let length = guess(&low, &high);
            if (length - low.length).abs() <= 1e-12 * low.length.abs().max(f64::MIN_POSITIVE) {
                break;
            }
            let point = look(length)?;
            if !self.is_low(&point) || point.loss >= low.loss {
                high = point;
            } else {
                if self.is_flat(&point) {
                    return Ok(point);
                }
                if point.slope * (high.length - low.length) >= 0.0 {
                    high = low;
                }
                low = point;
            }
        }
        Ok(low)
    }
}

/// Where a parabola through a place, its slope and another place is lowest, but not too near to either.
fn guess(low: &Point, high: &Point) -> f64 {
    let width = high.length - low.length;
    let rise = high.loss - low.loss - low.slope * width;
    let share = if rise > 0.0 && rise.is_finite() { -low.slope * width / (2.0 * rise) } else { 0.5 };
    low.length + width * share.clamp(0.1, 0.9)
}

fn dot(a: &[f32], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
}

fn norm(a: &[f32]) -> f64 {
    dot(a, a).sqrt()
}

#[cfg(test)]
mod tests {
    use super::{LineSearch, Optimiser};
    use paceline_model::{Flat, State};

    /// Rosenbrock's valley in ten dimensions.
    fn valley(x: &[f32], gradient: &mut [f32]) -> f64 {
        gradient.fill(0.0);
        let mut loss = 0.0;
        for at in (0..x.len()).step_by(2) {
            let (a, b) = (f64::from(x[at]), f64::from(x[at + 1]));
            loss += 100.0 * (b - a * a).powi(2) + (1.0 - a).powi(2);
            gradient[at] = (-400.0 * a * (b - a * a) - 2.0 * (1.0 - a)) as f32;
            gradient[at + 1] = (200.0 * (b - a * a)) as f32;
        }
        loss
    }

    fn after(optimiser: &Optimiser, steps: u64) -> (f64, u64) {
        let start: Vec<f32> = (0..10).map(|at| if at % 2 == 0 { -1.2 } else { 1.0 }).collect();
        let zeros = || Flat::zeros(10);
        let mut state = State {
            parameters: Flat::from_slice(&start),
            gradient: zeros(),
            slots: vec![zeros(); optimiser.slots()],
            running: Flat::zeros(0),
        };
        let mut looks = 0;
        let mut evaluate = |state: &mut State| -> Result<f64, ()> {
            looks += 1;
            let State { parameters, gradient, .. } = state;
            Ok(valley(parameters, gradient))
        };
        for iteration in 0..steps {
            let loss = evaluate(&mut state).expect("a loss");
            optimiser.learn_curvature(&mut state, iteration);
            optimiser.step(&mut state, loss, iteration, &mut evaluate).expect("a step");
        }
        (evaluate(&mut state).expect("a loss"), looks)
    }

    #[test]
    fn curvature_and_conjugate_directions_find_the_end_of_a_valley() {
        let (plain, _) = after(&Optimiser::LineGradientDescent(LineSearch::default()), 60);
        let (conjugate, _) = after(&Optimiser::ConjugateGradient(LineSearch::default()), 60);
        let (curvature, looks) = after(&Optimiser::lbfgs(), 60);
        assert!(curvature < 1e-9 && looks < 200, "{curvature} after {looks} looks");
        assert!(conjugate < 1e-3 && conjugate < plain / 10.0, "{conjugate} and {plain}");
        assert!(plain < 20.0, "{plain}");
    }
}
