use anyhow::Result;
use paceline::train::SavedModel;

use super::say;
use crate::arguments::Model;
use crate::failure::{DONE, Exit};

pub(crate) fn run(command: &Model) -> Result<Exit> {
    let Model::Show { model, json } = command;
    let saved = SavedModel::load(model)?;
    if *json {
        say(&saved.file.network.config().to_json())?;
        return Ok(DONE);
    }
    let network = &saved.file.network;
    say(&format_args!("{:>3}  {:<30} {:<28} {:<28} {:>12}", "", "layer", "takes", "gives", "parameters"))?;
    for (index, layer) in network.layers().iter().enumerate() {
        let name = if layer.name == index.to_string() {
            layer.kind.to_owned()
        } else {
            format!("{} ({})", layer.kind, layer.name)
        };
        let (takes, gives) = (layer.input.to_string(), layer.output.to_string());
        say(&format_args!("{index:>3}  {name:<30} {takes:<28} {gives:<28} {:>12}", layer.parameters.len()))?;
    }
    say(&format_args!("{:>3}  {:<30} {:<28} {:<28} {:>12}", "", "all", "", "", network.parameter_count()))?;
    say(&format_args!("\nloss: {:?}", network.loss()))?;
    say(&format_args!("trained for {} steps, {} epochs", saved.file.progress.iteration, saved.file.progress.epoch))?;
    if let Some(normaliser) = &saved.normaliser {
        let text = format!("{normaliser:?}");
        say(&format_args!(
            "normaliser: {}",
            if text.len() > 100 { text.split(' ').next().unwrap_or_default() } else { &text }
        ))?;
    }
    if saved.predicts_classes() {
        say(&format_args!("classes: {}", saved.output_names().join(", ")))?;
    }
    Ok(DONE)
}
