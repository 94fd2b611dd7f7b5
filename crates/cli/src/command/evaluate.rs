use anyhow::{Context, Result, bail};
use paceline::data::{OpenOptions, open};
use paceline::nn::evaluation::Thresholds;
use paceline::train::{Evaluator, Measures, ParallelInference, SavedModel, Scores};
use serde_json::json;

use super::helping::{Led, expect_no_helper, help, lead};
use super::{inference, open_options, say};
use crate::arguments;
use crate::failure::{DONE, Exit};

pub(crate) fn run(arguments: &arguments::Evaluate) -> Result<Exit> {
    let arguments::Evaluate { model, data, batch, workers, helping, cache, .. } = arguments;
    if let Some(join) = &helping.join {
        return help(join, helping, workers, cache);
    }
    expect_no_helper(helping)?;
    let (Some(model), Some(data)) = (model, data) else { bail!("expected a model and `--data`") };
    let model = SavedModel::load(model)?;
    let source = open(data, &OpenOptions { schema: model.schema.clone(), ..open_options(cache, false) })?;
    let thresholds = Thresholds::of(arguments.auc_thresholds.map(|n| n as usize));
    let batch = *batch as usize;
    let scores = match &helping.listen {
        None => inference(model.file, workers)?.evaluate_at(source, batch, thresholds)?,
        Some(listen) => {
            let (bytes, network) = (model.file.to_bytes(), model.file.network.clone());
            let inference = inference(model.file, workers)?;
            let evaluator = Evaluator::new(&source.shape().targets, &network, thresholds);
            evaluator
                .map(|evaluator| {
                    judge_with_help(
                        evaluator,
                        Led { listen, helping, command: "evaluate", model: bytes, data, source, batch, judged: true },
                        &inference,
                    )
                })
                .transpose()?
        }
    };
    let scores =
        scores.with_context(|| format!("`{data}` has no targets to judge by: name its label column with `?label=`"))?;
    if arguments.json {
        say(&in_json(&scores)?)?;
    } else {
        say(&scores)?;
    }
    Ok(DONE)
}

fn in_json(scores: &Scores) -> Result<serde_json::Value> {
    let report = |measures: &Measures| match measures {
        Measures::Classes(classes) => serde_json::to_value(classes.report()),
        Measures::Values(values) => serde_json::to_value(values.report()),
        Measures::Nothing => Ok(json!({})),
    };
    if !scores.outputs.is_empty() {
        let outputs = scores.outputs.iter().map(|output| Ok((output.name.clone(), report(&output.measures)?)));
        let outputs: serde_json::Map<_, _> = outputs.collect::<Result<_>>()?;
        return Ok(json!({ "score": scores.score(), "outputs": outputs }));
    }
    let roc = scores.roc.as_ref().map(|roc| roc.report());
    let report = report(&scores.measures)?;
    let mut told = json!({ "score": scores.score(), "auc": scores.auc(), "roc": roc, "report": report });
    if let Some(thresholds) = scores.auc_thresholds() {
        told["auc_thresholds"] = thresholds.into();
    }
    Ok(told)
}

fn judge_with_help(mut evaluator: Evaluator, led: Led<'_>, inference: &ParallelInference) -> Result<Scores> {
    lead(led, inference, |batch, outputs, loss| {
        evaluator.add_outputs(batch, outputs, loss);
        Ok(())
    })?;
    Ok(evaluator.scores())
}
