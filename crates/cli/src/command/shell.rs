//! What a shell and `man` know of the command line, made from its own definition.

use std::path::Path;

use anyhow::{Context, Result};
use clap::{Command, CommandFactory};
use clap_complete::Shell;

use super::say;
use crate::arguments::Arguments;
use crate::failure::{DONE, Exit};
use crate::outputs::{Kind, expect_own_file, write_beside};

pub(crate) fn completions(shell: Shell) -> Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "paceline", &mut script);
    say(&String::from_utf8_lossy(&script).trim_end())?;
    Ok(DONE)
}

/// A page for the program, and one for each of its commands.
pub(crate) fn man(folder: &Path) -> Result<Exit> {
    let failed = || format!("cannot write into `{}`", folder.display());
    std::fs::create_dir_all(folder).with_context(failed)?;
    let mut program = Arguments::command();
    // So that every command knows what it is called in full.
    program.build();
    let mut written = 0;
    write(&program, folder, &mut written).with_context(failed)?;
    say(&format_args!("wrote {written} pages into `{}`", folder.display()))?;
    Ok(DONE)
}

fn write(command: &Command, folder: &Path, written: &mut usize) -> Result<()> {
    let mut page = Vec::new();
    let name = command.get_bin_name().unwrap_or("paceline").replace(' ', "-");
    let page_of = command.clone().name(name.clone()).version(env!("CARGO_PKG_VERSION"));
    clap_mangen::Man::new(page_of).render(&mut page)?;
    let path = folder.join(format!("{name}.1"));
    expect_own_file("man", &path, Kind::Man)?;
    write_beside(&path, |file| Ok(file.write_all(&page)?))?;
    *written += 1;
    let commands = command.get_subcommands().filter(|command| !command.is_hide_set() && command.get_name() != "help");
    commands.into_iter().try_for_each(|command| write(command, folder, written))
}
