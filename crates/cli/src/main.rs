//! The binary `paceline`.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(paceline_cli::run(std::env::args_os()))
}
