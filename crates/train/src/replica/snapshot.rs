//! States as bytes: parameters, running statistics, what the updater remembers, the outer way; all little-endian `f32`.

use std::io::{self, Read, Write};

use paceline_exchange::Bulk;
use paceline_model::{Flat, State};
use paceline_nn::{Array, Network, Numbers};

use super::cores::{flats, flats_mut};

/// Numbers that are turned into bytes at a time.
const STRETCH: usize = 16 << 10;

/// Writes a state.
pub fn write_snapshot(state: &State, velocity: &[f32], out: &mut dyn Write) -> io::Result<()> {
    let mut bytes = vec![0; 4 * STRETCH];
    let parts = flats(state, state.slots.len()).map(|flat| &flat[..]).chain([velocity]);
    for stretch in parts.flat_map(|part| part.chunks(STRETCH)) {
        let values = &mut bytes[..4 * stretch.len()];
        values.as_chunks_mut::<4>().0.iter_mut().zip(stretch).for_each(|(four, value)| *four = value.to_le_bytes());
        out.write_all(values)?;
    }
    Ok(())
}

/// Writes the state of a network whose numbers lie elsewhere, with so many of an outer way that is kept beside under a name.
pub fn write_numbers(
    numbers: &dyn Numbers,
    network: &Network,
    (way, length): (&str, usize),
    out: &mut dyn Write,
) -> io::Result<()> {
    let parameters = network.parameter_count();
    let slots = (0..network.slots()).map(|slot| (Array::Slot(slot), parameters));
    let arrays = [(Array::Parameters, parameters), (Array::Running, network.running_count())].into_iter();
    let (mut values, mut bytes) = (vec![0.0; STRETCH], Vec::with_capacity(4 * STRETCH));
    for (array, length) in arrays.chain(slots).chain([(Array::Beside(way), length)]) {
        for from in (0..length).step_by(STRETCH) {
            let values = &mut values[..STRETCH.min(length - from)];
            numbers.read(array, from, values)?;
            bytes.clear();
            bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
            out.write_all(&bytes)?;
        }
    }
    Ok(())
}

/// A state in memory.
pub fn snapshot_of(state: &State, velocity: &[f32]) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_snapshot(state, velocity, &mut bytes).expect("memory takes what is written");
    bytes
}

/// Reads what [`write_snapshot`] wrote into buffers of the same sizes.
pub fn adopt_into(snapshot: &Bulk, state: &mut State, velocity: &mut [f32]) -> Result<(), String> {
    let slots = state.slots.len();
    let expected = 4 * (flats(state, slots).map(Flat::len).sum::<usize>() + velocity.len()) as u64;
    check_length(snapshot, expected)?;
    let mut reader = snapshot.reader();
    let mut bytes = vec![0; 4 * STRETCH];
    for part in flats_mut(state, slots).map(|flat| &mut flat[..]).chain([velocity]) {
        for stretch in part.chunks_mut(STRETCH) {
            let bytes = &mut bytes[..4 * stretch.len()];
            reader.read_exact(bytes).map_err(|error| format!("the state that was fetched cannot be read: {error}"))?;
            let values = paceline_exchange::reduce::values(bytes);
            stretch.iter_mut().zip(values).for_each(|(to, value)| *to = value);
        }
    }
    Ok(())
}

fn check_length(snapshot: &Bulk, expected: u64) -> Result<(), String> {
    match snapshot.len() {
        found if found == expected => Ok(()),
        found => Err(format!("expected a state of {expected} bytes, found {found}")),
    }
}

/// A state that lies wherever it lies, with the place of each of its arrays: it goes into a model file from there.
pub struct Snapshot<'a> {
    bytes: &'a Bulk,
    parameters: usize,
    running: usize,
    slots: usize,
}

impl<'a> Snapshot<'a> {
    /// One of this network, with so many numbers of an outer way.
    pub fn new(bytes: &'a Bulk, network: &Network, velocity: usize) -> Result<Self, String> {
        let (parameters, running) = (network.parameter_count(), network.running_count());
        let slots = network.slots();
        check_length(bytes, 4 * (parameters * (1 + slots) + running + velocity) as u64)?;
        Ok(Self { bytes, parameters, running, slots })
    }
}

impl Numbers for Snapshot<'_> {
    fn read(&self, array: Array<'_>, from: usize, to: &mut [f32]) -> io::Result<()> {
        let start = match array {
            Array::Parameters => 0,
            Array::Running => self.parameters,
            Array::Slot(slot) => self.parameters + self.running + slot * self.parameters,
            // The outer way is the only one.
            Array::Beside(_) => self.parameters + self.running + self.slots * self.parameters,
        };
        let mut bytes = vec![0; 4 * to.len()];
        self.bytes.read_at(4 * (start + from) as u64, &mut bytes)?;
        to.iter_mut().zip(paceline_exchange::reduce::values(&bytes)).for_each(|(to, value)| *to = value);
        Ok(())
    }
}
