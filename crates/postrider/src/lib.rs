//! Append events to an outbox inside your own transaction.
