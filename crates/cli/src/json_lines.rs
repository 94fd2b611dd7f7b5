//! JSON lines on standard output, written by a thread of their own: a reader that stops reading stops no training.

use std::io::{ErrorKind, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use anyhow::{Result, bail};

/// Lines that wait for a slow reader; what comes when so many do is lost.
const MOST_WAITING: usize = 65_536;
/// How long a reader is waited for at the end.
const LINGER: Duration = Duration::from_secs(10);

pub(crate) struct JsonLines {
    queue: SyncSender<String>,
    outcome: Receiver<std::io::Result<()>>,
    lost: u64,
}

impl JsonLines {
    pub(crate) fn new() -> Self {
        let (queue, lines) = sync_channel(MOST_WAITING);
        let (done, outcome) = sync_channel(1);
        std::thread::spawn(move || done.send(write(&lines)));
        Self { queue, outcome, lost: 0 }
    }

    /// Writes a line soon.
    pub(crate) fn say(&mut self, line: String) {
        self.lost += u64::from(self.queue.try_send(line).is_err());
    }

    /// Waits until all is written; fails if something could not be.
    pub(crate) fn finish(self) -> Result<()> {
        drop(self.queue);
        match self.outcome.recv_timeout(LINGER) {
            Ok(Err(error)) => bail!("not all events could be written to standard output: {error}"),
            Err(RecvTimeoutError::Timeout) => bail!("nobody reads the events on standard output"),
            _ if self.lost > 0 => bail!("{} events were lost: nobody read them from standard output", self.lost),
            _ => Ok(()),
        }
    }
}

/// Writes what comes. A reader that went away is no failure; a full disk is, but more may come later.
fn write(lines: &Receiver<String>) -> std::io::Result<()> {
    let mut outcome = Ok(());
    for line in lines {
        let mut out = std::io::stdout().lock();
        match writeln!(out, "{line}").and_then(|()| out.flush()) {
            Err(error) if error.kind() != ErrorKind::BrokenPipe && outcome.is_ok() => outcome = Err(error),
            _ => {}
        }
    }
    outcome
}
