use std::path::Path;

use anyhow::Result;
use paceline::train::{Choice, Error, Holds, IfFound, JobFile, Method, Metric, Stop, TuneConfig, Tuning};
use serde_json::{Value, json};

use super::{open_options, say};
use crate::arguments::{self, Events};
use crate::failure::{DONE, Exit, INTERRUPTED, Misuse};
use crate::interrupt::Interrupt;

/// Trials that are shown at the end.
const SHOWN: usize = 10;

pub(crate) fn run(arguments: &arguments::Tune) -> Result<Exit> {
    let file = match &arguments.job {
        None => JobFile::digits(),
        Some(path) => JobFile::read(path)?,
    };
    let JobFile { name, text, is_json, .. } = &file;
    let found = match (arguments.resume, arguments.overwrite) {
        (true, _) => IfFound::Resume,
        (false, true) => IfFound::Overwrite,
        (false, false) => IfFound::Refuse,
    };
    let output = arguments.output.clone().unwrap_or_else(|| Path::new("runs").join(format!("{name}-tune")));
    let told = Told::of(arguments)?;
    if let Some((twice, _)) = told
        .vary
        .iter()
        .enumerate()
        .find(|(at, (key, _))| told.vary[..*at].iter().any(|(k, _)| k == key))
        .map(|(_, pair)| pair)
    {
        return Err(Misuse(format!("`--vary {twice}=…` is there twice: name all its values in one")).into());
    }
    let options = open_options(&arguments.cache, arguments.events != Events::Auto);
    let read: Vec<&Path> = arguments.job.iter().map(|path| path.as_path()).collect();
    if !arguments.resume {
        let job = file.job(&arguments.settings)?;
        job.expect_inputs_safe(&output, &read, &options)?;
    }
    let tuning = Tuning::new((text, *is_json, name), &arguments.settings, |config| told.over(config), options)?;
    let tuning = tuning.force(arguments.force);
    let interrupt = Interrupt::install();
    let stop = Stop::default();
    interrupt.stops(stop.clone());
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let at_once = arguments.workers.map_or(cores, |workers| workers as usize);
    let metric = tuning.config().metric.name();
    match arguments.events {
        Events::Auto => {
            let keys: Vec<&str> = tuning.config().vary.keys().map(String::as_str).collect();
            tuning.notes().iter().for_each(|note| emit!("{note}"));
            tuning.remarks().for_each(|remark| emit!("warning: {remark}"));
            emit!("{name}: {at_once} trials at once, compared by {metric}; varied: {}", keys.join(", "));
        }
        Events::Json => say(&json!({ "event": "tuning", "tune": tuning.config(), "at_once": at_once }))?,
        Events::None => {}
    }
    let mut tell = |trial: &paceline::train::Trial| {
        match arguments.events {
            Events::Auto => emit!("{trial}"),
            Events::Json => {
                let mut line = json!(trial);
                line["event"] = "trial".into();
                // A reader that went away stops no search.
                let _ = say(&line);
            }
            Events::None => {}
        }
    };
    let tuned = tuning.run(&output, found, at_once, &stop, &mut tell).map_err(|error| match error {
        Error::RunExists { path, holds } if arguments.events != Events::None => {
            let resume = match holds {
                Holds::Search => "\n  go on with it: the same command and --resume",
                _ => "",
            };
            anyhow::anyhow!(
                "`{}` holds {} already: `--output` chooses another folder{resume}\n  replace it: the same command and --overwrite",
                path.display(), holds.noun()
            )
        }
        error => error.into(),
    })?;
    let has_best = tuned.trials.iter().any(|trial| trial.value.is_some());
    match arguments.events {
        Events::Auto if tuned.trials.is_empty() => {}
        Events::Auto => {
            let best = tuned.trials.iter().take(SHOWN).map(ToString::to_string).collect::<Vec<String>>().join("\n");
            say(&format_args!("the best of {} trials:\n{best}", tuned.trials.len()))?;
            if let Some(own) = tuned.trials.iter().skip(SHOWN).find(|trial| trial.trial == 0) {
                say(&format_args!("…\n{own}"))?;
            }
            if has_best {
                emit!("the best job, its model and all trials are in `{}`", output.display());
            }
        }
        Events::Json => say(&json!({ "event": "tuned", "best": tuned.trials.first(), "trials": tuned.trials.len() }))?,
        Events::None => {}
    }
    if tuned.stopped {
        if arguments.events != Events::None {
            let how = if arguments.overwrite { "`--resume` instead of `--overwrite`" } else { "`--resume`" };
            emit!("stopped; the same command with {how} goes on");
        }
        return Ok(INTERRUPTED);
    }
    if !has_best {
        anyhow::bail!("no trial has come to its end with a figure: give it more seconds, or other values");
    }
    Ok(DONE)
}

/// What the command line says over the job's table `tune`.
struct Told<'a> {
    arguments: &'a arguments::Tune,
    vary: Vec<(String, Choice)>,
    metric: Option<Metric>,
}

impl<'a> Told<'a> {
    fn of(arguments: &'a arguments::Tune) -> Result<Self> {
        let parse = |text: &String| {
            let wrong = || {
                Misuse(format!(
                    "`--vary {text}`: expected `KEY=16,32`, `KEY=log:1e-4..0.1`, `KEY=uniform:0..0.5` or `KEY=whole:8..128`"
                ))
            };
            let (key, choice) = text.split_once('=').ok_or_else(wrong)?;
            Ok::<_, anyhow::Error>((key.trim().to_owned(), Choice::parse(choice.trim()).ok_or_else(wrong)?))
        };
        let metric = |name: &String| {
            let known = Metric::ALL.map(Metric::name).join("`, `");
            let metric: Option<Metric> = serde_json::from_value(Value::String(name.clone())).ok();
            let near = paceline::nn::config::nearest(name, Metric::ALL.map(Metric::name));
            let hint =
                near.map_or_else(|| format!("expected one of `{known}`"), |near| format!("did you mean `{near}`?"));
            metric.ok_or_else(|| Misuse(format!("`--metric {name}`: {hint}")))
        };
        Ok(Self {
            arguments,
            vary: arguments.vary.iter().map(parse).collect::<Result<_>>()?,
            metric: arguments.metric.as_ref().map(metric).transpose()?,
        })
    }

    fn over(&self, mut config: TuneConfig) -> TuneConfig {
        if !self.vary.is_empty() {
            config.vary = self.vary.iter().cloned().collect();
        }
        let method = |method| match method {
            arguments::Method::Random => Method::Random,
            arguments::Method::Grid => Method::Grid,
            arguments::Method::Halving => Method::Halving,
        };
        config.method = self.arguments.method.map_or(config.method, method);
        config.trials = self.arguments.trials.or(config.trials);
        config.seconds = self.arguments.seconds.or(config.seconds);
        config.metric = self.metric.unwrap_or(config.metric);
        config
    }
}
