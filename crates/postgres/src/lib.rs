//! The PostgreSQL outbox: source, store, append, migrations.
//!
//! Three ways of claiming: `cursor` for append-only tables, `lease` and `hold` for status tables. Everything that runs was
//! compiled from the layout and the live table once (`sql/`), is prepared once per connection, and takes a batch.
