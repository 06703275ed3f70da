//! The workshop: `cargo xtask <command>`. Depends on nothing but the standard library, so that it builds at once.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a tool speaks to its user")]
#![allow(clippy::disallowed_methods, reason = "a tool measures how long its steps take")]

mod args;
mod bench;
mod cargo;
mod code;
mod deny;
mod ids;
mod report;
mod rules;
mod services;
mod sim;
mod soak;
mod tally;
mod test;
mod tree;

use std::process::ExitCode;

use args::Args;

const HELP: &str = "\
The workshop of Postrider

Usage: cargo xtask <command> [options]

  test [FILTER]     everything that must pass: house rules, formatting, clippy, unit, doc, conformance,
                    simulation and end-to-end tests; with FILTER only the tests whose names contain it;
                    brings up the servers that the tests need, and takes them down afterwards
                      --all         installs and tests the optional servers too, as CI does
  services up [NAME...]     starts servers that stay: postgres (the default), postgres15, pgbouncer, kafka,
                            redis, mariadb, mysql; their addresses are in target/services/env, where tests
                            look for them
                      --brokers N   of Kafka (default 1)
  services down [NAME...]   stops them and removes their data, all of them without NAME
  services status           which of them stand, and where
  rules             the house rules alone
  soak              what takes long
                      --seeds N     simulated seeds (default 10000)
                      --minutes M   how long the crash matrix is repeated (default 10)
  sim SEED          replays one simulated seed with its trace
  deny              licences, bans, sources and advisories of all dependencies
                      --offline     leaves out the advisories, whose database is fetched
  bench [ARGS]      the benchmarks, in release
                      [--quick] [sqlite | postgres [NAME...]], see `bench --help`
  ids [FILE]        the requirement ids that tests name, and where; with FILE, the ids in it that no test names

Exit codes: 0 done, 1 something failed, 2 bad usage.";

fn main() -> ExitCode {
    let mut args = Args::new(std::env::args().skip(1));
    let outcome = match args.command().as_deref() {
        None | Some("help" | "--help" | "-h") => {
            println!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Some("test") => test::main(args),
        Some("rules") => rules::main(args),
        Some("services") => services::main(args),
        Some("soak") => soak::main(args),
        Some("sim") => sim::main(args),
        Some("deny") => deny::main(args),
        Some("bench") => bench::main(args),
        Some("ids") => ids::main(args),
        Some(other) => Err(format!("there is no command `{other}`")),
    };
    outcome.unwrap_or_else(|problem| {
        eprintln!("error: {problem}\n\n`cargo xtask --help` lists the commands.");
        ExitCode::from(2)
    })
}
