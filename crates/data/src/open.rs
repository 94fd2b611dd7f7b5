use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use paceline_model::PartitionId;

use crate::fetch::{FetchOptions, Progress};
use crate::plain::STANDARD_INPUT;
use crate::spec::{Spec, expect_name};
use crate::table::Cells;
use crate::{
    Error, NormaliserKind, Partitions, Schema, Source, Subset, cifar, digits, idx, lines, mnist, sequences, table, text,
};

/// A partition that somebody has.
#[derive(Clone)]
pub enum PartitionSource {
    /// It is open.
    Open(Arc<dyn Source>),
    /// It is opened by this specification when it is known how the others are read.
    Named(String),
}

/// How a source is opened.
#[derive(Clone)]
pub struct OpenOptions {
    /// Where fetched datasets are kept; `None` takes [`cache_folder`](crate::cache_folder).
    pub cache: Option<PathBuf>,
    /// Where relative paths start; `None` takes the current folder.
    pub root: Option<PathBuf>,
    /// Whether only files below `root` may be opened, for a specification that somebody else has written.
    pub confined: bool,
    /// The columns, categories and class names of a trained model, to read other data in the same way.
    pub schema: Option<Schema>,
    /// Whether targets are wanted; without, the label column or file may be missing and is not read.
    pub targets: bool,
    /// Whether the network must not be used.
    pub offline: bool,
    /// Told how a fetch gets on.
    pub progress: Option<Progress>,
    /// Sources that the program has made itself, by the name that `given:NAME` has for them.
    pub given: BTreeMap<String, Arc<dyn Source>>,
    /// The partitions that are here, for `partitions:`, and the only epoch that each is here for.
    pub held: BTreeMap<PartitionId, (PartitionSource, Option<u64>)>,
    /// Bytes that a table may take in memory before it is streamed instead.
    pub memory_limit: usize,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            cache: None,
            root: None,
            confined: false,
            schema: None,
            targets: true,
            offline: false,
            progress: None,
            given: BTreeMap::new(),
            held: BTreeMap::new(),
            memory_limit: 256 << 20,
        }
    }
}

impl OpenOptions {
    pub(crate) fn path(&self, path: &str) -> Result<PathBuf, Error> {
        let root = self.root.as_deref().unwrap_or(Path::new("."));
        let outside = || Error::OutsideRoot { path: path.to_owned(), root: root.to_owned() };
        if path == STANDARD_INPUT && !self.confined {
            return Ok(path.into());
        }
        let is_plain = |part| matches!(part, Component::Normal(_) | Component::CurDir);
        if self.confined && !Path::new(path).components().all(is_plain) {
            return Err(outside());
        }
        let found = self.root.as_ref().map_or_else(|| Path::new(path).to_owned(), |root| root.join(path));
        self.expect_inside(&found)?;
        Ok(found)
    }

    /// Fails if a file may not be read. Links may lead anywhere; a file that is not there is told by who opens it.
    pub(crate) fn expect_inside(&self, file: &Path) -> Result<(), Error> {
        let root = self.root.as_deref().unwrap_or(Path::new("."));
        if self.confined
            && let (Ok(found), Ok(within)) = (file.canonicalize(), root.canonicalize())
            && !found.starts_with(within)
        {
            return Err(Error::OutsideRoot { path: file.display().to_string(), root: root.to_owned() });
        }
        Ok(())
    }

    pub(crate) fn fetch(&self) -> FetchOptions {
        FetchOptions {
            cache: self.cache.clone(),
            offline: self.offline,
            progress: self.progress.clone(),
            ..FetchOptions::default()
        }
    }
}

/// Opens a source by its specification.
///
/// | specification | what it is |
/// |---|---|
/// | `mnist:train`, `mnist:test` | the MNIST digits, fetched into the cache when they are not there |
/// | `digits:`, `digits:train`, `digits:test` | 1,797 digits of 8 × 8 that are part of the program |
/// | `idx:images,labels` | IDX files, `.gz` or not; the labels may be left out when no targets are wanted |
/// | `csv:path?label=species&…` | a table; see [`TableOptions`](crate::TableOptions) for the options |
/// | `jsonl:path?label=species&…` | lines of JSON: an object for every example, its keys the columns of a table |
/// | `shards:folder?label=species&…` | a folder of Parquet or Arrow files, or one of them; with the feature `shards` |
/// | `parquet:file?label=species&…` | another name of `shards:` |
/// | `sequences:path?id=…&label=…` | a table whose rows are the steps of sequences |
/// | `text:path?steps=100` | text, character by character: the next one is to be told |
/// | `lines:path?length=80` | every line a sequence of characters, with a label before a tab, or the next character to be told |
/// | `cifar10:path` | the binary files of CIFAR-10, or a folder of them |
/// | `images:folder?width=64&height=64&…` | images in a folder for each class; with the feature `images`, which is on by default |
/// | `partitions:folder` | data that lives with workers, with the notes of all partitions in a folder; see [`Partitions`] |
/// | `given:name` | a source that the program has made itself, in [`OpenOptions::given`] |
///
/// `?examples=1000&seed=7` behind all but `idx:`, `partitions:` and `given:` takes so many examples, drawn by the seed.
pub fn open(spec: &str, options: &OpenOptions) -> Result<Arc<dyn Source>, Error> {
    let mut spec = Spec::parse(spec)?;
    let sample = spec.take_sample()?;
    let source = open_whole(&spec, options)?;
    match sample {
        Some((examples, seed)) => Ok(Arc::new(Subset::drawn(source, examples, seed)?)),
        None => Ok(source),
    }
}

