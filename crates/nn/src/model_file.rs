//! What is kept on disk: one `safetensors` file, which any tool that reads that format can read.
//!
//! ```text
//! 8 bytes   length of the header, little endian
//! header    JSON: "__metadata__" (texts: format, version, network, iteration, epoch, step, and what the caller adds)
//!           and per tensor its type, shape and place; spaces to a multiple of 8
//! data      f32, little endian: parameters by name, then running statistics, then `updater.SLOT.PARAMETER`,
//!           then what the caller keeps beside, as `exchange.NAME`
//! ```
//!
//! Reading trusts nothing: lengths, names and shapes are checked before anything is allocated for them. Writing goes to
//! a file beside, which is renamed when it is whole.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

use paceline_model::{Progress, State};
use safetensors::tensor::{Dtype, Metadata};
use serde_json::{Map, Value, json};

use crate::config::NetworkConfig;
use crate::{Error, Network, Registry};

/// The version that is written, and the newest that is read.
pub const VERSION: u32 = 1;

/// Numbers that are turned into bytes at a time.
const CHUNK: usize = 16 * 1024;

/// A header beyond this is not one of ours.
const LONGEST_HEADER: u64 = 64 << 20;

/// A network with everything that a run needs to go on: what a model file holds.
#[derive(Clone, Debug)]
pub struct ModelFile {
    /// The network.
    pub network: Network,
    /// Parameters, updater slots, running statistics.
    pub state: State,
    /// Steps and epochs taken.
    pub progress: Progress,
    /// Steps taken of the epoch that was not completed.
    pub step: u64,
    /// What the caller keeps beside: the normaliser, names of classes.
    pub extra: BTreeMap<String, String>,
    /// Arrays that the caller keeps beside, by name.
    pub arrays: BTreeMap<String, Vec<f32>>,
}

/// What names of arrays that the caller keeps begin with in the file.
const BESIDE: &str = "exchange.";

/// One array of the file: its name, its shape, and where it lies in which array of a state.
struct Entry {
    name: String,
    shape: Vec<usize>,
    array: Array<'static>,
    range: Range<usize>,
}

/// One of the flat arrays that a file is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Array<'a> {
    /// All parameters.
    Parameters,
    /// All running statistics.
    Running,
    /// What the updater remembers of all parameters, by its number.
    Slot(usize),
    /// One that the caller keeps beside, by its name.
    Beside(&'a str),
}

/// Where the numbers of a file come from: they need not lie in memory.
pub trait Numbers {
    /// Copies some of an array, from one of its numbers on.
    ///
    /// # Errors
    ///
    /// If they cannot be read from where they lie.
    fn read(&self, array: Array<'_>, from: usize, to: &mut [f32]) -> io::Result<()>;
}

impl Numbers for ModelFile {
    fn read(&self, array: Array<'_>, from: usize, to: &mut [f32]) -> io::Result<()> {
        let State { parameters, running, slots, .. } = &self.state;
        let all: &[f32] = match array {
            Array::Parameters => parameters,
            Array::Running => running,
            Array::Slot(slot) => &slots[slot],
            Array::Beside(name) => self.arrays.get(name).map_or(&[], Vec::as_slice),
        };
        to.copy_from_slice(&all[from..from + to.len()]);
        Ok(())
    }
}

impl Array<'_> {
    fn of_mut(self, state: &mut State) -> &mut [f32] {
        match self {
            Array::Parameters => &mut state.parameters,
            Array::Running => &mut state.running,
            Array::Slot(slot) => &mut state.slots[slot],
            Array::Beside(_) => &mut [],
        }
    }
}

