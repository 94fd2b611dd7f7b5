//! Finds the commit that the binary is built from, for `paceline --version`.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let commit = of_checkout().or_else(of_package).unwrap_or_else(|| "of unknown commit".into());
    println!("cargo:rustc-env=PACELINE_COMMIT={commit}");
}

/// The commit of the checkout that this crate lies in.
fn of_checkout() -> Option<String> {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
        Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
    };
    // A package that lies within somebody else's checkout is not of its commit.
    let top = git(&["rev-parse", "--show-toplevel"])?;
    if !Path::new(&top).join("crates/cli/build.rs").exists() {
        return None;
    }
    // It grows with every commit and every checkout.
    let log = git(&["rev-parse", "--git-path", "logs/HEAD"])?;
    if Path::new(&log).exists() {
        println!("cargo:rerun-if-changed={log}");
    }
    git(&["rev-parse", "--short=12", "HEAD"])
}

/// The commit that Cargo has noted in a published package.
fn of_package() -> Option<String> {
    let path = ".cargo_vcs_info.json";
    println!("cargo:rerun-if-changed={path}");
    let text = std::fs::read_to_string(path).ok()?;
    let (_, rest) = text.split_once("\"sha1\"")?;
    let commit = rest.split('"').nth(1)?;
    Some(commit.get(..12)?.to_owned())
}