fn open_whole(spec: &Spec<'_>, options: &OpenOptions) -> Result<Arc<dyn Source>, Error> {
    match spec.scheme {
        "mnist" => {
            spec.expect_no_options()?;
            expect_name("part of `mnist:`", spec.rest, &["train", "test"])?;
            Ok(Arc::new(mnist::open(spec.rest == "train", &options.fetch())?))
        }
        "digits" => {
            spec.expect_no_options()?;
            expect_name("part of `digits:`", spec.rest, &["", "train", "test"])?;
            digits::open(spec.rest)
        }
        "given" => options.given.get(spec.rest).cloned().ok_or_else(|| Error::NotGiven { name: spec.rest.to_owned() }),
        "partitions" => Ok(Arc::new(Partitions::open(spec.rest, options)?)),
        "idx" => {
            let (images, labels) = match spec.rest.split_once(',') {
                Some((images, labels)) => (images, Some(options.path(labels)?)),
                None => (spec.rest, None),
            };
            if labels.is_none() && options.targets {
                let (expected, found) = ("`images,labels`".to_owned(), format!("`{}`", spec.rest));
                return Err(Error::BadSetting { setting: "idx:", expected, found });
            }
            idx::open(&options.path(images)?, labels.as_deref(), options.schema.as_ref(), NormaliserKind::Image)
        }
        "sequences" => sequences::open(&options.path(spec.rest)?, &spec.options, options),
        "text" => text::open(&options.path(spec.rest)?, &spec.options, options),
        "lines" => lines::open(&options.path(spec.rest)?, &spec.options, options),
        "cifar10" => {
            spec.expect_no_options()?;
            cifar::open(&options.path(spec.rest)?)
        }
        "images" => images(&options.path(spec.rest)?, &spec.options, options),
        "shards" | "parquet" => shards(&options.path(spec.rest)?, &spec.options, options),
        scheme => {
            let format = if scheme == "jsonl" { table::Format::JsonLines } else { table::Format::Csv };
            table::open(&options.path(spec.rest)?, format, &spec.options, options)
        }
    }
}

#[cfg(feature = "shards")]
use crate::shards::open as shards;

#[cfg(not(feature = "shards"))]
fn shards(_: &Path, _: &[(&str, String)], _: &OpenOptions) -> Result<Arc<dyn Source>, Error> {
    Err(Error::WithoutShards)
}

#[cfg(feature = "images")]
use crate::images::open as images;

#[cfg(not(feature = "images"))]
fn images(_: &Path, _: &[(&str, String)], _: &OpenOptions) -> Result<Arc<dyn Source>, Error> {
    Err(Error::WithoutImages)
}

/// The rows of a table as they are written, in the order of its examples and those that were left out; none for sources of another kind,
/// or of which only some examples are taken.
pub fn cells(spec: &str, options: &OpenOptions) -> Result<Option<Cells>, Error> {
    let mut spec = Spec::parse(spec)?;
    let format = match spec.scheme {
        "csv" => table::Format::Csv,
        "jsonl" => table::Format::JsonLines,
        _ => return Ok(None),
    };
    if spec.take_sample()?.is_some() {
        return Ok(None);
    }
    Cells::open(&options.path(spec.rest)?, format, &spec.options).map(Some)
}

/// True if a specification takes some examples of a source, by `?examples=N`.
pub fn takes_some(spec: &str) -> Result<bool, Error> {
    Ok(Spec::parse(spec)?.take_sample()?.is_some())
}

/// The files of `images:` from their folder on, in the order of its examples and those that were left out; none for sources of another
/// kind, or of which only some examples are taken.
pub fn image_files(spec: &str, options: &OpenOptions) -> Result<Option<Vec<String>>, Error> {
    let mut spec = Spec::parse(spec)?;
    if spec.scheme != "images" || spec.take_sample()?.is_some() {
        return Ok(None);
    }
    #[cfg(feature = "images")]
    {
        let folder = options.path(spec.rest)?;
        let name = |file: &PathBuf| match file.strip_prefix(&folder) {
            Ok(below) if below != Path::new("") => below.display().to_string(),
            // The source is one file.
            _ => file.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        };
        Ok(Some(crate::images::listed(&folder, options)?.iter().map(name).collect()))
    }
    #[cfg(not(feature = "images"))]
    {
        let _ = options;
        Err(Error::WithoutImages)
    }
}

