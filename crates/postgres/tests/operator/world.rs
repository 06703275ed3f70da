//! A database of the test's own, tables in it, and what `check` says of them.

use postrider_core::layout::Way;
use postrider_core::store::{Filter, Store};
use postrider_core::{EntryId, Layout, State};
use postrider_postgres::{Config, Finding, PostgresStore, Weight, check, migrate, open_store};
use postrider_servers::Database;

pub(crate) struct World {
    pub(crate) database: Database,
    pub(crate) layout: Layout,
}

impl World {
    /// The layout's table is created by `sql`, unless it is the native one.
    pub(crate) async fn new(layout: Layout, sql: &str) -> Self {
        let world = Self { database: Database::create().await, layout };
        world.run(sql).await;
        world.migrated().await;
        world
    }

    /// Postrider's own tables are not there yet.
    pub(crate) async fn bare(layout: Layout, sql: &str) -> Self {
        let world = Self { database: Database::create().await, layout };
        world.run(sql).await;
        world
    }

    pub(crate) async fn native() -> Self {
        Self::new(Layout::built_in("native").unwrap(), "").await
    }

    pub(crate) async fn migrated(&self) {
        migrate(&self.config()).await.unwrap();
    }

    pub(crate) fn config(&self) -> Config {
        Config::new(&self.database.url(), self.layout.clone(), "operator").unwrap()
    }

    /// The same as another user.
    pub(crate) fn config_as(&self, user: &str) -> Config {
        let url = self.database.url().replacen("//postgres@", &format!("//{user}@"), 1);
        assert!(url.contains(user), "the tests' server is not reached as postgres: {url}");
        Config::new(&url, self.layout.clone(), "operator").unwrap()
    }

    pub(crate) async fn store(&self) -> PostgresStore {
        open_store(&self.config()).await.unwrap()
    }

    /// Runs SQL without holding up the runtime.
    pub(crate) async fn run(&self, sql: &str) -> Vec<Vec<Option<String>>> {
        let (url, sql) = (self.database.url(), sql.to_owned());
        tokio::task::spawn_blocking(move || {
            postrider_servers::query(&url, &sql).unwrap_or_else(|error| panic!("{error}, of: {sql}"))
        })
        .await
        .unwrap()
    }

    /// The one value that a query answers.
    pub(crate) async fn one(&self, sql: &str) -> String {
        self.run(sql).await.remove(0).remove(0).unwrap_or_default()
    }

    pub(crate) async fn check(&self) -> Found {
        Found(check(&self.config()).await)
    }
}

/// What `check` said.
#[derive(Debug)]
pub(crate) struct Found(pub(crate) Vec<Finding>);

impl Found {
    /// Asserts that there is a finding of a weight with these words in it; answers its remedy.
    pub(crate) fn expect(&self, weight: Weight, words: &[&str]) -> &str {
        let matches = |finding: &&Finding| {
            let text = finding.fault.to_string();
            finding.weight == weight && words.iter().all(|word| text.contains(word))
        };
        match self.0.iter().find(matches) {
            Some(finding) => &finding.fault.remedy,
            None => panic!("no {weight:?} with {words:?} in:\n{self}"),
        }
    }

    /// Asserts that nothing of a weight has these words in it.
    pub(crate) fn expect_none(&self, weight: Weight, word: &str) {
        let found = self
            .0
            .iter()
            .find(|finding| finding.weight == weight && finding.fault.to_string().contains(word));
        assert!(found.is_none(), "{}", found.unwrap().fault);
    }

    pub(crate) fn count(&self, weight: Weight) -> usize {
        self.0.iter().filter(|finding| finding.weight == weight).count()
    }
}

impl std::fmt::Display for Found {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|finding| writeln!(f, "{:?}: {}", finding.weight, finding.fault))
    }
}

/// Event ids of what a filter chooses.
pub(crate) async fn list(store: &PostgresStore, filter: Filter) -> Vec<String> {
    store.list(&filter).await.unwrap().iter().map(|line| line.event_id.to_string()).collect()
}

pub(crate) fn of(state: State) -> Filter {
    Filter { state: Some(state), ..Filter::default() }
}

pub(crate) fn only(id: impl Into<EntryId>) -> Filter {
    Filter { ids: vec![id.into()], ..Filter::default() }
}

pub(crate) async fn state(store: &PostgresStore, id: &EntryId) -> State {
    store.show(id).await.unwrap().unwrap().listed.state
}

/// A status table; its columns are as `create` has them.
pub(crate) fn letters(more: &str, words: &str) -> Layout {
    let text = format!(
        r#"
        name = "letters"
        table = "letters"
        way = "lease"
        [columns]
        id = "id"
        type = "kind"
        source = {{ constant = "/test" }}
        aggregate_type = {{ constant = "Letter" }}
        aggregate_id = "subject"
        payload = "payload"
        time = "written_at"
        status = "status"
        {more}
        [status]
        {words}
        "#
    );
    Layout::parse("letters.toml", text.as_bytes()).unwrap()
}

pub(crate) const WORDS: &str = "pending = \"NEW\"\npublished = \"SENT\"\ndead = \"FAILED\"";

/// What [`letters`] maps, with an index that claims can use.
pub(crate) const LETTERS: &str = "
    create table letters (
        id bigint generated always as identity primary key, kind text not null default 'a.letter.sent.v1',
        subject text not null default 'x', payload text not null default '{}',
        written_at timestamptz not null default now(), status varchar(20) not null default 'NEW'
    );
    create index letters_open on letters (status, id);
";

pub(crate) fn held(layout: Layout) -> Layout {
    let order = postrider_core::layout::Order::None;
    Layout { way: Way::Hold, order, ..layout }
}
