use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Result, bail};
use paceline::data::{ColumnSurvey, Error, OpenOptions, survey};
use paceline::train::counted;

use super::open_options;
use crate::arguments;
use crate::failure::{DONE, Exit, Misuse};
use crate::outputs::write_beside;

/// Names of columns that most tables mean to be learned.
const LABELS: [&str; 8] = ["label", "target", "class", "y", "outcome", "species", "kind", "diagnosis"];
/// Whole numbers of at most so many different values are classes.
const MOST_CLASSES: usize = 10;
/// Tables of fewer rows are learned whole.
const FEWEST_HELD_OUT: u64 = 10;
/// Examples of a step.
const BATCH: u64 = 32;
/// Steps that a small network wants.
const STEPS: u64 = 3000;

pub(crate) fn run(arguments: &arguments::Init) -> Result<Exit> {
    let arguments::Init { data, label, output, overwrite } = arguments;
    let mut spec = specification(data)?;
    let options = open_options(&arguments::Cache { cache: None, offline: true }, true);
    let options = OpenOptions { targets: false, ..options };
    let mut surveyed = survey(&spec, &options);
    // Semicolons and tabs show in the first line.
    if let (Err(Error::OtherDelimiter { option, .. }), false) = (&surveyed, spec.contains('?')) {
        spec += &format!("?delimiter={option}");
        surveyed = survey(&spec, &options);
    }
    let Some(columns) = surveyed? else {
        return Err(Misuse(format!(
            "`{data}` is no table: expected a file of comma-separated values or lines of JSON"
        ))
        .into());
    };
    let label = label_of(&columns, label.as_deref(), data)?;
    let table = spec.split_once(':').map_or(spec.as_str(), |(_, path)| path).split('?').next().unwrap_or_default();
    let name = Path::new(table).file_stem().map_or("job".into(), |name| name.to_string_lossy().into_owned());
    let output = output.clone().unwrap_or_else(|| format!("{name}.toml").into());
    if same_file::is_same_file(table, &output).unwrap_or(false) {
        let message = format!("`--output {}` is the table that is read: choose another name", output.display());
        return Err(Misuse(message).into());
    }
    if output.exists() && !overwrite {
        let message = format!(
            "`{}` is there already: choose another name with `--output`, or add `--overwrite`",
            output.display()
        );
        return Err(Misuse(message).into());
    }
    let job = job(&spec, &columns, label)?;
    write_beside(&output, |file| Ok(file.write_all(job.as_bytes())?))?;
    emit!("wrote `{}`; look at its comments, then train it: paceline train {}", output.display(), output.display());
    Ok(DONE)
}

/// The source of a file by its name, or the source as it was given.
fn specification(data: &str) -> Result<String> {
    if data == "-" || data.ends_with(":-") {
        bail!(Misuse(
            "a job cannot be written for standard input, which is gone when the job is trained: name a file".into()
        ));
    }
    if !data.contains(':') && data.contains('?') {
        bail!(Misuse(format!(
            "`{data}`: a source cannot be a file with `?` in its name, which begins its options: rename it"
        )));
    }
    if data.starts_with("csv:") || data.starts_with("jsonl:") {
        return Ok(data.to_owned());
    }
    let name = data.to_lowercase();
    let name = name.strip_suffix(".gz").unwrap_or(&name);
    match () {
        () if name.ends_with(".csv") || name.ends_with(".tsv") => Ok(format!("csv:{data}")),
        () if name.ends_with(".jsonl") => Ok(format!("jsonl:{data}")),
        () => bail!(Misuse(format!(
            "`{data}`: expected a table, `FILE.csv`, `FILE.tsv` or `FILE.jsonl`, or a source such as `csv:FILE`"
        ))),
    }
}