/// The file of the specification that `output` is too, under this or another name: writing it would destroy what is read.
pub fn reads(spec: &str, options: &OpenOptions, output: &Path) -> Result<Option<PathBuf>, Error> {
    let spec = Spec::parse(spec)?;
    let inputs = match spec.scheme {
        "idx" => spec.rest.split(',').map(|path| options.path(path)).collect::<Result<Vec<_>, _>>()?,
        "csv" | "jsonl" | "sequences" | "text" | "lines" | "cifar10" => vec![options.path(spec.rest)?],
        #[cfg(feature = "images")]
        "images" => crate::images::listed(&options.path(spec.rest)?, options)?,
        #[cfg(feature = "shards")]
        "shards" | "parquet" => crate::shards::listed(&options.path(spec.rest)?)?,
        // What is fetched is kept in a folder of its own, and what is built in has no file.
        _ => Vec::new(),
    };
    // A file that is not there yet is nobody's input. Nothing is opened that can be read only once.
    let is_file = |input: &PathBuf| std::fs::metadata(input).is_ok_and(|found| found.is_file());
    Ok(inputs.into_iter().filter(is_file).find(|input| same_file::is_same_file(input, output).unwrap_or(false)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Arrays, ExampleShape, TargetShape};

    #[test]
    fn a_source_that_the_program_has_made_is_found_by_its_name() {
        let shape = ExampleShape { features: vec![2], targets: TargetShape::None };
        let own = Arrays::new(vec![1.0; 6], shape, paceline_model::Targets::None).expect("three examples");
        let given = BTreeMap::from([("own".to_owned(), Arc::new(own) as Arc<dyn Source>)]);
        let options = OpenOptions { given, ..OpenOptions::default() };
        assert_eq!(open("given:own", &options).map(|source| source.examples()).ok(), Some(3));
        let error = open("given:other", &options).err().expect("there is none").to_string();
        assert!(error.contains("`given:other`"), "{error}");
    }

    #[test]
    fn some_examples_of_a_source_are_drawn_by_a_seed() {
        let indices = |spec: &str| {
            let source = open(spec, &OpenOptions::default()).expect("digits are built in");
            let all: Vec<u64> = (0..source.examples() as u64).collect();
            let mut batch = paceline_model::Batch::empty();
            source.read(&all, &mut batch).expect("they can be read");
            batch.indices
        };
        let drawn = indices("digits:?examples=100&seed=7");
        assert_eq!(drawn.len(), 100);
        assert_eq!(drawn, indices("digits:?seed=7&examples=100"));
        assert_ne!(drawn, indices("digits:?examples=100"));
        assert!(drawn.is_sorted() && drawn.windows(2).all(|pair| pair[0] != pair[1]));
        let message = |spec| open(spec, &OpenOptions::default()).err().expect(spec).to_string();
        for (spec, part) in [
            ("digits:?examples=0", "at least 1"),
            ("digits:?examples=many", "a number"),
            ("digits:?examples=5000", "at most 1797"),
            ("digits:?seed=1", "`examples=N`"),
            ("digits:train?exmaples=3", "did you mean `examples`?"),
        ] {
            assert!(message(spec).contains(part), "{}", message(spec));
        }
    }

    #[test]
    fn who_is_confined_reads_only_what_lies_below_the_root() {
        let folder = tempfile::tempdir().expect("a folder");
        let (root, outside) = (folder.path().join("root"), folder.path().join("outside.csv"));
        std::fs::create_dir_all(root.join("a")).expect("a folder");
        std::fs::write(&outside, "a,b\n1,2\n").expect("a file");
        std::fs::copy(&outside, root.join("a/in.csv")).expect("a file");
        #[cfg(unix)]
        std::os::unix::fs::symlink(&outside, root.join("link.csv")).expect("a link");
        let free = OpenOptions { root: Some(root), ..OpenOptions::default() };
        let confined = OpenOptions { confined: true, ..free.clone() };
        for inside in ["a/in.csv", "./a/in.csv", "not there.csv"] {
            assert!(confined.path(inside).is_ok(), "{inside}");
        }
        let links = if cfg!(unix) { Some("link.csv") } else { None };
        for outside in
            ["/etc/passwd", "../outside.csv", "a/../../outside.csv", "a?/../../outside.csv"].into_iter().chain(links)
        {
            let error = confined.path(outside).expect_err(outside).to_string();
            assert!(error.contains("below the data root"), "{error}");
            assert!(free.path(outside).is_ok(), "{outside}");
        }
    }
}
