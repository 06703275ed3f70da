//! House rules that are cheap to check by text, and that no lint checks.

use std::collections::BTreeMap;
use std::process::ExitCode;

use crate::args::Args;
use crate::report::Report;
use crate::tree::{File, files};

const LINES_MAX: usize = 400;
const CLOCK_FILE: &str = "crates/relay/src/system.rs";
/// An adapter's connection, which gives calls to a server an end.
const SESSION_FILE: &str = "/src/session.rs";
const POINT_FILE: &str = "crates/core/src/point.rs";
/// A test tool: it waits for real servers by the real clock, and its threads are doors that tests slam.
const TOOL_FOLDER: &str = "crates/servers/";
/// The one place where a test may pause: between two looks at a condition, until its deadline.
const WAIT_FILE: &str = "wait.rs";

const UNFINISHED: &[&str] = &["todo!(", "unimplemented!(", "dbg!(", "#[ignore"];
const SLEEPS: &[&str] = &["thread::sleep", "time::sleep"];
const CLOCKS: &[&str] = &[
    "SystemTime::now",
    "Instant::now",
    "Timestamp::now",
    "Zoned::now",
    "now_v7",
    "tokio::time",
    "thread::sleep",
];
const SPAWNS: &[&str] =
    &["tokio::spawn", "task::spawn", "spawn_blocking", "spawn_local", "JoinSet", "thread::spawn"];

/// `cargo xtask rules`
pub(crate) fn main(args: Args) -> Result<ExitCode, String> {
    args.none()?;
    let mut report = Report::default();
    report.step("house rules", check);
    Ok(report.close())
}

/// Names every place where a rule is broken.
pub(crate) fn check() -> Result<(), String> {
    let broken = broken(&files()?);
    broken.iter().for_each(|place| println!("{place}"));
    match broken.len() {
        0 => Ok(()),
        1 => Err("a house rule is broken".to_owned()),
        many => Err(format!("house rules are broken in {many} places")),
    }
}

fn broken(files: &[File]) -> Vec<String> {
    let mut places: Vec<String> = files.iter().filter_map(too_long).collect();
    for file in files {
        let tests_from = file.tests_from();
        let is_tool = file.path.starts_with(TOOL_FOLDER);
        let in_crates = file.path.starts_with("crates/") && !is_tool;
        for (at, code) in file.code.lines().enumerate() {
            let in_tests = at >= tests_from;
            let mut forbid = |words: &[&str], remedy: &str| {
                if let Some(word) = words.iter().find(|word| code.contains(**word)) {
                    places.push(format!("{}:{}: `{word}`: {remedy}", file.path, at + 1));
                }
            };
            forbid(UNFINISHED, "finish it or take it out");
            if in_tests && !is_tool && !file.path.ends_with(WAIT_FILE) {
                forbid(SLEEPS, "a test waits for a condition with a deadline, never for a duration");
            }
            let ends_calls = file.path.ends_with(SESSION_FILE) && !code.contains("::now");
            if in_crates && !in_tests && file.path != CLOCK_FILE && !ends_calls {
                forbid(CLOCKS, "time and chance are arguments: take a Clock");
            }
        }
    }
    places.extend(second_spawners(files));
    places.extend(unpassed_points(files));
    places
}

fn too_long(file: &File) -> Option<String> {
    let lines = file.text.lines().count();
    let place =
        || format!("{}: {lines} lines, at most {LINES_MAX}: look for the second thing in it", file.path);
    (lines > LINES_MAX).then(place)
}

fn second_spawners(files: &[File]) -> Vec<String> {
    let spawns = |file: &&File| {
        let mut code = file.code.lines().take(file.tests_from());
        let ours = file.path.starts_with("crates/") && !file.path.starts_with(TOOL_FOLDER);
        ours && code.any(|line| SPAWNS.iter().any(|word| line.contains(word)))
    };
    let spawners: Vec<&str> = files.iter().filter(spawns).map(|file| file.path.as_str()).collect();
    let crate_of = |path: &str| path.split('/').nth(1).unwrap_or_default().to_owned();
    let mut crates: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    spawners.into_iter().for_each(|path| crates.entry(crate_of(path)).or_default().push(path));
    let several = crates.into_values().filter(|paths| paths.len() > 1);
    several.map(|paths| format!("{}: only one file of a crate spawns tasks", paths.join(", "))).collect()
}

fn unpassed_points(files: &[File]) -> Vec<String> {
    let Some(file) = files.iter().find(|file| file.path == POINT_FILE) else { return Vec::new() };
    let passed = |point: &str| {
        let call = format!("pass(\"{point}\")");
        files.iter().any(|file| file.text.lines().take(file.tests_from()).any(|line| line.contains(&call)))
    };
    points(&file.text)
        .filter(|point| !passed(point))
        .map(|point| format!("{POINT_FILE}: nothing passes the point `{point}`"))
        .collect()
}

