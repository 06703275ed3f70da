//! `cargo xtask deny`: licences, bans, sources and advisories, by cargo-deny.

use std::path::PathBuf;
use std::process::{Command, ExitCode};

use crate::args::Args;
use crate::cargo::{cargo, program, run, succeeds, target};
use crate::report::Report;

pub(crate) fn main(mut args: Args) -> Result<ExitCode, String> {
    let offline = args.flag("--offline");
    args.none()?;
    let mut report = Report::default();
    if !report.step("cargo-deny", install) {
        report.skip("licences, bans, sources", "cargo-deny is missing");
        report.skip("advisories", "cargo-deny is missing");
        return Ok(report.close());
    }
    report.step("licences, bans, sources", || run(deny().args(["check", "licenses", "bans", "sources"])));
    if offline {
        report.skip("advisories", "NOT CHECKED: --offline");
    } else {
        report.step("advisories", advisories);
    }
    Ok(report.close())
}

fn install() -> Result<(), String> {
    if succeeds(deny().arg("--version")) {
        return Ok(());
    }
    println!("    cargo-deny is missing: it is compiled once, into target/tools, which takes some minutes");
    run(cargo("install cargo-deny --locked --root").arg(tools()))
}

fn advisories() -> Result<(), String> {
    let fetched = run(deny().args(["fetch", "db"]));
    fetched
        .map_err(|_| "NOT CHECKED: their database cannot be fetched; --offline leaves them out".to_owned())?;
    run(deny().args(["check", "advisories"]))
}

fn deny() -> Command {
    program(&tools().join("bin/cargo-deny").to_string_lossy())
}

fn tools() -> PathBuf {
    target().join("tools")
}
