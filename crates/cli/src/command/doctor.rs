use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

use anyhow::Result;
use paceline::data::{OpenOptions, cache_folder, open};
use paceline::nn::Instructions;

use super::{say, spark};
use crate::arguments;
use crate::failure::{DONE, Exit, FAILED};

/// What was found of one thing.
enum Finding {
    Fine(String),
    /// Worth knowing, stops nothing.
    Note(String),
    /// Would stop a run.
    Problem(String),
}

use Finding::{Fine, Note, Problem};

pub(crate) fn run(arguments: &arguments::Doctor) -> Result<Exit> {
    if let Some(master) = &arguments.spark {
        let command = spark::asked(&arguments.with, master, "paceline doctor", "paceline.spark.checkup", &[])?;
        return spark::run(&command);
    }
    let findings = [
        ("cores", cores()),
        ("instructions", instructions()),
        ("cache", cache(&arguments.cache)),
        ("mnist", mnist(&arguments.cache)),
        ("npm", npm()),
        ("output", writable(Path::new("."), "the output folder `runs`")),
        ("ports", ports()),
        ("gpu", Note("not used by this version".into())),
    ];
    let mut problems = 0;
    for (name, finding) in findings {
        let (mark, text) = match finding {
            Fine(text) => ("ok", text),
            Note(text) => ("note", text),
            Problem(text) => {
                problems += 1;
                ("problem", text)
            }
        };
        say(&format_args!("{mark:<8} {name:<13} {text}"))?;
    }
    Ok(if problems == 0 { DONE } else { FAILED })
}

fn cores() -> Finding {
    match std::thread::available_parallelism() {
        Ok(cores) => Fine(format!("{cores} may be used by this process")),
        Err(error) => Problem(format!("cannot be counted: {error}")),
    }
}

fn instructions() -> Finding {
    let found = Instructions::detect();
    if found == Instructions::Portable {
        Note("no vector instructions that we have kernels for; everything works, slowly".into())
    } else {
        Fine(found.name().into())
    }
}

fn cache(cache: &arguments::Cache) -> Finding {
    match cache.cache.clone().map_or_else(cache_folder, Ok) {
        Ok(folder) => match std::fs::create_dir_all(&folder) {
            Ok(()) => writable(&folder, "the cache folder"),
            Err(error) => {
                Problem(format!("`{}` cannot be made: {error}; choose another with PACELINE_CACHE", folder.display()))
            }
        },
        Err(error) => Problem(error.to_string()),
    }
}

fn mnist(cache: &arguments::Cache) -> Finding {
    let options = OpenOptions { cache: cache.cache.clone(), offline: true, ..OpenOptions::default() };
    match open("mnist:test", &options) {
        Ok(_) => Fine("in the cache".into()),
        Err(_) => Note("not in the cache; `paceline data fetch mnist` brings it".into()),
    }
}

fn npm() -> Finding {
    match Command::new("npm").arg("--version").output() {
        Ok(output) if output.status.success() => {
            Fine(format!("{}, the second way to MNIST", String::from_utf8_lossy(&output.stdout).trim()))
        }
        _ => Note("not there; MNIST comes from its public mirrors only".into()),
    }
}

fn writable(folder: &Path, what: &str) -> Finding {
    match tempfile::tempfile_in(folder) {
        Ok(_) => Fine(format!("{what} can be written")),
        Err(error) => Problem(format!("{what} cannot be written in `{}`: {error}", folder.display())),
    }
}

fn ports() -> Finding {
    match TcpListener::bind("127.0.0.1:0") {
        Ok(_) => Fine("loopback can be listened on".into()),
        Err(error) => Problem(format!("loopback cannot be listened on: {error}")),
    }
}
