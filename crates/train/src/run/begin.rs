//! How a run begins: anew, or from its checkpoint.

use std::path::Path;
use std::time::{Duration, Instant};

use paceline_data::{Loader, LoaderOptions, Share, TargetShape};
use paceline_model::{Loss, Progress, State};
use paceline_nn::{Engine, ModelFile};

use crate::run::Run;
use crate::run::checkpoint::Checkpoints;
use crate::run::folder::{Holds, clear, expect_free, expect_own};
use crate::run::halt::Halt;
use crate::run::resume::{Kept, losses, memories, read_extra, same_run};
use crate::saved::load;
use crate::team::feed::Deal;
use crate::team::{Member, Team};
use crate::team::{Memory, RESIDUAL};
use crate::{ClassWeights, Error, Evaluator, Measures, Metric, Mode, Normalisers, TrainOptions, Trainer, Worker};

/// Where a run stands when it begins.
struct Start {
    state: State,
    progress: Progress,
    step: u64,
    normalisers: Normalisers,
    losses: Vec<Loss>,
    memories: Vec<Memory>,
    kept: Kept,
    best: Option<ModelFile>,
}

impl<'a> Run<'a> {
    pub(crate) fn begin(trainer: &'a Trainer) -> Result<Self, Error> {
        let options = &trainer.options;
        can_stop_early(trainer)?;
        trainer.expect_memory()?;
        let mut lock = None;
        if let Some(folder) = options.output.as_deref().filter(|folder| folder.exists()) {
            lock = Some(trainer.take(folder)?);
            // Checkpoints of another kind of run are not gone on from.
            if options.resume {
                expect_own(folder, Holds::Run)?;
            }
            if !options.resume && !options.overwrite {
                expect_free(folder)?;
            }
        }
        // Before the folder is made: a resume that is refused leaves nothing behind.
        let start = if options.resume { resumed(trainer)? } else { fresh(trainer)? };
        if let Some(folder) = &options.output {
            writable(folder)?;
            if lock.is_none() {
                lock = Some(trainer.take(folder)?);
            }
            // Now that nothing of the new run can be refused any more.
            if options.overwrite && !options.resume {
                clear(folder)?;
            }
        }
        let halt = Halt::new(trainer.stop.clone());
        let (team, step) = (team(trainer, &start, &halt)?, start.step);
        let resumed_at = options.resume.then_some(start.progress.iteration);
        let keep = options.checkpoint.keep;
        let checkpoints = options.output.as_deref().map(|folder| Checkpoints::new(folder, keep, resumed_at));
        let Start { normalisers, kept, best, .. } = start;
        let now = Instant::now();
        Ok(Self {
            trainer,
            team,
            halt,
            normalisers,
            step,
            began: now,
            before: Duration::try_from_secs_f64(kept.seconds).unwrap_or_default(),
            told: None,
            saved: now,
            unsaved: None,
            judging: Duration::ZERO,
            examples: 0,
            checkpoints,
            record: kept.record,
            plateau: kept.plateau,
            best: best.map(|best| (best, None)),
            judged: None,
            _lock: lock,
        })
    }
}

fn fresh(trainer: &Trainer) -> Result<Start, Error> {
    Ok(Start {
        state: trainer.first_state(),
        progress: trainer.first_progress(),
        step: 0,
        normalisers: trainer.fit_normalisers()?,
        losses: Vec::new(),
        memories: Vec::new(),
        kept: Kept::default(),
        best: None,
    })
}