/// All arrays that a network's file holds, in the order in which they are written.
fn entries(network: &Network) -> Vec<Entry> {
    let plain = |parameters: &[crate::Parameter], array| -> Vec<Entry> {
        let entry = |p: &crate::Parameter| Entry {
            name: p.name.clone(),
            shape: p.shape.clone(),
            array,
            range: p.range.clone(),
        };
        parameters.iter().map(entry).collect()
    };
    let mut entries = plain(network.parameters(), Array::Parameters);
    entries.extend(plain(network.running(), Array::Running));
    if network.config().optimiser.searches() {
        for slot in 0..network.slots() {
            entries.extend(
                plain(network.parameters(), Array::Slot(slot))
                    .into_iter()
                    .map(|entry| Entry { name: format!("optimiser.{slot}.{}", entry.name), ..entry }),
            );
        }
        return entries;
    }
    for (parameter, segment) in network.parameters().iter().zip(network.segments().segments()) {
        for (slot, name) in segment.updater.slots().iter().enumerate() {
            entries.push(Entry {
                name: format!("updater.{name}.{}", parameter.name),
                shape: parameter.shape.clone(),
                array: Array::Slot(slot),
                range: parameter.range.clone(),
            });
        }
    }
    if network.config().moving_average.is_some() {
        let mean = Array::Slot(network.segments().updater_slots());
        let entries_of_mean = plain(network.parameters(), mean).into_iter();
        entries.extend(entries_of_mean.map(|entry| Entry { name: format!("moving_average.{}", entry.name), ..entry }));
    }
    entries
}

impl ModelFile {
    /// A network that has not taken a step, with nothing beside.
    pub fn new(network: Network, state: State) -> Self {
        let (extra, arrays) = (BTreeMap::new(), BTreeMap::new());
        Self { network, state, progress: Progress::default(), step: 0, extra, arrays }
    }

    /// Writes the file beside `path` and renames it, so that `path` is always whole.
    pub fn save(&self, path: &Path) -> Result<(), Error> {
        self.save_with(path, self, &self.lengths())
    }

    /// The bytes that [`save`](Self::save) would write.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.write(self, &self.lengths(), &mut bytes).expect("a vector takes everything");
        bytes
    }

    /// Names and lengths of what is kept beside.
    fn lengths(&self) -> Vec<(&str, usize)> {
        self.arrays.iter().map(|(name, values)| (name.as_str(), values.len())).collect()
    }

    /// As [`save`](Self::save), with numbers that come from elsewhere, and arrays kept beside of these names and lengths. What is in
    /// `state` and `arrays` is not looked at.
    pub fn save_with(&self, path: &Path, numbers: &dyn Numbers, arrays: &[(&str, usize)]) -> Result<(), Error> {
        let beside = beside(path);
        let fail = |action, source| Error::File { action, path: path.to_owned(), source };
        let written = (|| {
            let mut file = File::create(&beside)?;
            self.write(numbers, arrays, &mut file)?;
            file.sync_all()
        })();
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let renamed = written.and_then(|()| std::fs::rename(&beside, path));
        renamed.and_then(|()| sync_folder(folder)).map_err(|source| {
            // Nothing half-written stays behind; if it cannot be removed there is nothing more to be done.
            let _ = std::fs::remove_file(&beside);
            fail("write", source)
        })
    }

    fn write(&self, numbers: &dyn Numbers, beside: &[(&str, usize)], out: &mut impl Write) -> io::Result<()> {
        let mut metadata = self.extra.clone();
        metadata.insert("format".into(), "paceline".into());
        metadata.insert("version".into(), VERSION.to_string());
        metadata.insert("network".into(), serde_json::to_string(self.network.config())?);
        metadata.insert("iteration".into(), self.progress.iteration.to_string());
        metadata.insert("epoch".into(), self.progress.epoch.to_string());
        metadata.insert("step".into(), self.step.to_string());
        let entries = entries(&self.network);
        let mut header = Map::new();
        header.insert("__metadata__".into(), json!(metadata));
        let mut end = 0;
        for entry in &entries {
            let start = end;
            end += 4 * entry.range.len();
            let place = json!({ "dtype": "F32", "shape": entry.shape, "data_offsets": [start, end] });
            header.insert(entry.name.clone(), place);
        }
        for (name, length) in beside {
            let start = end;
            end += 4 * length;
            let place = json!({ "dtype": "F32", "shape": [length], "data_offsets": [start, end] });
            header.insert(format!("{BESIDE}{name}"), place);
        }
        let mut header = serde_json::to_vec(&Value::Object(header))?;
        header.resize(header.len().next_multiple_of(8), b' ');
        out.write_all(&(header.len() as u64).to_le_bytes())?;
        out.write_all(&header)?;
        let (mut values, mut bytes) = (vec![0.0; CHUNK], Vec::with_capacity(4 * CHUNK));
        let arrays = entries.iter().map(|entry| (entry.array, entry.range.clone()));
        for (array, range) in arrays.chain(beside.iter().map(|(name, length)| (Array::Beside(name), 0..*length))) {
            for from in range.clone().step_by(CHUNK) {
                let values = &mut values[..CHUNK.min(range.end - from)];
                numbers.read(array, from, values)?;
                bytes.clear();
                bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
                out.write_all(&bytes)?;
            }
        }
        out.flush()
    }

    /// Reads a file.
    pub fn load(path: &Path) -> Result<Self, Error> {
        Self::load_with_registry(path, &Registry::default())
    }

    /// Reads a file whose network has layers or losses of other crates.
    pub fn load_with_registry(path: &Path, registry: &Registry) -> Result<Self, Error> {
        Self::read_all(ModelOnDisk::open(path, registry)?, path)
    }

    /// Reads what [`to_bytes`](Self::to_bytes) has made; `origin` says in messages where it comes from.
    pub fn from_bytes(bytes: Vec<u8>, origin: &str, registry: &Registry) -> Result<Self, Error> {
        let (length, origin) = (bytes.len() as u64, Path::new(origin));
        Self::read_all(ModelOnDisk::look(origin, Bytes::Memory(bytes), length, registry)?, origin)
    }

    fn read_all(found: ModelOnDisk, path: &Path) -> Result<Self, Error> {
        let fail = |source| Error::File { action: "read", path: path.to_owned(), source };
        // Every array was found in the file with its size, so the file bounds what is allocated here.
        let mut state = found.network.initial_state();
        for (entry, offset) in &found.places {
            found.read_from(*offset, &mut entry.array.of_mut(&mut state)[entry.range.clone()]).map_err(fail)?;
        }
        let mut arrays = BTreeMap::new();
        for (name, (offset, length)) in &found.beside {
            let mut values = vec![0.0; *length];
            found.read_from(*offset, &mut values).map_err(fail)?;
            arrays.insert(name.clone(), values);
        }
        let ModelOnDisk { network, progress, step, extra, .. } = found;
        Ok(Self { network, state, progress, step, extra, arrays })
    }
}

