//! One loop per updater. Each reads the gradient once and leaves the update in its place, or subtracts it at once.

use paceline_model::{Progress, vectorize};

use super::Updater;

/// An updater at one point of a run: everything that is the same for all elements, computed in `f64` once a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Rule {
    Sgd { rate: f32 },
    Nesterovs { rate: f32, momentum: f32 },
    Adam { rate: f32, mean: Average, square: Average, epsilon: f32, correct2: f32 },
    Adamax { rate: f32, mean: Average, beta2: f32, epsilon: f32 },
    Amsgrad { rate: f32, mean: Average, square: Average, epsilon: f32, correct2: f32 },
    Adabelief { rate: f32, mean: Average, surprise: Average, epsilon: f32, correct2: f32 },
    Adadelta { rate: f32, average: Average, epsilon: f32 },
    Adagrad { rate: f32, epsilon: f32 },
    Nadam { of_gradient: f32, of_mean: f32, mean: Average, square: Average, epsilon: f32, correct2: f32 },
    Rmsprop { rate: f32, square: Average, epsilon: f32 },
    Noop,
}

/// A running mean that keeps the share β of what it was.
///
/// It moves towards a new value by 1 − β of the way. With β itself rounded to `f32` a mean of 0.99999 would forget
/// 0.09 % too little.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Average {
    /// Whether to start from the new value, which is the nearer one if less than half is kept.
    from_new: bool,
    /// How far from there along the way from the old mean to the new value.
    way: f32,
}

impl Average {
    fn keeping(beta: f64) -> Self {
        let from_new = beta < 0.5;
        Self { from_new, way: if from_new { -beta } else { 1.0 - beta } as f32 }
    }

    #[inline(always)]
    fn with(self, mean: f32, value: f32) -> f32 {
        let start = if self.from_new { value } else { mean };
        start + self.way * (value - mean)
    }
}

/// What is added to the gradient before the rule, and to the update after it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Decay {
    pub l1: f32,
    pub l2: f32,
    /// Already multiplied with the learning rate.
    pub weight_decay: f32,
}

impl Rule {
    /// The rule of `updater` at this point; `momentum_product` is Nadam's Π μ up to the last step.
    pub(crate) fn at(updater: &Updater, progress: Progress, rate: f64, momentum_product: f64) -> Self {
        let step = i32::try_from(progress.iteration + 1).unwrap_or(i32::MAX);
        let correct = |beta: f64| 1.0 - beta.powi(step);
        let root = |beta: f64| correct(beta).sqrt() as f32;
        let rate32 = rate as f32;
        match *updater {
            Updater::Sgd { .. } => Rule::Sgd { rate: rate32 },
            Updater::Nesterovs { ref momentum, .. } => {
                Rule::Nesterovs { rate: rate32, momentum: momentum.at(progress) as f32 }
            }
            Updater::Adam { beta1, beta2, epsilon, .. }
            | Updater::Adamw { beta1, beta2, epsilon, .. }
            | Updater::Lamb { beta1, beta2, epsilon, .. } => Rule::Adam {
                rate: (rate / correct(beta1)) as f32,
                mean: Average::keeping(beta1),
                square: Average::keeping(beta2),
                epsilon: epsilon as f32,
                correct2: root(beta2),
            },
            Updater::Amsgrad { beta1, beta2, epsilon, .. } => Rule::Amsgrad {
                rate: (rate / correct(beta1)) as f32,
                mean: Average::keeping(beta1),
                square: Average::keeping(beta2),
                epsilon: epsilon as f32,
                correct2: root(beta2),
            },
            Updater::Adabelief { beta1, beta2, epsilon, .. } => Rule::Adabelief {
                rate: (rate / correct(beta1)) as f32,
                mean: Average::keeping(beta1),
                surprise: Average::keeping(beta2),
                epsilon: epsilon as f32,
                correct2: root(beta2),
            },
            Updater::Adamax { beta1, beta2, epsilon, .. } => Rule::Adamax {
                rate: (rate / correct(beta1)) as f32,
                mean: Average::keeping(beta1),
                beta2: beta2 as f32,
                epsilon: epsilon as f32,
            },
            Updater::Adadelta { rho, epsilon, .. } => {
                Rule::Adadelta { rate: rate32, average: Average::keeping(rho), epsilon: epsilon as f32 }
            }
            Updater::Adagrad { epsilon, .. } => Rule::Adagrad { rate: rate32, epsilon: epsilon as f32 },
            Updater::Nadam { beta1, beta2, epsilon, momentum_decay, .. } => {
                let now = nadam_momentum(beta1, momentum_decay, progress.iteration + 1);
                let next = nadam_momentum(beta1, momentum_decay, progress.iteration + 2);
                let product = momentum_product * now;
                Rule::Nadam {
                    of_gradient: (rate * (1.0 - now) / (1.0 - product)) as f32,
                    of_mean: (rate * next / (1.0 - product * next)) as f32,
                    mean: Average::keeping(beta1),
                    square: Average::keeping(beta2),
                    epsilon: epsilon as f32,
                    correct2: root(beta2),
                }
            }
            Updater::Rmsprop { decay, epsilon, .. } => {
                Rule::Rmsprop { rate: rate32, square: Average::keeping(decay), epsilon: epsilon as f32 }
            }
            Updater::Noop => Rule::Noop,
        }
    }

