//! What computes in a simulated worker: integers in `f32`, small enough that no sum is ever rounded.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use paceline_exchange::rounds::Steps;
use paceline_exchange::sharing::Encodes;
use paceline_exchange::{Bulk, Encoder, Message};
use paceline_model::{Loss, Progress};
use paceline_train::{Contributed, Error, Layout, Parts, Replica, SharedStep, Sink, SlotShare, Traffic};

use crate::numbers::{State, Update, WIDTH, worth};
use crate::random::mix;

/// Numbers of a contribution: sums, and the way of the state that it was computed from, of which the mean must be the same.
pub(crate) const LAYOUT: Layout = Layout { summed: WIDTH, averaged: 1 };
/// Numbers of a message: sums, who made it, and its number.
pub(crate) const MESSAGE: usize = WIDTH + 2;
/// Ways are compared by so many values.
const WAYS: u64 = 1021;

/// What a replica is, and what it has done that others want to look at.
pub(crate) struct Inside {
    pub state: State,
    /// Who it is as an origin of messages: another one each time that it takes over a state.
    pub origin: u64,
    pub sent: u64,
    residual: [i64; WIDTH],
    /// Examples that no message is about.
    untold: Vec<(u64, u64)>,
    ahead: Option<[i64; WIDTH]>,
    /// Messages that were made and not looked at yet.
    pub made: Vec<(u64, u64, Update)>,
    /// Ways by the step that a round begins with.
    pub ways: BTreeMap<u64, u64>,
    pub wrong: Option<String>,
    /// Whether what it computes next fails.
    pub fails: bool,
}

/// A replica whose inside can be looked at.
#[derive(Clone)]
pub(crate) struct SimReplica(Arc<Mutex<Inside>>);

fn sum_of(steps: &Steps) -> [i64; WIDTH] {
    let mut sum = [0; WIDTH];
    for place in steps.slice.iter().flatten().flat_map(|span| span.start..span.end) {
        add(&mut sum, &worth(steps.epoch, place), 1);
    }
    sum
}

fn add(sum: &mut [i64; WIDTH], values: &[i64; WIDTH], sign: i64) {
    sum.iter_mut().zip(values).for_each(|(sum, value)| *sum += sign * value);
}

fn examples(steps: &Steps) -> f64 {
    steps.slice.iter().flatten().map(|span| span.len()).sum::<u64>() as f64
}

/// The values, the origin and the number of a message.
fn read(message: &[u8]) -> Option<([i64; WIDTH], u64, u64)> {
    let mut numbers = [0.0; MESSAGE];
    Message::read(message).ok()?.add_to(&mut numbers, 1.0).ok()?;
    let values = std::array::from_fn(|at| numbers[at] as i64);
    Some((values, numbers[WIDTH] as u64, numbers[WIDTH + 1] as u64))
}

/// A state as bytes.
pub(crate) fn write_state(state: &State) -> Vec<u8> {
    serde_json::to_vec(&(state.values, state.way, &state.applied)).expect("numbers can be written")
}

/// A state of bytes.
pub(crate) fn read_state(bytes: &Bulk) -> Result<State, String> {
    let (values, way, applied) = serde_json::from_slice(bytes.memory()).map_err(|error| error.to_string())?;
    Ok(State { values, way, applied })
}

impl SimReplica {
    pub(crate) fn new(origin: u64) -> Self {
        Self(Arc::new(Mutex::new(Inside {
            state: State::initial(),
            origin,
            sent: 0,
            residual: [0; WIDTH],
            untold: Vec::new(),
            ahead: None,
            made: Vec::new(),
            ways: BTreeMap::new(),
            wrong: None,
            fails: false,
        })))
    }

    pub(crate) fn inside(&self) -> MutexGuard<'_, Inside> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inside {
    /// An error of this machine alone.
    fn try_to_compute(&mut self) -> Result<(), Error> {
        match std::mem::take(&mut self.fails) {
            false => Ok(()),
            true => Err(Error::Setting { setting: "simulated".into(), message: "a file cannot be read here".into() }),
        }
    }

    fn finish(&mut self, at: u64, result: &[i64; WIDTH]) {
        self.state.way = mix(self.state.way ^ at);
        for (value, added) in self.state.values.iter_mut().zip(result) {
            *value += added;
            self.state.way = mix(self.state.way ^ *added as u64);
        }
        self.ways.insert(at, self.state.way);
        while self.ways.len() > 8 {
            self.ways.pop_first();
        }
    }

    fn put(&self, sum: &[i64; WIDTH], weight: f64, out: &Arc<dyn Sink>) -> Contributed {
        out.begin(weight);
        let mut values: Vec<f32> = sum.iter().map(|value| *value as f32).collect();
        values.push((self.state.way % WAYS) as f32);
        out.put(0..LAYOUT.width(), &values);
        Contributed { weight, loss: Loss { sum: 0.0, weight } }
    }
}

impl Replica for SimReplica {
    fn layout(&self) -> Layout {
        LAYOUT
    }

    fn expect(&mut self, _: &Steps) {}

