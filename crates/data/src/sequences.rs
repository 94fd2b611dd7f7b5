//! Tables whose rows are the steps of sequences: rows with the same value in the column `id` are one sequence, in the order of the file or of
//! the column `order`. Sequences may differ in length: shorter ones are padded with NaN.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use paceline_model::{Batch, Targets};

use crate::source::Notes;
use crate::spec::{count, expect_name};
use crate::table::{
    Cell, Decoder, Dropped, Fitted, Foreign, Format, Rows, Spread, days, fit, remark_on_classes, remark_on_held_out,
};
use crate::{
    Advice, Arrays, Error, ExampleShape, LabelType, LeftOut, NormaliserKind, OpenOptions, Schema, SchemaTarget,
    SequenceColumns, Source, TableOptions, TargetShape, classes,
};

/// The options of the specification.
#[derive(Clone)]
struct Options {
    id: String,
    /// The column that steps are sorted by.
    order: Option<String>,
    label: Vec<String>,
    group: Option<String>,
    classes: Option<Vec<String>>,
    steps: Option<usize>,
    /// True if every step has a label; otherwise a sequence has the label of its last step.
    each_step: bool,
    /// True if labels are numbers to predict; otherwise they are classes.
    is_regression: bool,
    /// True if the specification says which of both they are.
    states_task: bool,
    /// The reading of feature columns, as of a table.
    table: TableOptions,
}

const KEYS: [&str; 16] = [
    "id",
    "order",
    "label",
    "classes",
    "columns",
    "drop",
    "categories",
    "steps",
    "each",
    "task",
    "group",
    "missing",
    "unknown",
    "header",
    "delimiter",
    "examples",
];
/// Those that mean the same as of a table.
const OF_TABLES: [&str; 7] = ["columns", "drop", "categories", "missing", "unknown", "header", "delimiter"];

impl Options {
    fn read(options: &[(&str, String)], known: Option<&SequenceColumns>) -> Result<Self, Error> {
        let list = |value: &str| value.split(',').map(|name| name.trim().to_owned()).collect::<Vec<_>>();
        let of_table: Vec<(&str, String)> =
            options.iter().filter(|(key, _)| OF_TABLES.contains(key)).cloned().collect();
        let mut read = Self {
            id: String::new(),
            order: None,
            label: Vec::new(),
            group: None,
            classes: None,
            steps: None,
            each_step: false,
            is_regression: false,
            states_task: false,
            table: TableOptions::parse(&of_table, Format::Csv)?,
        };
        for (key, value) in options {
            match *key {
                "id" => read.id.clone_from(value),
                "order" => read.order = Some(value.clone()),
                "label" => read.label = list(value),
                "classes" => read.classes = Some(list(value)),
                "group" => read.group = Some(value.clone()),
                "steps" => read.steps = Some(count("steps", value)?),
                "each" => {
                    expect_name("`each` of `sequences:`", value, &["step", "sequence"])?;
                    read.each_step = value == "step";
                }
                "task" => {
                    expect_name("`task` of `sequences:`", value, &["classes", "regression"])?;
                    (read.is_regression, read.states_task) = (value == "regression", true);
                }
                of_table if OF_TABLES.contains(&of_table) => {}
                other => expect_name("option of `sequences:`", other, &KEYS)?,
            }
        }
        if let Some(known) = known {
            // A model knows how the rows that it was trained on became sequences.
            if read.id.is_empty() {
                read.id.clone_from(&known.id);
            }
            if read.label.is_empty() {
                read.label.clone_from(&known.label);
            }
            read.expect_agreement(known, options.iter().any(|(key, _)| *key == "each"))?;
            read.order = read.order.or_else(|| known.order.clone());
            (read.each_step, read.is_regression) = (known.each_step, known.is_regression);
            (read.steps, read.states_task) = (Some(known.steps), true);
        }
        if read.id.is_empty() {
            let message = "is missing: name the column whose value the steps of a sequence share, as in `?id=patient`";
            return Err(Error::Unsuitable { setting: "id", message: message.into() });
        }
        Ok(read)
    }

