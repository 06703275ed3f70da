//! `init --from` on tables whose status is no word, whose columns are domains, and whose names have quotes in them (F1).

use postrider_servers::Database;

use crate::world::World;

/// The table, how its name is typed, the lines that are filled in, and what is said and written before that.
struct Odd {
    sql: String,
    typed: &'static str,
    said: &'static [&'static str],
    written: &'static [&'static str],
    filled: [(&'static str, &'static str); 2],
    /// What a published row holds.
    published: &'static str,
}

fn table(status: &str, rows: &str) -> String {
    format!(
        "create table outbox (id uuid primary key default gen_random_uuid(), event_type text not null default 'Sent', \
         aggregate_id text not null default '7', payload jsonb not null default '{{}}', \
         created_at timestamptz not null default now(), status {status}); create index on outbox (status, created_at, id); {rows}"
    )
}

/// F1, F5: what the words of a number, a letter or a flag mean is not guessed; which there are, and which one new rows have, is said
/// where they are to be filled in.
#[test]
fn words_to_choose_from_are_named() {
    let cases = [
        Odd {
            sql: table("smallint not null default 0 check (status in (0, 1, 9))", ""),
            typed: "outbox",
            said: &[
                "what \"status\" holds in an entry that is pending",
                "smallint, with 0, 1, 9",
                "0 is the default",
            ],
            written: &[
                "pending   = \"?\"    # FILL IN: of type smallint, with 0, 1, 9; 0 is the default of a new row",
            ],
            filled: [("pending", "0"), ("published", "1")],
            published: "1",
        },
        Odd {
            sql: table("int not null", "insert into outbox (status) values (10), (20), (20)"),
            typed: "outbox",
            said: &["integer, with 10, 20"],
            written: &["published = \"?\"    # FILL IN: of type integer, with 10, 20"],
            filled: [("pending", "10"), ("published", "20")],
            published: "20",
        },
        Odd {
            sql: table("char(3) not null default 'N'", "insert into outbox (status) values ('N'), ('S')"),
            typed: "outbox",
            said: &["character(3), with N, S", "N is the default"],
            written: &[
                "pending   = \"?\"    # FILL IN: of type character(3), with N, S; N is the default of a new row",
            ],
            filled: [("pending", "N"), ("published", "S")],
            published: "S",
        },
        Odd {
            sql: table("boolean not null default false", ""),
            typed: "outbox",
            said: &["boolean, with false, true", "false is the default"],
            written: &[
                "pending   = \"?\"    # FILL IN: of type boolean, with false, true; false is the default of a new row",
            ],
            filled: [("pending", "false"), ("published", "true")],
            published: "true",
        },
    ];
    for case in cases {
        adopted(case);
    }
}

/// F1: quotes and capitals in the names of schema, table and columns.
#[test]
fn names_may_hold_quotes_and_capitals() {
    let sql = "
        create schema \"Sho\"\"p.1\";
        create table \"Sho\"\"p.1\".\"Out\"\"Box\" (
            \"Id\" bigint generated always as identity primary key, \"Event\"\"Type\" text not null default 'Sent',
            \"aggregate'Id\" text not null default '7', \"PayLoad\" jsonb not null default '{}',
            \"Created At\" timestamptz not null default now(), \"Status\" text not null default 'NEW'
                check (\"Status\" in ('NEW', 'it''s \"SENT\"')));
        create index on \"Sho\"\"p.1\".\"Out\"\"Box\" (\"Status\", \"Id\")";
    adopted(Odd {
        sql: sql.to_owned(),
        typed: "\"Sho\"\"p.1\".\"Out\"\"Box\"",
        said: &["NEW = pending", "with it's \"SENT\""],
        written: &[
            "table = 'Out\"Box'",
            "type           = 'Event\"Type'",
            "aggregate_id   = \"aggregate'Id\"",
            "time           = \"Created At\"",
        ],
        filled: [("pending", "NEW"), ("published", "it's \\\"SENT\\\"")],
        published: "it's \"SENT\"",
    });
}

/// F1: a domain is told by what it is over, and its checks and defaults are the column's.
#[test]
fn domains_are_known_by_what_they_are_over() {
    let domains = "create type word as enum ('Queued', 'Done', 'Dead'); create domain word_of as word; \
        create domain state_word as word_of default 'Queued'; create domain number as smallint check (value in (0, 1)); \
        create domain number_of as number default 0; create domain document as jsonb; create domain moment as timestamptz;";
    let of = |status: &str| {
        let own = table(status, "").replace("jsonb", "document").replace("timestamptz", "moment");
        format!("{domains} {own}")
    };
    adopted(Odd {
        sql: of("state_word not null"),
        typed: "outbox",
        said: &["Queued = pending, Done = published, Dead = dead"],
        written: &["time           = \"created_at\"", "payload        = \"payload\"", "payload = \"json\""],
        filled: [("pending", "Queued"), ("published", "Done")],
        published: "Done",
    });
    adopted(Odd {
        sql: of("number_of not null"),
        typed: "outbox",
        said: &["number_of, with 0, 1", "0 is the default"],
        written: &["FILL IN: of type number_of, with 0, 1; 0 is the default of a new row"],
        filled: [("pending", "0"), ("published", "1")],
        published: "1",
    });
}

/// Adopts the table, fills in what is left open, and relays what is in it: `check`, `run` and `append` agree.
fn adopted(odd: Odd) {
    let (world, database) = (World::new(), Database::create_blocking());
    database.query(&odd.sql);
    let wrote = world.run(&["init", "--from", &database.url(), "--table", odd.typed]);
    for part in odd.said {
        assert!(wrote.stderr.contains(part), "\"{part}\" in {}", wrote.stderr);
    }
    wrote.ok();
    let mut files = std::fs::read_dir(world.directory.path())
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap());
    let file = files.find(|name| name.ends_with("-layout.toml")).unwrap();
    let mut layout = world.read(&file);
    for line in odd.written {
        assert!(layout.contains(line), "{line} in {layout}");
    }
    for (state, word) in odd.filled {
        layout = layout.replace(&format!("{state:9} = \"?\""), &format!("{state:9} = \"{word}\""));
    }
    world.write(&file, &layout);
    world.run(&["migrate"]).ok();
    world.run(&["check"]).ok();
    let id = world.append("Sent", "7", "{}");
    world.run(&["run", "--until-empty"]).ok();
    assert!(world.landed().contains(&id), "{}", world.landed());
    let status = layout
        .lines()
        .find(|line| line.starts_with("status "))
        .and_then(|line| line.split('"').nth(1))
        .unwrap();
    let schema = if odd.typed == "outbox" { "outbox" } else { odd.typed };
    let row = format!("select distinct \"{status}\"::text from {schema}");
    assert_eq!(database.query(&row), [[Some(odd.published.to_owned())]]);
}
