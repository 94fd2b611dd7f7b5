use std::process::ExitCode;

use anyhow::{Context, Result};
use paceline::data::{OpenOptions, open};
use paceline::train::{Measures, SavedModel};

use super::{inference, open_options, say};
use crate::arguments;

pub(crate) fn run(arguments: &arguments::Evaluate) -> Result<ExitCode> {
    let model = SavedModel::load(&arguments.model)?;
    let options = open_options(&arguments.cache, false);
    let source = open(&arguments.data, &OpenOptions { schema: model.schema.clone(), ..options })?;
    let inference = inference(model.file, &arguments.workers)?;
    let scores = inference.evaluate(source, arguments.batch as usize)?.with_context(|| {
        format!("`{}` has no targets to judge by: name its label column with `?label=`", arguments.data)
    })?;
    if arguments.json {
        let report = match &scores.measures {
            Measures::Classes(classes) => serde_json::to_value(classes.report())?,
            Measures::Values(values) => serde_json::to_value(values.report())?,
        };
        say(
            &serde_json::json!({ "score": scores.score(), "auc": scores.auc(), "roc": scores.roc.as_ref().map(|roc| roc.report()), "report": report }),
        )?;
    } else {
        say(&scores)?;
    }
    Ok(ExitCode::SUCCESS)
}