    /// Fails if an option says something else than the trained model; `states_each`: `each` is stated.
    fn expect_agreement(&self, known: &SequenceColumns, states_each: bool) -> Result<(), Error> {
        let unsuitable = |setting, message| Err(Error::Unsuitable { setting, message });
        let each = |is_step| if is_step { "step" } else { "sequence" };
        let task = |is_regression| if is_regression { "regression" } else { "classes" };
        match self.steps {
            Some(steps) if steps != known.steps => {
                let message = format!("is {steps}, and the model was trained on {} steps: leave it out", known.steps);
                unsuitable("steps", message)
            }
            _ if self.order.is_some() && known.order.is_some() && self.order != known.order => {
                let [asked, trained] = [&self.order, &known.order].map(|name| name.clone().unwrap_or_default());
                unsuitable(
                    "order",
                    format!("is `{asked}`, and the model was trained in the order of `{trained}`: leave it out"),
                )
            }
            _ if states_each && self.each_step != known.each_step => {
                let (asked, trained) = (each(self.each_step), each(known.each_step));
                unsuitable("each", format!("is `{asked}`, and the model was trained with `{trained}`: leave it out"))
            }
            _ if self.states_task && self.is_regression != known.is_regression => {
                let (asked, trained) = (task(self.is_regression), task(known.is_regression));
                unsuitable("task", format!("is `{asked}`, and the model was trained with `{trained}`: leave it out"))
            }
            _ => Ok(()),
        }
    }
}

/// One sequence: its steps, and their labels as text.
#[derive(Default)]
struct Sequence {
    /// The steps, in the order of the file.
    features: Vec<f32>,
    labels: Vec<Vec<String>>,
    /// The cells that steps are sorted by.
    order: Vec<String>,
    /// The line of each step.
    offsets: Vec<u64>,
    group: u32,
}

/// The kind of the cells that steps are sorted by, the same for the whole table.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OrderKind {
    Integer,
    Number,
    /// Texts, such as dates of ISO 8601.
    Text,
}

impl OrderKind {
    /// The narrowest kind that all cells have; none for a cell without a value.
    fn of(text: &str) -> Option<Self> {
        match Cell::of(text) {
            Cell::Missing => None,
            Cell::Number(_) if text.parse::<i64>().is_ok() => Some(Self::Integer),
            Cell::Number(_) => Some(Self::Number),
            Cell::Text(_) => Some(Self::Text),
        }
    }
}

impl Sequence {
    /// Sorts steps by their order cells.
    fn sort(&mut self, kind: OrderKind, width: usize) {
        let mut places: Vec<usize> = (0..self.order.len()).collect();
        let integer = |at: usize| self.order[at].parse::<i64>().unwrap_or_default();
        let number = |at: usize| self.order[at].parse::<f64>().unwrap_or_default();
        match kind {
            OrderKind::Integer => places.sort_by_key(|at| integer(*at)),
            OrderKind::Number => places.sort_by(|a, b| number(*a).total_cmp(&number(*b))),
            OrderKind::Text => places.sort_by(|a, b| self.order[*a].cmp(&self.order[*b])),
        }
        let step = |at: &usize| self.features[at * width..(at + 1) * width].to_vec();
        self.features = places.iter().flat_map(step).collect();
        self.labels = places.iter().map(|at| self.labels[*at].clone()).collect();
        self.offsets = places.iter().map(|at| self.offsets[*at]).collect();
    }
}

/// The sequences of a table.
struct Sequences {
    content: Arrays,
    /// The column of ids, and the id of every sequence.
    ids: (String, Vec<String>),
    groups: Option<Vec<u32>>,
    /// The sequence of every row.
    sequence_of: Vec<u32>,
    /// None where the schema is that of a trained model.
    origin: Option<Origin>,
}

/// A table before its schema is fitted.
struct Origin {
    rows: Rows,
    options: Options,
    trained: Option<Schema>,
    wants_targets: bool,
}

