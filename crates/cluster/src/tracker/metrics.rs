use super::exposition::{Exposition, Kind, Sample};
use super::{MemberStatus, PHASES, RunStatus, ThresholdStatus};

/// The state for Prometheus, which has no integers: beyond 2^53 a part in 10^16 is lost.
pub(super) fn metrics(status: &RunStatus) -> String {
    use Kind::{Counter, Gauge};

    let mut text = Exposition::default();
    let info = vec![("run", status.run.as_str()), ("mode", status.mode.as_str())];
    text.family(Gauge, "paceline_run_info", "The run and its mode; always 1.", [(info, 1.0)]);
    // A phase that this version does not know is shown beside those that it knows.
    let unknown = Some(status.phase.as_str()).filter(|phase| !phase.is_empty() && !PHASES.contains(phase));
    let phases = PHASES.into_iter().chain(unknown);
    let phases = phases.map(|phase| (vec![("phase", phase)], f64::from(u8::from(phase == status.phase))));
    text.family(Gauge, "paceline_phase", "1 for the phase that the run is in, 0 for the others.", phases);

    let facts: [(Kind, &str, &str, u64); 15] = [
        (Gauge, "paceline_term", "Term of the master.", status.term),
        (Gauge, "paceline_view", "Number of the view.", status.view),
        (Gauge, "paceline_view_first_round", "First round of the view.", status.view_first_round),
        (Gauge, "paceline_workers", "Workers that are there.", status.members.len() as u64),
        (Gauge, "paceline_epoch", "Epoch that is trained, from 1.", status.epoch),
        (Gauge, "paceline_epochs", "Epochs that there will be.", status.epochs),
        (Gauge, "paceline_round", "Last round that counts.", status.round),
        (Gauge, "paceline_epoch_examples_counted", "Examples of this epoch that count.", status.examples_counted),
        (Gauge, "paceline_epoch_examples", "Examples of an epoch.", status.examples),
        (Counter, "paceline_rounds_again_total", "Rounds taken again without a lost worker.", status.rounds_again),
        (
            Counter,
            "paceline_examples_set_aside_total",
            "Examples set aside because they were lost with two workers.",
            status.examples_set_aside,
        ),
        (Counter, "paceline_rolled_back_total", "Times the run went back to a checkpoint.", status.rolled_back),
        (Counter, "paceline_workers_joined_total", "Workers that have joined.", status.workers_joined),
        (Counter, "paceline_workers_lost_total", "Workers that were lost.", status.workers_lost),
        (Counter, "paceline_received_bytes_total", "Bytes that the master has received.", status.bytes_received),
    ];
    for (kind, name, help, value) in facts {
        text.single(kind, name, help, value as f64);
    }

    let members = |value: fn(&MemberStatus) -> f64| {
        status.members.iter().map(move |member| -> Sample<'_> {
            (vec![("worker", member.name.as_str()), ("address", member.address.as_str())], value(member))
        })
    };
    let heard = members(|member| member.heard_ms_ago as f64 / 1e3);
    text.family(Gauge, "paceline_worker_heard_seconds", "Seconds since a worker was last heard of.", heard);
    let rounds = members(|member| member.round as f64);
    text.family(Gauge, "paceline_worker_round", "Last round that a worker has completed.", rounds);
    let slots = members(|member| f64::from(member.slots));
    text.family(Gauge, "paceline_worker_slots", "Workers that a worker process stands for.", slots);

    if let Some(checkpoint) = &status.checkpoint {
        text.single(Gauge, "paceline_checkpoint_round", "Round of the last checkpoint.", checkpoint.round as f64);
        let help = "Seconds since the last checkpoint was written.";
        text.single(Gauge, "paceline_checkpoint_age_seconds", help, checkpoint.seconds_ago);
    }
    if let Some(evaluation) = &status.last_evaluation {
        text.single(Gauge, "paceline_evaluation_epoch", "Epoch of the last evaluation.", evaluation.epoch as f64);
        text.single(Gauge, "paceline_evaluation_score", "Mean loss of the last evaluation.", evaluation.score);
        let accuracy = evaluation.accuracy.map(|accuracy| (Vec::new(), accuracy));
        text.family(Gauge, "paceline_evaluation_accuracy", "Share of right answers of the last evaluation.", accuracy);
    }

    let thresholds = |value: fn(&ThresholdStatus) -> f64| {
        status.thresholds.iter().map(move |of| -> Sample<'_> { (vec![("worker", of.worker.as_str())], value(of)) })
    };
    let (threshold, sparsity) = (thresholds(|of| of.threshold), thresholds(|of| of.sparsity));
    text.family(Gauge, "paceline_threshold", "Magnitude from which on a worker sends an element.", threshold);
    text.family(Gauge, "paceline_threshold_sparsity", "Share of elements that a worker sent.", sparsity);
    let residual = thresholds(|of| of.residual);
    text.family(Gauge, "paceline_threshold_residual", "L1 norm of what a worker has not sent.", residual);
    text.into_text()
}
