use std::io::Write;

use anyhow::Result;
use paceline::train::{GenerateOptions, SavedModel};

use crate::arguments;
use crate::failure::{DONE, Exit};

pub(crate) fn run(arguments: &arguments::Generate) -> Result<Exit> {
    let arguments::Generate { model, text, length, temperature, seed } = arguments;
    let saved = SavedModel::load(model)?;
    let options = GenerateOptions { begin: text.clone(), length: *length, temperature: *temperature, seed: *seed };
    let mut out = std::io::stdout().lock();
    let mut written = write!(out, "{text}");
    saved.generate(&options, |character| {
        if written.is_ok() {
            written = write!(out, "{character}").and_then(|()| out.flush());
        }
    })?;
    written.and_then(|()| writeln!(out))?;
    Ok(DONE)
}