/// Opens a table.
pub(crate) fn open(
    path: &Path,
    options: &[(&str, String)],
    open_options: &OpenOptions,
) -> Result<Arc<dyn Source>, Error> {
    let known = open_options.schema.as_ref().and_then(|schema| schema.sequence.as_ref());
    let options = Options::read(options, known)?;
    let rows = Rows::open(path, &options.table)?;
    let origin = Origin { rows, options, trained: open_options.schema.clone(), wants_targets: open_options.targets };
    Ok(Arc::new(origin.read(None)?))
}

impl Origin {
    /// Reads all sequences. The schema is that of the trained model; without one it is fitted to all sequences, or to those that are learned
    /// from: a flag for every sequence, and the sequence of every row.
    fn read(&self, learned: Option<(&[bool], &[u32])>) -> Result<Sequences, Error> {
        let Self { options, trained, wants_targets, .. } = self;
        let mut rows = self.rows.again()?;
        let id = rows.column(&options.id)?;
        let optional = |name: &Option<String>| name.as_deref().map(|name| rows.column(name)).transpose();
        let (order, group) = (optional(&options.order)?, optional(&options.group)?);
        // Labels are no features, whether they are wanted or not.
        let labels: Vec<usize> = match wants_targets {
            true => options.label.iter().map(|name| rows.column(name)).collect::<Result<_, _>>()?,
            false => options.label.iter().filter_map(|name| rows.column(name).ok()).collect(),
        };
        let known = trained.as_ref().filter(|schema| !schema.columns.is_empty());
        let (mut schema, mut notes) = match known {
            Some(schema) => {
                options.table.expect_agreement(schema, &rows)?;
                let mut schema = Schema { target: SchemaTarget::None, ..schema.clone() };
                schema.missing = options.table.missing.unwrap_or(schema.missing);
                schema.unknown = options.table.unknown.unwrap_or(schema.unknown);
                (schema, Notes::default())
            }
            None => {
                let mut table = options.table.clone();
                let beside = [Some(id), group].into_iter().flatten().chain(labels.iter().copied());
                table.drop.extend(beside.map(|field| rows.names[field].clone()));
                // A column that only sorts is a feature where the options list it.
                table.drop.extend(options.order.iter().filter(|_| table.columns.is_none()).cloned());
                let flags: Option<Vec<bool>> =
                    learned.map(|(learned, sequence_of)| sequence_of.iter().map(|at| learned[*at as usize]).collect());
                let Fitted { schema, notes, .. } = fit(&mut rows, &table, false, 1 << 20, flags.as_deref())?;
                (schema, notes)
            }
        };
        let mut decoder = Decoder::new(&schema, &rows, &[], false)?;
        if learned.is_some() {
            decoder = decoder.with_held_out_rows();
        }
        let features = schema.width();
        let mut places: HashMap<String, usize> = HashMap::new();
        let mut groups: HashMap<String, u32> = HashMap::new();
        let mut ids: Vec<String> = Vec::new();
        let (mut sequences, mut sequence_of): (Vec<Sequence>, Vec<u32>) = (Vec::new(), Vec::new());
        let (mut decoded, mut unknown) = (decoder.room(1), 0);
        let (mut foreign, mut dropped) = (known.map(|_| Foreign::new(&decoder)), Dropped::default());
        rows.restart()?;
        while decoder.read_row_telling(&mut rows, &mut decoded, |field| dropped.add(sequence_of.len(), field))? {
            let row = rows.record();
            let nameless =
                [Some(id), group].into_iter().flatten().find(|field| Cell::of(&row[*field]) == Cell::Missing);
            if let Some(field) = nameless {
                return Err(rows.without_group(field));
            }
            foreign.iter_mut().for_each(|foreign| foreign.add(row, decoded.unknown));
            let next = places.len();
            let at = *places.entry(row[id].to_owned()).or_insert(next);
            if at == sequences.len() {
                ids.push(row[id].to_owned());
                let next = groups.len() as u32;
                let group = group.map_or(0, |group| *groups.entry(row[group].to_owned()).or_insert(next));
                sequences.push(Sequence { group, ..Sequence::default() });
            }
            sequence_of.push(at as u32);
            let sequence = &mut sequences[at];
            sequence.features.append(&mut decoded.features);
            sequence.labels.push(labels.iter().map(|label| row[*label].to_owned()).collect());
            sequence.order.extend(order.map(|order| row[order].to_owned()));
            sequence.offsets.push(rows.position().byte());
            unknown += decoded.unknown;
            decoded.clear();
        }
        notes.remarks.extend(learned.and(remark_on_held_out(unknown, &rows)));
        if let Some(foreign) = foreign {
            notes.remarks.extend(dropped.notes(&rows, sequence_of.len()).remarks);
            notes.remarks.extend(foreign.remarks(&rows));
        }
        if sequences.is_empty() {
            return Err(Error::OnlyHeader { path: rows.path.clone() });
        }
        if let Some(name) = &options.order {
            let kind = order_kind(&rows, name, &sequences)?;
            notes.remarks.extend(remark_on_order(kind, &rows, name, &sequences));
            sequences.iter_mut().for_each(|sequence| sequence.sort(kind, features));
        }
        let longest = sequences.iter().map(|sequence| sequence.features.len() / features).max().unwrap_or(0);
        let steps = options.steps.unwrap_or(longest);
        if longest > steps {
            let expected = format!("at least {longest}, the steps of its longest sequence");
            return Err(Error::BadSetting { setting: "steps", expected, found: steps.to_string() });
        }
        if known.is_none() {
            schema.sequence = Some(SequenceColumns {
                id: options.id.clone(),
                order: options.order.clone(),
                label: options.label.clone(),
                steps,
                each_step: options.each_step,
                is_regression: options.is_regression,
            });
        }
        let is_learned = |at: usize| learned.is_none_or(|(learned, _)| learned[at]);
        let (targets, shape, target) = match wants_targets {
            true => self.labelled(&rows, &sequences, steps, is_learned, &mut notes)?,
            false => (Targets::None, TargetShape::None, SchemaTarget::None),
        };
        if let SchemaTarget::Classes { names, .. } = &target
            && known.is_none()
        {
            schema.labels = LabelType::of_names(names);
        }
        schema.target = if *wants_targets || known.is_none() {
            target
        } else {
            known.map_or(SchemaTarget::None, |schema| schema.target.clone())
        };
        let mut padded: Vec<f32> = Vec::new();
        let numbers = sequences.len().saturating_mul(steps).saturating_mul(features);
        if padded.try_reserve_exact(numbers).is_err() {
            let message =
                format!("of {steps} are too many: {} sequences of that length do not fit the memory", sequences.len());
            return Err(Error::Unsuitable { setting: "steps", message });
        }
        for sequence in &sequences {
            padded.extend_from_slice(&sequence.features);
            padded.resize(padded.len().next_multiple_of(steps * features), f32::NAN);
        }
        // Rows that are left out are steps, not examples.
        notes.left_out = Vec::new();
        let shape = ExampleShape { features: vec![steps, features], targets: shape };
        let content = Arrays::new(padded, shape, targets)?.described(Some(schema), NormaliserKind::Standardise);
        let origin = match known {
            Some(_) => None,
            None => Some(Self {
                rows: self.rows.again()?,
                options: options.clone(),
                trained: trained.clone(),
                wants_targets: *wants_targets,
            }),
        };
        let groups = group.map(|_| sequences.iter().map(|sequence| sequence.group).collect());
        let ids = (rows.names[id].clone(), ids);
        Ok(Sequences { content: content.noted(notes), ids, groups, sequence_of, origin })
    }

