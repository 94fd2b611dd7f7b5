use std::io::Write;
use std::path::Path;

use anyhow::Result;
use paceline::data::OpenOptions;
use paceline::train::{Error, Event, Holds, IfFound, Job, SavedModel, Stop, Take};
use serde_json::json;

use super::model::tell_network;
use super::{open_options, say};
use crate::arguments::{self, Device, Events, Mode};
use crate::failure::{DONE, Exit, INTERRUPTED, Misuse};
use crate::interrupt::Interrupt;
use crate::report::Reporter;

pub(crate) fn run(arguments: &arguments::Train) -> Result<Exit> {
    let name =
        arguments.job.as_deref().and_then(Path::file_stem).map_or("digits".into(), |name| name.to_string_lossy());
    let mut reporter = Reporter::new(arguments.events, &name);
    let result = train(arguments, &mut reporter);
    reporter.conclude(result)
}

fn train(arguments: &arguments::Train, reporter: &mut Reporter) -> Result<Exit> {
    let mut settings = arguments.settings.clone();
    settings.extend(shorthands(arguments));
    if let Some(mode) = arguments.mode {
        settings.push(format!("train.mode={}", mode.name()));
    }
    // Alone means one, whatever the job says.
    if let (Some(Mode::Solo), None) = (arguments.mode, arguments.workers) {
        settings.push("train.workers=1".into());
    }
    match arguments.device {
        Device::Cpu => {}
    }
    if let Some(workers) = arguments.workers {
        settings.push(format!("train.workers={workers}"));
    }
    let mut job = match &arguments.job {
        Some(path) => Job::read(path, &settings)?,
        None => Job::digits(&settings)?,
    };
    job.options.force = arguments.force;
    job.notes().iter().for_each(|note| reporter.tell(&Event::Note { message: note.clone() }));
    if arguments.dry_run {
        return preview(arguments, &job);
    }
    let output = arguments.output.clone().unwrap_or_else(|| Path::new("runs").join(&job.name));
    let interrupt = Interrupt::install();
    let quiet = arguments.events != Events::Auto;
    let found = match (arguments.resume, arguments.overwrite) {
        (true, _) => IfFound::Resume,
        (false, true) => IfFound::Overwrite,
        (false, false) => IfFound::Refuse,
    };
    let read: Vec<&Path> = arguments.job.iter().chain(&arguments.from).map(|path| path.as_path()).collect();
    if !arguments.resume {
        job.expect_inputs_safe(&output, &read, &open_options(&arguments.cache, quiet))?;
    }
    if let Some(folds) = arguments.cv {
        let folds = folds as usize;
        return cross_validate(arguments, &job, folds, (&output, found), &interrupt, reporter);
    }
    let (from, options) = begins(arguments)?;
    let mut trainer = job.phased(Some(output.clone()), found, &options)?;
    if let Some(model) = &from {
        trainer = trainer.begin_with(&model.file, Take::Learned)?;
    }
    trainer.expect_memory()?;
    interrupt.stops(trainer.stop());
    let outcome = trainer.run(&mut |event| reporter.tell(event)).map_err(|error| hint(error, arguments, &output))?;
    if let (Some(scores), Events::Auto, false) = (&outcome.scores, arguments.events, outcome.stopped) {
        // What was asked for, so it goes to standard output. A reader that went away is no reason to fail.
        let _ = writeln!(std::io::stdout(), "{scores}");
    }
    if outcome.stopped {
        if arguments.events != Events::None {
            emit!("stopped; go on with: {}", same_command(arguments, &output, "--resume"));
        }
        return Ok(INTERRUPTED);
    }
    Ok(DONE)
}

/// The model to begin with, and how the data is opened: its columns, categories and classes are those of the model, by name.
fn begins(arguments: &arguments::Train) -> Result<(Option<SavedModel>, OpenOptions)> {
    let from = arguments.from.as_ref().map(|path| SavedModel::load(path)).transpose()?;
    let schema = from.as_ref().and_then(|model| model.schema.clone());
    let options = open_options(&arguments.cache, arguments.events != Events::Auto);
    Ok((from, OpenOptions { schema, ..options }))
}

/// The settings that have an option of their own.
fn shorthands(arguments: &arguments::Train) -> Vec<String> {
    let arguments::Train { epochs, batch, learning_rate, seed, .. } = arguments;
    let set = [
        epochs.map(|epochs| format!("train.epochs={epochs}")),
        batch.map(|batch| format!("data.batch={batch}")),
        learning_rate.map(|rate| format!("network.learning_rate={rate:?}")),
        seed.map(|seed| format!("network.seed={seed}")),
    ];
    set.into_iter().flatten().collect()
}

