//! A mixture of normal distributions: what comes out says how targets are spread, not only where their middle is (Bishop 1994).

use crate::Real;

/// The parts of a row of outputs: for each of several distributions what its share follows from, the logarithms of their deviations,
/// and their means, as many each as there are targets.
struct Mixture<'a, R> {
    shares: &'a [R],
    deviations: &'a [R],
    means: &'a [R],
}

fn parts<R>(count: usize, output: &[R]) -> Mixture<'_, R> {
    let (shares, rest) = output.split_at(count);
    let (deviations, means) = rest.split_at(count);
    Mixture { shares, deviations, means }
}

/// Targets of a row of so many outputs, if that many can be a mixture.
pub(super) fn targets(count: usize, outputs: usize) -> Option<usize> {
    let each = outputs.checked_div(count).filter(|_| outputs.is_multiple_of(count))?;
    each.checked_sub(2).filter(|targets| *targets > 0)
}

fn log_sum<R: Real>(values: impl Iterator<Item = R> + Clone) -> R {
    let top = values.clone().fold(R::of(f64::NEG_INFINITY), R::max);
    values.fold(R::ZERO, |sum, value| sum + (value - top).exp()).ln() + top
}

/// −ln Σ π N(t; μ, σ)
pub(super) fn row<R: Real>(count: usize, target: &[R], output: &[R], slope: &mut [R]) -> R {
    let Mixture { shares, deviations, means } = parts(count, output);
    let size = R::of(target.len() as f64);
    let all = log_sum(shares.iter().copied());
    let half = R::of(0.5);
    let constant = size * half * R::of((2.0 * std::f64::consts::PI).ln());
    // By distribution: the squared distance of the target in deviations, and the logarithm of what it says of the target.
    let away = |at: usize| {
        let mean = &means[at * target.len()..][..target.len()];
        let squares = mean.iter().zip(target).fold(R::ZERO, |sum, (m, t)| sum + (*m - *t) * (*m - *t));
        squares * (R::of(-2.0) * deviations[at]).exp()
    };
    let likelihood = |at: usize| shares[at] - all - constant - size * deviations[at] - half * away(at);
    let whole = log_sum((0..count).map(likelihood));
    for at in 0..count {
        let part = (likelihood(at) - whole).exp();
        slope[at] = (shares[at] - all).exp() - part;
        slope[count + at] = part * (size - away(at));
        let narrow = part * (R::of(-2.0) * deviations[at]).exp();
        let first = at * target.len();
        for (own, t) in target.iter().enumerate() {
            slope[2 * count + first + own] = (means[first + own] - *t) * narrow;
        }
    }
    -whole
}

/// Σ π μ
pub(super) fn told(count: usize, output: &[f32]) -> Vec<f32> {
    let Mixture { shares, means, .. } = parts(count, output);
    let all = log_sum(shares.iter().copied());
    let targets = means.len() / count;
    (0..targets).map(|own| (0..count).map(|at| (shares[at] - all).exp() * means[at * targets + own]).sum()).collect()
}
