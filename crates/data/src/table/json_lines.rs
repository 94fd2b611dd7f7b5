//! Lines of JSON as the rows of a table. A key is a column; a list of numbers is a column for each of them, `key.0`, `key.1` and so on.
//!
//! One pass over the file finds the keys, since a line may lack some of them; what is missing is an empty cell.

use std::collections::HashMap;
use std::fmt;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use csv::{Position, StringRecord};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;

use super::{Schema, SchemaTarget, TableOptions};
use crate::Error;
use crate::plain::Plain;
use crate::suggestion::{Suggestion, listed};

/// The most bytes of a line, so that a file without any line end cannot fill the memory.
const MOST_BYTES: u64 = 64 << 20;
/// The most columns that all keys together may become.
const MOST_COLUMNS: usize = 1 << 20;

/// A file of lines of JSON.
pub(super) struct JsonLines {
    path: PathBuf,
    file: Plain,
    reader: BufReader<Plain>,
    /// Where the next line begins.
    next: u64,
    line: Vec<u8>,
    keys: Vec<Key>,
    /// The place of a key among them.
    places: HashMap<String, usize>,
    cells: Vec<String>,
}

#[derive(Clone)]
struct Key {
    name: String,
    kind: Kind,
    /// True and false are names here, and numbers elsewhere.
    is_label: bool,
    /// The first of its columns.
    column: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Nobody has asked for it.
    Ignored,
    /// It was null wherever it was.
    Unknown,
    One,
    List(usize),
}

/// The keys that become columns.
enum Wanted {
    AllBut(Vec<String>),
    Only(Vec<String>),
    /// Those that these columns of a trained model came from.
    Trained(Vec<String>),
}

impl Wanted {
    fn has(&self, key: &str) -> bool {
        match self {
            Self::AllBut(keys) => !keys.iter().any(|known| known == key),
            Self::Only(keys) => keys.iter().any(|known| known == key),
            Self::Trained(columns) => columns.iter().any(|column| column == key || is_element(column, key)),
        }
    }
}

/// Whether a column is one of those of a list.
fn is_element(column: &str, key: &str) -> bool {
    let place = column.strip_prefix(key).and_then(|rest| rest.strip_prefix('.'));
    place.is_some_and(|place| !place.is_empty() && place.bytes().all(|byte| byte.is_ascii_digit()))
}

/// An object with its keys in their order, as often as they come.
struct Object(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = Object;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Object, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Object(entries))
            }
        }
        deserializer.deserialize_map(Entries)
    }
}

impl JsonLines {
    /// Finds the keys of a file: those that the options name, or those that a trained model knows.
    pub(super) fn open(
        path: &Path,
        file: &Plain,
        options: &TableOptions,
        trained: Option<&Schema>,
    ) -> Result<Self, Error> {
        let (reader, path, file) = (BufReader::with_capacity(1 << 16, file.clone()), path.to_owned(), file.clone());
        let (line, keys, places, cells) = (Vec::new(), Vec::new(), HashMap::new(), Vec::new());
        let mut lines = Self { path, file, reader, next: 0, line, keys, places, cells };
        let labels = match trained.map(|schema| &schema.target) {
            _ if !options.label.is_empty() => options.label.clone(),
            Some(SchemaTarget::Classes { column, .. }) => vec![column.clone()],
            Some(SchemaTarget::Values { columns, .. }) => columns.clone(),
            Some(SchemaTarget::None) | None => Vec::new(),
        };
        let beside = |weight: Option<&String>| labels.iter().chain(weight).cloned().collect::<Vec<_>>();
        let wanted = match (trained, &options.columns) {
            (Some(schema), _) => {
                let mut names = beside(options.weight.as_ref().or(schema.weight.as_ref()));
                names.extend(schema.columns.iter().map(|column| column.name.clone()));
                Wanted::Trained(names)
            }
            (None, Some(columns)) => {
                let mut names = beside(options.weight.as_ref());
                names.extend(columns.iter().cloned());
                Wanted::Only(names)
            }
            (None, None) => Wanted::AllBut(options.drop.clone()),
        };
        lines.find_keys(&wanted, &labels)?;
        let mut columns = 0;
        for key in &mut lines.keys {
            key.column = columns;
            columns += key.kind.columns();
        }
        lines.cells = vec![String::new(); columns];
        Ok(lines)
    }

    /// Another reader of the same lines.
    pub(super) fn again(&self) -> Self {
        Self {
            path: self.path.clone(),
            file: self.file.clone(),
            reader: BufReader::with_capacity(1 << 16, self.file.clone()),
            next: 0,
            line: Vec::new(),
            keys: self.keys.clone(),
            places: self.places.clone(),
            cells: self.cells.clone(),
        }
    }