    /// The targets of sequences.
    fn labelled(
        &self,
        rows: &Rows,
        sequences: &[Sequence],
        steps: usize,
        is_learned: impl Fn(usize) -> bool,
        notes: &mut Notes,
    ) -> Result<(Targets, TargetShape, SchemaTarget), Error> {
        let options = &self.options;
        let width = options.label.len();
        if width == 0 {
            return Ok((Targets::None, TargetShape::None, SchemaTarget::None));
        }
        // The labels of each sequence that count: those of all its steps, or of the last.
        let counted = |sequence: &Sequence| -> Vec<(Vec<String>, u64)> {
            let mut all = sequence.labels.iter().cloned().zip(sequence.offsets.iter().copied());
            if options.each_step { all.collect() } else { all.next_back().into_iter().collect() }
        };
        let wrong = |offset: u64, column: usize, expected: &'static str, found: &str| {
            let (path, line) = (rows.path.clone(), rows.line_at(offset));
            Error::BadCell { path, line, column: options.label[column].clone(), expected, found: found.to_owned() }
        };
        let each = if options.each_step { steps } else { 1 };
        if options.is_regression {
            let mut numbers: Vec<Vec<f64>> = Vec::with_capacity(sequences.len());
            let mut spreads: Vec<Spread> = (0..width).map(|_| Spread::default()).collect();
            for (at, sequence) in sequences.iter().enumerate() {
                let mut own = Vec::new();
                for (labels, offset) in counted(sequence) {
                    for (column, label) in labels.iter().enumerate() {
                        let Cell::Number(number) = Cell::of(label) else {
                            return Err(wrong(offset, column, "finite number", label));
                        };
                        own.push(number);
                        if is_learned(at) {
                            spreads[column].add(number);
                        }
                    }
                }
                numbers.push(own);
            }
            let trained = self.trained.as_ref().map(Schema::target_shifts).filter(|shifts| !shifts.is_empty());
            let shifts: Vec<f64> = match trained {
                Some(shifts) => (0..width).map(|column| shifts.get(column).copied().unwrap_or_default()).collect(),
                None => spreads.iter().map(Spread::shift).collect(),
            };
            for ((spread, shift), label) in spreads.iter().zip(&shifts).zip(&options.label) {
                notes.remarks.extend(spread.remark_on_target(*shift, &rows.path, label));
            }
            let mut values = Vec::new();
            for own in numbers {
                values.extend(own.iter().zip(shifts.iter().cycle()).map(|(number, shift)| (number - shift) as f32));
                values.resize(values.len().next_multiple_of(each * width), f32::NAN);
            }
            let of_step = |step: usize| options.label.iter().map(move |name| format!("{name}.{step}"));
            let names: Vec<String> =
                if options.each_step { (1..=each).flat_map(of_step).collect() } else { options.label.clone() };
            let is_shifted = shifts.iter().any(|shift| *shift != 0.0);
            let of_steps = shifts.iter().copied().cycle().take(if is_shifted { each * width } else { 0 });
            let target = SchemaTarget::Values { columns: names.clone(), shifts: of_steps.collect() };
            return Ok((Targets::Values { width: each * width, values }, TargetShape::Values { names }, target));
        }
        let [column] = &options.label[..] else {
            let expected = "one column of classes, or several of numbers with `task=regression`".into();
            return Err(Error::BadSetting { setting: "label", expected, found: options.label.join(",") });
        };
        let labels_of = |sequence: &Sequence| counted(sequence).into_iter().map(|(labels, _)| labels[0].clone());
        for sequence in sequences {
            let empty = counted(sequence).into_iter().find(|(labels, _)| Cell::of(&labels[0]) == Cell::Missing);
            if let Some((labels, offset)) = empty {
                return Err(wrong(offset, 0, "class", &labels[0]));
            }
        }
        let learned_all = (0..sequences.len()).all(&is_learned);
        let learned = sequences.iter().enumerate().filter(|(at, _)| is_learned(*at)).map(|(_, sequence)| sequence);
        let trained = self.trained.as_ref().and_then(Schema::class_names).map(<[String]>::to_vec);
        let stated = trained.or_else(|| options.classes.clone());
        let is_stated = options.states_task || stated.is_some();
        let names = stated.unwrap_or_else(|| classes::names_of(learned.flat_map(labels_of)));
        notes.remarks.extend(if is_stated { None } else { remark_on_classes(&names, column) });
        let places: HashMap<&str, u32> = names.iter().zip(0..).map(|(name, at)| (name.as_str(), at)).collect();
        let mut found = Vec::new();
        for sequence in sequences {
            for (labels, offset) in counted(sequence) {
                let Some(class) = places.get(labels[0].as_str()) else {
                    return Err(Error::UnknownCategory {
                        path: rows.path.clone(),
                        line: rows.line_at(offset),
                        column: column.clone(),
                        found: labels[0].clone(),
                        known: names.len() as u32,
                        suggestion: crate::Suggestion::nearest(&labels[0], names.iter().map(String::as_str)),
                        advice: if learned_all { Advice::Classes } else { Advice::HeldOut },
                    });
                };
                found.push(*class);
            }
            if options.each_step {
                found.resize(found.len().next_multiple_of(steps), u32::MAX);
            }
        }
        let target = SchemaTarget::Classes { column: column.clone(), names: names.clone() };
        if !options.each_step {
            return Ok((Targets::Classes(found), TargetShape::Classes { names }, target));
        }
        let value = |class: u32| if class == u32::MAX { f32::NAN } else { class as f32 };
        let values = found.into_iter().map(value).collect();
        let shape = TargetShape::Values { names: (1..=steps).map(|step| format!("{column}.{step}")).collect() };
        Ok((Targets::Values { width: steps, values }, shape, target))
    }
}