    /// Turns `gradient` into the update, or takes it off `parameters`. `slots` are the updater's, cut to the same range.
    pub(crate) fn run(
        self,
        gradient: &mut [f32],
        parameters: &mut [f32],
        slots: &mut [&mut [f32]],
        scale: f32,
        decay: Decay,
        into: Into,
    ) {
        let decay = (decay, into);
        match (self, slots) {
            (Rule::Noop, _) => gradient.fill(0.0),
            (Rule::Sgd { rate }, _) => element_wise(gradient, parameters, [], scale, decay, |g, []| (rate * g, [])),
            (Rule::Nesterovs { rate, momentum }, [velocity]) => {
                element_wise(gradient, parameters, [velocity], scale, decay, |g, [v]| {
                    let v = momentum * v + rate * g;
                    (rate * g + momentum * v, [v])
                });
            }
            (Rule::Adam { rate, mean, square, epsilon, correct2 }, [means, squares]) => {
                element_wise(gradient, parameters, [means, squares], scale, decay, |g, [m, v]| {
                    let (m, v) = (mean.with(m, g), square.with(v, g * g));
                    (rate * m / (v.sqrt() / correct2 + epsilon), [m, v])
                });
            }
            (Rule::Amsgrad { rate, mean, square, epsilon, correct2 }, [means, squares, largest]) => {
                element_wise(gradient, parameters, [means, squares, largest], scale, decay, |g, [m, v, top]| {
                    let (m, v) = (mean.with(m, g), square.with(v, g * g));
                    let top = top.max(v);
                    (rate * m / (top.sqrt() / correct2 + epsilon), [m, v, top])
                });
            }
            (Rule::Adabelief { rate, mean, surprise, epsilon, correct2 }, [means, surprises]) => {
                element_wise(gradient, parameters, [means, surprises], scale, decay, |g, [m, s]| {
                    let m = mean.with(m, g);
                    let s = surprise.with(s, (g - m) * (g - m)) + epsilon;
                    (rate * m / (s.sqrt() / correct2 + epsilon), [m, s])
                });
            }
            (Rule::Adamax { rate, mean, beta2, epsilon }, [means, largest]) => {
                element_wise(gradient, parameters, [means, largest], scale, decay, |g, [m, u]| {
                    let m = mean.with(m, g);
                    let u = (beta2 * u).max(g.abs() + epsilon);
                    (rate * m / u, [m, u])
                });
            }
            (Rule::Adadelta { rate, average, epsilon }, [squares, square_steps]) => {
                element_wise(gradient, parameters, [squares, square_steps], scale, decay, |g, [v, d]| {
                    let v = average.with(v, g * g);
                    let step = (d + epsilon).sqrt() / (v + epsilon).sqrt() * g;
                    (rate * step, [v, average.with(d, step * step)])
                });
            }
            (Rule::Adagrad { rate, epsilon }, [squares]) => {
                element_wise(gradient, parameters, [squares], scale, decay, |g, [v]| {
                    let v = v + g * g;
                    (rate * g / (v.sqrt() + epsilon), [v])
                });
            }
            (Rule::Rmsprop { rate, square, epsilon }, [squares]) => {
                element_wise(gradient, parameters, [squares], scale, decay, |g, [v]| {
                    let v = square.with(v, g * g);
                    (rate * g / (v.sqrt() + epsilon), [v])
                });
            }
            (Rule::Nadam { of_gradient, of_mean, mean, square, epsilon, correct2 }, [means, squares]) => {
                element_wise(gradient, parameters, [means, squares], scale, decay, |g, [m, v]| {
                    let (m, v) = (mean.with(m, g), square.with(v, g * g));
                    ((of_gradient * g + of_mean * m) / (v.sqrt() / correct2 + epsilon), [m, v])
                });
            }
            (rule, slots) => unreachable!("{rule:?} was given {} slots", slots.len()),
        }
    }
}

/// Nadam's momentum at step `t`, counted from 1.
pub(crate) fn nadam_momentum(beta1: f64, decay: f64, t: u64) -> f64 {
    beta1 * (1.0 - 0.5 * 0.96f64.powf(t as f64 * decay))
}

/// Where an update goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Into {
    /// In place of the gradient.
    Gradient,
    /// Off the parameters; the gradient stays.
    Parameters,
}

