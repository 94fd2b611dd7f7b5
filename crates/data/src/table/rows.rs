use std::collections::HashSet;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use csv::{Position, Reader, ReaderBuilder, StringRecord, Trim};

use super::json_lines::JsonLines;
use super::{Header, Schema, TableOptions};
use crate::Error;
use crate::plain::Plain;
use crate::suggestion::{Suggestion, listed};

/// What a cell holds, judged by itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Cell<'a> {
    Missing,
    /// A number that is finite as `f32`.
    Number(f64),
    /// Anything else, infinite numbers among it.
    Text(&'a str),
}

impl<'a> Cell<'a> {
    pub(crate) fn of(text: &'a str) -> Self {
        const MISSING: [&str; 5] = ["na", "n/a", "nan", "null", "?"];
        if text.is_empty() || MISSING.iter().any(|token| text.eq_ignore_ascii_case(token)) {
            return Self::Missing;
        }
        match text.parse::<f64>() {
            Ok(number) if (number as f32).is_finite() => Self::Number(number),
            _ => Self::Text(text),
        }
    }
}

/// The rows of a file, with its columns named.
pub(crate) struct Rows {
    pub(crate) path: PathBuf,
    file: Plain,
    /// One name for each field: from the header, or the place from 0.
    pub(crate) names: Vec<String>,
    /// Whether the names come from the file.
    pub(crate) named: bool,
    /// The cells of the first line, if it was taken for data and nobody has said that it is.
    pub(crate) guessed: Vec<String>,
    reader: Lines,
    record: StringRecord,
    first: Position,
    /// Where the row that was read last begins, until its quotes are known to be closed.
    last: Option<u64>,
}

/// What rows are read from.
enum Lines {
    Csv(Reader<Plain>, u8),
    Json(JsonLines),
}

