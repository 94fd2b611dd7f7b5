//! What is judged, predicts and is kept of a run: where a network has a `moving_average`, the mean of its parameters stands in for them.

use std::borrow::Cow;
use std::io;

use paceline_model::{Progress, State};

use crate::{Array, Network, Numbers};

impl Network {
    /// What is presented of a state at this point of a run. What was presented before stays as it is.
    pub fn presented<'a>(&self, state: &'a State, progress: Progress) -> Cow<'a, State> {
        if self.config().moving_average.is_none() {
            return Cow::Borrowed(state);
        }
        let mut state = state.clone();
        if let Some(mean) = state.slots.last_mut() {
            self.segments().move_average(mean, &state.parameters, progress.iteration.max(1));
            state.parameters.copy_from_slice(mean);
        }
        Cow::Owned(state)
    }
}

/// The same of numbers that lie elsewhere.
pub struct Presented<'a> {
    network: &'a Network,
    numbers: &'a dyn Numbers,
    progress: Progress,
}

impl<'a> Presented<'a> {
    /// What is presented of a state of this network at this point of a run.
    pub fn new(network: &'a Network, numbers: &'a dyn Numbers, progress: Progress) -> Self {
        Self { network, numbers, progress }
    }
}

impl Numbers for Presented<'_> {
    fn read(&self, array: Array<'_>, from: usize, to: &mut [f32]) -> io::Result<()> {
        let Self { network, numbers, progress } = *self;
        let mean = Array::Slot(network.segments().updater_slots());
        if network.config().moving_average.is_none() || (array != Array::Parameters && array != mean) {
            return numbers.read(array, from, to);
        }
        let mut parameters = vec![0.0; to.len()];
        numbers.read(Array::Parameters, from, &mut parameters)?;
        numbers.read(mean, from, to)?;
        network.segments().move_average(to, &parameters, progress.iteration.max(1));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use paceline_model::{Flat, Model, Progress};

    use super::Presented;
    use crate::config::{Dense, NetworkConfig, Output};
    use crate::{Array, Engine, Loss, ModelFile, Network, Numbers, Registry, Updater};

    #[test]
    fn the_mean_of_all_steps_is_presented_from_memory_and_from_elsewhere() {
        let config = NetworkConfig::feed_forward(2)
            .moving_average(0.75)
            .updater(Updater::nesterovs(0.1, 0.9))
            .layer(Dense::new(3))
            .layer(Output::new(2, Loss::CrossEntropy));
        let network = Network::new(config).expect("a network");
        let mut engine = Engine::new(network.clone());
        let mut state = engine.initial_state();
        assert_eq!(state.slots.len(), 2);
        let mut mean = state.parameters.clone();
        for step in 0..4u64 {
            let before = network.presented(&state, Progress { iteration: step, epoch: 0 }).parameters.clone();
            assert_eq!(before, mean, "before step {step}");
            let length = state.parameters.len();
            let progress = Progress { iteration: step, epoch: 0 };
            state.gradient = Flat::from_slice(&(0..length).map(|at| (at as f32).sin()).collect::<Vec<f32>>());
            engine.update(&mut state, 0..length, 1.0, progress);
            engine.apply(&mut state, 0..length);
            for (mean, now) in mean.iter_mut().zip(state.parameters.iter()) {
                *mean = if step == 0 { *now } else { *mean + 0.25 * (now - *mean) };
            }
        }
        let progress = Progress { iteration: 4, epoch: 0 };
        let presented = network.presented(&state, progress).into_owned();
        assert_eq!(presented.parameters, mean);
        assert_ne!(presented.parameters, state.parameters);
        assert_eq!(*network.presented(&presented, progress), presented, "once is enough");
        let file = ModelFile { progress, ..ModelFile::new(network.clone(), state) };
        let elsewhere = Presented::new(&network, &file, progress);
        let mut read = vec![0.0; mean.len() - 2];
        for array in [Array::Parameters, Array::Slot(1)] {
            elsewhere.read(array, 2, &mut read).expect("numbers");
            assert_eq!(read, mean[2..]);
        }
        let read = ModelFile::from_bytes(file.to_bytes(), "memory", &Registry::default()).expect("a file");
        assert_eq!(read.state.slots, file.state.slots, "a checkpoint has both");
    }
}
