use std::fmt;
use std::sync::Arc;

use anyhow::Result;
use paceline::data::{
    ColumnSurvey, ExportFormat, FetchOptions, OpenOptions, PartitionNote, describe, export, fetch, inspect, open,
    reads, survey,
};

use super::{open_options, say};
use crate::arguments::{Data, Format};
use crate::failure::{DONE, Exit, Misuse};
use crate::outputs::{Kind, expect_own_file};
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
            let options = open_options(cache, false);
            if let Some(columns) = survey(source, &options)? {
                say(&Columns(&columns))?;
            }
            let source = open(source, &options)?;
            say(&inspect(&*source)?)?;
            source.remarks().iter().for_each(|remark| emit!("warning: {remark}"));
        }
        Data::Describe { source, partition, output, like, cache } => {
            let like = like.as_deref().map(PartitionNote::read).transpose()?;
            let schema = like.and_then(|note| note.kind.schema);
            let note = output.join(format!("partition-{partition}.json"));
            expect_own_file("data describe", &note, Kind::Note)?;
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

/// The columns of a table, as they are in the file.
struct Columns<'a>(&'a [ColumnSurvey]);

impl fmt::Display for Columns<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let wide = self.0.iter().map(|column| column.name.chars().count()).max().unwrap_or(0).clamp(6, 40);
        writeln!(
            f,
            "{:<wide$}  {:<6}  {:>9}  {:>9}  {:<20}  to look at",
            "column", "kind", "missing", "distinct", "example"
        )?;
        for column in self.0 {
            let short = |text: &str, most: usize| match text.char_indices().nth(most) {
                Some((end, _)) => format!("{}…", &text[..end]),
                None => text.to_owned(),
            };
            let (name, example) = (short(&column.name, 39), short(&column.example, 19));
            let ColumnSurvey { missing, distinct, .. } = column;
            let warning = column.warning().unwrap_or_default();
            writeln!(
                f,
                "{}",
                format!("{name:<wide$}  {:<6}  {missing:>9}  {distinct:>9}  {example:<20}  {warning}", column.kind())
                    .trim_end()
            )?;
        }
        Ok(())
    }
}
