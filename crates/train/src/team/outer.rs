use serde::{Deserialize, Serialize};

/// What is done with the mean of the replicas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Outer {
    /// It is where all go on.
    #[default]
    None,
    /// The way from where the replicas were one to their mean is taken as a gradient, by Nesterov's rule (local SGD with
    /// an outer optimiser, DiLoCo): for replicas that are averaged seldom.
    Nesterov {
        /// The share of the way that is gone; 1 and no momentum is the plain mean.
        #[serde(default = "rate")]
        learning_rate: f32,
        /// The share of the last way that is gone again.
        #[serde(default = "momentum")]
        momentum: f32,
    },
}

fn rate() -> f32 {
    0.7
}

fn momentum() -> f32 {
    0.9
}

impl Outer {
    /// Moves `mean` to where all go on; `anchor` is where they were one before.
    pub(crate) fn step(&self, anchor: &[f32], velocity: &mut [f32], mean: &mut [f32]) {
        let Outer::Nesterov { learning_rate, momentum } = *self else { return };
        for ((anchor, velocity), mean) in anchor.iter().zip(velocity).zip(mean) {
            let way = anchor - *mean;
            *velocity = momentum * *velocity + way;
            *mean = anchor - learning_rate * (way + momentum * *velocity);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Outer;

    #[test]
    fn the_way_to_the_mean_is_a_gradient_with_momentum() {
        let outer = Outer::Nesterov { learning_rate: 0.5, momentum: 0.5 };
        let (mut velocity, mut mean) = ([0.0], [8.0]);
        outer.step(&[10.0], &mut velocity, &mut mean);
        // way 2, velocity 2: 10 − 0.5 · (2 + 1)
        assert_eq!((velocity, mean), ([2.0], [8.5]));
        mean = [6.5];
        outer.step(&[8.5], &mut velocity, &mut mean);
        // way 2, velocity 3: 8.5 − 0.5 · (2 + 1.5)
        assert_eq!((velocity, mean), ([3.0], [6.75]));
    }

    #[test]
    fn a_whole_step_without_momentum_is_the_mean() {
        let (mut velocity, mut mean) = ([0.0], [6.0]);
        Outer::Nesterov { learning_rate: 1.0, momentum: 0.0 }.step(&[10.0], &mut velocity, &mut mean);
        assert_eq!(mean, [6.0]);
        Outer::None.step(&[10.0], &mut velocity, &mut mean);
        assert_eq!(mean, [6.0]);
    }
}
