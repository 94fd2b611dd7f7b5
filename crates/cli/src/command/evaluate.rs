use std::fmt;

use anyhow::{Context, Result, bail};
use paceline::data::{OpenOptions, open};
use paceline::nn::evaluation::Thresholds;
use paceline::train::{
    Evaluator, Importance, Importances, Measures, OutputScores, ParallelInference, SavedModel, Scores, figure,
};
use serde_json::json;

use super::helping::{Led, expect_no_helper, help, lead};
use super::{inference, open_options, say};
use crate::arguments;
use crate::failure::{DONE, Exit, Misuse};

pub(crate) fn run(arguments: &arguments::Evaluate) -> Result<Exit> {
    let arguments::Evaluate { model, data, batch, workers, helping, cache, .. } = arguments;
    if let Some(join) = &helping.join {
        return help(join, helping, workers, cache);
    }
    expect_no_helper(helping)?;
    let (Some(model), Some(data)) = (model, data) else { bail!("expected a model and `--data`") };
    let model = SavedModel::load(model)?;
    let source = open(data, &OpenOptions { schema: model.schema.clone(), ..open_options(cache, false) })?;
    source.remarks().iter().for_each(|remark| emit!("warning: {remark}"));
    let thresholds = Thresholds::of(arguments.auc_thresholds.map(|n| n as usize));
    let batch = *batch as usize;
    let network = model.file.network.clone();
    let evaluator = Evaluator::new(&source.shape().targets, &network, thresholds);
    let evaluator = evaluator
        .with_context(|| format!("`{data}` has no targets to evaluate with: name its label column with `?label=`"))?;
    let mut evaluator = evaluator.with_schema(source.schema());
    if let Some(threshold) = arguments.threshold {
        let message = format!("`--threshold {threshold}` is for models that tell two classes apart");
        evaluator = evaluator.with_threshold(threshold).ok_or(Misuse(message))?;
    }
    let bytes = helping.listen.as_ref().map(|_| model.file.to_bytes());
    let inference = inference(model.file, workers)?;
    let (scores, importances) = match (&helping.listen, bytes) {
        (Some(listen), Some(model)) => {
            let led = Led { listen, helping, command: "evaluate", model, data, source, batch, judged: true };
            (judge_with_help(evaluator, led, &inference)?, None)
        }
        _ => {
            let scores = inference.evaluate_by(evaluator, source.clone(), batch)?;
            let repeats = arguments.importance.map(|repeats| repeats as usize);
            let of = |repeats| inference.importance(&network, &source, batch, repeats, SEED);
            (scores, repeats.map(of).transpose()?)
        }
    };
    if arguments.calibration && scores.calibration.is_none() {
        return Err(Misuse("`--calibration` is for models that give probabilities of classes".into()).into());
    }
    if arguments.json {
        let mut told = in_json(&scores)?;
        if let Some(importances) = importances {
            told["importance"] = serde_json::to_value(importances)?;
        }
        say(&told)?;
        return Ok(DONE);
    }
    say(&scores)?;
    if let (Some(best), None) = (scores.best_threshold(), arguments.threshold) {
        let (threshold, f1) = (best.threshold, figure(best.f1));
        say(&format_args!("the F1 of the second class is highest on this data with `--threshold {threshold}`: {f1}"))?;
    }
    if let (true, Some(calibration)) = (arguments.calibration, &scores.calibration) {
        say(&format_args!("\nProbabilities of predicted classes, and how often they are right:\n{calibration}"))?;
    }
    if let Some(importances) = &importances {
        say(&Table(importances))?;
    }
    Ok(DONE)
}

/// The seed by which values of columns are dealt.
const SEED: u64 = 0;

/// The importance of columns, for people.
struct Table<'a>(&'a Importances);

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Importances { metric, value, columns } = self.0;
        let wide = columns.iter().map(|column| column.column.chars().count()).max().unwrap_or(0).clamp(6, 40);
        writeln!(f, "\nImportance: how much {} ({}) gets worse without the column:", metric.name(), figure(*value))?;
        write!(f, "{:<wide$}  {:>10}  {:>10}", "column", "mean", "deviation")?;
        for Importance { column, mean, deviation } in columns {
            let name: String = column.chars().take(40).collect();
            write!(f, "\n{name:<wide$}  {mean:>10.5}  {deviation:>10.5}")?;
        }
        Ok(())
    }
}

fn in_json(scores: &Scores) -> Result<serde_json::Value> {
    let report = |measures: &Measures| match measures {
        Measures::Classes(classes) => serde_json::to_value(classes.report()),
        Measures::Values(values) => serde_json::to_value(values.report()),
        Measures::Nothing => Ok(json!({})),
    };
    if !scores.outputs.is_empty() {
        let of = |output: &OutputScores| {
            let mut told = report(&output.measures)?;
            told["auc"] = output.auc().into();
            Ok((output.name.clone(), told))
        };
        let outputs = scores.outputs.iter().map(of);
        let outputs: serde_json::Map<_, _> = outputs.collect::<Result<_>>()?;
        return Ok(json!({ "score": scores.score(), "outputs": outputs }));
    }
    let roc = scores.roc.as_ref().map(|roc| roc.report());
    let report = report(&scores.measures)?;
    let mut told = json!({
        "score": scores.score(), "auc": scores.auc(), "pr_auc": scores.pr_auc(), "roc": roc, "report": report,
        "threshold": scores.threshold, "best_threshold": scores.best_threshold(),
    });
    if let Some(calibration) = &scores.calibration {
        told["calibration"] = serde_json::to_value(calibration.report())?;
    }
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
