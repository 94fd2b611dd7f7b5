//! The memory that a run needs, held against the memory there is before anything is allocated.

use std::fs::read_to_string;
use std::path::Path;

use paceline_nn::Engine;

use crate::{Error, Mode, Trainer};

impl Trainer {
    /// Bytes that the run needs at least: parameters, gradients and optimizer state, the copies of them that are made when it begins and
    /// for a checkpoint, and the activations of a step.
    pub fn memory_needed(&self) -> usize {
        let (network, options) = (&self.network, &self.options);
        let workers = options.workers.max(1);
        let state = 1 + network.slots();
        // When a run begins, every worker has a state and a gradient beside the first state.
        let at_begin = workers.saturating_add(1).saturating_mul(state).saturating_add(workers + 1);
        // Replicas of `sync` share their parameters; others have their own. A checkpoint takes a copy.
        let states = if matches!(options.mode, Mode::Solo | Mode::Sync) { 1 } else { workers };
        let at_checkpoint = states.saturating_mul(state).saturating_add(workers).saturating_add(state + 1);
        let numbers = network.parameter_count().saturating_mul(at_begin.max(at_checkpoint));
        let numbers = numbers.saturating_add(network.running_count());
        let share = options.step_examples().min(self.train.examples()).div_ceil(workers);
        let share = options.micro_batch.map_or(share, |micro| micro.min(share)).max(1);
        let step = Engine::new(network.clone()).step_bytes(share).saturating_mul(workers);
        numbers.saturating_mul(4).saturating_add(step)
    }

    /// Fails if the run needs more memory than this process can have, unless its options try all the same.
    pub fn expect_memory(&self) -> Result<(), Error> {
        if self.options.force { Ok(()) } else { expect(self.memory_needed() as u64, true) }
    }

    /// Fails if one worker of a run on many machines needs more memory than this process can have, with so many slots: they share
    /// their parameters.
    pub fn expect_memory_of_slots(&self, slots: usize) -> Result<(), Error> {
        let of_slot =
            Engine::new(self.network.clone()).step_bytes(self.options.batch.min(self.train.examples()).max(1));
        let numbers = self.network.parameter_count().saturating_mul(2 + self.network.slots());
        expect(numbers.saturating_mul(4).saturating_add(of_slot.saturating_mul(slots)) as u64, false)
    }
}

impl Trainer {
    /// Fails if the master of a run on many machines needs more memory than this process can have: the state, and its bytes as members
    /// get them.
    pub fn expect_memory_of_master(&self) -> Result<(), Error> {
        let numbers = self.network.parameter_count().saturating_mul(1 + self.network.slots());
        expect(numbers.saturating_mul(4).saturating_mul(2) as u64, false)
    }
}

/// Fails if so many bytes are more than this process can have; `can_force`: an option makes the caller try all the same.
pub(crate) fn expect(needed: u64, can_force: bool) -> Result<(), Error> {
    match available() {
        Some(available) if needed > available => Err(Error::NotEnoughMemory { needed, available, can_force }),
        _ => Ok(()),
    }
}

/// Bytes that this process can still have: those of the machine, of a control group that it is in, or of its own limit (`ulimit -v`),
/// whichever are fewest. None where the system does not say.
fn available() -> Option<u64> {
    let of_machine = read_to_string("/proc/meminfo").ok().and_then(|text| kibibytes(&text, "MemAvailable:"));
    let groups = read_to_string("/proc/self/cgroup").unwrap_or_default();
    let of_groups = groups.lines().filter_map(|line| {
        let (controllers, group) = line.split_once(':')?.1.split_once(':')?;
        let group = Path::new(group.trim_start_matches('/'));
        let root = Path::new("/sys/fs/cgroup");
        // A group above may have the lower limit.
        match controllers {
            "" => group.ancestors().filter_map(|group| of_group(&root.join(group), Version::Two)).min(),
            "memory" => {
                let root = root.join("memory");
                group.ancestors().filter_map(|group| of_group(&root.join(group), Version::One)).min()
            }
            _ => None,
        }
    });
    let limits = read_to_string("/proc/self/limits").unwrap_or_default();
    let of_process = of_limits(&limits, &read_to_string("/proc/self/status").unwrap_or_default());
    of_machine.into_iter().chain(of_groups).chain(of_process).min()
}

/// The address space that a process has left, if it has a limit: from its `limits` and `status` in `/proc`.
fn of_limits(limits: &str, status: &str) -> Option<u64> {
    let limit = limits.lines().find_map(|line| line.strip_prefix("Max address space"))?;
    let limit = limit.split_whitespace().next()?.parse::<u64>().ok()?;
    Some(limit.saturating_sub(kibibytes(status, "VmSize:")?))
}

/// The version of control groups, which decides the names of their files.
#[derive(Clone, Copy)]
enum Version {
    One,
    Two,
}

/// The bytes of a line such as `MemAvailable:  2048 kB`.
fn kibibytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

fn of_group(folder: &Path, version: Version) -> Option<u64> {
    let [limit, usage, inactive] = match version {
        Version::One => ["memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file "],
        Version::Two => ["memory.max", "memory.current", "inactive_file "],
    };
    let number = |name: &str| read_to_string(folder.join(name)).ok()?.trim().parse::<u64>().ok();
    // Pages of files that nobody uses are given back before anything is refused.
    let statistics = read_to_string(folder.join("memory.stat")).unwrap_or_default();
    let given_back = statistics.lines().find_map(|line| line.strip_prefix(inactive)?.trim().parse::<u64>().ok());
    let used = number(usage).unwrap_or(0).saturating_sub(given_back.unwrap_or(0));
    // Without a limit the file says `max`, or a number beyond all memory.
    number(limit).map(|limit| limit.saturating_sub(used))
}

#[cfg(test)]
mod tests {
    use super::{Version, kibibytes, of_group, of_limits};

    #[test]
    fn memory_is_that_of_the_machine_or_of_its_control_group() {
        assert_eq!(kibibytes("MemTotal: 9 kB\nMemAvailable:   2048 kB\n", "MemAvailable:"), Some(2 << 20));
        let limits = |soft: &str| {
            format!("Limit   Soft Limit  Hard Limit  Units\nMax address space   {soft}   unlimited   bytes\n")
        };
        assert_eq!(of_limits(&limits("5000000"), "VmPeak: 9999 kB\nVmSize:  1000 kB\n"), Some(3_976_000));
        assert_eq!(of_limits(&limits("unlimited"), "VmSize:  1000 kB\n"), None);
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).expect("written");
        write("memory.max", "max\n");
        write("memory.current", "1000\n");
        assert_eq!(of_group(folder.path(), Version::Two), None);
        write("memory.max", "5000\n");
        assert_eq!(of_group(folder.path(), Version::Two), Some(4000));
        write("memory.stat", "file 900\nactive_file 200\ninactive_file 700\n");
        assert_eq!(of_group(folder.path(), Version::Two), Some(4700));
    }
}
