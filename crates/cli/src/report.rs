//! The readers of events: a progress bar, plain lines, JSON.

use std::io::IsTerminal;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::Result;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use paceline::data::FetchProgress;
use paceline::train::{Event, Measures, OutputScores, Traffic, counted};

use crate::arguments::Events;
use crate::failure::{Exit, sentence};
use crate::json_lines::JsonLines;

/// Shows a run to whoever watches.
pub(crate) enum Reporter {
    Bar(Bar),
    Lines { name: String, steps: u64, epochs: u64, told: Option<Instant>, sent: Option<Traffic> },
    Json { has_ended: bool, is_resumable: bool, lines: JsonLines },
    Nothing,
}

/// A progress bar, and what it needs to know of the run.
pub(crate) struct Bar {
    bar: ProgressBar,
    steps: u64,
    epochs: u64,
    workers: usize,
    /// What a worker last told of what it sends.
    sent: Option<Traffic>,
}

/// Plain lines go to logs: one in a while shows that the run is alive.
const LINE_EVERY: Duration = Duration::from_secs(5);

impl Reporter {
    pub(crate) fn new(events: Events, name: &str) -> Self {
        match events {
            Events::Json => Reporter::Json { has_ended: false, is_resumable: false, lines: JsonLines::new() },
            Events::None => Reporter::Nothing,
            Events::Auto if std::io::stderr().is_terminal() => {
                Reporter::Bar(Bar { bar: ProgressBar::hidden(), steps: 0, epochs: 0, workers: 1, sent: None })
            }
            Events::Auto => Reporter::Lines { name: name.into(), steps: 0, epochs: 0, told: None, sent: None },
        }
    }

    pub(crate) fn tell(&mut self, event: &Event) {
        match self {
            Reporter::Nothing => {}
            Reporter::Json { has_ended, lines, .. } => {
                *has_ended |=
                    matches!(event, Event::Finished { .. } | Event::Failed { .. } | Event::AlreadyEnded { .. });
                lines.say(serde_json::to_string(event).expect("events are names and numbers"));
            }
            Reporter::Bar(bar) => bar.tell(event),
            Reporter::Lines { name, steps, epochs, told, sent } => match event {
                Event::Started { steps_per_epoch, epochs: all, .. } => {
                    (*steps, *epochs) = (*steps_per_epoch, *all);
                    emit!("{name}: {}", beginning(event));
                }
                Event::Step { epoch, step, loss, examples_per_second, .. } => {
                    if told.get_or_insert_with(Instant::now).elapsed() >= LINE_EVERY {
                        *told = Some(Instant::now());
                        let at = format!("{}, step {step}/{steps}", epoch_of(*epoch, *epochs));
                        emit!("{at}: loss {}, {examples_per_second:.0} examples/s", short(*loss));
                    }
                }
                Event::Threshold { traffic, .. } => *sent = Some(*traffic),
                _ => {
                    if let Some(traffic) = sent.take_if(|_| matches!(event, Event::Epoch { .. })) {
                        emit!("{}", sending(&traffic));
                    }
                    let line = line(event, *epochs);
                    if !line.is_empty() {
                        emit!("{line}");
                    }
                }
            },
        }
    }
}

impl Reporter {
    /// Tells what is no event of a run: a line for people, or an object for programs.
    pub(crate) fn note(&mut self, line: &str, object: &serde_json::Value) {
        match self {
            Reporter::Nothing => {}
            Reporter::Json { lines, .. } => lines.say(object.to_string()),
            Reporter::Bar(_) | Reporter::Lines { .. } if line.is_empty() => {}
            Reporter::Bar(bar) => bar.bar.suspend(|| emit!("{line}")),
            Reporter::Lines { .. } => emit!("{line}"),
        }
    }

    /// Whatever may fail now, the same command goes on from a checkpoint.
    pub(crate) fn resumable(&mut self, resumable: bool) {
        if let Reporter::Json { is_resumable, .. } = self {
            *is_resumable = resumable;
        }
    }

