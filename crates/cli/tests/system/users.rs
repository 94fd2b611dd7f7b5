//! Another user of this machine, who listens where a worker looks for its master. These tests need root, to be two users.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use crate::masters::{address, ended_well, left_well};
use crate::paceline::{Watched, run};

/// A user that no process of this machine runs as.
const OTHER: &str = "65533";

/// Starts the binary, or the copy of it that everybody may run, as another user.
fn as_other(folder: &Path, arguments: &[&str]) -> Watched {
    let binary = folder.join("paceline");
    if !binary.exists() {
        fs::copy(env!("CARGO_BIN_EXE_paceline"), &binary).expect("copied");
        for path in [folder, &binary] {
            fs::set_permissions(path, fs::Permissions::from_mode(0o777)).expect("for everybody");
        }
    }
    let ids = [format!("--reuid={OTHER}"), format!("--regid={OTHER}")];
    let mut command = Command::new("setpriv");
    command.args(ids).arg("--clear-groups").arg(binary).args(arguments).current_dir(folder).env("HOME", folder);
    Watched::watch(&mut command)
}

#[test]
fn a_worker_without_a_token_joins_no_master_of_another_user() {
    let folder = tempfile::tempdir().expect("a folder");
    let usual = ["master", "--events", "json", "--output", "run", "--set", "data.global_batch=24"];
    let mut master = as_other(folder.path(), &usual);
    let at = address(&mut master);
    let refusal = ["no master answered", "belongs to another user of the machine", "--token-file"];
    run(folder.path(), &["worker", "--join", &at, "--patience", "1"]).refused(1, &refusal);
    let own = as_other(folder.path(), &["worker", "--slots", "1", "--events", "json", "--join", &at]);
    ended_well(master, 20);
    left_well(own);
}