fn points(text: &str) -> impl Iterator<Item = &str> {
    let list = text.split_once("POINTS: &[&str] = &[").and_then(|(_, rest)| rest.split_once("];"));
    list.map_or("", |(list, _)| list)
        .lines()
        .filter_map(|line| line.trim().strip_prefix('"')?.split('"').next())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broken_in(path: &str, text: &str) -> Vec<String> {
        broken(&[File::new(path, text)])
    }

    #[test]
    fn a_file_over_the_limit_is_named_and_one_at_it_is_not() {
        assert_eq!(broken_in("bench/src/main.rs", &"x\n".repeat(LINES_MAX)).len(), 0);
        let places = broken_in("bench/src/main.rs", &"x\n".repeat(LINES_MAX + 1));
        assert!(places[0].starts_with("bench/src/main.rs: 401 lines"), "{places:?}");
    }

    #[test]
    fn unfinished_work_is_named_with_its_line_wherever_it_stands() {
        for word in ["todo!()", "unimplemented!()", "dbg!(1)", "#[ignore]", "#[ignore = \"slow\"]"] {
            let places = broken_in("xtask/src/a.rs", &format!("fn a() {{\n    {word}\n}}"));
            assert_eq!(places.len(), 1, "{word}");
            assert!(places[0].starts_with("xtask/src/a.rs:2: "), "{places:?}");
        }
        assert_eq!(broken_in("xtask/src/a.rs", "// todo!()\nlet word = \"todo!()\";").len(), 0);
    }

    #[test]
    fn a_test_does_not_sleep_except_between_two_looks() {
        let text = "thread::sleep(a);\n";
        assert_eq!(broken_in("crates/cli/tests/run.rs", text).len(), 1);
        assert_eq!(broken_in("crates/cli/tests/run/wait.rs", text).len(), 0);
        assert_eq!(broken_in("crates/cli/src/a.rs", "#[cfg(test)]\nmod tests { time::sleep(a) }").len(), 1);
    }

    #[test]
    fn one_file_reads_the_clock() {
        let text = "let now = Instant::now();";
        assert_eq!(broken_in(CLOCK_FILE, text).len(), 0);
        assert_eq!(broken_in("crates/sqlite/src/source.rs", text).len(), 1);
        assert_eq!(broken_in("bench/src/main.rs", text).len(), 0);
        assert_eq!(broken_in("crates/postgres/src/session.rs", text).len(), 1);
        assert_eq!(broken_in("crates/postgres/src/session.rs", "tokio::time::timeout(a, b)").len(), 0);
    }

    #[test]
    fn one_file_of_a_crate_spawns_tasks() {
        let spawner = |path| File::new(path, "fn a() {\n    tokio::spawn(b);\n}\n");
        let process = File::new("crates/cli/src/run.rs", "Command::new(a).spawn();");
        let tests = File::new("crates/cli/src/b.rs", "#[cfg(test)]\nmod tests { tokio::spawn(a) }");
        assert_eq!(broken(&[spawner("crates/cli/src/a.rs"), process, tests]).len(), 0);
        assert_eq!(broken(&[spawner("crates/cli/src/a.rs"), spawner("crates/relay/src/a.rs")]).len(), 0);
        let places = broken(&[spawner("crates/cli/src/a.rs"), spawner("crates/cli/src/c.rs")]);
        assert_eq!(
            places,
            ["crates/cli/src/a.rs, crates/cli/src/c.rs: only one file of a crate spawns tasks"]
        );
    }

    #[test]
    fn the_tool_for_servers_may_wait_and_spawn_but_not_be_unfinished() {
        let text = "fn a() {\n    Instant::now();\n    thread::spawn(b);\n    thread::sleep(c);\n}\n";
        let other = File::new("crates/cli/src/a.rs", "fn a() {\n    tokio::spawn(b);\n}\n");
        assert_eq!(broken(&[File::new("crates/servers/src/door.rs", text), other]).len(), 0);
        assert_eq!(broken_in("crates/servers/tests/door.rs", text).len(), 0);
        assert_eq!(broken_in("crates/servers/src/door.rs", "fn a() {\n    todo!()\n}\n").len(), 1);
    }

    #[test]
    fn a_point_that_nothing_passes_is_named() {
        let list = "pub const POINTS: &[&str] = &[\n    \"one\", // first\n    \"two\",\n];\n";
        let user = "fn a() {\n    pass(\"one\");\n}\n#[cfg(test)]\nmod tests { pass(\"two\") }\n";
        let places = broken(&[File::new(POINT_FILE, list), File::new("crates/relay/src/a.rs", user)]);
        assert_eq!(places, ["crates/core/src/point.rs: nothing passes the point `two`"]);
    }
}