/// Trains and judges every fold.
fn cross_validate(
    arguments: &arguments::Train,
    job: &Job,
    folds: usize,
    (output, found): (&Path, IfFound),
    interrupt: &Interrupt,
    reporter: &mut Reporter,
) -> Result<Exit> {
    if job.options.early_stopping.is_some_and(|stopping| stopping.save_best) {
        let message = "with `early_stopping` the epoch of each fold is chosen on the fold itself, so that the figures are too good: leave it out \
                       for figures of new data";
        reporter.tell(&Event::Note { message: message.into() });
    }
    let options = open_options(&arguments.cache, arguments.events != Events::Auto);
    let stop = Stop::default();
    interrupt.stops(stop.clone());
    let mut last = 0;
    let mut tell = |fold: usize, event: &Event| {
        if fold != last {
            last = fold;
            reporter.note(&format!("fold {fold} of {folds}"), &json!({ "event": "fold", "fold": fold, "of": folds }));
        }
        reporter.tell(event);
    };
    let found = job.cross_validate(folds, (Some(output), found), &options, &stop, &mut tell);
    let Some(validated) = found.map_err(|error| hint(error, arguments, output))? else {
        if arguments.events != Events::None {
            emit!("stopped; go on with: {}", same_command(arguments, output, "--resume"));
        }
        return Ok(INTERRUPTED);
    };
    validated.save(job, &options, output)?;
    let mut told = serde_json::to_value(&validated)?;
    told["event"] = "cross_validated".into();
    reporter.note("", &told);
    if arguments.events == Events::Auto {
        say(&validated)?;
        emit!("figures and predictions are in `{}`", output.display());
    }
    Ok(DONE)
}

/// What can be done about a run that is there.
fn hint(error: Error, arguments: &arguments::Train, output: &Path) -> anyhow::Error {
    match error {
        Error::RunExists { path, holds } if arguments.events != Events::None => {
            // A run goes on as a run, and folds as folds.
            let can_resume = holds == if arguments.cv.is_some() { Holds::Folds } else { Holds::Run };
            let found = format!("`{}` holds {} already", path.display(), holds.noun());
            if arguments.resume {
                return Misuse(format!("{found}, which this command cannot resume: choose another `--output`")).into();
            }
            let [resume, overwrite] = ["--resume", "--overwrite"].map(|how| same_command(arguments, output, how));
            let resume = if can_resume { format!("\n  go on with it: {resume}") } else { String::new() };
            anyhow::anyhow!("{found}: `--output` chooses another folder{resume}\n  replace it: {overwrite}")
        }
        error => error.into(),
    }
}

/// Tells what the run would be.
fn preview(arguments: &arguments::Train, job: &Job) -> Result<Exit> {
    let (from, options) = begins(arguments)?;
    let mut trainer = job.trainer(None, IfFound::Refuse, &options)?;
    if let Some(model) = &from {
        trainer = trainer.begin_with(&model.file, Take::Learned)?;
    }
    trainer.expect_memory()?;
    let preview = trainer.preview()?;
    match arguments.events {
        Events::Json => say(&serde_json::to_string(&preview)?)?,
        Events::None => {}
        Events::Auto => {
            trainer.warn(&mut |event| match event {
                Event::Note { message } => emit!("{message}"),
                Event::Warning { message } => emit!("warning: {message}"),
                _ => {}
            });
            tell_network(trainer.network())?;
            say(&format_args!("\n{preview}\n\nnothing was trained and nothing was written"))?;
        }
    }
    Ok(DONE)
}

/// The same command line, with one word more.
fn same_command(arguments: &arguments::Train, output: &Path, more: &str) -> String {
    let mut words = vec!["paceline train".to_owned()];
    words.extend(arguments.job.iter().map(|job| quoted(&job.display())));
    words.extend(arguments.workers.map(|workers| format!("--workers {workers}")));
    words.extend(arguments.mode.map(|mode| format!("--mode {}", mode.name())));
    words.extend(arguments.cv.map(|folds| format!("--cv {folds}")));
    words.extend(arguments.from.iter().map(|model| format!("--from {}", quoted(&model.display()))));
    words.extend(arguments.settings.iter().map(|setting| format!("--set {}", quoted(setting))));
    words.extend(shorthands(arguments).iter().map(|setting| format!("--set {}", quoted(setting))));
    words.push(format!("--output {}", quoted(&output.display())));
    words.extend(arguments.cache.cache.iter().map(|cache| format!("--cache {}", quoted(&cache.display()))));
    words.extend(arguments.cache.offline.then(|| "--offline".into()));
    words.extend((arguments.events == Events::Json).then(|| "--events json".into()));
    words.push(more.into());
    words.join(" ")
}

/// A word that a shell takes as it is, or between quotes if it would not.
fn quoted(word: &dyn std::fmt::Display) -> String {
    let word = word.to_string();
    let plain = |c: char| c.is_alphanumeric() || "_-./=:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) { word } else { format!("'{}'", word.replace('\'', r"'\''")) }
}
