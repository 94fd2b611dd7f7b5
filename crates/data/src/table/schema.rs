use serde::{Deserialize, Serialize};

use super::{Missing, Unknown};
use crate::TargetShape;

/// What a table's columns mean, fitted on the training file and kept with the model, so that other files are read in
/// the same way.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Schema {
    /// The columns that become features, in this order; none for a source that is not a table.
    pub columns: Vec<Column>,
    /// What is to be predicted.
    pub target: SchemaTarget,
    /// The column that holds the weight of each example.
    pub weight: Option<String>,
    /// What is done about missing values.
    pub missing: Missing,
    /// What is done about categories that the training file does not have.
    #[serde(default, skip_serializing_if = "Unknown::is_error")]
    pub unknown: Unknown,
    /// The type that class labels had in the program that trained; class names are text in every file.
    #[serde(default, skip_serializing_if = "LabelType::is_text")]
    pub labels: LabelType,
    /// For several target columns, as networks with several ends have: the classes of each column of texts, whose values are their
    /// places here; none for a column of numbers. Empty where no column has texts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub target_classes: Vec<Vec<String>>,
    /// The columns that make sequences of rows, for `sequences:`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequence: Option<SequenceColumns>,
    /// The characters of an example, for `text:`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text_steps: Option<usize>,
    /// The form that images were brought to, for `images:`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<ImageForm>,
}

/// The form that every image was brought to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImageForm {
    /// The width and the height that images were scaled to; none: they had one size.
    pub size: Option<(u32, u32)>,
    /// 1 for grey, 3 for red, green and blue.
    pub channels: usize,
    /// True if images of other proportions were distorted; else their middle was taken.
    pub is_stretched: bool,
}

/// How rows became sequences.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SequenceColumns {
    /// The column whose value the steps of a sequence share.
    pub id: String,
    /// The column that steps are sorted by; none: they come in the order of the file.
    pub order: Option<String>,
    /// The label columns.
    pub label: Vec<String>,
    /// The steps of an example.
    pub steps: usize,
    /// True if every step has a label.
    pub each_step: bool,
    /// True if labels are numbers to predict.
    pub is_regression: bool,
}

/// The type of class labels, so that a program gets back the values that it trained with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LabelType {
    /// Text, as in a file.
    #[default]
    Text,
    /// Whole numbers.
    Integer,
    /// Numbers with fractions.
    Float,
    /// `True` and `False`.
    Boolean,
}

impl LabelType {
    /// The type of the labels of a file: whole numbers if all are written so, else text.
    pub(crate) fn of_names(names: &[String]) -> Self {
        let is_whole = |name: &String| name.parse::<i64>().is_ok_and(|number| number.to_string() == *name);
        if !names.is_empty() && names.iter().all(is_whole) { Self::Integer } else { Self::Text }
    }

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands out references")]
    fn is_text(&self) -> bool {
        *self == Self::Text
    }
}

/// One column of a table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Column {
    /// Its name in the header, or its place from 0 in a file without one.
    pub name: String,
    /// How it becomes features.
    pub kind: ColumnKind,
}

/// How a column becomes features.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ColumnKind {
    /// One feature.
    Number {
        /// The mean over the training file, which `missing=mean` puts in empty cells.
        mean: f64,
        /// What is subtracted before the number is rounded to 32 bits: not 0 where rounding first would blur the column, as
        /// with seconds since 1970.
        #[serde(default, skip_serializing_if = "is_zero")]
        shift: f64,
        /// True if cells are dates of ISO 8601, read as days since 1970-01-01.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_date: bool,
    },
    /// One feature for each name: 1 for the name in the cell, 0 for the others; all 0 for a missing value.
    Category {
        /// The names, sorted.
        names: Vec<String>,
    },
    /// One feature for each character of a text: its number.
    Characters {
        /// The characters, in the order of their numbers.
        names: Vec<String>,
        /// Characters that count.
        steps: usize,
    },
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands out references")]
fn is_zero(number: &f64) -> bool {
    *number == 0.0
}

/// Which columns are to be predicted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum SchemaTarget {
    /// None.
    #[default]
    None,
    /// One column of classes.
    Classes {
        /// The label column; empty for a source that is not a table.
        column: String,
        /// The class names, in the order of their indices.
        names: Vec<String>,
    },
    /// Columns of numbers.
    Values {
        /// The target columns.
        columns: Vec<String>,
        /// The number subtracted from each column before it is rounded to 32 bits; empty: 0 for all. See [`ColumnKind::Number`].
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        shifts: Vec<f64>,
    },
}

impl SchemaTarget {
    /// Columns of numbers that are rounded as they are.
    pub fn values(columns: Vec<String>) -> Self {
        Self::Values { columns, shifts: Vec::new() }
    }
}

impl Schema {
    /// The schema of a source that has classes but no columns, such as images.
    pub fn of_classes(names: Vec<String>) -> Self {
        Self { target: SchemaTarget::Classes { column: String::new(), names }, ..Self::default() }
    }

    /// The schema of a source that has no columns with names; none if there is nothing to predict.
    pub(crate) fn of_targets(targets: &TargetShape) -> Option<Self> {
        match targets {
            TargetShape::None => None,
            TargetShape::Classes { names } => Some(Self::of_classes(names.clone())),
            TargetShape::Values { names } => {
                Some(Self { target: SchemaTarget::values(names.clone()), ..Self::default() })
            }
        }
    }

    /// The class names, if classes are to be predicted.
    pub fn class_names(&self) -> Option<&[String]> {
        match &self.target {
            SchemaTarget::Classes { names, .. } => Some(names),
            _ => None,
        }
    }

    /// A name for every feature: `column`, or `column=name` for one of a category.
    pub fn feature_names(&self) -> Vec<String> {
        let mut features = Vec::new();
        for Column { name, kind } in &self.columns {
            match kind {
                ColumnKind::Number { .. } => features.push(name.clone()),
                ColumnKind::Category { names } => features.extend(names.iter().map(|of| format!("{name}={of}"))),
                ColumnKind::Characters { steps, .. } => features.extend((1..=*steps).map(|at| format!("{name}.{at}"))),
            }
        }
        features
    }

    /// What was subtracted from every feature.
    pub fn shifts(&self) -> Vec<f64> {
        let mut shifts = Vec::new();
        for column in &self.columns {
            match &column.kind {
                ColumnKind::Number { shift, .. } => shifts.push(*shift),
                ColumnKind::Category { names } => shifts.extend(names.iter().map(|_| 0.0)),
                ColumnKind::Characters { steps, .. } => shifts.extend((0..*steps).map(|_| 0.0)),
            }
        }
        shifts
    }

    /// The number subtracted from each target column; empty where nothing was subtracted.
    pub fn target_shifts(&self) -> &[f64] {
        match &self.target {
            SchemaTarget::Values { shifts, .. } => shifts,
            _ => &[],
        }
    }

    /// Features per example.
    pub fn width(&self) -> usize {
        let width = |column: &Column| match &column.kind {
            ColumnKind::Number { .. } => 1,
            ColumnKind::Category { names } => names.len(),
            ColumnKind::Characters { steps, .. } => *steps,
        };
        self.columns.iter().map(width).sum()
    }
}
