//! The state of a run for people.

use std::fmt::Write;

use indicatif::HumanBytes;
use paceline_cluster::tracker::RunStatus;

/// Decisions that are shown; the others are in the JSON.
const DECISIONS: usize = 10;

/// The whole of it, without the end of the last line.
pub(super) fn of(status: &RunStatus) -> String {
    let mut text = facts(status);
    let workers = status.members.iter().map(|member| {
        let heard = format!("{} ago", time(member.heard_ms_ago as f64 / 1e3));
        let (round, slots) = (member.round.to_string(), member.slots.to_string());
        [printable(&member.name), printable(&member.address), heard, round, slots]
    });
    let heads = [("worker", Left), ("address", Left), ("heard", Right), ("round", Right), ("slots", Right)];
    text += &columns(heads, workers.collect());
    let thresholds = status.thresholds.iter().map(|of| {
        let [threshold, sparsity, residual] = [of.threshold, of.sparsity, of.residual].map(|of| format!("{of:.3e}"));
        [printable(&of.worker), threshold, sparsity, residual]
    });
    let heads = [("worker", Left), ("threshold", Right), ("sparsity", Right), ("residual", Right)];
    text += &columns(heads, thresholds.collect());
    let skipped = status.decisions.iter().len().saturating_sub(DECISIONS);
    let decisions = status.decisions.iter().skip(skipped);
    let decisions = decisions.map(|one| [format!("{:.1} s", one.seconds_since_start), printable(&one.what)]);
    text += &columns([("at", Right), ("decision", Left)], decisions.collect());
    text.truncate(text.trim_end().len());
    text
}

fn facts(status: &RunStatus) -> String {
    let mut text = String::new();
    let mut fact = |name: &str, what: String| {
        writeln!(text, "{name:<11} {}", printable(&what)).expect("a string takes everything");
    };
    fact("run", format!("{}, term {}, mode {}", status.run, status.term, status.mode));
    let reason = if status.reason.is_empty() { String::new() } else { format!(": {}", status.reason) };
    fact("phase", format!("{}{reason}", status.phase));
    let share = 100.0 * status.examples_counted as f64 / status.examples.max(1) as f64;
    let (counted, examples) = (status.examples_counted, status.examples);
    fact("epoch", format!("{} of {}, {counted} of {examples} examples ({share:.0} %)", status.epoch, status.epochs));
    fact("round", format!("{}, view {} since round {}", status.round, status.view, status.view_first_round));
    let (joined, lost) = (status.workers_joined, status.workers_lost);
    fact("workers", format!("{} there, {joined} joined, {lost} lost", status.members.len()));
    let (again, aside, back) = (status.rounds_again, status.examples_set_aside, status.rolled_back);
    fact("repeated", format!("{again} rounds again, {aside} examples set aside, {back} times back to a checkpoint"));
    fact("received", HumanBytes(status.bytes_received).to_string());
    if let Some(checkpoint) = &status.checkpoint {
        let ago = time(checkpoint.seconds_ago);
        fact("checkpoint", format!("round {}, {ago} ago, `{}`", checkpoint.round, checkpoint.path));
    }
    if let Some(evaluation) = &status.last_evaluation {
        let accuracy = evaluation.accuracy.map_or_else(String::new, |accuracy| format!(", accuracy {accuracy:.4}"));
        fact("evaluation", format!("epoch {}, score {:.4}{accuracy}", evaluation.epoch, evaluation.score));
    }
    text
}

/// Which side of its column something stands at.
enum Side {
    Left,
    Right,
}

use Side::{Left, Right};

/// A table below an empty line; nothing if it has no rows.
fn columns<const N: usize>(heads: [(&str, Side); N], rows: Vec<[String; N]>) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let names = heads.each_ref().map(|(name, _)| (*name).to_owned());
    let rows = [vec![names], rows].concat();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
    let widths: [usize; N] = std::array::from_fn(width);
    let mut text = String::new();
    for row in &rows {
        let cells = row.iter().zip(&heads).zip(widths).map(|((cell, (_, side)), width)| match side {
            Left => format!("{cell:<width$}"),
            Right => format!("{cell:>width$}"),
        });
        let line: Vec<String> = cells.collect();
        text += "\n";
        text += line.join("  ").trim_end();
    }
    format!("{text}\n")
}

fn time(seconds: f64) -> String {
    match seconds {
        ..10.0 => format!("{seconds:.1} s"),
        ..120.0 => format!("{seconds:.0} s"),
        ..7200.0 => format!("{:.0} min", seconds / 60.0),
        _ => format!("{:.0} h", seconds / 3600.0),
    }
}

/// Text of others without what could move the cursor of a terminal.
pub(super) fn printable(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { '\u{fffd}' } else { letter }).collect()
}
