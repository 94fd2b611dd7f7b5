//! Reads the minibatches of a team on a thread of its own, ahead of when they are needed.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, Sender, unbounded};
use paceline_data::Loader;
use paceline_exchange::rounds::{Span, Steps};
use paceline_model::{Batch, slice_of};

use crate::Error;
use crate::team::panic_message;

/// One step: an epoch, and places in its order.
type Step = (u64, Vec<Span>);

/// Minibatches of the slots of a team, one for each.
pub(super) struct Reader {
    /// What was asked for and not taken yet, in order.
    asked: VecDeque<Step>,
    /// Closed by taking it, which ends the thread.
    requests: Option<Sender<(Step, Vec<Batch>)>>,
    ready: Receiver<Result<Vec<Batch>, Error>>,
    spare: Vec<Vec<Batch>>,
    slots: usize,
    thread: Option<JoinHandle<()>>,
}

impl Reader {
    pub(super) fn start(loader: Loader, slots: usize) -> Result<Self, Error> {
        // Both hold no more than was asked for, which is two rounds at most.
        let (requests, inbox) = unbounded::<(Step, Vec<Batch>)>();
        let (outbox, ready) = unbounded();
        let work = move || {
            for ((epoch, spans), mut batches) in inbox {
                let read = catch_unwind(AssertUnwindSafe(|| read(&loader, epoch, &spans, &mut batches)));
                let read = read.unwrap_or_else(|panic| Err(Error::ReaderPanicked { message: panic_message(&*panic) }));
                if outbox.send(read.map(|()| batches)).is_err() {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("paceline-reader".into()).spawn(work);
        let thread = Some(thread.map_err(|source| Error::WorkerThread { source })?);
        Ok(Self { asked: VecDeque::new(), requests: Some(requests), ready, spare: Vec::new(), slots, thread })
    }

    /// Asks for the steps that come next, unless they were asked for.
    pub(super) fn expect(&mut self, steps: &Steps) {
        let wanted = steps.slice.iter().map(|spans| (steps.epoch, spans.clone()));
        for step in wanted.filter(|(_, spans)| !spans.is_empty()) {
            if !self.asked.contains(&step) {
                self.ask(step);
            }
        }
    }

    /// The minibatches of a step, cut for the slots; what was read for nothing is forgotten.
    pub(super) fn take(&mut self, epoch: u64, spans: &[Span]) -> Result<Vec<Batch>, Error> {
        let is_it = |(of, asked): &Step| *of == epoch && asked == spans;
        while self.asked.front().is_some_and(|step| !is_it(step)) && self.asked.iter().any(is_it) {
            let void = self.next()?;
            self.give_back(void);
        }
        if !self.asked.front().is_some_and(is_it) {
            while !self.asked.is_empty() {
                let void = self.next()?;
                self.give_back(void);
            }
            self.ask((epoch, spans.to_vec()));
        }
        self.next()
    }

    /// Gives buffers back, to be filled again.
    pub(super) fn give_back(&mut self, batches: Vec<Batch>) {
        self.spare.push(batches);
    }

    fn ask(&mut self, step: Step) {
        let slots = self.slots;
        let batches = self.spare.pop().unwrap_or_else(|| (0..slots).map(|_| Batch::empty()).collect());
        self.asked.push_back(step.clone());
        // Without the thread there is nothing to receive, which says so.
        let _ = self.requests.as_ref().map(|requests| requests.send((step, batches)));
    }

    fn next(&mut self) -> Result<Vec<Batch>, Error> {
        self.asked.pop_front();
        let gone = || Error::ReaderPanicked { message: "the thread that reads is gone".into() };
        self.ready.recv().map_err(|_| gone())?
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.requests = None;
        if let Some(thread) = self.thread.take() {
            // A panic was caught where it happened.
            let _ = thread.join();
        }
    }
}

/// Cuts the examples of a step into slices, one for each slot, and reads them.
fn read(loader: &Loader, epoch: u64, spans: &[Span], batches: &mut [Batch]) -> Result<(), Error> {
    let (total, slots) = (spans.iter().map(Span::len).sum(), batches.len() as u64);
    let mut places = spans.iter().flat_map(|span| span.start..span.end);
    for (slot, batch) in (0..).zip(batches) {
        let slice = slice_of(total, slot..slot + 1, slots);
        loader.read(epoch, places.by_ref().take((slice.end - slice.start) as usize), batch)?;
    }
    Ok(())
}
