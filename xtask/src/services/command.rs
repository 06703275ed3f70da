//! `cargo xtask services up | down | status`

use std::process::ExitCode;

use super::launch::Place;
use super::state::{self, Standing};
use super::{Home, Service, ordered};
use crate::args::Args;
use crate::report::Report;

pub(crate) fn main(mut args: Args) -> Result<ExitCode, String> {
    match args.command().as_deref() {
        Some("up") => {
            let brokers = args.option("--brokers", 1)?;
            if !(1..=9).contains(&brokers) {
                return Err(format!("a cluster has 1 to 9 brokers, not {brokers}"));
            }
            up(&named(args.words()?, &Service::NEEDED)?, brokers)
        }
        Some("down") => down(args.words()?),
        Some("status") => args.none().and_then(|()| status()),
        _ => Err("services are brought `up` or `down`, or their `status` is asked".to_owned()),
    }
}

fn named(names: Vec<String>, default: &[Service]) -> Result<Vec<Service>, String> {
    if names.is_empty() { Ok(default.to_vec()) } else { ordered(&names) }
}

fn up(services: &[Service], brokers: usize) -> Result<ExitCode, String> {
    let home = Home::open()?;
    let _alone = home.lock()?;
    let mut report = Report::default();
    for service in services {
        report.step(service.name(), || start(&home, *service, brokers));
        state::tell(&home)?;
    }
    println!("\nTheir addresses are in {}", home.env_file().display());
    Ok(report.close())
}

fn start(home: &Home, service: Service, brokers: usize) -> Result<(), String> {
    if std::env::var_os(service.variable()).is_some() {
        println!("    yours, by {}", service.variable());
        return Ok(());
    }
    let standing = Standing::find(home, service);
    if let Some(standing) = standing.as_ref().filter(|standing| standing.lives()) {
        println!("    process {} stands already", standing.processes[0].pid);
        return Ok(());
    }
    // Of several processes some may have ended.
    standing.map_or(Ok(()), |rest| rest.end())?;
    let env = Service::ALL.into_iter().filter_map(|other| Standing::find(home, other)).fold(
        super::Env::default(),
        |mut all, other| {
            all.extend(&other.env);
            all
        },
    );
    let place = Place { brokers, ..home.place(service, None) };
    let started = service.start(&place, &env)?;
    state::note(home, service, &started)?;
    for (key, value) in started.env.iter() {
        println!("    {key}={value}");
    }
    Ok(())
}

/// In the opposite order: what needs another one goes first. Those that need a named one go with it.
fn down(names: Vec<String>) -> Result<ExitCode, String> {
    let asked = if names.is_empty() { Service::ALL.to_vec() } else { only(&names)? };
    let home = Home::open()?;
    let _alone = home.lock()?;
    let mut report = Report::default();
    for service in Service::ALL.into_iter().rev() {
        let goes = asked.contains(&service) || service.needs().is_some_and(|needed| asked.contains(&needed));
        if let Some(standing) = Standing::find(&home, service).filter(|_| goes) {
            report.step(service.name(), || standing.end().and_then(|()| forget(&home, service)));
        }
    }
    state::tell(&home)?;
    Ok(report.close())
}

/// Exactly the named ones, not what they need.
fn only(names: &[String]) -> Result<Vec<Service>, String> {
    let known = ordered(names)?;
    Ok(known.into_iter().filter(|service| names.iter().any(|name| name == service.name())).collect())
}

fn forget(home: &Home, service: Service) -> Result<(), String> {
    super::launch::remove(&home.place(service, None).folder)
}

fn status() -> Result<ExitCode, String> {
    let home = Home::open()?;
    for service in Service::ALL {
        let name = service.name();
        let standing = Standing::find(&home, service);
        match standing {
            _ if std::env::var_os(service.variable()).is_some() => {
                println!("{name:12} yours, by {}", service.variable());
            }
            Some(standing) if standing.lives() => {
                let address = standing.env.get(service.variable()).unwrap_or_default();
                println!("{name:12} up, process {}, {address}", standing.processes[0].pid);
            }
            Some(_) => {
                println!("{name:12} has ended; its log is in {}", home.place(service, None).folder.display())
            }
            None => println!("{name:12} down"),
        }
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn down_takes_what_is_named_and_leaves_what_it_needs() {
        assert_eq!(only(&["pgbouncer".to_owned()]), Ok(vec![Service::Pgbouncer]));
        assert!(only(&["oracle".to_owned()]).is_err());
    }

    #[test]
    fn up_without_a_name_means_the_one_that_all_tests_need() {
        assert_eq!(named(Vec::new(), &[Service::Postgres]), Ok(vec![Service::Postgres]));
    }
}
