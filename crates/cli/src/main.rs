//! The postrider binary: the relay, its demo, and the verbs of those who operate it.

mod adopt;
mod args;
mod bug;
mod commands;
mod config;
mod demo;
mod exit;
mod filter;
mod human;
mod layout;
mod log;
mod outage;
mod outbox;
mod output;
mod payload;
mod relays;
mod report;
mod settings;
mod shown;
mod signals;
mod sinks;
mod stop_at;
mod table;
mod writer;

use std::process::ExitCode;

use clap::Parser;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    bug::install();
    let args = args::Args::parse();
    log::install(args.verbose);
    stop_at::install();
    match commands::run(args) {
        Ok(()) => exit::Code::Done.into(),
        Err(failure) => {
            output::tell(&failure);
            failure.code.into()
        }
    }
}
