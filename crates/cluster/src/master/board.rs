//! What the state tracker shows of a term.

use paceline_exchange::rounds::{Now, Told};

use super::term::{Known, Term};
use crate::tracker::{Board, CheckpointStatus, EvaluationStatus, MemberStatus, RunStatus, ThresholdStatus};

/// Writes how things are, as often as the master looks around.
pub(super) fn show(board: &Board, term: &Term, now: Now) {
    let (view, _) = term.machine.view();
    let members: Vec<MemberStatus> = term
        .machine
        .members()
        .into_iter()
        .map(|(id, heard)| MemberStatus {
            name: term.name(id),
            address: term.members.get(&id).map(|member| member.address.clone()).unwrap_or_default(),
            heard_ms_ago: now.saturating_sub(heard),
            round: term.machine.done(id),
            slots: term.members.get(&id).map_or(0, |member| member.slots),
            leases: term.machine.leases_out(id),
        })
        .collect();
    let of = |(worker, known): (&u64, &Known)| {
        let traffic = known.traffic?;
        let (threshold, residual) = (f64::from(traffic.threshold), traffic.residual_mass);
        Some(ThresholdStatus { worker: term.name(*worker), threshold, sparsity: traffic.sparsity, residual })
    };
    let thresholds: Vec<ThresholdStatus> = term.members.iter().filter_map(of).collect();
    board.update(|status| {
        status.phase = term.machine.phase().into();
        status.view = view;
        status.members = members;
        status.thresholds = thresholds;
        status.round = term.machine.counted();
        status.bytes_received = term.tally.bytes_sent;
        if let (Some(checkpoint), Some(saved)) = (&mut status.checkpoint, term.saved) {
            checkpoint.seconds_ago = now.saturating_sub(saved) as f64 / 1e3;
        }
    });
}

/// Writes what the rules have decided, with the reason.
pub(super) fn hear(term: &Term, seconds: f64, told: &Told) {
    term.board.update(|status| {
        let mut decide = |what: String| status.decisions.push(seconds, &what);
        match told {
            Told::WorkerJoined(worker) => {
                decide(format!("worker {} joined", term.name(*worker)));
                status.workers_joined += 1;
            }
            Told::WorkerLost { member, reason } => {
                decide(format!("worker {} was lost: {reason}", term.name(*member)));
                status.workers_lost += 1;
            }
            Told::View { view, members, first, reason } => {
                decide(format!("view {view} of {} workers from round {first} on: {reason}", members.len()));
                (status.view_first_round, status.reason) = (*first, reason.clone());
            }
            Told::RoundAgain { round } => {
                decide(format!("round {round} is taken again without those that were lost"));
                status.rounds_again += 1;
            }
            Told::Counted { assignment, .. } => {
                begin_epoch(status, assignment.epoch);
                status.examples_counted += assignment.examples();
            }
            Told::Shared { epoch, spans, .. } => {
                begin_epoch(status, *epoch);
                status.examples_counted += spans.iter().map(|span| span.len()).sum::<u64>();
            }
            Told::TakenBack { member, spans, .. } => {
                let examples: u64 = spans.iter().map(|span| span.len()).sum();
                let who = term.name(*member);
                decide(format!("{examples} examples of worker {who} count no more: all who held them are lost"));
                status.examples_counted -= examples.min(status.examples_counted);
            }
            Told::LeaseAgain { member, examples } => {
                decide(format!("{examples} examples that worker {} had been given come again", term.name(*member)));
                status.rounds_again += 1;
            }
            Told::EpochDone { epoch, round } => decide(format!("epoch {} ended with round {round}", epoch + 1)),
            Told::SetAside { epoch, spans } => {
                let examples: u64 = spans.iter().map(|span| span.len()).sum();
                decide(format!(
                    "{examples} examples of epoch {} were lost with two workers and are left out",
                    epoch + 1
                ));
                status.examples_set_aside += examples;
            }
            Told::RolledBack { to, from, .. } => {
                decide(format!("nobody holds round {from}: back to the checkpoint of round {to}"));
                status.rolled_back += 1;
            }
            Told::WorkerRefused { member, reason } => {
                decide(format!("worker {} was refused: {reason}", term.name(*member)));
            }
            Told::Waiting(missing) => {
                status.reason = format!("waiting for {}", missing.name());
            }
            Told::Paused(paused) => {
                decide(if *paused { "paused" } else { "going on" }.into());
                status.reason = if *paused { "paused by an order" } else { "resumed by an order" }.into();
            }
            Told::NotSaved { round, reason } => decide(format!("round {round} could not be saved: {reason}")),
        }
    });
}

/// An epoch, counted from 0 by the rules and from 1 for people, may be another than the last.
fn begin_epoch(status: &mut RunStatus, epoch: u64) {
    if status.epoch != epoch + 1 {
        (status.epoch, status.examples_counted) = (epoch + 1, 0);
    }
}

/// A checkpoint stands.
pub(super) fn saved(board: &Board, round: u64, path: &std::path::Path) {
    let path = path.display().to_string();
    board.update(|status| status.checkpoint = Some(CheckpointStatus { round, path, seconds_ago: 0.0 }));
}

/// The model was judged.
pub(super) fn judged(board: &Board, epoch: u64, scores: &paceline_train::Scores) {
    let evaluation = EvaluationStatus { epoch: epoch + 1, score: scores.score(), accuracy: scores.accuracy() };
    board.update(|status| status.last_evaluation = Some(evaluation));
}