fn resumed(trainer: &Trainer) -> Result<Start, Error> {
    let options = &trainer.options;
    let path = options.output.as_deref().map(Checkpoints::newest_in).unwrap_or_default();
    if !path.exists() {
        return Err(Error::NothingToResume { path });
    }
    let saved = load(&path, &trainer.registry)?;
    same_run(&trainer.network, &trainer.data, &saved, &path)?;
    let mut kept: Kept = read_extra(&saved, &path, "run")?.unwrap_or_default();
    let mut best = None;
    if options.early_stopping.is_some_and(|stopping| stopping.save_best) {
        let path = options.output.as_deref().map(Checkpoints::best_in).unwrap_or_default();
        best = path.exists().then(|| load(&path, &trainer.registry)).transpose()?;
        // Without the model that the record speaks of, the next one is the best again.
        if best.is_none() {
            kept.record = crate::run::early_stopping::Standing::default();
        }
    }
    let mut start = Start {
        normalisers: Normalisers::read(&saved, &path)?,
        losses: losses(&saved, &path)?,
        memories: memories(&saved),
        kept,
        best,
        state: saved.state,
        progress: saved.progress,
        step: saved.step,
    };
    if !matches!(options.mode, Mode::Shared(_)) {
        apply_residuals(&mut start);
    }
    Ok(start)
}

/// A run that goes on in another mode applies what its replicas had not sent.
fn apply_residuals(start: &mut Start) {
    let parameters = &mut start.state.parameters;
    let length = parameters.len();
    let residuals = start.memories.iter().filter_map(|memory| memory.get(RESIDUAL));
    for residual in residuals.filter(|residual| residual.len() == length) {
        parameters.iter_mut().zip(residual).for_each(|(parameter, rest)| *parameter -= rest);
    }
}

fn team(trainer: &Trainer, start: &Start, halt: &Halt) -> Result<Team, Error> {
    let options = &trainer.options;
    // What the exchanges are told of the model must hold for those of the members.
    let engine = || Engine::new(trainer.network.clone()).micro_batch(options.micro_batch);
    let model = engine();
    let (exchanges, gate) = options.mode.team(options.workers, &model, &start.state)?;
    let mut members = Vec::with_capacity(options.workers);
    for (index, mut exchange) in exchanges.into_iter().enumerate() {
        let loader = Loader::new(
            trainer.train.clone(),
            start.normalisers.clone().into_options(LoaderOptions {
                batch: options.step_examples(),
                share: Share { of: options.workers, index },
                shuffle: options.shuffle,
                by_length: options.by_length,
                seed: options.seed,
                prefetch: options.prefetch,
                class_weights: ClassWeights::each(options.class_weights.as_ref()),
                ..LoaderOptions::default()
            }),
        )?;
        let mut state = start.state.clone();
        exchange.begin(&start.memories, &mut state)?;
        let mut model = engine();
        model.scale_rates(start.kept.plateau.factor());
        let worker = Worker { model, state, exchange, progress: start.progress };
        let losses = start.losses.get(index).copied().unwrap_or_default();
        members.push(Member { worker, loader, losses, bytes_sent: 0 });
    }
    let deal = deal(options, crate::sync::cores());
    Ok(Team { members, gate, deal, stride: options.mode.stride(), halt: halt.clone() })
}

/// Who gets which part of a step, on so many cores.
fn deal(options: &TrainOptions, cores: usize) -> Deal {
    // How long a worker takes says something about its core only while it has one to itself.
    let has_cores = options.workers <= cores;
    match options.mode {
        // Without a shuffle the order says who sees what.
        _ if !options.shuffle => Deal::Own,
        Mode::Shared(_) => Deal::Free,
        // What a worker takes is what the job says, unless that says what all take.
        Mode::Averaging(averaging) if averaging.balance && has_cores && options.global_batch.is_some() => {
            Deal::by_speed(options.workers)
        }
        _ => Deal::Own,
    }
}

