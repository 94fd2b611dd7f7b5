//! The binary `paceline`: reads the command line, calls the library, shows what happens.
//!
//! # Layout
//!
//! - `arguments`: what may be written on the command line.
//! - `command/`: one file per command.
//! - `report`: the readers of events: a progress bar, plain lines, JSON.
//! - `json_lines`: the thread that writes JSON. `interrupt`: Ctrl-C.
//! - `failure`: which exit status an error has.

#![expect(clippy::print_stderr, reason = "this is the program that talks to people")]

mod arguments;
mod command;
mod failure;
mod interrupt;
mod json_lines;
mod report;

use std::process::ExitCode;

use clap::Parser;

use arguments::{Arguments, Command};

fn main() -> ExitCode {
    let Arguments { command } = Arguments::parse();
    let done = match command {
        Command::Train(arguments) => command::train::run(&arguments),
        Command::Evaluate(arguments) => command::evaluate::run(&arguments),
        Command::Predict(arguments) => command::predict::run(&arguments),
        Command::Data { command } => command::data::run(&command),
        Command::Model { command } => command::model::run(&command),
        Command::Master(arguments) => command::master::run(&arguments),
        Command::Worker(arguments) => command::worker::run(&arguments),
        Command::Status(arguments) => command::status::run(&arguments),
        Command::Doctor(arguments) => command::doctor::run(&arguments),
    };
    done.unwrap_or_else(|error| {
        eprintln!("error: {}", failure::sentence(&error));
        failure::status(&error)
    })
}
