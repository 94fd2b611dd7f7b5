use std::time::Duration;

use paceline_exchange::rounds::Slots;
use serde::{Deserialize, Deserializer, Serialize};

use super::Decisions;

/// What the phase of a run can be called.
pub const PHASES: [&str; 6] = ["waiting", "preparing", "running", "paused", "ended", "standby"];

/// The state of a run, as its master knows it: plain data, and in JSON the answer to `GET /status`.
///
/// Fields that an older master does not tell are read as nothing; those that this version does not know are passed over.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunStatus {
    /// The run, in hexadecimal.
    pub run: String,
    /// The term of its master.
    pub term: u64,
    /// What it does, one of [`PHASES`].
    pub phase: String,
    /// Why it does that.
    pub reason: String,
    /// How its workers stay together: `sync`, `averaging` or `shared`.
    pub mode: String,
    /// The number of the view.
    pub view: u64,
    /// The first round of the view.
    pub view_first_round: u64,
    /// Who is there.
    pub members: Vec<MemberStatus>,
    /// The epoch that is trained, from 1.
    pub epoch: u64,
    /// How many there will be.
    pub epochs: u64,
    /// The last round that counts; in `shared`, the examples that count.
    pub round: u64,
    /// Examples of this epoch that count.
    pub examples_counted: u64,
    /// Examples of an epoch.
    pub examples: u64,
    /// Rounds, or leases, that were taken again without a worker that was lost.
    pub rounds_again: u64,
    /// Examples that were set aside because they were lost with two workers.
    pub examples_set_aside: u64,
    /// How often the run went back to a checkpoint.
    pub rolled_back: u64,
    /// Workers that have joined.
    pub workers_joined: u64,
    /// Workers that were lost.
    pub workers_lost: u64,
    /// Bytes that the master has received.
    pub bytes_received: u64,
    /// The last checkpoint.
    pub checkpoint: Option<CheckpointStatus>,
    /// What the last evaluation said.
    pub last_evaluation: Option<EvaluationStatus>,
    /// What each worker of mode `shared` sends.
    pub thresholds: Vec<ThresholdStatus>,
    /// What was decided lately.
    pub decisions: Decisions,
}

/// One worker.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MemberStatus {
    /// What it is called: its host and its number.
    pub name: String,
    /// Where it is.
    pub address: String,
    /// Milliseconds since it was last heard of.
    pub heard_ms_ago: u64,
    /// The last round that it has completed; in `shared`, the last lease.
    pub round: u64,
    /// Workers that it stands for.
    pub slots: Slots,
    /// Leases that it holds and is not known to have done.
    pub leases: usize,
}

/// A checkpoint.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CheckpointStatus {
    /// The round that it holds.
    pub round: u64,
    /// Where it is.
    pub path: String,
    /// Seconds since it was written.
    pub seconds_ago: f64,
}

/// What an evaluation said. A score that is not finite is `null` in JSON.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct EvaluationStatus {
    /// After which epoch, from 1.
    pub epoch: u64,
    /// The mean loss.
    #[serde(deserialize_with = "number")]
    pub score: f64,
    /// The share of right answers, if there are classes.
    pub accuracy: Option<f64>,
}

/// What a worker of mode `shared` sends. A number that is not finite is `null` in JSON.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ThresholdStatus {
    /// What the worker is called.
    pub worker: String,
    /// From which magnitude on elements are sent.
    #[serde(deserialize_with = "number")]
    pub threshold: f64,
    /// The share of elements that were sent.
    #[serde(deserialize_with = "number")]
    pub sparsity: f64,
    /// The L1 norm of what was not sent.
    #[serde(deserialize_with = "number")]
    pub residual: f64,
}

/// JSON has no word for what is not a number: a score of a run that has diverged comes as `null`.
fn number<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or(f64::NAN))
}

impl RunStatus {
    /// Lets time pass: whatever happened some time ago, happened longer ago.
    pub(super) fn age(&mut self, by: Duration) {
        let milliseconds = u64::try_from(by.as_millis()).unwrap_or(u64::MAX);
        for member in &mut self.members {
            member.heard_ms_ago = member.heard_ms_ago.saturating_add(milliseconds);
        }
        if let Some(checkpoint) = &mut self.checkpoint {
            checkpoint.seconds_ago += by.as_secs_f64();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{EvaluationStatus, RunStatus};

    #[test]
    fn a_run_that_has_diverged_can_still_be_read() {
        let evaluation = EvaluationStatus { epoch: 3, score: f64::NAN, accuracy: Some(0.5) };
        let status = RunStatus { last_evaluation: Some(evaluation), ..RunStatus::default() };
        let text = serde_json::to_string(&status).expect("plain data");
        assert!(text.contains(r#""score":null"#), "{text}");
        let read: RunStatus = serde_json::from_str(&text).expect("it was written just now");
        assert!(read.last_evaluation.is_some_and(|evaluation| evaluation.score.is_nan()));
    }

    #[test]
    fn other_versions_are_read() {
        let read: RunStatus = serde_json::from_str(r#"{ "run": "ab", "of_the_future": [1, 2] }"#).expect("a status");
        assert_eq!(read, RunStatus { run: "ab".to_owned(), ..RunStatus::default() });
    }
}
