use std::path::Path;

use anyhow::{Context, Result, bail};
use paceline::data::{LeftOut, OpenOptions, open, reads};
use paceline::train::SavedModel;

use super::helping::{Led, expect_no_helper, help, lead};
use super::{inference, open_options};
use crate::arguments;
use crate::failure::{DONE, Exit, Misuse};

/// Rows without a prediction that are told one by one.
const MOST_TOLD: usize = 20;

pub(crate) fn run(arguments: &arguments::Predict) -> Result<Exit> {
    let arguments::Predict { model, data, output, batch, workers, helping, cache } = arguments;
    if let Some(join) = &helping.join {
        return help(join, helping, workers, cache);
    }
    expect_no_helper(helping)?;
    let (Some(model), Some(data), Some(output)) = (model, data, output) else {
        bail!("expected a model, `--data` and `--output`")
    };
    if output.extension().is_none_or(|e| !e.eq_ignore_ascii_case("csv")) {
        let message = format!("`--output {}`: expected a name that ends in `.csv`", output.display());
        return Err(Misuse(message).into());
    }
    let model = SavedModel::load(model)?;
    let options = OpenOptions { schema: model.schema.clone(), targets: false, ..open_options(cache, false) };
    if let Some(input) = reads(data, &options, output)? {
        let message =
            format!("`--output {}` is `{}`, which is read: choose another name", output.display(), input.display());
        return Err(Misuse(message).into());
    }
    let source = open(data, &options)?;
    let examples = source.examples();
    let left_out = source.left_out().to_vec();
    let (names, classes) = (model.output_names(), model.predicts_classes());
    let what = if model.gives_probabilities() { "probability" } else { "output" };
    let width = model.file.network.output().len();
    let bytes = helping.listen.as_ref().map(|_| model.file.to_bytes());
    let inference = inference(model.file, workers)?;
    let batch = *batch as usize;
    write_beside(output, |out| {
        let mut writer = csv::Writer::from_writer(out);
        let columns = names.iter().map(|name| if classes { format!("{what} of {name}") } else { name.clone() });
        writer.write_record(classes.then(|| "prediction".to_owned()).into_iter().chain(columns))?;
        let (mut rows, mut left_out) = (0, left_out.iter().peekable());
        let empty = vec![String::new(); names.len() + usize::from(classes)];
        let mut write = |outputs: &[f32]| -> Result<()> {
            for row in outputs.chunks_exact(width) {
                // Every row of the input has its row of the output.
                while left_out.next_if(|left_out| left_out.row == rows).is_some() {
                    writer.write_record(&empty)?;
                    rows += 1;
                }
                rows += 1;
                // One output tells two classes apart.
                let pair = [1.0 - row[0], row[0]];
                let row = if classes && width == 1 { &pair[..] } else { row };
                let best = (0..row.len()).reduce(|best, i| if row[i] > row[best] { i } else { best }).unwrap_or(0);
                let class = classes.then(|| names[best].clone());
                writer.write_record(class.into_iter().chain(row.iter().map(f32::to_string)))?;
            }
            Ok(())
        };
        match (&helping.listen, bytes) {
            (Some(listen), Some(model)) => {
                let led = Led { listen, helping, command: "predict", model, data, source, batch, judged: false };
                lead(led, &inference, |_, outputs, _| write(outputs))?;
            }
            _ => inference.predict(source, batch, |_, outputs| write(outputs))?,
        }
        left_out.try_for_each(|_| writer.write_record(&empty))?;
        writer.flush()?;
        Ok(())
    })?;
    eprintln!("wrote {examples} predictions to `{}`", output.display());
    if !left_out.is_empty() {
        eprintln!("{} rows have no prediction and are empty there:", left_out.len());
        for LeftOut { row, reason } in left_out.iter().take(MOST_TOLD) {
            eprintln!("  row {}: {reason}", row + 1);
        }
        if left_out.len() > MOST_TOLD {
            eprintln!("  and {} more", left_out.len() - MOST_TOLD);
        }
    }
    Ok(DONE)
}

/// Writes into a file beside `path` and renames it when it is whole.
fn write_beside(path: &Path, write: impl FnOnce(&mut dyn std::io::Write) -> Result<()>) -> Result<()> {
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let cannot = || format!("cannot write `{}`", path.display());
    let mut builder = tempfile::Builder::new();
    // Temporary files are for their owner only; this one becomes a file like any other.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    let mut file = builder.suffix(".part").tempfile_in(folder).with_context(cannot)?;
    write(&mut std::io::BufWriter::new(file.as_file_mut()))?;
    file.persist(path).with_context(cannot)?;
    Ok(())
}
