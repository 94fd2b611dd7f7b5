//! Runs seeds, or replays one: `cargo run --release -p paceline-sim -- [--seed N [--trace]] [--from N --seeds N] [--shared] [--plant NAME] [--replay FILE] [--crowd N [--mesh-limit N]]`.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program for people")]

use std::process::ExitCode;

use paceline_exchange::{MESH_LIMIT, Planted};
use paceline_sim::{Crowd, Rare, Rules, World};

fn main() -> ExitCode {
    match run(std::env::args().skip(1).collect()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

fn run(arguments: Vec<String>) -> Result<bool, String> {
    let (mut seed, mut from, mut seeds, mut is_traced, mut planted) = (None, 0, 2000, false, None);
    let (mut rules, mut crowd, mut mesh_limit) = (Rules::Rounds, None, MESH_LIMIT);
    let mut arguments = arguments.into_iter();
    while let Some(argument) = arguments.next() {
        let mut number = || {
            let value = arguments.next().ok_or_else(|| format!("expected a number after `{argument}`"))?;
            value.parse::<u64>().map_err(|_| format!("expected a number after `{argument}`, found `{value}`"))
        };
        match argument.as_str() {
            "--seed" => seed = Some(number()?),
            "--from" => from = number()?,
            "--seeds" => seeds = number()?,
            "--replay" => {
                let path = arguments.next().ok_or("expected a file after `--replay`")?;
                let file = std::fs::File::open(&path).map_err(|error| format!("cannot read `{path}`: {error}"))?;
                let found = paceline_sim::replay(std::io::BufReader::new(file))?;
                println!("{} events of {} machines gave the same actions again", found.events, found.machines);
                return Ok(true);
            }
            "--crowd" => crowd = Some(number()?),
            "--mesh-limit" => mesh_limit = number()? as usize,
            "--trace" => is_traced = true,
            "--shared" => rules = Rules::Sharing,
            "--plant" => {
                let name = arguments.next().unwrap_or_default();
                let all = || Planted::IN_ROUNDS.into_iter().chain(Planted::IN_SHARING).chain(Planted::IN_LOOPS);
                let found = all().find(|p| format!("{p:?}") == name);
                let names = || all().map(|p| format!("{p:?}")).collect::<Vec<_>>().join(", ");
                planted = Some(found.ok_or_else(|| format!("expected one of {}, found `{name}`", names()))?);
            }
            other => {
                return Err(format!(
                    "unknown option `{other}`; expected `--seed N`, `--trace`, `--shared`, `--from N`, `--seeds N`, `--plant NAME`, `--replay FILE`, `--crowd N` or `--mesh-limit N`"
                ));
            }
        }
    }
    if let Some(members) = crowd {
        println!("{members} members: {:?}", Crowd::of(rules, members, mesh_limit)?);
        return Ok(true);
    }
    let mut rare = Rare::new();
    for seed in seed.map_or(from..from + seeds, |seed| seed..seed + 1) {
        let world = World::new(rules, seed, planted);
        let outcome = if is_traced { world.traced() } else { world }.run();
        outcome.trace.iter().for_each(|line| println!("{line}"));
        if let Some(violation) = outcome.violation {
            println!("seed {seed}: {violation}");
            let shared = if rules == Rules::Sharing { " --shared" } else { "" };
            println!("replay it with: cargo run --release -p paceline-sim --{shared} --seed {seed} --trace");
            return Ok(false);
        }
        outcome.rare.into_iter().for_each(|(what, times)| *rare.entry(what).or_default() += times);
    }
    rare.iter().for_each(|(what, times)| println!("{times:>9} × {what}"));
    Ok(true)
}