impl Rows {
    pub(crate) fn open(path: &Path, options: &TableOptions) -> Result<Self, Error> {
        let file = Plain::open(path)?;
        // Of `table.tsv.gz` the name without its last ending counts.
        let is_packed = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("gz"));
        let name = if is_packed { path.with_extension("") } else { path.to_owned() };
        let tabs = name.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("tsv"));
        let stated = options.delimiter.or(separator_line(&file));
        let delimiter = stated.unwrap_or(if tabs { b'\t' } else { b',' });
        let reader = csv_reader(file.clone(), delimiter);
        let mut rows = Self {
            path: path.to_owned(),
            file,
            names: Vec::new(),
            named: false,
            guessed: Vec::new(),
            reader: Lines::Csv(reader, delimiter),
            record: StringRecord::new(),
            first: Position::new(),
            last: None,
        };
        let mut start = Position::new();
        if separator_line(&rows.file).is_some() && rows.read_record()? {
            start = rows.csv_position();
        }
        if !rows.read_record()? {
            return Err(Error::EmptyTable { path: path.to_owned() });
        }
        rows.named = match options.header {
            Header::Yes => true,
            Header::No => false,
            Header::Auto => looks_like_header(&rows.record),
        };
        let place = |at: usize| at.to_string();
        rows.names = match rows.named {
            // Tables written with an index column leave its header empty.
            true => {
                rows.record.iter().enumerate().map(|(at, n)| if n.is_empty() { place(at) } else { n.into() }).collect()
            }
            false => (0..rows.record.len()).map(place).collect(),
        };
        if let ([only], None) = (&rows.names[..], stated)
            && let Some((by, option)) = other_delimiter(&rows.record[0])
        {
            return Err(Error::OtherDelimiter { path: path.to_owned(), found: only.clone(), by, option });
        }
        let mut seen = HashSet::new();
        if let Some(column) = rows.names.iter().find(|name| !seen.insert(name.as_str())) {
            return Err(Error::DuplicateColumn { path: path.to_owned(), column: column.clone() });
        }
        if !rows.named && options.header == Header::Auto {
            rows.guessed = rows.record.iter().map(str::to_owned).collect();
        }
        if rows.named {
            rows.first = rows.csv_position();
        } else {
            rows.first = start.clone();
            rows.seek(start)?;
        }
        Ok(rows)
    }

    /// Where the next row of a CSV file begins.
    fn csv_position(&self) -> Position {
        match &self.reader {
            Lines::Csv(reader, _) => reader.position().clone(),
            Lines::Json(_) => Position::new(),
        }
    }

    /// Opens a file of lines of JSON. In the options, lists of numbers are replaced by their columns.
    pub(crate) fn open_json(
        path: &Path,
        options: &mut TableOptions,
        wants_targets: bool,
        trained: Option<&Schema>,
    ) -> Result<Self, Error> {
        let file = Plain::open(path)?;
        let lines = JsonLines::open(path, &file, options, trained)?;
        lines.expand(&mut options.label, !wants_targets)?;
        // These are those of the training file where there is one.
        let may_be_missing = trained.is_some();
        for names in [options.columns.as_mut(), Some(&mut options.drop), Some(&mut options.categories)] {
            names.map_or(Ok(()), |names| lines.expand(names, may_be_missing))?;
        }
        let names = lines.names();
        options.drop.retain(|name| names.contains(name));
        let mut seen = HashSet::new();
        if let Some(column) = names.iter().find(|name| !seen.insert(name.as_str())) {
            return Err(Error::DuplicateColumn { path: path.to_owned(), column: column.clone() });
        }
        let (record, first) = (StringRecord::new(), Position::new());
        let (path, guessed, reader) = (path.to_owned(), Vec::new(), Lines::Json(lines));
        let mut rows = Self { path, file, names, named: true, guessed, reader, record, first, last: None };
        rows.restart()?;
        Ok(rows)
    }

    /// Another reader of the same rows, at the first of them.
    pub(crate) fn again(&self) -> Result<Self, Error> {
        let reader = match &self.reader {
            Lines::Csv(_, delimiter) => Lines::Csv(csv_reader(self.file.clone(), *delimiter), *delimiter),
            Lines::Json(lines) => Lines::Json(lines.again()),
        };
        let mut again = Self {
            path: self.path.clone(),
            file: self.file.clone(),
            names: self.names.clone(),
            named: self.named,
            guessed: self.guessed.clone(),
            reader,
            record: StringRecord::new(),
            first: self.first.clone(),
            last: None,
        };
        again.restart()?;
        Ok(again)
    }

    /// The row that was read last.
    pub(crate) fn record(&self) -> &StringRecord {
        &self.record
    }

    /// Goes back to the first row of data.
    pub(crate) fn restart(&mut self) -> Result<(), Error> {
        self.seek(self.first.clone())
    }

    /// Goes to a row whose [`Rows::position`] was noted.
    pub(crate) fn seek(&mut self, position: Position) -> Result<(), Error> {
        match &mut self.reader {
            Lines::Csv(reader, _) => reader.seek(position).map_err(|error| csv_error(&self.path, &self.file, error)),
            Lines::Json(lines) => lines.seek(&position),
        }
    }

    /// Reads the next row of data, `None` at the end; a row with too many or too few fields is an error.
    pub(crate) fn next(&mut self) -> Result<Option<&StringRecord>, Error> {
        if !self.read_record()? {
            return Ok(None);
        }
        let (expected, found) = (self.names.len(), self.record.len());
        if expected != found {
            let line = self.line();
            let lines = self.line_at(self.csv_position().byte()).saturating_sub(line);
            return Err(Error::RaggedRow { path: self.path.clone(), line, expected, found, lines });
        }
        Ok(Some(&self.record))
    }

    fn read_record(&mut self) -> Result<bool, Error> {
        match &mut self.reader {
            Lines::Csv(reader, delimiter) => {
                let is_there =
                    reader.read_record(&mut self.record).map_err(|error| csv_error(&self.path, &self.file, error))?;
                match (is_there, self.last) {
                    (true, _) => {
                        self.last = self.record.position().map(Position::byte);
                        if let (Some(start), true) = (self.last, self.record.as_slice().contains('\n')) {
                            let row = start..reader.position().byte();
                            expect_closed_quotes(&self.path, &self.file, *delimiter, row)?;
                        }
                    }
                    (false, Some(last)) => {
                        expect_closed_quotes(&self.path, &self.file, *delimiter, last..u64::MAX)?;
                        self.last = None;
                    }
                    (false, None) => {}
                }
                Ok(is_there)
            }
            Lines::Json(lines) => lines.read_record(&mut self.record),
        }
    }

    /// The row that was read last lacks the name of what it belongs to.
    pub(crate) fn without_group(&self, field: usize) -> Error {
        Error::BadCell {
            path: self.path.clone(),
            line: self.line(),
            column: self.names[field].clone(),
            expected: "name of what the row belongs to",
            found: self.record[field].to_owned(),
        }
    }

    /// Where the row that was read last begins.
    pub(crate) fn position(&self) -> Position {
        self.record.position().cloned().unwrap_or_else(Position::new)
    }

    /// The line of the row that was read last.
    pub(crate) fn line(&self) -> u64 {
        self.line_at(self.position().byte())
    }

    /// The line of the row at this offset.
    pub(crate) fn line_at(&self, offset: u64) -> u64 {
        self.file.line_at(offset)
    }

    /// The first line, which was taken for data, seems to hold the name of this column.
    pub(crate) fn numbers_in_header(&self, at: usize) -> Error {
        let (path, column) = (self.path.clone(), self.names[at].clone());
        Error::NumbersInHeader { path, column, found: self.guessed[at].clone() }
    }

    /// What people should know of a first line that was taken for data: some programs write the numbers 0, 1, 2 as names.
    pub(crate) fn remark(&self) -> Option<String> {
        let counts = self.guessed.iter().enumerate().all(|(at, cell)| *cell == at.to_string());
        (self.guessed.len() > 1 && counts).then(|| {
            let path = self.path.display();
            format!("the first line of `{path}` is 0, 1, 2 and so on, and was taken for data: if these are names, add `header=yes`")
        })
    }

    /// Fails if several of these columns are not there, with all of their names.
    pub(crate) fn expect_columns(&self, wanted: &[&str]) -> Result<(), Error> {
        let lacking: Vec<&str> = wanted.iter().copied().filter(|name| self.column(name).is_err()).collect();
        match lacking.len() {
            0 | 1 => Ok(()),
            _ => Err(Error::NoSuchColumns {
                path: self.path.clone(),
                found: listed(lacking),
                columns: listed(self.names.iter().map(String::as_str)),
            }),
        }
    }

    /// The place of a column that is given by name or by place.
    pub(crate) fn column(&self, wanted: &str) -> Result<usize, Error> {
        if let Some(at) = self.names.iter().position(|name| name == wanted) {
            return Ok(at);
        }
        let count = self.names.len() as i64;
        let place = wanted.parse::<i64>().ok().map(|place| if place < 0 { place + count } else { place });
        match place {
            Some(place) if (0..count).contains(&place) => Ok(place as usize),
            _ if self.guessed.iter().any(|cell| cell == wanted) => {
                let at = self.guessed.iter().position(|cell| cell == wanted).unwrap_or_default();
                Err(self.numbers_in_header(at))
            }
            _ => Err(Error::NoSuchColumn {
                path: self.path.clone(),
                found: wanted.to_owned(),
                columns: listed(self.names.iter().map(String::as_str)),
                suggestion: Suggestion::nearest(wanted, self.names.iter().map(String::as_str)),
            }),
        }
    }
}

