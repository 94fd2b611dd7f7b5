//! The memory that a run needs, held against the memory there is before anything is allocated.

use std::fs::read_to_string;
use std::path::Path;

use paceline_nn::Engine;

use crate::{Error, Mode, Trainer};

impl Trainer {
    /// Bytes that the run needs at least: parameters, gradient and optimizer state, and the activations of a step.
    pub fn memory_needed(&self) -> usize {
        let (network, options) = (&self.network, &self.options);
        let numbers =
            network.parameter_count().saturating_mul(2 + network.slots()).saturating_add(network.running_count());
        let workers = options.workers.max(1);
        // Replicas of `sync` share their parameters; others have their own.
        let states = if matches!(options.mode, Mode::Solo | Mode::Sync) { 1 } else { workers };
        let share = options.step_examples().min(self.train.examples()).div_ceil(workers);
        let share = options.micro_batch.map_or(share, |micro| micro.min(share)).max(1);
        let step = Engine::new(network.clone()).step_bytes(share).saturating_mul(workers);
        numbers.saturating_mul(4).saturating_mul(states).saturating_add(step)
    }

    /// Fails if the run needs more memory than this process can have.
    pub fn expect_memory(&self) -> Result<(), Error> {
        let needed = self.memory_needed() as u64;
        match available() {
            Some(available) if needed > available => Err(Error::NotEnoughMemory { needed, available }),
            _ => Ok(()),
        }
    }
}

/// Bytes that this process can still have: those of the machine, or of its control group if these are fewer. None where the system does not
/// tell.
fn available() -> Option<u64> {
    let of_machine = read_to_string("/proc/meminfo").ok().and_then(|text| of_meminfo(&text));
    let groups = read_to_string("/proc/self/cgroup").unwrap_or_default();
    let of_groups = groups.lines().filter_map(|line| {
        let (controllers, group) = line.split_once(':')?.1.split_once(':')?;
        let group = group.trim_start_matches('/');
        let root = Path::new("/sys/fs/cgroup");
        match controllers {
            "" => of_group(&root.join(group), "memory.max", "memory.current"),
            "memory" => of_group(&root.join("memory").join(group), "memory.limit_in_bytes", "memory.usage_in_bytes"),
            _ => None,
        }
    });
    of_machine.into_iter().chain(of_groups).min()
}

fn of_meminfo(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

fn of_group(folder: &Path, limit: &str, usage: &str) -> Option<u64> {
    let number = |name: &str| read_to_string(folder.join(name)).ok()?.trim().parse::<u64>().ok();
    // Without a limit the file says `max`, or a number beyond all memory.
    number(limit).map(|limit| limit.saturating_sub(number(usage).unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::{of_group, of_meminfo};

    #[test]
    fn memory_is_that_of_the_machine_or_of_its_control_group() {
        assert_eq!(of_meminfo("MemTotal: 9 kB\nMemAvailable:   2048 kB\n"), Some(2 << 20));
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).expect("written");
        write("memory.max", "max\n");
        write("memory.current", "1000\n");
        assert_eq!(of_group(folder.path(), "memory.max", "memory.current"), None);
        write("memory.max", "5000\n");
        assert_eq!(of_group(folder.path(), "memory.max", "memory.current"), Some(4000));
    }
}