/// The place of the column to learn: the named one, one with a usual name, or the last.
fn label_of(columns: &[ColumnSurvey], wanted: Option<&str>, data: &str) -> Result<usize> {
    let place = |name: &str| columns.iter().position(|column| column.name.eq_ignore_ascii_case(name));
    match wanted {
        Some(name) => place(name).ok_or_else(|| {
            let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
            Misuse(format!("`--label {name}`: `{data}` has the columns `{}`", names.join("`, `"))).into()
        }),
        None => {
            // Dates say when, not what.
            let last = columns.iter().rposition(|column| !column.is_date());
            Ok(LABELS.iter().find_map(|name| place(name)).or(last).unwrap_or(columns.len().saturating_sub(1)))
        }
    }
}

/// A column within a specification: by its name, or by its place where the name has a comma, which separates names.
fn column_of(columns: &[ColumnSurvey], at: usize) -> String {
    let name = &columns[at].name;
    match name.contains(',') {
        true => at.to_string(),
        false => name.replace('%', "%25").replace('&', "%26").replace('?', "%3F"),
    }
}

/// True for an element of a list in lines of JSON, `key.3`: the list is taken or left as a whole.
fn is_element(spec: &str, name: &str) -> bool {
    let place = name.rsplit_once('.').map(|(_, place)| place);
    spec.starts_with("jsonl:") && place.is_some_and(|place| place.parse::<usize>().is_ok())
}

/// A name within a comment, on one line.
fn in_comment(name: &str) -> String {
    name.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}

