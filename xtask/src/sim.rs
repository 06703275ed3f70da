//! `cargo xtask sim SEED`: the same world once more, with its trace.

use std::process::ExitCode;

use crate::args::Args;
use crate::cargo::{cargo, run_tests};
use crate::tally::Tally;

pub(crate) fn main(args: Args) -> Result<ExitCode, String> {
    let seed = args.last()?.ok_or("sim needs a seed: `cargo xtask sim 42`")?;
    let seed: u64 = seed.parse().map_err(|_| format!("a seed is a whole number, not `{seed}`"))?;
    // Of the whole workspace, though one crate is meant: its features stay those of `test`, and nothing is built anew.
    let mut replay = cargo("test --workspace --test simulation -- --nocapture replay");
    match run_tests(replay.env("POSTRIDER_SEED", seed.to_string()), &mut Tally::default()) {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(problem) => {
            eprintln!("error: seed {seed}: {problem}");
            Ok(ExitCode::FAILURE)
        }
    }
}