/// The kind of the column `order`. Fails on a cell without a value, and where numbers and texts stand side by side.
fn order_kind(rows: &Rows, name: &str, sequences: &[Sequence]) -> Result<OrderKind, Error> {
    let mut found: Option<OrderKind> = None;
    for (text, offset) in sequences.iter().flat_map(|sequence| sequence.order.iter().zip(&sequence.offsets)) {
        let wrong = |expected| Error::BadCell {
            path: rows.path.clone(),
            line: rows.line_at(*offset),
            column: name.to_owned(),
            expected,
            found: text.clone(),
        };
        let kind = OrderKind::of(text).ok_or_else(|| wrong("value to sort steps by"))?;
        found = Some(match (found, kind) {
            (None, kind) => kind,
            (Some(known), kind) if known == kind => kind,
            (Some(OrderKind::Integer | OrderKind::Number), OrderKind::Integer | OrderKind::Number) => OrderKind::Number,
            (Some(OrderKind::Text), _) => return Err(wrong("text to sort steps by, as before")),
            (Some(_), _) => return Err(wrong("number to sort steps by, as before")),
        });
    }
    Ok(found.unwrap_or(OrderKind::Text))
}

/// Says so where steps are sorted by texts that are no dates: letter by letter, `step10` comes before `step2`, and `10:30` before `9:30`.
fn remark_on_order(kind: OrderKind, rows: &Rows, name: &str, sequences: &[Sequence]) -> Option<String> {
    let mut texts = sequences.iter().flat_map(|sequence| &sequence.order);
    let text = texts.find(|text| days(text).is_none())?;
    (kind == OrderKind::Text).then(|| {
        format!(
            "`order={name}` sorts the steps of `{}` by texts such as `{text}`, letter by letter, so that `10` comes before `9`: sort by a \
             column of numbers or of dates such as 2024-01-31 instead",
            rows.path.display()
        )
    })
}

