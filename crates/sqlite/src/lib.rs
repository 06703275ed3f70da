//! The SQLite outbox: source, store, append, migrations.