    fn find_keys(&mut self, wanted: &Wanted, labels: &[String]) -> Result<(), Error> {
        let (mut is_empty, mut columns) = (true, 0);
        while let Some((offset, Object(entries))) = self.read_object()? {
            is_empty = false;
            for (name, value) in entries {
                let at = match self.places.get(&name) {
                    Some(at) => *at,
                    None => {
                        let kind = if wanted.has(&name) { Kind::Unknown } else { Kind::Ignored };
                        let is_label = labels.contains(&name);
                        self.places.insert(name.clone(), self.keys.len());
                        self.keys.push(Key { name, kind, is_label, column: 0 });
                        columns += 1;
                        self.keys.len() - 1
                    }
                };
                let key = &self.keys[at];
                let found = key.kind_of(&value).map_err(|(expected, found)| self.wrong(at, offset, expected, found))?;
                if key.kind == Kind::Unknown {
                    columns += found.columns();
                    if let (Wanted::Trained(names), Kind::List(length)) = (wanted, found) {
                        self.check_length(at, offset, names, length)?;
                    }
                    self.keys[at].kind = found;
                }
                if columns > MOST_COLUMNS {
                    let (path, what) = (self.path.clone(), "keys and numbers in lists");
                    return Err(Error::TooMany { path, what, limit: MOST_COLUMNS });
                }
            }
        }
        match is_empty {
            true => Err(Error::NoLines { path: self.path.clone(), expected: "a JSON object on every line" }),
            false => Ok(()),
        }
    }

    /// Fails if a list is longer or shorter than the one that a model was trained with.
    fn check_length(&self, at: usize, offset: u64, columns: &[String], length: usize) -> Result<(), Error> {
        let name = &self.keys[at].name;
        let trained = columns.iter().filter(|column| is_element(column, name)).count();
        // A label that the options name is compared with the model's when it is decoded.
        if trained == length || columns.contains(name) && self.keys[at].is_label {
            return Ok(());
        }
        let expected = match trained {
            0 => "no list, as in training".to_owned(),
            _ => format!("a list of {trained} numbers, as in training"),
        };
        Err(self.wrong(at, offset, expected, format!("a list of {length}")))
    }

    /// The names of the columns.
    pub(super) fn names(&self) -> Vec<String> {
        let of_key = |key: &Key| match key.kind {
            Kind::Ignored => Vec::new(),
            Kind::Unknown | Kind::One => vec![key.name.clone()],
            Kind::List(length) => (0..length).map(|at| format!("{}.{at}", key.name)).collect(),
        };
        self.keys.iter().flat_map(of_key).collect()
    }

    /// Puts the columns of lists in the place of their keys; fails on what is no key, unless that may be missing.
    pub(super) fn expand(&self, names: &mut Vec<String>, may_be_missing: bool) -> Result<(), Error> {
        let mut columns = Vec::new();
        for name in names.drain(..) {
            match self.places.get(&name).map(|at| self.keys[*at].kind) {
                Some(Kind::List(length)) => columns.extend((0..length).map(|at| format!("{name}.{at}"))),
                None if !may_be_missing => {
                    let keys = || self.keys.iter().map(|key| key.name.as_str());
                    let (path, suggestion) = (self.path.clone(), Suggestion::nearest(&name, keys()));
                    return Err(Error::NoSuchKey { path, found: name, keys: listed(keys()), suggestion });
                }
                _ => columns.push(name),
            }
        }
        *names = columns;
        Ok(())
    }

    /// Goes to a line whose beginning was noted.
    pub(super) fn seek(&mut self, position: &Position) -> Result<(), Error> {
        self.next = position.byte();
        self.reader.seek(SeekFrom::Start(self.next)).map_err(Error::file("read", &self.path))?;
        Ok(())
    }

    /// Reads the next line that is not empty as a row; `false` at the end.
    pub(super) fn read_record(&mut self, record: &mut StringRecord) -> Result<bool, Error> {
        let Some((offset, Object(entries))) = self.read_object()? else { return Ok(false) };
        self.cells.iter_mut().for_each(String::clear);
        for (name, value) in entries {
            let changed = || Error::FileChanged { path: self.path.clone(), what: "it has other keys than before" };
            let at = *self.places.get(&name).ok_or_else(changed)?;
            let key = &self.keys[at];
            key.kind_of(&value).map_err(|(expected, found)| self.wrong(at, offset, expected, found))?;
            let values = match (key.kind, &value) {
                (Kind::Ignored, _) => continue,
                (Kind::List(_), Value::Array(values)) => &values[..],
                _ => std::slice::from_ref(&value),
            };
            for (cell, value) in self.cells[key.column..].iter_mut().zip(values) {
                write_cell(cell, value, key.is_label);
            }
        }
        record.clear();
        self.cells.iter().for_each(|cell| record.push_field(cell));
        let mut position = Position::new();
        position.set_byte(offset);
        record.set_position(Some(position));
        Ok(true)
    }