    fn step_alone(&mut self, steps: &Steps) -> Result<Loss, Error> {
        let sum = sum_of(steps);
        let mut inside = self.inside();
        inside.try_to_compute()?;
        inside.finish(steps.iteration, &sum);
        Ok(Loss { sum: 0.0, weight: examples(steps) })
    }

    fn contribute(&mut self, steps: &Steps, out: &Arc<dyn Sink>) -> Result<Option<Contributed>, Error> {
        let mut inside = self.inside();
        inside.try_to_compute()?;
        Ok(Some(inside.put(&sum_of(steps), examples(steps), out)))
    }

    fn go_ahead(&mut self, steps: &Steps, _: &dyn Fn() -> bool) -> Result<(), Error> {
        let mut sum = sum_of(steps);
        // Kept beside the sum, which is exact with it.
        sum[0] = sum[0] * 1024 + examples(steps) as i64;
        let mut inside = self.inside();
        inside.try_to_compute()?;
        inside.ahead = Some(sum);
        Ok(())
    }

    fn drop_ahead(&mut self) {
        self.inside().ahead = None;
    }

    fn commit(
        &mut self,
        at: Progress,
        result: &Arc<dyn Parts>,
        _: f64,
        ahead: Option<&Arc<dyn Sink>>,
    ) -> Result<Option<Contributed>, Error> {
        let mut values = vec![0.0; LAYOUT.width()];
        result.copy(0, &mut values);
        let mut inside = self.inside();
        let (found, expected) = (values[WIDTH].round() as u64, inside.state.way % WAYS);
        if found != expected {
            inside.wrong = Some(format!("a contribution to step {} was computed from another state", at.iteration));
        }
        let sum = std::array::from_fn(|n| values[n] as i64);
        inside.finish(at.iteration, &sum);
        let computed = inside.ahead.take().zip(ahead).map(|(mut sum, out)| {
            let weight = (sum[0] % 1024) as f64;
            sum[0] /= 1024;
            inside.put(&sum, weight, out)
        });
        Ok(computed)
    }

    fn share(&mut self, steps: &Steps, _: SlotShare, encodes: Encodes) -> Result<SharedStep, Error> {
        let mut inside = self.inside();
        let inside = &mut *inside;
        inside.try_to_compute()?;
        add(&mut inside.residual, &sum_of(steps), 1);
        let places = steps.slice.iter().flatten().flat_map(|span| span.start..span.end);
        inside.untold.extend(places.map(|place| (steps.epoch, place)));
        let loss = Loss { sum: 0.0, weight: examples(steps) };
        let values = match encodes {
            Encodes::Nothing => return Ok(SharedStep { message: None, loss }),
            // Some of it stays, as with a threshold.
            Encodes::Large => inside.residual.map(|value| value - value % 1000),
            Encodes::Everything => inside.residual,
        };
        add(&mut inside.residual, &values, -1);
        add(&mut inside.state.values, &values, 1);
        inside.sent += 1;
        let (origin, sent) = (inside.origin, inside.sent);
        inside.state.applied.insert(origin, sent);
        let update = Update { values, places: std::mem::take(&mut inside.untold) };
        inside.made.push((origin, sent, update));
        let mut numbers: Vec<f32> = values.iter().map(|value| *value as f32).collect();
        numbers.extend([origin as f32, sent as f32]);
        let mut message = Vec::new();
        let mut encoder = Encoder::new(vec![0.0; MESSAGE]).expect("a residual of zeros");
        encoder.encode_dense(&numbers, &mut message).expect("finite numbers");
        Ok(SharedStep { message: Some(message), loss })
    }

    fn take(&mut self, message: &[u8]) -> Result<(), Error> {
        let mut inside = self.inside();
        let Some((values, origin, sequence)) = read(message) else {
            inside.wrong = Some("a message cannot be read".into());
            return Ok(());
        };
        let held = inside.state.applied.get(&origin).copied().unwrap_or(0);
        if sequence != held + 1 {
            inside.wrong = Some(format!("message {sequence} of {origin} was applied after message {held}"));
        }
        add(&mut inside.state.values, &values, 1);
        inside.state.applied.insert(origin, sequence);
        Ok(())
    }

    fn running(&self) -> &[f32] {
        &[]
    }

    fn meet_running(&mut self, _: &[f32], _: SlotShare) {}

    fn traffic(&mut self) -> Option<Traffic> {
        None
    }

    fn snapshot(&self, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(&write_state(&self.inside().state))
    }

    fn adopt(&mut self, state: &Bulk, void: Option<&[&[u8]]>) -> Result<(), String> {
        let state = read_state(state)?;
        let mut inside = self.inside();
        inside.state = state;
        inside.ahead = None;
        inside.ways.clear();
        match void {
            None => inside.residual = [0; WIDTH],
            Some(void) => {
                for (values, ..) in void.iter().filter_map(|message| read(message)) {
                    add(&mut inside.residual, &values, 1);
                }
            }
        }
        inside.untold.clear();
        (inside.origin, inside.sent) = (inside.origin + 1, 0);
        Ok(())
    }
}