/// Runs `rule(gradient, slots) -> (update, slots)` over all elements, with the decay around it.
#[inline(always)]
fn element_wise<const N: usize>(
    gradient: &mut [f32],
    parameters: &mut [f32],
    slots: [&mut [f32]; N],
    scale: f32,
    (decay, into): (Decay, Into),
    rule: impl Fn(f32, [f32; N]) -> (f32, [f32; N]),
) {
    let decayed = |g: f32, w: f32| {
        let sign = if w > 0.0 {
            1.0
        } else if w < 0.0 {
            -1.0
        } else {
            0.0
        };
        g + decay.l2 * w + decay.l1 * sign
    };
    let plain = |g: f32, _: f32, kept: [f32; N]| rule(g * scale, kept);
    let with_decay = |g: f32, w: f32, kept: [f32; N]| {
        let (update, kept) = rule(decayed(g * scale, w), kept);
        (update + decay.weight_decay * w, kept)
    };
    match (decay == Decay::default(), into) {
        (true, Into::Gradient) => each::<N, false>(gradient, parameters, slots, plain),
        (true, Into::Parameters) => each::<N, true>(gradient, parameters, slots, plain),
        (false, Into::Gradient) => each::<N, false>(gradient, parameters, slots, with_decay),
        (false, Into::Parameters) => each::<N, true>(gradient, parameters, slots, with_decay),
    }
}

/// Whatever an updater remembers below this is nothing: what no gradient comes for any more would fade into numbers so
/// small that the processor takes far longer for them, some hundred steps after a unit has died.
const LEAST: f32 = 1e-30;

#[inline(always)]
fn worth_keeping(value: f32) -> f32 {
    if value.abs() < LEAST { 0.0 } else { value }
}

/// Elements that are worked on together, so that the compiler sees a vector and no chance of overlap.
const LANES: usize = 16;

/// Runs `f(gradient, parameter, slots) -> (update, slots)` over all elements.
#[inline(always)]
fn each<const N: usize, const APPLY: bool>(
    gradient: &mut [f32],
    parameters: &mut [f32],
    slots: [&mut [f32]; N],
    f: impl Fn(f32, f32, [f32; N]) -> (f32, [f32; N]),
) {
    vectorize(
        #[inline(always)]
        move || {
            let (gradients, last_gradient) = gradient.as_chunks_mut::<LANES>();
            let (parameters, last_parameters) = parameters.as_chunks_mut::<LANES>();
            let mut slots = slots.map(|slot| slot.as_chunks_mut::<LANES>());
            for (i, (gradient, parameters)) in gradients.iter_mut().zip(parameters).enumerate() {
                let mut kept: [[f32; LANES]; N] = std::array::from_fn(|n| slots[n].0[i]);
                let mut update = [0.0; LANES];
                for lane in 0..LANES {
                    let (one, new) = f(gradient[lane], parameters[lane], std::array::from_fn(|n| kept[n][lane]));
                    update[lane] = one;
                    (0..N).for_each(|n| kept[n][lane] = worth_keeping(new[n]));
                }
                (0..N).for_each(|n| slots[n].0[i] = kept[n]);
                if APPLY {
                    (0..LANES).for_each(|lane| parameters[lane] -= update[lane]);
                } else {
                    *gradient = update;
                }
            }
            for (i, (gradient, parameter)) in last_gradient.iter_mut().zip(last_parameters).enumerate() {
                let (update, kept) = f(*gradient, *parameter, std::array::from_fn(|n| slots[n].1[i]));
                (0..N).for_each(|n| slots[n].1[i] = worth_keeping(kept[n]));
                if APPLY {
                    *parameter -= update;
                } else {
                    *gradient = update;
                }
            }
        },
    );
}

#[cfg(test)]
mod tests {
    use super::{Decay, Into, LEAST, Rule};
    use crate::Updater;
    use paceline_model::Progress;

    #[test]
    fn what_fades_is_forgotten_before_it_is_slow() {
        for (updater, used) in [(Updater::nesterovs(0.1, 0.9), 1), (Updater::adam(0.1), 2)] {
            // More than a vector, and a rest.
            let mut slots = [vec![1e-3; 21], vec![1e-3; 21]];
            let mut parameters = vec![1.0; 21];
            for iteration in 0..200_000 {
                let rule = Rule::at(&updater, Progress { iteration, epoch: 0 }, 0.1, 1.0);
                let [first, second] = &mut slots;
                let mut cut = [&mut first[..], &mut second[..]];
                let mut gradient = [0.0; 21];
                rule.run(&mut gradient, &mut parameters, &mut cut[..used], 1.0, Decay::default(), Into::Parameters);
                let kept = slots[..used].iter().flatten();
                assert!(kept.clone().all(|value| *value == 0.0 || value.abs() >= LEAST));
                if kept.clone().all(|value| *value == 0.0) {
                    break;
                }
            }
            assert!(slots[..used].iter().flatten().all(|value| *value == 0.0), "{updater:?}");
            assert!(parameters.iter().all(|parameter| parameter.is_finite()));
        }
    }
}
