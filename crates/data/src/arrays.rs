use paceline_model::{Batch, Targets};

use crate::source::{Notes, begin, check_indices, copy_targets};
use crate::{Error, ExampleShape, LeftOut, NormaliserKind, Schema, SchemaTarget, Source, TargetShape};

/// Examples held as floats in memory.
#[derive(Clone, Debug)]
pub struct Arrays {
    shape: ExampleShape,
    examples: usize,
    features: Vec<f32>,
    targets: Targets,
    weights: Option<Vec<f32>>,
    schema: Option<Schema>,
    normaliser: NormaliserKind,
    notes: Notes,
}

impl Arrays {
    /// Takes rows of features and their targets; every size, class and number is checked once, here.
    pub fn new(features: Vec<f32>, shape: ExampleShape, targets: Targets) -> Result<Self, Error> {
        let width = shape.width();
        if width == 0 || !features.len().is_multiple_of(width) {
            return Err(Error::ShapeMismatch {
                what: "the number of features",
                expected: format!("a multiple of {width} (the product of {:?})", shape.features),
                found: features.len().to_string(),
            });
        }
        let examples = features.len() / width;
        // Steps of sequences that are not there are no numbers.
        let is_sequence = shape.features.len() == 2;
        check_numbers(&features, width, "the features", is_sequence)?;
        check_targets(&targets, &shape.targets, examples, is_sequence)?;
        let (normaliser, notes) = (NormaliserKind::None, Notes::default());
        let schema = Schema::of_targets(&shape.targets);
        Ok(Self { shape, examples, features, targets, weights: None, schema, normaliser, notes })
    }

    /// Gives every example its own weight.
    pub fn with_weights(mut self, weights: Vec<f32>) -> Result<Self, Error> {
        expect("the number of weights", self.examples, weights.len())?;
        if let Some(bad) = weights.iter().find(|weight| !weight.is_finite() || **weight < 0.0) {
            let expected = "finite and not negative".to_owned();
            return Err(Error::BadSetting { setting: "weights", expected, found: bad.to_string() });
        }
        self.weights = Some(weights);
        Ok(self)
    }

    /// Says what usually suits these features; a run may still choose another.
    #[must_use]
    pub fn suits(mut self, normaliser: NormaliserKind) -> Self {
        self.normaliser = normaliser;
        self
    }

    /// Keeps the names and shifts of columns, and the type of class labels, that a program has read these arrays with. Features that are
    /// sequences have a column for each feature of a step; targets that are read are those of the schema.
    pub fn with_schema(mut self, schema: Schema) -> Result<Self, Error> {
        let per_step = match self.shape.features[..] {
            [_, features] => features,
            _ => self.shape.width(),
        };
        if !schema.columns.is_empty() {
            expect("the columns of the schema", per_step, schema.width())?;
        }
        let found = match &schema.target {
            SchemaTarget::None => TargetShape::None,
            SchemaTarget::Classes { names, .. } => TargetShape::Classes { names: names.clone() },
            SchemaTarget::Values { columns, .. } => TargetShape::Values { names: columns.clone() },
        };
        if self.shape.targets != TargetShape::None && self.shape.targets != found {
            let (expected, found) = (format!("{:?}", self.shape.targets), format!("{found:?}"));
            return Err(Error::ShapeMismatch { what: "the targets of the schema", expected, found });
        }
        if !schema.target_shifts().is_empty()
            && let TargetShape::Values { names } = &found
        {
            expect("the target shifts of the schema", names.len(), schema.target_shifts().len())?;
        }
        self.schema = Some(schema);
        Ok(self)
    }

    /// Keeps remarks on how these arrays were read, a sentence each.
    #[must_use]
    pub fn with_remarks(mut self, remarks: Vec<String>) -> Self {
        self.notes.remarks = remarks;
        self
    }

    /// Keeps the columns and class names that these arrays were read with, and the normaliser that suits them.
    pub(crate) fn described(mut self, schema: Option<Schema>, normaliser: NormaliserKind) -> Self {
        (self.schema, self.normaliser) = (schema, normaliser);
        self
    }

    /// Keeps what there is to say of how these arrays were read.
    pub(crate) fn noted(mut self, notes: Notes) -> Self {
        self.notes = notes;
        self
    }
}

impl Source for Arrays {
    fn examples(&self) -> usize {
        self.examples
    }

    fn shape(&self) -> &ExampleShape {
        &self.shape
    }

    fn read(&self, indices: &[u64], batch: &mut Batch) -> Result<(), Error> {
        check_indices(indices, self.examples)?;
        let width = self.shape.width();
        begin(batch, indices, width);
        for index in indices {
            let at = *index as usize * width;
            batch.features.extend_from_slice(&self.features[at..at + width]);
        }
        copy_targets(&self.targets, indices, batch);
        match &self.weights {
            None => batch.weights = None,
            Some(all) => {
                let weights = batch.weights.get_or_insert_default();
                weights.clear();
                weights.extend(indices.iter().map(|index| all[*index as usize]));
            }
        }
        Ok(())
    }

    fn schema(&self) -> Option<&Schema> {
        self.schema.as_ref()
    }

    fn default_normaliser(&self) -> NormaliserKind {
        self.normaliser
    }

    fn remarks(&self) -> &[String] {
        &self.notes.remarks
    }

    fn left_out(&self) -> &[LeftOut] {
        &self.notes.left_out
    }

    fn weighted(&self) -> bool {
        self.weights.is_some()
    }
}

fn expect(what: &'static str, expected: usize, found: usize) -> Result<(), Error> {
    if expected == found {
        return Ok(());
    }
    Err(Error::ShapeMismatch { what, expected: expected.to_string(), found: found.to_string() })
}

fn check_targets(targets: &Targets, shape: &TargetShape, examples: usize, has_gaps: bool) -> Result<(), Error> {
    match (targets, shape) {
        (Targets::None, TargetShape::None) => Ok(()),
        (Targets::Classes(classes), TargetShape::Classes { names }) => {
            expect("the number of class targets", examples, classes.len())?;
            match classes.iter().position(|class| *class as usize >= names.len()) {
                None => Ok(()),
                Some(at) => Err(Error::LabelOutOfRange {
                    origin: "the targets".to_owned(),
                    example: at as u64,
                    found: classes[at].into(),
                    last: names.len() as i64 - 1,
                }),
            }
        }
        (Targets::Values { width, values }, TargetShape::Values { names }) => {
            expect("the width of the target values", names.len(), *width)?;
            expect("the number of target values", examples * width, values.len())?;
            check_numbers(values, (*width).max(1), "the targets", has_gaps)
        }
        (targets, shape) => Err(Error::ShapeMismatch {
            what: "the kind of targets",
            expected: match shape {
                TargetShape::None => "none",
                TargetShape::Classes { .. } => "classes",
                TargetShape::Values { .. } => "values",
            }
            .to_owned(),
            found: match targets {
                Targets::None => "none",
                Targets::Classes(_) => "classes",
                Targets::Values { .. } => "values",
            }
            .to_owned(),
        }),
    }
}

/// Fails on the first number that is infinite, or is none and not a gap either.
pub(crate) fn check_numbers(values: &[f32], width: usize, origin: &str, has_gaps: bool) -> Result<(), Error> {
    match values.iter().position(|value| !(value.is_finite() || has_gaps && value.is_nan())) {
        None => Ok(()),
        Some(at) => Err(Error::NotFinite {
            origin: origin.to_owned(),
            example: (at / width) as u64,
            place: at % width,
            found: values[at].into(),
        }),
    }
}
