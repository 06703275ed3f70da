//! Runs programs, cargo above all, and streams what they say.

use std::ffi::OsStr;
use std::io::{IsTerminal, Read, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::tally::Tally;

/// The root of the checkout.
pub(crate) fn root() -> PathBuf {
    let here = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from);
    here.parent().expect("xtask lies in a folder of the checkout").to_owned()
}

/// The one target directory.
pub(crate) fn target() -> PathBuf {
    root().join(std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()))
}

/// A cargo command, by words.
pub(crate) fn cargo(words: &str) -> Command {
    let mut command = program(&std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned()));
    command.args(words.split_whitespace());
    // What is built once only is not built again in parts: that would double what a run leaves on the disk.
    if std::env::var_os("CI").is_some() && std::env::var_os("CARGO_INCREMENTAL").is_none() {
        command.env("CARGO_INCREMENTAL", "0");
    }
    command
}

/// A command in the root of the checkout.
pub(crate) fn program(name: &str) -> Command {
    let mut command = Command::new(name);
    command.current_dir(root());
    // `cargo run` describes xtask in the environment; handed on, it makes build scripts that watch these run again.
    for (name, _) in std::env::vars_os() {
        if ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_"]
            .iter()
            .any(|start| name.to_string_lossy().starts_with(start))
        {
            command.env_remove(name);
        }
    }
    command
}

/// Runs a command; its output goes to ours.
pub(crate) fn run(command: &mut Command) -> Result<(), String> {
    println!("    {}", line(command));
    let status = command.status().map_err(|error| cannot_start(command, &error))?;
    if status.success() { Ok(()) } else { Err(format!("`{}` ended with {status}", line(command))) }
}

/// Whether a command succeeds; its output is dropped.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// Runs `cargo test`, streams its output and counts the tests.
pub(crate) fn run_tests(command: &mut Command, tally: &mut Tally) -> Result<(), String> {
    println!("    {}", line(command));
    let mut child = command.stdout(Stdio::piped()).spawn().map_err(|error| cannot_start(command, &error))?;
    let output = child.stdout.take().expect("stdout is piped");
    let mut counted = Tally::default();
    stream(output, std::io::stdout().lock(), &mut counted)
        .map_err(|error| format!("cannot read the tests' output: {error}"))?;
    let status = child.wait().map_err(|error| format!("cannot wait for the tests: {error}"))?;
    tally.passed += counted.passed;
    tally.failed += counted.failed;
    match (status.success(), counted.failed) {
        (true, 0) if counted.is_empty() => Err("no test has that name".to_owned()),
        (true, 0) => Ok(()),
        (_, 0) => Err(format!("`{}` ended with {status}", line(command))),
        (_, failed) => Err(format!("failed tests: {failed}")),
    }
}

/// Colour for the test binaries, whose output we read, when ours is a terminal.
pub(crate) fn colour() -> &'static str {
    if std::io::stdout().is_terminal() { "--color=always" } else { "--color=auto" }
}

fn stream(mut output: impl Read, mut out: impl Write, tally: &mut Tally) -> std::io::Result<()> {
    let mut chunk = [0; 8192];
    let mut open_line = Vec::new();
    loop {
        let read = output.read(&mut chunk)?;
        out.write_all(&chunk[..read])?;
        out.flush()?;
        for &byte in &chunk[..read] {
            if byte == b'\n' {
                tally.count(&String::from_utf8_lossy(&open_line));
                open_line.clear();
            } else {
                open_line.push(byte);
            }
        }
        if read == 0 {
            tally.count(&String::from_utf8_lossy(&open_line));
            return Ok(());
        }
    }
}

fn line(command: &Command) -> String {
    // Where the servers are was said when they were brought up, and would hide the rest.
    let is_told = |name: &OsStr| {
        let name = name.to_string_lossy();
        name.starts_with("POSTRIDER_TEST_") || name.starts_with("POSTRIDER_SERVICES_")
    };
    let settings = command.get_envs().filter(|(name, _)| !is_told(name));
    let settings = settings.filter_map(|(name, value)| Some((name, value?)));
    let settings =
        settings.map(|(name, value)| format!("{}={}", name.to_string_lossy(), value.to_string_lossy()));
    let name = PathBuf::from(command.get_program());
    let name = name.file_name().map(|name| name.to_string_lossy().into_owned());
    let args = command.get_args().map(|arg| arg.to_string_lossy().into_owned());
    settings.chain(name).chain(args).collect::<Vec<_>>().join(" ")
}

fn cannot_start(command: &Command, error: &std::io::Error) -> String {
    format!("cannot start `{}`: {error}", line(command))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_shown_as_one_would_type_it() {
        let mut command = program("/usr/bin/cargo");
        command.args(["test", "-p", "x"]).env("POSTRIDER_SEED", "7").env("POSTRIDER_TEST_KAFKA", "x");
        assert_eq!(line(&command), "POSTRIDER_SEED=7 cargo test -p x");
    }

    #[test]
    fn results_are_counted_across_chunks_and_without_a_last_newline() {
        let mut tally = Tally::default();
        let noise = "x".repeat(8190);
        let output =
            format!("{noise}\ntest result: ok. 2 passed; 0 failed;\ntest result: ok. 3 passed; 1 failed;");
        let mut shown = Vec::new();
        stream(output.as_bytes(), &mut shown, &mut tally).unwrap();
        assert_eq!(shown, output.as_bytes());
        assert_eq!(tally, Tally { passed: 5, failed: 1 });
    }
}
