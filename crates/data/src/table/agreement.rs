//! Options of a specification, held against the model that reads its file: the model decides, and nothing that contradicts it is passed
//! over in silence.

use super::rows::Rows;
use super::{ColumnKind, Schema, SchemaTarget, TableOptions, Task};
use crate::Error;
use crate::suggestion::listed;

impl TableOptions {
    /// Fails if an option says something else than the schema of the trained model.
    pub(crate) fn expect_agreement(&self, schema: &Schema, rows: &Rows) -> Result<(), Error> {
        let unsuitable = |setting, message| Err(Error::Unsuitable { setting, message });
        let known: Vec<&str> = schema.columns.iter().map(|column| column.name.as_str()).collect();
        // Columns that the file lacks are reported where they are read.
        let fields: Vec<Option<usize>> = known.iter().map(|name| rows.column(name).ok()).collect();
        if let Some(names) = &self.columns {
            let mut asked: Vec<Option<usize>> = names.iter().map(|name| rows.column(name).ok()).collect();
            let mut trained = fields.clone();
            asked.sort_unstable();
            trained.sort_unstable();
            if asked != trained {
                let message = format!(
                    "names {}, and the model was trained on {}: leave it out, the model knows its columns",
                    listed(names.iter().map(String::as_str)),
                    listed(known.iter().copied())
                );
                return unsuitable("columns", message);
            }
        }
        let kind_of = |name: &str| {
            let field = rows.column(name).ok()?;
            let at = fields.iter().position(|known| *known == Some(field))?;
            Some(&schema.columns[at].kind)
        };
        for name in &self.drop {
            if kind_of(name).is_some() {
                let message = format!("names `{name}`, which the model was trained on: leave it out");
                return unsuitable("drop", message);
            }
        }
        for name in &self.categories {
            if kind_of(name).is_some_and(|kind| !matches!(kind, ColumnKind::Category { .. })) {
                let message = format!("names `{name}`, which the model reads as numbers: leave it out");
                return unsuitable("categories", message);
            }
        }
        match (self.task, &schema.target) {
            (Some(Task::Classes), SchemaTarget::Values { .. }) => {
                unsuitable("task", "is `classes`, and the model predicts numbers: leave it out".into())
            }
            (Some(Task::Regression), SchemaTarget::Classes { .. }) => {
                unsuitable("task", "is `regression`, and the model predicts classes: leave it out".into())
            }
            _ => self.expect_classes(schema),
        }
    }

    fn expect_classes(&self, schema: &Schema) -> Result<(), Error> {
        match (&self.classes, schema.class_names()) {
            (Some(asked), Some(known)) if asked != known => {
                let message = format!(
                    "names {}, and the model was trained on {}: leave it out, the model knows its classes",
                    listed(asked.iter().map(String::as_str)),
                    listed(known.iter().map(String::as_str))
                );
                Err(Error::Unsuitable { setting: "classes", message })
            }
            _ => Ok(()),
        }
    }
}