/// Where the bytes of a file are.
enum Bytes {
    File(File),
    Memory(Vec<u8>),
}

impl Bytes {
    fn read_at(&self, at: u64, to: &mut [u8]) -> io::Result<()> {
        match self {
            Bytes::File(file) => {
                let mut file = file;
                file.seek(SeekFrom::Start(at))?;
                file.read_exact(to)
            }
            Bytes::Memory(bytes) => {
                let from = usize::try_from(at).ok().and_then(|at| bytes.get(at..at.checked_add(to.len())?));
                to.copy_from_slice(from.ok_or(io::ErrorKind::UnexpectedEof)?);
                Ok(())
            }
        }
    }
}

/// A file that was looked at, but whose numbers were not read.
pub struct ModelOnDisk {
    /// The network.
    pub network: Network,
    /// Steps and epochs taken.
    pub progress: Progress,
    /// Steps taken of the epoch that was not completed.
    pub step: u64,
    /// What the caller keeps beside.
    pub extra: BTreeMap<String, String>,
    bytes: Bytes,
    /// Where the numbers begin.
    data: u64,
    places: Vec<(Entry, usize)>,
    /// Where arrays that the caller keeps beside begin, and how long they are.
    beside: BTreeMap<String, (usize, usize)>,
}

impl ModelOnDisk {
    /// Looks at a file whose network may have layers or losses of other crates.
    pub fn open(path: &Path, registry: &Registry) -> Result<Self, Error> {
        let fail = |source| Error::File { action: "read", path: path.to_owned(), source };
        // A pipe would be waited at for ever.
        if !std::fs::metadata(path).map_err(fail)?.is_file() {
            let (expected, found) = ("a file".into(), "a folder, a pipe or a device".into());
            return Err(Error::ModelFile { path: path.to_owned(), expected, found });
        }
        let file = File::open(path).map_err(fail)?;
        let length = file.metadata().map_err(fail)?.len();
        Self::look(path, Bytes::File(file), length, registry)
    }