impl Source for Sequences {
    fn examples(&self) -> usize {
        self.content.examples()
    }

    fn shape(&self) -> &ExampleShape {
        self.content.shape()
    }

    fn read(&self, indices: &[u64], batch: &mut Batch) -> Result<(), Error> {
        self.content.read(indices, batch)
    }

    fn schema(&self) -> Option<&Schema> {
        self.content.schema()
    }

    fn default_normaliser(&self) -> NormaliserKind {
        self.content.default_normaliser()
    }

    fn remarks(&self) -> &[String] {
        self.content.remarks()
    }

    fn left_out(&self) -> &[LeftOut] {
        self.content.left_out()
    }

    fn example_names(&self) -> Option<(&str, &[String])> {
        Some((&self.ids.0, &self.ids.1))
    }

    fn groups(&self) -> Option<Vec<u32>> {
        self.groups.clone()
    }

    fn fitted_to(&self, learned: &[u64]) -> Result<Option<Arc<dyn Source>>, Error> {
        let Some(origin) = &self.origin else { return Ok(None) };
        let mut is_learned = vec![false; self.examples()];
        learned.iter().for_each(|index| is_learned[*index as usize] = true);
        Ok(Some(Arc::new(origin.read(Some((&is_learned, &self.sequence_of)))?)))
    }
}