/// Rules that look at scores need some.
pub(crate) fn can_stop_early(trainer: &Trainer) -> Result<(), Error> {
    let test = trainer.test.as_ref().filter(|_| trainer.options.evaluate);
    if let Some(plateau) = &trainer.options.plateau {
        if test.is_none() {
            let message = "needs test data: set `data.test` or `data.test_share`".into();
            return Err(Error::Unsuitable { setting: "train.plateau", message });
        }
        if trainer.network.config().optimiser.searches() {
            let message =
                "lowers learning rates, of which an `optimiser` that searches has none: leave one of both out".into();
            return Err(Error::Unsuitable { setting: "train.plateau", message });
        }
        can_be_told(plateau.metric, "train.plateau.metric", trainer)?;
    }
    let Some(stopping) = &trainer.options.early_stopping else { return Ok(()) };
    if test.is_none() && stopping.needs_scores() {
        let message =
            "needs test data: set `data.test` or `data.test_share`, or leave only `minutes` with `save_best = false`"
                .into();
        return Err(Error::Unsuitable { setting: "train.early_stopping", message });
    }
    can_be_told(stopping.metric, "train.early_stopping.metric", trainer)
}

/// Fails for a metric that is not told of such targets.
fn can_be_told(metric: Metric, setting: &'static str, trainer: &Trainer) -> Result<(), Error> {
    let Some(test) = trainer.test.as_ref().filter(|_| trainer.options.evaluate) else { return Ok(()) };
    let targets = &test.shape().targets;
    let evaluator = Evaluator::new(targets, &trainer.network, trainer.options.thresholds());
    let Some(scores) = evaluator.map(Evaluator::scores) else { return Ok(()) };
    let expected = match metric.is_told_of(&scores) {
        true => return Ok(()),
        _ if matches!(targets, TargetShape::Classes { .. }) => {
            "`score`, `accuracy`, `precision`, `recall`, `f1`, `mcc`, `auc` or `pr_auc` where classes are learned"
        }
        _ if matches!(scores.measures, Measures::Classes(_)) => {
            "`score`, `accuracy`, `precision`, `recall`, `f1` or `mcc` where each step or each of several ends has a class"
        }
        _ if trainer.network.outputs().count() > 1 => "`score`, or a figure of its first end",
        _ if trainer.network.wants_targets() => "`score`, `mse`, `mae`, `rmse` or `r2` where numbers are learned",
        _ => "`score` for a network without targets",
    };
    Err(Error::BadSetting { setting, expected, found: format!("`{}`", metric.name()) })
}

/// Makes the folder and tries to write to it, before hours of work depend on it.
pub(crate) fn writable(folder: &Path) -> Result<(), Error> {
    let fail = |source| Error::Output { path: folder.to_owned(), source };
    std::fs::create_dir_all(folder).map_err(fail)?;
    let probe = folder.join(format!(".probe-{}", std::process::id()));
    std::fs::write(&probe, b"").and_then(|()| std::fs::remove_file(&probe)).map_err(fail)
}

#[cfg(test)]
mod tests {
    use super::{Deal, deal};
    use crate::{AveragingOptions, Mode, SharedOptions, TrainOptions};

    #[test]
    fn who_gets_what_is_up_to_the_mode_the_job_and_the_cores() {
        let averaging = AveragingOptions { balance: true, ..AveragingOptions::default() };
        let mode = Mode::Averaging(averaging);
        let balanced = TrainOptions { mode, workers: 2, global_batch: Some(64), ..TrainOptions::default() };
        let is_by_speed = |options: &TrainOptions, cores| matches!(deal(options, cores), Deal::BySpeed(_));
        assert!(is_by_speed(&balanced, 2) && !is_by_speed(&balanced, 1), "each needs a core of its own");
        assert!(!is_by_speed(&TrainOptions { global_batch: None, ..balanced.clone() }, 2));
        assert!(!is_by_speed(&TrainOptions { shuffle: false, ..balanced.clone() }, 2));
        let equal = Mode::Averaging(AveragingOptions::default());
        assert!(!is_by_speed(&TrainOptions { mode: equal, ..balanced.clone() }, 2));
        let shared = TrainOptions { mode: Mode::Shared(SharedOptions::default()), ..balanced };
        assert!(matches!(deal(&shared, 1), Deal::Free));
    }
}