    /// What the command comes to: with JSON the last event of one that failed is `failed`, wherever it did, and one whose events
    /// could not be written has failed.
    pub(crate) fn conclude(mut self, result: Result<Exit>) -> Result<Exit> {
        if let (Err(error), Reporter::Json { has_ended: false, is_resumable, .. }) = (&result, &self) {
            self.tell(&Event::Failed { error: sentence(error), resumable: *is_resumable });
        }
        let Reporter::Json { lines, .. } = self else { return result };
        let written = lines.finish();
        result.and_then(|status| written.map(|()| status))
    }
}

impl Bar {
    fn show(&mut self, epoch: u64, steps: u64, loss: f64, speed: f64) {
        self.bar.set_prefix(epoch_of(epoch, self.epochs));
        let workers = if self.workers == 1 { "worker" } else { "workers" };
        self.bar.set_message(format!("loss {} · {speed:.0} examples/s · {} {workers}", short(loss), self.workers));
        if self.bar.is_hidden() {
            // Hidden until there is something to show.
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        self.bar.set_position((epoch - 1) * self.steps + steps);
    }

    fn tell(&mut self, event: &Event) {
        match event {
            Event::Started { steps_per_epoch, epochs, steps, resumed_at, workers, .. } => {
                (self.steps, self.epochs, self.workers) = (*steps_per_epoch, *epochs, *workers);
                emit!("{}", beginning(event));
                self.bar.set_style(
                    ProgressStyle::with_template("{prefix} [{wide_bar}] {msg} · {eta} left")
                        .expect("a template that indicatif knows")
                        .progress_chars("=> "),
                );
                self.bar.set_length(*steps);
                self.bar.set_position(*resumed_at);
                self.bar.reset_eta();
            }
            Event::Step { epoch, step, loss, examples_per_second, .. } => {
                self.show(*epoch, *step, *loss, *examples_per_second);
            }
            Event::Epoch { epoch, loss, examples_per_second, .. } => {
                self.show(*epoch, self.steps, *loss, *examples_per_second);
                let sent = self.sent.take();
                self.bar.suspend(|| {
                    sent.iter().for_each(|traffic| emit!("{}", sending(traffic)));
                    emit!("{}", line(event, self.epochs));
                });
            }
            Event::Threshold { traffic, .. } => self.sent = Some(*traffic),
            Event::Finished { .. } => {
                self.bar.finish_and_clear();
                emit!("{}", line(event, self.epochs));
            }
            Event::Failed { .. } => self.bar.finish_and_clear(),
            _ => {
                let line = line(event, self.epochs);
                if !line.is_empty() {
                    self.bar.suspend(|| emit!("{line}"));
                }
            }
        }
    }
}

fn beginning(event: &Event) -> String {
    let Event::Started { parameters, examples, steps_per_epoch, epochs, resumed_at, instructions, workers, .. } = event
    else {
        return String::new();
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let crew = match workers {
        // A master does not know yet who will come.
        0 => String::new(),
        1 => format!("1 worker on {cores} cores, "),
        workers => format!("{workers} workers on {cores} cores, "),
    };
    let again = if *resumed_at > 0 { format!(", going on after step {resumed_at}") } else { String::new() };
    format!(
        "{parameters} parameters, {examples} examples, {} of {}, {crew}{instructions}{again}",
        counted(*epochs, "epoch"),
        counted(*steps_per_epoch, "step")
    )
}

/// `epoch 2/3`, or the epoch alone where a run that goes on has had more than it is to have.
fn epoch_of(epoch: u64, epochs: u64) -> String {
    if epoch <= epochs { format!("epoch {epoch}/{epochs}") } else { format!("epoch {epoch}") }
}

/// Four digits behind the point, or a power of ten where those would not tell, or not fit.
fn short(value: f64) -> String {
    match value.abs() {
        size if size == 0.0 || !size.is_finite() || (1e-3..1e6).contains(&size) => format!("{value:.4}"),
        _ => format!("{value:.4e}"),
    }
}

/// One line for an event that deserves one.
fn line(event: &Event, epochs: u64) -> String {
    match event {
        Event::Epoch { epoch, loss, seconds, examples_per_second } => {
            // A master does not hear of the loss in every epoch, if they are short.
            let loss = if loss.is_nan() { String::new() } else { format!("loss {}, ", short(*loss)) };
            format!("{}: {loss}{seconds:.1} s, {examples_per_second:.0} examples/s", epoch_of(*epoch, epochs))
        }
        Event::Evaluation { epoch, scores } => {
            let told = |measures: &Measures| match measures {
                Measures::Values(values) => values.average().rmse.map(|r| format!("RMSE {}", short(r))),
                Measures::Classes(classes) => Some(format!("accuracy {:.4}", classes.accuracy())),
                Measures::Nothing => None,
            };
            let mut more: Vec<String> = told(&scores.measures).into_iter().collect();
            if !scores.outputs.is_empty() {
                let of_each =
                    |output: &OutputScores| told(&output.measures).map(|told| format!("{} {told}", output.name));
                more = scores.outputs.iter().filter_map(of_each).collect();
            }
            let more: String = more.iter().map(|told| format!(", {told}")).collect();
            format!("{}: test loss {}{more}", epoch_of(*epoch, epochs), short(scores.score()))
        }
        Event::Phase { phase, of, layer } => match layer {
            Some(layer) => format!("phase {phase} of {of}: layer `{layer}` learns what goes into it"),
            None => format!("phase {phase} of {of}: the network learns as a whole"),
        },
        Event::PhaseEnded { phase, of, score, seconds, .. } => {
            let error =
                if score.is_nan() { String::new() } else { format!("reconstruction error {}, ", short(*score)) };
            format!("phase {phase} of {of} is over: {error}{seconds:.1} s")
        }
        Event::Listening { address, join, status, .. } => {
            let join = join.as_ref().map_or_else(|| address.clone(), |join| format!("'{join}'"));
            let status = status.as_ref().map(|at| format!("\nits state: paceline status {at}")).unwrap_or_default();
            format!("listening on {address}; a worker joins with: paceline worker --join {join}{status}")
        }
        Event::Standby { .. } => "another master leads; this one takes over when it is gone".into(),
        Event::CoordinatorAway { reason } => {
            format!("{reason}; going on for a while, then holding on until it is back")
        }
        Event::CoordinatorBack => "the coordinator is back".into(),
        Event::StoodStill { worker, seconds } => {
            let who = worker.as_ref().map_or_else(|| "this master".into(), |worker| format!("worker {worker}"));
            format!("{who} {}", stood_still(*seconds))
        }
        Event::AlreadyEnded { model } => {
            format!(
                "this run has ended, its model is `{model}`; begin anew with `--restart`, or with another `--output`"
            )
        }
        Event::Waiting { workers, needed } => format!("waiting for workers: {needed} needed, {workers} here"),
        Event::WaitingForPartitions { partitions } => {
            let named: Vec<String> = partitions.iter().map(u32::to_string).collect();
            format!("waiting for a worker with partition {}", named.join(", "))
        }
        Event::WorkerJoined { worker, address, workers } => {
            format!("worker {worker} joined from {address}; {workers} here")
        }
        Event::WorkerRefused { worker, address, reason } => {
            let place = if address.is_empty() { String::new() } else { format!(" at {address}") };
            format!("worker {worker}{place} was refused: {reason}")
        }
        Event::WorkerLost { worker, reason, workers, .. } => {
            format!("worker {worker} was lost: {reason}; {workers} left")
        }
        Event::View { workers, round, .. } => {
            format!("from round {round} on: workers {}", workers.join(", "))
        }
        Event::LeaseRepeated { worker: Some(worker), examples, .. } => {
            format!("{} examples that worker {worker} had been given come again", examples.unwrap_or(0))
        }
        Event::LeaseRepeated { round, .. } => format!("round {round} is taken again without those that were lost"),
        Event::SetAside { epoch, examples, places } => {
            format!("epoch {epoch}: {examples} examples were lost with two workers and are left out: places {places:?}")
        }
        Event::RolledBack { from, to } => {
            format!("nobody holds round {from}: going on from the checkpoint of round {to}")
        }
        Event::OnHold { paused } => if *paused { "paused" } else { "going on" }.into(),
        Event::Statistics(statistics) => statistics.to_string(),
        Event::Transferred { taken, fresh, unused } => {
            let widest = taken.keys().chain(fresh).map(|name| name.chars().count()).max().unwrap_or(0);
            let taken = taken.iter().map(|(own, theirs)| format!("  {own:<widest$}  from `{theirs}`"));
            let fresh = fresh.iter().map(|own| format!("  {own:<widest$}  begins anew"));
            let unused = unused.iter().map(|theirs| format!("  `{theirs}` of the file is not used"));
            let lines: Vec<String> = taken.chain(fresh).chain(unused).collect();
            format!("what the network begins with:\n{}", lines.join("\n"))
        }
        Event::Note { message } => message.clone(),
        Event::Warning { message } => format!("warning: {message}"),
        Event::RatesLowered { epoch, factor } => {
            format!("epoch {epoch}: nothing has improved; learning rates are {factor} of what they would be")
        }
        Event::NotSaved { round, reason } => format!("the checkpoint of round {round} could not be written: {reason}"),
        Event::Paused { checkpoint: Some(path), .. } => format!("checkpoint written to `{}`", path.display()),
        Event::Finished { seconds, examples_per_second, model, ended_early, kept, .. } => {
            let early = ended_early.as_ref().map(|why| format!("ended early: {why}\n")).unwrap_or_default();
            let early = early + &kept.map(|kept| format!("kept {kept}\n")).unwrap_or_default();
            let path = model.as_ref().map(|path| format!("; model: {}", path.display())).unwrap_or_default();
            format!("{early}finished in {seconds:.1} s, {examples_per_second:.0} examples/s{path}")
        }
        _ => String::new(),
    }
}

/// What is told of one that stood still for so long.
pub(crate) fn stood_still(seconds: f64) -> String {
    format!("stood still for {seconds:.1} s: it was stopped, got no processor, or its machine slept")
}

/// What one worker sends stands for all: they differ little.
fn sending(traffic: &Traffic) -> String {
    let Traffic { sparsity, threshold, residual_norm, bytes_per_step, .. } = traffic;
    let share = 100.0 * sparsity;
    format!(
        "a worker sends {share:.3} % of the parameters, {bytes_per_step:.0} bytes a step; threshold {threshold:.2e}, residual norm {residual_norm:.3}"
    )
}

/// Shows a download: a bar on a terminal, a line per file elsewhere.
pub(crate) fn fetch_progress() -> impl Fn(FetchProgress) + Send + Sync {
    let shown: Mutex<Option<(String, ProgressBar)>> = Mutex::new(None);
    move |progress: FetchProgress| {
        let mut shown = shown.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let name = progress.file.to_string();
        if shown.as_ref().is_none_or(|(file, _)| *file != name) {
            if let Some((_, bar)) = shown.take() {
                bar.finish_and_clear();
            }
            let bar = ProgressBar::no_length();
            if std::io::stderr().is_terminal() {
                let style = ProgressStyle::with_template("{msg} [{wide_bar}] {bytes}/{total_bytes} {bytes_per_sec}");
                bar.set_style(style.expect("a template that indicatif knows").progress_chars("=> "));
                bar.set_message(format!("fetching {name}"));
            } else {
                emit!("fetching {name} from {}", progress.origin);
            }
            *shown = Some((name, bar));
        }
        if let Some((_, bar)) = shown.as_ref() {
            if let Some(total) = progress.total {
                bar.set_length(total);
            }
            bar.set_position(progress.received);
            if progress.total.is_some_and(|total| progress.received >= total) {
                bar.finish_and_clear();
            }
        }
    }
}
