use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::RunStatus;

/// Where a master writes the state of its run, and others read it. Clones are the same board.
///
/// Neither side waits for the other: readers hold the lock only to count themselves in, and copy after that. Times such as
/// `heard_ms_ago` go on by themselves, so a master says 0 when something happens and no more.
#[derive(Clone)]
pub struct Board(Arc<Mutex<Written>>);

struct Written {
    status: Arc<RunStatus>,
    /// Up to when the times of `status` have gone on.
    at: Instant,
}

impl Default for Board {
    /// The board of a run that has not begun.
    fn default() -> Self {
        Self::new(RunStatus { phase: "waiting".to_owned(), ..RunStatus::default() })
    }
}

impl Board {
    /// A board with this on it.
    pub fn new(status: RunStatus) -> Self {
        Self(Arc::new(Mutex::new(Written { status: Arc::new(status), at: Instant::now() })))
    }

    /// Changes the state. Whoever reads sees all of the change or nothing.
    pub fn update<T>(&self, change: impl FnOnce(&mut RunStatus) -> T) -> T {
        let mut written = self.lock();
        let passed = whole_milliseconds(written.at.elapsed());
        written.at += passed;
        // Copies it only while somebody is reading.
        let status = Arc::make_mut(&mut written.status);
        status.age(passed);
        change(status)
    }

    /// The state as it is now.
    pub fn read(&self) -> RunStatus {
        let (status, at) = {
            let written = self.lock();
            (written.status.clone(), written.at)
        };
        let mut status = RunStatus::clone(&status);
        status.age(at.elapsed());
        status
    }

    fn lock(&self) -> MutexGuard<'_, Written> {
        // It is plain data: a change that panicked halfway leaves nothing that cannot be read.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is left is counted next time: many small times must not become none.
fn whole_milliseconds(time: Duration) -> Duration {
    Duration::from_millis(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::Board;
    use crate::tracker::{CheckpointStatus, MemberStatus, RunStatus};
    use std::sync::mpsc::channel;
    use std::time::{Duration, Instant};

    #[test]
    fn times_go_on_by_themselves_however_often_it_changes() {
        let board = Board::new(RunStatus {
            members: vec![MemberStatus { heard_ms_ago: 100, ..MemberStatus::default() }],
            checkpoint: Some(CheckpointStatus::default()),
            ..RunStatus::default()
        });
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(20) {
            board.update(|status| status.round += 1);
        }
        let read = board.read();
        assert!(read.members[0].heard_ms_ago >= 119, "{read:?}");
        assert!(read.checkpoint.is_some_and(|checkpoint| checkpoint.seconds_ago >= 0.019));
        board.update(|status| status.members[0].heard_ms_ago = 0);
        assert!(board.read().members[0].heard_ms_ago < read.members[0].heard_ms_ago);
    }

    #[test]
    fn times_go_on_while_the_master_says_nothing() {
        let checkpoint = Some(CheckpointStatus::default());
        let board = Board::new(RunStatus { checkpoint, ..RunStatus::default() });
        let ago = || board.read().checkpoint.map(|checkpoint| checkpoint.seconds_ago);
        let (first, begun) = (ago(), Instant::now());
        while begun.elapsed() < Duration::from_millis(2) {}
        assert!(ago() > first);
    }

    #[test]
    fn a_change_is_seen_whole_or_not_at_all() {
        let board = Board::default();
        let (stop, stopped) = channel::<()>();
        let writer = std::thread::spawn({
            let board = board.clone();
            move || {
                while stopped.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {
                    board.update(|status| {
                        status.round += 1;
                        status.members = vec![MemberStatus::default(); (status.round % 7) as usize];
                    });
                }
            }
        });
        let mut last = 0;
        for _ in 0..2_000 {
            let read = board.read();
            assert_eq!(read.members.len() as u64, read.round % 7);
            assert!(read.round >= last);
            last = read.round;
        }
        drop(stop);
        writer.join().expect("it ends");
    }
}