/// The number of fields is checked by [`Rows::next`], which knows the line; the crate's own check does not know it reliably.
fn csv_reader(file: Plain, delimiter: u8) -> Reader<Plain> {
    ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .delimiter(delimiter)
        .trim(Trim::All)
        .buffer_capacity(1 << 16)
        .from_reader(file)
}

/// Fails if a quote of a row is closed in the middle of a cell or, in the last row, not at all: the parser takes all that it has swallowed
/// for one cell.
fn expect_closed_quotes(path: &Path, file: &Plain, delimiter: u8, row: std::ops::Range<u64>) -> Result<(), Error> {
    let mut from = file.clone();
    from.seek(SeekFrom::Start(row.start)).map_err(Error::file("read", path))?;
    // A quote opens a cell only as its first byte, and a doubled one within is text.
    let (mut opened, mut is_first, mut was_quote) = (None, true, false);
    for (at, byte) in (row.start..row.end).zip(BufReader::new(from).bytes()) {
        let byte = byte.map_err(Error::file("read", path))?;
        let ends = byte == delimiter || matches!(byte, b'\n' | b'\r');
        match (opened, byte) {
            (Some(_), b'"') => was_quote = !was_quote,
            (Some(open), _) if was_quote && !ends && !byte.is_ascii_whitespace() => {
                let (line, end) = (file.line_at(open), file.line_at(at));
                if line < end {
                    return Err(Error::StrayQuote { path: path.to_owned(), line, end });
                }
                (opened, was_quote) = (None, false);
            }
            (Some(_), _) if was_quote => (opened, was_quote, is_first) = (None, false, ends),
            (Some(_), _) => {}
            (None, b'"') if is_first => (opened, is_first) = (Some(at), false),
            (None, _) => is_first = ends,
        }
    }
    match opened.filter(|_| !was_quote) {
        Some(offset) => Err(Error::OpenQuote { path: path.to_owned(), line: file.line_at(offset) }),
        None => Ok(()),
    }
}

