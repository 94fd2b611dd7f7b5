use std::sync::Arc;

use anyhow::Result;
use paceline::data::{
    ExportFormat, FetchOptions, OpenOptions, PartitionNote, describe, export, fetch, inspect, open, reads,
};

use super::{open_options, say};
use crate::arguments::{Data, Format};
use crate::failure::{DONE, Exit, Misuse};
use crate::report::fetch_progress;

pub(crate) fn run(command: &Data) -> Result<Exit> {
    match command {
        Data::Fetch { name, cache } => {
            let options = FetchOptions {
                cache: cache.cache.clone(),
                offline: cache.offline,
                progress: Some(Arc::new(fetch_progress())),
                ..FetchOptions::default()
            };
            let fetched = fetch(name, &options)?;
            emit!("{} of {} files were fetched; all are whole", fetched.fetched, fetched.files.len());
            say(&fetched.folder.display())?;
        }
        Data::Inspect { source, cache } => {
            let source = open(source, &open_options(cache, false))?;
            say(&inspect(&*source)?)?;
            source.remarks().iter().for_each(|remark| emit!("warning: {remark}"));
        }
        Data::Describe { source, partition, output, like, cache } => {
            let like = like.as_deref().map(PartitionNote::read).transpose()?;
            let schema = like.and_then(|note| note.kind.schema);
            let source = open(source, &OpenOptions { schema, ..open_options(cache, false) })?;
            say(&describe(*partition, &*source, output)?.display())?;
        }
        Data::Export { source, folder, format, overwrite, cache } => {
            let format = match format {
                Format::Idx => ExportFormat::Idx,
                Format::Csv => ExportFormat::Csv,
            };
            let options = open_options(cache, false);
            for name in format.files() {
                if let Some(input) = reads(source, &options, &folder.join(name))? {
                    let message = format!("`{}` is read and would be written: choose another folder", input.display());
                    return Err(Misuse(message).into());
                }
                if !overwrite && folder.join(name).exists() {
                    let message = format!(
                        "`{}` is there already: choose another folder, or add `--overwrite`",
                        folder.join(name).display()
                    );
                    return Err(Misuse(message).into());
                }
            }
            let source = open(source, &options)?;
            for path in export(&*source, folder, format)? {
                say(&path.display())?;
            }
        }
    }
    Ok(DONE)
}
