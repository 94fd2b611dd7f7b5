//! Where a worker runs, so that a master of the same machine can tell when the kernel has killed it for memory.

use serde::{Deserialize, Serialize};

/// Where a process runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Whereabouts {
    /// What the machine is called since it was last started.
    boot: String,
    /// The file that counts processes of its control group, or of the machine, that were killed for memory.
    counter: String,
    /// How many there were.
    kills: u64,
}

/// Where control groups are.
const GROUPS: &str = "/sys/fs/cgroup/";
/// Where there are none, all of the machine are counted.
const MACHINE: &str = "/proc/vmstat";

impl Whereabouts {
    /// Of this process; none where the system does not tell.
    pub fn here() -> Option<Self> {
        let groups = std::fs::read_to_string("/proc/self/cgroup").ok()?;
        let counters = groups.lines().filter_map(counter_of).flatten().chain([MACHINE.to_owned()]);
        let (counter, kills) = counters.into_iter().find_map(|counter| Some((counter.clone(), kills(&counter)?)))?;
        Some(Self { boot: boot()?, counter, kills })
    }

    /// Whether somebody was killed there since this was last asked; only a process of the same machine can tell.
    pub fn was_killed(&mut self) -> bool {
        let is_counter = self.counter == MACHINE || (self.counter.starts_with(GROUPS) && !self.counter.contains(".."));
        if !is_counter || boot().as_ref() != Some(&self.boot) {
            return false;
        }
        let now = kills(&self.counter).unwrap_or(self.kills);
        std::mem::replace(&mut self.kills, now) < now
    }

    /// Somebody of the same group was found to be killed.
    pub fn knows(&mut self, other: &Self) {
        if (&self.boot, &self.counter) == (&other.boot, &other.counter) {
            self.kills = self.kills.max(other.kills);
        }
    }
}

fn boot() -> Option<String> {
    Some(std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?.trim().to_owned())
}

/// The files that may count for a line such as `0::/a` or `4:memory:/b`.
fn counter_of(line: &str) -> Option<Vec<String>> {
    let mut parts = line.splitn(3, ':').skip(1);
    let (controllers, group) = (parts.next()?, parts.next()?.trim_matches('/'));
    Some(match controllers {
        "" => ["", "unified/"].map(|root| format!("{GROUPS}{root}{group}/memory.events")).to_vec(),
        "memory" => vec![format!("{GROUPS}memory/{group}/memory.oom_control")],
        _ => return None,
    })
}

fn kills(counter: &str) -> Option<u64> {
    let text = std::fs::read_to_string(counter).ok()?;
    text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counter_of_a_group_is_found_in_both_versions_of_control_groups() {
        let of = |line| counter_of(line).unwrap_or_default().join(" ");
        assert_eq!(of("4:memory:/a/b"), "/sys/fs/cgroup/memory/a/b/memory.oom_control");
        assert!(of("0::/pods/x").starts_with("/sys/fs/cgroup/pods/x/memory.events "));
        assert_eq!((of("3:cpu:/a"), of("nonsense")), (String::new(), String::new()));
    }

    #[test]
    fn only_counters_of_this_machine_are_looked_at() {
        let Some(here) = Whereabouts::here() else { return };
        assert!(!here.clone().was_killed(), "nobody was killed meanwhile");
        let mut other = Whereabouts { counter: "/etc/passwd".into(), ..here.clone() };
        assert!(!other.was_killed());
        let mut elsewhere = Whereabouts { boot: "another".into(), kills: 0, ..here };
        assert!(!elsewhere.was_killed());
    }
}
