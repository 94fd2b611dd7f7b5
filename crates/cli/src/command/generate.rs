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
    let (mut begin, mut written) = (Some(text), Ok(()));
    saved.generate(&options, |character| {
        if written.is_ok() {
            let begin = begin.take().map_or("", String::as_str);
            written = write!(out, "{begin}{character}").and_then(|()| out.flush());
        }
    })?;
    written.and_then(|()| writeln!(out, "{}", begin.map_or("", String::as_str)))?;
    Ok(DONE)
}
