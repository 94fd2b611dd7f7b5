//! What people call a worker: its host and its number, such as `node7/3`.

use paceline_exchange::rounds::{Incarnation, number_of};

/// Letters of a host's name that are shown.
const LONGEST: usize = 63;

/// The name of a worker on a host; only its number where the host has no name.
pub(crate) fn name_of(host: &str, worker: Incarnation) -> String {
    let number = number_of(worker);
    if host.is_empty() { number } else { format!("{host}/{number}") }
}

/// What this machine is called; empty if the system does not tell.
pub(crate) fn this_host() -> String {
    host_name(&std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default())
}

/// A host's name as others may see it: without what does not belong into one.
pub(crate) fn host_name(told: &str) -> String {
    let belongs = |letter: &char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '.' | '_');
    told.trim().chars().filter(belongs).take(LONGEST).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_is_called_by_its_host_and_a_small_number() {
        assert_eq!(name_of("node7", (1 << 32) | 3), "node7/3");
        assert_eq!(name_of("node7", (4 << 32) | 12), "node7/4.12", "another master counts anew");
        assert_eq!(name_of("", (1 << 32) | 3), "3");
    }

    #[test]
    fn a_host_cannot_smuggle_anything_into_a_terminal_or_a_label() {
        assert_eq!(host_name(" node-7.rack_2\n"), "node-7.rack_2");
        assert_eq!(host_name("a\x1b[2J\"b\n/c"), "a2Jbc");
        assert_eq!(host_name(&"x".repeat(500)).len(), LONGEST);
    }
}
