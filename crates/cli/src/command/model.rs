use std::path::Path;

use anyhow::{Context, Result};
use paceline::nn::{Filters, LayerInfo, Loss, ModelFile, Network};
use paceline::train::{Normalisers, SavedModel, counted};

use super::say;
use crate::arguments::Model;
use crate::drawing;
use crate::failure::{DONE, Exit, Misuse};
use crate::outputs::{Kind, MARK, expect_free_file, write_beside};

pub(crate) fn run(command: &Model) -> Result<Exit> {
    let Model::Show { model, json, svg, filters, layer, overwrite } = command;
    let saved = SavedModel::load(model)?;
    for (option, path, kind) in [("--svg", svg, Kind::Svg), ("--filters", filters, Kind::Png)] {
        let Some(path) = path else { continue };
        if same_file::is_same_file(path, model).unwrap_or(false) {
            let message = format!("`{option} {}` is the model that is read: choose another name", path.display());
            return Err(Misuse(message).into());
        }
        expect_free_file(option, path, kind, *overwrite)?;
    }
    if let Some(path) = svg {
        let svg = drawing::svg(&saved.file.network);
        write_beside(path, |file| Ok(file.write_all(svg.as_bytes())?))?;
    }
    if let Some(path) = filters {
        draw_filters(&saved.file, layer.as_deref(), path)?;
    }
    if *json {
        say(&saved.file.network.config().to_json())?;
        return Ok(DONE);
    }
    let network = &saved.file.network;
    tell_network(network)?;
    let progress = saved.file.progress;
    say(&format_args!("trained for {}, {}", counted(progress.iteration, "step"), counted(progress.epoch, "epoch")))?;
    if let Some(kept) = saved.kept_epoch() {
        say(&format_args!("kept as the best of its run: {kept}"))?;
    }
    let Normalisers { features, targets } = &saved.normalisers;
    for (what, normaliser) in [("normaliser", features), ("normaliser of targets", targets)] {
        let Some(normaliser) = normaliser else { continue };
        say(&format_args!("{what}: {normaliser}"))?;
    }
    if saved.predicts_classes() {
        say(&format_args!("classes: {}", saved.output_names().join(", ")))?;
    }
    Ok(DONE)
}

/// Prints the layers of a network, what goes in and comes out, and the parameters.
pub(super) fn tell_network(network: &Network) -> Result<()> {
    // In a list every layer follows the one before it, which need not be said.
    let follows = |index: usize| match index {
        0 => network.config().inputs[0].name.clone(),
        _ => network.layers()[index - 1].name.clone(),
    };
    let is_list = network.layers().iter().enumerate().all(|(index, layer)| layer.after == [follows(index)]);
    let after = |text: &str| if is_list { String::new() } else { format!(" {text:<24}") };
    let (layer, nothing) = ("layer", "");
    say(&format_args!(
        "{nothing:>3}  {layer:<30}{} {:<28} {:<28} {:>12}",
        after("after"),
        "takes",
        "gives",
        "parameters"
    ))?;
    for (index, layer) in network.layers().iter().enumerate() {
        let name = if layer.name == index.to_string() {
            layer.kind.to_owned()
        } else {
            format!("{} ({})", layer.kind, layer.name)
        };
        let (takes, gives) = (layer.input.to_string(), layer.output.to_string());
        let after = after(&layer.after.join(", "));
        say(&format_args!("{index:>3}  {name:<30}{after} {takes:<28} {gives:<28} {:>12}", layer.parameters.len()))?;
    }
    let all = "all";
    say(&format_args!(
        "{nothing:>3}  {all:<30}{} {nothing:<28} {nothing:<28} {:>12}\n",
        after(""),
        network.parameter_count()
    ))?;
    let several = network.outputs().count() > 1;
    for output in network.outputs() {
        let of = if several { format!(" of {}", output.name) } else { String::new() };
        say(&format_args!("loss{of}: {}", named(output.loss)))?;
    }
    Ok(())
}

/// A loss as a job file names it.
fn named(loss: &Loss) -> String {
    let value = serde_json::to_value(loss).unwrap_or_default();
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Writes the pictures of a layer as one PNG.
fn draw_filters(file: &ModelFile, layer: Option<&str>, path: &Path) -> Result<()> {
    let network = &file.network;
    let layers: &[LayerInfo] = network.layers();
    let index = match layer {
        Some(name) => {
            let names: Vec<&str> = layers.iter().map(|layer| layer.name.as_str()).collect();
            let unknown =
                || Misuse(format!("there is no layer `{name}`; those of this model are {}", names.join(", ")));
            names.iter().position(|known| *known == name).ok_or_else(unknown)?
        }
        None => {
            let has_weights = || layers.iter().position(|layer| !layer.parameters.is_empty());
            network.config().pretrains.or_else(has_weights).unwrap_or(0)
        }
    };
    let (width, height, grey) = enlarged(Filters::of(network, &file.state.parameters, index)?.grid());
    let unwritten = || format!("cannot write `{}`", path.display());
    let out = std::io::BufWriter::new(std::fs::File::create(path).with_context(unwritten)?);
    let mut encoder = png::Encoder::new(out, width as u32, height as u32);
    encoder.set_color(png::ColorType::Grayscale);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.add_text_chunk("Software".into(), MARK.into()).with_context(unwritten)?;
    let mut writer = encoder.write_header().with_context(unwritten)?;
    writer.write_image_data(&grey).with_context(unwritten)?;
    writer.finish().with_context(unwritten)
}

/// Columns that a picture has at least: small filters would be too small to see.
const WIDE: usize = 600;

/// Every pixel as a square of pixels, where a picture is small.
fn enlarged((width, height, grey): (usize, usize, Vec<u8>)) -> (usize, usize, Vec<u8>) {
    let side = WIDE.div_ceil(width.max(1));
    let (wide, high) = (width * side, height * side);
    let pixel = |at: usize| grey[at / wide / side * width + at % wide / side];
    (wide, high, (0..wide * high).map(pixel).collect())
}
