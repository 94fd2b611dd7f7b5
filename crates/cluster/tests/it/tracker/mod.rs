//! The state of a run over HTTP, over real sockets.

mod access;
mod http;
mod limits;
mod metrics;
mod routes;

use crossbeam_channel::{Receiver, bounded};
use paceline_cluster::tracker::{
    Board, CheckpointStatus, EvaluationStatus, MemberStatus, RunStatus, ThresholdStatus, Tracker, TrackerOptions,
};
use paceline_exchange::rounds::Operator;

/// A tracker, the board that it shows, and where its orders go.
struct Shown {
    tracker: Tracker,
    board: Board,
    orders: Receiver<Operator>,
}

impl Shown {
    fn start(options: TrackerOptions) -> Self {
        let (commands, orders) = bounded(4);
        let board = Board::new(status());
        let tracker = Tracker::start(options, board.clone(), commands).expect("a free port");
        Self { tracker, board, orders }
    }

    fn address(&self) -> &str {
        self.tracker.address()
    }
}

/// A state in which no field is nothing, with text that needs care.
fn status() -> RunStatus {
    let mut status = RunStatus {
        run: "5f0c".to_owned(),
        term: 2,
        phase: "running".to_owned(),
        reason: "2 workers are there".to_owned(),
        mode: "averaging".to_owned(),
        view: 7,
        view_first_round: 300,
        members: vec![
            MemberStatus {
                name: "node7/3".to_owned(),
                address: "10.0.0.2:4711".to_owned(),
                heard_ms_ago: 120,
                round: 318,
                slots: 2,
                leases: 1,
            },
            MemberStatus {
                name: "5".to_owned(),
                address: "a \"b\" \\ c\nd".to_owned(),
                heard_ms_ago: 0,
                round: 317,
                slots: 1,
                leases: 2,
            },
        ],
        epoch: 2,
        epochs: 5,
        round: 317,
        examples_counted: 12_800,
        examples: 60_000,
        rounds_again: 4,
        examples_set_aside: 64,
        rolled_back: 1,
        workers_joined: 6,
        workers_lost: 3,
        bytes_received: 123_456_789,
        checkpoint: Some(CheckpointStatus { round: 300, path: "runs/x/checkpoint".to_owned(), seconds_ago: 12.5 }),
        last_evaluation: Some(EvaluationStatus { epoch: 1, score: 0.125, accuracy: Some(0.975) }),
        thresholds: vec![ThresholdStatus {
            worker: "node7/3".to_owned(),
            threshold: 0.001,
            sparsity: 0.002,
            residual: f64::INFINITY,
        }],
        ..RunStatus::default()
    };
    status.decisions.push(0.5, "worker 3 joined");
    status.decisions.push(9.25, "view 7: worker 4 was silent for 5 s");
    status
}