    fn look(path: &Path, bytes: Bytes, length: u64, registry: &Registry) -> Result<Self, Error> {
        let fail = |source| Error::File { action: "read", path: path.to_owned(), source };
        let wrong = |expected: &str, found: String| Error::ModelFile {
            path: path.to_owned(),
            expected: expected.into(),
            found,
        };
        let mut prefix = [0; 8];
        if length < 8 {
            return Err(wrong("at least a header", format!("{length} bytes")));
        }
        bytes.read_at(0, &mut prefix).map_err(fail)?;
        let header_length = u64::from_le_bytes(prefix);
        if header_length > LONGEST_HEADER || header_length > length - 8 {
            return Err(wrong(
                "a header inside the file",
                format!("a header of {header_length} bytes in a file of {length}"),
            ));
        }
        let mut header = vec![0; header_length as usize];
        bytes.read_at(8, &mut header).map_err(fail)?;
        // Not `SafeTensors::read_metadata`, which wants the numbers too; places and shapes are checked here as well.
        let tensors = match serde_json::from_slice::<Metadata>(&header) {
            Ok(tensors) => tensors,
            Err(error) => return Err(wrong("a header of the safetensors format", error.to_string())),
        };
        let data = 8 + header_length;
        if length - data != tensors.data_len() as u64 {
            let found = format!("{} bytes: the file was cut short or has grown", length - data);
            return Err(wrong(&format!("{} bytes of numbers", tensors.data_len()), found));
        }
        let mut metadata: BTreeMap<String, String> =
            tensors.metadata().clone().unwrap_or_default().into_iter().collect();
        if metadata.remove("format").as_deref() != Some("paceline") {
            return Err(wrong("`format = \"paceline\"` in its metadata", "a file of another program".into()));
        }
        let version = metadata.remove("version").unwrap_or_default();
        if version.parse::<u32>().ok().is_none_or(|v| v > VERSION) {
            return Err(Error::Version { path: path.to_owned(), found: version, known: VERSION });
        }
        let Some(config) = metadata.remove("network") else {
            return Err(wrong("`network` in its metadata", "none".into()));
        };
        let network = Network::from_saved(NetworkConfig::from_json(&config)?, registry)?;
        let mut number = |key: &str| match metadata.remove(key).map(|text| text.parse::<u64>()) {
            Some(Ok(number)) => Ok(number),
            other => Err(wrong(&format!("a number as `{key}` in its metadata"), format!("{other:?}"))),
        };
        let (iteration, epoch, step) = (number("iteration")?, number("epoch")?, number("step")?);
        let (places, beside) = check_tensors(path, &network, &tensors)?;
        let places = entries(&network).into_iter().zip(places).collect();
        let beside = beside.into_iter().map(|(name, offset, length)| (name, (offset, length))).collect();
        let progress = Progress { iteration, epoch };
        Ok(Self { network, progress, step, extra: metadata, bytes, data, places, beside })
    }

    /// Numbers of an array that is kept beside; none if there is no such one.
    pub fn beside(&self, name: &str) -> usize {
        self.beside.get(name).map_or(0, |(_, length)| *length)
    }

    fn read_from(&self, offset: usize, to: &mut [f32]) -> io::Result<()> {
        let mut bytes = vec![0; 4 * to.len().min(CHUNK)];
        let mut at = self.data + offset as u64;
        for to in to.chunks_mut(CHUNK) {
            let bytes = &mut bytes[..4 * to.len()];
            self.bytes.read_at(at, bytes)?;
            at += bytes.len() as u64;
            for (value, bytes) in to.iter_mut().zip(bytes.chunks_exact(4)) {
                *value = f32::from_le_bytes(bytes.try_into().expect("four bytes"));
            }
        }
        Ok(())
    }
}