    /// The next line that is not empty, and where it begins.
    fn read_object(&mut self) -> Result<Option<(u64, Object)>, Error> {
        loop {
            let offset = self.next;
            self.line.clear();
            let read = self.reader.by_ref().take(MOST_BYTES + 1).read_until(b'\n', &mut self.line);
            self.next += read.map_err(Error::file("read", &self.path))? as u64;
            let bad = |reason| Err(Error::BadLine { path: self.path.clone(), line: self.file.line_at(offset), reason });
            if self.line.is_empty() {
                return Ok(None);
            }
            if self.line.len() as u64 > MOST_BYTES {
                return bad(format!("it has more than {MOST_BYTES} bytes"));
            }
            let line = self.line.strip_prefix(b"\xef\xbb\xbf").filter(|_| offset == 0).unwrap_or(&self.line);
            let Ok(line) = std::str::from_utf8(line) else {
                return Err(Error::NotUtf8 { path: self.path.clone(), line: self.file.line_at(offset) });
            };
            if line.trim().is_empty() {
                continue;
            }
            let object: Object = match serde_json::from_str(line) {
                Ok(object) => object,
                Err(error) if error.is_eof() => return bad("it ends in the middle of a value".into()),
                Err(error) => return bad(error.to_string().replace(" at line 1 column ", " at column ")),
            };
            let mut names: Vec<&str> = object.0.iter().map(|(name, _)| name.as_str()).collect();
            names.sort_unstable();
            return match names.windows(2).find(|pair| pair[0] == pair[1]) {
                Some(pair) => bad(format!("it has the key `{}` twice", pair[0])),
                None => Ok(Some((offset, object))),
            };
        }
    }

    fn wrong(&self, key: usize, offset: u64, expected: String, found: String) -> Error {
        let (line, key) = (self.file.line_at(offset), self.keys[key].name.clone());
        Error::BadKey { path: self.path.clone(), line, key, expected, found }
    }
}

impl Kind {
    fn columns(self) -> usize {
        match self {
            Self::Ignored => 0,
            Self::Unknown | Self::One => 1,
            Self::List(length) => length,
        }
    }
}

impl Key {
    /// What a value makes of a key; else what was expected, and what was found.
    fn kind_of(&self, value: &Value) -> Result<Kind, (String, String)> {
        let of_list = |length: usize| format!("a list of {length}");
        match (self.kind, value) {
            (Kind::Ignored, _) | (_, Value::Null) => Ok(self.kind),
            (Kind::Unknown | Kind::One, Value::Bool(_) | Value::Number(_) | Value::String(_)) => Ok(Kind::One),
            (Kind::Unknown | Kind::List(_), Value::Array(values)) => {
                let is_number = |value: &Value| matches!(value, Value::Null | Value::Bool(_) | Value::Number(_));
                match (self.kind, values.iter().find(|value| !is_number(value))) {
                    (_, Some(value)) => Err(("a list of numbers".to_owned(), format!("one with {}", kind_name(value)))),
                    (Kind::List(length), None) if length != values.len() => {
                        Err((format!("a list of {length} numbers, as before"), of_list(values.len())))
                    }
                    _ => Ok(Kind::List(values.len())),
                }
            }
            (Kind::List(length), value) => {
                Err((format!("a list of {length} numbers, as before"), kind_name(value).to_owned()))
            }
            (Kind::One, Value::Array(values)) => Err(("no list, as before".to_owned(), of_list(values.len()))),
            (_, value) => {
                let expected = "a number, a text, true, false or a list of numbers";
                Err((expected.to_owned(), kind_name(value).to_owned()))
            }
        }
    }
}

fn write_cell(cell: &mut String, value: &Value, is_label: bool) {
    match value {
        Value::Bool(value) if is_label => cell.push_str(if *value { "true" } else { "false" }),
        Value::Bool(value) => cell.push(if *value { '1' } else { '0' }),
        Value::Number(number) => cell.push_str(&number.to_string()),
        Value::String(text) => cell.push_str(text.trim()),
        Value::Null | Value::Array(_) | Value::Object(_) => {}
    }
}

fn kind_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