/// The separator that the first line of a file states, as spreadsheet programs write it: `sep=;`.
fn separator_line(file: &Plain) -> Option<u8> {
    let mut first = Vec::new();
    file.clone().take(10).read_to_end(&mut first).ok()?;
    let line = first.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&first).split(|byte| *byte == b'\n').next()?;
    let separator = line.strip_suffix(b"\r").unwrap_or(line).strip_prefix(b"sep=")?;
    match separator {
        [byte @ (b',' | b';' | b'\t' | b'|')] => Some(*byte),
        _ => None,
    }
}

/// What the cells of a line seem to be separated by, if it is no comma.
fn other_delimiter(line: &str) -> Option<(&'static str, &'static str)> {
    [(';', "semicolons", ";"), ('\t', "tabs", "tab"), ('|', "upright strokes", "|")]
        .into_iter()
        .find(|(letter, ..)| line.contains(*letter))
        .map(|(_, by, option)| (by, option))
}

fn looks_like_header(record: &StringRecord) -> bool {
    record.iter().all(|text| text.is_empty() || matches!(Cell::of(text), Cell::Text(_)))
        && record.iter().any(|text| !text.is_empty())
}

fn csv_error(path: &Path, file: &Plain, error: csv::Error) -> Error {
    let path = path.to_owned();
    match error.into_kind() {
        csv::ErrorKind::Utf8 { pos, .. } => {
            Error::NotUtf8 { line: pos.map_or(1, |position| file.line_at(position.byte())), path }
        }
        csv::ErrorKind::Io(source) => Error::File { action: "read", path, source },
        other => {
            let source = std::io::Error::other(format!("{other:?}"));
            Error::File { action: "read", path, source }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Cell;

    #[test]
    fn cells_are_told_apart() {
        for missing in ["", "NA", "n/a", "NaN", "nan", "null", "?"] {
            assert_eq!(Cell::of(missing), Cell::Missing);
        }
        assert_eq!(Cell::of("-1.5e3"), Cell::Number(-1500.0));
        for text in ["inf", "-Infinity", "1e39", "1,5", "red"] {
            assert_eq!(Cell::of(text), Cell::Text(text));
        }
    }
}
