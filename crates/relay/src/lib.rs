//! The engine between an outbox and its brokers.
