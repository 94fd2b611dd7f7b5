//! A state that is too long for memory goes from worker to worker, and to the master, through temporary files.
//!
//! A gigabyte here; `PACELINE_STATE_GIB=5 cargo test --release --test system large_state` tries more.

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use paceline::nn::Registry;
use paceline_cluster::loops::Ready;
use paceline_cluster::wire::JobText;
use paceline_cluster::{ClusterError, Slots, Target, WorkerEvent, WorkerOptions, read_job, run_worker_with};
use paceline_data::OpenOptions;
use paceline_exchange::Bulk;
use paceline_exchange::rounds::Steps;
use paceline_exchange::sharing::Encodes;
use paceline_model::{Loss, Progress};
use paceline_train::{Contributed, Error, Layout, Parts, Replica, SharedStep, Sink, SlotShare, Stop, Traffic};

use crate::masters::{address, master};

/// Bytes that memory may grow by while a state travels, of whatever size it is.
const MAY_GROW: u64 = 512 << 20;
/// What takes a step takes so long: an epoch must be longer than a state takes.
const STEP: Duration = Duration::from_millis(20);

/// Bytes of a state.
fn length() -> u64 {
    std::env::var("PACELINE_STATE_GIB").map_or(1, |text| text.parse().expect("whole gigabytes")) << 30
}

/// The replicas that took over a long state, each number of which was what it should be.
static TAKEN: AtomicU64 = AtomicU64::new(0);

/// Computes nothing, and is very large: its state is made when it is asked for, of the number of its last commit.
struct Large {
    layout: Layout,
    commits: u64,
}

impl Large {
    #[expect(clippy::result_large_err, reason = "it is what a worker is given")]
    fn make(
        job: JobText,
        slots: Slots,
        open: &OpenOptions,
        registry: &Registry,
    ) -> Result<(Ready, Box<dyn Replica>), ClusterError> {
        let (ready, _) = read_job(job, slots, open, registry)?;
        let large = Self { layout: ready.layout, commits: 0 };
        Ok((ready, Box::new(large)))
    }

    /// A stretch of the state.
    fn fill(commits: u64, block: u64, to: &mut [u8]) {
        for (at, four) in (0u32..).zip(to.as_chunks_mut::<4>().0) {
            let value = at.wrapping_mul(2_654_435_761).wrapping_add(block as u32) >> 9;
            *four = (value as f32 + commits as f32).to_le_bytes();
        }
        to[..4].copy_from_slice(&(commits as f32).to_le_bytes());
    }
}

const BLOCK: usize = 1 << 20;
/// A run without any tells no steps.
const LOSS: Loss = Loss { sum: 1.0, weight: 1.0 };

impl Replica for Large {
    fn layout(&self) -> Layout {
        self.layout
    }

    fn expect(&mut self, _: &Steps) {}

    fn step_alone(&mut self, _: &Steps) -> Result<Loss, Error> {
        std::thread::sleep(STEP);
        self.commits += 1;
        Ok(LOSS)
    }

    fn contribute(&mut self, _: &Steps, out: &Arc<dyn Sink>) -> Result<Option<Contributed>, Error> {
        std::thread::sleep(STEP);
        out.begin(1.0);
        out.put(0..self.layout.width(), &vec![0.0; self.layout.width()]);
        Ok(Some(Contributed { weight: 1.0, loss: LOSS }))
    }

    fn go_ahead(&mut self, _: &Steps, _: &dyn Fn() -> bool) -> Result<(), Error> {
        unreachable!("rounds do not overlap")
    }

    fn drop_ahead(&mut self) {}

    fn commit(
        &mut self,
        _: Progress,
        _: &Arc<dyn Parts>,
        _: f64,
        _: Option<&Arc<dyn Sink>>,
    ) -> Result<Option<Contributed>, Error> {
        self.commits += 1;
        Ok(None)
    }

    fn share(&mut self, _: &Steps, _: SlotShare, _: Encodes) -> Result<SharedStep, Error> {
        unreachable!("not in `sync`")
    }

