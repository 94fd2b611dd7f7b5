//! The command line of Paceline as a library: the binary `paceline` and the script of the Python package call it.
//!
//! # Layout
//!
//! - `arguments`: what may be written on the command line.
//! - `command/`: one file per command.
//! - `report`: the readers of events: a progress bar, plain lines, JSON.
//! - `json_lines`: the thread that writes JSON. `interrupt`: Ctrl-C.
//! - `failure`: which exit status an error has. `outputs`: the guard of files that are written.

/// Writes a line to standard error; a reader that went away is no reason to fail.
macro_rules! emit {
    ($($line:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($line)*);
    }};
}

mod arguments;
mod command;
mod drawing;
mod failure;
mod interrupt;
mod json_lines;
mod outputs;
mod report;
mod sheet;

use std::ffi::OsString;

use clap::{CommandFactory, FromArgMatches};

use arguments::{Arguments, Command};
use failure::{FAILED, MISUSE};

/// Does what a command line asks for, the name of the program first; gives the exit status. It takes Ctrl-C and SIGTERM for itself.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> u8 {
    let parsed = Arguments::command().version(version()).try_get_matches_from(arguments);
    let command = match parsed.and_then(|matches| Arguments::from_arg_matches(&matches)) {
        Ok(Arguments { command }) => command,
        Err(told) => {
            // Help goes to standard output; a reader that went away is no failure.
            let written = told.print();
            return match (told.exit_code(), written) {
                (0, Ok(())) => failure::DONE,
                (0, Err(_)) => FAILED,
                _ => MISUSE,
            };
        }
    };
    let done = match command {
        Command::Init(arguments) => command::init::run(&arguments),
        Command::Train(arguments) => command::train::run(&arguments),
        Command::Tune(arguments) => command::tune::run(&arguments),
        Command::Runs(arguments) => command::runs::run(&arguments),
        Command::Evaluate(arguments) => command::evaluate::run(&arguments),
        Command::Predict(arguments) => command::predict::run(&arguments),
        Command::Generate(arguments) => command::generate::run(&arguments),
        Command::Data { command } => command::data::run(&command),
        Command::Model { command } => command::model::run(&command),
        Command::Master(arguments) => command::master::run(&arguments),
        Command::Worker(arguments) => command::worker::run(&arguments),
        Command::Status(arguments) => command::status::run(&arguments),
        Command::Doctor(arguments) => command::doctor::run(&arguments),
        Command::Submit(arguments) => command::submit::run(&arguments),
        Command::Completions { shell } => command::shell::completions(shell),
        Command::Man { folder } => command::shell::man(&folder),
    };
    done.unwrap_or_else(|error| {
        emit!("error: {}", failure::sentence(&error));
        failure::status(&error)
    })
}

/// The version, the commit that it was built from, and the instructions that it computes with on this machine.
fn version() -> String {
    let (version, commit) = (env!("CARGO_PKG_VERSION"), env!("PACELINE_COMMIT"));
    let instructions = paceline::nn::Instructions::detect().name();
    format!("{version} ({commit}, {} {}, {instructions})", std::env::consts::ARCH, std::env::consts::OS)
}
