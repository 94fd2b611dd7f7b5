use anyhow::{Context, Result};
use paceline::data::{OpenOptions, open};
use paceline::nn::evaluation::Thresholds;
use paceline::train::{Measures, SavedModel};
use serde_json::json;

use super::{inference, open_options, say};
use crate::arguments;
use crate::failure::{DONE, Exit};

pub(crate) fn run(arguments: &arguments::Evaluate) -> Result<Exit> {
    let model = SavedModel::load(&arguments.model)?;
    let options = open_options(&arguments.cache, false);
    let source = open(&arguments.data, &OpenOptions { schema: model.schema.clone(), ..options })?;
    let inference = inference(model.file, &arguments.workers)?;
    let thresholds = Thresholds::of(arguments.auc_thresholds.map(|n| n as usize));
    let scores = inference.evaluate_at(source, arguments.batch as usize, thresholds)?.with_context(|| {
        format!("`{}` has no targets to judge by: name its label column with `?label=`", arguments.data)
    })?;
    if arguments.json {
        let report = match &scores.measures {
            Measures::Classes(classes) => serde_json::to_value(classes.report())?,
            Measures::Values(values) => serde_json::to_value(values.report())?,
        };
        let roc = scores.roc.as_ref().map(|roc| roc.report());
        let mut told = json!({ "score": scores.score(), "auc": scores.auc(), "roc": roc, "report": report });
        if let Some(thresholds) = scores.auc_thresholds() {
            told["auc_thresholds"] = thresholds.into();
        }
        say(&told)?;
    } else {
        say(&scores)?;
    }
    Ok(DONE)
}