/// Numbers that no parameter has are zero.
impl Numbers for ModelOnDisk {
    fn read(&self, array: Array<'_>, from: usize, to: &mut [f32]) -> io::Result<()> {
        if let Array::Beside(name) = array {
            let (offset, _) = self.beside.get(name).copied().ok_or(io::ErrorKind::NotFound)?;
            return self.read_from(offset + 4 * from, to);
        }
        to.fill(0.0);
        for (entry, offset) in self.places.iter().filter(|(entry, _)| entry.array == array) {
            let (start, end) = (entry.range.start.max(from), entry.range.end.min(from + to.len()));
            if start < end {
                self.read_from(offset + 4 * (start - entry.range.start), &mut to[start - from..end - from])?;
            }
        }
        Ok(())
    }
}

/// Where each array of the network starts; name, start and length of those that were kept beside.
type Places = (Vec<usize>, Vec<(String, usize, usize)>);

/// Finds every array of the network in the file.
fn check_tensors(path: &Path, network: &Network, tensors: &Metadata) -> Result<Places, Error> {
    let wrong = |expected: String, found: String| Error::ModelFile { path: path.to_owned(), expected, found };
    let entries = entries(network);
    let mut places = Vec::with_capacity(entries.len());
    for entry in &entries {
        let expected = || format!("`{}` of shape {:?}", entry.name, entry.shape);
        let Some(info) = tensors.info(&entry.name) else { return Err(wrong(expected(), "no such array".into())) };
        if info.dtype != Dtype::F32 || info.shape != entry.shape {
            return Err(wrong(expected(), format!("{:?} of shape {:?}", info.dtype, info.shape)));
        }
        places.push(info.data_offsets.0);
    }
    let mut beside = Vec::new();
    for (name, info) in tensors.tensors() {
        if entries.iter().any(|entry| entry.name == name) {
            continue;
        }
        let Some(short) = name.strip_prefix(BESIDE).filter(|_| info.dtype == Dtype::F32 && info.shape.len() == 1)
        else {
            let found = format!("`{name}`, {:?} of shape {:?}", info.dtype, info.shape);
            return Err(wrong(format!("{} arrays of its network", entries.len()), found));
        };
        beside.push((short.to_owned(), info.data_offsets.0, info.shape[0]));
    }
    Ok((places, beside))
}

/// Writes the names of a folder to the disk, so that a rename outlasts a loss of power.
fn sync_folder(folder: &Path) -> io::Result<()> {
    match File::open(folder)?.sync_all() {
        // Some network file systems sync no folders.
        Err(error) if matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) => Ok(()),
        synced => synced,
    }
}

/// A name in the same folder that no other process uses.
fn beside(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.part", std::process::id()));
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Updater;
    use crate::config::{Dense, Output};

    #[test]
    fn the_bytes_in_memory_are_those_of_the_file_and_are_trusted_as_little() {
        let config = NetworkConfig::feed_forward(3).updater(Updater::adam(0.1)).layer(Dense::new(4));
        let network = Network::new(config.layer(Output::new(2, crate::Loss::CrossEntropy))).expect("a network");
        let state = network.initial_state();
        let mut model = ModelFile::new(network, state);
        model.arrays.insert("kept".into(), vec![1.5; 3]);
        model.progress.iteration = 7;
        let bytes = model.to_bytes();
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("model.safetensors");
        model.save(&path).expect("written");
        assert_eq!(std::fs::read(&path).expect("a file"), bytes);

        let registry = Registry::default();
        let read = ModelFile::from_bytes(bytes.clone(), "here", &registry).expect("a model");
        assert_eq!((read.state.parameters, read.progress.iteration), (model.state.parameters, 7));
        assert_eq!(read.arrays, model.arrays);
        for cut in [0, 4, 8, 100, bytes.len() - 1] {
            let error = ModelFile::from_bytes(bytes[..cut].to_vec(), "here", &registry).expect_err("cut short");
            assert!(error.to_string().contains("`here`"), "{error}");
        }
        let mut long = bytes.clone();
        long[..8].copy_from_slice(&u64::MAX.to_le_bytes());
        assert!(ModelFile::from_bytes(long, "here", &registry).is_err(), "a header that long is not made room for");
    }
}