/// The job file, with a comment for each guess.
fn job(spec: &str, columns: &[ColumnSurvey], label: usize) -> Result<String> {
    let target = &columns[label];
    let rows = target.rows();
    if rows == 0 {
        return Err(Misuse(format!(
            "`{}` has no rows to learn from",
            spec.split_once(':').map_or(spec, |(_, path)| path)
        ))
        .into());
    }
    if target.distinct < 2 {
        return Err(Misuse(format!(
            "the column `{}` has {}: name the column to learn with `--label`",
            target.name,
            counted(target.distinct as u64, "value")
        ))
        .into());
    }
    if target.is_date() {
        let message = format!(
            "the column `{}` holds dates, which can be learned from but not learned: name another with `--label`",
            target.name
        );
        return Err(Misuse(message).into());
    }
    let is_classes = target.is_text() || target.is_countable && target.distinct <= MOST_CLASSES;
    if is_element(spec, &target.name) {
        return Err(Misuse(format!(
            "`{}` is an element of a list: name the column to learn with `--label`",
            target.name
        ))
        .into());
    }
    if columns.len() == 1 {
        let message = format!(
            "the table has one column, `{}`: nothing is left to learn it from; if its cells hold several columns, name what \
             separates them, as in `csv:FILE?delimiter=;`",
            target.name
        );
        return Err(Misuse(message).into());
    }
    let features = || columns.iter().enumerate().filter(|(at, _)| *at != label).map(|(_, column)| column);
    let (mut dropped, mut comments): (Vec<&str>, String) = (Vec::new(), String::new());
    for column in features().filter(|column| !is_element(spec, &column.name)) {
        let values = column.numbers + column.texts;
        // Another whole number in every row of a column that is called so is a key.
        let name = column.name.to_lowercase();
        let is_key = column.is_countable
            && column.texts == 0
            && column.distinct as u64 == values
            && (name == "id" || name.ends_with("_id") || name.ends_with(" id") || name == "index" || name == "0");
        let warning = column.warning().or_else(|| is_key.then(|| "is another number in every row, as keys are".into()));
        if let Some(warning) = warning {
            dropped.push(&column.name);
            writeln!(comments, "# `{}` {}: left out.", in_comment(&column.name), in_comment(&warning))?;
        }
    }
    for column in features().filter(|column| column.is_date() && !dropped.contains(&column.name.as_str())) {
        writeln!(comments, "# `{}` holds dates: they are read as days since 1970-01-01.", in_comment(&column.name))?;
    }
    if dropped.len() == columns.len() - 1 {
        let why = comments.trim_end().replace("# ", "").replace(": left out.\n", ", ").replace(": left out.", "");
        return Err(Misuse(format!("no column is left that a network could learn from: {why}")).into());
    }
    let lacks = |column: &&ColumnSurvey| column.missing > 0 && !dropped.contains(&column.name.as_str());
    let lacking: Vec<String> =
        features().filter(lacks).map(|column| format!("`{}` ({})", in_comment(&column.name), column.missing)).collect();
    let between = if spec.contains('?') { '&' } else { '?' };
    let mut source = format!("{spec}{between}label={}", column_of(columns, label));
    match is_classes {
        true if target.is_text() => {}
        true => source += "&task=classes",
        false => source += "&task=regression",
    }
    if !dropped.is_empty() {
        source += &format!(
            "&drop={}",
            (0..columns.len())
                .filter(|at| dropped.contains(&columns[*at].name.as_str()))
                .map(|at| column_of(columns, at))
                .collect::<Vec<_>>()
                .join(",")
        );
    }
    if target.missing > 0 {
        source += "&missing=drop";
        writeln!(
            comments,
            "# Rows that lack a value are left out: {} without a label.",
            counted(target.missing, "row")
        )?;
    } else if !lacking.is_empty() {
        source += "&missing=mean";
        let what = "# A missing number becomes the mean of its column, a missing text none of the categories";
        writeln!(comments, "{what}: {}.", lacking.join(", "))?;
    }
    if features().any(|column| column.is_text() && !dropped.contains(&column.name.as_str())) {
        source += "&unknown=ignore";
        comments += "# Texts are categories; one that training has not seen is none of them.\n";
    }
    if is_classes && 2 * target.numeric_texts > target.texts {
        let warning = target.warning().unwrap_or_default();
        let message = format!(
            "the column `{}` {warning}: write them with digits and one decimal point, or name another column with `--label`",
            target.name
        );
        return Err(Misuse(message).into());
    }
    if is_classes && target.distinct as u64 == rows && rows > 20 {
        let message = format!(
            "the column `{}` has another text in every row, and nothing could be learned: name another with `--label`",
            target.name
        );
        return Err(Misuse(message).into());
    }
    let what = match is_classes {
        true => format!("{} classes", target.distinct),
        false => {
            format!("a number from {} to {}", target.minimum.unwrap_or_default(), target.maximum.unwrap_or_default())
        }
    };
    let epochs = (STEPS * BATCH / rows.max(1)).clamp(5, 200);
    // Of fewer rows none are left to evaluate on.
    let (test, stopping) = match rows >= FEWEST_HELD_OUT {
        true => (
            "test_share = 0.2        # a fifth of the rows is held out, to evaluate on\n",
            format!(
                "# The epoch with the least loss on the held-out rows is kept: its figures on them are a little too good.\n\
                 early_stopping = {{ patience = {} }}\n",
                (epochs / 8).max(4)
            ),
        ),
        false => ("", String::new()),
    };
    let stratified = if !test.is_empty() && is_classes && rows / target.distinct as u64 >= 5 {
        "stratified = true       # as many of each class in both parts\n"
    } else {
        ""
    };
    Ok(format!(
        "# {rows} rows; `{}` is learned: {what}.\n{comments}[data]\ntrain      = {}\n\
         {test}{stratified}batch      = {BATCH}\n\n\
         [network]\nseed        = 1\ninput       = \"auto\"   # as many numbers as the columns give\n\
         weight_init = \"relu\"\nl2          = 1e-4\nupdater     = {{ adam = {{ learning_rate = 0.002 }} }}\nlayers = [\n  \
         {{ dense = {{ units = 64, activation = \"relu\" }} }},\n  {{ dense = {{ units = 32, activation = \"relu\" }} }},\n  \
         {{ output = {{ units = \"auto\" }} }},  # {}\n]\n\n[train]\nepochs = {epochs}\n{stopping}",
        in_comment(&target.name),
        toml::Value::String(source),
        if is_classes { "softmax over the classes" } else { "a number, without an activation" },
    ))
}