    fn take(&mut self, _: &[u8]) -> Result<(), Error> {
        unreachable!("not in `sync`")
    }

    fn running(&self) -> &[f32] {
        &[]
    }

    fn meet_running(&mut self, _: &[f32], _: SlotShare) {}

    fn traffic(&mut self) -> Option<Traffic> {
        None
    }

    fn snapshot(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut bytes = vec![0; BLOCK];
        for block in 0..length() / BLOCK as u64 {
            Self::fill(self.commits, block, &mut bytes);
            out.write_all(&bytes)?;
        }
        Ok(())
    }

    fn adopt(&mut self, state: &Bulk, _: Option<&[&[u8]]>) -> Result<(), String> {
        if state.len() < length() {
            // What the master begins with is of an ordinary network.
            self.commits = 0;
            return Ok(());
        }
        let (mut reader, mut bytes, mut expected) = (state.reader(), vec![0; BLOCK], vec![0; BLOCK]);
        for block in 0..length() / BLOCK as u64 {
            reader.read_exact(&mut bytes).map_err(|error| error.to_string())?;
            if block == 0 {
                self.commits = f32::from_le_bytes(bytes[..4].try_into().expect("four bytes")) as u64;
            }
            Self::fill(self.commits, block, &mut expected);
            if bytes != expected {
                return Err(format!("expected block {block} as it was made, found another one"));
            }
        }
        TAKEN.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
}

/// Resident bytes of a process.
fn resident(process: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line about memory");
    1024 * line.trim().trim_end_matches(" kB").trim().parse::<u64>().expect("kilobytes")
}

/// All threads end, also when the test fails.
struct Ends<'a>(&'a Stop, &'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.ask();
        self.1.store(true, Ordering::SeqCst);
    }
}

fn options(address: &str) -> WorkerOptions {
    WorkerOptions { patience: Duration::from_secs(5), ..WorkerOptions::new(Target::Address(address.to_owned())) }
}

#[test]
#[expect(clippy::print_stdout, reason = "with `--nocapture` it is a measurement")]
fn a_state_that_is_too_long_for_memory_joins_with_little_of_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let settings = ["--min-workers", "1", "--set", "data.global_batch=2", "--set", "train.checkpoint.steps=100000"];
    let mut master = master(folder.path(), &[&settings[..], &["--set", "train.epochs=100"]].concat());
    let address = address(&mut master);
    let stop = Stop::default();
    let (most, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let ends = Ends(&stop, &is_over);
        let (seen, sees) = crossbeam_channel::unbounded();
        let start = |name: &'static str| {
            let (options, stop, seen) = (options(&address), stop.clone(), seen.clone());
            scope.spawn(move || {
                let mut tell = |event: &WorkerEvent| {
                    if let WorkerEvent::View { members, .. } = event {
                        // The other end is gone when the test has failed.
                        let _ = seen.send((name, members.len()));
                    }
                };
                run_worker_with(&options, Large::make, &stop, &mut tell).expect("it works to the end")
            });
        };
        start("one");
        assert_eq!(sees.recv_timeout(Duration::from_secs(30)), Ok(("one", 1)), "it is alone");
        master.wait_for("step");
        let before = resident("self");
        let began = Instant::now();
        scope.spawn(|| {
            while !is_over.load(Ordering::SeqCst) {
                most.fetch_max(resident("self"), Ordering::SeqCst);
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        start("two");
        let until = began + Duration::from_secs(300);
        while TAKEN.load(Ordering::SeqCst) == 0 && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(20));
        }
        let grown = most.load(Ordering::SeqCst).saturating_sub(before);
        let seconds = began.elapsed().as_secs_f64();
        println!("{} bytes in {seconds:.1} s, both ends grew by {} MiB", length(), grown >> 20);
        drop(ends);
        assert_eq!(TAKEN.load(Ordering::SeqCst), 1, "it took over the state as it was made");
        assert!(grown < MAY_GROW, "both ends together grew by {grown} bytes");
    });
}
